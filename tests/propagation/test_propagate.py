"""Label propagation against dense inverses, the identities of AB09, and hard input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

import mustlink as ml
import oracles
from cases import few_and_many, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.propagation.answers import confidence, distributions, lost_classes, onto_simplex
from mustlink.propagation.gwem import WalkEnergy
from mustlink.propagation.prior import LabelSet
from mustlink.propagation.problem import PropagationProblem, ReachedPart, Solving

LINEAR = {
    "gfhf": (ml.GFHF(class_mass=False), oracles.gfhf_dense),
    "lelp": (ml.LELP(), oracles.gfhf_dense),
    "llgc": (ml.LLGC(alpha=0.9, class_mass=False), lambda W, Y: oracles.llgc_dense(W, Y, 0.9)),
    "llgc far": (
        ml.LLGC(alpha=0.999, class_mass=False),
        lambda W, Y: oracles.llgc_dense(W, Y, 0.999),
    ),
    "tikreg": (ml.TikReg(gamma=0.3), lambda W, Y: oracles.tikreg_dense(W, Y, 0.3)),
    "ncut": (
        ml.NCutPropagation(alpha=0.7),
        lambda W, Y: oracles.ncut_propagation_dense(W, Y, 0.7),
    ),
    "lelpc": (
        ml.LELP(orthogonal=True, alpha=0.4),
        lambda W, Y: oracles.lelpc_dense(W, Y, 0.4),
    ),
    "green": (ml.GreenFunction(), lambda W, Y: oracles.green_dense(W, Y, False)),
    "green normalized": (
        ml.GreenFunction(normalized=True),
        lambda W, Y: oracles.green_dense(W, Y, True),
    ),
    "poisson": (ml.Poisson(center="degrees", class_mass=False), oracles.poisson_dense),
    "poisson rows": (
        ml.Poisson(center="rows"),
        lambda W, Y: oracles.poisson_dense(W, Y, "rows", equal=True),
    ),
    "gwem 1": (ml.GWEM(variant="fixed-point", n_steps=1), lambda W, Y: oracles.gwem_dense(W, Y, 1)),
    "gwem 5": (ml.GWEM(variant="fixed-point", n_steps=5), lambda W, Y: oracles.gwem_dense(W, Y, 5)),
}
PLAIN = [ml.GFHF, ml.LLGC, ml.TikReg, ml.NCutPropagation, ml.LELP, ml.GreenFunction, ml.Poisson]
ALL = [*PLAIN, ml.GWEM, ml.ClusterKernel]


def some_labels(rng, n, k, count):
    """`count` labels or more, every class at least once."""
    y = np.full(n, -1)
    nodes = rng.permutation(n)[: max(count, k)]
    y[nodes] = np.concatenate([np.arange(k), rng.integers(0, k, nodes.size - k)])
    return y


def one_hot(y, k):
    return (y[:, None] == np.arange(k)) * 1.0


def values(estimator, W, y):
    """The method's values before they become distributions, in the caller's order."""
    held = {}
    est = clone(estimator).set_params(affinity="precomputed")
    original = est._solve

    def spy(task):
        solution = original(task)
        held["F"] = task.laplacian.from_working_order(solution.scores)
        held["solution"] = solution
        return solution

    est._solve = spy
    est.fit(W, y)
    return held["F"], held["solution"], est


@few_and_many(39, 3)
@pytest.mark.parametrize("solver", ["cg", "dense"])
@pytest.mark.parametrize("name", LINEAR)
def test_dense_twin(name, solver, seeds):
    estimator, oracle = LINEAR[name]
    worst = 0.0
    for seed in seeds if solver == "cg" else seeds[::2]:
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(8, 60)), int(rng.integers(2, 5))
        W = random_graph(rng, n, weak=1e-2 if seed % 3 == 0 else None)
        y = some_labels(rng, n, k, int(rng.integers(k, n // 2 + 2)))
        F, solution, _ = values(clone(estimator).set_params(solver=solver, tol=1e-12), W, y)
        true = oracle(W.toarray(), one_hot(y, k))
        worst = max(worst, np.abs(F - true).max() / np.abs(true).max())
        assert solution.convergence.solver == ("LAPACK" if solver == "dense" else "block CG")
    assert worst < 1e-6


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", LINEAR)
def test_multigrid_on_larger_graphs(name):
    rng = np.random.default_rng(5)
    X, truth = make_blobs(800, centers=5, random_state=0)
    graph = ml.knn_graph(X, 8, random_state=0)
    y = np.full(800, -1)
    known = rng.choice(800, 12, replace=False)
    y[known] = truth[known] % 3
    estimator, oracle = LINEAR[name]
    F, solution, _ = values(clone(estimator).set_params(solver="cg", tol=1e-11), graph, y)
    true = oracle(graph.affinity.toarray(), one_hot(y, 3))
    assert np.abs(F - true).max() < 1e-6 * np.abs(true).max()
    assert solution.convergence.iterations < 150  # with multigrid: without, over a thousand


def test_components_have_their_own_zero_mode():
    rng = np.random.default_rng(0)
    W = random_graph(rng, 40, components=3)
    parts = ml.Graph.from_affinity(W).components
    y = np.full(40, -1)
    for c in range(3):
        y[np.flatnonzero(parts == c)[:2]] = [0, 1]
    for solver in ("cg", "dense"):
        for normalized in (False, True):
            est = ml.GreenFunction(normalized=normalized, solver=solver, tol=1e-12)
            F, _, _ = values(est, W, y)
            true = oracles.green_dense(W.toarray(), one_hot(y, 2), normalized)
            np.testing.assert_allclose(F, true, atol=1e-8)
        for center in ("degrees", "rows"):
            F, _, _ = values(ml.Poisson(solver=solver, tol=1e-12, center=center), W, y)
            for c in range(3):
                at = np.flatnonzero(parts == c)
                true = oracles.poisson_dense(W[at][:, at].toarray(), one_hot(y[at], 2), center)
                np.testing.assert_allclose(F[at], true, atol=1e-8)


def test_poisson_centers_rows_of_points_and_degrees_of_given_graphs():
    rng = np.random.default_rng(0)
    X, _ = make_blobs(60, centers=2, random_state=0)
    X = np.repeat(X, rng.integers(1, 9, 60), axis=0)
    graph = ml.knn_graph(X, 15, duplicates="merge", random_state=0)
    assert graph.n_nodes == 60
    y = np.full(len(X), -1)
    y[graph.first_rows[[0, 59]]] = 0, 1
    F, solution, _ = values(ml.Poisson(), graph, y)
    assert solution.choices["center"] == "rows"
    np.testing.assert_allclose(graph.weights @ F, 0, atol=1e-9 * graph.count)
    nodes = y[graph.first_rows]
    F, solution, _ = values(ml.Poisson(), graph.affinity, nodes)
    assert solution.choices["center"] == "degrees"
    np.testing.assert_allclose(graph.degrees @ F, 0, atol=1e-9 * graph.volume)


# --- identities of AB09


@pytest.fixture
def problem():
    rng = np.random.default_rng(7)
    W = random_graph(rng, 50)
    y = some_labels(rng, 50, 3, 10)
    return W, y, one_hot(y, 3)


def test_gf_is_lelp(problem):
    W, y, _ = problem
    np.testing.assert_array_equal(values(ml.GFHF(), W, y)[0], values(ml.LELP(), W, y)[0])


def test_gfhf_is_harmonic_and_a_distribution(problem):
    W, y, _ = problem
    F, _, est = values(ml.GFHF(class_mass=False), W, y)
    P = W.toarray() / W.toarray().sum(axis=1)[:, None]
    np.testing.assert_allclose((P @ F)[y < 0], F[y < 0], atol=1e-10)
    np.testing.assert_allclose(F.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_allclose(est.label_distributions_, F, atol=1e-10)
    assert (est.labels_[y >= 0] == y[y >= 0]).all()


def test_lgc_minimises_equation_14(problem):
    W, y, Y = problem
    alpha = 0.8
    mu = (1 - alpha) / alpha
    F = values(ml.LLGC(alpha=alpha), W, y)[0]
    d, W = np.sqrt(W.toarray().sum(axis=1)), W.toarray()

    def cost(F):
        G = F / d[:, None]
        return 0.5 * sum(
            (W * (G[:, c, None] - G[:, c]) ** 2).sum() + 2 * mu * ((F - Y)[:, c] ** 2).sum()
            for c in range(3)
        )

    rng = np.random.default_rng(0)
    least = cost(F)
    for _ in range(20):
        step = rng.standard_normal(F.shape)
        # Quadratic with its minimum at F: the same cost on both sides, and more of it.
        up, down = cost(F + 1e-3 * step), cost(F - 1e-3 * step)
        assert up > least
        assert up == pytest.approx(down, rel=1e-9)


def test_tikreg_is_the_relaxed_ratio_cut(problem):
    """AB09 eq. 26: no f ⟂ 1 as close to the labels has a smaller fᵀLf."""
    W, y, Y = problem
    F = values(ml.TikReg(gamma=0.5), W, y)[0]
    L = oracles.laplacians_dense(W.toarray())[0]
    known = y >= 0
    np.testing.assert_allclose(F.sum(axis=0), 0, atol=1e-9)
    rng = np.random.default_rng(1)
    for c in range(3):
        f = F[:, c]
        epsilon = np.sum((f - Y[:, c])[known] ** 2)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(50):
                g = f + size * rng.standard_normal(50)
                g -= g.mean()
                # Move towards f until the labels are met as well as f meets them.
                gap, own = (g - f)[known], (f - Y[:, c])[known]
                slope, square = 2 * gap @ own, gap @ gap
                t = min(1.0, max(0.0, -slope / square))
                h = f + t * (g - f)
                if np.sum((h - Y[:, c])[known] ** 2) <= epsilon + 1e-12:
                    assert h @ L @ h >= f @ L @ f - 1e-9


def test_balance(problem):
    W, y, _ = problem
    d = W.toarray().sum(axis=1)
    F = values(ml.NCutPropagation(), W, y)[0]
    np.testing.assert_allclose(d @ F, 0, atol=1e-8)  # g ⟂ D^½1 with g = D^½f
    F = values(ml.LELP(orthogonal=True), W, y)[0]
    np.testing.assert_allclose(np.sqrt(d) @ F, 0, atol=1e-8)


def test_two_classes_are_the_signs_of_one_vector(problem):
    """One-hot columns and AB09's ±1 coding answer alike, in every method."""
    W, y, _ = problem
    y = np.where(y == 2, 1, y)
    sign = np.where(y >= 0, np.where(y == 0, 1.0, -1.0), 0.0)[:, None]
    for estimator, oracle in LINEAR.values():
        if isinstance(estimator, ml.Poisson):
            continue
        F, _, est = values(estimator, W, y)
        f = oracle(W.toarray(), sign)[:, 0]
        np.testing.assert_allclose(F[:, 0] - F[:, 1], f, atol=1e-7 * np.abs(f).max())
        clear = np.abs(f) > 1e-6 * np.abs(f).max()
        assert (est.labels_[clear] == np.where(f > 0, 0, 1)[clear]).all()


