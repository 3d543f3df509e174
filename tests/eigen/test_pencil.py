"""The pencil of CSP: Schur complement, inertia, solvers against LAPACK, and QZ without it all."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracles
from cases import KINDS, random_constraints, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import laplacian_of, smoothest
from mustlink.eigen.pencil import (
    Pencil,
    dense_pencil,
    feasible_pairs,
    leading_pencil,
    shift_invert_pencil,
)
from mustlink.eigen.smooth_subspace import EigenOptions
from mustlink.graph import Graph
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.constraint_operator import constraint_operator
from mustlink.operators.laplacian import normalized_laplacian

FRACTIONS = (-1.0, -0.3, -0.05, 0.05, 0.1, 0.5, 0.9)
QZ_BELOW = 150  # nodes: QZ takes seconds beyond
SLOW = (98, 151, 183, 191, 194)  # of the seeds below 200 those that take the most steps
seeds = st.integers(0, 2**31)


def random_pencil(seed, largest=300):
    """Graph of 1 to 4 components and constraints of every kind, by turns: pencil, K, graph."""
    rng = np.random.default_rng(seed)
    components, k = 1 + seed % 4, 2 + seed % 3
    n = int(np.exp(rng.uniform(np.log(12 * components), np.log(largest))))
    W = random_graph(rng, n, components, seed % 3, density=min(0.3, rng.uniform(4, 16) / n))
    known = random_constraints(rng, n, KINDS[seed // 4 % 4], k)
    graph = Graph.from_affinity(W)
    laplacian = normalized_laplacian(graph)
    Q = constraint_operator(known, laplacian)
    unit = Q.kth_largest(k - 1)
    unit = unit if unit > 0 else Q.kth_largest(1)
    return Pencil(laplacian, Q, FRACTIONS[seed % 7] * unit), k, graph


def dense(pencil):
    """L̄, Q̄ and Z as dense matrices in working order."""
    laplacian = pencil.laplacian
    Q = pencil.Q.apply(np.eye(laplacian.size))
    return laplacian.to_dense(), Q, laplacian.null.matrix.toarray()


def restricted(basis, Q, beta):
    """The pencil inside a smooth basis: λ, coefficients and cost, in order of cost."""
    pencil = Pencil(basis.laplacian_inside(tied=True), basis.inside(Q), beta)
    found = dense_pencil(pencil)
    found = found.cheapest(found.lam.size)
    return found.lam, found.vectors, found.cost


def ordered(solution):
    order = np.argsort(solution.lam)
    return solution.lam[order], solution.vectors[:, order]


def assert_same_pairs(found, expected, k, rtol, sine):
    """The k leading pairs agree: λ one by one, v by subspaces of (nearly) equal λ."""
    lam, V = found
    reference, U = expected
    np.testing.assert_allclose(lam[:k], reference[:k], rtol=rtol)
    for group in oracles.groups(reference, 1e-6):
        if group.stop <= k:
            assert oracles.angle(U[:, group], V[:, group]) < sine


@pytest.mark.parametrize("seed", range(24))
def test_schur_complement_is_the_dense_one(seed):
    pencil, _, _ = random_pencil(seed, largest=60)
    _, Q, Z = dense(pencil)
    m = len(Q)
    B = Q - pencil.beta * np.eye(m)
    BZ = B @ Z
    S = B - BZ @ np.linalg.pinv(Z.T @ BZ, rcond=1e-13, hermitian=True) @ BZ.T
    P = np.eye(m) - Z @ Z.T
    size = np.linalg.norm(S, 2)
    found = pencil.schur(P)
    np.testing.assert_allclose(found, P @ S @ P, atol=1e-12 * size)
    W = pencil.laplacian.null.project(np.random.default_rng(seed).standard_normal((m, 3)))
    V = pencil.complete(W, np.ones(3))
    np.testing.assert_allclose(pencil.laplacian.null.project(V), W, atol=1e-12 * np.abs(V).max())
    # The completed vectors satisfy the rows ZᵀBv = 0 of the pencil.
    np.testing.assert_allclose(Z.T @ (B @ V), 0, atol=1e-12 * size * np.abs(V).max())
    assert pencil.norm >= np.linalg.norm(B, 2) * (1 - 1e-12)
    # In(S_B) = In(B) − In(ZᵀBZ), counted on the complement.
    values = np.linalg.eigvalsh(P @ S @ P)
    assert pencil.n_feasible() == (values > 1e-10 * size).sum()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", [*range(84), *SLOW])
def test_every_path_agrees_with_the_dense_one(seed):
    """Every β with every number of components and kind of graph, and the hardest of 200.

    Measured: λ to 3e-11 relative and angles of 5e-9 at worst.
    """
    pencil, k, _ = random_pencil(seed)
    laplacian = pencil.laplacian
    exact = dense_pencil(pencil)
    reference = ordered(exact)
    feasible = pencil.n_feasible()
    assert feasible == exact.lam.size > 0
    # QZ of the full pencil knows nothing of Z, Schur complements or projections.
    if laplacian.size < QZ_BELOW:
        L, Q, _ = dense(pencil)
        lam, V, cost = oracles.pencil(L, Q, pencil.beta, laplacian.volume)
        # λ near 0 or ∞ is what QZ finds last: its error is that of the whole, not of the small.
        assert_same_pairs((lam, V), reference, feasible, 1e-6, 1e-5)
        assert lam.size == feasible
        np.testing.assert_allclose(
            np.sort(cost)[: k - 1], exact.cheapest(k - 1).cost, rtol=1e-6
        )  # the same reason

    grids = build_hierarchy(laplacian)
    room = laplacian.size - laplacian.null.n_components - 1
    wanted = min(feasible if feasible <= 20 else 3 * k + 10, room)
    ways = (
        leading_pencil(pencil, grids, wanted, EigenOptions(max_iter=1000), tol=1e-9),
        shift_invert_pencil(pencil, grids, wanted, EigenOptions(), tol=1e-10),
    )
    for found, convergence in ways:
        assert convergence.converged.all(), convergence.status
        assert found.lam.size == min(wanted, feasible)
        assert found.complete == (wanted >= feasible)
        # What the issue asks for; the tolerances above leave a margin of 1e4 and 1e3.
        assert_same_pairs(ordered(found), reference, found.lam.size, 1e-6, 1e-5)
        if found.complete:
            best, expected = found.cheapest(k - 1), exact.cheapest(k - 1)
            np.testing.assert_allclose(best.cost, expected.cost, rtol=1e-6)  # as λ above
            gaps = np.diff(np.sort(exact.cost)[:k])
            if gaps.size == 0 or gaps.min() > 1e-3 * expected.cost.max():
                # Costs apart: the choice is unambiguous and column by column the same.
                sines = [
                    oracles.angle(best.vectors[:, [j]], expected.vectors[:, [j]])
                    for j in range(best.lam.size)
                ]
                assert max(sines) < 1e-5


@pytest.mark.thorough
@given(seeds)
@settings(max_examples=60, deadline=None)
def test_identities_of_the_feasible_pairs(seed):
    pencil, k, _ = random_pencil(seed, largest=80)
    volume = pencil.laplacian.volume
    L, Q, _ = dense(pencil)
    found = dense_pencil(pencil)
    V, lam = found.vectors, found.lam
    B = Q - pencil.beta * np.eye(len(Q))
    assert lam.size == pencil.n_feasible()
    if lam.size == 0:
        return  # only cannot-links on one component, say: no λ_{K−1} > 0
    assert (lam > 0).all()
    np.testing.assert_allclose(np.einsum("ij,ij->j", V, V), volume, rtol=1e-12)
    np.testing.assert_allclose(found.cost, np.einsum("ij,ij->j", V, L @ V), rtol=1e-10)
    R = L @ V - (B @ V) * lam
    scale = np.linalg.norm(L @ V, axis=0) + lam * np.linalg.norm(B, 2) * np.sqrt(volume)
    assert (np.linalg.norm(R, axis=0) <= 1e-9 * scale).all()
    # γ = λ(α − β), hence WD14 Lemma 1: β < α = vᵀQ̄v.
    alpha = np.einsum("ij,ij->j", V, Q @ V) / volume
    assert (alpha > pencil.beta).all()
    best = found.cheapest(k - 1)
    assert (np.diff(best.cost) >= 0).all()
    assert best.cost.size == min(k - 1, lam.size)
    assert best.cost[-1] <= np.sort(found.cost)[: k - 1][-1]
    # The largest entry of every vector is positive.
    assert (V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])] > 0).all()


def test_smooth_vectors_that_are_known_are_the_start(monkeypatch):
    rng = np.random.default_rng(1)
    graph = Graph.from_affinity(random_graph(rng, 250, 1, 0, density=0.05))
    known = random_constraints(rng, 250, "labels", 3)
    work = Workspace(graph)
    Q = constraint_operator(known, laplacian := laplacian_of(work))
    pencil = Pencil(laplacian, Q, 0.1 * Q.kth_largest(2))
    count = pencil.n_feasible()
    assert 0 < count <= 3
    smoothest(work, 30)
    monkeypatch.setattr("mustlink.eigen.pencil.nested_start", None)
    how = EigenOptions("lobpcg", 1e-9, 300, 0)
    found, convergence = feasible_pairs(pencil, 3, how, work)
    assert found.complete
    assert convergence.residuals.max() < 1e-8
    assert_same_pairs(ordered(found), ordered(dense_pencil(pencil)), count, 1e-8, 1e-6)


def test_small_negative_beta_without_constraints_gives_the_smoothest_vectors():
    """Q = 0: L̄v = −λβv."""
    from mustlink.constraints import Constraints

    W = random_graph(np.random.default_rng(3), 40, 2)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    pencil = Pencil(laplacian, constraint_operator(Constraints.none(40), laplacian), -0.5)
    lam, _ = ordered(dense_pencil(pencil))
    np.testing.assert_allclose(lam, 2 * np.linalg.eigvalsh(laplacian.to_dense())[2:], rtol=1e-10)
    assert pencil.n_feasible() == 38


@pytest.mark.parametrize("components", [1, 2, 3])
def test_balanced_constraints_at_beta_zero(components):
    """As many must-links as cannot-links and β = 0: zᵀBz = 0 although Bz is not."""
    from mustlink.constraints import Constraints

    rng = np.random.default_rng(components)
    W = random_graph(rng, 60, components)
    parts = oracles.components(W.toarray())
    pairs = [rng.choice(np.flatnonzero(parts == c), 4, replace=False) for c in range(components)]
    belief = np.tile([1.0, -1.0], components)
    known = Constraints.from_pairs(np.array(pairs).reshape(-1, 2), belief, n_nodes=60)
    graph = Graph.from_affinity(W)
    laplacian = normalized_laplacian(graph)
    pencil = Pencil(laplacian, constraint_operator(known, laplacian), 0.0)
    assert pencil.held.shape[1] == components
    exact = dense_pencil(pencil)
    lam, V = ordered(exact)
    assert lam.size == pencil.n_feasible() == components
    assert pencil.residuals(exact.vectors, exact.lam).max() < 1e-10
    # QZ finds λ = 0 defective and so only to √eps, but the feasible pairs in full.
    L, Q, _ = dense(pencil)
    reference, U, _ = oracles.pencil(L, Q, 0.0, laplacian.volume)
    assert_same_pairs((lam, V), (reference, U), lam.size, 1e-6, 1e-5)
    grids = build_hierarchy(laplacian)
    found, convergence = leading_pencil(pencil, grids, components, EigenOptions(), tol=1e-10)
    assert convergence.converged.all()
    assert_same_pairs(ordered(found), (lam, V), lam.size, 1e-9, 1e-6)  # the tolerance given
    how = EigenOptions("shift-invert", 1e-10)  # which has no form for this one
    found, convergence = feasible_pairs(pencil, 2, how, Workspace(graph))
    assert convergence.solver == "lobpcg"
    if components == 1:
        basis = smoothest(Workspace(graph), 59, solver="dense")
        lam_, C, _ = restricted(basis.first(59), pencil.Q, 0.0)
        assert_same_pairs((lam_, basis.vectors @ C), (lam, V), 1, 1e-9, 1e-6)  # the basis' accuracy


# --- inside the smooth subspace


@pytest.mark.thorough
@given(seeds, st.integers(2, 12), st.sampled_from(FRACTIONS))
@example(3475, 2, 0.1)  # constraints of which the span sees nothing
@example(3475, 3, -1.0)
@settings(max_examples=80, deadline=None)
def test_reduced_pencil_is_the_projected_one(seed, p, fraction):
    pencil, k, graph = random_pencil(seed, largest=80)
    laplacian, Q = pencil.laplacian, pencil.Q
    basis = smoothest(Workspace(graph), p).first(p)
    p, U = basis.p, basis.vectors
    T = U.T @ Q.apply(U)
    size = np.linalg.norm(Q.to_dense(), 2)  # T may be all rounding where constraints cancel
    inside = basis.inside(Q)
    np.testing.assert_allclose(inside.to_dense(), T, atol=1e-12 * size)
    spectrum = np.linalg.eigvalsh(T)[::-1]
    np.testing.assert_allclose(inside.kth_largest(1), spectrum[0], atol=1e-12 * size)
    assert inside.is_zero == (abs(T).max() <= 1e-14 * size)
    unit = size if inside.is_zero else spectrum[k - 2 if k - 2 < spectrum.size else 0]
    beta = fraction * unit
    lam, C, cost = restricted(basis, Q, beta)
    # Components are tied by a small positive value, so Λ stands for UᵀL̄U.
    theta = np.concatenate([[0.0], basis.values[:p]])
    assert (cost >= 0).all()
    assert (np.diff(cost) >= 0).all()
    np.testing.assert_allclose((C**2).sum(axis=0), laplacian.volume, rtol=1e-12)
    B = T - beta * np.eye(p + 1)
    R = theta[:, None] * C - (B @ C) * lam
    scale = (theta.max() + lam * np.linalg.norm(B, 2)) * np.linalg.norm(C, axis=0)
    # The pencil is scaled by Λ^-½, whose condition is that of the smallest tie between components.
    assert (np.linalg.norm(R, axis=0) <= 1e-8 * scale).all()
    corner = abs(B[0, 0]) > 1e-6 * size
    if corner and laplacian.null.n_components == 1:
        expected, V, _ = oracles.projected_pencil(
            laplacian.to_dense(), Q.apply(np.eye(laplacian.size)), beta, U, laplacian.volume
        )
        order, other = np.argsort(lam), np.argsort(expected)
        # QZ's error is relative to the whole spectrum.
        np.testing.assert_allclose(lam[order], expected[other], rtol=1e-6)
        pairs = (lam[order], U @ C[:, order]), (expected[other], V[:, other])
        assert_same_pairs(*pairs, lam.size, 1e-6, 1e-5)


def test_the_whole_space_is_the_exact_problem():
    for seed in (0, 4, 8, 12, 16):  # connected graphs, every kind
        pencil, _, graph = random_pencil(seed, largest=50)
        size = pencil.laplacian.size
        basis = smoothest(Workspace(graph), size - 1, solver="dense")
        lam, C, _ = restricted(basis, pencil.Q, pencil.beta)
        order = np.argsort(lam)
        found = lam[order], (basis.vectors @ C)[:, order]
        # The eigenvectors of L̄ are computed to 1e-8.
        assert_same_pairs(found, ordered(dense_pencil(pencil)), lam.size, 1e-6, 1e-5)
