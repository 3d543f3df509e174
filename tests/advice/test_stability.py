"""Clusters found again without half of the edges."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, jaccard_score

import mustlink as ml
from cases import blobs, planted_graph, random_graph
from mustlink.advice.stability import _overlaps, without_edges
from mustlink.errors import InputError


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_are_jaccard_indices(seed):
    rng = np.random.default_rng(seed)
    labels, found = rng.integers(-1, 4, 40), rng.integers(-1, 6, 40)
    labels[labels == 2] = 0
    for c, overlap in enumerate(_overlaps(labels, found)):
        if not (labels == c).any():
            assert np.isnan(overlap)
            continue
        best = max(jaccard_score(labels == c, found == one) for one in range(6))
        assert overlap == pytest.approx(best)


def test_a_part_of_the_edges_goes_and_nothing_else():
    W = random_graph(np.random.default_rng(0), 80, 2, isolated=2) + sp.diags_array(np.ones(80))
    graph = ml.Graph.from_affinity(sp.csr_matrix(W))
    rest = without_edges(graph, 0.5, 3).affinity
    assert (rest != rest.T).nnz == 0
    assert np.array_equal(rest.diagonal(), W.diagonal())
    kept = rest != 0
    assert (rest != graph.affinity.multiply(kept)).nnz == 0
    assert 0.3 < (rest.nnz - 80) / (W.nnz - 80) < 0.7
    assert (without_edges(graph, 0.5, 3).affinity != rest).nnz == 0
    assert (without_edges(graph, 0.0, 3).affinity != graph.affinity).nnz == 0


def test_clusters_of_the_data_are_stable_and_one_too_many_is_not():
    X, y = blobs(np.random.default_rng(1), 300, 4, 3, separation=9.0)
    right = ml.NCut(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, right.labels_) > 0.95
    assert ml.stability(right).mean > 0.95
    more = ml.stability(ml.NCut(7, random_state=0).fit(X))
    assert np.nanmin(more.clusters) < 0.7
    assert more.mean < ml.stability(right).mean
    assert np.array_equal(ml.stability(right).ari, ml.stability(right).ari)


def test_every_draw_leaves_out_edges_of_its_own():
    """Draws are fits to graphs without some edges, which the caller's seed chooses."""
    W, _ = planted_graph(np.random.default_rng(0), 90, 3, inside=0.2, across=0.05)
    est = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    rng, draws = np.random.default_rng(7), []
    for _ in range(3):
        rest = without_edges(est.graph_, 0.5, int(rng.integers(2**31)))
        found = ml.NCut(3, affinity="precomputed", random_state=0).fit(rest).labels_
        draws.append(adjusted_rand_score(est.labels_, found))
    assert len(set(draws)) > 1
    np.testing.assert_array_equal(ml.stability(est, 3, random_state=7).ari, draws)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["CSP", "SSSC", "SRCP", "SSKK", "FastGE", "CSCGFHF", "Auto"])
def test_what_is_known_is_known_again(method):
    X, y = blobs(np.random.default_rng(2), 300, 3, 2)
    X[100:110] = X[100]  # equal rows are one node
    labels = np.where(np.arange(300) % 10 == 0, y, -1)
    est = getattr(ml, method)(3, random_state=0).fit(X, labels)
    before = est.labels_.copy()
    found = ml.stability(est, n_draws=2, share=0.2)
    assert found.ari.shape == (2,)
    assert found.clusters.shape == (3,)
    assert found.mean > 0.9
    assert np.array_equal(est.labels_, before)


def test_what_it_refuses():
    W, y = planted_graph(np.random.default_rng(0), 60, 2)
    est = ml.NCut(2, affinity="precomputed").fit(W)
    with pytest.raises(InputError, match="share"):
        ml.stability(est, share=1.5)
    with pytest.raises(InputError, match="n_draws"):
        ml.stability(est, n_draws=0)
    spread = ml.GFHF(affinity="precomputed").fit(W, np.where(np.arange(60) < 8, y, -1))
    with pytest.raises(InputError, match="GFHF has no graph in memory"):
        ml.stability(spread)
    with pytest.raises(Exception, match="not fitted"):
        ml.stability(ml.NCut(2))