def test_gwem_fixed_point_is_a_null_vector(problem):
    """(I − D_Z⁻¹Z)f = 0 on unlabelled rows: AB09's L_a f = 0."""
    W, y, _ = problem
    F = values(ml.GWEM(variant="fixed-point", n_steps=4), W, y)[0]
    Z = np.linalg.matrix_power(W.toarray() / W.toarray().sum(axis=1)[:, None], 4).T
    La = np.eye(50) - Z / Z.sum(axis=1)[:, None]
    np.testing.assert_allclose((La @ F)[y < 0], 0, atol=1e-9)
    np.testing.assert_allclose(F[y >= 0], one_hot(y, 3)[y >= 0])


def test_gwem_em(problem):
    W, y, Y = problem
    P = values(ml.GWEM(variant="em", n_steps=3, em_steps=15), W, y)[0]
    true = oracles.gwem_em_dense(W.toarray(), Y, 3, 15)
    np.testing.assert_allclose(P, true, atol=1e-9)


def test_walk_is_symmetric_and_never_formed():
    rng = np.random.default_rng(3)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(random_graph(rng, 30)))
    walk = WalkEnergy(laplacian, 4)
    C = walk.walk(np.eye(30))
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    root = laplacian.root_degree
    P = laplacian.S.toarray() * root / root[:, None]
    np.testing.assert_allclose(C, np.linalg.matrix_power(P, 4) / root**2, atol=1e-12)


