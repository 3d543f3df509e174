"""Eigensolvers against LAPACK, on graphs and on prescribed spectra."""

import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from cases import planted_graph, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.arpack import shift_invert
from mustlink.eigen.lobpcg import Lobpcg, lobpcg, set_free
from mustlink.eigen.memory_work import choose, laplacian_of, smallest_pairs, smoothest
from mustlink.eigen.plain_solve import default_tolerance, dense_smallest, nested, nested_start
from mustlink.graph import Graph
from mustlink.linear.multigrid import hierarchy as amg
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 2**31)


def rotated(rng, values):
    """Symmetric matrix with these eigenvalues, and its eigenvectors."""
    U = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    A = (U * values) @ U.T
    return (A + A.T) / 2, U


SPECTRA = {
    "spread": np.linspace(0.1, 2.0, 60),
    "clustered": np.concatenate([0.1 + 1e-4 * np.arange(5), np.linspace(0.5, 2, 55)]),
    "degenerate": np.concatenate([[0.1] * 3, [0.2] * 2, np.linspace(0.5, 2, 55)]),
    "tiny gap": np.concatenate([[0.1, 0.1 + 1e-8], np.linspace(0.3, 2, 58)]),
    "nearly null": np.concatenate([[1e-9, 1e-6, 1e-3], np.linspace(0.3, 2, 57)]),
    "negative": np.linspace(-1.0, 1.0, 60),
    "huge": np.geomspace(1e-3, 1e3, 60),
}


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("name", SPECTRA)
def test_prescribed_spectra(name, largest):
    rng = np.random.default_rng(11)
    values = -SPECTRA[name] if largest else SPECTRA[name]
    A, U = rotated(rng, values)
    k, size = 5, np.abs(values).max()
    X = rng.standard_normal((60, k + 3))
    before = X.copy()
    rule = Lobpcg(k, 1e-10, 400, largest=largest, norm_A=size)
    # Without a preconditioner a gap of 1e-7 of the spectrum would take thousands of steps.
    inverse = (U / np.abs(values) * rng.uniform(0.5, 2, 60)) @ U.T if name == "huge" else None
    found = lobpcg(
        lambda V: A @ V, X, rule, precondition=None if inverse is None else lambda V: inverse @ V
    )
    assert found.convergence.reason == "tolerance", found.convergence.status
    assert found.convergence.converged.all()
    assert np.array_equal(X, before)
    order = np.argsort(values)[::-1] if largest else np.argsort(values)
    expected = values[order][:k]
    # Ritz values are second order in the residual (residual²/gap), and there is rounding.
    gap = 1e-4 if name == "huge" else 1e-2
    np.testing.assert_allclose(found.values, expected, atol=(1e-20 / gap * size + 1e-13) * size)
    V = found.vectors
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-12)
    residuals = np.linalg.norm(A @ V - V * found.values, axis=0)
    np.testing.assert_allclose(residuals / size, found.convergence.residuals, atol=1e-12)
    for group in oracles.groups(np.abs(expected), 1e-6):
        if group.stop == k and name == "clustered":
            continue  # the cut may fall inside a cluster
        gap = np.abs(np.delete(values[order], np.r_[group])[:, None] - expected[group]).min()
        # Davis-Kahan: angle <= residual / gap.
        assert oracles.angle(U[:, order][:, group], V[:, group]) <= 3e-10 * size / gap + 1e-12


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_generalised_problem_agrees_with_lapack(seed, preconditioned, largest):
    rng = np.random.default_rng(seed)
    n, k = 50, 4
    A, _ = rotated(rng, rng.standard_normal(n))
    M, _ = rotated(rng, rng.uniform(0.5, 3, n))
    inverse = np.linalg.inv(M)
    X = rng.standard_normal((n, k + 3))
    rule = Lobpcg(k, 1e-10, 500, largest=largest, norm_A=np.linalg.norm(A, 2))
    found = lobpcg(
        lambda V: A @ V,
        X,
        rule,
        M=lambda V: M @ V,
        precondition=(lambda V: inverse @ V) if preconditioned else None,
    )
    assert found.convergence.reason == "tolerance"
    values, U = sla.eigh(A, M)
    if largest:
        values, U = values[::-1], U[:, ::-1]
    np.testing.assert_allclose(found.values, values[:k], atol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ M @ found.vectors, np.eye(k), atol=1e-11)
    gap = np.abs(np.diff(values[: k + 1])).min()
    # Davis-Kahan with the residual asked for.
    assert oracles.angle(U[:, :k], found.vectors) <= 1e-9 / gap


