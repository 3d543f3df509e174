"""A graph whose nodes are several equal rows: written, read, clustered, scored, and refused."""

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mustlink.core.observe import Silent
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.jobs.fits import ClusterJob, PropagateJob
from mustlink_io.jobs.graph import GraphJob
from mustlink_io.jobs.run import run
from mustlink_io.jobs.score import score
from results import labels_of


@pytest.fixture
def files(tmp_path):
    """Points of three groups with equal rows and a few labels; the graph that is made of them."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(3), 80))
    centre = 8 * np.column_stack([np.cos(2 * y), np.sin(2 * y)])
    X = np.round(rng.normal(size=(240, 2)) + centre).astype(np.float32)
    points, graph = str(tmp_path / "points.h5"), str(tmp_path / "graph.h5")
    with h5py.File(points, "w") as file:
        file["points"], file["labels"] = X, np.where(np.arange(240) % 8 == 0, y, -1)
    told = GraphJob(data=points, output=graph).run(Silent())
    assert told["n_rows"] == 240 > told["n_nodes"] == np.unique(X, axis=0).shape[0]
    return tmp_path, points, graph, X


@pytest.mark.thorough
def test_the_stored_graph_gives_the_answers_of_the_points(files):
    folder, points, graph, X = files
    labels, found = f"{points}:/labels", {}
    for name, data, more in (
        ("points", points, {}),
        ("graph", graph, {}),
        ("both", points, {"graph": graph}),
    ):
        output = str(folder / f"of_{name}.h5")
        job = PropagateJob(data=data, output=output, method="poisson", labels=labels, **more)
        told = run(job, Silent())
        found[name] = labels_of(output)
        assert told.report.n_nodes == 240
    assert_array_equal(found["graph"], found["points"])
    assert_array_equal(found["both"], found["points"])
    output = str(folder / "clusters.h5")
    job = ClusterJob(data=graph, output=output, method="csp", n_clusters=3, labels=labels)
    told = run(job, Silent())
    clusters = labels_of(output)
    assert_array_equal(np.bincount(clusters), told.report.clusters.sizes)
    assert sum(told.report.clusters.sizes) == 240
    kinds = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    assert all(np.ptp(clusters[kinds == kind]) == 0 for kind in range(kinds.max() + 1))
    assert score(output, graph=graph)["mncut"] < 0.1


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("rows", lambda rows: rows + 1, "nodes must be 0 to"),
        ("rows", np.zeros_like, "each at least once"),
        ("weights", lambda weights: -weights, "not negative"),
        ("weights", lambda weights: weights[1:], "g = "),
    ],
)
def test_what_makes_no_sense_in_a_file_is_refused(files, name, values, words):
    graph = files[2]
    with h5py.File(graph, "r+") as file:
        changed = values(file[f"graph/{name}"][...])
        del file[f"graph/{name}"]
        file[f"graph/{name}"] = changed
    with pytest.raises(InputError, match=words):
        formats.load(graph)


@pytest.mark.thorough
def test_clusters_of_a_graph_with_equal_rows_are_scored_as_in_the_result(files):
    folder, _, graph, _ = files
    output, bare = str(folder / "clusters.h5"), str(folder / "labels.npy")
    told = run(ClusterJob(data=graph, output=output, method="ncut", n_clusters=3), Silent())
    np.save(bare, labels_of(output))
    recorded, anew, of_labels = score(output), score(output, graph=graph), score(bare, graph=graph)
    for name in ("modularity", "coverage", "mncut", "worst_conductance", "worst_cluster"):
        assert recorded[name] == pytest.approx(getattr(told.report.network, name))
        assert recorded[name] == pytest.approx(anew[name]) == of_labels[name]
    assert anew["conductance"] == pytest.approx(told.report.clusters.conductance)
    assert "modularity" not in score(bare)