def test_far_nodes_are_answered_as_far_as_numbers_go():
    """LLGC falls off exponentially: LAPACK tells apart what a residual of 1e-6 cannot."""
    line = sp.diags([1.0, 1.0], [-1, 1], shape=(60, 60)).tocsr()
    y = np.where(np.arange(60) < 2, np.arange(60), -1)
    half = ml.LLGC(alpha=0.5, class_mass=False, affinity="precomputed")
    exact = clone(half).set_params(solver="dense").fit(line, y)
    assert (exact.labels_[1:] == 1).all()
    rough = clone(half).set_params(solver="cg", tol=1e-6).fit(line, y)
    assert (rough.labels_[:8] == exact.labels_[:8]).all()
    assert (rough.labels_[-1]) == -1
    assert any("lower tol" in note for note in rough.report_.notes)


def test_sklearn_label_spreading_answers_the_same():
    X, truth = make_blobs(300, centers=4, cluster_std=2.0, random_state=3)
    y = some_labels(np.random.default_rng(0), 300, 4, 4)
    y[y >= 0] = truth[y >= 0]
    y[np.unique(truth, return_index=True)[1]] = np.arange(4)
    W = ml.rbf_graph(X).affinity.toarray()
    theirs = LabelSpreading(kernel=lambda A, B: W, alpha=0.9, max_iter=5000, tol=1e-10).fit(X, y)
    ours = ml.LLGC(alpha=0.9, affinity="precomputed").fit(W, y)
    P = theirs.label_distributions_
    # Theirs stops at steps of 1e-10.
    np.testing.assert_allclose(ours.label_distributions_, P, atol=1e-9)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("rows", ["sphere", "plain"])
