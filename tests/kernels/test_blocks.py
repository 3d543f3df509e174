"""Products of tall blocks: equal to the plain ones, to the last bit for any thread count."""

from threading import Event, Thread

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mustlink.kernels import blocks as tall
from mustlink.kernels import tiles
from mustlink.kernels.threads import threads


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(tall, "_ROWS", 7)


@pytest.mark.parametrize("n", [3, 7, 50])
def test_blocks_need_not_be_joined(small_tasks, n):
    rng = np.random.default_rng(n)
    V = [rng.standard_normal((n, b)) for b in (3, 0, 2)]
    U = [rng.standard_normal((n, b)) for b in (1, 0, 4)]
    C = rng.standard_normal((5, 2))
    np.testing.assert_allclose(tall.gram_of(V, U), np.hstack(V).T @ np.hstack(U), atol=1e-12)
    np.testing.assert_allclose(tall.combination(V, C), np.hstack(V) @ C, atol=1e-12)


def test_sums_do_not_depend_on_threads(small_tasks, monkeypatch):
    X = np.random.default_rng(0).standard_normal((500, 4))
    monkeypatch.setattr(tiles, "_ROWS", 70)
    before = numba.get_num_threads()
    results = []
    for count in (1, before):
        numba.set_num_threads(count)
        wide = X[:, [0, 1, 2, 3] * 200]  # too wide for tiles
        found = tall.gram(X, X), tall.combine(X, np.eye(4)[:, :3]), tall.gram(wide, X)
        results.append(found)
    numba.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 63, 200])
@pytest.mark.parametrize("widths", [(1, 0, 0), (13, 13, 13), (8, 9, 17), (2, 40, 1)])
def test_tiles_are_plain_products(n, widths, dtype):
    """Whole tiles and parts of them, rows and columns; the first result may be the first block."""
    rng = np.random.default_rng(n)
    V = [rng.standard_normal((n, b)).astype(dtype) for b in widths]
    U = [V[0], rng.standard_normal((n, 5)).astype(dtype)]
    whole = np.hstack(V).astype(float)
    np.testing.assert_allclose(tiles.gram(V, U), whole.T @ np.hstack(U), atol=1e-12)
    C = rng.standard_normal((sum(widths), widths[0] + 5))
    tiles.combine(V, C, V[0], U[1])
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(np.hstack([V[0], U[1]]), whole @ C, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("widths", [(3, 3), (3, 5), (3, 2), (2, 3)])
def test_two_combinations_at_once(small_tasks, dtype, widths):
    """The first is written over the first block where it is as wide, and only then."""
    rng = np.random.default_rng(1)
    V = [rng.standard_normal((50, b)).astype(dtype) for b in (3, 0, 2)]
    C, C2 = (rng.standard_normal((5, width)) for width in widths)
    before, whole = V[0].copy(), np.hstack(V).astype(float)
    first, second = tall.recombine(V, C, C2)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(first, whole @ C, atol=tolerance)
    np.testing.assert_allclose(second, whole @ C2, atol=tolerance)
    assert first.dtype == second.dtype == dtype
    assert (first is V[0]) == (widths[0] == 3)
    if first is not V[0]:
        np.testing.assert_array_equal(V[0], before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subtracting_in_place(small_tasks, dtype):
    rng = np.random.default_rng(2)
    X, V = rng.standard_normal((50, 4)).astype(dtype), rng.standard_normal((50, 3))
    C, before = rng.standard_normal((3, 4)), X.copy()
    tall.subtract(X, V, C)
    np.testing.assert_allclose(X, before - V @ C, atol=1e-12 if dtype == np.float64 else 1e-5)


def test_sums_over_single_precision_are_double(small_tasks):
    """The sum of 10⁵ squares of 0.1 is that of the rounded number, to 12 digits."""
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    expected = 100_000 * float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(tall.gram(X, X)[0, 0], expected, rtol=1e-12)


def test_work_on_rows_in_threads_is_that_on_all_at_once(monkeypatch):
    monkeypatch.setattr(tall, "_ROWS", 1 << 7)
    monkeypatch.setattr(tall, "_LEAST", 1 << 5)
    rng = np.random.default_rng(2)
    for n in (0, 1, 127, 129, 5000):
        X, v = rng.normal(size=(n, 3)), rng.normal(size=n).astype(np.float32)

        def sums(X, v):
            return X.sum(axis=1) * v

        def wide(X, v):
            return np.hstack([X, v[:, None]]) > 0

        for function in (sums, wide):
            found, expected = tall.by_rows(function, X, v), function(X, v)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_fits_in_threads_put_the_threads_of_blas_back():
    """The first who enters leaves before the other: then one thread works, in the end as before."""
    inside, left = Event(), Event()

    def counts():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    def other():
        with threads(1):
            inside.set()
            left.wait(10)
            seen.append(counts())

    seen = []
    with threads(1):
        """All BLAS there is has been loaded."""
    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with threads(1):
            late = Thread(target=other)
            late.start()
            inside.wait(10)
        left.set()
        late.join()
        assert seen == [{1}]
        assert counts() == before == {2}
