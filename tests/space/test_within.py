"""Rows of a taller block come out the same, bit by bit, however the whole is divided."""

import numpy as np
import pytest

from mustlink.kernels.blocks import Pieces
from mustlink.space import LocalSpace


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
