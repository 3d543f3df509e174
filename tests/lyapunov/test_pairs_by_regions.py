"""F found region by region of a graph on disk, beside F of the graph in memory."""

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp

from cases import random_graph
from mustlink.clusterers.propagated_constraints import placed_sources
from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.eigen.disk_work import DiskWork
from mustlink.graph import Graph
from mustlink.graph.row_buckets import EntryRuns
from mustlink.lyapunov import fields, pair_propagation
from mustlink.lyapunov.fields import ExhaustiveProblem, LyapunovProblem
from mustlink.lyapunov.pair_propagation import solve_pairs
from mustlink.lyapunov.regions import DiskRows
from mustlink.lyapunov.sources import sources_at
from mustlink.operators.laplacian import normalized_laplacian
from on_disk import stored

SRCP, E2CP = LyapunovProblem, ExhaustiveProblem


def sheet(n=900, seed=0):
    """Points of a strip, each with an edge to the next ones."""
    rng = np.random.default_rng(seed)
    near = np.arange(n)[:, None] + np.arange(1, 4)
    rows, columns = np.repeat(np.arange(n), 3), near.ravel()
    inside = columns < n
    weight = rng.uniform(0.2, 1.0, inside.sum()).astype(np.float32).astype(float)
    W = sp.csr_matrix((weight, (rows[inside], columns[inside])), shape=(n, n))
    return sp.csr_matrix(W + W.T)


