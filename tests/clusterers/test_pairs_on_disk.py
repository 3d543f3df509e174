"""SRCP and E2CP of a graph that stays on disk, beside the same fits in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import planted_graph
from mustlink.constraints import Constraints
from mustlink.context.stage_cache import Workspace
from mustlink.discretize.satisfaction import satisfaction
from mustlink.eigen.disk_work import DiskWork
from mustlink.eigen.memory_work import MemoryWork
from mustlink.errors import InputError
from on_disk import stored


@pytest.fixture(scope="module")
def planted():
    """A graph of four groups, and pairs of its nodes."""
    rng = np.random.default_rng(2)
    W, group = planted_graph(rng, 300, 4, inside=0.2, across=0.02)
    W = sp.csr_matrix(W)
    pairs = rng.permutation(300)[:120].reshape(60, 2)
    belief = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 1.0, -1.0)
    return W, group, Constraints.from_pairs(pairs, belief, n_nodes=300)


def fitted(method, graph, known, **how):
    usual = {"affinity": "precomputed", "random_state": 0, "eigen_tol": 1e-5}
    return method(4, **usual, solver="diffusion", **how).fit(graph, constraints=known)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "how"),
    [
        (ml.SRCP, {}),
        (ml.E2CP, {}),
        (ml.SRCP, {"normalize": False, "variant": "luxburg"}),
        (ml.SRCP, {"new_edges": 0, "power": 0.5, "variant": "ng"}),
    ],
)
def test_the_same_clusters_as_in_memory(planted, graphs_on_disk, method, how):
    W, _, known = planted
    home, there = fitted(method, W, known, **how), fitted(method, stored(W, 900), known, **how)
    assert adjusted_rand_score(home.labels_, there.labels_) == 1.0
    np.testing.assert_allclose(there.eigenvalues_, home.eigenvalues_, atol=1e-5)
    ours, theirs = there.report_, home.report_
    assert ours.method.endswith("on disk")
    for name in ("power", "variant", "sources"):
        assert ours.choices[name] == theirs.choices[name]
    assert ours.choices["largest_F"] == pytest.approx(theirs.choices["largest_F"], rel=1e-5)
    for mine, other in zip(ours.extra["candidates"], theirs.extra["candidates"], strict=True):
        assert mine.pop("variant") == other.pop("variant")
        assert mine == pytest.approx(other, rel=1e-5)
    assert ours.satisfaction == satisfaction(there.labels_, known)
    assert there.embedding_[10:20].shape == (10, 4)


@pytest.mark.thorough
def test_refit_and_weights_above_one(planted, graphs_on_disk):
    W, _, known = planted
    there = fitted(ml.SRCP, stored(7.5 * W), known, power=1.0, variant="luxburg")
    assert any("divided by " in note for note in there.report_.notes)
    home = fitted(ml.SRCP, 7.5 * W, known, power=1.0, variant="luxburg")
    assert adjusted_rand_score(home.labels_, there.labels_) == 1.0
    before = there.labels_
    there.refit(constraints=known)
    assert np.array_equal(there.labels_, before)
    assert there.report_.extra["changed"] == 0
    for name in ("affinity_matrix_", "propagated_constraints_"):
        with pytest.raises(InputError, match=f"{name}: the graph stayed on disk"):
            getattr(there, name)


def test_components_isolated_nodes_and_no_constraints(planted, graphs_on_disk):
    W = planted[0]
    W = sp.block_diag([W, W[:60, :60], sp.csr_matrix((7, 7))], format="csr")
    there = fitted(ml.SRCP, stored(W), Constraints.none(W.shape[0]))
    home = fitted(ml.SRCP, W, Constraints.none(W.shape[0]))
    assert (there.labels_[360:] == -1).all()
    assert adjusted_rand_score(home.labels_[:360], there.labels_[:360]) == 1.0
    assert there.report_.choices["largest_F"] == 0


def test_constraints_that_take_all_edges_away(graphs_on_disk):
    """A millionth of the graph stays where nothing else would."""
    W = sp.csr_matrix(np.array([[0, 1.0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    W = sp.csr_matrix(sp.kron(sp.eye_array(3), W))
    pairs = np.arange(12).reshape(6, 2)
    known = Constraints.from_pairs(pairs, -1.0, n_nodes=12)
    how = {"power": 0.25, "n_clusters": 2, "affinity": "precomputed", "variant": "luxburg"}
    for graph in (W, stored(W)):
        made = ml.SRCP(solver="diffusion", mu=50.0, random_state=0, **how)
        assert np.unique(made.fit(graph, constraints=known).labels_).size == 2


def test_a_map_of_rows_in_memory_and_on_disk(planted, tmp_path):
    """Some edges go, the others are halved; a node loses all of its own."""
    W = planted[0]
    memory = MemoryWork(Workspace(ml.Graph.from_affinity(W)))
    disk = DiskWork(stored(W, 900), 2, folder=tmp_path)

    def fewer(name):
        """A map of rows, of which `name` (n,) are the graph's numbers."""

        def f(rows, first):
            found = rows.tocoo()
            i, j = name[found.row + first], name[found.col]
            kept = ((i + j) % 5 > 0) & (i != 7) & (j != 7)
            ends = found.row[kept], found.col[kept]
            return sp.csr_matrix((found.data[kept] / 2, ends), shape=rows.shape)

        return f

    nodes, every = memory.laplacian.nodes, np.arange(300)
    home, there = memory.map_rows(fewer(nodes)), disk.map_rows(fewer(every))
    wanted = fewer(every)(W, 0).toarray()
    back = np.argsort(nodes)
    np.testing.assert_allclose(home.graph.affinity[back][:, back].toarray(), wanted, atol=1e-12)
    blocks = [
        sp.csr_matrix((b.data, b.indices, b.indptr), shape=b.shape) for b in there.graph.blocks()
    ]
    np.testing.assert_allclose(sp.vstack(blocks).toarray(), wanted, rtol=1e-6)
    assert there.graph.rows is None  # the folder was taken for them
    assert home.n_nodes - home.isolated == there.n_nodes - there.isolated == 299
    clusters = memory.from_mapped(home, np.ones(299, dtype=np.int64), -1)
    np.testing.assert_array_equal(memory.labels_of_rows(clusters) < 0, every == 7)
