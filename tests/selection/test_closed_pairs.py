"""By what a constrained fit chooses: pairs held out, or criterion E for closed pairs of few."""

import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.discretize.assign import kmeans
from mustlink.selection import held_out
from mustlink.space import LocalSpace

N, K = 240, 3


@pytest.fixture(scope="module")
def points():
    X, y = blobs(np.random.default_rng(0), N, K, separation=4)
    return ml.knn_graph(X, n_neighbors=8, random_state=0), y


def told(y, count, nodes, seed=0):
    """Right pairs among some of the nodes."""
    rng = np.random.default_rng(seed)
    pairs = rng.choice(N, nodes, replace=False)[rng.integers(0, nodes, (count, 2))]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(pairs, belief, n_nodes=N)


def why(graph, known, y=None, method="CSP"):
    est = getattr(ml, method)(K, affinity="precomputed", assign="kmeans", random_state=0)
    return est.fit(graph, y, constraints=known).report_.choices["why"]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["CSP", "SSSC", "FastGE"])
def test_closed_pairs_of_few_nodes_are_decided_by_criterion_e(points, method):
    graph, y = points
    known = told(y, 80, 40)
    assert "held-out" in why(graph, known, method=method)
    assert "criterion E" in why(graph, known.closure(), method=method)


@pytest.mark.thorough
def test_others_are_held_out_as_ever(points):
    graph, y = points
    assert "held-out" in why(graph, told(y, 400, 200).closure())  # of many nodes
    labels = np.where(np.arange(N) < 30, y, -1)
    assert "held-out" in why(graph, told(y, 80, 40).closure(), labels)


@pytest.mark.thorough
def test_networks_hold_out_what_tells_of_their_degrees():
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    pull = rng.pareto(1.5, N) + 0.3
    P = np.outer(pull, pull) * np.where(y[:, None] == y, 0.03, 0.003)
    W = np.triu(rng.random((N, N)) < P, 1)
    known = told(y, 80, 40).closure()
    assert "held-out" in why(ml.Graph.from_affinity((W | W.T).astype(float)), known)


def test_smaller_subspaces_are_the_beginning_of_the_largest(points):
    graph, y = points
    graph = ml.Graph.from_affinity(graph.affinity, info=dict(graph.info))
    est = ml.CSP(K, affinity="precomputed", random_state=0)
    est.fit(graph, constraints=told(y, 80, 40).closure())
    assert [stage.name for stage in est.report_.stages].count("eigenvectors") == 1


def test_of_runs_that_keep_as_much_the_tightest_starts():
    rng = np.random.default_rng(1)
    X = np.repeat(np.argwhere(np.ones((5, 5))) * 4.0, 8, axis=0) + rng.normal(size=(200, 2))
    X[1] = X[0]
    pair = ml.Constraints.from_pairs([[0, 1]], n_nodes=200)  # kept by every run
    rows = np.vstack([X, X[:2]])
    sample = held_out.ConstraintSample(np.array([0, 1]), np.append(np.arange(200), [0, 1]), None)
    first = 4  # of which the first run is not the best
    found = held_out.starting_centers(rows, sample, pair, 25, first)
    space = LocalSpace(202)
    runs = [kmeans(rows, 25, first + run, restarts=1, space=space) for run in range(held_out._RUNS)]
    best = min(runs, key=lambda run: run.inertia)
    assert best is not runs[0]
    assert best.inertia < 0.98 * max(run.inertia for run in runs)
    np.testing.assert_array_equal(found, best.centers)
