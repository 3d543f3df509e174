"""At home in scikit-learn: its own checks of estimators, pipelines, searches, tables, routing."""

from __future__ import annotations

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mustlink as ml
from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph.forms import is_connectivity

pytestmark = pytest.mark.usefixtures("few_runs")

CLUSTERERS = (
    "NCut",
    "CSP",
    "SSSC",
    "SpectralLearning",
    "ConstrainedAP",
    "FastGE",
    "SSKK",
    "SRCP",
    "E2CP",
)
PROPAGATORS = (
    "GFHF",
    "LLGC",
    "Poisson",
    "TikReg",
    "LELP",
    "LLELP",
    "LNP",
    "LTSALP",
    "GreenFunction",
    "GWEM",
    "ClusterKernel",
    "NCutPropagation",
)
_UNKNOWN = "-1 is the class of nodes whose class is unknown, as in sklearn.semi_supervised"
# What scikit-learn asks for and we do otherwise, with the reason.
_CONSTANT = "n_components=1 would keep only the eigenvector that is the same on all nodes"
_SCORES = "decision_function is a method's own values; the order of their shares is another"
_SMALL = (
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
_LABELS = "it clusters by labels, and the checks of clusterers give none"
EXPECTED: dict[str, dict[str, str]] = {
    **{name: {"check_classifiers_classes": _UNKNOWN} for name in PROPAGATORS},
    "CSCGFHF": {"check_clustering": _LABELS},
}
_NUMBERS = "signs of eigenvectors and numbers of clusters follow the order of the rows"
for one in (*CLUSTERERS, "CSCGFHF"):
    EXPECTED.setdefault(one, {})["check_sample_weight_equivalence_on_dense_data"] = _NUMBERS
    if one != "NCut":
        EXPECTED[one]["check_sample_weight_equivalence_on_sparse_data"] = _NUMBERS
_TAGS = "they ask a clusterer that has predict_proba for the tags of a classifier"
_KEPT = "calibration_ is made when chances are first wanted, and kept"
for one in (*CLUSTERERS, "CSCGFHF"):
    EXPECTED.setdefault(one, {}).update(
        check_dict_unchanged=_KEPT,
        check_estimator_sparse_array=_TAGS,
        check_estimator_sparse_matrix=_TAGS,
    )
for one in ("LLGC", "Poisson", "TikReg", "GreenFunction", "NCutPropagation"):
    EXPECTED[one]["check_decision_proba_consistency"] = _SCORES
EXPECTED["ClusterKernel"] |= dict.fromkeys(_SMALL, _CONSTANT)


def made(name):
    """The estimator, of two clusters where it takes a number.

    CSP makes every choice itself, which takes most of the time; the others share that code.
    """
    kind = getattr(ml, name)
    if name in PROPAGATORS:
        return kind()
    fixed = {}
    if issubclass(kind, ConstrainedSpectral) and name != "CSP":
        fixed = {"subspace": 3, "assign": "kmeans"}
        if kind._parameter is not None:
            fixed[kind._parameter] = 0.5
        if name == "SSSC":
            fixed["balanced"] = True
    return kind(n_clusters=2, **fixed)


@cache
def moons():
    return make_moons(160, noise=0.06, random_state=0)


@cache
def pairs():
    truth = moons()[1]
    ends = np.random.default_rng(0).integers(truth.size, size=(60, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    belief = np.where(truth[ends[:, 0]] == truth[ends[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(ends, belief, n_nodes=truth.size)


def few_labels():
    truth = moons()[1]
    return np.where(np.arange(truth.size) % 10 == 0, truth, -1)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*CLUSTERERS, *PROPAGATORS, "CSCGFHF"])
def test_check_estimator(name):
    expected = EXPECTED.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            made(name), expected_failed_checks=expected, on_skip=None, on_fail=None
        )
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(expected)


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("name", [*CLUSTERERS, *PROPAGATORS, "CSCGFHF"])
def test_clone_and_pickle(name):
    est = made(name)
    assert clone(est).get_params() == est.get_params()
    X, y = moons()[0], few_labels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulResultWarning)
        est.set_params(random_state=0).fit(X, y)
    back = pickle.loads(pickle.dumps(est))
    assert np.array_equal(back.labels_, est.labels_)
    assert est.n_features_in_ == 2
    assert est.n_iter_ >= 1


def test_csc_gfhf_wants_labels_and_says_so():
    with pytest.raises(InputError, match="y: requires y to be passed"):
        ml.CSCGFHF(n_clusters=2).fit(moons()[0])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["NCut", "CSP", "SSKK", "SRCP"])
def test_fitted_points_keep_their_answers(name):
    X = moons()[0]
    est = made(name).set_params(random_state=0).fit(X, few_labels())
    assert np.array_equal(est.predict(X), est.labels_)
    assert np.array_equal(est.transform(X), est.embedding_)
    assert np.mean(est.predict(X + 1e-3) == est.labels_) > 0.98
    assert np.array_equal(clone(est).fit_transform(X, few_labels()), est.embedding_)


def test_new_points_are_the_mean_of_their_neighbours_by_definition():
    rng = np.random.default_rng(1)
    X, new = rng.standard_normal((40, 3)), rng.standard_normal((7, 3))
    est = ml.NCut(n_clusters=3, n_neighbors=9, random_state=0).fit(X)
    for x, z in zip(new, est.transform(new), strict=True):
        d = np.linalg.norm(X - x, axis=1)
        near = np.argsort(d)[:9]
        w = np.exp(-(d[near] ** 2) / d[near[6]] ** 2)
        assert z == pytest.approx(
            w @ est.embedding_[near] / w.sum(), rel=1e-6
        )  # neighbours are compared in single precision
        votes = np.bincount(est.labels_[near], w)
        assert est.predict(x[None])[0] == votes.argmax()


def test_a_graph_has_no_new_points():
    X = moons()[0]
    est = ml.NCut(n_clusters=2, affinity="precomputed").fit(ml.knn_graph(X))
    with pytest.raises(InputError, match="they have no place"):
        est.predict(X)
    with pytest.raises(NotFittedError):
        ml.NCut().predict(X)
    with pytest.raises(NotFittedError):
        ml.CSP().refit()
    assert not hasattr(est, "n_features_in_")


def test_one_cluster():
    X = moons()[0]
    for name in ("NCut", "CSP", "SSKK", "SRCP"):
        est = made(name).set_params(n_clusters=1).fit(X, few_labels())
        assert (est.labels_ == 0).all()
        assert est.report_.satisfaction is None or est.report_.satisfaction["must_kept"] == 1
    refitted = ml.CSP(n_clusters=1).fit(X).refit(y=few_labels())
    assert (refitted.labels_ == 0).all()


def test_tables_in_tables_out():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(moons()[0], columns=["east", "north"])
    est = ml.NCut(n_clusters=2, random_state=0).set_output(transform="pandas")
    table = est.fit_transform(X)
    assert list(est.feature_names_in_) == ["east", "north"]
    assert list(table.columns) == ["ncut0", "ncut1"]
    assert np.array_equal(table.to_numpy(), est.embedding_)
    with pytest.raises(ValueError, match="feature names"):
        est.predict(X.rename(columns={"east": "west"}))
    categories = pandas.Series(np.where(few_labels() < 0, None, few_labels().astype(str)))
    named = ml.GFHF().fit(X, categories.astype("category"))
    assert named.classes_.tolist() == ["0", "1"]
    assert np.array_equal(named.labels_.astype(int), ml.GFHF().fit(X, few_labels()).labels_)
    some = pandas.Series(few_labels())
    for given in (some.where(some >= 0), some.where(some >= 0).astype("Int64")):
        assert np.array_equal(ml.GFHF().fit(X, given).labels_, ml.GFHF().fit(X, some).labels_)


def test_columns_of_a_table_that_are_no_numbers_are_named():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(moons()[0], columns=["east", "north"])
    held = X.assign(north=X.north.astype(object))
    assert np.array_equal(
        ml.NCut(2, random_state=0).fit(held).labels_, ml.NCut(2, random_state=0).fit(X).labels_
    )
    for column in (np.where(X.east > 0, "tcp", "udp"), pandas.date_range("2024", periods=len(X))):
        with pytest.raises(InputError, match=r"column 'kind': .*get_dummies") as error:
            ml.NCut(2, preprocessing=None).fit(X.assign(kind=column))
        assert "\n" not in str(error.value)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "names",
    [np.array(["", "no", "yes"]), np.array([None, "no", "yes"]), np.array(["-1", "a", "b"])],
)
def test_classes_by_name(names):
    X, y = moons()[0], few_labels()
    est = ml.Poisson().fit(X, names[y + 1])
    numbered = ml.Poisson().fit(X, y)
    assert np.array_equal(est.labels_, names[numbered.labels_ + 1])
    assert np.array_equal(est.predict(X), est.labels_)
    assert est.classes_.tolist() == names[1:].tolist()
    by_name = ml.CSP(n_clusters=2, random_state=0).fit(X, names[y + 1])
    assert np.array_equal(by_name.labels_, ml.CSP(n_clusters=2, random_state=0).fit(X, y).labels_)


