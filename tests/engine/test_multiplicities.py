"""Nodes that stand for several: the repeated problem, restricted to what is equal on copies.

With whole weights and all copies labelled alike the optimum of every method is equal on copies, and
fitting the repeated graph PWPᵀ must give the same. Where only some copies have a label the
restriction is written out densely.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import cases
import mustlink as ml
import oracles
from mustlink.clusterers.sskk import SSKK
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph import Graph
from mustlink.graph.graph import fold
from mustlink.neighbors import knn_graph

pytestmark = pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")

PROPAGATORS = {
    "GFHF": ml.GFHF(),
    "GFHF, masses": ml.GFHF(class_mass=True),
    "GFHF, equal masses": ml.GFHF(class_mass="equal"),
    "LLGC": ml.LLGC(alpha=0.99),
    "Poisson": ml.Poisson(),
    "Poisson, equal": ml.Poisson(class_mass="equal"),
    "Poisson, rows": ml.Poisson(center="rows"),
    "TikReg": ml.TikReg(),
    "LELPC": ml.LELP(orthogonal=True),
    "Green": ml.GreenFunction(),
    "Green, normalised": ml.GreenFunction(normalized=True),
    "NCut": ml.NCutPropagation(),
    "GWEM": ml.GWEM(n_steps=4),
    "GWEM, fixed point": ml.GWEM(n_steps=4, variant="fixed-point"),
    "ClusterKernel": ml.ClusterKernel(),
    "ClusterKernel, plain": ml.ClusterKernel(rows="plain"),
}
CLUSTERERS = {
    "NCut": ml.NCut(3),
    "NCut, ng": ml.NCut(3, variant="ng"),
    "CSP": ml.CSP(3, beta=0.5, subspace="exact", assign="kmeans"),
    "CSP, balanced": ml.CSP(3, beta=0.3, balanced=True, subspace="exact", assign="sphere"),
    "SSSC": ml.SSSC(3, gamma=0.3, subspace="exact", assign="sphere"),
    "SL": ml.SpectralLearning(3, subspace="exact", assign="sphere"),
    "SL, normalised": ml.SpectralLearning(3, normalized=True, subspace="exact", assign="sphere"),
    "AP": ml.ConstrainedAP(3, noise=0.3, subspace="exact", assign="sphere"),
    "AP, affinity": ml.ConstrainedAP(
        3, noise=2.0, prior="affinity", subspace="exact", assign="sphere"
    ),
    "FastGE": ml.FastGE(3, subspace="exact", assign="sphere"),
    "SRCP": ml.SRCP(3, normalize=False, new_edges=0, power=1.0, variant="luxburg", tol=1e-9),
    "E2CP": ml.E2CP(3, normalize=False, new_edges=0, power=1.0, variant="ng", tol=1e-9),
    "CSC+GFHF": ml.CSCGFHF(),
}
SEEDS = range(2)


def problem(seed, n=30):
    """W (n, n), whole counts, labels of a third of the nodes, and the truth."""
    rng = np.random.default_rng(seed)
    W, y = cases.planted_graph(rng, n, 3)
    W = W / W.max()
    labels = np.where(np.arange(n) % 10 < 4, y, -1)
    assert np.unique(labels).size == 4
    return sp.csr_matrix(W), rng.integers(1, 4, n), labels, y


def fresh(estimator, **changes):
    same = {"affinity": "precomputed", "random_state": 0}
    return type(estimator)(**estimator.get_params() | same | changes)


@pytest.mark.thorough(but=8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PROPAGATORS)
def test_propagators_answer_as_on_the_repeated_graph(name, seed):
    W, counts, labels, _ = problem(seed)
    rows = np.repeat(np.arange(len(counts)), counts)
    solver = {"solver": "cg", "tol": 1e-12} if seed % 2 else {"solver": "dense"}
    found = fresh(PROPAGATORS[name], **solver).fit(W, labels, sample_weight=counts)
    R = oracles.repeated(W, counts)
    wanted = fresh(PROPAGATORS[name], solver="dense").fit(R, labels[rows])
    distributions = found.label_distributions_[rows]
    assert_allclose(distributions, wanted.label_distributions_, atol=1e-8)
    assert_allclose(found.confidence_[rows], wanted.confidence_, atol=1e-8)
    kept = found.report_.extra["labels_kept"]
    assert kept == pytest.approx(np.mean(found.labels_[labels >= 0] == labels[labels >= 0]))


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CLUSTERERS)
def test_clusterers_find_what_they_find_on_the_repeated_graph(name, seed):
    W, counts, labels, _ = problem(seed)
    rows = np.repeat(np.arange(len(counts)), counts)
    told = {} if name.startswith("NCut") else {"y": labels}
    repeated = {} if name.startswith("NCut") else {"y": labels[rows]}
    found = fresh(CLUSTERERS[name]).fit(W, sample_weight=counts, **told)
    wanted = fresh(CLUSTERERS[name]).fit(oracles.repeated(W, counts), **repeated)
    assert_allclose(found.eigenvalues_, wanted.eigenvalues_, atol=1e-8, rtol=1e-8)
    span, other = found.embedding_[rows], wanted.embedding_
    assert span.shape == other.shape
    if name.endswith(("ng", "E2CP")):  # rows of length 1: turned as a whole
        turn = np.linalg.lstsq(span, other, rcond=None)[0]
        assert_allclose(span @ turn, other, atol=1e-7)
        return
    scale = np.abs(other).max()
    for v, u in zip(span.T, other.T, strict=True):  # single eigenvalues: the same up to the sign
        assert min(np.abs(v - u).max(), np.abs(v + u).max()) < 1e-7 * scale
    assert np.mean(_same_pairs(found.labels_[rows], wanted.labels_)) > 0.99


def _same_pairs(a, b):
    return (a[:, None] == a) == (b[:, None] == b)


@pytest.mark.parametrize("volume", ["links", "graph"])
@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_kmeans_has_the_objective_of_the_repeated_graph(seed, volume):
    W, counts, labels, y = problem(seed)
    rows = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    init = np.where(rng.random(len(y)) < 0.7, y, rng.integers(0, 3, len(y)))
    method = SSKK(3, volume=volume, init=init)
    found = fresh(method).fit(W, labels, sample_weight=counts)
    again = fresh(method, init=found.labels_[rows])
    wanted = again.fit(oracles.repeated(W, counts), labels[rows])
    reached = found.report_.extra["objective"]
    assert reached == pytest.approx(wanted.report_.extra["objective_start"], abs=1e-10)
    assert reached <= found.report_.extra["objective_start"] + 1e-12
    assert_allclose(found.embedding_.sum(axis=1), 1.0)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_count_as_often_as_their_copies(seed):
    W, counts, _, y = problem(seed)
    rng = np.random.default_rng(seed)
    ends = rng.integers(len(y), size=(25, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    belief = np.where(y[ends[:, 0]] == y[ends[:, 1]], 1.0, -1.0) * (0.5 + rng.random(len(ends)))
    first = np.append(0, np.cumsum(counts))
    copies = [
        (r, s, b)
        for (i, j), b in zip(ends, belief, strict=True)
        for r in range(first[i], first[i + 1])
        for s in range(first[j], first[j + 1])
    ]
    pairs, beliefs = np.array([c[:2] for c in copies]), np.array([c[2] for c in copies])
    known = ml.Constraints.from_pairs(ends, belief, n_nodes=len(y))
    every = ml.Constraints.from_pairs(pairs, beliefs, n_nodes=int(counts.sum()))
    for name in ("CSP", "SSSC", "SL", "AP", "AP, affinity", "FastGE", "SRCP"):
        found = fresh(CLUSTERERS[name]).fit(W, constraints=known, sample_weight=counts)
        wanted = fresh(CLUSTERERS[name]).fit(oracles.repeated(W, counts), constraints=every)
        assert_allclose(found.eigenvalues_, wanted.eigenvalues_, atol=1e-8, rtol=1e-8)


def merged(seed, n=24):
    """A graph of which nodes are several rows, labels of some of these rows, and P."""
    W, counts, _, y = problem(seed, n)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(n), counts))
    labels = np.where(rng.random(rows.size) < 0.4, y[rows], -1)
    graph = Graph(fold(W, counts.astype(float)), weights=counts.astype(float), rows=rows)
    return W.toarray(), graph, labels, np.eye(n)[rows]


def restricted_scores(method, W, P, Y):
    """The method on the repeated graph PWPᵀ, restricted to f = Pg: g."""
    R, known = P @ W @ P.T, np.diag(Y.any(axis=1) * 1.0)
    L, normalised = oracles.laplacians_dense(R)
    d = R.sum(axis=1)
    mean = np.linalg.solve(P.T @ P, P.T)
    if isinstance(method, ml.TikReg):
        A = P.T @ (known.sum() * method.gamma * L + known) @ P
        return oracles.balanced_dense(A, P.T @ Y, P.T @ np.ones(len(P)))
    if isinstance(method, ml.LELP):
        A = P.T @ (normalised + method.alpha * known) @ P
        return oracles.balanced_dense(A, method.alpha * P.T @ Y, P.T @ np.sqrt(d))
    if isinstance(method, ml.NCutPropagation):
        A = P.T @ (L + method.alpha * known * d) @ P
        return oracles.balanced_dense(A, method.alpha * P.T @ (d[:, None] * Y), P.T @ d)
    if isinstance(method, ml.GreenFunction):
        return mean @ oracles.green_dense(R, Y, method.normalized)
    if isinstance(method, ml.Poisson):
        center = "degrees" if method.center == "auto" else method.center
        return mean @ oracles.poisson_dense(R, Y, center, equal=True)
    if isinstance(method, ml.LLGC):
        return mean @ oracles.llgc_dense(R, Y, method.alpha)
    return oracles.gfhf_dense(P.T @ R @ P, (P.T @ Y > 0) * 1.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "name",
    [
        "TikReg",
        "LELPC",
        "NCut",
        "Green",
        "Green, normalised",
        "Poisson",
        "Poisson, rows",
        "LLGC",
        "GFHF",
    ],
)
def test_labels_of_some_copies_count_once_each(name, seed):
    W, graph, labels, P = merged(seed)
    solver = {"solver": "cg", "tol": 1e-12} if seed % 2 else {"solver": "dense"}
    est, held = fresh(PROPAGATORS[name], **solver), {}
    original = est._solve

    def spy(task):
        solution = original(task)
        held["g"] = task.laplacian.from_working_order(solution.scores)
        return solution

    est._solve = spy
    est.fit(graph, labels)
    Y = (labels[:, None] == np.arange(3)) * 1.0
    expected = restricted_scores(est, W, P, Y)
    assert_allclose(held["g"], expected, atol=1e-8 * max(1.0, np.abs(expected).max()))
    assert est.labels_.shape == labels.shape
    assert_array_equal(
        est.label_distributions_, est.label_distributions_[graph.first_rows][graph.rows]
    )


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["CSP", "SSSC", "SL, normalised", "FastGE"])
def test_constraints_of_rows_are_summed_over_the_rows_of_a_node(name, seed):
    """Of all labelled copies, PᵀQP: the same as weights that are as large."""
    W, graph, _, _ = merged(seed)
    y = np.arange(24) * 3 // 24
    labels = np.where(np.arange(24) % 8 < 3, y, -1)
    found = fresh(CLUSTERERS[name]).fit(graph, labels[graph.rows])
    wanted = fresh(CLUSTERERS[name]).fit(sp.csr_matrix(W), labels, sample_weight=graph.weights)
    assert_allclose(found.eigenvalues_, wanted.eigenvalues_, rtol=1e-9, atol=1e-12)
    assert_array_equal(found.labels_, wanted.labels_[graph.rows])


@pytest.mark.parametrize(
    "method",
    [
        ml.LNP(alpha=0.9),
        ml.LNP(alpha=0.9, variant="minimizer"),
        ml.LLELP(reg=1e-2),
        ml.LLELP(reg=1e-2, orthogonal=True, alpha=0.4),
        ml.LTSALP(),
        ml.LTSALP(orthogonal=True, alpha=0.4),
    ],
)
@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_local_fits_weigh_their_residuals(method, solver):
    rng = np.random.default_rng(3)
    X, k = rng.standard_normal((40, 4)), 7
    y = np.where(np.arange(40) < 15, np.arange(40) % 3, -1)
    c = rng.integers(1, 5, 40).astype(float)
    graph, held = knn_graph(X, k, random_state=0), {}
    assert not graph.info["n_bridges"]
    est = type(method)(**method.get_params() | {"n_neighbors": k, "solver": solver, "tol": 1e-12})
    original = est._solve

    def spy(task):
        solution = original(task)
        held["F"] = task.laplacian.from_working_order(solution.scores)
        return solution

    est._solve = spy
    est.fit(X, y, graph=graph, sample_weight=c)
    lists, Y = oracles.knn_lists(X, k)[0], (y[:, None] == np.arange(3)) * 1.0
    known, C = np.diag(Y.any(axis=1) * 1.0), np.diag(c)
    if isinstance(est, ml.LNP):
        U = oracles.listed_matrix(oracles.simplex_weights(X, lists, est.reg), lists)
        if est.variant == "iteration":
            expected = oracles.lnp_iterated(U, Y, est.alpha)
        else:
            V, mu = C @ U + U.T @ C, (1 - est.alpha) / est.alpha
            expected = np.linalg.solve(np.diag(V.sum(axis=1)) - V + mu * C, mu * C @ Y)
    else:
        if isinstance(est, ml.LLELP):
            U = oracles.listed_matrix(oracles.affine_weights(X, lists, est.reg), lists)
            M = (np.eye(40) - U).T @ C @ (np.eye(40) - U)
        else:
            M = np.zeros((40, 40))
            for i, G in enumerate(oracles.tangent_projectors(X, lists, est.n_components)):
                near = np.append(i, lists[i])
                M[np.ix_(near, near)] += c[i] * (np.eye(k + 1) - G)
        if est.orthogonal:
            A = M + est.alpha * C @ known
            expected = oracles.balanced_dense(A, est.alpha * C @ Y, c)
        else:
            expected = oracles.clamped_dense(M, Y)
    assert_allclose(held["F"], expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


ALL = {**PROPAGATORS, **CLUSTERERS, "SSKK": SSKK(3)}


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("name", ALL)
def test_weights_of_one_and_none_are_the_same_to_the_bit(name):
    W, _, labels, _ = problem(0)
    plain = fresh(ALL[name]).fit(W, labels)
    ones = fresh(ALL[name]).fit(W, labels, sample_weight=np.ones(W.shape[0]))
    assert_array_equal(plain.labels_, ones.labels_)
    value = "embedding_" if hasattr(plain, "embedding_") else "label_distributions_"
    assert_array_equal(getattr(plain, value), getattr(ones, value))


@pytest.mark.parametrize("name", ["NCut", "CSP", "SSKK", "SRCP", "GFHF", "Poisson"])
def test_rows_of_weight_zero_are_not_in_the_problem(name):
    W, counts, labels, _ = problem(2)
    counts = counts.astype(float)
    out = np.array([3, 7, 12])
    counts[out] = 0.0
    left = np.setdiff1d(np.arange(len(counts)), out)
    found = fresh(ALL[name]).fit(W, labels, sample_weight=counts)
    part = sp.csr_matrix(W[left][:, left])
    wanted = fresh(ALL[name]).fit(part, labels[left], sample_weight=counts[left])
    assert (found.labels_[out] == -1).all()
    assert _same_pairs(found.labels_[left], wanted.labels_).all()
    assert any("weight 0" in note for note in found.report_.notes)


def test_kmeans_counts_every_node_as_often():
    """Two far groups and a heavy node between: it pulls the centre that it belongs to."""
    from mustlink.discretize.assign import kmeans
    from mustlink.space import LocalSpace

    rng = np.random.default_rng(0)
    rows, c = rng.standard_normal((60, 2)), rng.integers(1, 6, 60)
    centers = rows[:3].copy()
    weighted = kmeans(rows, 3, 0, centers=centers, space=LocalSpace(60, c.astype(float)))
    repeated = kmeans(np.repeat(rows, c, axis=0), 3, 0, centers=centers)
    assert_array_equal(np.repeat(weighted.labels, c), repeated.labels)
    assert_allclose(weighted.centers, repeated.centers)
    assert weighted.inertia == pytest.approx(repeated.inertia)
    sampled = kmeans(rows, 3, 0, space=LocalSpace(60, c.astype(float)))
    for k in range(3):
        own = sampled.labels == k
        assert_allclose(sampled.centers[k], np.average(rows[own], 0, c[own]), atol=1e-6)


# --- points


def table(seed=0, n=300, distinct=120):
    """Points of three groups with equal rows, and their groups."""
    rng = np.random.default_rng(seed)
    X, y = cases.blobs(rng, distinct, 3, d=4, separation=6.0)
    rows = np.append(np.arange(distinct), rng.integers(0, distinct, n - distinct))
    rows = rng.permutation(rows)
    return X[rows], y[rows]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["NCut", "CSP", "SSKK", "SRCP", "GFHF", "Poisson", "CSC+GFHF"])
def test_equal_rows_are_one_node_and_have_one_answer(name):
    X, y = table()
    labels = np.where(np.arange(len(y)) % 12 == 0, y, -1)
    est = fresh(ALL[name], affinity="knn", n_neighbors=8).fit(X, labels)
    graph = est.graph_
    assert graph.n_nodes == np.unique(X, axis=0).shape[0] < graph.n_rows == len(X)
    assert est.labels_.shape == (len(X),)
    for value in ("labels_", "embedding_", "label_distributions_", "confidence_", "propagated_"):
        if hasattr(est, value):
            found = getattr(est, value)
            assert_array_equal(found, found[graph.first_rows][graph.rows])
    assert est.report_.n_nodes == len(X)
    assert any("distinct" in note for note in est.report_.notes)
    assert_array_equal(est.predict(X), est.labels_)
    assert np.mean(_same_pairs(est.labels_, y)) > 0.95


def test_weights_of_equal_rows_add_up():
    X, y = table()
    X = X.astype(np.float32)  # not centred: the same in a table of other counts
    labels = np.where(np.arange(len(y)) % 12 == 0, y, -1)
    w = np.random.default_rng(1).integers(1, 4, len(X))
    found = ml.Poisson(random_state=0).fit(X, labels, sample_weight=w)
    repeated = ml.Poisson(random_state=0).fit(np.repeat(X, w, axis=0), np.repeat(labels, w))
    assert_allclose(
        np.repeat(found.label_distributions_, w, axis=0), repeated.label_distributions_, atol=1e-10
    )
    assert_allclose(found.graph_.weights, np.bincount(found.graph_.rows, weights=w))


def test_rows_of_weight_zero_are_nobodys_neighbours():
    X, _ = table()
    w = (np.arange(len(X)) % 7 != 0) * 1.0
    est = ml.NCut(3, random_state=0).fit(X, sample_weight=w)
    kept = np.flatnonzero(w)
    alone = ml.NCut(3, random_state=0).fit(X[kept])
    assert (est.labels_[w == 0] == -1).all()
    assert_array_equal(est.labels_[kept], alone.labels_)
    assert_array_equal(est.predict(X), alone.predict(X))
    assert est.embedding_.shape[0] == len(X)


def test_equal_rows_with_different_labels_are_told_and_the_most_decide():
    X, y = table()
    labels = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    kinds, counts = np.unique(X, axis=0, return_counts=True)
    row = np.flatnonzero((kinds[counts.argmax()] == X).all(axis=1))
    assert row.size >= 3
    labels[row] = y[row]
    labels[row[0]] = (y[row[0]] + 1) % 3
    with pytest.warns(DoubtfulResultWarning, match="equal rows has different labels"):
        est = ml.GFHF(random_state=0).fit(X, labels)
    assert (est.labels_[row] == y[row[1]]).all()
    assert any(f"row {row[0]} " in note for note in est.report_.warnings)
    known = ml.Constraints.from_pairs([(row[0], row[1])], -1.0, n_nodes=len(X))
    with pytest.warns(DoubtfulResultWarning, match="cannot-link joins equal rows"):
        ml.CSP(3, random_state=0).fit(X, y=np.where(labels == y, labels, -1), constraints=known)


def test_refit_takes_what_is_said_of_rows():
    X, y = table()
    labels = np.where(np.arange(len(y)) % 12 == 0, y, -1)
    for est in (ml.CSP(3, random_state=0), ml.SRCP(3, random_state=0)):
        est.fit(X, labels)
        again = np.where(np.arange(len(y)) % 10 == 0, y, -1)
        est.refit(y=again)
        assert est.labels_.shape == (len(X),)
        assert np.mean(_same_pairs(est.labels_, y)) > 0.95


def test_a_classifier_that_cannot_count_is_refused():
    from sklearn.neighbors import KNeighborsClassifier

    W, counts, labels, _ = problem(0)
    est = ml.ClusterKernel(classifier=KNeighborsClassifier(3), affinity="precomputed")
    with pytest.raises(InputError, match="takes no sample_weight"):
        est.fit(W, labels, sample_weight=counts)


def test_weights_are_checked():
    W, counts, labels, _ = problem(0)
    for wrong in (counts[:-1], -counts, np.where(counts > 1, np.nan, 1.0), 0 * counts):
        with pytest.raises(InputError, match="sample_weight"):
            fresh(ml.GFHF()).fit(W, labels, sample_weight=wrong)
        with pytest.raises(InputError, match="sample_weight"):
            fresh(ml.NCut(3)).fit(W, sample_weight=wrong)


# These weigh what is known against a penalty: one that counts 100 is known 100 times.
COUNTING = ("GFHF, masses", "TikReg", "ClusterKernel", "ClusterKernel, plain", "AP", "AP, affinity")


@pytest.mark.thorough(but=7)
@pytest.mark.parametrize("unit", [1e-300, 1e4, 1e300])
@pytest.mark.parametrize(("name", "estimator"), [*PROPAGATORS.items(), *CLUSTERERS.items()])
def test_the_unit_of_weights_changes_nothing(name, estimator, unit):
    W, counts, labels, _ = problem(1)
    one = fresh(estimator).fit(W, labels, sample_weight=counts)
    other = fresh(estimator).fit(W, labels, sample_weight=unit * counts)
    if name in COUNTING:
        assert np.isfinite(other.labels_).all()
    elif hasattr(one, "label_distributions_"):
        assert_allclose(other.label_distributions_, one.label_distributions_, atol=1e-6)
    else:
        assert adjusted_rand_score(other.labels_, one.labels_) == 1.0


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("weights", ["local", "connectivity"])
def test_equal_weights_of_points_are_no_weights(weights, unit):
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = (rng.normal(size=(90, 3)) + 6 * np.eye(3)[truth]).astype(np.float32)
    one = ml.NCut(3, weights=weights, random_state=0).fit(X)
    other = ml.NCut(3, weights=weights, random_state=0).fit(X, sample_weight=np.full(90, unit))
    assert adjusted_rand_score(other.labels_, one.labels_) == 1.0
    assert not other.report_.warnings


def test_rows_whose_weight_is_lost_are_told():
    X = np.random.default_rng(0).normal(size=(60, 3))
    counts = np.r_[np.full(58, 1e200), 1e-200, 1e-200]
    est = ml.NCut(2, random_state=0).fit(X, sample_weight=counts)
    assert_array_equal(est.labels_[-2:], -1)
    assert any("edges below" in note for note in est.report_.notes)
    near = ml.NCut(2, random_state=0).fit(X, sample_weight=np.r_[np.full(58, 1.0), 1e-60, 1e-60])
    assert (near.labels_ >= 0).all()
