"""Auto: the choice is the best of its evidence, and every situation has a sound answer."""

from __future__ import annotations

from copy import copy
from functools import partial
from operator import attrgetter

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import blobs, labelled, planted_graph
from mustlink.advice import auto, auto_input, candidates
from mustlink.advice.candidates import (
    Candidate,
    Held,
    Trial,
    agreements,
    compare,
    pairs_right,
    ranked,
)
from mustlink.clusterers.label_clusters import NAMED, Columns, LabelClusters, Priors
from mustlink.constraints import Constraints
from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import NEVER, Recorder, Unheard
from mustlink.discretize.satisfaction import rows_moved_by_pairs
from mustlink.eigen.memory_work import laplacian_of, smoothest
from mustlink.errors import InputError
from mustlink.persistence.attributes import check_attributes
from on_disk import stored

N, K = 120, 3


def points(k=K, n=N, seed=0, apart=5.0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(n, 4)) + apart * np.eye(k, 4)[y], y


def pairs_of(y, m, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.choice(y.size, (m, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    return Constraints.from_pairs(pairs, belief=belief, n_nodes=y.size)


def network(seed=0):
    W, y = planted_graph(np.random.default_rng(seed), N, K, inside=0.4, across=0.04)
    return W, y


def apart(seed=0):
    """Two parts without an edge between them, of which only one has labels of every class."""
    W, y = network(seed)
    return sp.block_diag([W, W], format="csr"), np.concatenate([y, y])


X, Y = points()
TWO, OF_TWO = points(2)
W, OF_NODES = network()
PARTS, OF_PARTS = apart()
SAME = np.repeat(X[:40], 3, axis=0)
ONE_OF = labelled(Y, [8, 8, 1])

# data, what is known, classes, options; and how near the answer must be
SITUATIONS = {
    "nothing": (X, {}, Y, {"n_clusters": K}),
    "nothing, K counted": (X, {}, Y, {}),
    "labels": (X, {"y": labelled(Y, 6)}, Y, {}),
    "labels by name": (X, {"y": np.array(["", "a", "b", "c"])[labelled(Y, 6) + 1]}, Y, {}),
    "labels as constraints": (X, {"constraints": Constraints.from_labels(labelled(Y, 6))}, Y, {}),
    "1 label a class": (X, {"y": labelled(Y, 1)}, Y, {}),
    "a class of one label": (X, {"y": ONE_OF}, Y, {}),
    "labels of one class": (X, {"y": np.where(labelled(Y, 6) == 0, 0, -1)}, Y, {"n_clusters": K}),
    "pairs": (X, {"constraints": pairs_of(Y, 60)}, Y, {"n_clusters": K}),
    "few pairs": (X, {"constraints": pairs_of(Y, 8)}, Y, {"n_clusters": K}),
    "pairs, two clusters": (TWO, {"constraints": pairs_of(OF_TWO, 60)}, OF_TWO, {"n_clusters": 2}),
    "two classes": (TWO, {"y": labelled(OF_TWO, 4)}, OF_TWO, {}),
    "both": (X, {"y": labelled(Y, 2), "constraints": pairs_of(Y, 40)}, Y, {"n_clusters": K}),
    "network": (W, {"y": labelled(OF_NODES, 8)}, OF_NODES, {"affinity": "precomputed"}),
    "network, pairs": (
        W,
        {"constraints": pairs_of(OF_NODES, 80)},
        OF_NODES,
        {"affinity": "precomputed", "n_clusters": K},
    ),
    "network, both": (
        W,
        {"y": labelled(OF_NODES, 8), "constraints": pairs_of(OF_NODES, 20)},
        OF_NODES,
        {"affinity": "precomputed", "n_clusters": K},
    ),
    "two components": (
        PARTS,
        {"y": labelled(OF_PARTS, 30, np.random.default_rng(0))},
        OF_PARTS,
        {"affinity": "precomputed"},
    ),
    "equal rows": (SAME, {"y": labelled(np.repeat(Y[:40], 3), 9)}, np.repeat(Y[:40], 3), {}),
}


@pytest.fixture(scope="module")
def of_labels():
    """One fit for all that leave it as it is."""
    return fitted("labels")[0]


def expected(row):
    """What is to be expected of a candidate of which nothing is held out."""
    return row["usual"] + 0.6 * (row["edges"] or row["agrees"] or 0.0)


def fitted(name, **more):
    data, known, y, options = SITUATIONS[name]
    return ml.Auto(**{"random_state": 0, **options, **more}).fit(data, **known), y


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_choice_is_the_best_of_its_evidence_and_a_sound_answer(name):
    est, y = fitted(name)
    rows = est.candidates_
    best = max(rows, key=lambda row: row["score"])
    if est.candidates_ and sum(row["held_out"] == 1.0 for row in rows) > 1:
        best = next(row for row in rows if row["chosen"] and row["held_out"] == 1.0)
    assert [row["name"] for row in rows if row["chosen"]] == [best["name"]] == [est.method_]
    assert est.report_.choices["auto"][0] == est.method_
    assert adjusted_rand_score(est.labels_, y) > 0.9
    tried = [row for row in rows if row["held_out"] is not None]
    if not tried:
        assert all(row["score"] == expected(row) for row in rows)
        return
    # every score is between what was found and what was to be expected, by one weight
    usual = np.array([expected(row) for row in tried])
    held = np.array([row["held_out"] for row in tried])
    score = np.array([row["score"] for row in tried])
    usual += held.mean() - usual.mean()
    far = np.abs(held - usual) > 1e-9
    share = (score - usual)[far] / (held - usual)[far]
    np.testing.assert_allclose(share, share[0], atol=1e-9)
    assert 0 < share[0] < 1


@pytest.mark.parametrize("name", ["both", "network, both"])
def test_labels_of_all_classes_are_spread_beside_pairs_too(name, monkeypatch):
    """And then single nodes move by the pairs, in the answer as in the trials; not without."""
    way = {"both": candidates.OF_BOTH, "network, both": candidates.BOTH_OF_NETWORKS}[name][0]
    data, known, y, options = SITUATIONS[name]
    first = partial(sorted, key=lambda one: one.name != way.name)
    monkeypatch.setattr(auto, "ranked", lambda tried, enough: first(tried))
    est = ml.Auto(random_state=0, **options).fit(data, **known)
    assert est.method_ == way.name
    assert next(one for one in est.candidates_ if one["chosen"])["held_out"] is not None
    assert adjusted_rand_score(est.labels_, y) > 0.9
    plain = copy(est.estimator_)
    plain._pull = 0.0
    with pytest.raises(InputError, match="spreads labels"):
        plain.refit(known["y"], constraints=known["constraints"])
    plain.refit(known["y"])
    both = known["constraints"] + Constraints.from_labels(known["y"])
    moved, _ = rows_moved_by_pairs(est.graph_, plain.labels_, both, est.estimator_._pull, K)
    np.testing.assert_array_equal(est.labels_, moved)


def test_where_nothing_can_be_held_out_what_is_usual_decides():
    est, y = fitted("1 label a class")
    best = max(est.candidates_, key=expected)
    assert est.method_ == best["name"] != "GFHF"
    assert [row["score"] for row in est.candidates_] == list(map(expected, est.candidates_))
    assert max(row["edges"] for row in est.candidates_) == 1.0
    assert adjusted_rand_score(est.labels_, y) > 0.9


@pytest.mark.parametrize(
    ("each", "named", "with_csp"), [(2, True, False), (4, False, False), (6, False, True)]
)
def test_what_is_a_candidate_hangs_on_how_many_labels_a_class_has(each, named, with_csp):
    counts = [each, each, 1]  # of most classes
    est = ml.Auto(random_state=0).fit(X, labelled(Y, counts))
    names = {row["name"] for row in est.candidates_}
    assert ("NCut named by labels" in names) is named
    assert ("GFHF with columns, FastGE and CSP" in names) is with_csp
    assert np.mean(est.labels_ == Y) > 0.9


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", range(6))
def test_labels_that_mislead_do_not_hide_plain_clusters(seed):
    """Of each of two blocks a node with most edges in the other one, and two of its neighbours.

    Propagators predict every one of these labels from the others, and the rest next to at random.
    """
    rng, y = np.random.default_rng(seed), np.repeat([0, 1], 120)
    A = np.triu(rng.random((240, 240)) < np.where(y[:, None] == y, 0.05, 0.014), 1)
    W = sp.csr_matrix(A | A.T, dtype=float)
    cut = ml.NCut(2, random_state=0, affinity="precomputed").fit(W).labels_
    cut, known = (cut if np.mean(cut == y) > 0.5 else 1 - cut), np.full(240, -1)
    for c in (0, 1):
        for stray in np.flatnonzero((y == c) & (cut != c)):
            near = [j for j in W[stray].indices if y[j] == cut[j] == c]
            if len(near) > 1:
                known[[stray, *near[:2]]] = c
                break
    est = ml.Auto(random_state=0, affinity="precomputed").fit(W, known)
    assert next(row for row in est.candidates_ if row["name"] == "LLGC")["held_out"] == 1.0
    agreement = [adjusted_rand_score(one[known < 0], y[known < 0]) for one in (est.labels_, cut)]
    assert agreement[1] > 0.6
    assert agreement[0] > agreement[1] - 0.02


def test_clusters_named_by_labels_are_those_of_the_cut():
    """A class each, the one that most labels say, even where they say one for all."""
    graph = ml.knn_graph(X, random_state=0)
    work = Workspace(graph)
    known = np.full(N, -1)
    known[np.flatnonzero(Y == 0)[:3]] = 0
    known[np.flatnonzero(Y == 1)[:2]] = 0
    known[np.flatnonzero(Y == 1)[2:4]] = 1
    known[np.flatnonzero(Y == 0)[3]] = 2
    P, belief = Priors(ml.Auto(random_state=0), work, None, 0).of((NAMED,), 30.0, known)
    np.testing.assert_array_equal(P.argmax(axis=1), Y)
    np.testing.assert_array_equal(np.sort(P, axis=1), np.tile([0.0, 0.0, 1.0], (N, 1)))
    np.testing.assert_allclose(belief, 30.0 * graph.degrees)


def test_answers_are_clusters_by_the_order_of_the_classes():
    est, y = fitted("labels by name")
    np.testing.assert_array_equal(est.classes_, ["a", "b", "c"])
    np.testing.assert_array_equal(est.embedding_.argmax(axis=1), y)
    np.testing.assert_array_equal(est.labels_, y)
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), y)
    assert est.confidence_.shape == (N,)
    assert est.hierarchy_.shape[1] == 4
    np.testing.assert_array_equal(est.cut_hierarchy(K), y)
    np.testing.assert_array_equal(est.predict(X[:7]), est.labels_[:7])
    asked = ml.next_queries(est, 4, kind="pairs")
    assert asked.shape == (4, 2)
    assert not (SITUATIONS["labels by name"][1]["y"][ml.next_queries(est, 5)] != "").any()
    assert est.graph_ is est.estimator_.graph_
    assert est.n_features_in_ == 4
    with pytest.raises(AttributeError, match="labels_"):
        _ = ml.Auto().labels_


@pytest.mark.parametrize("data", [{"X": X}, {"X": ml.knn_graph(X, random_state=0)}])
def test_nothing_known_is_the_normalised_cut(data):
    est = ml.Auto(K, random_state=0).fit(**data)
    plain = ml.NCut(K, random_state=0).fit(**data)
    assert est.method_ == "NCut"
    np.testing.assert_array_equal(est.labels_, plain.labels_)
    for known in ({"y": np.full(N, -1)}, {"constraints": Constraints.none(N)}):
        again = ml.Auto(K, random_state=0).fit(**data, **known)
        np.testing.assert_array_equal(again.labels_, plain.labels_)


def test_a_single_way_is_the_method_itself(monkeypatch):
    """Where one candidate is left, its fit is that of the estimator with the same parameters."""
    monkeypatch.setattr(auto, "OF_POINTS", auto.OF_POINTS[:1])
    est = ml.Auto(random_state=0).fit(X, labelled(Y, 6))
    plain = ml.GFHF(random_state=0).fit(X, labelled(Y, 6))
    np.testing.assert_array_equal(est.embedding_, plain.label_distributions_)
    assert est.candidates_[0]["held_out"] is None


@pytest.mark.thorough
def test_clusters_and_classes_are_the_same_answer():
    """Of the same prior; classes are by name, clusters by number."""
    names = np.array(["", "a", "b", "c"])
    known = names[labelled(Y, 6) + 1]
    clusters, classes = (
        ml.Auto(random_state=0, answers=one).fit(X, known) for one in ("clusters", "classes")
    )
    assert clusters.method_ == classes.method_
    np.testing.assert_array_equal(clusters.embedding_, classes.label_distributions_)
    np.testing.assert_array_equal(clusters.classes_[clusters.labels_], classes.labels_)
    with pytest.raises(InputError, match="labels of every class"):
        ml.Auto(K, answers="classes").fit(X, constraints=pairs_of(Y, 20))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["labels", "pairs", "both", "network"])
