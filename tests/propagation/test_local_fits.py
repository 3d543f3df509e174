"""LNP, LLELP and LTSALP against dense twins; their matrices, multigrid and hard input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import oracles
from cases import blobs, few_and_many
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.local_fits import (
    Alignment,
    nearest_listed,
    reconstruction_weights,
    tangent_frames,
)
from mustlink.linear.multigrid import hierarchy
from mustlink.linear.multigrid import hierarchy as amg
from mustlink.neighbors.knn import knn_graph
from mustlink.operators.protocol import Edges
from mustlink.propagation.label_embeddings import (
    LLELP,
    LTSALP,
    AlignmentEnergy,
    ReconstructionEnergy,
)
from mustlink.propagation.lnp import LNP

REG = 1e-2
METHODS = {
    "lnp": LNP(alpha=0.9, reg=REG),
    "lnp far": LNP(alpha=0.999, reg=REG),
    "lnp minimizer": LNP(alpha=0.9, variant="minimizer", reg=REG),
    "llelp": LLELP(reg=REG),
    "llelpc": LLELP(reg=REG, orthogonal=True, alpha=0.4),
    "ltsalp": LTSALP(n_components=2),
    "ltsalpc": LTSALP(n_components=3, orthogonal=True, alpha=0.4),
}


def given(rng, y, count, k):
    """`y` with all but `count` labels forgotten, every class kept at least once."""
    known = np.full(len(y), -1)
    first = [rng.choice(np.flatnonzero(y == c)) for c in range(k)]
    rest = np.setdiff1d(rng.permutation(len(y)), first)[: count - k]
    nodes = np.append(first, rest).astype(int)
    known[nodes] = y[nodes]
    return known


def one_hot(y):
    return (y[:, None] == np.arange(y.max() + 1)) * 1.0


def scores(estimator, X, y, graph=None, **changes):
    """The method's values (n, K) in the order of the points, and the fitted estimator."""
    held = {}
    est = type(estimator)(**estimator.get_params() | changes)
    original = est._solve

    def spy(task):
        solution = original(task)
        held["F"] = task.laplacian.from_working_order(solution.scores)
        return solution

    est._solve = spy
    est.fit(X, y, graph=graph)
    return held["F"], est


def dense_twin(est, X, lists, Y):
    """What `est` should answer, from dense matrices."""
    if isinstance(est, LNP):
        U = oracles.listed_matrix(oracles.simplex_weights(X, lists, est.reg), lists)
        solve = oracles.lnp_iterated if est.variant == "iteration" else oracles.lnp_minimum
        return solve(U, Y, est.alpha)
    if isinstance(est, LLELP):
        W = oracles.listed_matrix(oracles.affine_weights(X, lists, est.reg), lists)
        M = (np.eye(len(W)) - W).T @ (np.eye(len(W)) - W)
    else:
        M = oracles.ltsa_matrix(X, lists, est.n_components)
    if est.orthogonal:
        return oracles.embedded_balanced(M, Y, est.alpha)
    return oracles.clamped_dense(M, Y)


