"""Several kinds of columns of the same rows: views are graphs, and these are the oracle."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError

CLASSES = np.repeat([0, 1, 2], 40)
FEW = np.where(np.arange(120) % 8, -1, CLASSES)


def columns():
    """Numbers that tell one class from the others, words that tell another, and a table."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(120, 5))
    numbers[:, 0] += 4 * (CLASSES == 1)
    words = rng.random((120, 30)) * (rng.random((120, 30)) < 0.3)
    words[:, :10] += (CLASSES == 2)[:, None] * (rng.random((120, 10)) < 0.5)
    colour = np.where(rng.random(120) < 0.8, np.array(["a", "b", "c"])[CLASSES], "d")
    table = pd.DataFrame({"colour": colour, "size": rng.normal(size=120)})
    return numbers, sp.csr_matrix(words), table


NUMBERS, WORDS, TABLE = columns()


def told(est):
    return est.report_.choices["graph"]


def keep(points):
    return ml.knn_graph(points, random_state=0, duplicates="keep")


@pytest.mark.parametrize("make", [pytest.param(ml.CSP, marks=pytest.mark.thorough), ml.LLGC])
def test_a_fit_with_views_is_that_with_their_graphs(make):
    """Of rows that are all different: dense, sparse and a table, and a graph that is there."""
    views = {"numbers": NUMBERS, "words": WORDS, "table": TABLE, "links": keep(NUMBERS)}
    found = make(random_state=0).fit(None, FEW, views=views)
    graphs = [keep(NUMBERS), keep(WORDS), keep(TABLE), keep(NUMBERS)]
    alike = make(random_state=0).fit(None, FEW, graphs=graphs)
    np.testing.assert_array_equal(found.labels_, alike.labels_)
    assert told(found)["views"] == list(views)
    assert told(found)["graph_weights"] == told(alike)["graph_weights"]
    first = make(random_state=0).fit(NUMBERS, FEW, views={"words": WORDS})
    both = make(random_state=0).fit(NUMBERS, FEW, graphs=[keep(WORDS)])
    np.testing.assert_array_equal(first.labels_, both.labels_)
    assert told(first)["views"] == ["X", "words"]


def test_weights_are_by_what_is_known_and_told_by_name():
    noise = np.random.default_rng(1).normal(size=(120, 5))
    est = ml.LLGC(random_state=0).fit(None, FEW, views={"noise": noise, "table": TABLE})
    weights = told(est)["graph_weights"]
    assert weights[0] < 0.2
    assert "must-links above cannot-links" in told(est)["why"]
    assert any(f"weights noise {weights[0]:.3g}, table" in note for note in est.report_.notes)
    alone = ml.NCut(3, random_state=0).fit(None, views={"noise": noise, "table": TABLE})
    assert told(alone)["graph_weights"] == [0.5, 0.5]
    assert told(alone)["why"].startswith("equal: without constraints")


def test_weights_may_be_given_by_name():
    def fitted(weights):
        est = ml.NCut(3, graph_weights=weights, random_state=0)
        return est.fit(NUMBERS, views={"words": WORDS, "table": TABLE})

    named, listed = fitted({"table": 3, "X": 1}), fitted([1, 0, 3])
    assert told(named)["graph_weights"] == [0.25, 0, 0.75]
    np.testing.assert_array_equal(named.labels_, listed.labels_)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [ml.NCut, ml.SRCP, ml.CSCGFHF, ml.Auto, ml.GFHF])
def test_all_methods_take_views(make):
    est = make(random_state=0).fit(None, FEW, views={"numbers": NUMBERS, "table": TABLE})
    assert told(est)["views"] == ["numbers", "table"]
    assert est.labels_.shape == (120,)


def test_rows_that_say_nothing_in_a_view_have_the_others():
    """Texts without words, and rows of weight 0; equal rows of one view are not equal in all."""
    empty = WORDS.copy().tolil()
    empty[[3, 70]] = 0
    est = ml.LLGC(random_state=0).fit(NUMBERS, FEW, views={"words": empty.tocsr()})
    assert (est.labels_ >= 0).all()
    assert any("2 rows without an entry" in note for note in est.report_.notes)
    full = np.setdiff1d(np.arange(120), [3, 70])
    W = np.zeros((120, 120))
    W[np.ix_(full, full)] = keep(WORDS[full]).affinity.toarray()
    alike = ml.LLGC(random_state=0).fit(NUMBERS, FEW, graphs=[ml.Graph.from_affinity(W)])
    np.testing.assert_array_equal(est.labels_, alike.labels_)

    counted = np.ones(120)
    counted[100:] = 0
    est = ml.LLGC(random_state=0)
    known = np.where(counted > 0, FEW, -1)
    est.fit(NUMBERS, known, views={"words": empty.tocsr()}, sample_weight=counted)
    part = ml.LLGC(random_state=0).fit(NUMBERS[:100], FEW[:100], views={"words": empty[:100]})
    np.testing.assert_array_equal(est.labels_[:100], part.labels_)
    assert (est.labels_[100:] == -1).all()

    few_kinds = np.random.default_rng(2).integers(4, size=(120, 1)).astype(float)
    est = ml.NCut(3, random_state=0).fit(NUMBERS, views={"kind": few_kinds})
    assert est.graph_.n_nodes == 120


