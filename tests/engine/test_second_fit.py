"""Two fits on one graph: the second is what a fresh graph would give, whatever was asked before.

A kept result may serve only where a fresh one would be the same: then labels, values, steps, notes
and warnings are the same too, and that is what is asserted, for every ordered pair of settings.
Where another *number* of vectors was kept, its beginning serves, which is at least as sharp.
"""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left
from copy import deepcopy
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import mustlink as ml
from cases import planted_graph
from mustlink.core.observe import Recorder
from mustlink.eigen.plain_solve import PairsKey
from mustlink.errors import InputError
from mustlink.propagation.propagator import Propagator

pytestmark = pytest.mark.usefixtures("few_runs")

N, K = 160, 3
TOL = 1e-8  # of eigenvectors, where none is asked for

A_STEP = {"solver": "lobpcg", "max_iter": 1}
FEW_STEPS = {"solver": "lobpcg", "max_iter": 4}
EIGEN = {
    "as usual": {},
    "lobpcg": {"solver": "lobpcg"},
    "a step": A_STEP,
    "few steps": FEW_STEPS,
    "loose": {"solver": "lobpcg", "tol": 1e-2},
    "sharp": {"solver": "lobpcg", "tol": 1e-11},
    "tight": {"solver": "lobpcg", "tol": 1e-4, "memory": "tight"},
    "ample": {"solver": "lobpcg", "memory": "8GB"},
    "other seed": {"solver": "lobpcg", "random_state": 1},
}
ARPACK = {"shift-invert": {"solver": "shift-invert"}}
PROPAGATED = {
    "as usual": {},
    "cg": {"solver": "cg"},
    "a step": {"solver": "cg", "max_iter": 1},
    "few steps": {"solver": "cg", "max_iter": 4},
    "loose": {"solver": "cg", "tol": 1e-2},
    "sharp": {"solver": "cg", "tol": 1e-11},
    "tight": {"solver": "cg", "tol": 1e-4, "memory": "tight"},
    "ample": {"solver": "cg", "memory": "8GB"},
}
FORM = {"balanced": True, "assign": "kmeans"}
METHODS = {
    "NCut": (lambda **how: ml.NCut(K, **how), EIGEN | ARPACK),
    "CSP": (lambda **how: ml.CSP(K, subspace=8, beta=0.5, assign="kmeans", **how), EIGEN),
    "CSP, exact": (
        lambda **how: ml.CSP(K, subspace="exact", beta=0.5, assign="kmeans", **how),
        EIGEN,
    ),
    "SSSC": (lambda **how: ml.SSSC(K, subspace=8, gamma=0.3, **FORM, **how), EIGEN),
    "SSSC, exact": (
        lambda **how: ml.SSSC(K, subspace="exact", gamma=0.3, **FORM, **how),
        EIGEN,
    ),
    "ClusterKernel": (ml.ClusterKernel, PROPAGATED),
    "LLGC": (ml.LLGC, PROPAGATED),
}
FIRST = [(method, before) for method, (_, settings) in METHODS.items() for before in settings]


class Outcome(NamedTuple):
    """What a fit found, and what it says of how."""

    labels: np.ndarray
    values: np.ndarray
    steps: tuple
    said: tuple


@pytest.fixture(scope="module")
def planted():
    """A graph whose clusters are hard to tell: a step of LOBPCG is not enough; some labels."""
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, N, K, inside=0.1, across=0.02)
    return W, np.where(rng.random(N) < 0.1, y, -1)


@pytest.fixture(scope="module")
def tight(planted):
    """The least memory, in bytes, in which a method's fit is begun: single precision."""
    W, known = planted
    graph = ml.Graph.from_affinity(W)

    @cache
    def least(method):
        est = METHODS[method][0](affinity="precomputed")
        classes = np.unique(known[known >= 0]).size
        cost = est.cost(classes if isinstance(est, Propagator) else None)

        def fits(memory):
            try:
                est.set_params(memory=memory)._view(graph, Recorder(), cost=cost)
            except InputError:
                return False
            return True

        return bisect_left(range(10**10), True, key=fits)

    return least


@pytest.fixture(scope="module")
def made(tight):
    """The estimator of one setting."""

    def build(method, setting):
        make, settings = METHODS[method]
        how = dict(settings[setting])
        if how.get("memory") == "tight":
            how["memory"] = tight(method)
        return make(**({"random_state": 0, "affinity": "precomputed"} | how))

    return build