@few_and_many(40, 5)
@pytest.mark.parametrize("name", METHODS)
def test_methods_answer_as_their_dense_twins(name, seeds):
    """Random partly labelled point sets, solved by LAPACK and by multigrid in turn."""
    est, compared = METHODS[name], 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, k, classes = int(rng.integers(25, 70)), int(rng.integers(5, 9)), int(rng.integers(2, 5))
        X = rng.standard_normal((n, int(rng.integers(3, 8))))
        y = given(rng, rng.permutation(np.arange(n) % classes), n // 3, classes)
        graph = knn_graph(X, k, random_state=0)
        solver = {"solver": "cg", "tol": 1e-12} if seed // 8 % 2 else {"solver": "dense"}
        F, fitted = scores(est, X, y, graph, n_neighbors=k, **solver)
        if graph.info["n_bridges"]:
            continue  # bridges are neighbours too: see below
        expected = dense_twin(fitted, X, oracles.knn_lists(X, k)[0], one_hot(y))
        # Residuals of 1e-12, times the condition of the system.
        np.testing.assert_allclose(F, expected, atol=1e-9 * max(1.0, np.abs(expected).max()))
        found = fitted.report_.convergence
        assert found.converged.all(), found.status
        compared += 1
    assert compared >= 0.9 * len(seeds) - 1


@pytest.mark.thorough
@pytest.mark.parametrize("solver", ["cg", "dense"])
@pytest.mark.parametrize("name", ["llelpc", "ltsalpc"])
def test_orthogonal_variants_are_balanced_and_stationary(name, solver):
    """f ⟂ 1, and (M + αI_k)f − αy is a multiple of 1 (AB09 eq. 40)."""
    rng = np.random.default_rng(1)
    X, y = blobs(rng, 150, 3, d=5, separation=2.0)
    known = given(rng, y, 12, 3)
    F, est = scores(METHODS[name], X, known, solver=solver, tol=1e-12, n_neighbors=8)
    W = est.graph_.affinity
    lists = nearest_listed(X, W.indptr, W.indices, 8)
    if name == "llelpc":
        A = np.eye(150) - oracles.listed_matrix(oracles.affine_weights(X, lists, REG), lists)
        M = A.T @ A
    else:
        M = oracles.ltsa_matrix(X, lists, 3)
    np.testing.assert_allclose(F.sum(axis=0), 0, atol=1e-9)
    slope = M @ F + est.alpha * (known >= 0)[:, None] * (F - one_hot(known))
    np.testing.assert_allclose(slope - slope.mean(axis=0), 0, atol=1e-8)
    assert est.report_.choices["orthogonal"]


def test_the_iteration_minimises_eq_17_only_where_u_is_symmetric():
    """With U = Uᵀ, rows summing to 1, it is the minimiser for twice the μ; else it is not."""
    rng = np.random.default_rng(2)
    U = np.zeros((12, 12))
    for _ in range(4):
        P = np.eye(12)[rng.permutation(12)]
        U += (P + P.T) / 8
    Y, alpha = one_hot(np.arange(12) % 3) * (np.arange(12) < 5)[:, None], 0.9
    twice = 1 / (1 + 2 * (1 - alpha) / alpha)
    iterated = oracles.lnp_iterated(U, Y, alpha)
    np.testing.assert_allclose(iterated, oracles.lnp_minimum(U, Y, twice), atol=1e-12)
    U[0] = np.eye(12)[1]
    iterated = oracles.lnp_iterated(U, Y, alpha)
    assert np.abs(iterated - oracles.lnp_minimum(U, Y, twice)).max() > 0.01


def test_labels_of_lnp_are_masses_and_those_of_the_fits_are_not():
    rng = np.random.default_rng(3)
    X, y = blobs(rng, 90, 3)
    known = given(rng, y, 6, 3)
    for variant in ("iteration", "minimizer"):
        F, est = scores(LNP(variant=variant, class_mass=True), X, known)
        assert F.min() > -1e-12
        np.testing.assert_allclose(est.label_distributions_.sum(axis=1), 1)
        assert (est.labels_ == y).mean() > 0.9
    X, y = blobs(rng, 90, 3, d=20)  # of fewer coordinates than neighbours LLE is linear
    known = given(rng, y, 6, 3)
    for method in (LLELP, LTSALP):
        assert (method().fit(X, known).labels_ == y).mean() > 0.9
        with pytest.raises(InputError, match="class_mass"):
            method(class_mass=True).fit(X, known)


# --- the matrices


def neighbourhoods_of(rng, n, k, d, missing=True):
    X = rng.standard_normal((n, d))
    lists = oracles.knn_lists(X, k)[0].astype(np.int32)
    if missing:
        lists[::4, k // 2 :] = -1
    return X, lists


def energies(rng, n=60, k=6, d=4):
    """Both energies with their dense matrices."""
    X, lists = neighbourhoods_of(rng, n, k, d)
    pattern = sp.csr_matrix((oracles.listed_matrix(np.ones(lists.shape), lists) > 0) * 1.0)
    edges = Edges.of_matrix(sp.csr_matrix(pattern + pattern.T))
    W = oracles.listed_matrix(reconstruction_weights(X, lists, REG), lists)
    members = np.hstack([np.arange(n, dtype=np.int32)[:, None], lists])
    A = np.eye(n) - W
    return {
        "lle": (ReconstructionEnergy(sp.csr_matrix(W), edges), A.T @ A),
        "ltsa": (
            AlignmentEnergy(Alignment(members, tangent_frames(X, lists, 2), n), edges),
            oracles.ltsa_matrix(X, lists, 2),
        ),
    }


@pytest.mark.parametrize("name", ["lle", "ltsa"])
def test_products_are_those_of_the_dense_matrix(name):
    rng = np.random.default_rng(4)
    energy, M = energies(rng)[name]
    X, Y = rng.standard_normal((2, 60, 4))
    np.testing.assert_allclose(energy.apply(X), M @ X, atol=1e-8)
    np.testing.assert_allclose(energy.apply(np.ones((60, 1))), 0, atol=1e-12)
    np.testing.assert_allclose(np.vdot(energy.apply(X), Y), np.vdot(X, energy.apply(Y)), rtol=1e-10)
    free = np.sort(rng.permutation(60)[:41])
    weight = np.where(rng.random(41) < 0.3, rng.random(41), 0.0)
    inner = M[np.ix_(free, free)] + np.diag(weight)
    system = energy.system(free, weight)
    np.testing.assert_allclose(system.apply(X[free]), inner @ X[free], atol=1e-8)


def test_neighbourhoods_of_more_than_16_bits_number():
    rng = np.random.default_rng(6)
    size = (1 << 16) + 100
    members = np.stack([rng.permutation(size) for _ in range(2)]).astype(np.int32)
    frames = rng.standard_normal((2, size, 1)) / np.sqrt(size)
    X = rng.standard_normal((size, 2))
    expected = 2 * X
    for nodes, G in zip(members, frames, strict=True):
        expected[nodes] -= G @ (G.T @ X[nodes])
    np.testing.assert_allclose(Alignment(members, frames, size).apply(X), expected, atol=1e-10)


def test_alignment_knows_its_diagonal_and_its_galerkin_product():
    rng = np.random.default_rng(5)
    M, dense = (found for found in energies(rng)["ltsa"])
    alignment, nodes = M.alignment, np.sort(rng.permutation(60)[:35])
    inner = dense[np.ix_(nodes, nodes)]
    for part, expected in ((alignment, dense), (alignment.restricted(nodes), inner)):
        P = sp.random(part.size, 5, 0.4, format="csr", rng=rng)
        np.testing.assert_allclose(part.diagonal, np.diag(expected), atol=1e-10)
        np.testing.assert_allclose(
            part.galerkin(P).toarray(), P.T @ expected @ P.toarray(), atol=1e-10
        )
        X = rng.standard_normal((part.size, 3)).astype(np.float32)
        found = part.single.apply(X)
        assert found.dtype == np.float32
        # Single precision, values up to 10.
        np.testing.assert_allclose(found, expected @ X, atol=1e-5)
    assert alignment.counts.sum() == (alignment.members >= 0).sum()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("name", ["lle", "ltsa"])
def test_galerkin_cycle_is_a_fixed_symmetric_positive_map(name, levels, monkeypatch):
    rng = np.random.default_rng(6)
    n = 150
    energy, M = energies(rng, n, 7, 3)[name]
    monkeypatch.setattr(hierarchy, "_DENSE", {1: 2000, 2: 40, 3: 6}[levels])
    monkeypatch.setattr(amg, "_COARSEST", 1)
    if levels == 1:
        monkeypatch.setattr(hierarchy, "aggregate", lambda *_: None)
    free = np.sort(rng.permutation(n)[:140])
    weight = np.zeros(140)
    cycle = energy.system(free, weight).precondition
    assert len(cycle.grids) == levels
    C = np.column_stack([cycle(e[:, None])[:, 0] for e in np.eye(140)])
    # Single precision inside: 1e-7 an operation.
    scale = np.abs(C).max()
    X = rng.standard_normal((140, 3)) * [1e-12, 1.0, 1e12]
    np.testing.assert_allclose(
        cycle(X) / np.abs(X).max(axis=0), C @ (X / np.abs(X).max(axis=0)), atol=1e-6 * scale
    )
    np.testing.assert_allclose(C, C.T, atol=1e-6 * scale)
    values = np.linalg.eigvalsh((C + C.T) / 2)
    assert values[0] > 0
    inner = M[np.ix_(free, free)]
    before = np.linalg.cond(inner / np.sqrt(np.outer(np.diag(inner), np.diag(inner))))
    after = np.sort(np.linalg.eigvals(C @ inner).real)
    assert after[-1] < 1.05
    assert after[-1] / after[0] < before / 3


@pytest.mark.thorough
def test_multigrid_steps_hardly_grow_with_the_number_of_points():
    rng = np.random.default_rng(7)
    for n in (1500, 6000):
        X, y = blobs(rng, n, 3, d=6, separation=3.0)
        est = LTSALP(solver="cg", tol=1e-6).fit(X, given(rng, y, 30, 3))
        assert est.report_.convergence.iterations < 60
        assert est.report_.convergence.converged.all()


# --- hard input


EVERY = [LNP(), LNP(variant="minimizer"), LLELP(), LLELP(orthogonal=True), LTSALP()]
EVERY.append(LTSALP(orthogonal=True))


def name_of(est):
    return f"{type(est).__name__} {getattr(est, 'variant', getattr(est, 'orthogonal', ''))}"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", ["cg", "dense"])
@pytest.mark.parametrize("est", EVERY, ids=name_of)
def test_duplicates_single_precision_and_one_label_a_class(est, solver):
    rng = np.random.default_rng(9)
    X, y = blobs(rng, 120, 3, d=4, separation=8.0, duplicates=25)
    known = given(rng, y, 3, 3)
    X = X.astype(np.float32)
    before = X.copy(), known.copy()
    F, found = scores(est, X, known, solver=solver, n_neighbors=8, max_iter=3000)
    assert np.isfinite(F).all()
    assert (found.labels_ == y).mean() > 0.8
    assert np.array_equal(X, before[0])
    assert np.array_equal(known, before[1])
    again = scores(est, X, known, solver=solver, n_neighbors=8, max_iter=3000, n_jobs=1)[1]
    assert np.array_equal(again.labels_, found.labels_)


@pytest.mark.parametrize("est", EVERY, ids=name_of)
def test_labels_cross_the_bridges_of_a_graph(est):
    """Blobs far apart, both labels in one: no k nearest neighbours lead out of the others."""
    rng = np.random.default_rng(10)
    X = np.vstack([rng.standard_normal((30, 3)) + shift for shift in (0.0, 200.0, 400.0)])
    known = np.full(90, -1)
    known[:4] = [0, 1, 0, 1]
    _, found = scores(est, X, known, n_neighbors=5)
    assert found.graph_.info["n_bridges"] == 2
    assert any("edge across" in note for note in found.report_.notes)
    if not isinstance(est, LNP):  # its weights of a bridge may vanish, and its walk is one-way
        assert (found.labels_ >= 0).all()


@pytest.mark.parametrize("est", EVERY, ids=name_of)
def test_a_component_without_labels_and_lone_nodes_are_left_open(est):
    rng = np.random.default_rng(11)
    X = np.vstack([rng.standard_normal((20, 3)) + shift for shift in (0.0, 50.0)])
    W = knn_graph(X, 5, connect=False, random_state=0).affinity.tolil()
    W[7] = 0
    W[:, 7] = 0
    known = np.full(40, -1)
    known[:6] = [0, 1, 0, 1, 1, 0]
    _, found = scores(est, X, known, Graph.from_affinity(sp.csr_matrix(W)), n_neighbors=5)
    assert (found.labels_[20:] == -1).all()
    assert found.labels_[7] == -1
    assert any("not reached" in note for note in found.report_.notes)


@pytest.mark.thorough(but=2)
@pytest.mark.filterwarnings("error", "default::mustlink.errors.DoubtfulResultWarning")
@pytest.mark.parametrize("solver", ["dense", "cg"])
@pytest.mark.parametrize("est", EVERY, ids=name_of)
def test_a_handful_of_points(est, solver):
    """Two to five points, fewer than neighbours asked for; and all points labelled."""
    X = np.random.default_rng(16).standard_normal((5, 2))
    for n in (2, 3, 4, 5):
        y = np.array([0, 1, -1, -1, -1])[:n]
        F, found = scores(est, X[:n], y, solver=solver)
        assert np.isfinite(F).all()
        np.testing.assert_allclose(found.label_distributions_.sum(axis=1), 1)
    found = scores(est, X, np.array([0, 1, 1, 0, 1]), solver=solver)[1]
    assert np.isfinite(found.label_distributions_).all()


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_too_few_labels_for_points_on_a_plane(solver):
    """Every linear function costs LTSA nothing there, and two labels do not determine it."""
    rng = np.random.default_rng(12)
    X = rng.random((80, 2))
    known = np.full(80, -1)
    left, right = X[:, 0].argmin(), X[:, 0].argmax()
    known[left], known[right] = 0, 1
    F, est = scores(LTSALP(n_components=2), X, known, n_neighbors=8, solver=solver)
    assert np.isfinite(F).all()
    np.testing.assert_allclose(F.sum(axis=1), 1, atol=1e-9)
    if solver == "auto":
        assert any("do not determine" in note for note in est.report_.notes)


def test_cosine_neighbours_are_fitted_on_the_sphere():
    rng = np.random.default_rng(13)
    X = rng.standard_normal((60, 4))
    known = given(rng, np.arange(60) % 3, 20, 3)
    stretched = X * rng.uniform(0.1, 10, (60, 1))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    for est in EVERY:
        one, _ = scores(est, stretched, known, metric="cosine", n_neighbors=8)
        two, _ = scores(est, unit, known, n_neighbors=8)
        np.testing.assert_allclose(one, two, atol=1e-9)
