"""The state of every estimator: all of one fit, whatever happened before, or as it was."""

from __future__ import annotations

import pickle
from dataclasses import is_dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from every import (
    ALL,
    OF_GRAPHS,
    OF_POINTS,
    OTHERS,
    QUICK,
    UNTOLD,
    K,
    N,
    blobs,
    fit,
    graph,
    made,
    some,
)
from mustlink.constraints import Constraints
from mustlink.core.observe import Silent
from mustlink.errors import InfeasibleError, InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink_io.jobs.fits import ClusterJob
from mustlink_io.jobs.on_disk import in_memory_only
from mustlink_io.ui.node_session import NodeSession
from on_disk import stored


class Breaking(Silent):
    """An observer that hears `left` more beginnings and ends of stages and raises at the next."""

    def __init__(self, left=10**9, error=KeyboardInterrupt):
        self.left, self.heard, self.error = left, 0, error

    def begin(self, stage):
        self.heard += 1
        if self.heard > self.left:
            self.left = 10**9
            raise self.error(stage)

    def end(self, stage, seconds):
        self.begin(stage)


def fitted(name, seed=0):
    est, drawn = made(name)
    X, y = drawn(seed)
    return fit(est, X, some(y, seed))


def fit_of_others(est, observer):
    X, y = made(type(est).__name__)[1](1)
    fit(est, X, some(y, 1), observer)


def refit_by_others(est, observer):
    y = made(type(est).__name__)[1](0)[1]
    est.refit(some(y, 2), observer=observer)


CALLS = {
    (name, call.__name__): call
    for name in ALL
    for call in (fit_of_others, refit_by_others)
    if call is fit_of_others or (name not in UNTOLD | {"GLP"})
}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_a_call_that_fails_changes_nothing(name, call):
    counting = Breaking()
    CALLS[name, call](fitted(name), counting)
    for left, error in (
        (counting.heard // 2, KeyboardInterrupt),
        (counting.heard - 1, MemoryError),
    ):
        est = fitted(name)
        before = dict(vars(est))
        with pytest.raises(error):
            CALLS[name, call](est, Breaking(left, error))
        assert vars(est).keys() == before.keys()
        assert all(vars(est)[one] is value for one, value in before.items())


def test_a_fit_that_fails_leaves_another_unfitted():
    X, y = graph(0)
    est = ml.CSP(N + 1, affinity="precomputed", random_state=0)
    with pytest.raises(InputError, match="n_clusters"):
        est.fit(X, some(y, 0))
    assert vars(est) == vars(ml.CSP(N + 1, affinity="precomputed", random_state=0))


def test_nothing_of_an_earlier_fit_remains():
    """Columns, names, classes, what was told: where the new fit has none, none is there."""
    X, y = blobs(0)
    est = ml.CSP(K, **QUICK, random_state=0).fit(X, some(y, 0))
    est.name_clusters({0: "cats"})
    G, of_nodes = graph(1)
    est.fit(G, constraints=Constraints.from_labels(some(of_nodes, 1)))
    fresh = ml.CSP(K, **QUICK, random_state=0)
    fresh.fit(graph(1)[0], constraints=Constraints.from_labels(some(of_nodes, 1)))
    assert est.cluster_names_ == {}
    assert vars(est).keys() == vars(fresh).keys()


@pytest.mark.parametrize("name", ["CSP", "SSKK"])
def test_a_refit_leaves_no_result_of_the_fit_before(name):
    G, y = graph(0)
    for k, other in ((1, K), (K, 1)):
        est, fresh = (made(name)[0].set_params(n_clusters=one) for one in (other, k))
        est.fit(G, some(y, 0)).set_params(n_clusters=k).refit(some(y, 0))
        fresh.fit(G, some(y, 0))
        assert results(est).keys() == results(fresh).keys()


def results(est):
    return {name: value for name, value in vars(est).items() if name.endswith("_")}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["NCut", "CSP", "SRCP", "Poisson"])
