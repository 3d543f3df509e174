"""Several graphs of the same nodes: dense twins, identities, weights by evidence, clear errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

import mustlink as ml
from mustlink.core.observe import Deadline, Recorder
from mustlink.errors import InputError, MustlinkError
from mustlink.graph.several import _area, judged_weights, on_same_nodes, sum_of, walks_between

CLASSES = np.repeat([0, 1, 2], 40)
CLUSTERERS = (ml.NCut, ml.CSP, ml.SSSC, ml.SpectralLearning, ml.SRCP, ml.SSKK, ml.CSCGFHF)
PROPAGATORS = (ml.LLGC, ml.GFHF, ml.Poisson, ml.TikReg)


def random_graph(rng, n=12, share=0.4):
    W = rng.random((n, n)) * (rng.random((n, n)) < share)
    return ml.Graph.from_affinity(sp.csr_matrix(np.triu(W, 1) + np.triu(W, 1).T))


def blobs(seed, n_neighbors=8):
    """A neighbour graph of three groups in a plane of its own."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(c, 0.7, (40, 2)) for c in ((0, 0), (3, 0), (0, 3))])
    return ml.knn_graph(points, n_neighbors, random_state=0)


def noise(seed=9):
    return ml.knn_graph(np.random.default_rng(seed).normal(size=(120, 6)), 8, random_state=0)


def some_labels(every=8):
    few = np.full(CLASSES.size, -1)
    few[::every] = CLASSES[::every]
    return few


def fitted(make, graphs, X=None, **given):
    est = make(random_state=0, **given)
    if make in PROPAGATORS:
        return est.fit(X, some_labels(), graphs=graphs)
    est.set_params(n_clusters=3)
    return est.fit(X, None if make is ml.NCut else some_labels(), graphs=graphs)


def dense_walk(graphs, weights):
    """Transitions (n, n) of a walker who is on graph v at node i with share w_v pi_v(i)."""
    stationary = [one.degrees / one.volume for one in graphs]
    total = sum(w * pi for w, pi in zip(weights, stationary, strict=True))
    found = np.zeros(graphs[0].affinity.shape)
    for one, w, pi in zip(graphs, weights, stationary, strict=True):
        W, d = one.affinity.toarray(), one.degrees
        for i in np.flatnonzero(d):
            found[i] += w * pi[i] / total[i] * W[i] / d[i]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_the_sum_is_the_walk_that_changes_between_graphs(seed):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, share=rng.uniform(0.1, 0.6)) for _ in range(rng.integers(2, 5))]
    if not all(one.volume for one in graphs):
        return
    weights = rng.dirichlet(np.ones(len(graphs)))
    joined = sum_of(graphs, weights, "given")
    d = joined.degrees
    here = d > 0
    walk = joined.affinity.toarray()[here] / d[here, None]
    np.testing.assert_allclose(walk, dense_walk(graphs, weights)[here], atol=1e-12)
    # A convex combination: weights stay in the range of those of the graphs.
    assert joined.affinity.data.max() <= max(one.affinity.data.max() for one in graphs) + 1e-15


@pytest.mark.parametrize("seed", range(5))
def test_units_and_order_do_not_count(seed):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng) for _ in range(3)]
    weights = rng.dirichlet(np.ones(3))
    plain = sum_of(graphs, weights, "").affinity.toarray()
    large = ml.Graph.from_affinity(graphs[1].affinity * 1e6)
    scaled = sum_of([graphs[0], large, graphs[2]], weights, "").affinity.toarray()
    np.testing.assert_allclose(scaled / scaled.sum(), plain / plain.sum(), rtol=1e-12)
    turned = sum_of(graphs[::-1], weights[::-1], "").affinity.toarray()
    np.testing.assert_allclose(turned, plain, rtol=1e-13)


def test_one_graph_twice_is_the_graph_alone_and_weight_0_is_nothing():
    graph, other = blobs(0), noise()
    twice = sum_of([graph, graph], np.array([0.5, 0.5]), "")
    alone = sum_of([graph, other], np.array([1.0, 0.0]), "")
    np.testing.assert_allclose(twice.affinity.toarray(), graph.affinity.toarray(), rtol=1e-15)
    np.testing.assert_array_equal(alone.affinity.toarray(), graph.affinity.toarray())
    for found in (twice, alone):
        assert found.info["kind"] == graph.info["kind"]


