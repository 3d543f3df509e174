"""Rows of a taller block come out the same, bit by bit, however the whole is divided."""

import numpy as np
import pytest
import scipy.sparse as sp

from mustlink.kernels import spmm, threads
from mustlink.kernels.blocks import Pieces
from mustlink.space import LocalSpace


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "width"), [(240, 7), (4800, 13), (4800, 200), (72_000, 13)])
def test_combinations_of_rows(size, width, dtype):
    rng, cuts = np.random.default_rng(4), np.arange(25) * size // 24
    X, Y, Z = (rng.standard_normal((size, width)).astype(dtype) for _ in range(3))
    C, D = rng.standard_normal((3 * width, width)), rng.standard_normal((3 * width, 5))
    found = []
    for ranks in (1, 2, 3, 24):
        parts = []
        for own in np.split(np.arange(24), ranks):
            first, end = cuts[own[0]], cuts[own[-1] + 1]
            slices = tuple(slice(cuts[i] - first, cuts[i + 1] - first) for i in own)
            space = LocalSpace(int(end - first), within=Pieces(size, slices))
            V = [block[first:end].copy() for block in (X, Y, Z)]
            rest = V[2].copy()
            space.subtract(rest, V[0], C[:width])
            together = space.combine(V, C)
            parts.append(np.hstack([together, rest, *space.recombine(V, C, D)]))
        found.append(np.concatenate(parts))
    np.testing.assert_allclose(found[0][:, :width], np.hstack([X, Y, Z]) @ C, atol=1e-3)
    for other in found[1:]:
        assert np.array_equal(other, found[0])


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 4, 13, 28])
def test_rows_by_themselves(monkeypatch, width, dtype):
    """The whole is work for all threads, its parts for one: both round alike."""
    rng, size, cuts = np.random.default_rng(5), 1200, np.arange(25) * 50
    monkeypatch.setattr(threads, "SMALL", size * width // 2)
    X, Y, Z = (rng.standard_normal((size, width)).astype(dtype) for _ in range(3))
    a, b, v = rng.standard_normal(width), rng.standard_normal(width), rng.standard_normal(size)
    C, groups = rng.standard_normal((5, width)), rng.integers(0, 5, size)
    S = sp.random_array((size, size), density=20 / size, rng=rng, format="csr").astype(dtype)
    diagonal = rng.random(size).astype(dtype)
    found = []
    for ranks in (1, 3, 24):
        parts = []
        for own in np.split(np.arange(24), ranks):
            rows = slice(cuts[own[0]], cuts[own[-1] + 1])
            space = LocalSpace(rows.stop - rows.start)
            V, U, W = X[rows], Y[rows], Z[rows]
            one, two, less = (space.copy(V) for _ in range(3))
            space.blend(one, a, (U, b))
            space.blend(two, a, (U, b), (W, a))
            space.lessen(less, U, a)
            lessened, _ = space.lessened(V, U, b)
            steps = [space.without(V, v[rows], a), one, two, less, lessened]
            steps.append(space.spread(C, groups[rows], v[rows], dtype))
            # A rank's columns begin with its own rows, so do those of the product's blocks.
            order = np.roll(np.arange(size), -rows.start)
            T = _columns(S[rows], order)
            how = T, X[order], U, diagonal[rows]
            steps += [spmm.spmm(T, X[order]), spmm.spmm_axpby(T, X[order], U, -1.0, 0.7)]
            steps.append(spmm.residual(*how[:3], 1.0, -1.0))
            steps.append(spmm.jacobi_step(*how, (1.0, -1.0, 0.3)))
            steps.append(spmm.chebyshev_step(*how, space.copy(W), (1.0, -1.0, 0.4, 0.3)))
            spmm.add_product(T, X[order], two)
            parts.append(np.hstack([*steps, two]))
        found.append(np.concatenate(parts))
    np.testing.assert_allclose(found[0][:, :width], X - np.outer(v, a), atol=1e-5)
    for other in found[1:]:
        assert np.array_equal(other, found[0])


def _columns(S, order):
    """S with its columns in another order, the entries of a row where they were."""
    place = np.empty(order.size, dtype=np.int32)
    place[order] = np.arange(order.size, dtype=np.int32)
    return sp.csr_array((S.data, place[S.indices], S.indptr), shape=S.shape)
