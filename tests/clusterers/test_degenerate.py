"""Every estimator on graphs and tables that break solvers: a valid answer, or one line why not.

Warnings of numpy are errors here: nothing may overflow, divide by zero or make a NaN on the way.
"""

import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from degenerate import GRAPHS, POINTS, labels_of, random_graph
from mustlink.discretize.assign import kmeans
from mustlink.errors import DoubtfulResultWarning, InputError, MustlinkError, NumericalError
from oracles.elimination import harmonic_by_elimination

pytestmark = pytest.mark.usefixtures("few_runs")

CLUSTERERS = ["NCut", "CSP", "SRCP", "SSSC", "SpectralLearning", "SSKK", "ConstrainedAP", "FastGE"]
PROPAGATORS = [
    "GFHF", "LLGC", "TikReg", "ClusterKernel", "GWEM", "LELP", "NCutPropagation", "GreenFunction",
    "Poisson",
]  # fmt: skip
OF_POINTS = ["LNP", "LLELP", "LTSALP"]
ITERATED = {"NCut": "lobpcg", "GFHF": "cg", "LLGC": "cg", "Poisson": "cg", "TikReg": "cg"}


def fitted(name, X, y, **parameters):
    """The estimator, fitted, or None where it said in one line why it cannot be."""
    est = getattr(ml, name)(random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DoubtfulResultWarning)
        try:
            if name in CLUSTERERS or name == "E2CP":
                est.set_params(n_clusters=2)
                return est.fit(X, constraints=ml.Constraints.from_labels(y))
            return est.fit(X, y)
        except MustlinkError as error:
            said = str(error)
    assert said
    assert "\n" not in said
    return None


def assert_valid(est, n):
    """Finite everywhere; rows of distributions sum to 1, or are 0 and answered with -1."""
    assert est.labels_.shape == (n,)
    for name in ("embedding_", "eigenvalues_", "confidence_", "label_distributions_"):
        values = getattr(est, name, None)
        assert values is None or np.isfinite(np.asarray(values, dtype=float)).all(), name
    P = getattr(est, "label_distributions_", None)
    if P is not None:
        total = P.sum(axis=1)
        np.testing.assert_allclose(total[total > 0], 1.0, rtol=1e-9)
        np.testing.assert_array_equal(est.labels_ == -1, total == 0)


@pytest.mark.thorough
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_estimator_on_every_graph(graph):
    W = GRAPHS[graph]()
    y = labels_of(W)
    for name in [*CLUSTERERS, *PROPAGATORS, "E2CP", "CSCGFHF"]:
        est = fitted(name, W, y, affinity="precomputed")
        if (name, graph) == ("CSCGFHF", "very wide") and est is None:
            continue  # shares of a class may round to 0 along weights over 400 orders: one line
        assert est is not None, (name, graph)  # all of them can be solved
        assert_valid(est, W.shape[0])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ITERATED)
def test_iterations_on_every_graph(name):
    for graph, make in GRAPHS.items():
        W = make()
        est = fitted(name, W, labels_of(W), affinity="precomputed", solver=ITERATED[name])
        assert est is not None, (name, graph)
        assert_valid(est, W.shape[0])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("table", POINTS)
def test_every_estimator_on_every_table(table):
    X = POINTS[table]()
    y = np.full(len(X), -1)
    y[:6] = [0, 1, 0, 1, 0, 1]
    for name in ["NCut", "CSP", "FastGE", "GFHF", "Poisson", *OF_POINTS]:
        est = fitted(name, X, y, n_neighbors=7)
        if est is not None:
            assert_valid(est, len(X))
        else:
            assert table in ("huge", "tiny", "one point", "one but one"), name