def test_nothing_is_there_before_a_fit():
    for name in ("labels_", "transduction_", "n_iter_"):
        assert not hasattr(ml.GFHF(), name)


def test_labels_of_a_picture_s_shape():
    image = np.random.default_rng(0).random((9, 12))
    strokes = np.full(image.shape, -1)
    strokes[0, :4], strokes[-1, 5:] = 0, 1
    flat = ml.GFHF(affinity="precomputed").fit(ml.image_graph(image), strokes.ravel())
    shaped = ml.GFHF(affinity="precomputed").fit(ml.image_graph(image), strokes)
    assert np.array_equal(shaped.labels_, flat.labels_)


def test_a_score_is_over_the_points_of_known_class():
    X, truth = moons()
    est = ml.GFHF().fit(X, few_labels())
    right = est.predict(X) == truth
    assert est.score(X, truth) == right.mean()
    assert est.score(X, few_labels()) == right[few_labels() >= 0].mean()
    weight = np.arange(truth.size)
    assert est.score(X, truth, weight) == pytest.approx(np.average(right, weights=weight))
    named = np.array(["", "no", "yes"])
    by_name = ml.GFHF().fit(X, named[few_labels() + 1])
    assert by_name.score(X, named[few_labels() + 1]) == est.score(X, few_labels())
    with pytest.raises(InputError, match="all labels are -1"):
        est.score(X, np.full(truth.size, -1))


