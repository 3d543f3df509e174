"""Points whose graph does not fit: to a graph on disk, its cut, and labels in the file's order."""

from __future__ import annotations

import json
import resource
import shutil
from collections import namedtuple

import h5py
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink.context.method_cost import FitInput, Home
from mustlink.graph import DiskGraph
from mustlink.neighbors import disk_knn
from mustlink_io.jobs import graph, planning

pytestmark = pytest.mark.usefixtures("none_held_out")

N, K = 3000, 5


@pytest.fixture
def little(monkeypatch):
    """No graph fits into memory."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, K, N)
    return (truth[:, None] == np.arange(6)) * 8.0 + rng.standard_normal((N, 6)), truth


@pytest.fixture
def data(clouds, tmp_path):
    path = tmp_path / "points.h5"
    with h5py.File(path, "w") as file:
        file["points"] = clouds[0].astype(np.float32)
    return path


METHODS = ["csp", "sssc", "fast-ge", "ap", "srcp", "e2cp"]
PROPAGATORS = ["poisson", "gfhf", "llgc", "tik-reg"]


@pytest.fixture
def few(clouds, tmp_path):
    """A file of labels of some points."""
    known = np.random.default_rng(2).random(N) < 0.03
    np.save(tmp_path / "few.npy", np.where(known, clouds[1], -1))
    return tmp_path / "few.npy"


def cluster(shell, data, out, *more):
    line = ["cluster", data, "-k", K, "-m", "ncut", "--memory", "2GB", "-o", out, *more]
    return shell(*line)


@pytest.mark.thorough
def test_labels_are_those_in_memory_in_the_order_of_the_points(clouds, little):
    X, truth = clouds
    found = ml.NCut(K, memory="2GB", random_state=0).fit(X)
    home = ml.NCut(K, random_state=0).fit(X)
    assert isinstance(found.graph_, DiskGraph)
    assert found.report_.method.endswith("on disk")
    assert adjusted_rand_score(truth, found.labels_) == adjusted_rand_score(truth, home.labels_)
    assert adjusted_rand_score(home.labels_, found.labels_) == 1.0
    assert found.report_.choices["graph"]["kind"] == "knn"
    near = [np.linalg.norm(E[:, None, :] - E, axis=2) for E in
            (found.embedding_[:200], home.embedding_[:200])]  # fmt: skip
    np.testing.assert_allclose(*near, atol=0.05 * near[0].max())
    with pytest.raises(ml.errors.InputError, match="on disk needs"):
        ml.NCut(K, memory="300MB").fit(X)


@pytest.mark.thorough
def test_the_shell_goes_from_points_to_labels(clouds, data, little, shell, tmp_path):
    out = tmp_path / "out.h5"
    code, said, err = cluster(shell, data, out, "--json")
    assert code == 0, err
    told = json.loads(said)
    assert told["method"].endswith("on disk")
    assert sum(told["sizes"]) == N
    with h5py.File(out) as file:
        assert adjusted_rand_score(clouds[1], file["labels"][()]) == 1.0
        assert file["embedding"].shape == (N, K)
    assert {one.name for one in tmp_path.iterdir()} == {"points.h5", "out.h5"}
    code, said, _ = shell("plan", data, "-k", K, "-m", "ncut", "--memory", "2GB", "--json")
    assert code == 0
    plan = json.loads(said)
    assert plan["disk_bytes"] > 0
    names = [stage["name"] for stage in plan["stages"]]
    assert {"kNN graph", "weights", "multigrid set-up", "eigenvectors"} <= set(names)


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS + PROPAGATORS)
def test_every_method_goes_from_points_to_labels(data, few, little, shell, tmp_path, method):
    """As at home; the second run has the graph of the first."""
    out, verb = tmp_path / "out.h5", "propagate" if method in PROPAGATORS else "cluster"
    line = [verb, data, "-m", method, "--labels", few, "-o", out]
    line += ["-k", K] if verb == "cluster" else []
    assert shell(*line, "--quiet")[0] == 0
    with h5py.File(out) as file:
        home = file["labels"][()]
    line += ["--memory", "2GB", "--resume"]
    for again in (False, True):
        code, said, err = shell(*line, "--json")
        assert code == 0, err
        told = json.loads(said)
        assert any("stay on disk" in note for note in told["notes"])
        names = [stage["name"] for stage in told["stages"]]
        assert ("graph on disk: kept from before" in names) == again
        with h5py.File(out) as file:
            assert adjusted_rand_score(home, file["labels"][()]) > 0.99
    line = ["plan", data, "-m", method, "--labels", few, "--memory", "2GB", "--json"]
    line += ["-k", K] if verb == "cluster" else ["--for", verb]
    code, said, err = shell(*line)
    assert code == 0, err
    plan = json.loads(said)
    assert plan["disk_bytes"] > 0
    assert "kNN graph" in [stage["name"] for stage in plan["stages"]]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", [ml.CSP, ml.SRCP, ml.GFHF])
def test_what_is_known_in_python_belongs_to_the_points(clouds, little, method):
    X, truth = clouds
    known = np.random.default_rng(2).random(N) < 0.03
    y = np.where(known, truth, -1)
    found = method(memory="2GB", random_state=0).fit(X, y)
    assert isinstance(found.graph_, DiskGraph)
    assert adjusted_rand_score(truth, found.labels_) > 0.99
    with pytest.raises(ml.errors.InputError, match="stays on disk"):
        found._new_points(X[:3])
    other = {"solver": "dense"} if method is ml.GFHF else {"isolated": "assign"}
    with pytest.raises(ml.errors.InputError, match="does not run on disk"):
        method(memory="2GB", **other).fit(X, y)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", [ml.NCut, ml.SSSC, ml.LLGC])
def test_a_graph_that_only_its_search_has_no_room_for_is_solved_at_home(
    clouds, monkeypatch, method
):
    monkeypatch.setattr(disk_knn, "home_for", lambda *_: Home("disk", 0, 0, ""))
    X, truth = clouds
    y = np.where(np.random.default_rng(2).random(N) < 0.03, truth, -1)
    k = {"n_clusters": K} if method is ml.NCut else {}
    found = method(memory="2GB", random_state=0, **k).fit(X, y)
    assert isinstance(found.graph_, ml.Graph)
    assert adjusted_rand_score(truth, found.labels_) > 0.99


def test_what_is_believed_belongs_to_the_points(clouds, little):
    X, truth = clouds
    y, prior = np.full(N, -1), (truth[:, None] == np.arange(K)) * 1.0
    y[:40] = truth[:40]
    found = ml.GFHF(memory="2GB", random_state=0).fit(X, y, prior=prior, belief=5.0)
    assert isinstance(found.graph_, DiskGraph)
    assert (found.labels_ == truth).all()


@pytest.mark.thorough
def test_a_run_goes_on_from_the_graph_that_is_kept(data, little, shell, tmp_path):
    out = tmp_path / "out.h5"
    assert cluster(shell, data, out, "--resume", "--quiet")[0] == 0
    with h5py.File(out) as file:
        labels = file["labels"][()]
    code, said, _ = cluster(shell, data, out, "--resume", "--json")
    assert code == 0
    told = json.loads(said)
    names = [stage["name"] for stage in told["stages"]]
    assert {f"{what} on disk: kept from before" for what in ("graph", "eigenvectors")} <= set(names)
    assert "multigrid set-up" not in names
    with h5py.File(out) as file:
        assert np.array_equal(file["labels"][()], labels)
    (kept,) = (tmp_path / "out.h5.work").glob("graph-on-disk.*")
    kept.write_bytes(kept.read_bytes()[:3000])  # damaged: made again
    code, said, _ = cluster(shell, data, out, "--resume", "--json")
    assert code == 0
    assert any("damaged" in note for note in json.loads(said)["notes"])
    with h5py.File(out) as file:
        assert np.array_equal(file["labels"][()], labels)


def test_a_graph_is_written_by_blocks(clouds, data, shell, tmp_path, monkeypatch):
    """Read back, in memory or on disk, its labels are those of the points."""
    monkeypatch.setattr(graph, "_stays_on_disk", lambda *_: True)
    path, out = tmp_path / "graph.h5", tmp_path / "out.h5"
    code, said, err = shell("graph", data, "-o", path, "--memory", "2GB", "--json")
    assert code == 0, err
    told = json.loads(said)
    with h5py.File(path) as file:
        rows = file["graph/rows"][()]
        assert np.array_equal(np.sort(rows), np.arange(N))
        assert file["graph/indptr"][N] == 2 * told["n_edges"] == file["graph/data"].size
    assert told["n_components"] == 1
    assert told["neighbours"]["least"] >= 1
    assert shell("cluster", path, "-k", K, "-o", out, "--quiet")[0] == 0
    with h5py.File(out) as file:
        assert adjusted_rand_score(clouds[1], file["labels"][()]) == 1.0
    assert shell("info", path)[0] == 0
    assert {one.name for one in tmp_path.iterdir()} == {"points.h5", "graph.h5", "out.h5"}


def test_a_disk_that_is_too_small_is_told_before(data, little, shell, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda _: usage(1, 1, 1000))
    code, _, err = cluster(shell, data, tmp_path / "out.h5", "--quiet")
    assert code == 2
    assert err.count("\n") == 1
    assert "1 kB are free" in err
    assert not shutil.os.path.exists(tmp_path / "out.h5")


@pytest.mark.parametrize("more", [["--confidence"], ["--variant", "shi-malik"], ["--drop-missing"]])
def test_what_does_not_run_on_disk_is_refused(data, little, shell, tmp_path, more):
    code, _, err = cluster(shell, data, tmp_path / "out.h5", "--quiet", *more)
    assert code == 2
    assert f"{' '.join(more)} does not run" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("size", [3_000, 40_000, 150_000, 400_000])
@pytest.mark.parametrize("verb", ["cluster", "graph"])
def test_a_disk_that_fills_up_is_told_in_a_line(
    data, little, shell, tmp_path, monkeypatch, size, verb
):
    """Wherever it ends: files that grow beyond fail with EFBIG, as with ENOSPC."""
    monkeypatch.setattr(graph, "_stays_on_disk", lambda *_: True)
    out = tmp_path / "out.h5"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        if verb == "graph":
            code, _, err = shell("graph", data, "--memory", "2GB", "-o", out)
        else:
            code, _, err = cluster(shell, data, out, "--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    told = [line for line in err.splitlines() if line.startswith("mustlink:")]
    assert code == 2, err
    assert len(told) == 1
    assert "Traceback" not in err
    assert not out.exists()
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".tmp")]