@pytest.mark.parametrize("solver", ["dense", "cg"])
@pytest.mark.parametrize("graph", ["floor", "blocks 1e-12", "blocks 1e-30", "star", "wide"])
def test_harmonic_labels_are_right_and_not_only_finite(graph, solver):
    """Against elimination that never subtracts; what hangs on by 10⁻³⁰ follows its neighbour."""
    W = GRAPHS[graph]()
    y = labels_of(W, per_class=2)
    given = np.flatnonzero(y >= 0)
    Y = np.eye(2)[np.maximum(y, 0)] * (y >= 0)[:, None]
    F = harmonic_by_elimination(W.toarray(), given, Y)
    est = fitted("GFHF", W, y, affinity="precomputed", class_mass=False, solver=solver)
    np.testing.assert_allclose(est.label_distributions_, F, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_poisson_on_clusters_that_hardly_hang_together(seed):
    """Gaussian weights of six clusters, some joined by 10⁻⁴⁰; multigrid alone stagnates."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(6, size=500)
    X = rng.normal(size=(6, 8))[truth] * 4.0 + rng.normal(size=(500, 8))
    squares = ((X[:, None] - X) ** 2).sum(axis=-1)
    np.fill_diagonal(squares, np.inf)
    far = np.sort(squares, axis=1)[:, 14:15]
    edges = squares <= far
    for a, b in combinations(range(6), 2):
        A, B = np.flatnonzero(truth == a), np.flatnonzero(truth == b)
        i, j = np.divmod(squares[np.ix_(A, B)].argmin(), B.size)
        edges[A[i], B[j]] = True
    edges |= edges.T
    W = sp.csr_matrix(np.exp(-np.where(edges, squares, np.inf) / (np.median(far) / 4)))
    y, known = np.full(500, -1), np.random.default_rng(seed).choice(500, 15, replace=False)
    y[known] = truth[known]
    est = fitted("Poisson", W, y, affinity="precomputed", solver="cg")
    np.testing.assert_array_equal(est.labels_, truth)
    assert "elimination" in est.report_.convergence.solver


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("exponent", [900, 100, -100, -900])
@pytest.mark.parametrize("affinity", ["knn", "rbf"])
def test_the_unit_of_points_does_not_matter(exponent, affinity):
    X = np.concatenate([np.random.default_rng(0).random((40, 3)) + 2 * c for c in range(2)])
    y = np.where(np.arange(80) % 20 == 0, np.arange(80) // 40, -1)
    for name in ("NCut", "CSP", "GFHF", "Poisson", *(OF_POINTS if affinity == "knn" else ())):
        plain = fitted(name, X, y, affinity=affinity)
        est = fitted(name, np.ldexp(X, exponent), y, affinity=affinity)
        np.testing.assert_array_equal(est.labels_, plain.labels_, err_msg=name)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("unit", [1e-290, 1e-40, 1e40, 1e290])
def test_the_unit_of_weights_does_not_matter(unit):
    """A power of two is taken out and told: the answers are those of weights near 1."""
    W = random_graph(70)
    y = labels_of(W)
    for name in ("NCut", "GFHF", "Poisson", "CSP"):
        plain = fitted(name, W, y, affinity="precomputed")
        est = fitted(name, W * unit, y, affinity="precomputed")
        np.testing.assert_array_equal(est.labels_, plain.labels_)
        assert any("multiplied by 2^" in note for note in est.report_.notes)
        assert not any("multiplied by 2^" in note for note in plain.report_.notes)


def test_lost_edges_are_left_out_and_told():
    W = GRAPHS["hanging 1e-300"]()
    y = np.append(labels_of(W[:-1, :-1].tocsr()), -1)
    est = fitted("GFHF", W, y, affinity="precomputed")
    assert est.labels_[-1] == -1
    assert any("1 edges below 1e-271" in note for note in est.report_.notes)
    assert W.nnz == GRAPHS["hanging 1e-300"]().nnz  # the caller's matrix is as it was


def test_single_precision_on_faint_edges():
    """Rounded weights made the matrix indefinite, and masses NaN, under a budget."""
    W = sp.csr_matrix(GRAPHS["floor"]())
    y = labels_of(W)
    exact = fitted("GFHF", W, y, affinity="precomputed", solver="cg")
    from mustlink.context.stage_cache import Workspace
    from mustlink.core.observe import Recorder

    est = ml.GFHF(affinity="precomputed", solver="cg")
    work = Workspace(ml.Graph.from_affinity(W), Recorder(), None, None, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DoubtfulResultWarning)
        est.fit_on(work, y, 0)
    assert_valid(est, W.shape[0])
    # What single precision rounds are weights, by 6e-8 of themselves.
    np.testing.assert_allclose(est.label_distributions_, exact.label_distributions_, atol=1e-5)


def test_nan_ends_at_the_door():
    with pytest.raises(NumericalError, match="embedding: NaN or Inf came out"):
        kmeans(np.full((5, 2), np.nan), 2, 0)
    W = random_graph(30).tolil()
    W[0, 1] = W[1, 0] = np.inf
    with pytest.raises(InputError, match="not finite"):
        ml.GFHF(affinity="precomputed").fit(W.tocsr(), labels_of(random_graph(30)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["NCut", "SpectralLearning", "ConstrainedAP", "FastGE", "CSP"])
def test_weights_200_orders_apart_are_clustered_or_refused(name):
    """Numpy's own warnings of overflows reach nobody."""
    rng = np.random.default_rng(0)
    n = 150
    W = sp.random(n, n, 0.08, random_state=0, data_rvs=np.ones).tocsr()
    W.data[rng.random(W.nnz) < 0.01] = 1e200
    W = sp.csr_matrix(W.maximum(W.T))
    W.setdiag(0)
    W.eliminate_zeros()
    est = getattr(ml, name)(4, affinity="precomputed", random_state=0)
    y = np.where(rng.random(n) < 0.1, np.arange(n) % 4, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            est.fit(W, None if name == "NCut" else y)
        except NumericalError:  # in one line: what is wrong, and what to do
            return
    assert_valid(est, n)