def test_a_class_by_name_that_no_label_reaches():
    W = sp.csr_matrix(np.kron(np.eye(3), np.ones((4, 4)) - np.eye(4)))
    y = np.array(["a", "", "", "", "b", "", "", "", "", "", "", ""])
    with pytest.warns(DoubtfulResultWarning, match="4 nodes are not reached"):
        est = ml.GFHF(affinity="precomputed").fit(W, y)
    assert est.labels_.tolist() == ["a"] * 4 + ["b"] * 4 + [""] * 4


def test_names_and_numbers_do_not_mix():
    X = moons()[0]
    y = np.array(["a", 1] * 80, dtype=object)
    with pytest.raises(InputError, match="mixture of text and numbers"):
        ml.GFHF().fit(X, y)


def test_a_pipeline_gives_points_and_constraints_on(routing):
    X, _truth = moons()
    pipe = make_pipeline(
        StandardScaler(), ml.CSP(n_clusters=2, random_state=0).set_fit_request(constraints=True)
    )
    found = pipe.fit(X, constraints=pairs())
    alone = ml.CSP(n_clusters=2, random_state=0).fit(
        StandardScaler().fit_transform(X), constraints=pairs()
    )
    assert np.array_equal(found[-1].labels_, alone.labels_)
    assert found[-1].report_.satisfaction["kept"] == 1
    assert np.array_equal(pipe.predict(X), alone.labels_)


@pytest.mark.thorough
def test_a_search_by_constraints(routing):
    X = moons()[0]
    search = GridSearchCV(
        ml.CSP(n_clusters=2, random_state=0).set_fit_request(constraints=True),
        {"n_neighbors": [5, 60]},
        scoring=ml.ConstraintScorer(),
        cv=ml.ConstraintKFold(pairs(), 3, random_state=0),
        error_score="raise",
    ).fit(X, constraints=pairs())
    by_hand = []
    for train, test in ml.ConstraintKFold(pairs(), 3, random_state=0).split():
        est = ml.CSP(n_clusters=2, n_neighbors=5, random_state=0)
        est.fit(X[train], constraints=pairs()[train])
        by_hand.append(ml.constraint_satisfaction_score(est.predict(X[test]), pairs()[test]))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.best_estimator_.report_.satisfaction["kept"] > 0.9


def test_a_search_by_labels_needs_no_routing():
    X, y = moons()[0], few_labels()
    folds = ml.ConstraintKFold(ml.Constraints.from_labels(y), 4, random_state=0)
    scores = cross_val_score(
        ml.CSP(n_clusters=2, random_state=0), X, y, scoring=ml.ConstraintScorer(), cv=folds
    )
    assert scores.shape == (4,)
    assert scores.min() > 0.8