def test_cluster_kernel_dense_twin(rows):
    """Eigenvectors by LAPACK, logistic regression by Newton's method."""
    worst = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(10, 50)), int(rng.integers(2, 5))
        W = random_graph(rng, n, weak=1e-2 if seed % 3 == 0 else None)
        y = some_labels(rng, n, k, int(rng.integers(k, n // 2 + 2)))
        p = int(rng.integers(2, 6))
        theta = np.linalg.eigvalsh(oracles.laplacians_dense(W.toarray())[1])
        if rows == "plain" and np.diff(theta[: p + 1]).min() < 1e-4:
            continue  # columns that turn into each other have no lengths of their own
        model = LogisticRegression(C=3.0, tol=1e-10, max_iter=10_000, solver="newton-cg")
        est = ml.ClusterKernel(n_components=p, rows=rows, classifier=model)
        P = values(est, W, y)[0]
        true = oracles.cluster_kernel_dense(W.toarray(), one_hot(y, k), p, rows, 3.0)
        worst = max(worst, np.abs(P - true).max())
    assert worst < 1e-6


def test_cluster_kernel_on_clear_clusters():
    X, truth = make_blobs(400, centers=np.eye(5) * 9, cluster_std=0.5, random_state=1)
    y = np.full(400, -1)
    first = np.unique(truth, return_index=True)[1]
    y[first] = truth[first]
    for rows in ("sphere", "plain"):
        est = ml.ClusterKernel(rows=rows, random_state=0).fit(X, y)
        assert (est.labels_ == truth).mean() > 0.99
    own = ml.ClusterKernel(classifier=LogisticRegression(C=1.0), n_components=4).fit(X, y)
    assert own.classifier_.C == 1.0
    assert own.report_.choices["n_components"] == 4


# --- class mass, distributions, confidence


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", LINEAR)
def test_scores_are_the_equations_own(name):
    """`decision_function`: F of the dense twin, or the difference of two columns."""
    estimator, oracle = LINEAR[name]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(12, 40)), 2 + seed % 3
        W, y = random_graph(rng, n), some_labels(rng, n, k, n // 3)
        est = clone(estimator).set_params(affinity="precomputed", solver="dense").fit(W, y)
        true = oracle(W.toarray(), one_hot(y, k))
        found = est.decision_function()
        if k == 2:
            true = true[:, 1] - true[:, 0]
            assert ((found > 0) == (est.labels_ == 1)).all()
        else:
            assert (found.argmax(axis=1) == est.labels_).all()
        assert np.abs(found - true).max() < 1e-8 * np.abs(true).max()


def test_scores_of_new_points_and_of_equal_ones():
    X, truth = make_blobs(200, centers=3, random_state=0)
    X = np.repeat(X, 2, axis=0)
    y = np.where(np.arange(400) % 20 == 0, np.repeat(truth, 2), -1)
    est = ml.GFHF(class_mass=False, random_state=0).fit(X, y)
    F = est.decision_function()
    np.testing.assert_allclose(F, est.label_distributions_, atol=1e-9)  # harmonic: shares already
    np.testing.assert_allclose(est.decision_function(X), F, atol=1e-9)  # a fitted point keeps its
    new = X[::7] + 0.01
    np.testing.assert_allclose(est.decision_function(new), est.predict_proba(new), atol=1e-9)
    with pytest.raises(NotFittedError):
        ml.GFHF().decision_function()


def test_scores_where_nothing_is_spread_to():
    W = sp.block_diag([np.ones((4, 4)), np.ones((3, 3)), np.zeros((1, 1))], format="csr")
    y = np.array([0, 1, 2, -1, -1, -1, -1, -1])
    F = ml.TikReg(affinity="precomputed").fit(W, y).decision_function()
    assert F.shape == (8, 3)
    assert F[:4].any(axis=1).all()
    assert not F[4:].any()


def test_class_mass(problem):
    W, y, Y = problem
    est = ml.GFHF(class_mass=True, affinity="precomputed").fit(W, y)
    true = oracles.class_mass_dense(oracles.gfhf_dense(W.toarray(), Y), Y)
    np.testing.assert_allclose(est.label_distributions_, true, atol=1e-9)
    smoothed = ml.GFHF(class_mass="smoothed", affinity="precomputed").fit(W, y)
    true = oracles.class_mass_dense(oracles.gfhf_dense(W.toarray(), Y), Y, added=10)
    np.testing.assert_allclose(smoothed.label_distributions_, true, atol=1e-9)
    equal = ml.GFHF(class_mass="equal", affinity="precomputed").fit(W, y)
    assert equal.report_.choices["class_mass"] == "equal"
    shares = [0.2, 0.3, 0.5]
    est = ml.GFHF(class_mass=shares, affinity="precomputed").fit(W, y)
    np.testing.assert_allclose(est.report_.choices["class_mass"], shares)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_nearest_distribution(v):
    v = np.array(v)
    found = onto_simplex(v[None])[0]
    np.testing.assert_allclose(found, oracles.nearest_distribution_dense(v), atol=1e-9)


def on_a_complete_graph(y):
    """Labels on nodes that are all joined."""
    W = sp.csr_matrix(np.ones((y.size, y.size)) - np.eye(y.size))
    work, told = Workspace(ml.Graph.from_affinity(W)), LabelSet(y, y)
    part = ReachedPart.of(work, told)
    return PropagationProblem.of(part, told, told.classes, Solving(), 0)


def test_a_class_without_mass_does_not_silence_the_others():
    scores = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0], [0.3, 0.1, 0]])
    problem = on_a_complete_graph(np.array([0, 1, 2, -1, -1]))
    scores = scores[problem.laplacian.nodes]
    P = distributions(problem, scores, np.full(3, 1 / 3), masses=True, floor=1e-8)
    P = problem.laplacian.from_working_order(P)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.argmax(axis=1).tolist() == [0, 1, 2, 1, 0]


