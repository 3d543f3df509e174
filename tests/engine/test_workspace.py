"""One workspace a graph: what is kept serves only where a fresh result would be the same."""

import numpy as np
import pytest

import mustlink as ml
from cases import random_graph
from mustlink.context.method_cost import RESERVE, Size
from mustlink.context.stage_cache import StageCache, Workspace
from mustlink.core.observe import Recorder
from mustlink.eigen.memory_work import known_spectrum, smallest_pairs, smoothest
from mustlink.eigen.plain_solve import PairsKey
from mustlink.errors import InputError
from mustlink.graph.graph import Derived


@pytest.fixture
def graph():
    """A ring with chords: so slow to converge that a step or two are not enough."""
    return ml.Graph.from_affinity(random_graph(np.random.default_rng(5), 1500, density=0.004))


def pairs(graph, **how):
    return smallest_pairs(Workspace(graph), 4, solver="lobpcg", **how)


def test_more_steps_are_taken_where_more_are_allowed(graph):
    first = pairs(graph, tol=1e-10, max_iter=1)
    assert not first.convergence.converged.all()
    second = pairs(graph, tol=1e-10, max_iter=200)
    assert second.convergence.converged.all()
    third = pairs(graph, tol=1e-10, max_iter=1)  # and fewer where fewer are
    assert third.convergence.iterations == 1
    assert not third.convergence.converged.all()


def test_a_converged_result_serves_where_its_steps_are_allowed(graph):
    first = pairs(graph, tol=1e-8, max_iter=200)
    steps = first.convergence.iterations
    assert pairs(graph, tol=1e-8, max_iter=steps).vectors is not None
    assert next(graph.derived.of(PairsKey))[0].max_iter == 200  # nothing was computed anew
    pairs(graph, tol=1e-8, max_iter=steps - 1)
    assert next(graph.derived.of(PairsKey))[0].max_iter == steps - 1


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("other", [{"seed": 1}, {"tol": 1e-4}, {"tol": 1e-9}])
def test_other_settings_are_computed_as_on_a_fresh_graph(graph, other):
    pairs(graph)
    fresh = pairs(ml.Graph(graph.affinity), **other)
    again = pairs(graph, **other)
    np.testing.assert_array_equal(again.vectors, fresh.vectors)
    assert again.convergence.iterations == fresh.convergence.iterations


def test_one_precision_is_held_at_a_time(graph):
    smoothest(Workspace(graph), 6)
    found = smoothest(Workspace(graph, single=True, memory=10**9), 6)
    assert found.laplacian.S.dtype == np.float32
    assert {key.single for key, _ in graph.derived._kept.values()} == {None, True}
    back = smoothest(Workspace(graph), 6)
    assert back.laplacian.S.dtype == np.float64


def test_precision_of_one_fit_does_not_stick(graph):
    size = Size(1500, graph.affinity.nnz)
    just_too_little = ml.NCut(4).cost().peak(size, single=False) + RESERVE - 1
    tight = ml.NCut(4, affinity="precomputed", memory=just_too_little, random_state=0)
    tight.fit(graph)
    assert any("single precision" in note for note in tight.report_.notes)
    after = ml.NCut(4, affinity="precomputed", random_state=0).fit(graph)
    fresh = ml.NCut(4, affinity="precomputed", random_state=0).fit(ml.Graph(graph.affinity))
    assert after.embedding_.dtype == np.float64
    np.testing.assert_array_equal(after.embedding_, fresh.embedding_)


def test_a_budget_is_looked_at_in_every_fit(graph):
    ml.NCut(4, affinity="precomputed").fit(graph)
    with pytest.raises(InputError, match="memory: "):
        ml.NCut(4, affinity="precomputed", memory="100MB").fit(graph)


def test_what_disk_and_memory_keep_has_one_key(graph):
    class Drawer(dict):
        source = "data"

        def recall(self, stage, key, types):
            return self.get(key)

        def keep(self, stage, key, value, seconds):
            self[key] = value

    drawer = Drawer()

    def solved(**how):
        other = ml.Graph(graph.affinity)
        other.derived.origin = "graph"
        recorder = Recorder()
        found = smallest_pairs(Workspace(other, recorder, drawer), 4, solver="lobpcg", **how)
        return found, [stage.name for stage in recorder.stages]

    first, _ = solved(tol=1e-8, max_iter=200)
    again, stages = solved(tol=1e-8, max_iter=300)
    assert "eigenvectors: kept from before" in stages
    np.testing.assert_array_equal(first.vectors, again.vectors)
    _, stages = solved(tol=1e-8, max_iter=1)
    assert "eigenvectors" in stages
    _, stages = solved(tol=1e-8, max_iter=200)  # the unconverged one does not serve
    assert "eigenvectors" in stages


def test_nothing_is_kept_without_a_name():
    cache = StageCache(Recorder())
    assert cache.name_of("stage", "origin") is None
    assert Derived().origin is None


def test_known_spectrum_is_the_longest_that_fits_came_by(graph):
    assert known_spectrum(graph) is None
    found = pairs(graph)
    np.testing.assert_array_equal(known_spectrum(graph)[:4], found.values)
    basis = smoothest(Workspace(graph), 9)
    np.testing.assert_array_equal(known_spectrum(graph), basis.values[basis.n_ties :])


def test_every_regularisation_has_a_name_of_its_own(graph):
    """On disk, too, where a run with another one would take its vectors."""
    graph.derived.origin = "this graph"
    work = Workspace(graph, Recorder(), keeper=object())
    names = {work.regularized(tau).name("eigenvectors", 4) for tau in (0.0, 0.1, 0.3)}
    assert len(names) == 3
    assert None not in names
