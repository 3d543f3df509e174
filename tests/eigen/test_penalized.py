"""Penalised eigenproblems, on all nodes and in the smooth subspace, against dense algebra."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp

import mustlink as ml
import oracles
from cases import KINDS, few_and_many, planted_graph, random_constraints, random_graph
from mustlink.clusterers import informed_clusterer as constrained
from mustlink.context.stage_cache import Workspace
from mustlink.eigen import penalized
from mustlink.eigen.memory_work import grids_of
from mustlink.errors import InfeasibleError, InputError
from mustlink.linear import laplacian_solve
from mustlink.linear.cg import block_cg
from mustlink.linear.laplacian_solve import local_solve
from mustlink.linear.multigrid import hierarchy as amg
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.laplacian import normalized_laplacian

GRAPHS = 48  # every number of parts with every kind of constraint and of graph


@pytest.fixture
def vectors_only(monkeypatch):
    """Embeddings as the estimators give them, without the time of k-means."""

    def halves(request, *_):
        return np.arange(request.formulation.row_scale.size) % 2

    monkeypatch.setattr(constrained, "cluster", halves)
    monkeypatch.setattr(amg, "_COARSEST", 15)  # several grids even for so few nodes


@dataclass(frozen=True)
class Method:
    """An estimator with parameters by turns, and its twin: all θ and vectors of the embedding."""

    make: Any
    parameter: str | None
    values: tuple[float, ...]
    twin: Any
    fewer: int = 0  # columns less than K

    def options(self, seed):
        value = self.values[seed % len(self.values)]
        return {} if self.parameter is None else {self.parameter: value}

    def expected(self, seed, W, known):
        return self.twin(W, *oracles.links(known), *self.options(seed).values())


METHODS = {
    "SSSC": Method(
        lambda k, **options: ml.SSSC(k, balanced=True, **options),  # eq. 11
        "gamma",
        (0.0, 0.1, 0.5, 0.9),
        oracles.sssc,
    ),
    "SL": Method(ml.SpectralLearning, None, (0,), oracles.spectral_learning),
    "SL-L": Method(
        lambda k, **options: ml.SpectralLearning(k, normalized=True, **options),
        None,
        (0,),
        oracles.spectral_learning_normalized,
    ),
    "AP": Method(
        ml.ConstrainedAP,
        "noise",
        (0.1, 0.5, 2.0),
        lambda *given: oracles.posterior(*given, eps=0.01),
    ),
    "AP, affinity": Method(
        lambda k, **options: ml.ConstrainedAP(k, prior="affinity", **options),
        "noise",
        (0.1, 0.5, 2.0),
        oracles.posterior_affinity,
    ),
    "FastGE": Method(ml.FastGE, "mu", (1e-3, 0.1), oracles.fast_ge, fewer=1),
}
everywhere = pytest.mark.parametrize("name", METHODS)


def has_weak_bridges(seed):
    return seed % 5 == 0 and seed % 4 > 0


def problem(seed, *, connected=False, overlap=True):
    """Graph of 1 to 4 parts, some joined weakly, lone nodes; beliefs between 0 and 2."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 71))
    parts = 1 if connected else 1 + seed % 4
    weak = 10.0 ** -rng.integers(1, 4) if has_weak_bridges(seed) else None
    W = random_graph(rng, n, parts, seed % 3, density=rng.uniform(0.05, 0.3), weak=weak)
    kind = KINDS[seed // 4 % 4]
    known = random_constraints(rng, n, kind, k=2 + seed % 3)
    if kind in ("pairs", "mixed"):
        pairs, belief = known.pairs, np.sign(known.belief) * 2 * rng.random(len(known.pairs))
        if not overlap and known.labels is not None:
            apart = (known.labels[pairs] < 0).any(axis=1)
            pairs, belief = pairs[apart], belief[apart]
        labels = known.labels
        known = ml.Constraints.from_pairs(pairs, belief, n_nodes=n)
        if labels is not None:
            known = known + ml.Constraints.from_labels(labels)
    return W, known


def at_a_gap(theta, fewer):
    """K from 2 to 5 behind whose columns the gap is widest, and the gap."""
    gaps = np.diff(theta)[1 - fewer : 5 - fewer] / (1 + np.abs(theta[2 - fewer : 6 - fewer]))
    return 2 + int(gaps.argmax()), float(gaps.max())


def fitted(method, seed, graph, known, k, **options):
    """Estimator and its embedding on the nodes with an edge, in the coordinates of the twin."""
    settings = {"affinity": "precomputed", "random_state": 0, "subspace": "exact"} | options
    est = method.make(k, **method.options(seed), **settings).fit(graph, constraints=known)
    d = graph.degrees
    V = est.embedding_[d > 0]
    assert not est.embedding_[d == 0].any()
    assert V.shape[1] == est.eigenvalues_.size == k - method.fewer
    return est, V * np.sqrt(d[d > 0])[:, None] if method.fewer else V


# --- all nodes


def check_against_twin(name, seed, solver):
    """Eigenvalues to 1e-8, the span to 1e-5: residuals are below 1e-8, gaps about 1e-2."""
    method = METHODS[name]
    W, known = problem(seed, overlap=not name.startswith("SL"))
    theta, V = method.expected(seed, W.toarray(), known)
    k, gap = at_a_gap(theta, method.fewer)
    where = f"{name}, seed {seed}, {solver}, K = {k}, gap {gap:.1e}"
    graph = ml.Graph.from_affinity(W)
    est, found = fitted(method, seed, graph, known, k, solver=solver)
    assert est.report_.choices["solver"] == solver
    assert est.report_.convergence.converged.all(), where
    r = k - method.fewer
    np.testing.assert_allclose(est.eigenvalues_, theta[:r], atol=1e-8, rtol=1e-8, err_msg=where)
    assert oracles.angle(found, V[:, :r]) < 1e-5, where
    length = graph.volume if method.fewer else 1.0
    # Unit vectors in the coordinates that are returned, orthogonal beside the constant for FAST-GE.
    np.testing.assert_allclose((found**2).sum(axis=0), length, rtol=1e-10, err_msg=where)
    if method.fewer:
        d = graph.degrees[graph.degrees > 0]
        np.testing.assert_allclose(np.sqrt(d) @ found, 0, atol=1e-8 * graph.volume)
    # The sign is no whim of LAPACK.
    V = est.embedding_
    if name in ("SSSC", "AP", "AP, affinity"):
        assert (V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])] > 0).all(), where