def test_distributions_and_confidence():
    problem = on_a_complete_graph(np.array([0, 1, -1]))
    scores = np.array([[1.0, 3.0], [0, 0], [2, 2]])[problem.laplacian.nodes]
    P = problem.laplacian.from_working_order(distributions(problem, scores, None, masses=True))
    np.testing.assert_allclose(P, [[0.25, 0.75], [0, 0], [0.5, 0.5]])
    np.testing.assert_allclose(confidence(P), [0.5, 0, 0])


@pytest.mark.parametrize("method", ALL)
def test_answers_are_distributions(method, problem):
    W, y, _ = problem
    est = method(affinity="precomputed", random_state=0).fit(W, y)
    P = est.label_distributions_
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.min() >= 0
    assert (est.labels_ == est.classes_[P.argmax(axis=1)]).all()
    assert (est.transduction_ == est.labels_).all()
    assert est.confidence_.shape == (50,)
    assert ((est.confidence_ >= 0) & (est.confidence_ <= 1)).all()
    assert est.report_.method == method.__name__


# --- input


@pytest.mark.parametrize("method", ALL)
def test_parts_without_labels_are_not_answered(method):
    rng = np.random.default_rng(2)
    W = random_graph(rng, 60, components=3, isolated=2)
    graph = ml.Graph.from_affinity(W)
    parts = graph.components
    y = np.full(60, -1)
    y[np.flatnonzero(parts == 0)[:4]] = [0, 1, 0, 1]
    y[np.flatnonzero(parts == 1)[0]] = 1  # a component with labels of one class only
    alone = np.flatnonzero(graph.degrees == 0)
    y[alone[0]] = 0  # a labelled node without edges
    est = method(affinity="precomputed", random_state=0).fit(graph, y)
    assert (est.labels_[parts == 2] == -1).all()
    assert (est.label_distributions_[parts == 2] == 0).all()
    assert est.labels_[alone[0]] == 0
    assert est.labels_[alone[1]] == -1
    assert any("labelled -1" in note for note in est.report_.notes)
    if method is not ml.GWEM:
        assert (est.labels_[parts <= 1] >= 0).all()
    reached = est.labels_[parts == 1]  # GWEM may leave out what an even walk does not reach
    assert (reached[reached >= 0] == 1).all()


