"""What holds for every estimator: a seed decides, arguments stay, what makes no sense is a line."""

from __future__ import annotations

import gc
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import odd_constraints, random_graph
from every import ALL, OF_GRAPHS, OF_POINTS, UNTOLD, K, N, blobs, fit, graph, made, some
from mustlink.errors import InfeasibleError, InputError

NAN, INF = float("nan"), float("inf")
CLUSTERERS = [name for name, how in OF_GRAPHS.items() if how]
PROPAGATORS = [name for name, how in OF_GRAPHS.items() if not how]


def arrays(X):
    """The arrays of some data."""
    if isinstance(X, ml.Graph):
        return arrays(X.affinity)
    return [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides_and_nothing_is_changed(name):
    """In one thread and in two, on used data and by a clone; labels, rows and chances."""
    est, drawn = made(name)
    X, y = drawn(0)
    known = some(y, 0)
    given = [*arrays(X), known]
    before, params = [a.copy() for a in given], est.get_params()
    if "random_state" in params:
        est.set_params(random_state=7)
    if "n_jobs" in params:
        est.set_params(n_jobs=1)
    params = est.get_params()
    fit(est, X, known)
    assert est.get_params() == params
    again = clone(est)
    assert again.get_params() == params
    if "n_jobs" in params:
        again.set_params(n_jobs=2)
    fit(again, X, known)
    for one in ("labels_", "embedding_", "eigenvalues_", "label_distributions_"):
        np.testing.assert_array_equal(getattr(again, one, 0), getattr(est, one, 0), err_msg=one)
    for array, was in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, was)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", [name for name in ALL if name not in {*UNTOLD, "StrokeCut"}])
def test_what_classes_are_called_changes_nothing(name):
    """With numbers permuted, and choices by labels held out, groups are the same to the row."""
    est, drawn = made(name)
    own = est.get_params()
    chosen = {key: value for key, value in type(est)().get_params().items() if value == "auto"}
    est.set_params(**chosen, **({"random_state": 3} if "random_state" in own else {}))
    X, y = drawn(1)
    known, order = some(y, 1), np.array([2, 0, 1])
    fit(est, X, known)
    other = fit(clone(est), X, np.where(known >= 0, order[known], -1))
    assert adjusted_rand_score(est.labels_, other.labels_) == 1.0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ALL)