def test_threads_change_nothing(name):
    one, two = fitted(name, n_jobs=1)[0], fitted(name, n_jobs=2)[0]
    np.testing.assert_array_equal(one.labels_, two.labels_)
    for a, b in zip(one.candidates_, two.candidates_, strict=True):
        assert (a["score"], a["chosen"]) == (b["score"], b["chosen"])
    again = clone(one).fit(SITUATIONS[name][0], **SITUATIONS[name][1])
    np.testing.assert_array_equal(one.labels_, again.labels_)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"n_clusters": 0}, {}, "n_clusters"),
        ({"n_clusters": N + 1}, {"constraints": pairs_of(Y, 60)}, "n_clusters"),
        ({}, {"y": labelled(Y, 2)[1:]}, "119 labels for 120 nodes"),
        ({}, {"y": Constraints.from_labels(labelled(Y, 2))}, "pass them as constraints="),
        ({}, {"constraints": [[0, 1]]}, "list given"),
        ({}, {"constraints": Constraints.none(N + 1)}, "121 nodes"),
        ({}, {"belief": 1.0}, "no prior"),
        ({}, {"y": labelled(Y, 2), "prior": np.ones((N, 2))}, "soft labels"),
        ({"answers": "both"}, {}, "answers"),
        ({}, {"graph": W[1:, 1:]}, "119 nodes, but X has 120 points"),
        ({}, {"graphs": W}, "give a list of graphs"),
        ({"affinity": "cosine"}, {}, "affinity"),
    ],
)
def test_what_makes_no_sense_is_a_line_and_changes_nothing(of_labels, options, given, words):
    est = copy(of_labels)
    before = dict(vars(est)) | {one: vars(est)[one] for one in est.get_params()}
    est.set_params(**options)
    before |= options
    with pytest.raises(InputError, match=words) as caught:
        est.fit(X, **given)
    assert "\n" not in str(caught.value)
    assert vars(est) == before
    np.testing.assert_array_equal(est.labels_, before["estimator_"].labels_)