def fitted(est, graph, known):
    est.fit(graph) if isinstance(est, ml.NCut) else est.fit(graph, known)
    report = est.report_
    reached = report.convergence
    steps = () if reached is None else (reached.solver, reached.reason, reached.iterations)
    values = est.eigenvalues_ if hasattr(est, "eigenvalues_") else est.label_distributions_
    return Outcome(est.labels_, values, steps, (report.notes, report.warnings))


@pytest.fixture(scope="module")
def fresh(planted, made):
    """What each setting gives on a graph of its own, and that graph."""
    W, known = planted

    @cache
    def found(method, setting):
        graph = ml.Graph.from_affinity(W)
        return fitted(made(method, setting), graph, known), graph

    return found


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(("method", "before"), FIRST)
def test_the_second_fit_is_that_of_a_fresh_graph(method, before, planted, fresh, made):
    _, known = planted
    _, used = fresh(method, before)
    for after in METHODS[method][1]:
        expected, _ = fresh(method, after)
        found = fitted(made(method, after), deepcopy(used), known)
        assert np.array_equal(found.labels, expected.labels), after
        assert np.allclose(found.values, expected.values, rtol=1e-12, atol=1e-14), after
        assert (found.steps, found.said) == (expected.steps, expected.said), after


def test_a_copy_holds_what_was_derived(fresh):
    """Else the test above would compare two fresh graphs."""
    _, used = fresh("NCut", "sharp")
    kept, copied = (list(graph.derived.of(PairsKey)) for graph in (used, deepcopy(used)))
    assert kept[0][0] == copied[0][0]
    assert np.array_equal(kept[0][1].vectors, copied[0][1].vectors)


@pytest.mark.thorough
def test_settings_differ(fresh):
    """The table is worth running: settings end differently, and too few steps are told."""
    for method in ("NCut", "CSP, exact", "SSSC, exact"):
        steps = {fresh(method, how)[0].steps for how in METHODS[method][1]}
        assert len(steps) >= 5
    for method in ("NCut", "LLGC"):
        assert any("raise max_iter" in said for said in fresh(method, "few steps")[0].said[1])
        assert any("single precision" in said for said in fresh(method, "tight")[0].said[0])
        assert not any("single precision" in said for said in fresh(method, "ample")[0].said[0])


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations((2, 3, 6), 2)))
def test_another_number_of_clusters(before, after, planted):
    W, _ = planted
    how = {"solver": "lobpcg", "affinity": "precomputed", "random_state": 0}
    graph = ml.Graph.from_affinity(W)
    ml.NCut(before, **how).fit(graph)
    found = ml.NCut(after, **how).fit(graph)
    expected = ml.NCut(after, **how).fit(ml.Graph.from_affinity(W))
    assert np.array_equal(found.labels_, expected.labels_)
    # either run is within its residual of an eigenvalue (Weyl), so both within two of each other
    assert np.allclose(found.eigenvalues_, expected.eigenvalues_, rtol=0, atol=2 * TOL)
    assert found.report_.convergence.converged.all()
    assert found.report_.warnings == expected.report_.warnings


def test_a_second_fit_to_constraints_passes_few_files():
    """What somebody must read to follow CSP: files of which a function is called, and classes."""
    X = np.random.default_rng(0).normal(size=(1200, 4)) + 4.0 * (np.arange(1200) % 3)[:, None]
    graph = ml.knn_graph(X, random_state=0)
    pairs = np.column_stack([np.arange(90), np.arange(90) + np.tile([1, 3], 45)])
    belief = np.tile([-1.0, 1.0], 45)
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=1200)
    ml.CSP(3, random_state=0).fit(graph, constraints=known)
    passed = set()

    def note(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("mustlink."):
            passed.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        ml.CSP(3, random_state=0).fit(graph, constraints=known)
    finally:
        sys.setprofile(before)
    assert len(passed) <= 31, "\n".join(sorted(passed))
    ours = [one for one in ml.CSP.__mro__[1:] if one.__module__.startswith("mustlink.")]
    assert len([one for one in ours if one.__module__ != "mustlink.core.state"]) <= 4