@few_and_many(GRAPHS, 4)
@everywhere
@pytest.mark.usefixtures("vectors_only")
def test_lapack_path_agrees_with_the_papers_definition(name, seeds):
    for seed in seeds:
        check_against_twin(name, seed, "dense")


@few_and_many(GRAPHS, 4)
@everywhere
@pytest.mark.usefixtures("vectors_only")
def test_lobpcg_path_agrees_with_the_papers_definition(name, seeds):
    for seed in seeds:
        if not has_weak_bridges(seed):
            check_against_twin(name, seed, "lobpcg")


@pytest.mark.thorough(but=2)
@everywhere
@pytest.mark.usefixtures("vectors_only")
def test_lobpcg_path_agrees_on_weakly_connected_graphs(name):
    for seed in filter(has_weak_bridges, range(GRAPHS)):
        check_against_twin(name, seed, "lobpcg")


@pytest.mark.usefixtures("vectors_only")
def test_balanced_csp_agrees_with_qz():
    """WHC11's Q in the pencil of WD14, on connected graphs and others."""
    for seed in range(GRAPHS):
        W, known = problem(seed)
        k, beta = 2 + seed % 4, (0.5, 0.1, -0.3)[seed % 3]
        L, root, nodes = oracles.laplacian(W.toarray())
        dense = W.toarray()
        said = (oracles.acting(P, dense) for P in oracles.links(known))
        Q = oracles.normalized_constraints(oracles.balanced(*said), dense)
        values = np.linalg.eigvalsh(Q)[::-1]
        unit = values[k - 2] if values[k - 2] > 1e-12 * values[0] else values[0]
        lam, V, cost = oracles.pencil(L, Q, beta * unit, W.sum())
        options = {"affinity": "precomputed", "random_state": 0, "balanced": True}
        est = ml.CSP(k, beta=beta, subspace="exact", **options)
        if unit <= 0 or (beta >= 0 and values[k - 2] <= 1e-12 * values[0]) or lam.size == 0:
            with pytest.raises(InfeasibleError):
                est.fit(W, constraints=known)
            continue
        est.fit(W, constraints=known)
        r = min(k - 1, lam.size)
        order = np.argsort(cost)
        # QZ's error is relative to the whole spectrum.
        np.testing.assert_allclose(est.costs_, cost[order[:r]], rtol=1e-6, err_msg=f"{seed}")
        if r == lam.size or cost[order[r]] > (1 + 1e-3) * cost[order[r - 1]]:
            found = root[:, None] * est.embedding_[nodes]
            assert oracles.angle(found, V[:, order[:r]]) < 1e-5, seed


