"""L̄, its grids and its vectors on disk against those in memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import oracles
from cases import planted_graph, random_graph
from mustlink.eigen.plain_solve import chebyshev, nested, nested_start
from mustlink.graph import Graph
from mustlink.linear.cg import block_cg
from mustlink.linear.multigrid import hierarchy
from mustlink.linear.multigrid.disk_grids import AggregateLinks, stored_grids
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.laplacian import normalized_laplacian, regularized
from mustlink.space import disk
from mustlink.space.disk import DiskSpace
from on_disk import laplacian_on_disk, stored

SINGLE = 2e-6  # of sums of some twenty products in single precision


@pytest.fixture(autouse=True)
def _short_passes(monkeypatch):
    monkeypatch.setattr(disk, "PASS_BYTES", 3000)
    monkeypatch.setattr(disk, "_LEAST_ROWS", 7)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def sheet(rng, n=900):
    """A graph with a smooth spectrum: points on a strip, joined where they are near."""
    at = np.sort(rng.random(n) * 30)
    i, j = np.nonzero(np.abs(at[:, None] - at) < 0.2)
    W = sp.csr_matrix((np.exp(-((at[i] - at[j]) ** 2) * 40), (i, j)), shape=(n, n))
    W.setdiag(0)
    W.eliminate_zeros()
    chain = sp.diags([1e-3, 1e-3], [-1, 1], shape=(n, n))
    return sp.csr_matrix(W.maximum(chain))


GRAPHS = {
    "connected": lambda rng: random_graph(rng, 90),
    "parts": lambda rng: random_graph(rng, 90, 4, isolated=6),
    "loops": lambda rng: sp.csr_matrix(random_graph(rng, 90) + sp.diags(rng.random(90))),
    "planted": lambda rng: planted_graph(rng, 200, 4)[0],
}


@pytest.fixture(params=GRAPHS)
def W(request, rng):
    return sp.csr_matrix(GRAPHS[request.param](rng))


def dense(W, tau=0.0):
    """S of all nodes, 0 for isolated ones, and the root of the degrees."""
    degree = np.asarray(W.sum(axis=1), dtype=float).ravel()
    linked = degree > 0
    degree[linked] += tau * degree.sum() / linked.sum()
    inverse = np.where(linked, 1.0 / np.sqrt(np.where(linked, degree, 1.0)), 0.0)
    return inverse[:, None] * W.toarray() * inverse, np.sqrt(degree), linked


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("tau", [0.0, 0.3])
@pytest.mark.parametrize("columns", [1, 2, 9])
def test_products(W, rng, tau, columns):
    L = laplacian_on_disk(W, columns, tau)
    S, root, linked = dense(W, tau)
    X = rng.standard_normal((len(root), 5)) * linked[:, None]
    x = L.space.place(X)
    np.testing.assert_allclose(L.root_degree[:], root, rtol=1e-6)
    np.testing.assert_allclose(L.apply(x)[:], X - S @ X, atol=SINGLE)
    np.testing.assert_allclose(L.diagonal[:][linked], 1 - np.diag(S)[linked], atol=SINGLE)
    smooth = X
    for _ in range(3):
        smooth = (smooth + S @ smooth) / 2
    np.testing.assert_allclose(L.smooth(x, 3)[:], smooth, atol=SINGLE)
    old, new = X, 0.5 * (S @ X) + 0.1 * X
    old, new = new, 2 * (S @ new) - 0.2 * new - old
    found = L.recurrence(x, [(0.5, 0.1, 0.0), (2.0, -0.2, -1.0)])
    np.testing.assert_allclose(found[:], new, atol=5 * SINGLE)
    np.testing.assert_array_equal(x[:], X)
    out = L.space.zeros(5, np.float32)
    inner, square = L.three_terms(x, L.space.place(old), (0.5, 0.1, 0.3), out)
    expected = 0.5 * (S @ X) + 0.1 * X + 0.3 * old
    np.testing.assert_allclose(out[:], expected, atol=SINGLE)
    assert inner == pytest.approx((expected * X).sum(), rel=1e-4, abs=1e-4)
    assert square == pytest.approx((expected**2).sum(), rel=1e-4)


def grounded(W, rng):
    """I − T^-½WT^-½ of some nodes, dense and on disk; which they are, and the ground of them."""
    degree = np.asarray(W.sum(axis=1), dtype=float).ravel()
    kept, more = rng.random(degree.size) > 0.1, np.zeros(degree.size)
    more[::7] = rng.random(more[::7].size)
    L = laplacian_on_disk(W, columns=2)
    there = L.grounded(L.space.place(more), L.space.place(kept))
    on = kept & (degree > 0)
    scale = on / np.sqrt(np.where(on, degree + more, 1.0))
    home = np.eye(on.size) - scale[:, None] * W.toarray() * scale
    return home, there, on, more + W @ ~kept


def test_a_diagonal_added_and_nodes_taken_out(W, rng):
    W.data = W.data.astype(np.float32).astype(float)
    home, there, on, ground = grounded(W, rng)
    X = rng.standard_normal((on.size, 3)) * on[:, None]
    found = there.apply(there.space.place(X))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[:], home @ X, atol=1e-14)
    np.testing.assert_allclose(there.ground[:][on], ground[on], rtol=1e-12)
    np.testing.assert_array_equal(there.root_degree[:] > 0, on)


@pytest.mark.thorough
def test_a_grounded_system_is_solved_by_its_grids(rng, monkeypatch):
    monkeypatch.setattr(hierarchy, "_COARSEST", 20)
    W = sheet(rng)
    W.data = W.data.astype(np.float32).astype(float)
    home, there, on, _ = grounded(W, rng)
    grids, space = stored_grids(there), there.space
    assert len(grids.sizes) > 2
    B = rng.standard_normal((on.size, 3)) * on[:, None]
    how = {"tol": 1e-11, "space": space}
    X, told = block_cg(there.apply, space.place(B), precondition=grids.cycle(), **how)
    _, plain = block_cg(there.apply, space.place(B), **how)
    assert told.converged.all()
    assert told.iterations < 0.7 * plain.iterations
    np.testing.assert_allclose(X[:], np.linalg.solve(home, B), atol=1e-8)
    np.testing.assert_array_equal(X[:][~on], 0.0)


def test_null_space(W):
    L, (S, _, linked) = laplacian_on_disk(W), dense(W)
    null = L.null
    Z = null.columns(np.arange(null.n_components))[:]
    np.testing.assert_allclose(Z.T @ Z, np.eye(null.n_components), atol=1e-10)
    assert abs(L.apply(L.space.place(Z))[:]).max() < SINGLE
    values = np.linalg.eigvalsh(np.eye(int(linked.sum())) - S[linked][:, linked])
    assert np.count_nonzero(values < 1e-6) == null.n_components
    assert laplacian_on_disk(W, tau=0.1).null.n_components == 0


def test_aggregates_and_cycle_are_those_of_memory(rng, monkeypatch):
    """On one order of nodes: pyamg's aggregates, PᵀSP, and what the cycle makes of a block."""
    monkeypatch.setattr(hierarchy, "_COARSEST", 20)
    W = sheet(rng)
    L = laplacian_on_disk(W, columns=5)
    grids = stored_grids(L)
    graph = Graph.from_affinity(W)
    home = normalized_laplacian(graph, np.float64, np.arange(graph.n_nodes))
    there = build_hierarchy(home)
    assert grids.sizes == there.sizes
    finest = grids.levels[0]
    P = sp.csr_matrix((finest.share[:], finest.group[:], np.arange(L.size + 1)))
    assert abs(P - there.levels[0].way.exact).max() < 1e-6
    assert abs(P.T @ P - P.T @ home.edges @ P - grids.levels[1].matrix.local).max() < 1e-6
    B = home.null.project(rng.standard_normal((L.size, 3)))
    mine, other = grids.cycle()(L.space.place(B))[:], there.cycle()(B)
    assert abs(mine - other).max() < 1e-4 * abs(other).max()
    C = rng.standard_normal((grids.sizes[1], 2))
    np.testing.assert_allclose(grids.up(1, C)[:], P @ C, atol=SINGLE)