def pairs_of(n, count, seed=1):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(n)[: 2 * count].reshape(count, 2)
    pairs[: count // 2, 1] = np.minimum(pairs[: count // 2, 0] + 5, n - 1)  # these meet
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(np.arange(len(pairs)) % 3, 1.0, -0.7)
    return Constraints.from_pairs(pairs, belief, n_nodes=n)


def on_disk(W, known, problem, parameter, room=None, new_edges=20, tol=1e-3, solver="auto"):
    """F (n, n) on edges, new edges, what was told."""
    work = DiskWork(stored(W, 300), 2)
    rows = DiskRows(work.laplacian, room)
    Y, places = placed_sources(work, known)
    asked = problem(work.laplacian, parameter, Y)
    how = {"rows": rows, "places": places, "new_edges": new_edges, "tol": tol}
    found = solve_pairs(asked, work.recorder, solver=solver, **how)
    edges = rows.beliefs
    return sp.vstack([edges.block(b) for b in range(edges.bounds.size - 1)]).tocsr(), found, work


def at_home(W, known, problem, parameter, new_edges=20, tol=1e-3, solver="diffusion"):
    home = normalized_laplacian(Graph.from_affinity(W))
    asked = problem(home, parameter, sources_at(known, home.nodes, home.weights))
    recorder = Recorder()
    found = solve_pairs(asked, recorder, solver=solver, new_edges=new_edges, tol=tol)
    S = home.S
    F = sp.csr_matrix((found.beliefs, S.indices, S.indptr), shape=S.shape)
    place = sp.csr_matrix((np.ones(home.size), (home.nodes, np.arange(home.size))), W.shape[:1] * 2)
    place = place[:, : home.size]
    ends = np.sort(np.column_stack([home.nodes[found.new.first], home.nodes[found.new.second]]))
    return sp.csr_matrix(place @ F @ place.T), found, set(map(tuple, ends.tolist()))


@pytest.mark.thorough
@pytest.mark.parametrize(("problem", "parameter"), [(SRCP, 0.2), (E2CP, 0.8)])
@pytest.mark.parametrize("room", [None, 40_000])
def test_the_same_as_at_home(problem, parameter, room):
    W = sheet()
    known = pairs_of(900, 30)
    F, found, work = on_disk(W, known, problem, parameter, room)
    there, home, ends = at_home(W, known, problem, parameter)
    assert found.about["parts"] == 1 if room is None else found.about["parts"] > 4
    assert abs(F - there).max() <= 1e-6 * home.largest  # single precision
    assert found.largest == pytest.approx(home.largest, rel=1e-5)
    assert found.agreement == home.agreement
    assert found.floor == home.floor
    ours = set(zip(found.new.first.tolist(), found.new.second.tolist(), strict=True))
    assert len(ours ^ ends) <= 0.01 * len(ends)
    told = there.data[np.abs(there.data) > home.floor]
    assert abs(found.counts["strengthened"] - (told > 0).sum() // 2) <= 2
    assert found.counts["weakened"] > 0
    assert sum(found.counts.values()) - found.new.count == W.nnz // 2
    assert work.recorder.stages[-1].name == "constraint propagation"


@pytest.mark.parametrize("case", ["random", "isolated", "strip"])
def test_within_the_bound_of_the_dense_solution(case):
    rng = np.random.default_rng(4)
    W = {
        "random": lambda: random_graph(rng, 120, 3),
        "isolated": lambda: random_graph(rng, 100, 2, isolated=9),
        "strip": lambda: sheet(150),
    }[case]()
    W = sp.csr_matrix(W.astype(np.float32).astype(float))
    n, mu, tol = W.shape[0], 0.3, 1e-3
    known = pairs_of(n, 8)
    F, found, _ = on_disk(W, known, SRCP, mu, tol=tol)
    degree = np.asarray(W.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(degree), out=np.zeros(n), where=degree > 0)
    L = np.diag((degree > 0) * 1.0) - scale[:, None] * W.toarray() * scale
    M = L + mu * np.eye(n)
    Y = known.matrix.toarray() * ((degree > 0)[:, None] & (degree > 0))
    dense = la.solve_continuous_lyapunov(M, 2 * mu * Y)
    there = W.toarray() > 0
    assert np.abs((F.toarray() - dense)[there]).max() <= tol * np.abs(Y).max()
    new = found.new
    assert np.abs(dense[new.first, new.second] - new.beliefs).max(initial=0) <= tol
    assert not there[new.first, new.second].any()
    assert (new.first < new.second).all()


@pytest.mark.thorough
@pytest.mark.parametrize("room", [None, 40_000])
def test_small_mu_by_lanczos(monkeypatch, room):
    """New edges are looked for as in large graphs; "auto" takes it for small μ."""
    monkeypatch.setattr(pair_propagation, "_ROWS_BELOW", 0)
    W, known = sheet(), pairs_of(900, 12)
    F, found, work = on_disk(W, known, SRCP, 0.01, room, 5)
    there, home, ends = at_home(W, known, SRCP, 0.01, 5, solver="krylov")
    assert found.convergence.solver == home.convergence.solver == "global Krylov"
    assert found.convergence.converged.all()
    # Both are solutions to a residual of 5e-5: S is in single precision on disk.
    assert abs(F - there).max() <= 1e-4 * home.largest
    assert abs(F - F.T).nnz == 0
    ours = set(zip(found.new.first.tolist(), found.new.second.tolist(), strict=True))
    assert len(ours ^ ends) <= 0.02 * len(ends)
    assert found.agreement == home.agreement
    assert found.about["sources"] == home.about["sources"]
    assert any("new edges are looked for" in note for note in work.recorder.notes)


def test_nothing_known():
    known = Constraints.none(900)
    F, found, work = on_disk(sheet(), known, SRCP, 0.2)
    assert F.nnz == found.new.count == 0
    assert found.largest == 0
    assert any("nothing to spread" in note for note in work.recorder.notes)


def test_pairs_of_isolated_nodes_and_pairs_that_contradict_each_other():
    W = sp.block_diag([sheet(200), sp.csr_matrix((5, 5))], format="csr")
    lost = Constraints.from_pairs([[3, 202], [201, 203]], n_nodes=205)
    F, _, work = on_disk(W, lost, SRCP, 0.2)
    assert F.nnz == 0
    assert any("no edge" in told for told in work.recorder.warnings)
    both = Constraints.from_pairs([[3, 9], [9, 3], [30, 40]], [1, -1, 1], n_nodes=205)
    there, _, _ = at_home(W, both, SRCP, 0.2)
    F, _, work = on_disk(W, both, SRCP, 0.2)
    assert abs(F - there).max() <= 1e-6
    assert any("contradict" in told for told in work.recorder.warnings)


def test_entries_of_several_runs_are_added():
    rng = np.random.default_rng(0)
    bounds = np.array([0, 3, 4, 10])
    runs, expected = EntryRuns(bounds), np.zeros((10, 10))
    for _ in range(4):
        M = sp.random(10, 10, 0.2, random_state=rng, format="csr")
        M.sort_indices()
        rows = np.repeat(np.arange(10), np.diff(M.indptr))
        runs.add([(rows[:3], M.indices[:3], M.data[:3]), (rows[3:], M.indices[3:], M.data[3:])])
        expected += M.toarray()
    found = sp.vstack([runs.block(b) for b in range(3)])
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(("problem", "parameter"), [(SRCP, 0.2), (E2CP, 0.8)])
@pytest.mark.parametrize(("room", "count"), [(40_000, 3), (150_000, 20)])
def test_new_edges_that_several_parts_make(monkeypatch, problem, parameter, room, count):
    """Pairs between two places: F is of many parts there, and of none alone."""
    monkeypatch.setattr(fields, "_MISSED", 0.0)  # at home small products are left out
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.permutation(60)[:40], 400 + rng.permutation(60)[:40]])
    known = Constraints.from_pairs(pairs, np.where(np.arange(40) % 4, 1.0, -0.7), n_nodes=900)
    _, found, _ = on_disk(sheet(), known, problem, parameter, room, count)
    _, _, ends = at_home(sheet(), known, problem, parameter, count)
    assert found.about["parts"] > 10
    assert set(zip(found.new.first.tolist(), found.new.second.tolist(), strict=True)) == ends
