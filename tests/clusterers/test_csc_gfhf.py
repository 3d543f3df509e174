"""CSC+GFHF: the factored kernel, the low-rank pencil, the estimator, and hard input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.clusterers.csc_gfhf import CSCGFHF, FARTHEST
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.low_rank_pencil import low_rank_pencil, solve_low_rank
from mustlink.eigen.memory_work import grids_of, laplacian_of
from mustlink.errors import InputError
from mustlink.linear.laplacian_solve import dense_inverse, rough_inverse
from mustlink.linear.multigrid.cycle import Cycle
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.constraint_operator import gaussian_factor, kernel_column, normalized_factor
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 2**31)
ROUNDING = 1e-12  # of products of some hundred numbers of size 1


def estimator(k=None, **options):
    return CSCGFHF(k, **{"affinity": "precomputed", "random_state": 0} | options)


def simplex_points(rng, n, k):
    """Rows of a distribution, corners included, some of them twice."""
    P = rng.dirichlet(np.full(k, 0.6), n)
    P[:k] = np.eye(k)
    P[-3:] = P[:3]
    return P


def some_labels(rng, part, k, each=1):
    """Labels of `each` nodes a class at least, every component of `part` has one; -1 elsewhere."""
    y = np.full(part.size, -1)
    nodes = rng.permutation(part.size)
    for i, node in enumerate(nodes[: k * each]):
        y[node] = i % k
    for c in np.unique(part):
        if (y[part == c] < 0).all():
            y[rng.choice(np.flatnonzero(part == c))] = rng.integers(k)
    return y


# --- the factored kernel


@given(seeds, st.sampled_from([0.2, 0.7, FARTHEST, 5.0]), st.integers(2, 5))
@settings(max_examples=40)
def test_factor_is_the_kernel(seed, sigma, k):
    rng = np.random.default_rng(seed)
    Y = simplex_points(rng, int(rng.integers(8, 60)), k)
    Q = oracles.gaussian_dense(Y, sigma)
    rough, fine = gaussian_factor(Y, sigma, tol=1e-2), gaussian_factor(Y, sigma, tol=1e-13)
    np.testing.assert_allclose(fine.factor @ fine.factor.T, Q, atol=1e-6)  # √1e-13 and rounding
    left = Q - rough.factor @ rough.factor.T
    assert np.linalg.eigvalsh(left)[0] > -1e-12
    assert rough.error == pytest.approx(np.trace(left) / len(Y), abs=1e-12)
    assert rough.error <= 1e-2 * rough.spread
    assert rough.spread == pytest.approx(np.mean(1 - Q[0] ** 2), abs=1e-12)
    np.testing.assert_allclose(left[:, rough.pivots], 0, atol=1e-9)
    assert np.unique(rough.pivots).size == rough.pivots.size


def test_kernel_column_of_points_that_hardly_differ():
    Y = 0.5 + 1e-9 * np.arange(6.0)[:, None] * np.ones(2)
    exact = 2e-18 * np.arange(6.0) ** 2 / 2
    np.testing.assert_allclose(-np.log(kernel_column(Y, 0, 1e-8)), exact / 1e-16, rtol=1e-6)
    # At σ = 1e-4 the columns differ by 1e-10 and still are told apart.
    found = gaussian_factor(Y, 1e-4, tol=1e-3, least=2)
    assert found.pivots.size >= 2
    assert 0 < found.spread < 1e-8


def test_duplicates_end_the_factor():
    Y = np.repeat(np.eye(3), 5, axis=0)
    found = gaussian_factor(Y, 1.0, tol=0.0, max_rank=50)
    assert found.pivots.size == 3
    assert found.error < 1e-14
    assert gaussian_factor(Y, 1.0, tol=0.0, max_rank=2).pivots.size == 2
    assert gaussian_factor(np.ones((4, 2)), 1.0).factor.shape == (4, 1)


@given(seeds)
@settings(max_examples=20)
def test_normalised_by_its_own_row_sums(seed):
    rng = np.random.default_rng(seed)
    Y = simplex_points(rng, 40, 3)
    Q = oracles.gaussian_dense(Y, 0.9)
    phi = normalized_factor(gaussian_factor(Y, 0.9, tol=1e-13).factor)
    np.testing.assert_allclose(phi @ phi.T, oracles.by_own_sums(Q), atol=1e-6)
    root = np.sqrt(Q.sum(axis=1))
    np.testing.assert_allclose(phi @ (phi.T @ root), root, rtol=1e-5)


def test_row_sums_stay_above_the_diagonal():
    # One column of 30 far points: the others' sums would be nearly 0.
    rng = np.random.default_rng(0)
    kernel = gaussian_factor(10 * rng.standard_normal((30, 3)), 1.0, max_rank=1)
    assert (np.abs(normalized_factor(kernel.factor)) <= 1).all()


# --- the low-rank pencil


def pencil_case(seed):
    """A random graph of up to three components and the exact factor of a kernel on it."""
    rng = np.random.default_rng(seed)
    n, c, k = int(rng.integers(20, 60)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    W = random_graph(rng, n, c)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    Y = simplex_points(rng, n, k)
    phi = normalized_factor(gaussian_factor(Y, FARTHEST, tol=1e-14, max_rank=n).factor)
    return laplacian, phi, k, c


@given(seeds)
@settings(max_examples=60)
def test_pairs_are_those_of_the_dense_pencil(seed):
    laplacian, phi, k, c = pencil_case(seed)
    pencil = low_rank_pencil(laplacian, phi)
    found = solve_low_rank(pencil, k - 1, dense_inverse(laplacian))
    L, Z, Q = laplacian.to_dense(), laplacian.null.matrix.toarray(), phi @ phi.T
    assert (found.tie > 0) == (c > 1)
    z = laplacian.root_degree[:, None] / np.sqrt(laplacian.volume)
    L, Z = L + found.tie * (Z @ Z.T - z @ z.T), z
    lam, F, satisfied = oracles.finite_pairs(L, Q, Z)
    order = np.argsort(-satisfied, kind="stable")
    count = min(k - 1, lam.size)
    assert found.values.size == count
    np.testing.assert_allclose(found.satisfaction, satisfied[order][:count], rtol=1e-6)
    V = found.vectors
    np.testing.assert_allclose(np.linalg.norm(V, axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(np.einsum("ij,ij->j", V, Q @ V), found.satisfaction, rtol=1e-7)
    residual = np.linalg.norm(L @ V - Q @ V * found.values, axis=0)
    assert residual.max(initial=0) <= 1e-9 * (1 + np.abs(found.values).max(initial=0))
    assert np.abs(Z.T @ (Q @ V)).max(initial=0) < 1e-9
    gaps = satisfied[order]
    if count and (lam.size == count or gaps[count - 1] > 1.001 * gaps[count]):
        assert oracles.angle(F[:, order[:count]], V) < 1e-5


@given(seeds)
@settings(max_examples=25)
def test_pairs_are_those_of_qz(seed):
    """On connected graphs nothing about the null space need be known."""
    rng = np.random.default_rng(seed)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(random_graph(rng, 30)))
    phi = normalized_factor(gaussian_factor(simplex_points(rng, 30, 3), 1.0, max_rank=5).factor)
    found = solve_low_rank(low_rank_pencil(laplacian, phi), 4, dense_inverse(laplacian))
    lam, V, _ = oracles.pencil(laplacian.to_dense(), phi @ phi.T, 0.0, 1.0)
    assert lam.size == found.pairs == 4
    np.testing.assert_allclose(np.sort(found.values), lam, rtol=1e-6)
    assert oracles.angle(V, found.vectors) < 1e-5


@given(seeds)
@settings(max_examples=15)
def test_rough_solves_in_rounds_reach_the_tolerance(seed):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 300, int(rng.integers(1, 4)), density=0.02)
    graph = ml.Graph.from_affinity(W)
    laplacian = laplacian_of(Workspace(graph))
    phi = normalized_factor(gaussian_factor(simplex_points(rng, 300, 3), FARTHEST).factor)
    pencil = low_rank_pencil(laplacian, phi)
    exact = solve_low_rank(pencil, 2, dense_inverse(laplacian))
    inverse = rough_inverse(laplacian, grids_of(Workspace(graph)), 6)
    heard = []
    found = solve_low_rank(pencil, 2, inverse, tol=1e-9, on_round=heard.append)
    assert found.convergence.converged.all()
    assert len(heard) == found.convergence.iterations > 1
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-8)
    assert oracles.angle(found.vectors, exact.vectors) < 1e-5
    once = solve_low_rank(pencil, 2, inverse, tol=1e-9, max_rounds=1)
    assert once.convergence.reason == "max_iter"
    # Errors of the solves enter λ squared; costs near each other may change places.
    error = np.abs(np.sort(once.values) / np.sort(exact.values) - 1).max()
    assert error < 10 * max(once.convergence.residuals.max(), 1e-8)


def test_short_columns_may_go():
    laplacian, phi, _, _ = pencil_case(5)
    Q = phi @ phi.T
    full = low_rank_pencil(laplacian, phi)
    cut = low_rank_pencil(laplacian, phi, least=2, tol=0.1)
    assert 2 <= cut.free.shape[1] < full.free.shape[1]
    lengths = (full.free**2).sum(axis=0)
    assert (np.diff(lengths) <= 1e-12).all()
    kept = cut.free @ cut.free.T + cut.coupled @ cut.coupled.T
    assert np.linalg.norm(Q - kept, 2) < 0.1 * lengths[1]
    whole = full.free @ full.free.T + full.coupled @ full.coupled.T
    np.testing.assert_allclose(whole, Q, atol=1e-12)


def test_components_that_are_classes():
    """Taken as printed nothing would be left of this easiest of all cases."""
    rng = np.random.default_rng(0)
    W, k = random_graph(rng, 40, 2), 2
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    Y = np.eye(k)[laplacian.null.component]
    phi = normalized_factor(gaussian_factor(Y, FARTHEST).factor)
    found = solve_low_rank(low_rank_pencil(laplacian, phi), 1, dense_inverse(laplacian))
    side = found.vectors[:, 0] > 0
    assert adjusted_rand_score(laplacian.null.component, side) == 1


# --- the cycle


def test_the_cycle_is_symmetric_and_positive():
    rng = np.random.default_rng(0)
    W = random_graph(rng, 2500, density=0.002)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    grids = build_hierarchy(laplacian)
    assert len(grids.levels) >= 3
    X = laplacian.null.project(rng.standard_normal((2500, 12)))
    for degree, visits in ((1, 3), (2, 1), (2, 3)):
        MX = laplacian.null.project(Cycle(grids.levels, degree, visits)(X))
        gram = X.T @ MX
        np.testing.assert_allclose(gram, gram.T, atol=2e-5 * np.abs(gram).max())  # float32 inside
        assert np.linalg.eigvalsh((gram + gram.T) / 2)[0] > 0
    assert not np.asarray(grids.cycle()(np.zeros((2500, 2)))).any()


def test_which_cycle():
    rng = np.random.default_rng(0)
    near = ml.knn_graph(rng.random((3000, 2)), n_neighbors=10, random_state=0)
    assert build_hierarchy(normalized_laplacian(near)).cycle().visits == 3
    loose = ml.Graph.from_affinity(random_graph(rng, 3000, density=0.001))
    assert build_hierarchy(normalized_laplacian(loose)).cycle().visits == 1


# --- the estimator


@pytest.mark.thorough(but=14)
@pytest.mark.parametrize("solver", ["dense", "cg"])
@pytest.mark.parametrize("seed", range(25))
def test_two_classes_are_algorithm_4(seed, solver):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 80))
    W = random_graph(rng, n, density=0.2)
    y = some_labels(rng, np.zeros(n), 2, int(rng.integers(1, 5)))
    width = [0.5, 1.0, 2.0][seed % 3]
    signed = np.where(y < 0, 0, 2 * y - 1)
    f, lam = oracles.algorithm4(W.toarray(), signed, width)
    # One-hot rows are 1/√2 as far apart as ±1.
    est = estimator(sigma=width / np.sqrt(2), class_mass=False, solver=solver, kernel_tol=1e-13)
    est.fit(W, y)
    assert oracles.angle(f[:, None], est.embedding_) < 1e-5
    assert est.eigenvalues_ == pytest.approx([lam], rel=1e-5)
    clear = np.abs(f) > 1e-5
    assert adjusted_rand_score(f[clear] > 0, est.labels_[clear]) == 1
    assert est.report_.convergence.converged.all()


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize("solver", ["dense", "cg"])
@pytest.mark.parametrize("seed", range(24))
def test_k_ways_against_dense_algebra(seed, solver):
    rng = np.random.default_rng([seed, 1])
    n, k, c = int(rng.integers(30, 70)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    W = random_graph(rng, n, c, isolated=int(rng.integers(0, 3)))
    dense = W.toarray()
    part = oracles.components(dense)
    y = some_labels(rng, part, k)
    if seed % 3 == 0 and c > 1:  # a component without a label
        y[part == c - 1] = -1
    for cls in range(k):  # every class somewhere in the largest component
        if not (y[part == 0] == cls).any():
            y[rng.choice(np.flatnonzero((part == 0) & (y < 0)))] = cls
    linked = dense.sum(axis=1) > 0
    reached = np.isin(part, part[(y >= 0) & linked]) & linked
    inner = dense[np.ix_(reached, reached)]
    Y = (y[reached][:, None] == np.arange(k)) * 1.0
    F = oracles.gfhf_dense(inner, Y)
    if seed % 2:
        F = oracles.class_mass_dense(F, Y)
    est = estimator(class_mass=bool(seed % 2), solver=solver, kernel_tol=1e-13).fit(W, y)
    np.testing.assert_allclose(est.propagated_[reached], F, atol=1e-7)
    L, root, _ = oracles.laplacian(inner)
    Z, z = oracles.null_space(inner), root[:, None] / np.sqrt(inner.sum())
    tie = est.report_.extra["tie"]
    assert (tie > 0) == (Z.shape[1] > 1)
    L = L + tie * (Z @ Z.T - z @ z.T)
    # What GFHF left is measured above: from here on the kernel is that of the values it found.
    Q = oracles.by_own_sums(oracles.gaussian_dense(est.propagated_[reached], FARTHEST))
    lam, V, satisfied = oracles.finite_pairs(L, Q, z)
    order = np.argsort(-satisfied, kind="stable")
    gaps = satisfied[order]
    assert est.embedding_.shape == (n, k - 1)
    assert not est.embedding_[~reached].any()
    found, values = est.embedding_[reached], est.eigenvalues_
    # ‖Q − ΦΦᵀ‖ is at most its trace e, that of the row sums e√m; shorter columns were dropped.
    m, reached_tol = len(inner), est.report_.convergence.tolerance
    missing = (1 + 2 * np.sqrt(m)) * m * est.report_.extra["kernel_error"] + 100 * 1e-13
    residual = np.linalg.norm(L @ found - Q @ found * values, axis=0)
    assert est.report_.convergence.converged.all()
    assert (residual <= reached_tol + values * missing + ROUNDING).all()
    kept = np.einsum("ij,ij->j", found, Q @ found)
    np.testing.assert_allclose(est.report_.extra["satisfied"], kept, atol=missing + ROUNDING)
    if gaps.size < k or gaps[k - 2] > 1.01 * gaps[k - 1]:
        assert oracles.angle(V[:, order[: k - 1]], found) < 1e-5
        wanted, least = lam[order[: k - 1]], gaps[: k - 1]
    else:
        wanted, least = lam, satisfied
    of_value, of_root = oracles.proven(L, Q, z, values, found, lam)
    assert (np.abs(values / wanted[:, None] - 1).min(axis=0) <= of_value + 1e-10).all()
    assert (np.abs(np.sqrt(kept) - np.sqrt(least)[:, None]).min(axis=0) <= of_root + 1e-10).all()
    alone = (dense.sum(axis=1) == 0) & (y >= 0)
    np.testing.assert_array_equal(est.labels_ >= 0, reached | alone)
    np.testing.assert_array_equal(est.labels_[alone], y[alone])


def test_one_hot_rows_and_the_papers_coding_give_one_kernel():
    rng = np.random.default_rng(0)
    p = rng.random(30)
    rows, signed = np.column_stack([1 - p, p]), (2 * p - 1)[:, None]
    for width in (0.5, 1.0, 2.0):
        np.testing.assert_allclose(
            oracles.gaussian_dense(rows, width / np.sqrt(2)), oracles.gaussian_dense(signed, width)
        )


def test_labels_give_what_the_plain_cut_misses():
    """Four blobs, two classes across the natural halves."""
    rng = np.random.default_rng(1)
    centres = np.array([[0, 0], [0, 5.0], [9, 0], [9, 5.0]])
    place = np.repeat(np.arange(4), 60)
    X, y = centres[place] + 0.5 * rng.standard_normal((240, 2)), place % 2
    given = np.full(240, -1)
    for c in range(4):
        given[np.flatnonzero(place == c)[:2]] = c % 2
    options = {"n_neighbors": 8, "random_state": 0}
    assert adjusted_rand_score(y, ml.NCut(2, **options).fit(X).labels_) < 0.1
    est = CSCGFHF(2, **options).fit(X, given)
    assert adjusted_rand_score(y, est.labels_) > 0.95
    assert (est.labels_ == y).mean() > 0.98  # clusters are named by their labelled nodes


@pytest.mark.parametrize("assign", ["auto", "kmeans", "sphere"])
def test_clusters_carry_the_numbers_of_their_classes(assign):
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 150, 4)
    ids = np.array([3, 7, 20, 21])
    given = np.full(150, -1)
    for c in range(4):
        given[np.flatnonzero(y == c)[:3]] = ids[c]
    est = estimator(assign=assign).fit(W, given)
    np.testing.assert_array_equal(est.classes_, ids)
    assert (est.labels_ == y).mean() > 0.97
    assert est.report_.satisfaction["kept"] > 0.9
    assert est.report_.n_clusters == 4
    assert est.fit_predict(W, given).tolist() == est.labels_.tolist()


@pytest.mark.parametrize("k", [2, 3, 6])
def test_more_or_fewer_clusters_than_classes(k):
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 160, 4)
    given = np.full(160, -1)
    for c in range(4):
        given[np.flatnonzero(y == c)[:4]] = c
    est = estimator(k).fit(W, given)
    assert set(est.labels_) == set(range(k))
    assert any(f"4 classes among the labels, but {k}" in note for note in est.report_.notes)
    assert est.embedding_.shape == (160, k - 1)


def test_isolated_nodes_and_unlabelled_components():
    rng = np.random.default_rng(3)
    W = random_graph(rng, 62, components=2, isolated=2, density=0.3)
    part = oracles.components(W.toarray())
    alone = np.flatnonzero(np.asarray(W.sum(axis=1)).ravel() == 0)
    y = np.full(62, -1)
    inside = np.flatnonzero(part == 0)
    y[inside[:4]] = [0, 1, 0, 1]
    y[alone[0]] = 1
    est = estimator().fit(W, y)
    assert est.labels_[alone[0]] == 1
    assert est.labels_[alone[1]] == -1
    assert (est.labels_[part == 1] == -1).all()
    assert (est.labels_[inside] >= 0).all()
    assert any("not reached" in note for note in est.report_.notes)
    assert est.report_.extra["tie"] == 0
    put = estimator(isolated="assign").fit(W, y)
    assert (put.labels_ >= 0).all()
    assert any("largest cluster" in note for note in put.report_.notes)


def test_a_class_in_a_component_of_its_own():
    rng = np.random.default_rng(0)
    W = random_graph(rng, 90, components=3, density=0.3)
    part = oracles.components(W.toarray())
    y = np.full(90, -1)
    for c in range(3):
        y[np.flatnonzero(part == c)[0]] = c
    est = estimator().fit(W, y)
    np.testing.assert_array_equal(est.labels_, part)
    assert any("components" in note for note in est.report_.notes)


def test_points_with_duplicates_in_single_precision():
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 200, 3, duplicates=30)
    given = np.full(200, -1)
    for c in range(3):
        given[np.flatnonzero(y == c)[0]] = c
    for dtype in (np.float32, np.float64):
        est = CSCGFHF(random_state=0).fit(X.astype(dtype), given)
        assert adjusted_rand_score(y, est.labels_) > 0.95
    W = ml.knn_graph(X, random_state=0).affinity.astype(np.float32)
    assert adjusted_rand_score(y, estimator().fit(W, given).labels_) > 0.95


def test_every_node_labelled():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 80, 3)
    est = estimator().fit(W, y)
    assert est.report_.choices["rank"] == 3
    np.testing.assert_array_equal(est.labels_, y)


def test_the_same_seed_gives_the_same_labels_and_nothing_is_changed():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 1500, 3, inside=0.05, across=0.004)
    given = np.where(rng.random(1500) < 0.02, y, -1)
    before, data = given.copy(), W.data.copy()
    first, second = (estimator(solver="cg").fit(W, given) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(W.data, data)
    exact = estimator(solver="dense").fit(W, given)
    assert oracles.angle(exact.embedding_, first.embedding_) < 1e-5
    assert clone(first).get_params() == first.get_params()


def test_a_large_graph_is_solved_roughly_and_clustered_the_same():
    side = 145
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    eye = sp.identity(side)
    W = sp.csr_matrix(sp.kron(line, eye) + sp.kron(eye, line))
    y = np.repeat([0, 0, 1, 1, 2], side * side // 5)  # bands
    given = np.full(side * side, -1)
    chosen = np.random.default_rng(0).choice(side * side, 60, replace=False)
    given[chosen] = y[chosen]
    rough, sharp = estimator().fit(W, given), estimator(tol=1e-6, kernel_tol=1e-6).fit(W, given)
    assert rough.report_.choices["rank"] < sharp.report_.choices["rank"]
    assert rough.report_.convergence.tolerance == 1e-4
    assert rough.report_.convergence.converged.all()
    assert adjusted_rand_score(rough.labels_, sharp.labels_) > 0.97  # measured 0.99


def test_what_is_not_reached_is_said():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 1500, 3, inside=0.05, across=0.004)
    given = np.where(rng.random(1500) < 0.02, y, -1)
    est = estimator(solver="cg", max_iter=1, tol=1e-12).fit(W, given)
    assert any("raise max_iter" in note for note in est.report_.notes)
    coarse = estimator(sigma=0.01, max_rank=3).fit(W, given)
    assert any("max_rank" in note for note in coarse.report_.notes)


@pytest.mark.parametrize("inside", [-1, 0])
def test_classes_on_isolated_nodes_only(inside):
    W = sp.csr_matrix(np.pad(random_graph(np.random.default_rng(0), 10).toarray(), (0, 2)))
    y = np.full(12, -1)
    y[10:], y[3] = [0, 1], inside
    with pytest.raises(InputError, match="nodes with an edge"):
        estimator().fit(W, y)
