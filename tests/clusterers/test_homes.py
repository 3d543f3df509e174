"""Memory or disk: where a fit runs changes no choice."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mustlink as ml
from cases import blobs, random_graph
from homes import GRAPHS, METHODS, PROPAGATED, SPREADING, TOLD, alike, choices, graph, paired, told
from mustlink.context.method_cost import FitInput
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from on_disk import stored

FEW_GROUPS = ["planted", "several_parts", "halves", "hung", "ill_scaled"]


@pytest.fixture
def nothing_fits(graphs_on_disk, monkeypatch):
    """Graphs and vectors stay on disk, those of points as well."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "how"),
    [(ml.NCut, {}), (ml.CSP, {"subspace": 6}), (ml.SRCP, {"tol": 1e-2}), (ml.GFHF, {})],
)
def test_a_fit_on_disk_draws_one_seed(nothing_fits, method, how):
    """A Generator gives what its first draw gives, and is one draw further: as in memory."""
    X, y = blobs(np.random.default_rng(3), 400, 3)
    known = np.where(np.arange(y.size) % 9 == 0, y, -1)
    told = () if method is ml.NCut else (known,)
    how = how | ({} if method is ml.GFHF else {"n_clusters": 3})
    drawn, alike = np.random.default_rng(7), np.random.default_rng(7)
    alike.integers(2**31)
    found = [
        method(memory="2GB", random_state=state, **how).fit(X.astype(np.float32), *told)
        for state in (7, drawn)
    ]
    assert isinstance(found[1].graph_, DiskGraph)
    np.testing.assert_array_equal(found[0].labels_, found[1].labels_)
    assert drawn.integers(2**31) == alike.integers(2**31)


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["auto", "luxburg", "ng"])
@pytest.mark.parametrize("name", GRAPHS)
def test_ncut_decides_alike_in_memory_and_on_disk(nothing_fits, name, variant):
    W, _, k = graph(name)
    how = {"affinity": "precomputed", "random_state": 0, "variant": variant}
    home = ml.NCut(k, **how).fit(W)
    there = ml.NCut(k, **how).fit(stored(W))
    assert isinstance(there.graph_, DiskGraph)
    assert choices(there.report_) == choices(home.report_)
    # a row is zero where it is below rounding, and solvers round each at their own
    shown = [np.any(np.asarray(each.embedding_) != 0, axis=1) for each in (home, there)]
    assert np.mean(shown) > 0.7
    assert alike(W, home.labels_, there.labels_, shown[0] & shown[1]) > 0.95


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "method", "how"), paired(FEW_GROUPS, METHODS, TOLD))
def test_constrained_methods_decide_alike_in_memory_and_on_disk(nothing_fits, name, method, how):
    W, y, k = graph(name)
    made = {"affinity": "precomputed", "random_state": 0}
    home = METHODS[method](k, **made).fit(W, constraints=told(y, k, how))
    there = METHODS[method](k, **made).fit(stored(W), constraints=told(y, k, how))
    assert isinstance(there.graph_, DiskGraph)
    left = [note for note in there.report_.notes if note.startswith("not tried on disk")]
    assert len(left) <= 1
    mine, other = choices(there.report_), choices(home.report_)
    assert mine["regularization"] == other["regularization"]
    if name == "ill_scaled":  # its vectors are those of rounding
        return
    if not left:
        assert mine == other
    one_of_many = name == "several_parts" and how == "nothing"  # K null vectors of 13
    if mine["subspace"] == other["subspace"] and not one_of_many:
        assert alike(W, home.labels_, there.labels_) > 0.9


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "method", "how"), paired(FEW_GROUPS[:-1], PROPAGATED, TOLD[:3]))
def test_propagated_constraints_decide_alike_in_memory_and_on_disk(nothing_fits, name, method, how):
    W, y, k = graph(name)
    made = {"affinity": "precomputed", "random_state": 0}
    home = PROPAGATED[method](k, **made).fit(W, constraints=told(y, k, how))
    there = PROPAGATED[method](k, **made).fit(stored(W), constraints=told(y, k, how))
    assert isinstance(there.graph_, DiskGraph)
    assert choices(there.report_) == choices(home.report_)
    assert alike(W, home.labels_, there.labels_) > 0.9


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "method", "how"), paired(GRAPHS, SPREADING, TOLD[:2]))
def test_propagators_decide_alike_in_memory_and_on_disk(nothing_fits, name, method, how):
    W, y, k = graph(name)
    made, labels = {"affinity": "precomputed", "random_state": 0}, told(y, k, how).labels
    home = clone(SPREADING[method]).set_params(**made).fit(W, labels)
    there = clone(SPREADING[method]).set_params(**made).fit(stored(W), labels)
    assert isinstance(there.graph_, DiskGraph)
    mine, other = choices(there.report_), choices(home.report_)
    if name == "ill_scaled":  # where solvers end at rounding, each at its own
        assert {**mine, "notes": 0, "warnings": 0} == {**other, "notes": 0, "warnings": 0}
        return
    assert mine == other
    assert np.mean(home.labels_ == there.labels_) > 0.99


