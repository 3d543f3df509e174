"""Where one vector is cut: by constraints, then by the normalised cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
import oracles
from cases import KINDS, planted_graph, random_constraints, random_graph
from mustlink.discretize.assign import cut_profile, kept_profile, splitting_value
from mustlink.discretize.satisfaction import satisfaction
from mustlink.errors import InputError


def kept_weight(side, known):
    """Weight of cannot-links minus must-links that a cut separates, pair by pair."""
    Q = known.to_dense()
    apart = side[:, None] != side
    return -np.triu(np.where(apart, Q, 0.0), 1).sum()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_the_cut_keeps_as_much_as_any_cut(seed, kind):
    rng = np.random.default_rng(seed)
    n = 24
    known = random_constraints(rng, n, kind, k=2 if rng.random() < 0.5 else 3)
    u = np.round(rng.standard_normal(n), 1)  # with ties
    nodes = known.nodes
    values, kept = kept_profile(u[nodes], nodes, known)
    for t in np.flatnonzero(values[1:] > values[:-1]):
        side = u > (values[t] + values[t + 1]) / 2
        assert kept[t] == pytest.approx(kept_weight(side, known), abs=1e-9)
    cut = splitting_value(u[nodes], nodes, known)
    best = max([0.0, *kept[values[1:] > values[:-1]]])
    if best > 0:
        assert kept_weight(u > cut, known) == pytest.approx(best, abs=1e-9)
    else:
        assert cut == 0.0


def test_among_equal_cuts_the_least_normalised_cut():
    rng = np.random.default_rng(0)
    W = random_graph(rng, 30)
    u = rng.standard_normal(30)
    low, high = np.argmin(u), np.argmax(u)
    known = ml.Constraints.from_pairs([[low, high]], belief=-1.0, n_nodes=30)
    profile = cut_profile(W, u)
    cut = splitting_value(u[known.nodes], known.nodes, known, profile)
    assert oracles.ncut_of(W.toarray(), u > cut) == pytest.approx(
        oracles.best_split(W.toarray(), u), abs=1e-12
    )
    assert (u > cut)[high]
    assert not (u > cut)[low]


def test_profile_is_the_normalised_cut_of_every_threshold():
    rng = np.random.default_rng(1)
    W = random_graph(rng, 20, components=2)
    u = np.round(rng.standard_normal(20), 1)
    values, ncut = cut_profile(W, u)
    assert values.size == np.unique(u).size - 1
    for t, value in zip(values, ncut, strict=True):
        assert value == pytest.approx(oracles.ncut_of(W.toarray(), u > t), abs=1e-12)


@pytest.mark.parametrize("estimator", [ml.CSP, ml.FastGE])
def test_a_vector_without_sign_change_is_cut_where_constraints_say(estimator):
    """Sides of very different size push the vector to one sign; the labels still divide it."""
    rng = np.random.default_rng(2)
    W, y = planted_graph(rng, 200, 2, inside=0.3, across=0.02)
    given_labels = np.where(rng.random(200) < 0.15, y, -1)
    est = estimator(2, affinity="precomputed", assign="split", subspace="exact", random_state=0)
    est.fit(W, given_labels)
    known = ml.Constraints.from_labels(given_labels)
    cut = est.embedding_[:, 0]
    best = max(
        satisfaction((cut > t).astype(int), known)["kept_weighted"]
        for t in [0.0, *((np.sort(cut)[1:] + np.sort(cut)[:-1]) / 2)]
    )
    assert satisfaction(est.labels_, known)["kept_weighted"] == pytest.approx(best)


def test_more_than_two_clusters_cannot_be_split():
    W = random_graph(np.random.default_rng(3), 30)
    with pytest.raises(InputError, match="split"):
        ml.CSP(3, affinity="precomputed", assign="split").fit(W)