def test_nothing_of_a_fit_in_memory_remains_after_one_on_disk(name, graphs_on_disk):
    X, y = blobs(0)
    how = {"random_state": 0, **OF_GRAPHS[name]} | ({"tol": 1e-2} if name == "SRCP" else {})
    est = fit(getattr(ml, name)(**how), X, some(y, 0))
    if name != "Poisson":
        est.name_clusters({0: "cats"})
    G, of_nodes = graph(1)
    for one in (est, fresh := getattr(ml, name)(**how)):
        fit(one, stored(G.affinity), some(of_nodes, 1))
    assert isinstance(est.graph_, DiskGraph)
    assert vars(est).keys() == vars(fresh).keys()
    assert getattr(est, "cluster_names_", {}) == {}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["CSP", "SRCP"])
def test_a_refit_on_disk_leaves_no_cut_in_other_numbers(name, graphs_on_disk):
    G, y = graph(0)
    est = fit(made(name)[0], stored(G.affinity), some(y, 0))
    assert "_cut_on_disk" in vars(est)
    est.refit(some(y, 1))
    assert "_cut_on_disk" not in vars(est)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ALL)
def test_numbers_of_numpy_are_those_of_python(name):
    """The same cost, model and report, whatever type a caller's loop or table has numbers in."""
    est, drawn = made(name)
    X, y = drawn(0)
    asked = est.get_params()
    limits = {"memory": 2 * 10**9, "time_limit": 3600, "random_state": 0}
    asked |= {key: value for key, value in limits.items() if key in asked}
    numbers = {key: value for key, value in asked.items() if isinstance(value, bool | int | float)}
    found = []
    for types in (int, float, bool), (np.int64, np.float64, np.bool_), (np.int32, np.float64, bool):
        of = dict(zip((int, float, bool), types, strict=True))
        one = est.__class__(**asked | {key: of[type(v)](v) for key, v in numbers.items()})
        assert one.get_params() == asked
        cost = one.cost() if hasattr(one, "cost") else None
        found.append((cost, fit(one, X, some(y, 0))))
    (cost, first), *others = found
    for other_cost, other in others:
        assert other_cost == cost
        assert repr(told(other)) == repr(told(first))
        for key in ("labels_", "embedding_"):
            np.testing.assert_array_equal(getattr(other, key, 0), getattr(first, key, 0))


def told(est):
    """The report without what a clock says."""
    extra = {**est.report_.extra, "auto_candidates": None}
    return {**vars(est.report_), "stages": None, "extra": extra}


def test_a_job_with_numbers_of_numpy_is_planned_alike():
    usual, other = (
        ClusterJob(data="w.csv", output="o.h5", method="csp", n_clusters=k, params={"subspace": p})
        for k, p in ((5, 7), (np.int64(5), np.int64(7)))
    )
    assert other.stated_cost() == usual.stated_cost()
    assert in_memory_only(other, is_points=False) is in_memory_only(usual, is_points=False) is None


def test_what_is_set_from_elsewhere_stays():
    """What a subclass found before it fits, who keeps stages, and parameters set meanwhile."""

    class Scaled(ml.NCut):
        def fit(self, X, **more):
            self.scale_ = X.std()
            return super().fit(X / self.scale_, **more)

    class Setting(Silent):
        def begin(self, stage):
            est.set_params(n_clusters=2)

    X, _ = blobs(0)
    est = Scaled(K, random_state=0).keep_in(None)
    for scale in (1.0, 2.0):
        est.set_params(n_clusters=K).fit(scale * X, observer=Setting())
        assert est.scale_ == (scale * X).std()
        assert est.report_.n_clusters == K
        assert est.n_clusters == 2
        assert "_kept_in" in vars(est)


# The machine: an estimator, and a twin that is told the same and nothing else ever happens to.