def test_a_dropped_estimator_gives_its_memory_back_at_once(name):
    """Nothing that holds an array waits for the garbage collector."""
    est, drawn = made(name)
    X, y = drawn(0)
    fit(est, X, some(y, 0))  # what a first fit imports and caches stays
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        fit(clone(est), X, some(y, 0))
        gc.collect()
        found = [type(x) for x in gc.garbage]
        assert not [x for x in found if x.__module__.startswith(("mustlink.", "scipy.sparse"))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


WRONG = {
    "n_clusters": [0, -1, 2.5],
    "tol": [-1.0, 0, INF, "small"],
    "max_iter": [0, 1.5],
    "memory": ["abc", "1.2.3GB", "2"],
    "time_limit": ["soon", -1.0],
    "n_jobs": [0],
    "affinity": ["cosine"],
    "isolated": ["keep"],
    "solver": ["magic"],
    "subspace": [0, -3, "whole"],
    "assign": ["magic"],
    "regularization": [-1.0, "much"],
}
ITS_OWN = {
    "NCut": {"variant": ["magic"]},
    "CSP": {"beta": ["best", NAN, INF], "n_vectors": [0, -1, 1.5, "all"], "balanced": ["auto"]},
    "SSSC": {
        "gamma": [1.0, -0.1, NAN, "best"],
    },
    "ConstrainedAP": {"noise": [0.0, -1, INF, NAN, "best"], "assign": ["sign"]},
    "FastGE": {"mu": [0, -1.0, NAN]},
    "SSKK": {
        "init": ["random", [0, 1], np.full(60, 5)],
        "penalty": [0, "much"],
        "volume": ["nodes"],
        "sigma": [-1.0, "big"],
    },
    "SRCP": {
        "mu": [0, -1.0, NAN, "small"],
        "new_edges": [-1, 2.5],
        "variant": ["kway"],
        "eigen_solver": ["amg"],
        "eigen_tol": [-1],
        "power": [0, "half"],
    },
    "E2CP": {"alpha": [0, 1, NAN, "x"], "solver": ["krylov"]},
    "CSCGFHF": {
        "sigma": [0, "wide"],
        "kernel_tol": [-1],
        "max_rank": [1],
        "class_mass": [[1.0]],
        "assign": ["split", "sign"],
    },
    "LLGC": {"alpha": [1.0, "much"], "refine": ["often"]},
    "GFHF": {"class_mass": [[0.5, 0.5], [0.5, 0.5, 0], "fair"]},
    "Poisson": {"class_mass": [[1, 2]]},
    "TikReg": {"gamma": [0], "class_mass": [True]},
    "NCutPropagation": {"alpha": [-1]},
    "GWEM": {"n_steps": [0], "variant": ["walk"]},
    "ClusterKernel": {"n_components": [0], "rows": ["ball"]},
    "LNP": {"alpha": [1.0, 0.0], "variant": ["exact"], "reg": [0.0]},
    "LLELP": {"alpha": [0.0], "reg": [-1.0]},
    "LTSALP": {"alpha": [-1.0], "n_components": [0, 15, 1.5]},
    "LLE": {"reg": [0.0], "n_components": [0]},
    "LTSA": {"n_components": [15]},
    "StrokeCut": {"n_components": [0], "smoothness": [-1], "islands": ["few"]},
}


@pytest.mark.parametrize("name", ALL)
def test_parameters_that_make_no_sense(name):
    """One line with the parameter's name, before anything is fitted."""
    est, drawn = made(name)
    X, y = drawn(0)
    known = some(y, 0)
    usual = est.get_params()
    common = {key: values for key, values in WRONG.items() if key in usual}
    if name in CLUSTERERS:
        common["n_clusters"] = [*WRONG["n_clusters"], N + 1]
    for key, values in [*common.items(), *ITS_OWN.get(name, {}).items()]:
        for value in values:
            est.set_params(**usual | {key: value})
            with pytest.raises(InputError) as caught:
                fit(est, X, known)
            said = str(caught.value)
            assert key.removeprefix("eigen_") in said, (key, value, said)
            assert "\n" not in said
            assert "labels_" not in vars(est)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("ConstrainedAP", {"solver": "shift-invert", "subspace": "exact"}, "not for penalised"),
        ("CSP", {"assign": "sign", "subspace": "exact"}, '"sign" makes 2 clusters, not 3'),
        ("NCut", {"variant": "shi-malik"}, "makes 2 clusters, not 3"),
        ("SRCP", {"power": 0.5, "normalize": False}, "power"),
        ("SRCP", {"memory": "1kB", "solver": "krylov"}, "memory"),
        ("SRCP", {"variant": "shi-malik"}, "shi-malik"),
        ("E2CP", {"alpha": 0.99999, "solver": "diffusion"}, "alpha"),
    ],
)
def test_parameters_that_do_not_go_together(name, options, words):
    est, drawn = made(name)
    X, y = drawn(0)
    with pytest.raises(InputError, match=words) as caught:
        fit(est.set_params(**options), X, some(y, 0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*PROPAGATORS, "CSCGFHF", *sorted(OF_POINTS.keys() - UNTOLD)])