@pytest.mark.thorough
def test_refit_keeps_the_method_and_another_kind_chooses_anew(of_labels):
    est, y = copy(of_labels), Y
    method, graph = est.method_, est.graph_
    est.refit(labelled(y, 9))
    assert (est.method_, est.graph_) == (method, graph)
    assert est.report_.choices["auto"][0] == method
    est.name_clusters({1: "second"})
    est.set_params(n_clusters=K).refit(constraints=pairs_of(y, 60))
    assert est.method_ in {way.name for way in auto.OF_PAIRS}
    assert est.graph_ is graph
    np.testing.assert_array_equal(est.labels_, y)  # clusters keep their numbers
    assert est.cluster_names_ == {1: "second"}
    np.testing.assert_array_equal(est.predict(X[:5]), est.labels_[:5])
    est.refit()
    assert est.method_ == "NCut"
    assert adjusted_rand_score(est.labels_, y) > 0.9


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["nothing", "labels", "pairs"])
def test_new_points_are_joined(name):
    est, y = fitted(name)
    new, of_new = points(seed=1)
    est.add(new[:9])
    assert est.labels_.size == N + 9
    assert adjusted_rand_score(est.labels_, np.concatenate([y, of_new[:9]])) > 0.8
    assert est.method_ == est.report_.choices["auto"][0]
    if name == "labels":
        with pytest.raises(InputError, match="constraints"):
            est.add(new[9:12], constraints=pairs_of(y, 3))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["labels by name", "nothing", "pairs"])