@pytest.mark.thorough
@pytest.mark.parametrize("make", [*CLUSTERERS, *PROPAGATORS])
def test_fits_with_several_graphs_are_those_of_their_sum(make):
    one, two = blobs(0), blobs(1, 5)
    joined = fitted(make, [one, two], graph_weights=[3, 1])
    summed = sum_of([one, two], np.array([0.75, 0.25]), "given")
    np.testing.assert_array_equal(joined.labels_, fitted(make, [summed]).labels_)
    np.testing.assert_array_equal(
        joined.labels_, fitted(make, [two], X=one, graph_weights=[0.75, 0.25]).labels_
    )
    first = fitted(make, [one, two], graph_weights=[1, 0])
    np.testing.assert_array_equal(first.labels_, fitted(make, [one]).labels_)
    assert joined.report_.choices["graph"]["graph_weights"] == [0.75, 0.25]
    assert joined.report_.choices["graph"]["why"] == "given"


@pytest.mark.thorough
@pytest.mark.parametrize("make", [ml.CSP, ml.LLGC])
def test_a_graph_of_noise_gets_little_weight_by_labels(make):
    est = fitted(make, [noise(), blobs(0), blobs(1)])
    told = est.report_.choices["graph"]
    assert told["graph_weights"][0] < 0.05
    assert "must-links above cannot-links" in told["why"]
    assert np.mean(est.labels_ == CLASSES) > 0.95
    rows = np.flatnonzero(np.arange(120) % 8)
    pairs = np.random.default_rng(0).choice(rows, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = CLASSES[pairs[:, 0]] == CLASSES[pairs[:, 1]]
    known = ml.Constraints.from_pairs(pairs, np.where(same, 1.0, -1.0), n_nodes=120)
    est = ml.CSP(3, random_state=0).fit(None, constraints=known, graphs=[blobs(0), noise()])
    assert est.report_.choices["graph"]["graph_weights"][1] < 0.05


def test_without_constraints_graphs_are_judged_by_the_edges_of_the_others():
    est = fitted(ml.NCut, [blobs(0), noise(), blobs(1)])
    assert est.report_.choices["graph"]["graph_weights"][1] < 0.05
    two = fitted(ml.NCut, [blobs(0), noise()]).report_.choices["graph"]
    assert two["graph_weights"] == [0.5, 0.5]
    assert "cannot be said" in two["why"]


def test_weights_by_evidence_depend_on_no_order_unit_or_thread():
    graphs = [blobs(0), noise(), blobs(1, 5)]
    for known in (ml.Constraints.none(120), ml.Constraints.from_labels(some_labels())):
        found = judged_weights(graphs, known, 0, Recorder()).weights
        turned = judged_weights(graphs[::-1], known, 0, Recorder()).weights
        np.testing.assert_allclose(turned[::-1], found, rtol=1e-12)
        large = [ml.Graph.from_affinity(one.affinity * 2.0**20) for one in graphs]  # no rounding
        np.testing.assert_allclose(judged_weights(large, known, 0, Recorder()).weights, found)
    for make in (ml.CSP, ml.LLGC):
        one, many = (fitted(make, graphs, n_jobs=n).labels_ for n in (1, 3))
        np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("seed", range(5))
def test_walks_are_powers_of_the_transitions(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 20)
    W, d = graph.affinity.toarray(), graph.degrees
    inverse = np.divide(1.0, d, out=np.zeros(20), where=d > 0)
    P, K, power = inverse[:, None] * W, np.zeros((20, 20)), np.eye(20)
    for _ in range(25):
        K += power * inverse
        power = 0.95 * P @ power
    pairs = rng.integers(0, 20, (300, 2))
    found = walks_between(graph, pairs)
    np.testing.assert_allclose(found, K[pairs[:, 1], pairs[:, 0]], rtol=1e-12)
    belief = np.where(rng.random(300) < 0.4, 1, -1) * rng.integers(1, 4, 300).astype(float)
    repeated = np.repeat(np.arange(300), np.abs(belief).astype(int))
    scores = np.round(found, 2)  # with ties
    expected = roc_auc_score(belief[repeated] > 0, scores[repeated])
    assert _area(scores, belief) == pytest.approx(expected)


def test_rows_that_are_equal_in_one_table_only_are_nodes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X[30:] = X[:10]
    merged = ml.knn_graph(X, 5, random_state=0, duplicates="merge")
    other = ml.knn_graph(rng.normal(size=(40, 2)), 5, random_state=0)
    apart, same = on_same_nodes([merged, other])
    assert same is other
    P = np.eye(30)[merged.rows]
    counts = P.sum(axis=0)
    W = P @ (merged.affinity.toarray() / np.outer(counts, counts)) @ P.T
    np.testing.assert_allclose(apart.affinity.toarray(), W, atol=1e-15)
    assert apart.weights is None
    both = on_same_nodes([merged, merged])
    assert both == [merged, merged]
    est = ml.NCut(2, random_state=0, n_neighbors=5).fit(X, graphs=[other])
    assert est.labels_.shape == (40,)
    assert est.graph_.n_nodes == 40
    X[:] = X[0]
    X[0] += 1
    all_equal = ml.knn_graph(np.tile(X[:20], (2, 1)), 5, random_state=0, duplicates="merge")
    with pytest.raises(InputError, match='duplicates="keep"'):
        on_same_nodes([all_equal, other])


def test_hard_graphs():
    one = blobs(0)
    # In one graph a node is alone and the classes are components; another is in single precision
    # with long indices.
    two = blobs(1).affinity.tolil()
    two[5], two[:, 5] = 0, 0
    for c in range(3):
        own = c == CLASSES
        two[np.ix_(np.flatnonzero(own), np.flatnonzero(~own))] = 0
    two = sp.csr_matrix(two.T.multiply(two.T > 0))
    two = sp.csr_matrix((two + two.T) / 2, dtype=np.float32)
    two.eliminate_zeros()
    long = sp.csr_matrix(
        (two.data, two.indices.astype(np.int64), two.indptr.astype(np.int64)), shape=two.shape
    )
    for make in (ml.NCut, ml.CSP, ml.LLGC):
        est = fitted(make, [long], X=one, affinity="precomputed")
        assert est.graph_.n_components == 1
        assert (est.labels_ >= 0).all()
        assert est.graph_.affinity.indices.dtype == np.int32
    single = [ml.Graph.from_affinity(two)] * 2
    assert sum_of(single, np.array([0.5, 0.5]), "").affinity.dtype == np.float32


def test_points_and_their_graph_take_others():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(c, 0.7, (40, 2)) for c in ((0, 0), (3, 0), (0, 3))])
    est = ml.LNP(random_state=0).fit(points, some_labels(), graph=blobs(2), graphs=[blobs(1)])
    assert est.report_.choices["graph"]["graphs"] == ["knn", "knn"]
    est = ml.CSP(3, random_state=0).fit(points, some_labels(), graphs=[blobs(1)])
    np.testing.assert_array_equal(est.predict(points), est.labels_)
    kept = est.graph_
    est.refit(y=some_labels(10))
    assert est.graph_ is kept
    weighed = ml.CSP(3, random_state=0).fit(
        points, some_labels(), graphs=[blobs(1)], sample_weight=np.full(120, 2.0)
    )
    np.testing.assert_array_equal(weighed.labels_, est.labels_)


