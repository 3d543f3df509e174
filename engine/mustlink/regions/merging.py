"""Small regions of a picture, and the order in which neighbours are joined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.kernels.region_merging import borders, merged
from mustlink.kernels.watershed import flood, minima
from mustlink.regions.words import N_COLOURS, N_TEXTURES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LEVELS = 256
_BLUR = 2.0  # pixels: of edges before their basins are found
_MOST = 2000  # small regions; a picture of more is blurred more
# a to h of `Merging`; a is such that stopping at even odds was best on the pictures they are from.
_WEIGHTS = (0.15, 0.79, 1.21, 1.58, 0.285, 0.16, -0.28)


def small_regions(edges: Floats) -> tuple[Ints, int]:
    """Basins (h, w) of edge strengths in [0, 1], numbered from 0, and how many, 2,000 at most."""
    blur = _BLUR
    while True:
        blurred = ndimage.gaussian_filter(edges, blur, mode="nearest")
        levels = heights(np.sqrt(blurred))
        markers, count = minima(levels)
        if count <= _MOST:
            return flood(levels, markers), count
        blur *= 1.5


def heights(values: Floats) -> Ints:
    """Values in [0, 1] as whole numbers from 0 to 255, which water rises by."""
    return np.minimum((values * _LEVELS).astype(np.int64), _LEVELS - 1)


@dataclass(frozen=True, eq=False)
class Merging:
    """How k regions become one: pairs (k − 1, 2) in order, and their log-odds (k − 1,).

    The log-odds that two neighbours are different things are

    a + b log(e + .01) + c H(colours) + d H(textures) + f log s + g log S + h log(l/r),

    e the mean edge strength on their border, H the Hellinger distance of histograms of words, s and
    S the shares of the picture that the smaller and the larger have, l the length of the border and
    r that of the shorter of both rims. Regions of less than 1/2000 of the picture, or 16 pixels,
    are joined before all others. Constants by logistic regression against what people
    segmented in 90 pictures of BSDS500, on pairs met in merging (as in Ren & Shakhnarovich 2013).
    """

    pairs: Ints
    odds: Floats

    @classmethod
    def of(cls, regions: Ints, k: int, edges: Floats, hues: Ints, textures: Ints) -> Merging:
        """Join regions (h, w), 0 to k − 1, by edges, colour words and texture words (h, w)."""

        def counts(words: Ints, n: int) -> Floats:
            found = np.bincount(regions.ravel() * n + words.ravel(), minlength=k * n)
            return found.reshape(k, n).astype(np.float64)

        colours, grains = counts(hues, N_COLOURS), counts(textures, N_TEXTURES)
        lengths, strengths = borders(regions, edges, k)
        return cls(*merged(colours, grains, lengths, strengths, np.array(_WEIGHTS)))

    def count(self, odds: float = 0.0) -> int:
        """Regions left when pairs are first met that are likelier different than `odds` says."""
        beyond = np.flatnonzero(self.odds > odds)
        joined = beyond[0] if beyond.size else self.odds.size
        return int(self.odds.size + 1 - joined)

    def labels(self, k: int) -> Ints:
        """Which of k regions every small one is in, numbered by their first."""
        n = len(self.pairs) + 1
        root = np.arange(n)
        for a, b in self.pairs[: n - k][::-1]:
            root[b] = root[a]
        return np.asarray(np.unique(root, return_inverse=True)[1], dtype=np.int64)