@pytest.mark.parametrize(
    ("method", "how", "told", "what"),
    [
        (ml.NCut, {"variant": "shi-malik"}, {}, "shi-malik"),
        (ml.NCut, {"isolated": "assign"}, {}, "isolated: 'assign'"),
        (ml.NCut, {"n_clusters": "auto"}, {}, "counts on a graph in memory"),
        (ml.NCut, {"solver": "dense"}, {}, "solver: 'dense'"),
        (ml.NCut, {"memory": "200MB"}, {}, "on disk needs"),
        (ml.CSP, {"subspace": "exact"}, {}, "subspace: 'exact' does not run on disk: no precond"),
        (ml.CSP, {"assign": "split"}, {}, "assign: 'split'"),
        (ml.CSP, {"beta": "search"}, {}, "beta: 'search' does not run on disk"),
        (ml.CSP, {"n_clusters": 81}, {}, "81 clusters asked"),
        (ml.CSP, {"memory": "200MB"}, {}, "on disk needs"),
        (ml.CSP, {"beta": "nothing"}, {}, "beta"),
        (ml.SSSC, {"gamma": "search"}, {}, "gamma: 'search'"),
        (ml.ConstrainedAP, {"prior": "affinity"}, {}, "prior: 'affinity'"),
        (ml.FastGE, {"init": "labels"}, {}, "init: 'labels'"),
        (ml.SRCP, {"solver": "dense"}, {}, "solver: 'dense'"),
        (ml.SRCP, {"new_edges": "all"}, {}, "new_edges: 'all'"),
        (ml.SRCP, {"eigen_solver": "dense"}, {}, "eigen_solver: 'dense'"),
        (ml.GWEM, {}, {}, "GWEM"),
        (ml.GFHF, {"solver": "dense"}, {}, "solver"),
        (ml.GFHF, {"memory": "200MB"}, {}, "needs"),
        *(
            (method, {}, given, "does not run on disk")
            for method in (ml.NCut, ml.CSP, ml.SRCP, ml.GFHF)
            for given in ({"sample_weight": np.ones(80)}, {"graphs": [sp.eye_array(80)]})
        ),
    ],
)
def test_what_does_not_run_on_disk_is_refused(graphs_on_disk, method, how, told, what):
    est = method(affinity="precomputed", random_state=0)
    if "n_clusters" in est.get_params():
        how = {"n_clusters": 2, **how}
    y = () if method is ml.NCut else (np.where(np.arange(80) % 7 == 0, np.arange(80) % 2, -1),)
    W = random_graph(np.random.default_rng(0), 80)
    with pytest.raises(InputError, match=what) as caught:
        est.set_params(**how).fit(stored(W), *y, **told)
    assert "\n" not in str(caught.value)