def test_x_may_be_anything_that_is_fitted():
    """A network, a matrix, a table that a transformer prepares; other views are rows."""
    networkx = pytest.importorskip("networkx")
    from sklearn.preprocessing import StandardScaler

    W = keep(NUMBERS).affinity
    network = networkx.from_scipy_sparse_array(W)
    given = ml.LLGC(random_state=0).fit(ml.Graph.from_affinity(W), FEW, views={"words": WORDS})
    for X, how in ((network, {}), (W, {"affinity": "precomputed"})):
        found = ml.LLGC(random_state=0, **how).fit(X, FEW, views={"words": WORDS})
        np.testing.assert_array_equal(found.labels_, given.labels_)
        assert told(found)["views"] == ["X", "words"]
    scaled = StandardScaler().fit_transform(NUMBERS)
    by_hand = ml.LLGC(random_state=0).fit(scaled, FEW, views={"words": WORDS})
    est = ml.LLGC(random_state=0, preprocessing=StandardScaler())
    np.testing.assert_array_equal(
        est.fit(NUMBERS, FEW, views={"words": WORDS}).labels_, by_hand.labels_
    )


@pytest.mark.thorough
def test_new_rows_are_compared_by_x_or_refused(tmp_path):
    est = ml.CSP(3, random_state=0).fit(NUMBERS, FEW, views={"words": WORDS})
    np.testing.assert_array_equal(est.predict(NUMBERS), est.labels_)
    path = tmp_path / "m.h5"
    est = ml.CSP(3, random_state=0, graph_weights={"a": 1, "b": 2})
    est.fit(None, FEW, views={"a": NUMBERS, "b": WORDS}).save(path)
    for one in (est, ml.load(path)):
        with pytest.raises(InputError, match="new points: a graph or views were fitted"):
            one.predict(NUMBERS)
        with pytest.raises(InputError, match="add: "):
            one.add(NUMBERS)
        np.testing.assert_array_equal(one.refit(FEW).labels_, est.labels_)


SQUARE = sp.random(120, 120, 0.1, format="csr", random_state=0)


@pytest.mark.parametrize(
    ("X", "given", "message"),
    [
        (None, {"views": {}}, "views: none; give another"),
        (None, {"views": {"a": NUMBERS}}, r"views: one only \(a\); give another"),
        (None, {"views": [NUMBERS, WORDS]}, "views: list given; give rows by name"),
        (None, {"views": {1: NUMBERS, "b": WORDS}}, "views: 1 is no name"),
        (NUMBERS, {"views": {"X": WORDS}}, "views: 'X' is no name"),
        (None, {"views": {"a": NUMBERS, "b": NUMBERS[:50]}}, "views: b has 50 rows, a 120"),
        (NUMBERS, {"views": {"b": NUMBERS[:50]}}, "views: b has 50 rows, X 120"),
        (NUMBERS, {"views": {"b": NUMBERS[:, :0]}}, r"views: b: shape \(120, 0\) given"),
        (NUMBERS, {"views": {"b": None}}, "views: b: rows: NoneType given"),
        (NUMBERS, {"views": {"b": NUMBERS * np.nan}}, "views: b: points: NaN in 120 rows"),
        (NUMBERS, {"views": {"b": SQUARE}}, "views: b: affinity: X is a square sparse matrix"),
        (NUMBERS, {"views": {"b": WORDS}, "graphs": []}, "graphs: views are given, too"),
    ],
)
def test_slips_are_one_line(X, given, message):
    with pytest.raises(InputError, match=message) as error:
        ml.NCut(3, random_state=0).fit(X, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"graph_weights": {"word": 1}}, "no view is called 'word'; there are X, words"),
        ({"graph_weights": {"words": 0}}, "not all 0"),
        ({"representatives": 20}, "representatives: several views have none"),
        ({"preprocessing": object()}, "preprocessing: "),
    ],
)
def test_parameters_that_make_no_sense_with_views(parameters, message):
    with pytest.raises(InputError, match=message):
        ml.NCut(3, random_state=0, **parameters).fit(NUMBERS, views={"words": WORDS})
    if "graph_weights" in parameters:
        with pytest.raises(InputError, match="views alone have names"):
            ml.NCut(3, random_state=0, **parameters).fit(NUMBERS)
