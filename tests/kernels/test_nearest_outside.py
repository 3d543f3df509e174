"""Nearest rows of other groups and of one's own, against all pairs compared."""

import numpy as np
import pytest

from mustlink.kernels import nearest_lists as kernel


def cases():
    rng = np.random.default_rng(0)
    yield "one row", rng.random((1, 3)), 1, 1
    yield "one coordinate", rng.random((200, 1)), 5, 3
    yield "one group", rng.random((70, 4)), 6, 1
    yield "many coordinates", rng.standard_normal((300, 77)).astype(np.float32), 40, 9
    yield "equal rows", rng.integers(0, 2, (500, 3)).astype(np.float32), 20, 4
    yield "far from 0", rng.random((400, 5)) + 1e6, 30, 7


CASES = {name: case for name, *case in cases()}


@pytest.mark.parametrize("task", [1, 1 << 24])
@pytest.mark.parametrize("name", CASES)
def test_equals_all_pairs_compared(name, task, monkeypatch):
    monkeypatch.setattr(kernel, "_TASK", task)
    X, count, groups = CASES[name]
    rng = np.random.default_rng(1)
    group = rng.integers(0, groups, len(X))
    own = rng.integers(0, groups + 1, count)  # the last of them has no row
    Q = X[rng.integers(0, len(X), count)].astype(float)
    D = ((X.astype(float)[None] - Q[:, None]) ** 2).sum(axis=2)

    def check(found, allowed):
        rows, values = found
        wanted = np.where(allowed, D, np.inf)
        np.testing.assert_allclose(values, wanted.min(axis=1), rtol=1e-12, atol=1e-20)
        there = allowed.any(axis=1)
        assert np.array_equal(np.isfinite(values), there)
        at = wanted[np.arange(count), rows][there]
        np.testing.assert_allclose(at, values[there], rtol=1e-12, atol=1e-20)
        if name == "equal rows":  # sums of whole numbers: of equally near rows the first
            assert np.array_equal(rows[there], wanted.argmin(axis=1)[there])

    check(kernel.nearest_outside(X, group, Q, own), group != own[:, None])
    named = rng.integers(-1, count, len(X))
    check(kernel.nearest_inside(X, named, Q), named == np.arange(count)[:, None])