@given(st.integers(4, 14), seeds)
@settings(max_examples=30, deadline=None)
def test_blocks_that_fill_the_space(n, seed):
    """[X P W] is wider than the space: the rest of W is rounding and must be left out."""
    rng = np.random.default_rng(seed)
    A, _ = rotated(rng, rng.uniform(-1, 1, n))
    z = np.linalg.qr(rng.standard_normal((n, 2)))[0]
    b = n - 2

    def project(V):
        return V - z @ (z.T @ V)

    found = lobpcg(
        lambda V: project(A @ V), rng.standard_normal((n, b)), Lobpcg(b, 1e-9, 50), project=project
    )
    Q = sla.null_space(z.T)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(Q.T @ A @ Q), atol=1e-10)
    assert np.isfinite(found.vectors).all()


def test_a_rank_deficient_start_still_gives_all_pairs():
    rng = np.random.default_rng(0)
    A, _ = rotated(rng, np.linspace(0.1, 1, 30))
    X = np.repeat(rng.standard_normal((30, 2)), 3, axis=1)
    found = lobpcg(lambda V: A @ V, X, Lobpcg(4, 1e-9, 300))
    assert found.convergence.reason == "tolerance"
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[:4], atol=1e-12)


def test_an_exact_start_needs_no_step():
    rng = np.random.default_rng(0)
    A, U = rotated(rng, np.linspace(0.1, 1, 30))
    found = lobpcg(lambda V: A @ V, U[:, :4], Lobpcg(3, 1e-10))
    assert found.convergence.iterations == 0


def test_max_iter_is_reported_and_every_step_is_heard():
    rng = np.random.default_rng(0)
    A, _ = rotated(rng, np.geomspace(1e-4, 1, 200))
    X = rng.standard_normal((200, 5))
    found = lobpcg(lambda V: A @ V, X, Lobpcg(3, 1e-14, 4))
    assert found.convergence.reason == "max_iter"
    assert found.convergence.iterations == 4
    assert not found.convergence.converged.any()
    heard = []
    found = lobpcg(lambda V: A @ V, X, Lobpcg(3, 1e-14, 40), on_step=heard.append)
    assert len(heard) == found.convergence.iterations + 1
    assert heard[-1] == found.convergence.residuals.max()


# --- the smallest pairs of L̄


def graphs():
    rng = np.random.default_rng(1)
    yield "random", random_graph(rng, 260, 1, density=0.02)
    yield "parts", random_graph(rng, 260, 3, isolated=2, density=0.03)
    yield "weak", random_graph(rng, 240, 4, density=0.05, weak=1e-6)
    yield "planted", planted_graph(rng, 300, 4)[0]
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(17, 17))
    eye = sp.eye_array(17)
    yield "grid (degenerate)", sp.csr_matrix(sp.kron(line, eye) + sp.kron(eye, line))
    yield "path", sp.csr_matrix(sp.diags([1.0, 1.0], [-1, 1], shape=(200, 200)))


GRAPHS = dict(graphs())


def textbook(W, k):
    """The k smallest eigenvalues beyond the null space by LAPACK on the textbook L̄."""
    L = oracles.laplacian(W.toarray())[0]
    c = oracles.null_space(W.toarray()).shape[1]
    values, vectors = np.linalg.eigh(L)
    return values[c : c + k], vectors[:, c:], c


def solve(how, laplacian, k, tol):
    if how == "dense":
        return dense_smallest(laplacian, k)
    grids = build_hierarchy(laplacian)
    if how == "nested":
        return nested(laplacian, grids, k, tol=tol, max_iter=300)
    return shift_invert(laplacian, grids, k, tol=tol)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("how", "coarsest"),
    [  # two hierarchies, deep and flat, where there is one
        ("dense", 200),
        ("nested", 20),
        ("nested", 200),
        ("shift-invert", 20),
        ("shift-invert", 200),
    ],
)
@pytest.mark.parametrize("name", GRAPHS)
def test_smallest_pairs_agree_with_lapack(name, how, coarsest, monkeypatch):
    monkeypatch.setattr(amg, "_COARSEST", coarsest)
    W, k = GRAPHS[name], 6
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    found = solve(how, laplacian, k, 1e-9)
    values, vectors, c = textbook(W, k)
    assert found.convergence.converged.all(), found.convergence.status
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    V = found.vectors
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-10)
    # Shift-invert's vectors are as orthogonal to Z as its inner solver is exact.
    np.testing.assert_allclose(laplacian.null.coefficients(V), 0, atol=1e-8)
    R = laplacian.apply(V) - V * found.values
    # The residual that was asked for, with ARPACK's small factor.
    np.testing.assert_allclose(np.linalg.norm(R, axis=0), found.convergence.residuals, atol=1e-12)
    assert np.linalg.norm(R, axis=0).max() <= 1e-8
    place = np.searchsorted(oracles.laplacian(W.toarray())[2], laplacian.nodes)
    for group in oracles.groups(values, 1e-5):
        if group.stop < k:
            # Davis-Kahan: residual / gap, the gaps being above 1e-5·λ and λ above 1e-4.
            assert oracles.angle(vectors[place][:, group], V[:, group]) < 1e-5
    assert c == laplacian.null.n_components


