"""Weights by the values at the ends of edges, against numpy with all pairs written out."""

import numpy as np

from cases import random_graph
from mustlink.kernels.region_merging import over_lengths


def test_over_lengths():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        W, f = random_graph(rng, 40), rng.random(40)
        rows, columns = W.tocoo().row, W.indices
        expected = 3.0 * W.data / np.sqrt((f[rows] - f[columns]) ** 2 + 0.1**2)
        np.testing.assert_array_equal(over_lengths(W, f, 3.0, 0.1), expected)
