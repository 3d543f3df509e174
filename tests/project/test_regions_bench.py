"""Covering, by which cuts without strokes are judged, against loops over all pairs of parts."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from pictures import covering, overlaps


def slow(truth, found):
    total = 0.0
    for part in np.unique(truth):
        mine = truth == part
        best = 0.0
        for other in np.unique(found):
            theirs = found == other
            best = max(best, (mine & theirs).sum() / (mine | theirs).sum())
        total += mine.sum() * best
    return total / truth.size


@pytest.mark.parametrize("parts", [(1, 1), (1, 5), (5, 1), (4, 7)])
def test_covering(parts):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth, found = (3 * rng.integers(0, k, (9, 11)) + 2 for k in parts)
        assert covering(truth, found) == pytest.approx(slow(truth, found))
        assert covering(truth, 100 - truth) == pytest.approx(1.0)
        assert overlaps(truth, found).sum() == truth.size