@pytest.mark.parametrize("method", ALL)
def test_classes_do_not_jump_between_components(method):
    line = sp.diags([1.0, 1.0], [-1, 1], shape=(10, 10))
    W = sp.block_diag([line] * 4, format="csr")
    y = np.full(40, -1)
    y[[0, 10, 19]] = [0, 1, 2]
    est = method(affinity="precomputed", random_state=0).fit(W, y)
    one = est.labels_[:10]
    assert (one[one >= 0] == 0).all()
    assert not np.any(est.labels_[10:20] == 0)
    assert (est.labels_[[0, 10, 19]] == [0, 1, 2]).all()
    assert (est.labels_[20:] == -1).all()


def test_unequally_many_labels():
    X, truth = make_blobs(600, centers=np.eye(3) * 4, random_state=0)
    y = np.full(600, -1)
    for c, count in enumerate((60, 2, 2)):
        y[np.flatnonzero(truth == c)[:count]] = c
    plain = ml.Poisson(class_mass=False, random_state=0).fit(X, y)
    assert any('class_mass="equal"' in note for note in plain.report_.notes)
    equal = ml.Poisson(random_state=0).fit(X, y)
    assert not any('class_mass="equal"' in note for note in equal.report_.notes)
    assert (equal.labels_ == truth).mean() > (plain.labels_ == truth).mean()