def test_a_saved_one_goes_on_as_the_one_that_was_fitted(name, tmp_path):
    est, y = fitted(name)
    est.save(tmp_path / "model.h5")
    loaded = ml.load(tmp_path / "model.h5")
    assert (type(loaded), type(loaded.estimator_)) == (ml.Auto, type(est.estimator_))
    assert loaded.get_params() == est.get_params()
    assert (loaded.method_, loaded.candidates_) == (est.method_, est.candidates_)
    np.testing.assert_array_equal(loaded.labels_, est.labels_)
    np.testing.assert_array_equal(loaded.predict(X[:9]), est.predict(X[:9]))
    assert loaded.report_.choices["auto"] == est.report_.choices["auto"]
    for one in (loaded, est):
        one.refit(labelled(y, 7))
    assert loaded.method_ == est.method_
    np.testing.assert_array_equal(loaded.labels_, est.labels_)


def test_what_parts_of_a_prior_chose_stays_for_refits_also_of_a_loaded_model(tmp_path, monkeypatch):
    X, y = blobs(np.random.default_rng(3), 200, 3, separation=2.0)
    y[:3] = range(3)
    est = LabelClusters(parts=("FastGE", "NCut"), random_state=0).fit(X, labelled(y, 6))
    before = est.labels_.copy()
    est.save(tmp_path / "model.h5")
    loaded = ml.load(tmp_path / "model.h5")
    for one in (ml.FastGE, ml.NCut):  # nor is anything chosen anew
        monkeypatch.setattr(one, "fit", None)
    monkeypatch.setattr("mustlink.clusterers.informed_clusterer.resolve", None)
    for m in (3, 6, 20):  # half of the labels, the same, three times as many
        for one in (est, loaded):
            one.refit(labelled(y, m))
        np.testing.assert_array_equal(loaded.labels_, est.labels_)
        assert m != 6 or (est.labels_ == before).all()
    assert ml.settled(loaded, draws=1).draws == 1
    monkeypatch.undo()
    with pytest.raises(InputError, match="_parts"):
        check_attributes(loaded, {"_parts": (("NCut", 3, y[:-1]),)}, est.graph_)


