"""Prior knowledge with a degree of belief, against a dense minimiser and virtual nodes."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mustlink as ml
import oracles
from cases import blobs, random_graph
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.propagation.prior import GivenPrior, LabelSet
from mustlink_io.hdf5.work_folder import WorkFolder

POINTS = {"LLELP", "LLELPC", "LTSALP", "LTSALPC", "LNP"}


def some_prior(rng, n, k):
    """Distributions, and beliefs of which a third are 0."""
    belief = np.where(rng.random(n) < 1 / 3, 0.0, rng.exponential(0.5, n))
    return rng.dirichlet(np.ones(k), n), belief


def some_labels(rng, n, k):
    y = np.full(n, -1)
    nodes = rng.permutation(n)[: int(rng.integers(k, n // 2 + k))]
    y[nodes] = np.append(np.arange(k), rng.integers(0, k, nodes.size - k))
    return y


def joined(weights, y, prior, belief):
    """Weights, targets and held nodes with the prior's squares among those of the labels."""
    k, known = prior.shape[1], y >= 0
    Y = (y[:, None] == np.arange(k)) * 1.0
    held = known & np.isinf(np.broadcast_to(weights, y.shape))
    given = np.asarray(weights)
    w = np.where(held, 0.0, np.where(known, given, 0.0) if given.ndim == 0 else given)
    u = np.where(known, 0.0, belief)
    targets = (w[:, None] * Y + u[:, None] * prior) / np.maximum(w + u, 1e-300)[:, None]
    return w + u, np.where(held[:, None], Y, targets), held


def worst_of(seeds, methods, solver, n_max):
    found = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(14, n_max)), int(rng.integers(2, 4))
        X = rng.standard_normal((n, 4))
        graph = ml.knn_graph(X, 6, random_state=0)
        if methods is POINTS:
            assert not graph.info.get("n_bridges")
        else:
            graph = ml.Graph.from_affinity(random_graph(rng, n, weak=1e-2 if seed % 3 else None))
        y, (prior, belief) = some_labels(rng, n, k), some_prior(rng, n, k)
        for name, (method, M, u, delta) in oracles.ab09_rows(X, y, graph, 6).items():
            if (name in POINTS) != (methods is POINTS):
                continue
            est = clone(method).set_params(solver=solver, tol=1e-12)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                est.fit(X, y, graph=graph, prior=prior, belief=belief)
            energy = M.toarray() if sp.issparse(M) else M
            to = np.empty((n, 0)) if delta is None else delta[:, None]
            w, targets, held = joined(u, y, prior, belief)
            true = oracles.glp_dense(energy, targets, w, held, to)
            true = true if k > 2 else true[:, 1] - true[:, 0]
            off = np.abs(est.decision_function() - true).max() / max(1.0, np.abs(true).max())
            found[name] = max(found.get(name, 0.0), off)
    return found


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", ["cg", "dense"])
def test_dense_twin_on_random_graphs(solver):
    found = worst_of(range(16), None, solver, 40)
    assert len(found) == 7
    assert max(found.values()) < 1e-6, found


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", ["cg", "dense"])
def test_dense_twin_on_neighbourhoods_of_points(solver):
    found = worst_of(range(30 if solver == "cg" else 20), POINTS, solver, 30)
    assert set(found) == POINTS
    assert max(found.values()) < 1e-6, found


