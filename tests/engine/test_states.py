"""The state of every estimator: all of one fit, whatever happened before, or as it was."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from cases import planted_graph
from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.methods import constrained_spectral, ncut, propagated_constraints
from mustlink.observe import Silent
from mustlink.propagate import propagator
from mustlink_io.jobs.cluster import ClusterJob
from mustlink_io.jobs.on_disk import home_alone
from on_disk import stored

N, K = 60, 3


def blobs(seed, n=N):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % K)
    return (rng.normal(size=(n, 4)) + 5 * np.eye(K, 4)[y]).astype(np.float32), y


def graph(seed):
    W, y = planted_graph(np.random.default_rng(seed), N, K, inside=0.4, across=0.05)
    return ml.Graph.from_affinity(W), y


def directed(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N) % K)
    arcs = rng.random((N, N)) < np.where((y[:, None] + 1) % K == y, 0.5, 0.05)
    return sp.csr_matrix(arcs * 1.0), y


def picture(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(K), 8)[:, None] * np.ones(16, dtype=int)
    return np.clip(0.4 * y[..., None] + rng.normal(0, 0.05, (*y.shape, 3)), 0, 1), y


def energy(seed):
    W, y = planted_graph(np.random.default_rng(seed), N, K, inside=0.4, across=0.05)
    return sp.csr_matrix(sp.diags(np.asarray(W.sum(axis=0)).ravel()) - W), y


def some(y, seed, share=0.4):
    """Labels of some of the nodes, of every class at least two."""
    rng = np.random.default_rng(seed)
    known = np.where(rng.random(y.shape) < share, y, -1)
    for c in np.unique(y):
        known.flat[np.flatnonzero(y == c)[:2]] = c
    return known


QUICK = {"subspace": 6, "regularization": 0}
OF_GRAPHS = {
    "NCut": {"n_clusters": K, "regularization": 0},
    "CSP": {"n_clusters": K, "beta": 0.3, **QUICK},
    "SSSC": {"n_clusters": K, "gamma": 0.3, "balanced": True, **QUICK},
    "SpectralLearning": {"n_clusters": K, **QUICK},
    "ConstrainedAP": {"n_clusters": K, "noise": 0.3, **QUICK},
    "FastGE": {"n_clusters": K, **QUICK},
    "SSKK": {"n_clusters": K},
    "SRCP": {"n_clusters": K, "power": 1.0, "variant": "ng"},
    "E2CP": {"n_clusters": K, "power": 1.0, "variant": "ng"},
    "CSCGFHF": {"n_clusters": K},
    "GFHF": {},
    "LLGC": {},
    "Poisson": {},
    "TikReg": {},
    "LELP": {},
    "GreenFunction": {},
    "GWEM": {},
    "ClusterKernel": {},
    "NCutPropagation": {},
}
OF_POINTS = {"LLELP": {}, "LNP": {}, "LTSALP": {}, "LLE": {}, "LTSA": {}, "LaplacianEigenmaps": {}}
OTHERS = {"DISIM": directed, "GLP": energy, "StrokeCut": picture, "RegionCut": picture}
ALL = [*OF_GRAPHS, *OF_POINTS, *OTHERS]
UNTOLD = {"NCut", "LLE", "LTSA", "LaplacianEigenmaps", "RegionCut"}


def made(name):
    """The estimator, and what draws its data."""
    if name in OTHERS:
        how = {"n_clusters": K} if name == "DISIM" else {}
        return getattr(ml, name)(**how), OTHERS[name]
    if name in OF_POINTS:
        return getattr(ml, name)(random_state=0), blobs
    how = {"affinity": "precomputed", "random_state": 0, **OF_GRAPHS[name]}
    return getattr(ml, name)(**how), graph


def fit(est, X, y, observer=None):
    return est.fit(X, *([] if type(est).__name__ in UNTOLD else [y]), observer=observer)


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


@pytest.mark.parametrize("name", ["NCut", "CSP", "SRCP", "Poisson"])
def test_nothing_of_a_fit_in_memory_remains_after_one_on_disk(name, monkeypatch):
    for module in (ncut, constrained_spectral, propagated_constraints, propagator):
        monkeypatch.setattr(module, "stays_on_disk", lambda *_: True)
    X, y = blobs(0)
    how = {"random_state": 0, **OF_GRAPHS[name]} | ({"tol": 1e-2} if name == "SRCP" else {})
    est = fit(getattr(ml, name)(**how), X, some(y, 0))
    if name != "Poisson":
        est.name_clusters({0: "cats"})
    G, of_nodes = graph(1)
    for one in (est, fresh := getattr(ml, name)(**how)):
        fit(one, stored(G.affinity), some(of_nodes, 1))
    assert isinstance(est.graph_, StoredGraph)
    assert vars(est).keys() == vars(fresh).keys()
    assert getattr(est, "cluster_names_", {}) == {}


@pytest.mark.parametrize("name", ["CSP", "SRCP"])
def test_a_refit_on_disk_leaves_no_cut_in_other_numbers(name, monkeypatch):
    for module in (constrained_spectral, propagated_constraints):
        monkeypatch.setattr(module, "stays_on_disk", lambda *_: True)
    G, y = graph(0)
    est = fit(made(name)[0], stored(G.affinity), some(y, 0))
    assert "_cut_on_disk" in vars(est)
    est.refit(some(y, 1))
    assert "_cut_on_disk" not in vars(est)


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
    return {**vars(est.report_), "stages": None}


def test_a_job_with_numbers_of_numpy_is_planned_alike():
    usual, other = (
        ClusterJob(data="w.csv", output="o.h5", method="csp", n_clusters=k, params={"subspace": p})
        for k, p in ((5, 7), (np.int64(5), np.int64(7)))
    )
    assert other.stated_cost() == usual.stated_cost()
    assert home_alone(other, is_points=False) is home_alone(usual, is_points=False) is None


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
