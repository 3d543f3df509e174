"""Labels spread over a graph that stays on disk, beside the dense equations and a fit at home."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mustlink as ml
from cases import planted_graph, random_graph
from mustlink.propagation.answers import median
from mustlink.space import LocalSpace
from on_disk import stored
from oracles.propagate import gfhf_dense, llgc_dense, tikreg_dense

pytestmark = [
    pytest.mark.usefixtures("on_disk"),
    pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning"),
]
NEAR = 1e-6  # of distributions
HALF_WAY = {"llgc": {"alpha": 0.9}}  # where its choice is not what is tested: ten fits on disk


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def wide(rng):
    """Weights of eight powers of ten."""
    W = sp.triu(random_graph(rng, 400), 1).tocsr()
    W.data *= 10 ** rng.uniform(-6, 2, W.nnz)
    return W + W.T


GRAPHS = {
    "planted": lambda rng: planted_graph(rng, 400, 3, inside=0.2, across=0.01)[0],
    "parts": lambda rng: random_graph(rng, 1100, 4, isolated=9),
    "loops": lambda rng: random_graph(rng, 300) + sp.diags(rng.random(300)),
    "wide": wide,
}
WAYS = {
    "poisson": (ml.Poisson, {}),
    "poisson of shares": (ml.Poisson, {"center": "rows", "class_mass": "equal"}),
    "tikreg": (ml.TikReg, {}),
    "gfhf": (ml.GFHF, {}),
    "gfhf of masses": (ml.GFHF, {"class_mass": True}),
    "llgc": (ml.LLGC, {}),
    "refined": (ml.GFHF, {"refine": True}),
    "llgc far": (ml.LLGC, {"alpha": 0.999, "refine": False}),
    "ncut": (ml.NCutPropagation, {}),
    "green": (ml.GreenFunction, {}),
    "green normalised": (ml.GreenFunction, {"normalized": True}),
    "lelp": (ml.LELP, {}),
    "lelpc": (ml.LELP, {"orthogonal": True}),
}


def graph(rng, name):
    """A matrix whose weights are in single precision, as on disk, and labels of some nodes."""
    W = sp.csr_matrix(GRAPHS[name](rng))
    W.data = W.data.astype(np.float32).astype(float)
    n = W.shape[0]
    y = np.where(rng.random(n) < 0.05, rng.integers(0, 3, n), -1)
    y[:3] = [0, 1, 2]
    return W, y


def fitted(method, X, y, how, **given):
    return method(affinity="precomputed", random_state=0, **how).fit(X, y, **given)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_answers_as_at_home(rng, name, way):
    (W, y), (method, how) = graph(rng, name), WAYS[way]
    home, there = fitted(method, W, y, how), fitted(method, stored(W), y, how)
    assert_allclose(there.label_distributions_[:], home.label_distributions_, atol=NEAR)
    assert_array_equal(there.transduction_, home.transduction_)
    assert_allclose(there.confidence_, home.confidence_, atol=2 * NEAR)
    mine, other = there.report_, home.report_
    assert mine.convergence.converged.all()
    assert mine.extra == other.extra
    for told in ("alpha", "why", "class_mass", "center", "gamma"):
        assert mine.choices.get(told) == other.choices.get(told), told
    assert mine.method.endswith(", on disk")
    assert mine.warnings == other.warnings


def test_the_dense_equations(rng):
    W, y = graph(rng, "planted")
    Y, A = (y[:, None] == np.arange(3)) * 1.0, W.toarray()

    def scores(method, **how):
        found = fitted(method, stored(W), y, {"tol": 1e-12, **how})
        return found.label_distributions_[:], found.labels_

    F = gfhf_dense(A, Y)
    assert_allclose(scores(ml.GFHF, class_mass=False)[0], F / F.sum(axis=1)[:, None], atol=NEAR)
    F = llgc_dense(A, Y, 0.9)
    found = scores(ml.LLGC, alpha=0.9, class_mass=False, refine=False)[0]
    assert_allclose(found, F / F.sum(axis=1)[:, None], atol=NEAR)
    F = tikreg_dense(A, Y, 0.01)
    assert_array_equal(scores(ml.TikReg, gamma=0.01)[1], F.argmax(axis=1))
    charge = Y - (y >= 0)[:, None] * Y.sum(axis=0) / Y.sum()
    F = np.linalg.pinv(np.diag(A.sum(axis=1)) - A) @ charge
    F -= A.sum(axis=1) @ F / A.sum()
    assert_array_equal(scores(ml.Poisson, class_mass=False)[1], F.argmax(axis=1))
    assert_array_equal(scores(ml.Poisson)[1], (F / Y.sum(axis=0)).argmax(axis=1))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", ["all", "one part", "one a class", "isolated ones"])
def test_hard_labels(rng, way, labels):
    W, y = graph(rng, "parts")
    n, method, how = len(y), WAYS[way][0], HALF_WAY.get(way, WAYS[way][1])
    parts = ml.Graph.from_affinity(W).components
    if labels == "all":
        y = rng.integers(0, 3, n)
    elif labels == "one part":
        y = np.where(parts == parts[0], y, -1)
    elif labels == "one a class":
        y = np.full(n, -1)
        y[rng.choice(np.flatnonzero(parts == np.bincount(parts).argmax()), 3)] = [0, 1, 2]
    else:
        y[np.asarray(W.sum(axis=1)).ravel() == 0] = 1
    home, there = fitted(method, W, y, how), fitted(method, stored(W), y, how)
    assert_allclose(there.label_distributions_[:], home.label_distributions_, atol=NEAR)
    assert_array_equal(there.labels_, home.labels_)
    assert home.report_.extra == there.report_.extra


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("way", ["gfhf", "gfhf of masses", "llgc", "tikreg", "ncut", "lelpc"])
def test_a_prior(rng, way):
    (W, y), method, how = graph(rng, "parts"), WAYS[way][0], HALF_WAY.get(way, WAYS[way][1])
    prior = rng.dirichlet(np.ones(3), len(y))
    given = {"prior": prior, "belief": np.where(rng.random(len(y)) < 0.3, rng.random(len(y)), 0.0)}
    home, there = fitted(method, W, y, how, **given), fitted(method, stored(W), y, how, **given)
    assert_allclose(there.label_distributions_[:], home.label_distributions_, atol=NEAR)
    assert_array_equal(there.labels_, home.labels_)


def test_names_of_classes_and_other_labels(rng):
    W, y = graph(rng, "planted")
    names = np.array(["ant", "bee", "cow", ""])[y]
    there = fitted(ml.Poisson, stored(W), names, {})
    home = fitted(ml.Poisson, W, names, {})
    assert there.classes_.tolist() == ["ant", "bee", "cow"]
    assert_array_equal(there.labels_, home.labels_)
    more = np.where(np.arange(len(y)) % 9 == 4, "cow", names)
    assert_array_equal(there.refit(more).labels_, home.refit(more).labels_)


def test_one_column_in_memory_finds_the_same(rng):
    W, y = graph(rng, "planted")
    found = [
        fitted(ml.GFHF, stored(W), y, {"memory": memory}).label_distributions_[:]
        for memory in (None, "1GB")
    ]
    assert_allclose(*found, atol=NEAR)


@pytest.mark.thorough
def test_nodes_that_stand_for_several_rows(rng):
    W, y = graph(rng, "planted")
    rows = np.concatenate([np.arange(len(y)), np.repeat(np.arange(40), 2)])
    folded = ml.Graph.from_affinity(W).weighing(np.bincount(rows).astype(float))
    there = stored(folded.affinity, copies=folded.weights, rows=rows)
    labels = y[rows]
    copied = W[rows][:, rows]
    for method, how in WAYS.values():
        found = fitted(method, there, labels, {**how, "tol": 1e-12})
        expected = fitted(method, copied, labels, {**how, "tol": 1e-12})
        if how.get("alpha") is None and method is ml.LLGC:
            continue  # which alpha is held out by other folds
        assert_allclose(found.label_distributions_[:], expected.label_distributions_, atol=NEAR)


def test_the_median_of_values(rng):
    for size in (1, 2, 7, 100):
        values = rng.random(size) * 10.0 ** rng.integers(-12, 9, size)
        counts = np.where(np.arange(size) == 0, 3.0, rng.integers(0, 3, size))
        there = counts > 0
        found = median(LocalSpace(size), values, counts, int(there.sum()))
        assert found == np.median(values[there])
