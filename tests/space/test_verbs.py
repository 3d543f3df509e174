"""The verbs of all spaces against plain arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mustlink.kernels import blocks
from mustlink.kernels import blocks as column_steps
from mustlink.kernels.blocks import normals
from mustlink.space import Dots, Gram, GroupSums, LocalSpace, disk
from mustlink.space.disk import DiskSpace
from split_space import SplitSpace, division, gather, scatter

N = 60
PLACES = ["local", "whole", "split", "crumbs", "disk"]


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch):
    monkeypatch.setattr(blocks, "_ROWS", 7)
    monkeypatch.setattr(column_steps, "_ROWS", 7)
    monkeypatch.setattr(disk, "PASS_BYTES", 1000)
    monkeypatch.setattr(disk, "_LEAST_ROWS", 7)


class Home:
    """One space with a way in and out."""

    def __init__(self, place, n=N, weights=None):
        pieces = {"whole": 1, "split": 3, "crumbs": 7}
        if place == "local":
            self.space, self.to_working_order, self.from_working_order = (
                LocalSpace(n, weights),
                np.array,
                np.asarray,
            )
            return
        if place == "disk":
            self.space = DiskSpace(n)
            self.to_working_order, self.from_working_order = self.space.place, lambda X: X[:]
            self.space.weights = None if weights is None else self.to_working_order(weights)
            return
        self.space = SplitSpace(division(n, pieces[place]))
        self.to_working_order = lambda X: scatter(self.space, X)
        self.from_working_order = lambda X: gather(self.space, X)
        self.space.weights = None if weights is None else self.to_working_order(weights)


@pytest.fixture(params=PLACES)
def home(request):
    return Home(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tolerance(dtype):
    return 1e-12 if dtype == np.float64 else 2e-5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_over_nodes(home, rng, dtype):
    X, Y, Z = (rng.standard_normal((N, b)).astype(dtype) for b in (3, 2, 3))
    groups = rng.integers(0, 4, N)
    x, y, z, g = (home.to_working_order(V) for V in (X, Y, Z, groups))
    before = getattr(home.space, "reductions", 0)
    G, d, s = home.space.sums(Gram([x, y], z), Dots(x, z), GroupSums(x, g, 5))
    assert getattr(home.space, "reductions", 1) == before + 1
    X, Y, Z = (V.astype(np.float64) for V in (X, Y, Z))
    np.testing.assert_allclose(G, np.hstack([X, Y]).T @ Z, atol=1e-12)
    np.testing.assert_allclose(d, (X * Z).sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(s, [X[groups == k].sum(axis=0) for k in range(5)], atol=1e-12)
    np.testing.assert_allclose(home.space.gram(x, z), X.T @ Z, atol=1e-12)
    np.testing.assert_allclose(home.space.dots(x, z), (X * Z).sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(home.space.norms(x), np.linalg.norm(X, axis=0), atol=1e-12)
    np.testing.assert_allclose(home.space.norms(y, x)[0], np.linalg.norm(Y, axis=0), atol=1e-12)
    assert all(part.dtype == np.float64 for part in (G, d, s))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [3, 2])
def test_linear_combinations(home, rng, dtype, width):
    X, Y = (rng.standard_normal((N, b)).astype(dtype) for b in (3, 2))
    C, C2 = rng.standard_normal((5, width)), rng.standard_normal((5, 4))
    both, atol = np.hstack([X, Y]), tolerance(dtype)
    x, y = home.to_working_order(X), home.to_working_order(Y)
    np.testing.assert_allclose(
        home.from_working_order(home.space.combine([x, y], C)), both @ C, atol=atol
    )
    np.testing.assert_allclose(
        home.from_working_order(home.space.combine(x, C[:3])), X @ C[:3], atol=atol
    )
    home.space.subtract(y, x, C2[:3, :2])
    np.testing.assert_allclose(home.from_working_order(y), Y - X @ C2[:3, :2], atol=atol)
    y = home.to_working_order(Y)
    first, second = home.space.recombine([x, y], C, C2)
    np.testing.assert_allclose(home.from_working_order(first), both @ C, atol=atol)
    np.testing.assert_allclose(home.from_working_order(second), both @ C2, atol=atol)
    assert (first is x) == (width == 3)
    assert first.dtype == second.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("terms", [0, 1, 2])
@pytest.mark.parametrize("some", [False, True])
def test_blending_in_place(home, rng, dtype, terms, some):
    width = 2 if some else 4
    X = rng.standard_normal((N, 4)).astype(dtype)
    V = [rng.standard_normal((N, width)).astype(dtype) for _ in range(terms)]
    keep, a = rng.standard_normal(width), rng.standard_normal((2, width))
    which = np.array([2, 0]) if some else None
    x = home.to_working_order(X)
    pairs = [(home.to_working_order(v), c) for v, c in zip(V, a, strict=False)]
    home.space.blend(x, keep, *pairs, columns=which)
    at = np.arange(4) if which is None else which
    X[:, at] = X[:, at] * keep + sum(v * c for v, c in zip(V, a, strict=False))
    np.testing.assert_allclose(home.from_working_order(x), X, atol=tolerance(dtype))
    assert x.dtype == dtype
    for v, (held, _) in zip(V, pairs, strict=True):
        np.testing.assert_array_equal(home.from_working_order(held), v)
    home.space.blend(x, 2.0, columns=which)  # scalars serve for all columns
    X[:, at] *= 2
    np.testing.assert_allclose(home.from_working_order(x), X, atol=2 * tolerance(dtype))


def test_lessening_tells_the_lengths(home, rng):
    R, V = rng.standard_normal((2, N, 3))
    a = rng.standard_normal(3)
    r = home.to_working_order(R)
    squares = home.space.lessen(r, home.to_working_order(V), a)
    np.testing.assert_allclose(home.from_working_order(r), R - V * a, atol=1e-13)
    np.testing.assert_allclose(squares, ((R - V * a) ** 2).sum(axis=0), atol=1e-12)
    before = home.to_working_order(R)
    less, again = home.space.lessened(before, home.to_working_order(V), a)
    np.testing.assert_allclose(home.from_working_order(less), R - V * a, atol=1e-13)
    np.testing.assert_array_equal(home.from_working_order(before), R)
    np.testing.assert_allclose(again, squares, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_without_one_vector(home, rng, dtype):
    X, v, a = rng.standard_normal((N, 3)).astype(dtype), rng.standard_normal(N), [1.0, -2.0, 0.0]
    found = home.space.without(home.to_working_order(X), home.to_working_order(v), np.array(a))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        home.from_working_order(found), X - np.outer(v, a), atol=tolerance(dtype)
    )


def test_mixing_series(home, rng):
    space, C = home.space, rng.standard_normal((2, 3))
    terms, out = space.series(4, 5), space.series(3, 5)
    values = rng.standard_normal((4, N, 5))
    for t, V in enumerate(values):
        space.blend(terms[t], 0.0, (home.to_working_order(V), 1.0))
    space.mix(out, terms, np.array([3, 1]), C)
    space.mix(out[1:2], terms, np.array([0]), np.array([[2.0]]))
    expected = np.einsum("tnk,tq->qnk", values[[3, 1]], C)
    expected[1] += 2 * values[0]
    for q in range(3):
        np.testing.assert_allclose(home.from_working_order(out[q]), expected[q], atol=1e-13)


def test_making_and_choosing(home, rng):
    X = rng.standard_normal((N, 4))
    x, space = home.to_working_order(X), home.space
    assert not home.from_working_order(space.zeros(3)).any()
    assert space.zeros(2, np.float32).dtype == np.float32
    assert space.zeros(2).shape == (N, 2)
    single = space.copy(x, np.float32)
    np.testing.assert_array_equal(home.from_working_order(single), X.astype(np.float32))
    own = space.copy(x)
    space.blend(own, 0.0)
    np.testing.assert_array_equal(home.from_working_order(x), X)
    for which in (np.array([3, 1]), X[0] > 0, slice(1, 3)):
        np.testing.assert_array_equal(home.from_working_order(space.columns(x, which)), X[:, which])
    np.testing.assert_array_equal(home.from_working_order(space.stack([x, x])), np.hstack([X, X]))
    v = home.to_working_order(X[:, 0])
    np.testing.assert_array_equal(home.from_working_order(space.column(v)), X[:, :1])
    np.testing.assert_allclose(
        home.from_working_order(space.scaled(x, v)), X * X[:, :1], rtol=1e-15
    )
    assert space.scaled(single, v).dtype == np.float32


def test_rows(home, rng):
    X, space = rng.standard_normal((N, 3)), home.space
    groups, C = rng.integers(0, 4, N), rng.standard_normal((4, 2))
    x = home.to_working_order(X)
    np.testing.assert_array_equal(
        home.from_working_order(space.spread(C, home.to_working_order(groups))), C[groups]
    )
    v = rng.standard_normal(N)
    handed = space.spread(C, home.to_working_order(groups), home.to_working_order(v), np.float32)
    assert handed.dtype == np.float32
    np.testing.assert_allclose(home.from_working_order(handed), v[:, None] * C[groups], atol=1e-5)
    (found,) = space.sums(GroupSums(x, home.to_working_order(groups), 4, home.to_working_order(v)))
    expected = [(v[:, None] * X)[groups == k].sum(axis=0) for k in range(4)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    nodes = rng.permutation(N)[:9]
    np.testing.assert_array_equal(space.take(x, nodes), X[nodes])
    np.testing.assert_array_equal(home.from_working_order(space.place(X)), X)
    v = np.round(X[:, :1])  # ties
    order = np.lexsort((np.arange(N), -v[:, 0]))
    np.testing.assert_array_equal(space.largest(home.to_working_order(v), 5), order[:5])
    rows = rng.standard_normal((9, 3))
    space.add_rows(x, nodes, rows)
    X[nodes] += rows
    np.testing.assert_allclose(home.from_working_order(x), X, atol=1e-15)
    sign = space.rowwise(lambda a, b: np.sign(a) * b[:, None], x, home.to_working_order(groups))
    np.testing.assert_array_equal(home.from_working_order(sign), np.sign(X) * groups[:, None])


@pytest.mark.parametrize("place", PLACES)
def test_weights_are_multiplicities(place, rng):
    X, times = rng.standard_normal((N, 2)), rng.integers(1, 4, N)
    home = Home(place, weights=times.astype(float))
    x = home.to_working_order(X)
    repeated = np.repeat(X, times, axis=0)
    found = home.space.gram(x, home.space.weighted(x))
    np.testing.assert_allclose(found, repeated.T @ repeated, atol=1e-12)
    plain = Home(place)
    x = plain.to_working_order(X)
    assert plain.space.weighted(x) is x


def test_the_sign_convention(home):
    X = np.zeros((N, 5))
    X[[3, 40], 0] = 2.0, -2.0  # equal magnitudes: the first node decides
    X[[3, 40], 1] = -2.0, 2.0
    X[[5, 6], 2] = 1.0, -1.5
    X[59, 3] = 1e-300
    x = home.to_working_order(X)
    assert home.space.peaks(x).tolist() == [2.0, -2.0, -1.5, 1e-300, 0.0]
    assert home.space.signs(x).tolist() == [1.0, -1.0, -1.0, 1.0, 1.0]


# --- numbers by counting


@given(st.integers(-(2**40), 2**70), st.integers(1, 30), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_normals_belong_to_seed_node_and_column(seed, n, width):
    whole = normals(np.arange(n), width, seed)
    order = np.random.default_rng(n).permutation(n)
    assert np.array_equal(normals(order, width + 2, seed)[:, :width], whole[order])
    assert not np.array_equal(normals(np.arange(n), width, seed + 1), whole)
    np.testing.assert_allclose(whole, slow_normals(np.arange(n), width, seed), rtol=1e-12)


def slow_normals(nodes, width, seed):
    """The same number by number in Python's own integers."""
    mask = 2**64 - 1

    def mixed(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    step = 0x9E3779B97F4A7C15
    origin = mixed((seed + step) & mask)
    out = np.empty((len(nodes), width))
    for i, node in enumerate(nodes.tolist()):
        row = mixed((origin + node * step) & mask)
        for c in range(width):
            first = mixed((row + (c + 1) * 0xD1B54A32D192ED03) & mask)
            second = mixed((first + step) & mask)
            u, v = ((first >> 11) + 0.5) / 2**53, (second >> 11) / 2**53
            out[i, c] = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    return out


def test_normals_are_normal_and_independent():
    """Kolmogorov-Smirnov and correlations of neighbours in node, column and seed."""
    X = normals(np.arange(50_000), 3, 7)
    assert stats.kstest(X.ravel(), "norm").pvalue > 1e-3
    pairs = [
        (X[:-1, 0], X[1:, 0]),
        (X[:, 0], X[:, 1]),
        (X[:, 0], normals(np.arange(50_000), 1, 8)[:, 0]),
    ]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(50_000)  # five standard errors
        assert abs(np.corrcoef(a**2, b**2)[0, 1]) < 5 / np.sqrt(50_000)


def test_normals_of_a_space_are_those_of_its_nodes(home):
    expected = normals(np.arange(N), 3, 11)
    assert np.array_equal(home.from_working_order(home.space.normals(3, 11)), expected)


@pytest.mark.parametrize("most", [20, N])
def test_a_sample_has_the_same_nodes_in_every_home(rng, most):
    """In memory nodes with an edge are renumbered; on disk those without one weigh 0."""
    linked = np.flatnonzero(rng.random(N) < 0.8)
    order = rng.permutation(linked)
    weights = np.isin(np.arange(N), linked).astype(float)
    in_memory = order[LocalSpace(order.size, numbers=order).sample(most, 3)]
    assert in_memory.size == min(most, linked.size)
    np.testing.assert_array_equal(np.diff(in_memory) > 0, True)
    np.testing.assert_array_equal(Home("disk", weights=weights).space.sample(most, 3), in_memory)
    whole = [Home(place).space.sample(most, 3) for place in PLACES]
    assert all(np.array_equal(one, whole[0]) for one in whole)
