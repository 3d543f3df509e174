"""What is done by NumPy on small data and by kernels on others: the same answers."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mustlink.constraints.closure import union_find
from mustlink.kernels import blocks, row_hash, spmm


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=[0, 1 << 18], ids=["kernels", "numpy"])
def few(request, monkeypatch):
    for module in (blocks, spmm):
        monkeypatch.setattr(module, "FEW", request.param)
    monkeypatch.setattr(row_hash, "_FEW_ROWS", request.param)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 8, 300])
def test_vector_work(few, rng, n, kind):
    X, V, Y = (rng.normal(size=(n, 3)).astype(kind) for _ in range(3))
    a, b, v, out = rng.normal(size=3), rng.normal(size=2), rng.normal(size=n), np.empty_like(X)
    tol = {"rtol": 1e-5, "atol": 1e-5} if kind == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(blocks.dots(X, Y), (X.astype(float) * Y).sum(axis=0), **tol)
    squares = blocks.lessen(X, V, a, out)
    assert_array_equal(out, (X - V * a).astype(kind))  # rows: to the last bit
    assert_allclose(squares, ((X - V * a) ** 2).sum(axis=0), **tol)
    assert_array_equal(blocks.without(X, v, a), (X - np.outer(v, a)).astype(kind))
    columns, old = np.array([2, 0]), X.copy()
    one, other = Y[:, :2].copy(), V[:, :2].copy()
    blocks.blend(X, b, [(one, 2 * b), (other, 3 * b)], columns)
    expected = old[:, columns] * b + (one * (2 * b) + other * (3 * b))
    assert_array_equal(X[:, columns], expected.astype(kind))
    assert_array_equal(X[:, 1], old[:, 1])


@pytest.mark.parametrize("numbers", [np.int32, np.int64])
def test_groups(few, rng, numbers):
    X, C, scale = rng.normal(size=(90, 4)), rng.normal(size=(7, 4)), rng.normal(size=90)
    groups = rng.integers(6, size=90).astype(numbers)  # the last is empty
    sums = blocks.group_sums(X, groups, 7, scale)
    expected = np.zeros((7, 4))
    np.add.at(expected, groups, scale[:, None] * X)
    assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)
    for kind in (np.float64, np.float32):
        found = blocks.hand_out(C, groups, scale, kind)
        assert found.dtype == kind
        assert_array_equal(found, (scale[:, None] * C[groups]).astype(kind))


@pytest.mark.parametrize("k", [1, 4, 90])
def test_of_equally_near_centres_the_first(few, rng, k):
    X, centers = rng.integers(-2, 3, size=(200, 5)) + 1e6, rng.integers(-2, 3, size=(k, 5)) + 1e6
    gaps = ((X[:, None] - centers) ** 2).sum(axis=2)
    assert_array_equal(blocks.nearest_centre(X, centers), gaps.argmin(axis=1))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_permuted_and_scaled(few, rng, kind):
    W = sp.random(80, 80, 0.2, format="csr", random_state=1)
    nodes, root = rng.permutation(80)[:60], 1 + rng.random(60)
    found = spmm.scaled_permutation(W, nodes, root, np.dtype(kind))
    assert found.dtype == kind
    assert found.has_sorted_indices
    assert_array_equal(np.diff(found.indptr), np.diff(W[nodes][:, nodes].indptr))
    expected = (W.toarray()[np.ix_(nodes, nodes)] / np.outer(root, root)).astype(kind)
    assert_array_equal(found.toarray(), expected)


def test_rows_are_numbered_by_first_appearance(few, rng):
    X = rng.integers(0, 2, size=(60, 3)).astype(np.float32) * rng.choice([-1, 1], size=(60, 1))
    table = row_hash.RowTable(60)
    table.add(X[:20].astype(np.float32))
    table.add(X[20:].astype(np.float32))
    plain = [tuple(row) for row in (X + 0.0).tolist()]
    first = list(dict.fromkeys(plain))
    assert_array_equal(table.nodes, [first.index(row) for row in plain])
    assert_array_equal(table.first, [plain.index(row) for row in first])


@pytest.mark.parametrize("refused", [False, True])
def test_groups_of_links_are_named_by_their_smallest_member(rng, refused):
    """Without two classes in one group all links hold, and their order does not matter."""
    left, right = rng.integers(0, 40, size=(2, 25))
    seed = np.full(40, -1)
    _, component = sp.csgraph.connected_components(
        sp.coo_matrix((np.ones(25), (left, right)), shape=(40, 40)), directed=False
    )
    seed[::3] = rng.integers(0, 3, size=14) if refused else component[::3]
    group, out = union_find(40, left, right, seed)
    _, kept = sp.csgraph.connected_components(
        sp.coo_matrix((np.ones(25)[~out], (left[~out], right[~out])), shape=(40, 40)),
        directed=False,
    )
    assert out.any() == refused
    assert_array_equal(group, [np.flatnonzero(kept == kept[i])[0] for i in range(40)])
    for one in np.unique(group):
        assert np.unique(seed[(group == one) & (seed >= 0)]).size < 2