def test_a_graph_is_split_by_rows_and_columns(routing):
    W = ml.knn_graph(moons()[0]).affinity
    est = ml.NCut(n_clusters=2, affinity="precomputed", random_state=0)
    with pytest.raises(ValueError, match="they have no place"):  # but could be fitted
        cross_val_score(
            est.set_fit_request(constraints=True),
            W,
            scoring=ml.ConstraintScorer(),
            cv=ml.ConstraintKFold(pairs(), 2),
            params={"constraints": pairs()},
            error_score="raise",
        )


def test_scoring_without_anything_to_score_by():
    est = ml.NCut(n_clusters=2).fit(moons()[0])
    with pytest.raises(InputError, match="enable_metadata_routing"):
        ml.ConstraintScorer()(est, moons()[0])


@pytest.mark.parametrize("n_splits", [2, 5])
@pytest.mark.parametrize("kind", ["pairs", "labels", "graph"])
def test_folds_are_a_partition_of_the_constrained_nodes(n_splits, kind):
    known = {
        "pairs": pairs(),
        "labels": ml.Constraints.from_labels(few_labels()),
        "graph": ml.Constraints.from_graph(ml.knn_graph(moons()[0]).affinity),
    }[kind]
    folds = list(ml.ConstraintKFold(known, n_splits, random_state=3).split())
    assert len(folds) == n_splits == ml.ConstraintKFold(known, n_splits).get_n_splits()
    assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), known.nodes)
    for train, test in folds:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(known.n_nodes))
    sizes = [test.size for _, test in folds]
    assert max(sizes) - min(sizes) <= known.nodes.size / n_splits
    again = list(ml.ConstraintKFold(known, n_splits, random_state=3).split())
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))


def test_folds_lose_no_pair_of_small_groups():
    ends = np.arange(40).reshape(20, 2)  # every pair a group of its own
    known = ml.Constraints.from_pairs(ends, n_nodes=100)
    held = sum(known[test].n_constraints for _, test in ml.ConstraintKFold(known, 4).split())
    assert held == known.n_constraints
    with pytest.raises(InputError, match="each needs 2"):
        list(ml.ConstraintKFold(known, 21).split())


def test_constraints_of_some_nodes_are_a_block_of_the_matrix():
    rng = np.random.default_rng(2)
    A = sp.random(30, 30, 0.2, random_state=4)
    y = np.where(rng.random(30) < 0.4, rng.integers(0, 3, 30), -1)
    ends = np.column_stack([np.arange(15), np.arange(15, 30)])
    known = (
        ml.Constraints.from_pairs(ends, rng.choice([-1.0, 0.5], 15), n_nodes=30)
        + ml.Constraints.from_labels(y)
        + ml.Constraints.from_matrix(A + A.T)
    )
    for whole in (known, known.closure()):
        nodes = rng.permutation(30)[:18]
        inside = known.closure() if whole.hard else known
        if whole is known:
            expected = known.to_dense()[np.ix_(nodes, nodes)]
            assert np.allclose(whole[nodes].to_dense(), expected)
        assert whole[nodes].hard == inside.hard
        mask = np.isin(np.arange(30), nodes)
        assert np.allclose(whole[mask, ...].to_dense(), whole[np.sort(nodes)].to_dense())
    assert known.shape == (30, 30)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([0, 0], "asked for twice"),
        ([0, 99], "node 99 asked for, but the graph has 6 nodes"),
        ([-1], "node -1"),
        (3, "give the numbers of some nodes"),
        ([True, False], "or a mask of 6"),
        ([0.5], "type float64"),
    ],
)
def test_constraints_of_impossible_nodes(nodes, words):
    known = ml.Constraints.from_pairs([[0, 1]], n_nodes=6)
    with pytest.raises(InputError, match=words):
        known[nodes]


@pytest.mark.parametrize("include_self", [False, True])
def test_a_kneighbors_graph_is_made_symmetric_and_that_is_said(include_self):
    X = moons()[0]
    A = kneighbors_graph(X, 10, include_self=include_self)
    assert is_connectivity(A)
    est = ml.NCut(n_clusters=2, affinity="precomputed", random_state=0).fit(A)
    W = est.graph_.affinity
    assert np.allclose(W.toarray(), (A + A.T).toarray() / 2)
    assert any("taken for a kneighbors_graph" in note for note in est.report_.notes)
    assert not is_connectivity(A + A.T)
    lopsided = sp.csr_matrix(np.triu(np.ones((4, 4)), 1))
    with pytest.raises(InputError, match="not symmetric"):
        ml.NCut(n_clusters=2, affinity="precomputed").fit(lopsided)