def test_the_prior_of_ap_does_not_matter():
    """K = (L̄ + εI)⁻¹ for ε from 1e-3 to 10: the same vectors, and 1/κ − ε the same."""
    W, known = problem(7)
    links = oracles.links(known)
    theta, V = oracles.posterior(W.toarray(), *links, 0.3, 1.0)
    k, _ = at_a_gap(theta, 0)
    for eps in (1e-3, 0.1, 10.0):
        found, U = oracles.posterior(W.toarray(), *links, 0.3, eps)
        np.testing.assert_allclose(found[:k], theta[:k], atol=1e-8)
        assert oracles.angle(U[:, :k], V[:, :k]) < 1e-8
    L, _, _ = oracles.laplacian(W.toarray())
    F = oracles.observations(W.toarray(), *links)
    degree = W.sum() / len(L)
    direct, _ = oracles.penalised(L, F.T @ F * degree / 0.3**2)
    np.testing.assert_allclose(theta[:k], direct[:k], atol=1e-10)


@pytest.mark.thorough
@pytest.mark.usefixtures("vectors_only")
def test_the_affinity_as_prior_on_more_graphs():
    for seed in range(GRAPHS, 100):
        check_against_twin("AP, affinity", seed, "dense")


def test_the_affinity_as_prior_is_a_normalised_cut_where_nothing_is_observed():
    W, known = problem(1)
    nothing = [0 * P for P in oracles.links(known)]
    theta, _ = oracles.posterior_affinity(W.toarray(), *nothing, 0.3)
    plain = np.linalg.eigvalsh(oracles.laplacian(W.toarray())[0])
    np.testing.assert_allclose(theta, plain, atol=1e-14)


def test_the_affinity_as_prior_is_for_some_thousand_constrained_nodes(monkeypatch):
    monkeypatch.setattr(penalized, "_CONSTRAINED", 10)
    W, known = problem(1)
    est = ml.ConstrainedAP(2, prior="affinity", affinity="precomputed")
    with pytest.raises(InputError, match='at most 10 will do; use prior="laplacian"'):
        est.fit(W, constraints=known)
    with pytest.raises(InputError, match="prior"):
        ml.ConstrainedAP(2, prior="points", affinity="precomputed").fit(W, constraints=known)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("mu", [1e-3, 0.2])
def test_both_definitions_of_fast_ge_are_one(mu):
    for seed in range(12):
        W, known = problem(seed)
        links = oracles.links(known)
        rho, V = oracles.fast_ge_quotient(W.toarray(), *links)
        sigma, U = oracles.fast_ge(W.toarray(), *links, mu)
        np.testing.assert_allclose(sigma[:5], -1 / (rho[:5] + mu), rtol=1e-8)
        k, _ = at_a_gap(sigma, 1)
        assert oracles.angle(V[:, : k - 1], U[:, : k - 1]) < 1e-7


# --- the smooth subspace