ON_DISK = {"NCut", "CSP", "SSSC", "FastGE", "ConstrainedAP", "SRCP", "E2CP"}
ON_DISK |= {"GFHF", "LLGC", "Poisson", "TikReg"}
PAIRS = {*OF_GRAPHS} - {"NCut", "CSCGFHF"} - set(list(OF_GRAPHS)[10:])
ANSWERED = PAIRS | {*OF_GRAPHS} & ON_DISK - {"NCut"}
NO_FILE = {"GLP", "StrokeCut", "RegionCut"}
WRONG = {"n_clusters": -1, "tol": -1.0, "n_components": -1}
seeds = st.integers(0, 2)
errors = st.sampled_from([KeyboardInterrupt, MemoryError, ZeroDivisionError])


def kinds_of(name):
    """What may be fitted."""
    if name in OTHERS:
        return ["own"]
    if name in OF_POINTS:
        return ["points"]
    return ["points", "graph", *(["stored"] if name in ON_DISK else [])]


class States(RuleBasedStateMachine):
    """Whatever happens, the estimator is as its twin, or as before where a call failed."""

    def __init__(self, name):
        super().__init__()
        self.name, self.told = name, None
        self.graphs = {}  # that are fitted again and again, as a person does
        how = {} if name in OTHERS else OF_GRAPHS.get(name, {})
        if "random_state" in getattr(ml, name)._get_param_names():
            how = {"random_state": 0, **how}
        self.new = lambda: getattr(ml, name)(**how)
        self.est, self.twin = self.new(), self.new()
        if name == "DISIM":
            self.est.n_clusters = self.twin.n_clusters = K

    def data(self, kind, seed, *, fresh):
        """Data, their classes; not `fresh` graphs have been used before."""
        if kind == "own":
            return OTHERS[self.name](seed)
        if kind == "points":
            return blobs(seed)
        G, y = graph(seed)
        if kind == "stored":
            return stored(G.affinity), y
        return (G if fresh else self.graphs.setdefault(seed, G)), y

    def call(self, est, verb, *given, observer=None):
        """`fit` by (kind, seed, labels, pairs), `refit` by (labels, pairs, k), `add` by (seed,)."""
        name = self.name
        if verb == "fit":
            kind, seed, by, pairs = given
            X, y = self.data(kind, seed, fresh=est is self.twin)
            told = [] if name in UNTOLD else [some(y, by)]
            if pairs and name in PAIRS:
                told = [None, Constraints.from_labels(told[0])]
            est.fit(X, *told, observer=observer)
            return
        kind, seed = self.told[:2]
        _, y = self.data(kind, seed, fresh=False)
        more = len(est.labels_) - len(y)
        if verb == "refit":
            by, pairs, k = given
            if k and "n_clusters" in est.get_params():
                est.set_params(n_clusters=k)
            labels = some(y, by)
            labels = np.append(labels, np.full(more, -1)) if labels.ndim == 1 else labels
            if name == "NCut":
                est.refit(observer=observer)
            elif pairs and name in PAIRS:
                est.refit(Constraints.from_labels(labels), observer=observer)
            else:
                est.refit(labels, observer=observer)
            return
        rng = np.random.default_rng(given[0])
        if kind == "points":
            new = blobs(seed, N + 6)[0][-6:] + rng.normal(0, 0.1, (6, 4)).astype(np.float32)
        else:
            new = sp.hstack([sp.random(6, N + more, 0.2, random_state=rng), sp.csr_matrix((6, 6))])
        told = {} if name == "NCut" else {"y": rng.integers(-1, K, 6)}
        est.add(new, observer=observer, **told)

    def both(self, verb, *given):
        """The call that succeeds, for the estimator and its twin."""
        before = self.twin
        if verb == "fit":
            self.twin = self.new().set_params(**self.est.get_params())
        parameters = self.est.get_params()
        try:
            self.call(self.est, verb, *given)
        except InfeasibleError:
            self.est.set_params(**parameters)
            self.twin = before
            self.fails(InfeasibleError, verb, *given)
            return
        self.call(self.twin, verb, *given)
        if verb == "fit":
            self.told = given
            kind, seed = given[:2]
            self.asked = blobs(seed)[0][:9] + 0.1 if kind == "points" else None

    def fails(self, error, verb, *given, observer=None):
        """A call that ends in an error, unless it is over before; nothing has changed then."""
        before = dict(vars(self.est))
        parameters = self.est.get_params()
        try:
            self.call(self.est, verb, *given, observer=observer)
        except error:
            self.est.set_params(**parameters)
            assert vars(self.est).keys() == before.keys()
            assert all(vars(self.est)[name] is one for name, one in before.items())
            return
        assert observer is not None, "nothing was raised"
        assert observer.heard <= observer.left
        if verb == "fit":
            self.twin = self.new().set_params(**parameters)
            self.told = given
        self.call(self.twin, verb, *given)
        if verb == "fit":
            kind, seed = given[:2]
            self.asked = blobs(seed)[0][:9] + 0.1 if kind == "points" else None

    @initialize(data=st.data(), seed=seeds, by=seeds, pairs=st.booleans())
    def first(self, data, seed, by, pairs):
        self.both("fit", data.draw(st.sampled_from(kinds_of(self.name))), seed, by, pairs)

    @rule(data=st.data(), seed=seeds, by=seeds, pairs=st.booleans())
    def fit(self, data, seed, by, pairs):
        self.both("fit", data.draw(st.sampled_from(kinds_of(self.name))), seed, by, pairs)

    @precondition(lambda self: hasattr(self.est, "refit"))
    @rule(by=seeds, pairs=st.booleans(), k=st.sampled_from([None, None, 2, 3, 4, 1]))
    def refit(self, by, pairs, k):
        if self.told[0] == "stored" and self.name == "NCut":
            self.fails(InputError, "refit", by, pairs, k)
        else:
            self.both("refit", by, pairs, k)

    @precondition(lambda self: hasattr(self.est, "add"))
    @rule(seed=seeds)
    def add(self, seed):
        if self.told[0] == "stored" or len(self.est.labels_) > N + 20:
            return
        self.both("add", seed)

    @rule(data=st.data(), seed=seeds, left=st.integers(0, 12), error=errors)
    def broken_fit(self, data, seed, left, error):
        kinds = kinds_of(self.name)
        if self.est.get_params().get("n_clusters") == 1:
            kinds = kinds[:2]
        given = data.draw(st.sampled_from(kinds)), seed, seed, False
        self.fails(error, "fit", *given, observer=Breaking(left, error))

    @precondition(lambda self: hasattr(self.est, "refit") and self.told[0] != "stored")
    @rule(seed=seeds, left=st.integers(0, 8), error=errors)
    def broken_refit(self, seed, left, error):
        self.fails(error, "refit", seed, False, None, observer=Breaking(left, error))

    @precondition(lambda self: hasattr(self.est, "add") and self.told[0] != "stored")
    @rule(seed=seeds, left=st.integers(0, 8), error=errors)
    def broken_add(self, seed, left, error):
        self.fails(error, "add", seed, observer=Breaking(left, error))

    @rule(verb=st.sampled_from(["fit", "refit"]), seed=seeds, data=st.data())
    def refused(self, verb, seed, data):
        """A parameter that makes no sense."""
        wrong = [name for name in WRONG if name in self.est.get_params()]
        if not wrong or not hasattr(self.est, verb):
            return
        name = data.draw(st.sampled_from(wrong))
        was = self.est.get_params()[name]
        self.est.set_params(**{name: WRONG[name]})
        kind = data.draw(st.sampled_from(kinds_of(self.name)))
        given = (kind, seed, seed, False) if verb == "fit" else (seed, False, None)
        self.fails(InputError, verb, *given)
        self.est.set_params(**{name: was})

    @precondition(lambda self: "time_limit" in self.est.get_params())
    @rule(seed=seeds, verb=st.sampled_from(["fit", "refit"]))
    def cut_short(self, seed, verb):
        """No time at all, then time again: nothing of what was cut short is kept."""
        kind, number = self.told[:2]
        if not hasattr(self.est, verb) or kind == "stored":
            return
        given = (kind, number, seed, False) if verb == "fit" else (seed, False, None)
        self.est.set_params(time_limit=1e-6)
        self.call(self.est, verb, *given)
        self.est.set_params(time_limit=None)
        self.both("fit", kind, number, seed, False)

    @rule()
    def pickled(self):
        if self.told[0] != "stored":
            self.est = pickle.loads(pickle.dumps(self.est))

    @precondition(lambda self: self.name not in NO_FILE | set(OF_POINTS) | {"stored"})
    @rule()
    def saved(self):
        if self.told[0] != "stored":
            path = self.folder / "model.h5"
            self.est.save(path)
            self.est = ml.load(path)
            path.unlink()

    @precondition(lambda self: self.told[0] in ("points", "graph") and self.name in ANSWERED)
    @rule(node=st.integers(0, N - 1), by=seeds)
    def answered_and_undone(self, node, by):
        labels = np.array(self.est.labels_)
        session = NodeSession(self.est)
        session.choose([node], next(iter(session.choices)))
        assert session.undo()
        if self.est.get_params().get("n_clusters", K) == K:  # others have no one best answer
            assert adjusted_rand_score(self.est.labels_, labels) == 1.0
        self.both("refit", by, False, None)

    @precondition(lambda self: hasattr(self.est, "name_clusters"))
    @rule(text=st.sampled_from(["cats", "dogs"]))
    def name_clusters(self, text):
        number = int(self.est.labels_.max())
        for one in (self.est, self.twin):
            one.name_clusters({number: text})

    @invariant()
    def is_as_its_twin(self):
        if self.told is not None:
            own, other = results(self.est), results(self.twin)
            for one in (own, other):
                one.pop("classifier_", None)  # which no file holds
            same(own, other, self.name)
            same(self.asides(self.est), self.asides(self.twin), self.name)
            self.is_of_one_fit()

    def asides(self, est):
        """What else can be asked for."""
        found = {name: getattr(est, name, None) for name in ("cluster_names_", "constraints_")}
        if self.asked is not None:
            found["predict"] = est.predict(self.asked) if hasattr(est, "predict") else None
        return found

    def is_of_one_fit(self):
        """Every attribute is of the same rows, clusters and parameters."""
        est = self.est
        if self.name in OTHERS:  # of pictures and of directed graphs
            return
        rows = est.report_.n_nodes
        if hasattr(est, "graph_"):
            assert est.graph_.n_rows == rows
        for name in ("labels_", "embedding_", "label_distributions_", "given_labels_"):
            if hasattr(est, name):
                found = getattr(est, name)
                assert len(found) == rows or np.size(found) == rows, name
        if hasattr(est, "labels_") and hasattr(est, "classes_") and self.name != "CSCGFHF":
            assert set(np.unique(est.labels_)) <= {-1, *est.classes_}