def test_a_method_is_chosen_again_where_twice_as_much_is_known(of_labels, monkeypatch):
    chosen = []
    monkeypatch.setattr(ml.Auto, "_decide", lambda self, data, recorder: chosen.append(data))
    monkeypatch.setattr(ml.Auto, "_follow", lambda self, was, recorder: None)
    for m, times in ((7, 0), (12, 0), (13, 1)):  # 18 labels were known
        copy(of_labels).refit(labelled(Y, m))
        assert len(chosen) == times


def test_a_fit_that_knew_nothing_takes_answers():
    plain = ml.NCut(K, random_state=0).fit(X)
    est = ml.Auto.after(plain)
    np.testing.assert_array_equal(est.labels_, plain.labels_)
    est.refit(labelled(Y, 3))
    assert est.graph_ is plain.graph_
    np.testing.assert_array_equal(est.labels_, Y)


@pytest.mark.thorough
def test_of_many_points_a_sample_is_judged(monkeypatch):
    """Candidates see some of the rows, the chosen one all of them."""
    monkeypatch.setattr(auto, "_WHOLE", 50)
    monkeypatch.setattr(auto_input, "sample_rows", lambda n, classes: 30)
    for name in ("labels", "pairs", "equal rows"):
        est, y = fitted(name)
        assert any(row["held_out"] is not None for row in est.candidates_)
        assert adjusted_rand_score(est.labels_, y) > 0.9
        assert est.graph_.n_rows == y.size