def test_classes_that_are_lost_are_a_warning():
    """As a ratio of 2 in the labels does to Poisson's sources and sinks, far below _UNEQUAL."""
    X, truth = make_blobs(3000, n_features=6, centers=5, cluster_std=2.5, random_state=4)
    y = np.full(3000, -1)
    for c, count in enumerate((7, 5, 13, 7, 8)):
        y[np.flatnonzero(truth == c)[:count]] = c
    names = np.where(y < 0, "", np.char.add("c", y.astype(str)))
    with pytest.warns(DoubtfulResultWarning, match="hardly a node beside their labels"):
        plain = ml.Poisson(class_mass=False, random_state=0).fit(X, names)
    there = [np.count_nonzero(plain.labels_[y < 0] == f"c{c}") for c in range(5)]
    empty = sum(count < 6 for count in there)
    lost, changed = plain.report_.warnings
    assert empty > 0
    assert lost.startswith(f"{empty} of 5 classes")
    assert changed.startswith(f"{1 - plain.report_.extra['labels_kept']:.1%} of the given labels")
    assert all('class_mass="equal"' in told for told in (lost, changed))
    for better in (ml.Poisson(random_state=0), ml.GFHF(class_mass=True)):
        assert better.fit(X, names).report_.warnings == ()
        assert (better.labels_ == np.char.add("c", truth.astype(str))).mean() > 0.99


def test_lost_classes():
    """Of 1,000 nodes, 100 are promised to each of 10 classes with a label: one is lost with 1."""
    classes = np.arange(10) * 3
    given = np.append(classes, np.full(1000, -1))
    answers = np.append(classes, np.repeat(classes, [1, 199, *[100] * 8]))
    assert lost_classes(classes, given, answers) == 1
    answers[np.flatnonzero(answers == 3)[-1]] = 0
    assert lost_classes(classes, given, answers) == 0
    assert lost_classes(classes, given[:60], np.append(classes, np.zeros(50, int))) == 0  # 5 each
    assert lost_classes(classes, given, np.full(1010, -1)) == 0


def test_classes_keep_their_numbers(problem):
    W, y, _ = problem
    names = np.array([7, 100, 3])
    gaps = np.where(y >= 0, names[y], -1)
    plain = ml.GFHF(affinity="precomputed").fit(W, y)
    est = ml.GFHF(affinity="precomputed").fit(W, gaps)
    assert est.classes_.tolist() == [3, 7, 100]
    assert (est.labels_ == names[plain.labels_]).all()


@pytest.mark.parametrize("method", ALL)
def test_everything_is_labelled(method, problem):
    W, _, _ = problem
    y = np.arange(50) % 3
    est = method(affinity="precomputed", random_state=0).fit(W, y)
    assert est.labels_.shape == (50,)
    if method in (ml.GFHF, ml.LELP):
        assert (est.labels_ == y).all()


def test_labels_are_looked_at_before_the_graph_is_built():
    with pytest.raises(InputError, match="are -1"):
        ml.GFHF().fit("no points at all", np.full(5, -1))


def test_graph_beside_the_points():
    X, truth = make_blobs(200, centers=3, random_state=0)
    y = np.where(np.arange(200) < 12, truth, -1)
    graph = ml.knn_graph(X, 10, random_state=0)
    first = ml.GFHF().fit(X, y, graph=graph)
    again = ml.GFHF(affinity="precomputed").fit(graph, y)
    sparse = ml.GFHF().fit(X, y, graph=graph.affinity)
    assert (first.labels_ == again.labels_).all()
    assert (first.labels_ == sparse.labels_).all()
    with pytest.raises(InputError, match="200 nodes"):
        ml.GFHF().fit(X[:100], y[:100], graph=graph)
    with pytest.raises(InputError, match="X is a graph already"):
        ml.GFHF(affinity="precomputed").fit(graph, y, graph=graph)
    with pytest.raises(InputError, match="str given"):
        ml.GFHF().fit(X, y, graph="mine")


# --- new points


def test_new_points():
    X, truth = make_blobs(400, centers=4, cluster_std=0.8, random_state=2)
    y = np.full(300, -1)
    first = np.unique(truth[:300], return_index=True)[1]
    y[first] = truth[first]
    for metric in ("euclidean", "cosine"):
        est = ml.LLGC(metric=metric, random_state=0).fit(X[:300], y)
        P = est.predict_proba(X[300:])
        np.testing.assert_allclose(P.sum(axis=1), 1)
        assert (est.predict(X[300:]) == truth[300:]).mean() > (0.95 if metric[0] == "e" else 0.5)
        assert est.score(X[300:], truth[300:]) == (est.predict(X[300:]) == truth[300:]).mean()