def test_a_sum_that_does_not_fit_is_refused_before_it_is_made():
    with pytest.raises(MustlinkError, match="memory"):
        fitted(ml.NCut, [blobs(0), blobs(1)], memory="1MB")


@pytest.mark.parametrize(
    ("graphs", "given", "message"),
    [
        ([ml.Graph.from_affinity(np.ones((7, 7)))], {}, "number 1 has 7 nodes, the first 120"),
        (blobs(1), {}, "give a list of graphs"),
        ([np.ones((3, 4))], {}, r"graphs: number 1: affinity: shape .*; knn_graph\(X\) makes"),
        ([blobs(1)], {"graph_weights": [1, 2, 3]}, "shape .3,. for 2 graphs"),
        ([blobs(1)], {"graph_weights": [1, -1]}, "at least 0"),
        ([blobs(1)], {"graph_weights": [0, 0]}, "not all 0"),
        ([blobs(1)], {"graph_weights": "best"}, '"auto", "equal" or numbers'),
        (None, {"graph_weights": [1, 2]}, "for 1 graph;"),
        ([np.zeros((120, 120))], {}, "number 1: affinity: 120 nodes but no edge"),
    ],
)
def test_errors_are_one_line(graphs, given, message):
    with pytest.raises(InputError, match=message) as error:
        ml.NCut(3, **given).fit(blobs(0), graphs=graphs)
    assert "\n" not in str(error.value)


def test_no_graph_at_all_is_an_error():
    with pytest.raises(InputError, match="list is empty"):
        ml.NCut(3).fit(None, graphs=[])
    empty = ml.Graph(sp.csr_matrix((120, 120)))
    with pytest.raises(InputError, match="have no edge"):
        ml.NCut(3, graph_weights=[0, 1]).fit(blobs(0), graphs=[empty])


def test_without_time_graphs_weigh_the_same():
    recorder = Recorder(deadline=Deadline.of(1e-9))
    known = ml.Constraints.from_labels(some_labels())
    found = judged_weights([blobs(0), noise()], known, 0, recorder)
    np.testing.assert_array_equal(found.weights, [0.5, 0.5])
    assert recorder.left_out