def test_labels_that_make_no_sense(name):
    est, drawn = made(name)
    X, y = drawn(0)
    known = some(y, 0)
    n = y.size
    for labels, words in (
        (None, "requires y to be passed"),
        (np.full(n, -1), f"all {n} labels are -1"),
        (np.where(known == 1, 4, -1), "1 class only"),
        (known[1:], f"{n - 1} labels for {n} nodes"),
        (np.where(known == 1, 0.5, known), "0.5 is no class"),
        (np.where(known == 1, -3, known), "below -1"),
        (np.array(["cat", None] * (n // 2), dtype=object), "1 class only"),
        (np.array(["cat", 3] * (n // 2), dtype=object), "a mixture of text and numbers"),
        (ml.Constraints.from_labels(known), "labels only|one label per node"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            est.fit(X, labels)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in CLUSTERERS if name != "CSCGFHF"])
def test_side_information_that_makes_no_sense(name):
    est, drawn = made(name)
    X, y = drawn(0)
    other = ml.Constraints.from_pairs([[0, 1]], n_nodes=y.size + 1)
    for side, words in (
        ({"constraints": other}, "made for 61 nodes but the graph has 60"),
        ({"constraints": [[0, 1]]}, "list given"),
        ({"y": other}, "pass them as constraints="),
        ({"y": some(y, 0)[1:]}, "59 labels for 60 nodes"),
    ):
        if name == "NCut" and "y" in side:
            continue  # which is ignored, as in scikit-learn
        with pytest.raises(InputError, match=words) as caught:
            est.fit(X, **side)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(OF_POINTS.keys() - {"LaplacianEigenmaps"}))
def test_neighbourhoods_are_of_points(name):
    X, y = graph(0)
    est = made(name)[0]
    if "affinity" in est.get_params():
        est.set_params(affinity="precomputed")
    for one in (X, X.affinity):
        with pytest.raises(InputError, match=r"neighbourhoods of points"):
            fit(est, one, some(y, 0))


def test_points_are_not_taken_for_a_graph():
    X, _ = blobs(0)
    with pytest.raises(InputError, match='say affinity="precomputed"'):
        ml.NCut(K).fit(graph(0)[0].affinity)
    with pytest.raises(InputError, match="square"):
        ml.NCut(K, affinity="precomputed").fit(X)


CONSTRAINED = [name for name in CLUSTERERS if name not in ("NCut", "CSCGFHF")]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_nothing_said_is_the_plain_cut(name):
    """None, no pair, pairs that cancel, pairs of a node without an edge; two components as well."""
    G, y = graph(0)
    W = sp.block_diag([G.affinity, [[0.0]]], format="csr")
    pairs = ml.Constraints.from_pairs
    for known in (
        None,
        ml.Constraints.none(N + 1),
        pairs([[0, 1], [1, 0]], [1, -1], n_nodes=N + 1),
        pairs([[0, N], [1, N]], [1, -1], n_nodes=N + 1),
    ):
        est = made(name)[0].fit(W, constraints=known)
        assert adjusted_rand_score(est.labels_[:N], y) == 1.0
        assert est.labels_[N] == -1
        notes = est.report_.notes
        told = any("no constraints act" in one or "nothing to spread" in one for one in notes)
        assert told or est.report_.choices["penalty"] == 0  # of SSKK
    assert made(name)[0].fit(W).report_.satisfaction is None
    parts = random_graph(np.random.default_rng(1), 90, K)
    est = made(name)[0].fit(parts)
    assert adjusted_rand_score(est.labels_, oracles.components(parts.toarray())) == 1.0


@pytest.mark.parametrize("name", CONSTRAINED)
def test_odd_constraints_give_clusters(name):
    """Whatever is said, a clustering; or for CSP the range of β that is feasible."""
    G, y = graph(0)
    for known in odd_constraints(y).values():
        est = made(name)[0]
        with suppress(InfeasibleError) if name == "CSP" else nullcontext():
            est.fit(G, constraints=known)
        if not hasattr(est, "labels_"):
            continue
        assert set(est.labels_) <= {-1, 0, 1, 2}
        assert np.isfinite(est.embedding_).all()
        assert 0 <= est.report_.satisfaction["kept"] <= 1