def test_time_that_is_up_leaves_an_answer():
    with pytest.warns(match="time limit"):
        est = ml.Auto(random_state=0, time_limit=1e-3).fit(X, labelled(Y, 6))
    assert all(row["held_out"] is None for row in est.candidates_)
    assert set(est.labels_) <= {0, 1, 2}


def test_a_graph_that_stays_on_disk_is_fitted_there(on_disk):
    est = ml.Auto(affinity="precomputed", random_state=0)
    est.fit(stored(W), labelled(OF_NODES, 12))
    assert est.report_.method.endswith("on disk")
    assert adjusted_rand_score(est.labels_, OF_NODES) > 0.9


@pytest.mark.thorough
def test_weights_and_other_graphs_count():
    """Rows that count twice are as rows that are there twice."""
    known, weight = labelled(Y, 6), np.where(np.arange(N) < 30, 2.0, 1.0)
    est = ml.Auto(random_state=0).fit(X, known, sample_weight=weight)
    assert adjusted_rand_score(est.labels_, Y) > 0.9
    views = ml.Auto(random_state=0).fit(X, known, graphs=[ml.knn_graph(X, 5, random_state=1)])
    assert adjusted_rand_score(views.labels_, Y) > 0.9
    assert "graph_weights" in views.graph_.info


# --- what it is made of


def test_agreement_of_all_pairs_is_the_adjusted_rand_index():
    rng = np.random.default_rng(0)
    y, found = rng.integers(4, size=50), rng.integers(3, size=50)
    i, j = np.triu_indices(50, 1)
    both = Constraints.from_pairs(
        np.column_stack([i, j]), belief=np.where(y[i] == y[j], 1.0, -1.0), n_nodes=50
    )
    agreement = pairs_right(found, both, Constraints.none(50))
    np.testing.assert_allclose(agreement, adjusted_rand_score(y, found))
    must = both.having(pairs=both.pairs[both.belief > 0], belief=both.belief[both.belief > 0])
    kept = np.mean(found[must.pairs[:, 0]] == found[must.pairs[:, 1]])
    np.testing.assert_allclose(pairs_right(found, must, Constraints.none(50)), kept)


def test_scores_are_weighed_by_how_much_was_held_out():
    """Two candidates, ten items, trust ten: half of what was found, half of what is usual."""
    right = {"a": np.r_[np.ones(8), 0, 0], "b": np.r_[np.ones(5), np.zeros(5)]}
    found = [Candidate("a", 0.5), Candidate("b", 0.9), Candidate("c", 0.7)]

    def trial(one, fold):
        failed = one.name == "c"
        found = np.full(1, np.nan) if failed else right[one.name]
        return Trial(found, np.ones(found.size), 0.0, "no" * failed)

    assert compare(found, [0], trial, 10.0, Recorder(Unheard()), NEVER) == 10
    mean = (0.8 + 0.5) / 2
    np.testing.assert_allclose(found[0].score, (0.8 + mean - 0.2) / 2)
    np.testing.assert_allclose(found[1].score, (0.5 + mean + 0.2) / 2)
    assert (found[2].score, found[2].held_out, found[2].note) == (-np.inf, None, "no")
    assert [one.name for one in ranked(found)] == ["b", "a", "c"]