@pytest.mark.parametrize("weights", ["local", "gaussian", "connectivity"])
def test_distances_to_neighbours_give_our_own_graph(weights):
    X = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
    ours = ml.knn_graph(X, 8, weights=weights, connect=False)
    pipe = make_pipeline(
        KNeighborsTransformer(n_neighbors=8),
        ml.NCut(n_clusters=2, affinity="precomputed_nearest_neighbors", weights=weights),
    ).fit(X)
    assert abs(pipe[-1].graph_.affinity - ours.affinity).max() < 1e-4


def test_distances_of_uneven_rows():
    D = sp.csr_matrix(np.array([[0, 1.0, 2.0], [1.0, 0, 0], [0, 3.0, 0]]))
    W = ml.NCut(n_clusters=2, affinity="precomputed_nearest_neighbors", weights="connectivity").fit(
        D
    )
    assert W.graph_.affinity.toarray().tolist() == [[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0]]


@pytest.mark.parametrize(
    ("D", "words"),
    [
        (np.ones((3, 3)), "wants a sparse matrix of distances"),
        (sp.csr_matrix((3, 2)), r"\(3, 2\) is not square"),
        (sp.csr_matrix(-np.eye(3)[::-1]), "finite and not negative"),
        (sp.csr_matrix(np.eye(3)), "no neighbour"),
    ],
)
def test_distances_that_are_none(D, words):
    with pytest.raises(InputError, match=words):
        ml.NCut(n_clusters=2, affinity="precomputed_nearest_neighbors").fit(D)


def test_warnings_come_from_the_line_of_the_caller():
    W = sp.csr_matrix(np.ones((6, 6)) - np.eye(6))
    with pytest.warns(DoubtfulResultWarning, match="gap after eigenvalue 3 is tiny") as caught:
        est = ml.NCut(n_clusters=3, affinity="precomputed", random_state=0).fit(W)
    assert caught[0].filename == __file__
    assert est.report_.warnings == tuple(str(w.message) for w in caught)
    assert set(est.report_.warnings) <= set(est.report_.notes)
    assert est.report_.extra["next_eigenvalue"] == pytest.approx(1.2)


def test_no_warning_where_nothing_is_doubtful(recwarn):
    X = np.vstack([np.random.default_rng(0).normal(c, 0.2, (50, 2)) for c in (0, 4, 8)])
    est = ml.NCut(n_clusters=3, random_state=0).fit(X)
    assert est.report_.warnings == ()
    assert [w for w in recwarn if w.category is DoubtfulResultWarning] == []


def test_an_observer_hears_what_would_be_a_python_warning(recwarn):
    from test_observe import Spy

    spy = Spy()
    W = sp.csr_matrix(np.ones((6, 6)) - np.eye(6))
    est = ml.NCut(n_clusters=3, affinity="precomputed", random_state=0).fit(W, observer=spy)
    assert ("note", est.report_.warnings[0]) in spy.heard
    assert len(recwarn) == 0


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("unconverged", "above 1e-12 after 1 steps"),
        ("broken", "on average: the graph says otherwise"),
        ("giant", "one cluster holds"),
        ("contradiction", "contradiction"),
        ("unreachable", "no edge: their constraints cannot act"),
    ],
)
def test_every_doubt_is_a_warning(case, words):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = np.where(np.arange(60) < 30, rng.integers(0, 2, 60), -1)
    est, options = ml.NCut(n_clusters=2, random_state=0), {}
    if case == "unconverged":
        X = rng.standard_normal((300, 2))
        est.set_params(solver="lobpcg", tol=1e-12, max_iter=1)
    elif case == "broken":
        est, options = ml.SpectralLearning(n_clusters=2, subspace="exact"), {"y": y}
    elif case == "giant":
        X = sp.block_diag([np.ones((100, 100)), np.ones((3, 3))]).tolil()
        X[0, 101] = X[101, 0] = 0.01
        est.set_params(affinity="precomputed")
    elif case == "contradiction":
        both = ml.Constraints.from_pairs([[0, 1], [1, 2], [0, 2]], [1, 1, -1], n_nodes=60)
        est, options = ml.CSP(n_clusters=2, random_state=0), {"constraints": both}
    else:
        W = ml.knn_graph(X).affinity.tolil()
        W[:3], W[:, :3] = 0, 0
        X = W.tocsr()
        known = ml.Constraints.from_pairs([[0, 9], [5, 6], [20, 30]], n_nodes=60)
        est = ml.CSP(n_clusters=2, affinity="precomputed", random_state=0)
        options = {"constraints": known}
    with pytest.warns(DoubtfulResultWarning, match=words):
        est.fit(X, **options)
    assert any(words in warning for warning in est.report_.warnings)
