"""The smooth subspace of regularised degrees: its basis, and its choice by what is held out."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, labelled, planted_graph, random_graph
from mustlink.context.method_cost import Size
from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import Deadline, Recorder
from mustlink.core.result import Convergence, EigenResult
from mustlink.eigen.memory_work import laplacian_of, smoothest
from mustlink.eigen.smooth_subspace import carried_basis
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.operators.laplacian import normalized_laplacian, regularized
from mustlink.selection.resolve import Candidates, choose_smooth

METHODS = ["CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE"]


def hung(rng, n=400, k=3, hanging=200, within=0.75):
    """A sparse planted graph with unlike degrees, and chains that hang on it: (W, y)."""
    y = np.arange(n) % k
    pull = rng.pareto(2.0, n) + 1
    i = rng.choice(n, 4 * n, p=pull / pull.sum())
    near = [np.flatnonzero(y == r) for r in range(k)]
    j = np.array([rng.choice(near[y[a]] if rng.random() < within else n) for a in i])
    new = np.arange(n, n + hanging)
    on = np.where(rng.random(hanging) < 0.85, new - 1, rng.integers(0, n, hanging))
    for node in on:
        y = np.append(y, y[node])
    size = n + hanging
    ends = np.concatenate([i, new]), np.concatenate([j, on])
    A = sp.coo_matrix((np.ones(ends[0].size), ends), shape=(size, size)).tocsr()
    W = ((A + A.T) > 0).astype(float)
    W.setdiag(0)
    W.eliminate_zeros()
    return sp.csr_matrix(W), y


def method(name, k, **options):
    return getattr(ml, name)(k, affinity="precomputed", random_state=0, **options)


def carried(W, tau, p, counts=None):
    """The basis from vectors by LAPACK, rows in order of the nodes."""
    plain = normalized_laplacian(Graph(W, weights=counts))
    regular = regularized(plain, tau)
    values, V = np.linalg.eigh(regular.to_dense())
    reached = Convergence("dense", "direct", 0, np.zeros(p), 1e-10)
    return plain, carried_basis(plain, regular, EigenResult(values[:p], V[:, :p], reached))


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_the_basis_against_its_dense_twin(first):
    for seed in range(first, first + 25):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 50))
        W = random_graph(rng, n, int(rng.integers(1, 4)), isolated=int(rng.integers(0, 3)))
        counts = rng.integers(1, 5, n).astype(float) if seed % 2 else None
        tau, p = 10.0 ** rng.uniform(-2, 1), int(rng.integers(1, 6))
        plain, basis = carried(W, tau, p, counts)
        order = np.argsort(plain.nodes)
        U, L = basis.vectors[order], plain.to_dense()[order][:, order]
        span = oracles.carried_span(W.toarray(), tau, p, counts)
        assert basis.p <= p
        np.testing.assert_allclose(U.T @ U, np.eye(basis.p + 1), atol=1e-9)
        np.testing.assert_allclose(U[:, 0], span[:, 0], atol=1e-12)
        np.testing.assert_allclose(U @ (U.T @ span), span, atol=1e-6)
        assert np.linalg.matrix_rank(span, tol=1e-7) <= basis.p + 1
        ritz = np.diag(U.T @ L @ U)[1:]
        ties = basis.n_ties
        np.testing.assert_allclose(ritz[ties:], basis.values[ties:], atol=1e-9)
        assert (ritz[:ties] < 1e-9).all()
        assert (basis.values > 0).all()


def test_what_the_constant_vector_spans_is_no_direction():
    """In a graph of even degrees the smoothest vector of L̄_τ is z."""
    ring = sp.diags([np.ones(29), np.ones(29)], [1, -1], format="lil")
    ring[0, 29] = ring[29, 0] = 1
    _, basis = carried(sp.csr_matrix(ring), 0.3, 5)
    assert basis.p == 4
    expected = np.sort(1 - np.cos(2 * np.pi * np.arange(30) / 30))[1:5]
    np.testing.assert_allclose(basis.values, expected, atol=1e-12)


def test_fewer_directions_are_the_smoothest_of_regularised_degrees():
    """A longer basis is sorted by L̄, and does not begin with the shorter one."""
    W, _ = hung(np.random.default_rng(0), n=150)
    view = Workspace(Graph(W)).regularized(0.3)
    longer, shorter = smoothest(view, 8), smoothest(view, 3)
    assert (longer.p, shorter.p) == (8, 3)
    order = np.argsort(shorter.laplacian.nodes)
    span = oracles.carried_span(W.toarray(), 0.3, 3)
    U = shorter.vectors[order]
    np.testing.assert_allclose(U @ (U.T @ span), span, atol=1e-6)
    assert smoothest(view, 3) is shorter


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_a_regularisation(name):
    rng = np.random.default_rng(1)
    W, y = hung(rng)
    known = labelled(y, 6, rng)
    plain, mended = (
        method(name, 3, subspace=3, regularization=tau).fit(W, known) for tau in (0, 0.3)
    )
    assert mended.report_.choices["regularization"][0] == 0.3
    assert mended.report_.choices["subspace"] == 3
    before, after = (adjusted_rand_score(y, est.labels_) for est in (plain, mended))
    assert before < 0.1 < 0.2 < after


@pytest.mark.parametrize("name", ["CSP", "SSSC"])
def test_constraints_held_out_choose_among_them(name):
    rng = np.random.default_rng(2)
    W, y = hung(rng)
    known = labelled(y, 12, rng)
    auto = method(name, 3, subspace=6).fit(W, known)
    tau, why = auto.report_.choices["regularization"]
    table = auto.report_.extra["candidates"]
    assert {row[4] for row in table} == {0.0, 0.1}
    assert tau > 0
    assert re.fullmatch(r"held-out constraints kept: .*% at 0, .*% at 0.1", why)
    parameter = {"CSP": "beta", "SSSC": "gamma"}[name]
    chosen = {name: auto.report_.choices[name] for name in (parameter, "assign")}
    same = method(name, 3, subspace=6, regularization=tau, **chosen).fit(W, known)
    assert same.report_.choices["regularization"] == [tau, "given"]
    assert adjusted_rand_score(auto.labels_, same.labels_) > 0.9  # vectors are sharper there
    plain = method(name, 3, subspace=6, regularization=0).fit(W, known)
    assert {row[4] for row in plain.report_.extra["candidates"]} == {0.0}


@pytest.mark.thorough
def test_refit_keeps_the_subspace():
    rng = np.random.default_rng(3)
    W, y = hung(rng)
    est = method("CSP", 3).fit(W, labelled(y, 12, rng))
    tau, subspace = est.report_.choices["regularization"][0], est.report_.choices["subspace"]
    est.refit(labelled(y, 12, rng))
    assert est.report_.choices["regularization"][0] == tau > 0
    assert not {"eigenvectors", "multigrid set-up"} & {one.name for one in est.report_.stages}
    assert est.report_.choices["subspace"] == subspace


@pytest.mark.thorough
def test_points_small_graphs_and_even_degrees_stay_as_they_are():
    rng = np.random.default_rng(4)
    X, y = blobs(rng, 300, 3)
    ring = sp.block_diag([sp.csr_matrix(np.ones((70, 70)) - np.eye(70))] * 3).tolil()
    for a in (0, 70):
        ring[a, a + 70] = ring[a + 70, a] = 1
    small = planted_graph(rng, 90, 3)
    few = {"affinity": "precomputed"}
    cases = [(X, y, {}), (ring.tocsr(), np.repeat([0, 1, 2], 70), few), (*small, few)]
    for data, truth, options in cases:
        auto, zero = (
            ml.CSP(3, random_state=0, regularization=tau, **options).fit(
                data, labelled(truth, 8, rng)
            )
            for tau in ("auto", 0)
        )
        assert {row[4] for row in auto.report_.extra["candidates"]} == {0.0}
        assert zero.report_.choices["regularization"][0] == 0


def test_what_time_leaves_out_is_told():
    """Without any time the first candidate is tried, and what is left is named."""
    rng = np.random.default_rng(5)
    W, y = hung(rng)
    recorder = Recorder(None, Deadline(1.0, 0.0, lambda: 2.0))
    work = Workspace(Graph(W))
    laplacian = laplacian_of(work)
    known = ml.Constraints.from_labels(labelled(y, 12, rng))
    est = ml.CSP(3)
    request = SimpleNamespace(
        known=known,
        k=3,
        solving=SimpleNamespace(seed=0),
        most_folds=None,
        recorder=recorder,
        basis=lambda p, tau: smoothest(work.regularized(tau), p),
        formulation_of=lambda part: est._formulation(work.graph, laplacian, part, 3),
    )
    choice = choose_smooth(request, Candidates((3,), (0.5,), ("sphere",), (0.0, 0.3)))
    assert (choice.tau, len(choice.scores)) == (0.0, 1)
    assert any("0.3 of the mean degree" in one for one in recorder.left_out)


def test_plans_count_the_basis_that_is_kept_beside():
    size = Size(10**6, 10**7)

    def usual(cost):
        return cost.peak(size, single=False, usual=True)

    auto, zero = (ml.CSP(5, regularization=tau).cost() for tau in ("auto", 0))
    assert usual(auto) == usual(zero) == usual(zero.of_given())
    assert usual(auto.of_given()) - usual(auto) == 8 * size.n * 24  # 4K vectors and a fifth more
    assert usual(auto.of_given()) < auto.peak(size, single=False)


@pytest.mark.parametrize("value", [-1, "much", np.nan, True])
def test_what_cannot_be_added_is_refused(value):
    W, y = planted_graph(np.random.default_rng(0), 30, 2)
    with pytest.raises(InputError, match="regularization"):
        method("CSP", 2, regularization=value).fit(W, y)


def test_the_full_problem_has_no_subspace():
    W, y = planted_graph(np.random.default_rng(0), 30, 2)
    with pytest.raises(InputError, match="regularization"):
        method("SSSC", 2, subspace="exact", regularization=0.3).fit(W, y)
    assert method("SSSC", 2, subspace="exact").fit(W, y).labels_.size == 30
