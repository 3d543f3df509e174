"""Products of tall blocks: equal to the plain ones, to the last bit for any thread count."""

import numba
import numpy as np
import pytest

from mustlink.kernels import tall


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


def test_sums_do_not_depend_on_threads(small_tasks):
    X = np.random.default_rng(0).standard_normal((500, 4))
    before = numba.get_num_threads()
    results = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        results.append((tall.gram(X, X), tall.combine(X, np.eye(4)[:, :3])))
    numba.set_num_threads(before)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
