"""Scores: constraints kept, multiple normalised cut, criterion E against dense twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import oracles
from mustlink.constraints import Constraints
from mustlink.discretize.cuts import (
    cluster_cuts,
    conductances,
    e_of,
    mncut,
    mncut_of,
    network_scores,
)
from mustlink.discretize.satisfaction import broken_pairs, kept_by_kind, satisfaction, stray_labels
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels import threads

seeds = st.integers(0, 2**31)


def random_parts(n, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (10, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = rng.choice([1.0, -1.0, 0.3, -0.4], len(pairs))
    Q = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.5)
    found = rng.integers(-1, 3, n)
    return rng, pairs, belief, Q + Q.T, found


def affinity(n, seed):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < 0.4)
    return W + W.T


@given(st.integers(2, 12), seeds)
def test_every_kind_agrees_with_the_dense_count(n, seed):
    rng, pairs, belief, Q, found = random_parts(n, seed)
    y = rng.integers(-1, 4, n)
    for c in (
        Constraints.from_pairs(pairs, belief, n_nodes=n),
        Constraints.from_labels(y),
        Constraints.from_matrix(Q),
        Constraints.from_graph(abs(Q)),
    ):
        expected = oracles.satisfaction_dense(found, c.to_dense())
        assert satisfaction(found, c) == pytest.approx(expected)


@given(st.integers(3, 12), seeds)
def test_mixed_constraints_are_counted_together(n, seed):
    rng, pairs, belief, Q, found = random_parts(n, seed)
    parts = [
        Constraints.from_pairs(pairs, belief, n_nodes=n),
        Constraints.from_labels(rng.integers(-1, 4, n)),
        Constraints.from_matrix(Q),
    ]
    alone = [satisfaction(found, c) for c in parts]
    both = satisfaction(found, parts[0] + parts[1] + parts[2])
    assert both["n_must"] == sum(s["n_must"] for s in alone)
    broken = sum((1 - s["cannot_kept"]) * s["n_cannot"] for s in alone)
    assert (1 - both["cannot_kept"]) * both["n_cannot"] == pytest.approx(broken)


def test_pairs_of_nodes_in_no_cluster_are_counted_apart():
    found = np.array([0, -1, -1, 1, 0])
    for belief in (1, -1):
        c = Constraints.from_pairs([[1, 2], [0, 1], [0, 4], [0, 3]], belief, n_nodes=5)
        told = satisfaction(found, c)
        assert (told["balanced"], told["kept"], told["n_unclustered"]) == (0.5, 0.5, 2)
        assert broken_pairs(found, c)[0].tolist() == [[0, 3] if belief > 0 else [0, 4]]
        nobody = satisfaction(np.full(5, -1), c)
        assert (nobody["balanced"], nobody["kept_weighted"], nobody["n_unclustered"]) == (0, 0, 4)


@given(st.integers(4, 14), seeds)
def test_held_out_labels_are_scored_against_the_kept_ones(n, seed):
    rng = np.random.default_rng(seed)
    c, found = Constraints.from_labels(rng.integers(-1, 3, n)), rng.integers(-1, 3, n)
    kept, held = c.split(0.3, seed)
    added = oracles.satisfaction_dense(found, c.to_dense() - kept.to_dense())
    assert satisfaction(found, held, given=kept) == pytest.approx(added)


@given(st.integers(3, 12), seeds)
def test_held_out_pairs_are_scored_alone(n, seed):
    _, pairs, belief, Q, found = random_parts(n, seed)
    for c in (Constraints.from_pairs(pairs, belief, n_nodes=n), Constraints.from_matrix(Q)):
        kept, held = c.split(0.4, seed)
        assert satisfaction(found, held, given=kept) == pytest.approx(satisfaction(found, held))


def test_nothing_to_keep_counts_as_kept():
    result = satisfaction(np.zeros(4, dtype=int), Constraints.none(4))
    assert result == {
        "must_kept": 1.0,
        "cannot_kept": 1.0,
        "balanced": 1.0,
        "kept": 1.0,
        "kept_weighted": 1.0,
        "n_must": 0,
        "n_cannot": 0,
        "n_unclustered": 0,
    }


def test_a_closure_is_scored_on_the_pairs_given():
    c = Constraints.from_pairs([[0, 1], [1, 2], [2, 3]], [1, 1, -1], n_nodes=4)
    found = np.array([0, 0, 1, 1])
    assert satisfaction(found, c) == satisfaction(found, c.closure())


def test_weights_count_in_kept_weighted_only():
    c = Constraints.from_pairs([[0, 1], [1, 2]], [3.0, 1.0], n_nodes=3)
    result = satisfaction(np.array([0, 0, 1]), c)
    assert (result["kept"], result["kept_weighted"]) == (0.5, 0.75)


def test_twenty_thousand_labels_need_no_cliques():
    rng = np.random.default_rng(0)
    y = np.full(100_000, -1)
    y[:20_000] = rng.integers(0, 10, 20_000)
    result = satisfaction(np.maximum(y, 0), Constraints.from_labels(y))
    assert result["kept"] == 1.0
    assert result["n_must"] + result["n_cannot"] == 20_000 * 19_999 // 2
    # One cluster for all: more pairs than 32 bits hold must not overflow.
    many = Constraints.from_labels(np.zeros(100_000, dtype=int))
    assert satisfaction(np.zeros(100_000, dtype=int), many)["n_must"] == 100_000 * 99_999 // 2


@given(st.integers(1, 12), seeds)
def test_mncut_is_the_dense_sum(n, seed):
    W, found = affinity(n, seed), np.random.default_rng(seed).integers(-1, 3, n)
    for form in (W, sp.csr_matrix(W), sp.coo_matrix(W), sp.csr_array(W)):
        assert mncut(form, found) == pytest.approx(oracles.mncut_dense(W, found))
    of = np.where(found < 0, 3, found)  # the last are in no cluster
    links = np.array([[W[np.ix_(of == a, of == b)].sum() for b in range(4)] for a in range(4)])
    assert mncut_of(links, 1) == pytest.approx(oracles.mncut_dense(W, found))


@pytest.mark.parametrize("small", [0, 1 << 60])
def test_mncut_is_the_same_in_one_thread_and_in_all(small, monkeypatch):
    monkeypatch.setattr(threads, "SMALL", small)
    W = affinity(40, 1)
    found = np.random.default_rng(2).integers(0, 4, 40)
    W[5] = W[:, 5] = 0
    assert mncut(W, found) == pytest.approx(oracles.mncut_dense(W, found))


def test_cuts_and_volumes_of_two_triangles():
    W = np.zeros((7, 7))
    for i, j in [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]:
        W[i, j] = W[j, i] = 1
    found = np.array([8, 8, 8, 2, 2, 2, -1])
    clusters, cut, volume = cluster_cuts(W.astype(np.float32), found)
    assert clusters.tolist() == [-1, 2, 8]
    assert cut.tolist() == [0, 1, 1]
    assert volume.tolist() == [0, 7, 7]
    c = Constraints.from_pairs([[0, 2], [2, 3], [0, 5]], [1, 1, -1], n_nodes=7)
    assert e_of(mncut(W, found) / 2, found, c, 1.0) == pytest.approx(1 - 1 / 7 + 0.5 + 1)
    assert e_of(mncut(W, found), found, c, 0.5) == pytest.approx(1 - 2 / 7 + 0.25 + 0.5)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: satisfaction([0, 1], Constraints.none(3)), "made for 3 nodes but"),
        (lambda: satisfaction([0.5, 1], Constraints.none(2)), "give one integer per node"),
        (lambda: mncut(np.ones((3, 3)), [0, 1]), "2 labels for an affinity of shape (3, 3)"),
    ],
)
def test_bad_input_is_one_clear_line(score, message):
    with pytest.raises(InputError) as caught:
        score()
    assert message in str(caught.value)


@given(st.integers(3, 14), seeds)
def test_conductance_is_the_share_of_weight_across_the_border(n, seed):
    W, found = affinity(n, seed), np.random.default_rng(seed).integers(-1, 4, n)
    clusters, conductance, share = conductances(sp.csr_matrix(W), found)
    assert clusters.tolist() == np.unique(found[found >= 0]).tolist()
    for cluster, phi, part in zip(clusters, conductance, share, strict=True):
        inside = found == cluster
        cut = W[inside][:, ~inside].sum()
        smaller = min(W[inside].sum(), W[~inside].sum())
        assert phi == pytest.approx(cut / smaller if smaller > 0 else 0.0)
        assert part == pytest.approx(W[inside].sum() / W.sum() if W.sum() else 0.0)
        assert 0 <= phi <= 1


def test_conductance_of_components_and_of_everything_is_zero(monkeypatch):
    W = sp.block_diag([np.ones((3, 3)), np.ones((2, 2)), [[0.0]]]).tocsr().astype(np.float32)
    for small in (0, 1 << 60):  # rows in all threads, or in one
        monkeypatch.setattr(threads, "SMALL", small)
        _, conductance, share = conductances(W, np.array([0, 0, 0, 1, 1, 2]))
        assert conductance.tolist() == [0, 0, 0]
        assert share == pytest.approx([9 / 13, 4 / 13, 0])
        assert conductances(W, np.zeros(6, dtype=int))[1].tolist() == [0]
        assert conductances(W, np.array([0, 1, 1, 2, 2, 2]))[1] == pytest.approx([2 / 3, 1 / 3, 0])


@given(st.integers(3, 12), seeds)
def test_kinds_apart_add_up_to_satisfaction(n, seed):
    rng, pairs, belief, Q, found = random_parts(n, seed)
    known = (
        Constraints.from_pairs(pairs, belief, n_nodes=n)
        + Constraints.from_labels(rng.integers(-1, 4, n))
        + Constraints.from_matrix(Q)
    )
    kinds, whole = kept_by_kind(found, known), satisfaction(found, known)
    for kind in ("must", "cannot"):
        assert kinds[kind]["n"] == whole[f"n_{kind}"]
        assert (
            kinds[kind]["kept"] == pytest.approx(whole[f"{kind}_kept"] * whole[f"n_{kind}"] or 0)
            or not kinds[kind]["n"]
        )
        assert kinds[kind]["weight_kept"] <= kinds[kind]["weight"] + 1e-12
    weight = sum(kinds[kind]["weight"] for kind in kinds)
    if weight:
        kept = sum(kinds[kind]["weight_kept"] for kind in kinds)
        assert kept / weight == pytest.approx(whole["kept_weighted"])


@given(st.integers(3, 12), seeds)
def test_broken_pairs_are_those_not_kept_and_the_strongest_come_first(n, seed):
    _, pairs, belief, Q, found = random_parts(n, seed)
    known = Constraints.from_pairs(pairs, belief, n_nodes=n) + Constraints.from_matrix(Q)
    kinds = kept_by_kind(found, known)
    n_broken = sum(kinds[kind]["n"] - kinds[kind]["kept"] for kind in kinds)
    worst, strength = broken_pairs(found, known, most=10**6)
    assert len(worst) == n_broken
    same = found[worst[:, 0]] == found[worst[:, 1]]
    assert (same == (strength < 0)).all()
    assert (np.diff(np.abs(strength)) <= 0).all()
    few, first = broken_pairs(found, known, most=2)
    assert few.tolist() == worst[:2].tolist()
    assert first.tolist() == strength[:2].tolist()


def test_strays_are_the_labelled_nodes_away_from_their_class():
    found = np.array([0, 0, 0, 1, 1, 2, -1, 2, 0])
    given = np.array([5, 5, -1, 5, 7, 7, 7, 7, -1])
    nodes, home = stray_labels(found, given)
    assert nodes.tolist() == [3, 4, 6]
    assert home.tolist() == [0, 2, 2]
    none = np.full(9, -1)
    assert [part.size for part in stray_labels(found, none)] == [0, 0]
    tie = stray_labels(np.array([1, 0]), np.array([3, 3]))  # equally large: the lowest cluster
    assert (tie[0].tolist(), tie[1].tolist()) == ([0], [0])


@given(st.integers(1, 14), seeds)
def test_scores_of_a_network_are_the_dense_sums(n, seed):
    W, found = affinity(n, seed), np.random.default_rng(seed).integers(-1, 4, n)
    told = network_scores(sp.csr_matrix(W), found)
    assert told["modularity"] == pytest.approx(oracles.modularity_dense(W, found), abs=1e-12)
    inside = sum(W[np.ix_(found == k, found == k)].sum() for k in range(4))
    assert told["coverage"] == pytest.approx(inside / W.sum() if W.sum() else 0.0)
    assert told["mncut"] == pytest.approx(mncut(W, found))
    clusters, conductance, _ = conductances(W, found)
    assert told["clusters"] == clusters.tolist()
    assert told["conductance"] == conductance.tolist()
    if clusters.size:
        assert told["worst_conductance"] == conductance.max()
        assert conductance[clusters == told["worst_cluster"]] == conductance.max()
    else:
        assert told["worst_cluster"] is None


@given(st.integers(2, 8), seeds)
def test_nodes_that_stand_for_several_are_scored_as_all_of_them(n, seed):
    rng = np.random.default_rng(seed)
    W, found, times = affinity(n, seed), rng.integers(-1, 3, n), rng.integers(1, 4, n)
    W[0, 1] = W[1, 0] = 1
    folded = Graph.from_affinity(sp.csr_matrix(W)).weighing(times.astype(float))
    every = np.repeat(np.arange(n), times)
    told, expected = network_scores(folded, found), network_scores(W[every][:, every], found[every])
    for name in ("modularity", "coverage", "mncut"):
        assert told[name] == pytest.approx(expected[name], abs=1e-9)
    assert told["conductance"] == pytest.approx(expected["conductance"], abs=1e-9)
