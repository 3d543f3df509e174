"""Answers of a person on a fitted estimator: refits, undo, history, and what a kill leaves."""

import warnings
import zlib

import h5py
import numpy as np
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.shown import shown
from mustlink_io.ui.classes import classes_of
from mustlink_io.ui.journal import Answer, Journal
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.opening import check_same

pytestmark = pytest.mark.usefixtures("few_trees")


def blobs(n=240, k=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    X = rng.normal(size=(n, 3)) + 3.0 * rng.normal(size=(k, 3))[truth]
    return X.astype(np.float32), truth


X, TRUTH = blobs()


@pytest.fixture
def csp():
    return ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))


@pytest.fixture
def poisson():
    y = np.where(np.arange(240) < 12, TRUTH, -1)
    return ml.Poisson(random_state=0).fit(X, y)


def test_labels_are_what_a_refit_with_all_of_them_gives(csp):
    session = NodeSession(csp)
    session.label([20, 21], 2)
    session.pair(40, 41, False)
    session.label([33], 1)
    y = np.where(np.arange(240) < 12, TRUTH, -1)
    y[[20, 21]], y[33] = 2, 1
    other = ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    known = ml.Constraints.from_labels(y)
    known = known + ml.Constraints.from_pairs([[40, 41]], -1.0, n_nodes=240)
    told = csp.constraints_
    np.testing.assert_array_equal(told.labels, known.labels)
    np.testing.assert_array_equal(told.merged[0], known.merged[0])
    np.testing.assert_array_equal(told.merged[1], known.merged[1])
    y[33] = -1
    other.refit(y)  # numbers of clusters last from one refit to the next
    other.refit(constraints=known)
    assert np.mean(other.labels_ == session.labels) > 0.99


