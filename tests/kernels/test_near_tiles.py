"""Tiles of products against comparing number by number, for registers of every width."""

import numba as nb
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mustlink.kernels import tiles


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("shape", [(16, 8), (8, 4), (4, 4)])
def test_a_bit_for_everyone_who_is_near(monkeypatch, shape):
    monkeypatch.setattr(tiles, "_shape", lambda: shape)
    near_tile = nb.extending.intrinsic(tiles._typed_near)

    @nb.njit
    def run(queries, panels, own, radii, lower, upper, masks):
        d, groups = queries.shape[1], queries.shape[0] // 8
        for p in range(lower.size // 32):
            for g in range(groups):
                near_tile(
                    queries, g, panels, p * 32 * d, d, own, radii,
                    lower, upper, p, masks, (p * groups + g) * 4,
                )  # fmt: skip

    rng = np.random.default_rng(0)
    for d in (1, 2, 7, 32, 90):
        Q = rng.integers(-5, 6, size=(24, d)).astype(np.float32)
        P = rng.integers(-5, 6, size=(64, d)).astype(np.float32)
        own, radii = rng.integers(0, 9, size=(2, 24)).astype(np.float32)
        lower = rng.integers(-9, 9, size=64).astype(np.float32)
        upper = (lower - rng.integers(0, 9, size=64)).astype(np.float32)
        own[3], radii[4], upper[5], lower[6], upper[6] = np.nan, np.inf, -np.inf, np.inf, np.inf
        masks = np.zeros(2 * 3 * 4, np.uint64)
        panels = np.ascontiguousarray(P.reshape(2, 32, d).transpose(0, 2, 1)).ravel()
        run(Q, panels, own, radii, lower, upper, masks)
        bits = (masks[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        found = bits.reshape(2, 24, 32).transpose(1, 0, 2).reshape(24, 64)
        with np.errstate(invalid="ignore"):
            near = (own[:, None] + lower - radii[:, None] <= Q @ P.T) | (
                own[:, None] + upper <= Q @ P.T
            )
        assert_array_equal(found, near)


@nb.njit
def _lowest(word):
    return tiles.lowest_bit(word)


def test_the_lowest_bit():
    words = [1, 2, 12, 1 << 40, (1 << 63) + (1 << 17)]
    assert [_lowest(np.uint64(w)) for w in words] == [0, 1, 2, 40, 17]