def test_new_points_are_the_weighted_mean_of_their_neighbours():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((80, 3)), rng.standard_normal((7, 3))
    y = np.where(np.arange(80) < 20, np.arange(80) % 3, -1)
    est = ml.GFHF(n_neighbors=9, random_state=0).fit(X, y)
    for row, found in zip(new, est.predict_proba(new), strict=True):
        d = np.linalg.norm(X - row, axis=1)
        near = np.argsort(d)[:9]
        w = np.exp(-((d[near] / d[near][6]) ** 2))
        mean = w @ est.label_distributions_[near] / w.sum()
        # Our search compares in single precision.
        np.testing.assert_allclose(found, mean, atol=1e-7)


def test_a_far_point_and_a_fitted_point():
    X, truth = make_blobs(100, centers=2, random_state=0)
    y = np.where(np.arange(100) < 10, truth, -1)
    est = ml.GFHF(random_state=0).fit(X, y)
    P = est.predict_proba(np.array([[1e6, 1e6]]))
    assert np.isfinite(P).all()
    assert P.sum() == pytest.approx(1)


# --- numbers and manners


@pytest.mark.parametrize("method", ALL)
def test_single_precision_and_wide_indices(method, problem):
    W, y, _ = problem
    wide = sp.csr_matrix(W.astype(np.float32))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    exact = method(affinity="precomputed", random_state=0).fit(W, y)
    est = method(affinity="precomputed", random_state=0).fit(wide, y)
    # The weights have single precision.
    np.testing.assert_allclose(est.label_distributions_, exact.label_distributions_, atol=1e-6)


@pytest.mark.parametrize("method", PLAIN)
def test_duplicate_points_and_loops(method):
    rng = np.random.default_rng(4)
    X = np.repeat(rng.standard_normal((12, 2)), 5, axis=0)
    y = np.where(np.arange(60) % 20 == 0, np.arange(60) // 20, -1)
    est = method(random_state=0, n_neighbors=6).fit(X, y)
    assert np.isfinite(est.label_distributions_).all()
    W = random_graph(rng, 30).toarray() + np.diag(rng.random(30))
    y = some_labels(rng, 30, 2, 5)
    est = method(affinity="precomputed", refine=False)
    cg = clone(est).set_params(solver="cg", tol=1e-12).fit(W, y)
    dense = clone(est).set_params(solver="dense").fit(W, y)
    np.testing.assert_allclose(cg.label_distributions_, dense.label_distributions_, atol=1e-6)


def test_an_unfinished_solve_is_told():
    X, truth = make_blobs(2000, centers=3, random_state=0)
    y = np.where(np.arange(2000) < 9, truth, -1)
    est = ml.GFHF(max_iter=1, solver="cg").fit(X, y)
    assert any("raise max_iter" in note for note in est.report_.notes)
    assert not est.report_.convergence.converged.all()


def test_potential_is_a_pseudo_inverse():
    class Held:
        pass

    rng = np.random.default_rng(9)
    est = ml.GreenFunction(affinity="precomputed", normalized=True, solver="cg", tol=1e-12)
    seen = Held()
    original = est._solve

    def spy(task):
        seen.task = task
        return original(task)

    est._solve = spy
    est.fit(random_graph(rng, 40, components=2), np.where(np.arange(40) < 39, np.arange(40) % 2, 1))
    B = rng.standard_normal((seen.task.size, 3))
    X, convergence = seen.task.potential(B)
    pinv = np.linalg.pinv(seen.task.laplacian.to_dense(), rcond=1e-10)
    np.testing.assert_allclose(X, pinv @ B, atol=1e-8)
    assert convergence.converged.all()


def test_advice_is_never_what_was_done():
    told = [ml.GFHF(class_mass=way)._remedy() for way in (False, True, "equal")]
    assert ["GFHF(class_mass=True)" in one for one in told] == [True, False, False]
    assert ['"equal"' in one for one in told] == [True, True, False]
    assert "-m gfhf --class-mass" in ml.Poisson()._remedy()