def test_clusters_that_one_candidate_alone_finds_count_less():
    """Where no pair is held out; labels have edges instead, and many pairs no agreement."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    answers = {"a": (y + 1) % 3, "b": y, "c": rng.permutation(y)}
    found = [Candidate("a", 0.5), Candidate("b", 0.4), Candidate("c", 0.6)]
    assert (
        compare(found, [], None, 10.0, Recorder(Unheard()), NEVER, lambda one: answers[one.name])
        == 0
    )
    alone = adjusted_rand_score(y, answers["c"])
    np.testing.assert_allclose([one.agrees for one in found], [(1 + alone) / 2] * 2 + [alone])
    np.testing.assert_allclose([one.agrees for one in found], agreements(list(answers.values())))
    assert [one.name for one in ranked(found)] == ["a", "b", "c"]
    assert [one.score for one in found] == [expected(one.row()) for one in found]
    for name in ("1 label a class", "pairs"):
        assert all(row["agrees"] is None for row in fitted(name)[0].candidates_)


@pytest.mark.thorough
def test_with_few_pairs_agreement_decides():
    """That of fits to all pairs; trials are hastened, so nearly that of full fits."""
    est = fitted("few pairs")[0]
    assert all(row["held_out"] is None for row in est.candidates_)
    clusters = {}
    for name in (row["name"] for row in est.candidates_):
        one = ml.Auto(K, random_state=0)
        one._ways = lambda data, name=name: (candidates.WAYS[name],)
        clusters[name] = one.fit(X, constraints=pairs_of(Y, 8)).labels_
    others = agreements(list(clusters.values()))
    np.testing.assert_allclose([row["agrees"] for row in est.candidates_], others, atol=0.1)
    assert "agree with those of the others" in est.report_.choices["auto"][1]


@pytest.mark.parametrize("whole", [True, False])
def test_clusters_are_named_by_labels_only_where_all_rows_are_judged(whole, monkeypatch):
    monkeypatch.setattr(auto, "_WHOLE", N if whole else N - 1)
    est = ml.Auto(random_state=0).fit(X, labelled(Y, 1))
    names = [row["name"] for row in est.candidates_]
    assert ("NCut named by labels" in names) is whole


@pytest.mark.parametrize(
    "way", candidates.OF_POINTS + candidates.OF_NETWORKS, ids=attrgetter("name")
)
def test_every_way_with_labels_is_fitted_and_follows_more_of_them(way, monkeypatch):
    monkeypatch.setattr(ml.Auto, "_ways", lambda self, data: (way,))
    monkeypatch.setattr(ml.Auto, "_runs", lambda *_: True)
    data = X if way in candidates.OF_POINTS else ml.knn_graph(X, random_state=0).affinity
    affinity = "knn" if data is X else "precomputed"
    few, more = labelled(Y, 4), labelled(Y, 7)
    est = ml.Auto(K, affinity=affinity, random_state=0).fit(data, few)
    assert est.method_ == way.name
    assert adjusted_rand_score(Y, est.labels_) > 0.8
    est.refit(more)
    np.testing.assert_array_equal(est.classes_[est.labels_[more >= 0]], more[more >= 0])


def test_of_those_that_predict_all_of_enough_the_one_with_the_fewest_parts_is_taken():
    names = ["GFHF with columns, FastGE and NCut", "GFHF with columns", "GFHF", "LLGC"]
    found = [Candidate(name, 0.5, held_out=1.0) for name in names]
    found[3].held_out, found[3].score = 0.99, 0.9
    assert ranked(found)[0] is found[3]
    order = [one.name for one in ranked(found, enough=True)]
    assert order == ["GFHF", "GFHF with columns", "GFHF with columns, FastGE and NCut", "LLGC"]
    found[2].held_out = None
    assert ranked(found, enough=True)[0] is found[1]


def test_chances_are_those_of_trees_on_columns_and_smooth_vectors():
    graph = ml.knn_graph(X, random_state=0)
    work = Workspace(graph)
    known = labelled(Y, 4)
    found = Columns.of(X, work, 5, 5, 0).chances(known, np.arange(K), 7, 30)
    laplacian = laplacian_of(work)
    rows = np.zeros((N, 5))
    vectors = smoothest(work, 5, seed=0).vectors / laplacian.root_degree[:, None]
    rows[laplacian.nodes] = vectors[:, :5]
    both, at = np.column_stack([X, rows]), known >= 0
    trees = ExtraTreesClassifier(30, random_state=7).fit(both[at], known[at])
    np.testing.assert_array_equal(found, trees.predict_proba(both))


def test_columns_alone_take_no_eigenvectors(monkeypatch):
    monkeypatch.setattr("mustlink.clusterers.label_clusters.smoothest", None)
    work, known = Workspace(ml.knn_graph(X, random_state=0)), labelled(Y, 4)
    found = Columns.of(X, work, 0, 5, 0).chances(known, np.arange(K), 7, 30)
    trees = ExtraTreesClassifier(30, random_state=7).fit(X[known >= 0], known[known >= 0])
    np.testing.assert_array_equal(found, trees.predict_proba(X))


def test_what_was_held_out_is_a_share_of_all_rows():
    """Of one class 90 of 100 rows, all right, of the other 10, of which half is right."""
    one = Candidate("GFHF", 0.5, held_out=0.75, right=[np.array([1.0, 1.0]), np.array([1.0, 0.0])])
    held = Held(4, np.array([0, 95, 1, 96]), np.array([0, 1, 0, 1]))
    known = np.full(100, -1)
    known[[0, 1, 95, 96]] = 0, 0, 1, 1
    for answers in (np.repeat([0, 1], [90, 10]), np.repeat(["b", "a"], [90, 10])):
        found = held.of(one, answers, known)
        assert found == {"of": "labels", "share": 0.95, "n": 4, "by_size": True}
    assert Held(4, np.array([0, 1, 0, 1])).n == 2
    assert Held(9).of(one, known, None) == {"of": "pairs", "share": 0.75}
    assert Held(9).of(Candidate("CSP", 0.5), known, None) is None


def test_a_refit_says_nothing_of_what_was_held_out_before():
    X, y = blobs(np.random.default_rng(0), 300, 4, d=3)
    labels = np.where(np.arange(len(y)) % 20 == 0, y, -1)
    est = ml.Auto(random_state=0).fit(X, labels)
    assert est.report_.extra["held_out"]["n"] > 5
    labels[1] = y[1]
    assert "by_size" not in est.refit(labels).report_.extra.get("held_out", {})


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_without_columns_are_tried_by_more_than_one_way(sparse, tmp_path):
    """Of columns that nothing is learned from the graph's ways are left, and one is judged."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    words = rng.poisson(0.1 + 0.9 * (np.arange(60) % 3 == y[:, None])).astype(float)
    words[words.sum(axis=1) == 0, 0] = 1
    known = np.where(np.arange(240) < 36, y, -1)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        rows = sp.csr_matrix(words) if sparse else file.create_dataset("X", data=words)
        est = ml.Auto(random_state=0).fit(rows, known)
    found = [row["name"] for row in est.candidates_]
    assert found == ["GFHF", "GFHF with FastGE and NCut", "GFHF with FastGE alone"]
    assert all(row["held_out"] is not None for row in est.candidates_)
    assert np.mean(est.labels_ == y) > 0.9