def test_values_of_nearly_disconnected_graphs_keep_their_digits():
    """λ = 1e-7: relative accuracy, not only relative to ‖L̄‖."""
    W = random_graph(np.random.default_rng(5), 200, 3, density=0.05, weak=1e-6)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    reference = dense_smallest(laplacian, 3).values
    found = nested(laplacian, build_hierarchy(laplacian), 3, tol=1e-10, max_iter=300)
    assert reference[0] < 1e-7
    # Two double-precision calculations of 1e-8 from entries of size 1: 1e-16/1e-8.
    np.testing.assert_allclose(found.values, reference, rtol=1e-6)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("parts", [0, 1, 300])
def test_nested_start_is_already_close(parts, monkeypatch):
    monkeypatch.setattr(amg, "_COARSEST", 50)
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(60, 60))
    row = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(23, 23))
    W = sp.csr_matrix(sp.kron(line, sp.eye_array(23)) + sp.kron(sp.eye_array(60), row))
    W = sp.block_diag([W] + [np.array([[0, 1.0], [1.0, 0]])] * parts, format="csr")
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    grids = build_hierarchy(laplacian)
    assert len(grids.levels) >= 2
    X = nested_start(laplacian, grids, 5, 0)
    np.testing.assert_allclose(X.T @ X, np.eye(5), atol=1e-10)
    # null(Z) is projected out before the last rotation.
    np.testing.assert_allclose(laplacian.null.coefficients(X), 0, atol=1e-10)
    values, _, _ = textbook(W, 5)
    quotients = np.einsum("ij,ij->j", X, laplacian.apply(X))
    assert (quotients >= values - 1e-12).all()  # Courant-Fischer
    # Those of the first coarse grid are three times too large: smoothing has to take that away.
    coarse = np.linalg.eigvalsh(grids.coarse_operator(1).to_dense())
    assert (coarse[coarse > 1e-9][:5] > 3 * values).all()
    assert (quotients < 1.02 * values).all()


# --- choosing and keeping


def test_pairs_are_kept_with_the_graph_and_reused_where_a_fresh_result_would_be_the_same():
    work = Workspace(Graph.from_affinity(GRAPHS["random"]))
    recorder = work.recorder
    first = smallest_pairs(work, 5, solver="lobpcg", tol=1e-4)
    again = smallest_pairs(work, 3, solver="lobpcg", tol=1e-4)
    assert np.array_equal(again.vectors, first.vectors[:, :3])
    assert again.convergence.residuals.size == 3
    sharper = smallest_pairs(work, 3, solver="lobpcg", tol=1e-9)
    assert sharper.convergence.residuals.max() <= 1e-9
    more = smallest_pairs(work, 7, solver="lobpcg", tol=1e-9)
    assert more.values.size == 7
    names = [stage.name for stage in recorder.stages]
    assert names.count("eigenvectors") == 3
    assert names.count("multigrid set-up") == 1


@pytest.mark.parametrize("solver", ["dense", "lobpcg", "shift-invert", "chebyshev"])
def test_extra_pairs_are_less_sharp_and_change_no_other(solver):
    """They are guard vectors: orthogonal to the wanted ones, and above the true eigenvalues."""
    W = GRAPHS["random"]
    how = {"solver": solver, "tol": 1e-6, "max_iter": 200}
    plain = smallest_pairs(Workspace(Graph.from_affinity(W)), 5, **how)
    work = Workspace(Graph.from_affinity(W))
    found = smallest_pairs(work, 5, extra=3, **how)
    assert found.values.shape == (8,)
    assert found.convergence.residuals.shape == (5,)
    if solver in ("lobpcg", "chebyshev"):  # others make all of them sharp
        assert found.convergence.iterations <= plain.convergence.iterations + 10
        R = laplacian_of(work).apply(found.vectors) - found.vectors * found.values
        assert (np.linalg.norm(R[:, 5:], axis=0) <= how["tol"] ** 0.5).all()
        np.testing.assert_allclose(found.values[:5], plain.values, atol=1e-10)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-8)
    values, _, _ = textbook(W, 8)
    assert (found.values >= values - 1e-7).all()
    assert smallest_pairs(work, 4, **how).vectors.shape[1] == 4  # kept, and used again
    assert [stage.name for stage in work.recorder.stages].count("eigenvectors") <= 1
    assert smallest_pairs(work, 4, extra=3, **how).values.size == 7  # of other guards: anew


