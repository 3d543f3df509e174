"""What a person reads first: constraints kept, feasible vectors, doubts, a report on one screen."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import mustlink as ml
from cases import planted_graph
from mustlink.core.observe import Recorder, StageRecord
from mustlink.core.result import Report, feasible_in_words
from mustlink.discretize.satisfaction import broken_constraints, satisfaction
from mustlink.errors import DoubtfulResultWarning

N = 120


@pytest.fixture(scope="module")
def blobs():
    """Points of three groups, and labels of every tenth."""
    X, truth = make_blobs(N, 3, centers=3, random_state=0)
    return X, np.where(np.arange(N) % 10 == 0, truth, -1)


@pytest.fixture(scope="module")
def planted():
    return planted_graph(np.random.default_rng(0), N, 6)


# ---------------------------------------------------------------- constraints kept


@given(st.integers(0, 2**31))
def test_trivial_answers_keep_half_on_balance(seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate([[0, 0, 1], rng.integers(-1, 4, 20)])  # both kinds of pairs
    known = ml.Constraints.from_labels(y)
    for found in (np.zeros(y.size, dtype=int), np.arange(y.size)):
        assert satisfaction(found, known)["balanced"] == 0.5
        assert "on average" in broken_constraints(found, known)
    perfect = satisfaction(np.maximum(y, 0), known)
    assert perfect["balanced"] == 1
    assert broken_constraints(np.maximum(y, 0), known) is None


def test_must_links_that_are_mostly_broken_are_a_doubt_however_many_cannot_links_are_kept():
    truth = np.repeat(np.arange(10), 6)
    halves = 2 * truth + np.arange(60) % 2  # every class in two clusters
    known = ml.Constraints.from_labels(truth)
    kept = satisfaction(halves, known)
    assert kept["kept"] > 0.9
    assert kept["balanced"] == (kept["must_kept"] + 1) / 2
    assert (
        broken_constraints(halves, known)
        == "40% of the must-links are kept, and 100% of the cannot-links"
    )


@pytest.mark.parametrize(
    ("belief", "found", "words"),
    [
        (-1, [0, 0, 1, 1], "50% of the cannot-links are kept; random clusters of these sizes"),
        (
            1,
            [0, 0, 0, 1],
            "50% of the must-links are kept; random clusters of these sizes keep 62%",
        ),
    ],
)
def test_one_kind_is_compared_with_random_clusters_of_the_same_sizes(belief, found, words):
    pairs = [[0, 1], [0, 2]] if belief < 0 else [[0, 1], [0, 3]]
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=4)
    assert broken_constraints(np.array(found), known).startswith(words)


@pytest.mark.parametrize("subspace", [3, 5, "exact"])
def test_feasible_vectors_are_counted_and_few_of_them_a_doubt(planted, subspace):
    W, truth = planted
    y = np.where(np.arange(N) % 3 == 0, truth, -1)
    est = ml.CSP(n_clusters=6, subspace=subspace, affinity="precomputed", random_state=0).fit(W, y)
    told = est.report_.extra["feasible"]
    assert told == {"found": est.embedding_.shape[1], "wanted": 5}
    said = f"only {told['found']} of 5 vectors feasible"
    assert any(said in one for one in est.report_.warnings) == (2 * told["found"] <= 5)
    assert f"{told['found']} of 5 vectors" in repr(est.report_)


# ---------------------------------------------------------------- what says nothing


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", ["CSP", "SSSC", "SSKK", "SRCP"])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("unknown", "none of the 120 nodes has any"),
        ("one class", "labels: all are of one class"),
        ("nothing", "none of the 120 nodes has any"),
        ("not given", "neither is given; the graph alone was clustered; give some"),
    ],
)
def test_what_says_nothing_is_a_doubt(planted, kind, what, words):
    W, truth = planted
    one = np.where(np.arange(N) % 30 == 0, 2, -1)
    side = {
        "unknown": {"y": np.full(N, -1)},
        "one class": {"constraints": ml.Constraints.from_labels(one)},  # as the shell gives them
        "nothing": {"constraints": ml.Constraints.none(N)},
        "not given": {},
    }[what]
    est = getattr(ml, kind)(n_clusters=6, affinity="precomputed", random_state=0)
    with pytest.warns(DoubtfulResultWarning, match=words):
        est.fit(W, **side)
    few = np.where(np.arange(N) % 3 == 0, truth, -1)
    assert not any(words in one for one in est.fit(W, few).report_.warnings)


def clusters_taken(est):
    """K of a fit, and whether it says that nobody named it."""
    return est.report_.n_clusters, any("n_clusters" in note for note in est.report_.notes)


def test_a_number_of_clusters_that_is_typed_needs_no_note(planted):
    W, _ = planted
    for k, taken in [(None, (8, True)), (8, (8, False)), (6, (6, False))]:
        est = ml.NCut(n_clusters=k, affinity="precomputed", random_state=0).fit(W)
        assert clusters_taken(est) == taken
        assert np.unique(est.labels_).size == taken[0]


@pytest.mark.parametrize("kind", ["CSP", "SRCP", "SSKK", "CSCGFHF", "NCut"])
def test_labels_say_how_many_clusters_there_are(planted, kind):
    W, truth = planted
    few = np.where(np.arange(N) % 20 == 0, truth, -1)
    k = np.unique(few[few >= 0]).size
    init = {"init": "labels"} if kind == "NCut" else {}
    own = {"affinity": "precomputed", "random_state": 0, **init}
    est, asked = (getattr(ml, kind)(n_clusters=one, **own).fit(W, few) for one in (None, k))
    assert clusters_taken(est) == (k, False)
    np.testing.assert_array_equal(est.labels_, asked.labels_)


@pytest.mark.thorough
def test_labels_of_one_class_say_nothing_of_their_number(planted):
    W, _ = planted
    pairs = ml.Constraints.from_pairs([[0, 1], [2, 3]], n_nodes=N)
    est = ml.SSSC(affinity="precomputed", random_state=0)
    one = np.where(np.arange(N) % 30 == 0, 2, -1)
    for side in ({"y": one}, {"constraints": pairs}):
        assert clusters_taken(est.fit(W, **side)) == (8, True)


@pytest.mark.parametrize("kind", ["CSP", "E2CP"])
def test_refit_with_more_classes_makes_more_clusters(planted, kind):
    W, truth = planted
    few = np.where(np.arange(N) % 10 < 2, truth, -1)
    est = getattr(ml, kind)(affinity="precomputed", random_state=0)
    est.fit(W, np.where(few < 3, few, -1))
    assert est.report_.n_clusters == 3
    assert est.refit(few).report_.n_clusters == 6
    fresh = getattr(ml, kind)(affinity="precomputed", random_state=0).fit(W, few)
    assert adjusted_rand_score(est.labels_, fresh.labels_) == 1  # numbers are those before


# ---------------------------------------------------------------- refit


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["SSSC", "SRCP"])
def test_refit_takes_labels_or_constraints_first(planted, kind):
    W, truth = planted
    y = np.where(np.arange(N) % 8 == 0, truth, -1)
    known = ml.Constraints.from_labels(y)
    est = getattr(ml, kind)(n_clusters=6, affinity="precomputed", random_state=0)
    est.fit(W, np.where(np.arange(N) % 9 == 0, truth, -1))
    found = [est.refit(side).labels_ for side in (y, known)]
    found += [est.refit(**side).labels_ for side in ({"y": y}, {"constraints": known})]
    assert all(np.array_equal(one, found[0]) for one in found)
    both = known, np.where(np.arange(N) % 8 == 1, truth, -1)
    assert np.array_equal(est.refit(*both).labels_, est.refit(*both[::-1]).labels_)


# ---------------------------------------------------------------- a report on a screen


def test_a_printed_report_fits_on_a_screen(blobs):
    long = "word " * 200
    report = Report(
        "CSP",
        10**6,
        100,
        tuple(StageRecord(f"stage {i} {long}", 1.0, 10**9) for i in range(50)),
        {f"choice {i}": long for i in range(50)} | {"why": long},
        None,
        satisfaction(np.zeros(3, dtype=int), ml.Constraints.from_labels([0, 0, 1])),
        notes=(long,) * 30,
        warnings=tuple(f"{i} {long}" for i in range(30)),
        extra={"feasible": {"found": 1, "wanted": 22}},
    )
    for one in (report, ml.CSP(n_clusters=3, random_state=0).fit(*blobs).report_):
        lines = repr(one).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 100
    said = repr(report)
    for word in ("1,000,000", "K = 100", "50.0% on average", "1 of 22", "50.0 s", "1,000 MB"):
        assert word in said


def test_notes_and_warnings_are_told_apart():
    recorder = Recorder()
    recorder.note("a choice")
    with pytest.warns(DoubtfulResultWarning):
        recorder.warn("a doubt")
    told = Report(
        "NCut", 3, 2, choices={}, convergence=None, satisfaction=None, **recorder.report_parts()
    )
    assert told.to_dict()["notes"] == ["a choice"] == recorder.remarks
    assert told.to_dict()["warnings"] == ["a doubt"]


# ---------------------------------------------------------------- searches


@pytest.mark.parametrize("est", [ml.CSP(n_clusters=3, subspace=6), ml.Poisson()])
def test_a_search_never_scores_by_a_metric_against_unknown_labels(blobs, est):
    X, y = blobs
    for scoring in ("adjusted_rand_score", ["v_measure_score"]):
        with pytest.raises(ValueError, match="ConstraintScorer") as error:
            GridSearchCV(est, {"n_neighbors": [5]}, scoring=scoring, refit=False, cv=2).fit(X, y)
        assert "takes unknown labels for a class" in str(error.value)
    held = ml.ConstraintKFold(ml.Constraints.from_labels(y), 2, random_state=0)
    assert cross_val_score(est, X, y, scoring="adjusted_rand_score", cv=held).min() > 0.9
    assert cross_val_score(est, X, y, scoring=ml.ConstraintScorer(), cv=2).min() > 0.9
    complete = np.maximum(y, 0)
    assert cross_val_score(est, X, complete, scoring="adjusted_rand_score", cv=2).shape == (2,)


# ---------------------------------------------------------------- shell


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    X, truth = make_blobs(N, 3, centers=3, random_state=0)
    np.save(folder / "points.npy", X)
    wrong = np.where(np.arange(N) % 4 == 0, np.random.default_rng(0).permutation(truth), -1)
    np.savetxt(folder / "wrong.txt", wrong, fmt="%d")
    np.savetxt(folder / "none.txt", np.full(N, -1), fmt="%d")
    return folder


@pytest.mark.thorough
def test_quiet_still_tells_what_to_doubt(mustlink, tmp_path):
    line = f"cluster points.npy -k 3 --labels wrong.txt -m csp --subspace 8 -o {tmp_path}/out.h5"
    code, said, err = mustlink(f"{line} --json --quiet")
    told = json.loads(said)
    assert code == 0
    assert told["warnings"]
    assert not set(told["warnings"]) & set(told["notes"])
    assert err.splitlines() == [f"  warning: {one}" for one in told["warnings"]]
    shares = [told["satisfaction"][f"{kind}_kept"] for kind in ("must", "cannot")]
    assert told["satisfaction"]["balanced"] == pytest.approx(np.mean(shares))
    shown = mustlink(line)[1]
    assert f"{told['satisfaction']['balanced']:.1%} on average: {shares[0]:.1%} of" in shown
    assert f"{told['feasible']['found']} of 2" in shown


def test_labels_that_are_all_unknown_are_a_doubt_in_the_shell_too(mustlink, tmp_path):
    line = f"cluster points.npy -k 3 --labels none.txt -o {tmp_path}/out.h5 --quiet"
    code, _, err = mustlink(line)
    assert code == 0
    assert err.startswith("  warning: labels, constraints: none of the 120 nodes has any")
    assert err.count("\n") == 1


def test_labels_can_be_a_start_where_the_method_takes_none(mustlink, tmp_path):
    line = f"cluster points.npy -k 3 -m ncut --labels wrong.txt -o {tmp_path}/out.h5 --json"
    assert "--init labels" in mustlink(line)[2]
    code, said, _ = mustlink(f"{line} --init labels")
    assert code == 0
    assert json.loads(said)["choices"]["init"].startswith("labels, in the ")
    code, _, err = mustlink(f"cluster points.npy -k 3 -m ncut --init labels -o {tmp_path}/no.h5")
    assert code == 2
    assert "give --labels" in err


def test_feasible_cuts_are_told_in_a_line():
    vectors = {"found": 1, "wanted": 2}
    cuts = {"alpha": [3.0, 7.0], "used": [True, False], "beta": 2.5, "complete": True}
    assert feasible_in_words(None) == ""
    assert feasible_in_words(vectors) == "1 of 2 vectors"
    told = feasible_in_words(vectors, cuts)
    assert told == "1 of 2 vectors, the cheapest of 2 feasible cuts"
    assert "2 leading feasible cuts" in feasible_in_words(vectors, cuts | {"complete": False})
    alone = cuts | {"alpha": [3.0], "used": [True]}
    assert "no other is feasible" in feasible_in_words(vectors, alone)