def galerkin(name, value, W, known, p):
    """θ and embedding inside the span of the p + 1 smoothest eigenvectors, all dense."""
    must, cannot = oracles.links(known)
    L, root, nodes = oracles.laplacian(W)
    U = np.linalg.eigh(L)[1][:, : p + 1]
    one = np.eye(len(L))
    if name == "SSSC":
        said = (oracles.acting(P, W) for P in (must, cannot))
        Q = -oracles.balanced(*said)[np.ix_(nodes, nodes)]
        low, high = np.linalg.eigvalsh(U.T @ Q @ U)[[0, -1]]
        return oracles.galerkin((1 - value) * L + value * Q / (high - low), one, U)
    if name == "AP":
        F = oracles.observations(W, must, cannot)
        return oracles.galerkin(L + F.T @ F * W.sum() / len(L) / value**2, one, U)
    if name == "AP, affinity":
        theta, V = oracles.posterior_affinity(W, must, cannot, value)
        return oracles.galerkin((V * theta) @ V.T, one, U)
    if name == "FastGE":
        LG, LH, d = oracles.two_laplacians(W, must, cannot)
        searched = U @ sla.null_space(root[None, :] @ U)  # what is orthogonal to the constant
        rho, X = oracles.galerkin(LG, LH, searched / root[:, None])
        return -1 / (rho + value), np.sqrt(d)[:, None] * X
    W2 = oracles.overwritten(W, oracles.acting(must, W), oracles.acting(cannot, W))
    W2 = W2[np.ix_(nodes, nodes)]
    d = W2.sum(axis=1)
    if name == "SL":
        return oracles.galerkin(np.diag(d) - W2, one, U / root[:, None])
    S = W2 / np.sqrt(np.outer(d, d))
    return oracles.galerkin(one - S, one, np.sqrt(d)[:, None] * U / root[:, None])


def check_subspace(name, seed, p, *, connected=True):
    method = METHODS[name]
    W, known = problem(seed, connected=connected, overlap=not name.startswith("SL"))
    graph = ml.Graph.from_affinity(W)
    value = next(iter(method.options(seed).values()), None)
    size = int((graph.degrees > 0).sum()) - 1
    p = size if p is None else p
    theta, V = galerkin(name, value, W.toarray(), known, p)
    k, gap = at_a_gap(theta, method.fewer)
    where = f"{name}, seed {seed}, p = {p}, K = {k}, gap {gap:.1e}"
    est, found = fitted(method, seed, graph, known, k, subspace=p, assign="kmeans")
    assert est.report_.choices["subspace"] == p
    r = k - method.fewer
    np.testing.assert_allclose(est.eigenvalues_, theta[:r], atol=1e-8, rtol=1e-8, err_msg=where)
    assert oracles.angle(found, V[:, :r]) < 1e-5, where
    # costs_ are vᵀL̄v, whatever U holds.
    if not name.startswith("SL"):
        L, _, _ = oracles.laplacian(W.toarray())
        cost = np.einsum("ij,ij->j", found, L @ found)
        np.testing.assert_allclose(
            est.costs_, cost, rtol=1e-8, atol=1e-10 * (found[:, 0] @ found[:, 0])
        )
    if p < size:
        return
    exact, whole = fitted(method, seed, graph, known, k, solver="dense")
    np.testing.assert_allclose(est.eigenvalues_, exact.eigenvalues_, atol=1e-8, rtol=1e-8)
    assert oracles.angle(found, whole) < 1e-5, where


@pytest.mark.thorough(but=1)
@everywhere
@pytest.mark.usefixtures("vectors_only")
@pytest.mark.parametrize("p", [6, 15, None])
def test_subspace_is_the_galerkin_projection(name, p):
    """In p smooth directions; in all of them it is the exact problem."""
    for seed in range(16):
        check_subspace(name, seed, p)


@pytest.mark.thorough(but=2)
@everywhere
@pytest.mark.usefixtures("vectors_only")
def test_subspace_is_the_galerkin_projection_on_disconnected_graphs(name):
    for seed in (2, 3, 6, 7):
        check_subspace(name, seed, None, connected=False)


# --- preconditioners


