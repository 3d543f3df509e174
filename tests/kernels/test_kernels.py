"""Compiled products against plain dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mustlink.constraints.closure import union_find
from mustlink.kernels import blocks as column_steps
from mustlink.kernels import threads
from mustlink.kernels.aggregated_matrix import strong_links
from mustlink.kernels.block_moves import row_cuts
from mustlink.kernels.blocks import group_sums, hand_out, nearest_centre
from mustlink.kernels.row_hash import sort_row
from mustlink.kernels.spmm import (
    add_product,
    chebyshev_step,
    jacobi_step,
    residual,
    scaled,
    spmm,
    spmm_axpby,
)

# fastmath may reorder the sums of a row: a few roundings of the type.
RTOL = {np.float32: 1e-5, np.float64: 1e-13}
seeds = st.integers(0, 2**31)


def random_csr(rng, m, n, dtype=np.float64, index=np.int32, density=0.3):
    A = sp.random(m, n, density, format="csr", rng=rng, data_rvs=rng.standard_normal)
    return sp.csr_matrix(
        (A.data.astype(dtype), A.indices.astype(index), A.indptr.astype(index)), shape=(m, n)
    )


def with_index(A, index):
    """Scipy narrows index arrays where it can; put the wide ones back."""
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    return A


@pytest.mark.thorough
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "b"), [(1, 1, 1), (7, 5, 3), (40, 60, 16), (60, 40, 1)])
def test_spmm_is_the_product(m, n, b, dtype, index):
    rng = np.random.default_rng(m + n + b)
    A = with_index(random_csr(rng, m, n, dtype), index)
    assert A.indices.dtype == index
    X = rng.standard_normal((n, b)).astype(dtype)
    B = rng.standard_normal((m, b)).astype(dtype)
    dense = A.toarray().astype(np.float64)
    Y = spmm(A, X)
    assert Y.dtype == dtype
    np.testing.assert_allclose(Y, dense @ X, rtol=RTOL[dtype], atol=10 * RTOL[dtype])
    Y = spmm_axpby(A, X, B, -0.5, 2.0)
    assert Y.dtype == dtype
    np.testing.assert_allclose(
        Y, -0.5 * (dense @ X) + 2.0 * B, rtol=RTOL[dtype], atol=10 * RTOL[dtype]
    )


def test_small_and_large_products_are_bitwise_the_same(monkeypatch):
    """One thread or many, one result: only the amount of work decides."""
    rng = np.random.default_rng(4)
    A, X = random_csr(rng, 300, 300), rng.standard_normal((300, 5))
    small = spmm(A, X), spmm_axpby(A, X, X, -1.0, 1.0)
    monkeypatch.setattr(threads, "SMALL", 0)
    assert np.array_equal(spmm(A, X), small[0])
    assert np.array_equal(spmm_axpby(A, X, X, -1.0, 1.0), small[1])


def test_empty_rows_and_empty_blocks():
    A = sp.csr_matrix((4, 3))
    assert np.array_equal(spmm(A, np.ones((3, 2))), np.zeros((4, 2)))
    assert np.array_equal(
        spmm_axpby(A, np.ones((3, 2)), np.ones((4, 2)), 3.0, 2.0), np.full((4, 2), 2.0)
    )
    assert spmm(A, np.ones((3, 0))).shape == (4, 0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("small", [0, 1 << 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_by_row_kernels_are_the_dense_formulas(dtype, small, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", small)
    rng = np.random.default_rng(7)
    whole = rng.standard_normal((40, 40)) * (rng.random((40, 40)) < 0.3)
    whole[[0, 5, 39]] = 0.0
    whole = whole.astype(dtype)
    A, exact = sp.csr_matrix(whole), whole.astype(np.float64)
    by = rng.random(40)
    B = sp.csr_matrix((scaled(A, by), A.indices, A.indptr), shape=A.shape)
    assert B.dtype == dtype
    assert np.array_equal(B.toarray(), (exact * (by[:, None] * by)).astype(dtype))
    place = rng.integers(0, 4, 40)
    volume, inside = row_cuts(A, place)
    np.testing.assert_allclose(volume, exact.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(inside, (exact * (place[:, None] == place)).sum(axis=1), atol=1e-13)


@given(st.integers(0, 400), st.integers(0, 5), seeds)
@settings(max_examples=60, deadline=None)
def test_a_row_is_sorted_and_its_neighbours_are_left_alone(held, before, seed):
    rng = np.random.default_rng(seed)
    columns = rng.permutation(2 * held + 2 * before)[: held + 2 * before].astype(np.int32)
    values = rng.standard_normal(columns.size)
    order = np.arange(columns.size)
    row = slice(before, before + held)
    order[row] = before + np.argsort(columns[row])
    expected = columns[order], values[order]
    sort_row(columns, values, before, before + held)
    assert np.array_equal(columns, expected[0])
    assert np.array_equal(values, expected[1])


@given(st.integers(1, 15), st.integers(0, 25), seeds)
@settings(max_examples=60, deadline=None)
def test_union_find_names_groups_by_their_smallest_member(n, links, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, n, links), rng.integers(0, n, links)
    group, refused = union_find(n, left, right, np.full(n, -1, dtype=np.int64))
    reach = np.eye(n, dtype=bool)
    reach[left, right] = reach[right, left] = True
    for k in range(n):
        reach |= reach[:, k : k + 1] & reach[k]
    assert np.array_equal(group, reach.argmax(axis=1))
    assert not refused.any()


def test_union_find_refuses_to_join_two_classes():
    seed = np.array([0, -1, -1, 1])
    group, refused = union_find(4, np.array([0, 1, 2]), np.array([1, 2, 3]), seed)
    assert group.tolist() == [0, 0, 0, 3]
    assert refused.tolist() == [False, False, True]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 40, 3000])
def test_chebyshev_step_is_the_formula(m, dtype):
    rng = np.random.default_rng(m)
    A = sp.random(m, m, 0.1 if m < 100 else 0.01, "csr", random_state=1).astype(dtype)
    X, B, step = (rng.standard_normal((m, 3)).astype(dtype) for _ in range(3))
    inverse = rng.random(m).astype(dtype)
    moved = step.copy()
    found = chebyshev_step(A, X, B, inverse, moved, (0.5, -2.0, 0.3, 0.7))
    true = 0.3 * step + 0.7 * inverse[:, None] * (B - (0.5 * X - 2.0 * (A.toarray() @ X)))
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(moved, true, atol=tolerance)
    np.testing.assert_allclose(found, X + true, atol=tolerance)
    once, left = jacobi_step(A, X, B, inverse, (0.5, -2.0, 0.7)), residual(A, X, B, 0.5, -2.0)
    true = B - (0.5 * X - 2.0 * (A.toarray() @ X))
    np.testing.assert_allclose(left, true, atol=tolerance)
    np.testing.assert_allclose(once, X + 0.7 * inverse[:, None] * true, atol=tolerance)
    add_product(A, X.astype(np.float64), left)
    np.testing.assert_allclose(left, true + A.toarray() @ X, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 17, 40_000])
def test_vector_work_column_by_column(n, dtype):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4)).astype(dtype)
    R, P, V = rng.standard_normal((3, n, 3)).astype(dtype)
    columns, (keep, a, b) = np.array([2, 0, 3]), rng.standard_normal((3, 3))
    atol = 1e-12 if dtype == np.float64 else 1e-5
    plain = [Z.astype(np.float64) for Z in (R, P, V)]
    np.testing.assert_allclose(
        column_steps.dots(R, P), (plain[0] * plain[1]).sum(axis=0), atol=1e-9
    )
    expected = X.copy()
    expected[:, columns] = X[:, columns] * keep + a * P
    column_steps.blend(X, keep, [(P, a)], columns)
    np.testing.assert_allclose(X, expected, atol=atol)
    expected[:, columns] = expected[:, columns] * keep + a * P + b * V
    column_steps.blend(X, keep, [(P, a), (V, b)], columns)
    np.testing.assert_allclose(X, expected, atol=10 * atol)
    squares = column_steps.lessen(R, P, a, R)
    np.testing.assert_allclose(R, plain[0] - a * plain[1], atol=atol)
    # Squares are of the numbers before they are rounded to the block's precision.
    np.testing.assert_allclose(squares, (R.astype(np.float64) ** 2).sum(axis=0), rtol=100 * atol)
    if n:
        at = np.abs(V).argmax(axis=0)
        assert np.array_equal(column_steps.peaks(V), V[at, np.arange(3)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_vector_beside_a_block(monkeypatch, dtype):
    monkeypatch.setattr(column_steps, "_ROWS", 8)
    rng = np.random.default_rng(1)
    X, v, a = rng.standard_normal((50, 3)).astype(dtype), rng.standard_normal(50), np.arange(3.0)
    np.testing.assert_allclose(column_steps.along(v, X), v @ X.astype(float), rtol=1e-5)
    found = column_steps.without(X, v, a)
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, X - np.outer(v, a), atol=1e-12 if dtype != np.float32 else 1e-6
    )


def test_rows_by_group():
    rng = np.random.default_rng(3)
    X, groups, scale = rng.standard_normal((50, 3)), rng.integers(0, 4, 50), rng.random(50)
    place = np.eye(5)[groups] * scale[:, None]
    np.testing.assert_allclose(group_sums(X, groups, 5, scale), place.T @ X, atol=1e-13)
    C = rng.standard_normal((5, 2))
    np.testing.assert_allclose(hand_out(C, groups, scale, np.float64), place @ C, atol=1e-14)
    assert hand_out(C, groups, scale, np.float32).dtype == np.float32


def test_sums_are_the_same_for_any_number_of_threads():
    import numba

    X = np.random.default_rng(0).standard_normal((100_000, 3))
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = column_steps.dots(X, X)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(one, column_steps.dots(X, X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_centre_is_the_nearest(dtype):
    rng = np.random.default_rng(5)
    X, centers = rng.standard_normal((50, 3)).astype(dtype), rng.standard_normal((6, 3))
    centers[4] = centers[1]  # of equally near ones the first
    gaps = ((X[:, None, :].astype(float) - centers) ** 2).sum(axis=2)
    assert np.array_equal(nearest_centre(X, centers), gaps.argmin(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [0.0, 1e3, 1e9])
def test_of_many_centres_the_same_is_nearest(dtype, far):
    rng = np.random.default_rng(6)
    centers = far + rng.standard_normal((70, 9))
    centers[40:] = centers[:30]  # of equally near ones the first
    X = np.concatenate([centers, far + rng.standard_normal((5000, 9))]).astype(dtype)
    X[-3:] = (centers[3] + centers[5]) / 2  # halfway, to rounding
    gaps = np.stack([sum((X[:, c].astype(float) - g[c]) ** 2 for c in range(9)) for g in centers])
    assert np.array_equal(nearest_centre(X, centers), gaps.argmin(axis=0))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("n", "density"), [(1, 1.0), (30, 0.2), (3000, 0.04)])
def test_strong_links_are_large_for_one_of_their_ends(n, density, share):
    rng = np.random.default_rng(n)
    A = sp.random_array((n, n), density=density, rng=rng, data_sampler=rng.standard_normal)
    A = sp.csr_matrix(A + A.T)
    dense = np.abs(A.toarray())
    np.fill_diagonal(dense, 0.0)
    largest = dense.max(axis=1)
    wanted = (dense > 0) & (dense >= share * np.minimum.outer(largest, largest))
    found = strong_links(A, share)
    assert np.array_equal(found.toarray(), wanted.astype(np.int8))
    assert (found != found.T).nnz == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_a_product_are_the_same_in_blocks_of_any_width(dtype):
    """Vectors that overlap at the end of a block sum every column in the order of the entries."""
    rng = np.random.default_rng(0)
    A, X = random_csr(rng, 30, 20, dtype), rng.standard_normal((20, 50)).astype(dtype)
    alone = np.hstack([spmm(A, X[:, c : c + 1]) for c in range(50)])
    np.testing.assert_allclose(alone, A.toarray() @ X, rtol=1e-5, atol=1e-5)
    for width in range(1, 51):
        assert np.array_equal(spmm(A, X[:, :width]), alone[:, :width])
