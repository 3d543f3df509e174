"""Doubts about clusters of networks: each on a graph that shows it, none on one that does not."""

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.clusterers.ncut import NormalizedCut
from mustlink.core.observe import Recorder
from mustlink.discretize.cuts import network_scores, warn_of_gap, warn_of_sizes
from mustlink.selection.regularization import Regularization, RegularizationTried

PAPERS = {"variant": "luxburg", "regularization": 0}
DOUBTS = ("one cluster holds", "are crumbs", "whole components", "the gap after")


def planted(sizes, inside, outside, seed=0):
    """A block model, (n, n), and its blocks."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    share = np.where(y[:, None] == y, inside, outside)
    upper = np.triu(rng.random(share.shape) < share, 1)
    return sp.csr_matrix((upper | upper.T).astype(float)), y


def hung(W, tails, length):
    """The same with paths that hang on nodes 0, 1 …, by one edge each."""
    n, (i, j) = W.shape[0], W.nonzero()
    total = n + tails * length
    new = np.arange(n, total).reshape(tails, length)
    before = np.column_stack([np.arange(tails), new[:, :-1]])
    rows = np.concatenate([i, new.ravel(), before.ravel()])
    columns = np.concatenate([j, before.ravel(), new.ravel()])
    return sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(total, total))


def doubts(W, k, **options):
    """Which of the doubts a cut into k raises."""
    est = ml.NCut(k, affinity="precomputed", random_state=0, **options).fit(W)
    told = est.report_.warnings
    return [at for at, words in enumerate(DOUBTS) if any(words in one for one in told)], est


CLEAR, BLOCKS = planted([60, 70, 80], 0.3, 0.02)
TWO_HALVES = planted([150, 150], 0.2, 0.02, 1)[0]


def test_clear_blocks_raise_no_doubt_and_are_scored():
    found, est = doubts(CLEAR, 3)
    assert found == []
    assert est.report_.extra["network"] == network_scores(CLEAR, est.labels_)
    assert "modularity" in repr(est.report_)


def test_a_giant_and_its_rim():
    found, est = doubts(hung(TWO_HALVES, 2, 5), 3, **PAPERS)
    assert np.bincount(est.labels_).max() > 295
    assert 0 in found
    assert 1 not in found


def test_crumbs_beside_two_halves():
    W = hung(planted([700, 700], 0.05, 0.0005)[0], 5, 8)
    found, est = doubts(W, 7, **PAPERS)
    assert np.sort(np.bincount(est.labels_))[-2] > 600
    assert 1 in found
    assert 0 not in found
    assert 1 not in doubts(W, 2, **PAPERS)[0]


def test_components_as_the_answer():
    W = sp.block_diag([CLEAR, planted([20], 0.5, 0)[0], planted([25], 0.5, 0)[0]]).tocsr()
    found, est = doubts(W, 3, **PAPERS)
    assert 2 in found
    assert "the largest has 82.4% of the nodes" in " ".join(est.report_.warnings)
    found, _ = doubts(W, 5, **PAPERS)  # which cuts the large one, too
    assert 2 not in found


def test_a_heap_of_components_is_called_one():
    W = sp.block_diag([planted([50], 0.4, 0, seed)[0] for seed in range(4)]).tocsr()
    _, est = doubts(W, 2)
    told = " ".join(est.report_.warnings)
    assert sorted(np.bincount(est.labels_)) == [50, 150]
    heap = int(np.bincount(est.labels_).argmax())
    assert f"cluster {heap} is a heap of 3 components with 75.0% of the nodes" in told
    assert "there are 4 components" in told
    assert "by itself" not in told
    assert "heap" not in " ".join(doubts(W, 4)[1].report_.warnings)


def test_few_nodes_are_crumbs_where_an_even_share_is_few():
    def told(sizes):
        recorder = Recorder()
        warn_of_sizes(np.array(sizes), len(sizes), recorder)
        return any("are crumbs" in one for one in recorder.warnings)

    assert told([396, *[30] * 19, *[1, 2, 3] * 7, 3])
    assert not told([396, *[30] * 19, *[4] * 22])
    assert told([700, 600, *[8] * 5])
    assert not told([4, 3, 3, 2, 2])


def test_a_tiny_gap_where_more_clusters_are_asked_for_than_there_are():
    noise = planted([300], 0.05, 0)[0]
    assert 3 in doubts(noise, 9)[0]
    assert 3 not in doubts(CLEAR, 3)[0]


@pytest.mark.thorough
def test_refit_and_pairs_are_scored_too():
    y = np.where(np.arange(BLOCKS.size) % 10 == 0, BLOCKS, -1)
    est = ml.CSP(3, affinity="precomputed", random_state=0).fit(CLEAR, y)
    assert est.report_.extra["network"] == network_scores(CLEAR, est.labels_)
    est.refit(BLOCKS)
    assert est.report_.extra["network"] == network_scores(CLEAR, est.labels_)


def test_a_tiny_gap_is_one_beside_the_range_of_the_eigenvalues():
    def told(values, beyond):
        recorder = Recorder()
        empty = np.empty((0, len(values)))
        warn_of_gap(
            NormalizedCut(np.empty(0, int), empty, np.array(values), None, beyond), recorder
        )
        return bool(recorder.warnings)

    for shift in (0.0, 0.3, 0.8):  # as τ > 0 lifts all of them
        assert told([shift, shift + 0.1, shift + 0.199], shift + 0.2)
        assert not told([shift, shift + 0.01, shift + 0.02], shift + 0.03)


@pytest.mark.parametrize("tau", [0.3, 1.0])
def test_no_gap_in_a_random_graph_whatever_is_added_to_the_degrees(tau):
    W, _ = planted([1200], 0.01, 0.0)
    assert 3 in doubts(W, 6, regularization=tau)[0]
    assert 3 not in doubts(planted([400] * 3, 0.03, 0.002)[0], 3, regularization=tau)[0]


@pytest.mark.thorough
def test_pairs_of_isolated_nodes_neither_count_nor_choose():
    n, alone = BLOCKS.size, 100
    W = sp.block_diag([CLEAR, sp.csr_matrix((alone, alone))], format="csr")
    y = np.append(BLOCKS, np.arange(alone) % 3)
    pairs = np.random.default_rng(0).integers(0, n + alone, (240, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=n + alone)
    est = ml.CSP(3, affinity="precomputed", random_state=0).fit(W, constraints=known)
    told = est.report_.satisfaction
    counted = (known.merged[0] < n).all(axis=1)
    assert told["n_must"] + told["n_cannot"] == np.count_nonzero(counted)
    assert told["n_unclustered"] == np.count_nonzero(~counted)
    assert told["balanced"] > 0.95
    assert max(score for *_, score, _ in est.report_.extra["candidates"]) > 0.95


def test_clusters_that_tell_less_than_their_trial_give_way(monkeypatch):
    W = hung(TWO_HALVES, 3, 5)
    tried = (RegularizationTried(0.3, 0.2, 0.5), RegularizationTried(0.0, 9.0, 0.5))
    lucky = Regularization(0.0, "a lucky trial", tried)
    monkeypatch.setattr("mustlink.selection.regularization._best_of", lambda *_: lucky)
    _, est = doubts(W, 2)
    tau, reason = est.report_.choices["regularization"]
    assert tau == 0.3
    assert "with 0 the final ones tell only 0.0" in reason
    monkeypatch.undo()
    np.testing.assert_array_equal(est.labels_, doubts(W, 2, regularization=0.3)[1].labels_)


def test_what_keeps_its_promise_or_has_no_better_stays():
    tried = (RegularizationTried(1.0, 0.9, 0.5), RegularizationTried(0.3, 1.0, 0.5))
    regular = Regularization(0.3, "", tried)
    assert regular.instead(0.96) is None
    assert regular.instead(0.93) is None
    assert regular.instead(0.85).tau == 1.0
    assert Regularization(0.3, "given").instead(0.0) is None


def test_advice_is_what_the_method_takes():
    """Nobody is sent from NCut to constraints, and from a method without any to NCut, in turn."""
    W = hung(planted([700, 700], 0.05, 0.0005)[0], 5, 8)
    crumbs = [one for one in doubts(W, 7, **PAPERS)[1].report_.warnings if "crumbs" in one]
    assert crumbs[0].endswith("or add more to the degrees: regularization=1")
    every = [
        *doubts(W, 7, regularization=1)[1].report_.warnings,
        *doubts(planted([300], 0.05, 0)[0], 9)[1].report_.warnings,
        *doubts(sp.csr_matrix(np.kron(np.eye(3), np.ones((4, 4)))), 3)[1].report_.warnings,
    ]
    assert any("hardly tells" in one for one in every)
    for words in ("constraints", "CSP", "say more", "regularization"):
        assert not any(words in one for one in every)

    def few(**how):
        recorder = Recorder()
        warn_of_sizes(np.array([5, 6, 0]), 3, recorder, **how)
        return recorder.warnings[0]

    assert few().endswith("ask for fewer clusters or give more constraints")
    assert few(informed=False).endswith("ask for fewer clusters")