def penalty_of(kind, seed=0, n=60, noise=0.1):
    """Graph, its Laplacian and a positive penalty with links of one kind, scaled up by 1/noise²."""
    rng = np.random.default_rng(seed)
    graph = ml.Graph.from_affinity(random_graph(rng, n, 2, 1))
    known = random_constraints(rng, n, kind)
    laplacian = normalized_laplacian(graph)
    stated = ml.ConstrainedAP(2, noise=noise)._formulation(graph, laplacian, known, 2)
    return graph, laplacian, stated.problem, stated.problem.weights(noise)


@pytest.mark.parametrize("dense_below", [1500, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_local_solve_is_the_inverse_of_the_local_block(kind, dense_below, monkeypatch):
    """By Cholesky, or sparse with the low rank by Woodbury's formula."""
    monkeypatch.setattr(laplacian_solve, "_DENSE", dense_below)
    _, laplacian, problem, (a, b) = penalty_of(kind)
    found = local_solve(laplacian, problem.penalty, a, b)
    m, rows = laplacian.size, problem.penalty.support
    A = problem.stiffness(np.eye(m), a, b)
    G = found(np.eye(m))
    np.testing.assert_array_equal(found.support, rows)
    outside = np.setdiff1d(np.arange(m), rows)
    assert outside.size
    assert rows.size
    assert not G[outside].any()
    assert not G[:, outside].any()
    block = A[np.ix_(rows, rows)]
    # 1e-10 of the largest diagonal entry is added; the block's condition is below 1e4.
    shift = 1e-10 * np.diag(block).max() * np.eye(rows.size)
    np.testing.assert_allclose(G[np.ix_(rows, rows)] @ block, np.eye(rows.size), atol=1e-5)
    np.testing.assert_allclose(
        G[np.ix_(rows, rows)], np.linalg.inv(block + shift), atol=1e-8 * np.abs(G).max()
    )


@pytest.mark.parametrize("dense_below", [1500, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_preconditioner_around_constraints_is_symmetric_positive(kind, dense_below, monkeypatch):
    monkeypatch.setattr(laplacian_solve, "_DENSE", dense_below)
    graph, laplacian, problem, (a, b) = penalty_of(kind)
    m, rows = laplacian.size, problem.penalty.support
    L = laplacian.to_dense()
    C = np.linalg.inv(L + 0.1 * np.eye(m))  # any positive map will do

    def A(X):
        return problem.stiffness(X, a, b)

    eye = np.eye(m)
    T = local_solve(laplacian, problem.penalty, a, b).around(A, lambda R: C @ R)(eye)
    np.testing.assert_allclose(T, T.T, atol=1e-9 * np.abs(T).max())
    assert np.linalg.eigvalsh((T + T.T) / 2)[0] > 1e-9 * np.abs(T).max()
    # Exact where the penalty acts: TA is the identity on the constrained nodes.
    np.testing.assert_allclose(T @ A(eye)[:, rows], eye[:, rows], atol=1e-5)
    # What is used, with the multigrid cycle inside (single precision: 1e-6 of the largest).
    used = penalized._preconditioner(problem, grids_of(Workspace(graph)), (a, b))(eye)
    np.testing.assert_allclose(used, used.T, atol=1e-5 * np.abs(used).max())
    assert np.linalg.eigvalsh((used + used.T) / 2)[0] > 0


@pytest.mark.usefixtures("vectors_only")
def test_hard_constraints_take_no_more_steps():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 600, 2, inside=0.05, across=0.004)
    pairs = np.array([rng.choice(600, 2, replace=False) for _ in range(40)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=600)
    steps = []
    for noise in (1.0, 1e-3):
        est = ml.ConstrainedAP(2, affinity="precomputed", random_state=0, noise=noise)
        est.subspace, est.solver = "exact", "lobpcg"
        convergence = est.fit(W, constraints=known).report_.convergence
        assert convergence.converged.all()
        steps.append(convergence.iterations)
    assert steps[1] <= 2 * steps[0]


@pytest.fixture(scope="module")
def picture():
    """60 x 60 pixels, flat patches with sharp outlines: weights from 1e-6 to 1."""
    y, x = np.mgrid[:60, :60]
    noise = 0.02 * np.random.default_rng(0).standard_normal((60, 60))
    return ((x // 15 + y // 20) % 3) / 3 + noise


def test_aggregates_hang_together_by_strong_links(picture):
    laplacian = normalized_laplacian(ml.image_graph(picture, sigma_color=0.03, n_similar=0))
    S = laplacian.edges.tocsr()
    i, j = S.nonzero()
    largest = S.max(axis=1).toarray().ravel()
    least = np.minimum(largest[i], largest[j]) * amg._STRONG
    strong = sp.csr_matrix((np.where(least <= S[i, j].A1, S[i, j].A1, 0.0), (i, j)), S.shape)
    group = build_hierarchy(laplacian).levels[0].way.P.indices
    assert np.bincount(group).min() >= 2
    near = strong + strong @ strong  # pyamg joins neighbours of one node: two steps at most
    i, j = i[group[i] == group[j]], j[group[i] == group[j]]
    assert ((near[i, j].A1 > 0) | (S[i, j].A1 > 1e-5)).all()


@pytest.mark.thorough
@pytest.mark.parametrize("coarsest", [20, 200])
def test_cycle_of_a_pictures_grids_is_symmetric_positive(picture, coarsest, monkeypatch):
    monkeypatch.setattr(amg, "_COARSEST", coarsest)
    laplacian = normalized_laplacian(
        ml.image_graph(picture[:24, 10:34], sigma_color=0.03, n_similar=0)
    )
    grids = build_hierarchy(laplacian)
    assert len(grids.levels) >= 2
    fine = laplacian.to_dense()
    for finer, level in pairwise(grids.levels):
        P, A = finer.way.exact.toarray(), level.matrix.local
        np.testing.assert_allclose(A.toarray(), P.T @ fine @ P, atol=1e-12)
        fine = A.toarray()
        # The smoother is stable for D⁻¹A <= 2.
        D = np.diag(level.inverse_diagonal.astype(np.float64))
        assert np.linalg.eigvals(D @ A.toarray()).real.max() < 2.0
    project, cycle = laplacian.null.project, grids.cycle()
    eye = np.eye(laplacian.size)
    B = np.column_stack([project(cycle(project(e[:, None]))) for e in eye])
    scale = np.linalg.norm(B, 2)
    np.testing.assert_allclose(B, B.T, atol=1e-5 * scale)  # single precision inside
    values = np.linalg.eigvalsh((B + B.T) / 2)
    assert abs(values[0]) < 1e-5 * scale
    # A coarse correction only adds to what the smoother alone makes of L̄, and takes no mode
    # beyond its inverse.
    L = laplacian.to_dense()
    smoothed_alone = oracles.smoother_alone(L, cycle.degree)
    assert np.linalg.eigvalsh((B + B.T) / 2 - smoothed_alone)[0] > -1e-5 * scale
    spectrum = np.sort(np.linalg.eigvals(B @ L).real)
    assert spectrum[1] > 0.05  # how well the grids are chosen: measured, not proved
    assert spectrum[-1] < 1 + 2e-5 * scale  # ‖L̄‖ <= 2 times the rounding of B


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("sigma", "factor"), [(0.01, 5), (0.03, 10), (0.1, 5)])
def test_strong_links_take_far_fewer_steps_on_pictures(picture, sigma, factor, monkeypatch):
    laplacian = normalized_laplacian(ml.image_graph(picture, sigma_color=sigma, n_similar=0))
    B = np.random.default_rng(0).standard_normal((laplacian.size, 2))
    steps = []
    for share in (0.0, amg._STRONG):
        monkeypatch.setattr(amg, "_STRONG", share)
        grids = build_hierarchy(laplacian)
        X, convergence = block_cg(
            laplacian.apply,
            B,
            tol=1e-6,
            precondition=grids.cycle(),
            project=laplacian.null.project,
        )
        assert convergence.converged.all()
        R = laplacian.null.project(B) - laplacian.apply(X)
        assert np.linalg.norm(R) < 1e-5 * np.linalg.norm(B)  # tol, and the drift of CG
        steps.append(convergence.iterations)
    assert factor * steps[1] < steps[0]