@pytest.mark.parametrize("solver", ["dense", "lobpcg", "shift-invert"])
@pytest.mark.parametrize("n", [5, 8, 13])
def test_tiny_graphs_give_as_many_pairs_as_there_are(n, solver):
    W = random_graph(np.random.default_rng(n), n, 1, density=0.3)
    found = smallest_pairs(Workspace(Graph.from_affinity(W)), n + 3, solver=solver)
    values, _, _ = textbook(W, n)
    np.testing.assert_allclose(found.values, values[: found.values.size], atol=1e-10)
    assert found.values.size == n - 1


def test_only_pairs_of_nodes():
    """40 components of two nodes: λ = 2 forty times, no smooth vector at all."""
    W = sp.block_diag([np.array([[0, 1.0], [1.0, 0]])] * 40, format="csr")
    found = smallest_pairs(Workspace(Graph.from_affinity(W)), 3, solver="lobpcg")
    np.testing.assert_allclose(found.values, 2.0, atol=1e-12)


def test_choice_of_solver_and_tolerance():
    def on_a_path(n):
        line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n))
        return normalized_laplacian(Graph.from_affinity(sp.csr_matrix(line)))

    assert choose(on_a_path(500), 10, "auto") == "dense"
    assert choose(on_a_path(5_000), 10, "auto") == "lobpcg"
    assert choose(on_a_path(5_000), 1_000, "auto") == "dense"  # a fifth of all pairs
    assert choose(on_a_path(5_000), 10, "shift-invert") == "shift-invert"
    assert choose(on_a_path(50), 20, "shift-invert") == "dense"
    complete = np.ones((1_200, 1_200)) - np.eye(1_200)
    assert choose(normalized_laplacian(Graph.from_affinity(complete)), 10, "auto") == "dense"
    assert [default_tolerance(n) for n in (10**3, 10**5, 10**6)] == [1e-8, 1e-4, 1e-3]
    single = [default_tolerance(n, single=True) for n in (10**3, 10**5, 10**6)]
    assert single == [1e-6, 1e-4, 1e-3]


@pytest.mark.parametrize("components", [1, 3, 5])
def test_smooth_basis_is_orthonormal_and_starts_with_z(components):
    W = random_graph(np.random.default_rng(components), 120, components, isolated=2)
    graph = Graph.from_affinity(W)
    basis = smoothest(Workspace(graph), 6)
    laplacian = basis.laplacian
    U = basis.vectors
    assert basis.p >= 6
    np.testing.assert_allclose(U.T @ U, np.eye(1 + basis.p), atol=1e-10)
    np.testing.assert_allclose(U[:, 0], laplacian.root_degree / np.sqrt(laplacian.volume))
    assert (basis.values > 0).all()
    assert (np.diff(basis.values[components - 1 :]) >= -1e-12).all()
    # span{z, first c − 1 directions} is the null space.
    np.testing.assert_allclose(laplacian.apply(U[:, :components]), 0, atol=1e-12)
    assert smoothest(Workspace(graph), 4) is basis


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e8])
def test_new_directions_areset_free_by_coefficients(size):
    """Beside an orthonormal basis; not where they lie in its span, are dependent or no numbers."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((40, 4)))[0]
    W = size * (rng.standard_normal((40, 3)) + basis[:, :3])
    V = np.hstack([basis, W])
    E = set_free(V.T @ V, 3, np.float64)
    np.testing.assert_allclose((V @ E).T @ V @ E, np.eye(7), atol=1e-12)
    np.testing.assert_array_equal(E[:, :4], np.eye(7)[:, :4])
    for bad in (basis[:, :3], W[:, [0, 1, 1]], 1e-30 * W, np.nan * W):
        V = np.hstack([basis, bad])
        assert set_free(V.T @ V, 3, np.float64) is None
