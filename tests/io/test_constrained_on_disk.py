"""`mustlink cluster` with labels and constraints of a graph that stays in its file."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from cases import planted_graph
from mustlink.context.method_cost import FitInput
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.hdf5 import writing
from mustlink_io.jobs.fits import ClusterJob
from mustlink_io.jobs.on_disk import in_memory_only

METHODS = ("csp", "sssc", "fast-ge", "ap")


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """No graph fits into memory."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


def planted():
    return planted_graph(np.random.default_rng(4), 600, 3, inside=0.2, across=0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a graph of three groups, labels of some nodes and pairs of others."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("planted")
    W, truth = planted()
    writing.write(str(folder / "graph.h5"), formats.matrices.graph_content(W))
    np.save(folder / "labels.npy", np.where(rng.random(600) < 0.1, truth, -1))
    pairs = rng.permutation(600).reshape(300, 2)
    same = np.where(truth[pairs[:, 0]] == truth[pairs[:, 1]], 1, -1)
    lines = [f"{a},{b},{belief}" for (a, b), belief in zip(pairs, same, strict=True)]
    (folder / "pairs.csv").write_text("\n".join(["i,j,belief", *lines]))
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("told", ["--labels labels.npy", "--constraints pairs.csv"])
@pytest.mark.parametrize("method", METHODS)
def test_constraints_on_disk(data, mustlink, method, told):
    folder, truth = data, planted()[1]
    line = f"cluster graph.h5 -k 3 -m {method} {told} --memory 1GB --json -o out.h5"
    code, said, err = mustlink(line)
    assert code == 0, err
    found = json.loads(said)
    assert any("stay on disk" in note for note in found["notes"])
    assert found["satisfaction"]["balanced"] > 0.95
    assert found["choices"]["subspace"] <= 12
    assert found["planned_peak_bytes"] <= 10**9
    assert len(found["clusters"]["conductance"]) == 3
    assert found["constraints"]["kind"] == ("labels" if "labels" in told else "pairs")
    with h5py.File(folder / "out.h5") as file:
        assert adjusted_rand_score(truth, file["labels"][()]) > 0.97
        assert len(file["embedding"]) == 600
        assert "constraints" in file
    assert mustlink("info out.h5")[0] == 0
    assert mustlink("report out.h5 -o page.html")[0] == 0
    for one in ("out.h5", "page.html"):
        (folder / one).unlink()


def test_the_plan_says_so(data, mustlink):
    line = "plan graph.h5 -k 3 -m csp --labels labels.npy --memory 1GB --json"
    code, said, err = mustlink(line)
    assert code == 0, err
    plan = json.loads(said)
    assert any("stay on disk" in change for change in plan["changes"])


@pytest.mark.thorough
def test_rows_in_another_order_keep_what_is_said_of_them(data, mustlink):
    folder, truth = data, planted()[1]
    rows = np.random.default_rng(3).permutation(600)
    moved, few = folder / "moved.h5", np.load(folder / "labels.npy")[rows]
    moved.write_bytes((folder / "graph.h5").read_bytes())
    with h5py.File(moved, "r+") as file:
        file["graph/rows"] = rows.astype(np.int32)
    np.save(folder / "moved.npy", few)
    line = "cluster moved.h5 -k 3 -m csp --labels moved.npy --memory 1GB --json -o out.h5"
    code, said, err = mustlink(line)
    assert code == 0, err
    assert json.loads(said)["satisfaction"]["balanced"] > 0.95
    with h5py.File(folder / "out.h5") as file:
        assert adjusted_rand_score(truth[rows], file["labels"][()]) > 0.97


@pytest.mark.thorough
def test_names_are_known(data, mustlink):
    folder, truth = data, planted()[1]
    named, names = folder / "named.h5", [f"n{at}" for at in range(600)]
    named.write_bytes((folder / "graph.h5").read_bytes())
    with h5py.File(named, "r+") as file:
        file.create_dataset("names", data=names, dtype=h5py.string_dtype())
    lines = [f"{names[at]},c{truth[at]}" for at in range(0, 600, 9)]
    (folder / "named.csv").write_text("\n".join(["name,class", *lines]))
    line = "cluster named.h5 -k 3 -m csp --labels named.csv --memory 1GB --json -o out.h5"
    code, said, err = mustlink(line)
    assert code == 0, err
    assert json.loads(said)["satisfaction"]["balanced"] > 0.95


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "more", ["--subspace exact", "--assign split", "--beta search", "--confidence"]
)
def test_what_does_not_run_on_disk_needs_the_memory(data, mustlink, more):
    line = f"cluster graph.h5 -k 3 -m csp --labels labels.npy --memory 1GB -o no.h5 {more}"
    line = line.replace("-k 3", "-k 2") if "split" in more else line
    code, _, err = mustlink(line)
    assert code == 2, err
    assert f"{more} does not run" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("method", ["csp", "srcp"])
def test_a_wrong_value_is_no_want_of_memory_whatever_its_words(method):
    name = {"csp": "assign", "srcp": "solver"}[method]
    parameters = {name: "this does not run"}
    job = ClusterJob(data="w.h5", output="o.h5", method=method, n_clusters=3, params=parameters)
    with pytest.raises(InputError, match=f"^{name}: .* unknown"):
        in_memory_only(job, is_points=False)


def test_nodes_that_stand_for_several_are_refused(data, mustlink):
    folder = data
    several = folder / "several.h5"
    several.write_bytes((folder / "graph.h5").read_bytes())
    with h5py.File(several, "r+") as file:
        file["graph/weights"] = np.full(600, 2.0)
    line = "cluster several.h5 -k 3 -m csp --labels labels.npy --memory 1GB -o no.h5 --quiet"
    code, _, err = mustlink(line)
    assert (code, err.count("\n")) == (2, 1), err
    assert "stand for several rows" in err