def test_a_propagator_is_told_labels(poisson):
    session = NodeSession(poisson)
    session.label([20], 3)
    again = ml.Poisson(random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    y = np.where(np.arange(240) < 12, TRUTH, -1)
    y[20] = 3
    np.testing.assert_array_equal(again.refit(y).labels_, session.labels)
    with pytest.raises(InputError, match="takes labels alone"):
        session.pair(1, 2, True)
    assert len(session.answers) == 1


def test_classes_with_names_stay_names():
    names = np.array(["oak", "elm", "ash", "fir"], dtype=object)
    y = np.where(np.arange(240) < 12, names[TRUTH], "")
    session = NodeSession(ml.GFHF(random_state=0).fit(X, y))  # which keeps labels
    session.label([50], "a longer name than any")
    assert session.labels[50] == "a longer name than any"
    assert session.groups == ["a longer name than any", "ash", "elm", "fir", "oak"]
    assert session.known_labels[50] == "a longer name than any"


@pytest.mark.parametrize("kind", ["csp", "poisson"])
def test_undo_leads_back(kind, request):
    session = NodeSession(request.getfixturevalue(kind))
    session.label([20], 1)
    first = session.labels.copy()
    session.label([60, 61, 62], 0)
    assert session.undo()
    np.testing.assert_array_equal(session.labels, first)
    assert session.undo()
    assert not session.undo()
    assert [step.answers for step in session.history] == [0, 1, 2, 1, 0]


def wide(n=600, k=5, seed=3):
    """Clusters that overlap, so that every answer moves some rows."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    points = rng.normal(size=(n, 4)) + 1.1 * rng.normal(size=(k, 4))[truth]
    return points.astype(np.float32), truth


KINDS = {
    "poisson": lambda: ml.Poisson(random_state=0),
    "srcp": lambda: ml.SRCP(5, random_state=0),
    "csp": lambda: ml.CSP(5, random_state=0),
    "auto": lambda: ml.Auto(5, random_state=0),
}
EACH = [
    "poisson",
    *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("srcp", "csp", "auto")),
]


def answering(kind, path=None):
    """A session on clusters that overlap, ten labels known; the classes of its rows."""
    points, truth = wide()
    est = KINDS[kind]().fit(points, np.where(np.arange(600) < 10, truth, -1))
    return NodeSession(est, None if path is None else journal(path, 600)), truth


@pytest.mark.parametrize("kind", EACH)
def test_undo_and_redo_restore_the_state_itself(kind):
    session, truth = answering(kind)
    seen = []
    for node in range(100, 112):
        sure = session.confidence.copy() if kind == "poisson" else None  # else it takes fits
        seen.append((session.labels.copy(), sure, session.history[-1].sizes))
        session.choose([node], int(truth[node]))
    last = session.labels.copy()
    for labels, sure, sizes in reversed(seen):
        assert session.undo()
        np.testing.assert_array_equal(session.labels, labels)
        if sure is not None:
            np.testing.assert_array_equal(session.confidence, sure)
        assert session.history[-1].sizes == sizes
    assert not session.undo()
    while session.redo():
        pass
    np.testing.assert_array_equal(session.labels, last)
    session.undo()
    session.choose([200], 1)
    assert not session.redo()


@pytest.mark.parametrize("kind", EACH)
def test_labels_follow_from_the_answers_alone(kind, tmp_path):
    """After a kill, and when one of them is taken back or corrected."""
    session, truth = answering(kind, tmp_path)
    nodes = range(102, 110)
    for node in nodes:
        session.choose([node], int(truth[node]) if node != 105 else int(truth[node] + 1) % 5)
    np.testing.assert_array_equal(answering(kind, tmp_path)[0].labels, session.labels)
    session.correct(3, int(truth[105]))
    plain, _ = answering(kind)
    for node in nodes:
        plain.choose([node], int(truth[node]))
    np.testing.assert_array_equal(session.labels, plain.labels)
    session.take_back(3)
    other, _ = answering(kind)
    for node in nodes:
        if node != 105:
            other.choose([node], int(truth[node]))
    np.testing.assert_array_equal(session.labels, other.labels)
    with pytest.raises(InputError, match="there are 7"):
        session.take_back(7)
    assert session.undo()
    np.testing.assert_array_equal(session.labels, plain.labels)


@pytest.mark.thorough
@pytest.mark.parametrize("lasso", [1, 40])
def test_a_method_is_chosen_anew_where_twice_as_much_is_known_and_by_no_other_answer(
    lasso, tmp_path, monkeypatch
):
    """Also where labels drawn round say little, one by one or read again."""
    chosen, decide = [], ml.Auto._decide

    def counted(self, data, recorder):
        chosen.append(data.amount)
        decide(self, data, recorder)

    monkeypatch.setattr(ml.Auto, "_decide", counted)
    session, truth = answering("auto", tmp_path)
    near = np.argsort(np.square(wide()[0] - wide()[0][100]).sum(axis=1))
    session.choose(near[:lasso], int(truth[100]))
    for node in range(200, 226):
        session.choose([node], int(truth[node]))
    assert len(chosen) <= 4, chosen  # by the fit, where all classes have labels, and at 21
    again, _ = answering("auto", tmp_path)
    np.testing.assert_array_equal(again.labels, session.labels)
    again.choose([230], int(truth[230]))
    session.choose([230], int(truth[230]))
    np.testing.assert_array_equal(again.labels, session.labels)


@pytest.mark.parametrize("kind", ["srcp", "poisson"])
def test_history_tells_how_many_rows_moved(kind):
    session, _ = answering(kind)
    before = session.labels.copy()
    session.choose(np.arange(100, 140), 3)
    assert session.history[-1].moved == np.mean(session.labels != before) > 0


@pytest.mark.parametrize("kind", EACH)
def test_answers_that_came_together_are_undone_alone(kind):
    (session, _), (apart, _) = answering(kind), answering(kind)
    session.waiting = apart.waiting = rows = [300, 301, 302, 303]
    entries = [
        {"id": f"{row}", "node": row, "kind": "label", "value": [*apart.choices][row % 2]}
        for row in rows[:3]
    ]
    states = [apart.labels.copy()]
    for one in entries:
        assert apart.take_each([apart.read(one)]) == []
        states.append(apart.labels.copy())
    assert session.take_each([session.read(one) for one in entries]) == []
    assert session.take_each([session.read(one) for one in entries]) == []  # sent again
    assert len(session.history) == 2
    for left in (3, 2, 1, 0):
        np.testing.assert_array_equal(session.labels, states[left])
        assert [one.id for one in session.answers] == [one["id"] for one in entries[:left]]
        assert session.waiting == rows[left:]
        assert session.undo() == (left > 0)


def test_of_answers_that_came_together_those_that_are_wrong_alone_do_not_count(csp):
    session = NodeSession(csp)
    first, last = (Answer("label", np.array([row]), 1) for row in (100, 102))
    wrong = session.take_each([first, Answer("pair", np.array([7]), 1), last])
    assert len(wrong) == 1
    assert [one.nodes.tolist() for one in session.answers] == [[100], [102]]


def test_a_question_comes_back_with_undo():
    session, _ = answering("poisson")
    session.waiting = [100, 101, 102]
    session.choose([100], 1)
    session.unknown([101])
    assert session.waiting == [102]
    session.undo()
    assert session.waiting == [101, 102]
    session.undo()
    assert session.waiting == [100, 101, 102]
    session.redo()
    assert session.waiting == [101, 102]


def test_a_name_and_a_colour_answer_no_question(csp):
    session = NodeSession(csp)
    group = session.groups[0]
    session.ask_about(session.some_of(group).tolist())
    before = session.waiting
    session.recolour(group, "#123456")
    session.name(session.some_of(group), "elm")
    assert session.waiting == before


def test_every_change_is_told(csp):
    session, told = NodeSession(csp), []
    session.listeners.append(lambda: told.append(len(session.answers)))
    session.label([20], 1)
    session.unknown([21])
    session.undo()
    session.ask_about([30, 31])
    session.turn(1)
    assert told == [1, 2, 1, 1, 1]
    assert session.waiting == [31, 30]


def test_a_person_may_correct_what_was_known(csp):
    session = NodeSession(csp)
    wrong = (TRUTH[3] + 1) % 4
    session.label([3], int(wrong))
    assert csp.constraints_.labels[3] == wrong
    assert (csp.constraints_.labels[:3] == TRUTH[:3]).all()
    session.undo()
    assert csp.constraints_.labels[3] == TRUTH[3]


def test_a_new_class_is_a_cluster_more(csp):
    session = NodeSession(csp)
    session.label([100, 104, 108], 9)
    assert csp.n_clusters == 5
    assert len(session.history[-1].sizes) == len(session.groups)
    assert sum(session.history[-1].sizes) == np.sum(session.labels >= 0)
    session.undo()
    assert csp.n_clusters == 4


def test_history_tells_satisfaction_and_sizes(csp):
    session = NodeSession(csp)
    session.label([20], int(TRUTH[20]))
    step = session.history[-1]
    assert step.satisfaction == csp.report_.satisfaction["balanced"]
    assert step.moved == csp.report_.extra["changed"]  # by one refit
    assert step.sizes == tuple(np.bincount(csp.labels_).tolist())
    assert step.words == f"node 20: class {TRUTH[20]}"


@pytest.mark.parametrize(
    ("nodes", "value", "words"),
    [([], 1, "nodes"), ([240], 1, "nodes"), ([-1], 1, "nodes"), ([1], -2, "0 or more"),
     ([1], "oak", "whole numbers")],
)  # fmt: skip
def test_what_is_no_label_changes_nothing(csp, nodes, value, words):
    session, before = NodeSession(csp), csp.labels_.copy()
    with pytest.raises(InputError, match=words):
        session.label(nodes, value)
    np.testing.assert_array_equal(csp.labels_, before)
    assert not session.answers
    assert len(session.history) == 1


def test_clusters_have_names_that_stay_and_are_taken_back(csp, tmp_path):
    session = NodeSession(csp, journal(tmp_path))
    oaks = np.flatnonzero(csp.labels_ == 2)[:5]
    session.name(oaks, "oak")
    session.label([30], int(TRUTH[30]))
    assert session.names == {0: "0", 1: "1", 2: "oak", 3: "3"}
    session.label([31], "oak")
    assert session.known_labels[31] == 2
    again = ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    taken = NodeSession(again, journal(tmp_path))
    assert taken.names[2] == "oak"
    session.name(oaks, "")
    assert session.names[2] == "2"
    assert session.undo()
    assert session.names[2] == "oak"
    session.save(tmp_path / "out.h5")
    assert ml.load(tmp_path / "out.h5").cluster_names_ == {2: "oak"}


@pytest.mark.parametrize("kind", ["csp", "poisson"])
def test_colours_are_in_the_journal_are_undone_and_stay_when_the_rest_is_saved(
    kind, request, tmp_path
):
    est = request.getfixturevalue(kind)
    session = NodeSession(est, journal(tmp_path))
    for colour in ("#111111", "#123456"):
        session.recolour(2, colour)
    session.recolour(0, "#abcdef")
    wanted = {2: "#123456", 0: "#abcdef"}
    assert session.colours == wanted
    assert len(session.answers) == 2  # the last of a class counts
    fresh = type(est)(**est.get_params()).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    again = NodeSession(fresh, journal(tmp_path))  # after a kill
    assert again.colours == wanted
    again.label([20], int(TRUTH[20]))
    again.save(tmp_path / "out.h5")
    assert NodeSession(ml.load(tmp_path / "out.h5"), journal(tmp_path)).colours == wanted
    session.undo()
    assert session.colours == {2: "#123456"}


def test_guesses_of_questions_are_counted_before_they_are_answered(csp, tmp_path):
    session = NodeSession(csp, journal(tmp_path))
    right = int(np.flatnonzero((csp.labels_ == TRUTH) & (np.arange(240) >= 12))[0])
    session.label([right], int(TRUTH[right]))
    other = right + 4
    session.choose([other], (session.classes_now(np.array([other]))[0] + 1) % 4)
    session.label([other], int(TRUTH[other]))  # corrected, and no guess
    session.label([60, 61], 0)  # many at once are chosen by hand
    session.pair(70, 71, True)
    assert session.guesses == [True, False]
    again = ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    assert NodeSession(again, journal(tmp_path)).guesses == [True, False]
    session.take_back(1)
    assert session.guesses == [True]


def test_the_share_of_right_guesses_is_of_the_last_twenty():
    from mustlink_io.ui.node_view import guessed_html, running

    told = [False] * 10 + [True] * 30
    twin = [np.mean(told[max(0, at - 20) : at]) for at in range(1, 41)]
    np.testing.assert_allclose(running(told), twin)
    assert "20 of the last 20" in guessed_html(told)
    assert "1 of the last 1<" in guessed_html([True])
    assert guessed_html([]) == ""


def test_red_flags_name_labels_pairs_and_classes_that_are_not_kept():
    from mustlink_io.ui.node_view import flags, flags_html

    Z = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
    Z += np.random.default_rng(0).normal(size=Z.shape, scale=0.3)
    y = np.full(60, -1)
    y[[0, 1, 2, 30, 31, 32]] = [0, 0, 0, 1, 1, 1]
    session = NodeSession(ml.CSP(2, random_state=0).fit(Z, y))
    assert flags(session) == list(session.estimator.report_.warnings) == []
    assert flags_html([]) == ""
    session.label([40], int(session.labels[0]))
    session.pair(10, 50, True)
    labels = session.labels.copy()
    labels[40] = labels[30]  # as methods do that may overrule a label
    session.estimator.labels_ = labels
    found = flags(session)
    assert "1 of 7 labels is answered otherwise: node 40; look at it" in found[0]
    assert "1 of 1 pairs is not kept: node 10 and node 50" in found[1]
    y[[3, 4]] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer clusters than classes
        found = flags(NodeSession(ml.CSP(2, random_state=0).fit(Z, y)))
    assert found[0].startswith("no cluster stands for 2, the label of 2 rows")
    assert flags_html(["<b>"]) == "<b>⚑</b> &lt;b&gt;"
    assert "and 1 more" in flags_html(["a", "<i>"])
    assert "<i>" not in flags_html(["a", "<i>"])


def test_classes_of_labels_have_no_other_names(poisson):
    with pytest.raises(InputError, match="label with a name"):
        NodeSession(poisson).name([1], "oak")


def test_every_class_may_be_answered(poisson):
    session = NodeSession(poisson)
    assert session.choices == {0: "0", 1: "1", 2: "2", 3: "3"}
    y = np.where(np.arange(240) < 12, (TRUTH + 1) % 4, -1)
    est = ml.SRCP(n_clusters=4, random_state=0).fit(X, y)  # numbers its clusters by size
    told = NodeSession(est).choices
    assert sorted(told) == [0, 1, 2, 3]
    for one, name in told.items():
        cluster = int(name.split()[0])
        known = (est.labels_ == cluster) & (y >= 0)
        assert np.bincount(y[known]).argmax() == one
        assert name == (str(cluster) if cluster == one else f"{cluster} (class {one})")


def test_few_wrong_answers_do_not_change_what_clusters_are_told_by():
    labels = np.repeat([0, 1, 2, 3], 10)
    told = np.full(40, -1)
    assert classes_of([0, 1, 2, 3], labels, told) == {}
    told[[0, 1]], told[10], told[[11, 12]] = 0, 1, 0
    assert classes_of([0, 1, 2, 3], labels, told) == {0: 0, 1: 1, 2: 2, 3: 3}
    told[20] = 3  # and cluster 3, of which nothing is known, is told by a class of its own
    assert classes_of([0, 1, 2, 3], labels, told) == {0: 0, 1: 1, 2: 3, 3: 4}
    told[30] = 2
    assert classes_of([0, 1, 2, 3], labels, told) == {0: 0, 1: 1, 2: 3, 3: 2}


@pytest.mark.parametrize("kind", ["csp", "poisson"])
def test_confidence_is_what_results_have(kind, request):
    session = NodeSession(request.getfixturevalue(kind))
    np.testing.assert_array_equal(session.confidence, session.estimator.membership_.max(axis=1))
    assert "calibrated" in session.confidence_means
    by = session.estimator.calibration_
    session.label([20], int(TRUTH[20]))  # the 13th: less than a tenth
    _ = session.confidence
    assert session.estimator.calibration_ is by
    session.label([21, 22], int(TRUTH[21]))
    _ = session.confidence
    assert session.estimator.calibration_ is not by


def test_a_pair_is_of_two_nodes(csp):
    with pytest.raises(InputError, match="node 5 twice"):
        NodeSession(csp).pair(5, 5, True)


def test_what_takes_no_answers_is_refused():
    with pytest.raises(InputError, match="takes no answers"):
        NodeSession(ml.LaplacianEigenmaps(3, random_state=0).fit(X))


def test_a_fit_that_knew_nothing_takes_answers():
    """A method is chosen by the answers; refits keep it."""
    session = NodeSession(ml.NCut(n_clusters=4, random_state=0).fit(X))
    first = [int(np.flatnonzero(one == TRUTH)[0]) for one in range(4)]
    for node in first:
        session.choose([node], int(TRUTH[node]))
    np.testing.assert_array_equal(session.estimator.labels_[first], np.arange(4))
    session.pair(first[0], first[1], False)
    session.undo()
    np.testing.assert_array_equal(session.known_labels[first], TRUTH[first])


def test_questions_avoid_what_one_does_not_know(csp):
    asked = []

    def ask(estimator, n, kind, strategy, avoid):
        asked.append((estimator, n, kind, strategy, avoid.tolist()))
        return np.arange(n)

    session = NodeSession(csp, ask=ask)
    session.unknown([7])
    session.unknown([8, 9])
    session.label([20], 1)
    assert session.questions(3).tolist() == [0, 1, 2]
    session.questions(2, "pairs", "random")
    assert asked == [(csp, 3, "labels", "auto", [7]), (csp, 2, "pairs", "random", [[8, 9]])]


def journal(folder, n=240, graph=""):
    return Journal(folder / "out.h5.answers", "data.h5", n, graph)


def test_after_a_kill_all_answers_are_there(csp, tmp_path):
    session = NodeSession(csp, journal(tmp_path))
    session.label([20, 21], 2)
    session.pair(40, 41, True)
    session.label([50], 0)
    session.undo()
    session.unknown([77])
    again = ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(240) < 12, TRUTH, -1))
    taken = NodeSession(again, journal(tmp_path))
    assert [one.words() for one in taken.answers] == [
        "2 nodes: class 2",
        "node 40 and node 41 together",
        "node 77: don't know",
    ]
    np.testing.assert_array_equal(again.constraints_.labels, csp.constraints_.labels)
    np.testing.assert_array_equal(again.constraints_.pairs, csp.constraints_.pairs)
    taken.undo()
    taken.undo()
    assert not again.constraints_.pairs.size


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "nothing", '{"kind": "label", "nodes": [240], "value": 1}',
     '{"kind": "label", "nodes": [], "value": 1}', '{"kind": "label", "nodes": [1.5], "value": 1}',
     '{"kind": "label", "nodes": [true], "value": 1}', '{"kind": "pair", "nodes": [1], "value": 1}',
     '{"kind": "pair", "nodes": [1, 1], "value": 1}',
     '{"kind": "pair", "nodes": [1, 2], "value": 2}',
     '{"kind": "label", "nodes": [1], "value": -1}', '{"kind": "label", "nodes": [1], "value": []}',
     '{"kind": "colour", "nodes": [1], "value": "red"}',
     '{"kind": "name", "nodes": [1], "value": 3}', '{"kind": "name", "nodes": [], "value": "a"}',
     "[" * 100_000],
)  # fmt: skip
def test_damaged_answers_are_refused_in_a_line(tmp_path, line):
    kept = journal(tmp_path)
    kept.write([Answer("label", np.array([3]), 1)])
    with kept.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 3 is no answer") as told:
        kept.read()
    assert "\n" not in str(told.value)


def test_answers_on_other_data_are_refused(tmp_path):
    journal(tmp_path).write([Answer("label", np.array([3]), 1)])
    with pytest.raises(InputError, match="on other data"):
        journal(tmp_path, 241).read()
    with pytest.raises(InputError, match="on other data of the same name"):
        journal(tmp_path, graph="another").read()
    journal(tmp_path).path.write_text("node,cluster\n1,2\n")
    with pytest.raises(InputError, match="move the file away"):
        journal(tmp_path).read()


@pytest.mark.thorough
def test_saved_and_gone_on_from(csp, tmp_path):
    session = NodeSession(csp, journal(tmp_path))
    session.label([20, 21], 2)
    session.pair(40, 41, False)
    session.unknown([77])
    session.save(tmp_path / "out.h5")
    loaded = ml.load(tmp_path / "out.h5")
    again = NodeSession(loaded, journal(tmp_path))
    assert [one.kind for one in again.answers] == ["unknown"]
    np.testing.assert_array_equal(again.labels, session.labels)
    session.label([60], 3)
    again.label([60], 3)
    np.testing.assert_array_equal(again.labels, session.labels)
    assert session.undo()
    assert session.undo()
    assert not session.undo()  # what is saved stays
    assert csp.constraints_.labels[20] == 2


def test_a_cluster_is_told_by_the_class_of_its_labels():
    y = np.where(np.arange(240) < 12, (TRUTH + 1) % 4, -1)
    est = ml.SRCP(n_clusters=4, random_state=0).fit(X, y)  # numbers its clusters by size
    session = NodeSession(est)
    node = int(np.flatnonzero(TRUTH == 2)[-1])
    session.label([node], int(est.labels_[node]))
    assert est.constraints_.labels[node] == 3


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("method", [ml.CSP, ml.SRCP, ml.SSSC, ml.FastGE, ml.Poisson])
def test_a_choice_records_the_class_that_it_names(method, shift):
    how = {} if method is ml.Poisson else {"n_clusters": 4}
    y = np.where(np.arange(240) < 12, (TRUTH + shift) % 4, -1)
    session = NodeSession(method(**how, random_state=0).fit(X, y))
    choices = session.choices
    assert sorted(choices) == [0, 1, 2, 3]
    of_cluster = {name: session._class_of.get(one, one) for one, name in session.names.items()}
    for node, (choice, name) in enumerate(choices.items(), 20):
        assert of_cluster.get(name, choice) == choice
        session.choose([node], choice)
        assert session.known_labels[node] == session.answers[-1].value == choice
        taken = session.checked(Answer("label", np.array([node]), name))
        assert taken.value == {text: one for one, text in session.choices.items()}.get(name, choice)


def test_a_class_without_nodes_is_not_mistaken_for_a_cluster():
    y = np.full(240, -1)
    y[:4], y[4:8] = TRUTH[:4] + 5, 1  # class 1 is told of nodes of four clusters
    session = NodeSession(ml.CSP(n_clusters=2, random_state=0).fit(X, y))
    names = list(session.choices.values())
    assert len(set(names)) == len(names)
    for choice, name in session.choices.items():
        assert session.checked(Answer("label", np.array([20]), name)).value == choice


class DyingError(Exception):
    """Anything but bad input."""


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, InputError, DyingError])
def test_an_answer_whose_refit_fails_is_nowhere_and_undo_takes_the_one_before(
    csp, tmp_path, monkeypatch, error
):
    session, before = NodeSession(csp, journal(tmp_path)), []
    session.label([20], 1)

    def refit(*_, **__):
        before.extend(journal(tmp_path).read())
        raise error("no more")

    with monkeypatch.context() as broken:
        broken.setattr(ml.CSP, "refit", refit)
        with pytest.raises(error):
            session.label([33], 2)
        assert [one.nodes.tolist() for one in before] == [[20], [33]]  # a kill would leave both
        for held in (session.answers, journal(tmp_path).read()):
            assert [one.nodes.tolist() for one in held] == [[20]]
        with pytest.raises(error):
            session.correct(0, 3)
        for held in (session.answers, journal(tmp_path).read()):
            assert [one.nodes.tolist() for one in held] == [[20]]
    assert csp.constraints_.labels[20] == 1
    assert session.undo()
    assert session.answers == journal(tmp_path).read() == []
    assert csp.constraints_.labels[20] == -1


def test_answers_that_cannot_be_written_do_not_count(csp, tmp_path, monkeypatch):
    session = NodeSession(csp, journal(tmp_path))
    session.label([20], 1)
    labels, written = session.labels.copy(), journal(tmp_path).path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        for call in (
            lambda: session.label([33], 2),
            lambda: session.unknown([34]),
            lambda: session.name([35], "oak"),
        ):
            with pytest.raises(InputError, match="written: No space"):
                call()
            assert journal(tmp_path).path.read_bytes() == written
    assert len(session.answers) == 1
    assert csp.cluster_names_ == {}
    np.testing.assert_array_equal(session.labels, labels)


def test_a_label_is_corrected_after_pairs_were_saved(csp, tmp_path):
    session = NodeSession(csp, journal(tmp_path))
    session.pair(40, 44, True)
    session.label([20], 0)
    session.save(tmp_path / "out.h5")
    session.label([20], 1)
    told = csp.constraints_
    assert told.labels[20] == 1
    assert [sorted(pair) for pair in told.merged[0].tolist()] == [[40, 44]]
    assert told.hard is not None
    assert (told.labels >= 0).sum() == 13


def test_answers_of_a_file_that_has_other_data_now_are_refused(csp, tmp_path):
    target = tmp_path / "out.h5"
    session = NodeSession(csp, Journal.beside(target, csp))
    session.label([20], 1)
    session.save(target)
    session.unknown([21])
    assert len(Journal.beside(target, ml.load(target)).read()) == 1
    other = ml.CSP(n_clusters=4, random_state=0).fit(X[::-1], y=None, constraints=None)
    with pytest.raises(InputError, match="on other data of the same name"):
        NodeSession(other, Journal.beside(target, other))


@pytest.mark.parametrize("method", [ml.Poisson(), ml.CSP(2)])
def test_a_column_of_a_matrix_takes_a_label(method):
    rng = np.random.default_rng(0)
    M = (rng.random((40, 30)) < 0.1).astype(float)
    M[:20, :15] += 1
    M[20:, 15:] += 1
    rows = np.where(np.arange(40) % 4, -1, np.arange(40) // 20)
    est = method.set_params(affinity="precomputed", random_state=0)
    session = NodeSession(est.fit(ml.bipartite_graph(M), rows))
    session.choose([60], 1)
    assert session.known_labels.size == session.confidence.size == 70
    assert session.known_labels[60] == 1
    assert session.labels[60] == session.labels[35]
    assert session.undo()
    assert session.known_labels[60] == -1


def test_what_questions_show_is_verified_and_read_by_rows(tmp_path):
    path, rng = tmp_path / "s.h5", np.random.default_rng(0)
    pictures = rng.integers(0, 255, (40, 6, 6, 3), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        file["texts"] = [f"text {i}" for i in range(40)]
        file["fixed"] = np.array([f"text {i}" for i in range(40)], "S8")
        file["table"] = np.arange(80.0).reshape(40, 2)
        file.create_dataset("pictures", data=pictures, chunks=(8, 6, 6, 3), compression="gzip")
        lies = file.create_dataset("lies", (40, 64), "f4", chunks=(40, 64), compression="gzip")
        lies.id.write_direct_chunk((0, 0), zlib.compress(b"1" * 100))
    for name, words in (("texts", "text 39"), ("fixed", "text 39"), ("table", ">79<")):
        assert words in shown(f"{path}:{name}", 40)(39)
    show = shown(f"{path}:pictures", 40)
    assert show(3) != show(39)
    with pytest.raises(InputError, match="lies: chunk at"):
        shown(f"{path}:lies", 40)
    with pytest.raises(InputError, match="but there are 39 rows"):
        shown(f"{path}:table", 39)
    path.unlink()
    with pytest.raises(InputError, match="pictures: row 39"):
        show(39)


def test_answers_that_are_in_the_model_already_count_once(csp, tmp_path):
    """What a kill leaves that comes between writing the model and removing the journal."""
    session = NodeSession(csp, Journal.beside(tmp_path / "out.h5", csp))
    session.pair(40, 41, False)
    session.choose([50], 1)
    session.estimator.save(tmp_path / "out.h5")
    est = ml.load(tmp_path / "out.h5")
    again = NodeSession(est, Journal.beside(tmp_path / "out.h5", est))
    pairs, belief = again.estimator.constraints_.merged
    assert belief[(pairs == [40, 41]).all(axis=1)].tolist() == [-1.0]
    assert again.known_labels[50] == 1
    again.pair(60, 61, True)
    assert again.undo()
    pairs, belief = again.estimator.constraints_.merged
    assert not (pairs == [60, 61]).all(axis=1).any()
    assert belief[(pairs == [40, 41]).all(axis=1)].tolist() == [-1.0]


def test_a_page_goes_on_only_with_the_same_data(csp):
    check_same(csp, X, "x.ui.h5: its answers", "x.npy")
    graph = ml.knn_graph(X, 5)
    of_graph = ml.CSP(4, affinity="precomputed", random_state=0).fit(graph)
    check_same(of_graph, graph.affinity, "x.ui.h5: its answers", "x.npy")
    check_same(of_graph, graph, "x.ui.h5: its answers", "x.npy")
    other = ml.knn_graph(X[::-1], 5)
    for est, given in ((csp, X[::-1]), (csp, X[:-1]), (of_graph, other), (of_graph, X)):
        with pytest.raises(InputError, match="its answers are on other data"):
            check_same(est, given, "x.ui.h5: its answers", "x.npy")


@pytest.mark.thorough
def test_fewer_clusters_than_classes_stay_as_many_until_a_class_is_new():
    y = np.where(np.arange(240) < 12, TRUTH, -1)
    est = ml.CSP(2, random_state=0).fit(X, y)
    session = NodeSession(est)
    session.choose([50], 1)
    assert np.unique(est.labels_).size == 2
    session.choose([51], 4)
    assert np.unique(est.labels_).size == 5
    assert session.undo()
    assert session.undo()
    assert est.n_clusters == 2
    assert np.unique(est.labels_).size == 2