def same(a, b, where):
    """Results that are equal, but for rounding."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key, one in a.items():
            if key not in ("stages", "seconds"):
                same(one, b[key], f"{where}, {key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for one, other in zip(a, b, strict=True):
            same(one, other, where)
    elif is_dataclass(a) and not isinstance(a, (ml.Graph, Constraints, DiskGraph)):
        same(vars(a), vars(b), where)
    else:
        a, b = numbers(a), numbers(b)
        assert a.shape == b.shape, where
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=where)
        else:
            assert np.array_equal(a, b), where


def numbers(a):
    """What is compared of a graph, of constraints, or of rows on disk."""
    if isinstance(a, ml.Graph):
        return a.affinity.toarray()
    if isinstance(a, Constraints):
        return a.matrix.toarray()
    if isinstance(a, DiskGraph):
        return a.whole().toarray()
    return np.asarray(a[:] if hasattr(a, "shape") and np.ndim(a) else a)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in ALL if name != "Auto"])  # saved, it is another
def test_states(name, graphs_on_disk, tmp_path):
    long = settings().stateful_step_count < 50  # of the profile, hypothesis's own is 50
    few = {} if long else {"max_examples": 2, "stateful_step_count": 6}

    def machine():
        made = States(name)
        made.folder = tmp_path
        return made

    run_state_machine_as_test(machine, settings=settings(deadline=None, **few))