def test_it_is_virtual_nodes():
    """An edge of weight u_i p_ic to a node held at class c, for every node and class."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, k = 40, 3
        W, y = random_graph(rng, n), some_labels(rng, n, k)
        prior, belief = some_prior(rng, n, k)
        est = ml.GFHF(class_mass=False, affinity="precomputed", tol=1e-12)
        F = clone(est).fit(W, y, prior=prior, belief=belief).decision_function()
        edges = sp.csr_matrix(np.where(y >= 0, 0.0, belief)[:, None] * prior)
        larger = sp.csr_matrix(sp.block_array([[W, edges], [edges.T, None]]))
        virtual = clone(est).fit(larger, np.append(y, np.arange(k))).decision_function()
        np.testing.assert_allclose(F, virtual[:n], atol=1e-8)


def test_no_belief_is_no_prior_and_much_belief_is_a_label():
    rng = np.random.default_rng(0)
    W, y = random_graph(rng, 60), some_labels(rng, 60, 3)
    prior = rng.dirichlet(np.ones(3), 60)
    est = ml.GFHF(class_mass=False, affinity="precomputed", tol=1e-12)
    plain = clone(est).fit(W, y)
    nothing = clone(est).fit(W, y, prior=prior, belief=0)
    np.testing.assert_array_equal(nothing.decision_function(), plain.decision_function())
    sure = clone(est).fit(W, y, prior=prior, belief=1e9)
    known = y >= 0
    np.testing.assert_allclose(sure.label_distributions_[~known], prior[~known], atol=1e-6)
    np.testing.assert_array_equal(sure.labels_[known], y[known])


def test_a_part_without_labels_is_answered_where_something_is_believed():
    rng = np.random.default_rng(1)
    W = sp.block_diag([random_graph(rng, 20), random_graph(rng, 20)]).tocsr()
    y = np.full(40, -1)
    y[:2] = 0, 1
    prior, belief = np.tile([0.2, 0.8], (40, 1)), np.zeros(40)
    belief[30] = 2.0
    for method in (ml.GFHF, ml.LLGC):
        est = method(affinity="precomputed").fit(W, y, prior=prior, belief=belief)
        assert (est.labels_[20:] == 1).all()
    harmonic = ml.GFHF(affinity="precomputed").fit(W, y, prior=prior, belief=belief)
    np.testing.assert_allclose(harmonic.label_distributions_[20:], prior[20:], atol=1e-7)


def test_equal_points_believe_together():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 3))
    copies = rng.integers(1, 4, 30)
    rows = np.repeat(np.arange(30), copies)
    y = np.full(30, -1)
    y[:6] = np.arange(6) % 2
    prior, belief = some_prior(rng, 30, 2)
    for est in (ml.GFHF(class_mass=False), ml.LLGC(), ml.TikReg(), ml.NCutPropagation()):
        est.set_params(n_neighbors=5, tol=1e-12, random_state=0)
        weighted = clone(est).fit(X, y, sample_weight=copies, prior=prior, belief=belief)
        repeated = clone(est).fit(X[rows], y[rows], prior=prior[rows], belief=belief[rows])
        np.testing.assert_allclose(
            repeated.decision_function(), weighted.decision_function()[rows], atol=1e-7
        )


def test_what_an_earlier_run_kept_is_of_its_prior_and_belief(tmp_path):
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((40, 3)), some_labels(rng, 40, 2)
    (prior, belief), (other, less) = some_prior(rng, 40, 2), some_prior(rng, 40, 2)
    folder, gained = WorkFolder(tmp_path / "work", "data"), []
    for given in ((prior, belief), (other, belief), (prior, less), (prior, belief)):
        how = dict(zip(("prior", "belief"), given, strict=True))
        before = folder.recalled
        found = ml.GFHF(random_state=0).keep_in(folder).fit(X, y, **how)
        gained.append(folder.recalled - before)
        fresh = ml.GFHF(random_state=0).fit(X, y, **how)
        np.testing.assert_array_equal(found.decision_function(), fresh.decision_function())
    assert gained[3] > gained[1] == gained[2]  # the last is as the first
    folder.settle()


def test_it_decides_where_labels_are_few():
    rng = np.random.default_rng(3)
    X, truth = blobs(rng, 400, 2, d=3, separation=2.0)
    y = np.full(400, -1)
    y[[np.argmax(truth == 0), np.argmax(truth == 1)]] = 0, 1
    said = np.where(rng.random(400) < 0.8, truth, 1 - truth)  # right of every fifth four
    prior = (said[:, None] == np.arange(2)) * 1.0
    alone = ml.GFHF(class_mass=False, random_state=0).fit(X, y)
    both = ml.GFHF(random_state=0).fit(X, y, prior=prior, belief=0.5)
    right = [np.mean(labels == truth) for labels in (both.labels_, alone.labels_, said)]
    assert right[0] > max(right[1:])


@pytest.mark.parametrize(
    "method",
    [ml.Poisson(), ml.GreenFunction(), ml.ClusterKernel(), ml.GWEM(), ml.LNP()],
)
def test_methods_that_minimise_nothing_say_so(method):
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.append([0, 1], np.full(18, -1))
    with pytest.raises(InputError, match="minimises nothing that it could be added to"):
        method.fit(X, y, prior=np.full((20, 2), 0.5))


@pytest.mark.parametrize(
    ("prior", "belief", "words"),
    [
        (None, 1.0, "no prior that it is a belief in"),
        (np.full((20, 3), 1 / 3), None, r"shape \(20, 3\) for 20 nodes .* 2 classes"),
        (np.full((19, 2), 0.5), None, r"shape \(19, 2\) for 20 nodes"),
        (np.full((20, 2), 0.6), None, "row 0 is no distribution"),
        (np.tile([1.5, -0.5], (20, 1)), None, "row 0 is no distribution"),
        (np.full((20, 2), np.nan), 1.0, "prior"),
        (np.full((20, 2), 0.5), np.ones(3), r"belief: shape \(3,\) for 20 nodes"),
        (np.full((20, 2), 0.5), -1.0, "finite and 0 or more"),
        (np.full((20, 2), 0.5), np.inf, "belief"),
        ("words", 1.0, "prior"),
    ],
)
def test_errors(prior, belief, words):
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.append([0, 1], np.full(18, -1))
    with pytest.raises(InputError, match=words):
        ml.GFHF().fit(X, y, prior=prior, belief=belief)


@pytest.mark.parametrize("names", [None, np.array(["a", "b"])])
def test_it_stays_through_refits_additions_and_files(names, tmp_path):
    rng, n = np.random.default_rng(0), 120
    X = rng.normal(size=(n, 2)).astype(np.float32)
    truth = (X[:, 0] > 0).astype(int)
    few, more = np.full(n, -1), np.full(n, -1)
    few[:4], more[:5] = truth[:4], truth[:5]
    if names is not None:
        few, more = (np.where(y < 0, "", names[y]) for y in (few, more))
    P = np.eye(2)[truth] * 0.8 + 0.1
    wanted = ml.GFHF(random_state=0).fit(X, more, prior=P, belief=0.5)
    est = ml.GFHF(random_state=0).fit(X, few, prior=P, belief=0.5)
    est.save(tmp_path / "model.h5")
    answers = est.labels_
    assert ml.settled(est).moved < 0.05
    np.testing.assert_array_equal(est.labels_, answers)
    for one in (est, ml.load(tmp_path / "model.h5")):
        one.refit(more)
        np.testing.assert_array_equal(one.label_distributions_, wanted.label_distributions_)
        one.add(X[:1] + 10)
        np.testing.assert_array_equal(one.labels_[:n], wanted.labels_)
        one.refit(one.given_labels_, prior=None)
        plain = ml.GFHF(random_state=0).fit(X, more).labels_
        assert np.mean(one.labels_[:n] == plain) > 0.98  # one point more is in the graph


def test_its_classes_may_come_and_go():
    given = GivenPrior.of([[0.2, 0.8], [1.0, 0.0]], 2.0, np.array([3, 5]))
    P, u = given.over(np.array([3, 4, 5]), 3)
    np.testing.assert_array_equal(P, [[0.2, 0, 0.8], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(u, [2, 2, 0])
    P, u = given.over(np.array([5, 7]), 2)
    np.testing.assert_array_equal(P, [[1, 0], [0, 0]])
    np.testing.assert_allclose(u, [1.6, 0])


def test_labels_held_out_leave_what_is_believed():
    """What is chosen by them is chosen of the problem that is solved."""
    prior = np.full((3, 2), 0.5)
    known = LabelSet.of(np.array([0, 1, -1]), 3, None, None, Recorder(None), prior, 1.0)
    rest = known.without(np.array([0]))
    assert rest.nodes.tolist() == [-1, 1, -1]
    assert known.nodes.tolist() == [0, 1, -1]
    assert rest.prior is known.prior is not None
