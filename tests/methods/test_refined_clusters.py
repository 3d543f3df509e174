"""refine=True: clusters of a network moved on by the block model, what is known held."""

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.rounding.block_model import BlockModel

INFORMED = ["CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE", "SRCP", "E2CP", "SSKK"]


def network(k=3, n=150):
    """Blocks with hubs, one node alone: (CSR, classes)."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    size = 0.4 + rng.pareto(2.5, n)
    size[7] = 0.0
    rate = np.where(y[:, None] == y, 0.2, 0.05) * np.outer(size, size)
    A = np.triu(rng.random((n, n)) < rate, 1)
    return sp.csr_matrix((A + A.T).astype(float)), y


def likelihood(W, labels, k):
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    return BlockModel.of(laplacian, labels[laplacian.nodes], k).likelihood


@pytest.mark.parametrize("name", INFORMED)
def test_clusters_are_likelier_and_constrained_nodes_stay(name):
    W, y = network()
    known = np.where(np.arange(y.size) < 12, y, -1)
    known[7] = -1  # without an edge
    plain = getattr(ml, name)(3, affinity="precomputed", random_state=0)
    moved = getattr(ml, name)(3, affinity="precomputed", random_state=0, refine=True)
    before, after = plain.fit(W, known).labels_, moved.fit(W, known).labels_
    assert likelihood(W, after, 3) >= likelihood(W, before, 3)
    assert (after[known >= 0] == before[known >= 0]).all()
    assert (after[7] == -1) == (before[7] == -1)


def test_pairs_hold_their_nodes_and_copies_count():
    W, y = network()
    rng = np.random.default_rng(1)
    pairs = rng.permutation(np.delete(np.arange(y.size), 7))[:40].reshape(-1, 2)
    given = ml.Constraints.from_pairs(
        pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0), n_nodes=y.size
    )
    counts = rng.integers(1, 4, y.size)
    plain, moved = (
        ml.CSP(3, affinity="precomputed", random_state=0, refine=refine).fit(
            W, constraints=given, sample_weight=counts
        )
        for refine in (False, True)
    )
    assert (plain.labels_[pairs] == moved.labels_[pairs]).all()
    assert (plain.labels_ != moved.labels_).any()


def test_refine_is_yes_or_no():
    W, y = network()
    with pytest.raises(InputError, match="refine: 'auto' is neither True nor False"):
        ml.CSP(3, affinity="precomputed", refine="auto").fit(W, y)