def test_nothing_finds_together(rng):
    """A star: one node with all others; and no room for links."""
    W = sp.lil_matrix((60, 60))
    W[0, 1:] = W[1:, 0] = 1.0
    L = laplacian_on_disk(sp.csr_matrix(W))
    assert stored_grids(L).sizes[1] == 1
    assert stored_grids(laplacian_on_disk(sheet(rng)), most=0) is None


@pytest.mark.parametrize("most", [10**6, 1200, 500])
def test_links_between_aggregates(rng, most):
    """All sums, or the heaviest of each aggregate; degrees and components stay as they are."""
    W = sp.lil_matrix(sp.block_diag([random_graph(rng, 300, weighted=True) for _ in range(2)]))
    W[3, 500] = W[500, 3] = 1e-6  # the lightest of all, without which it falls apart
    W, group = sp.csr_matrix(W), rng.integers(0, 25, 600).astype(np.int32) + 25
    group[:300] -= 25
    E = np.eye(50)[group]
    whole = E.T @ W @ E
    count = np.count_nonzero(whole)
    found = AggregateLinks(stored(W), group, 50, most).weights(DiskSpace(600), lambda _: None)
    assert abs(found - found.T).max() < 1e-6 * found.max()  # sums are in single precision
    np.testing.assert_allclose(found.sum(axis=1).A1, whole.sum(axis=1), rtol=1e-6)
    if most >= count:
        np.testing.assert_allclose(found.toarray(), whole, rtol=1e-6)
        return
    off = whole - np.diag(np.diag(whole))
    kept = np.zeros((50, 50), bool)
    for i in range(50):
        kept[i, np.argsort(-off[i], kind="stable")[: most // 100]] = True
    kept = (kept | kept.T) & (off > 0)
    if off[group[3], group[500]] < 1e-5:
        kept[group[3], group[500]] = kept[group[500], group[3]] = True
    there = found.toarray() - np.diag(found.diagonal())
    np.testing.assert_array_equal(there > 0, kept)
    np.testing.assert_allclose(there[kept], off[kept], rtol=1e-6)


def test_too_few_links_are_none(rng):
    W = random_graph(rng, 200)
    group = np.arange(200, dtype=np.int32) // 4
    assert AggregateLinks(stored(W), group, 50, 60).weights(DiskSpace(200), lambda _: None) is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "way"),
    [("sheet", "lobpcg"), ("parts", "lobpcg"), ("parts", "chebyshev"), ("loops", "chebyshev")],
)
def test_smallest_pairs(rng, kind, way, monkeypatch):
    monkeypatch.setattr(hierarchy, "_COARSEST", 20)
    W = sheet(rng) if kind == "sheet" else sp.csr_matrix(GRAPHS[kind](rng))
    L, k = laplacian_on_disk(W, columns=3), 5
    S, _, linked = dense(W)
    values, vectors = np.linalg.eigh(np.eye(int(linked.sum())) - S[linked][:, linked])
    first = L.null.n_components
    grids = stored_grids(L)
    if way == "lobpcg":
        found = nested(L, grids, k, tol=1e-4, max_iter=300)
    else:
        start = nested_start(L, grids, k + 3, 0)
        found = chebyshev(L, start, k, tol=1e-4, max_iter=300)
    assert found.convergence.converged.all()
    np.testing.assert_allclose(found.values, values[first : first + k], atol=2e-6)
    V = found.vectors[:]
    assert not V[~linked].any()
    gap = values[first + k] - values[first + k - 1]
    wanted = vectors[:, first : first + k]
    assert oracles.angle(wanted, V[linked].astype(float)) < max(4e-4 / gap, 1e-3)


def test_regularised_degrees_are_those_of_memory(rng):
    W = sp.csr_matrix(GRAPHS["parts"](rng))
    home = normalized_laplacian(Graph.from_affinity(W), np.float64, np.arange(90))
    there = regularized(home, 0.3)
    L = laplacian_on_disk(W, tau=0.3)
    np.testing.assert_allclose(L.root_degree[:][there.nodes], there.root_degree, rtol=1e-6)


def test_groups_of_columns_are_not_in_memory_together(monkeypatch, rng):
    monkeypatch.setattr(disk, "PASS_BYTES", 1 << 18)
    n = 200_000
    L = laplacian_on_disk(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]), columns=4)
    X = L.space.normals(8, 0)
    tracemalloc.start()
    L.apply(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.4 * L.room  # two of eight columns and their products, and blocks of rows
