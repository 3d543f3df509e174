"""Graphs in files that stay there: read by rows, planned, cut by the shell, refused in a line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from cases import planted_graph, random_graph
from mustlink.context.method_cost import DiskCost, FitInput
from mustlink.errors import InputError
from mustlink_io import formats, open_graph
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.graphs import stored_graph


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def write(path, W, **how):
    """A graph as files of other programs have it: datasets in any layout."""
    W = sp.csr_matrix(W)
    with h5py.File(path, "w", **how.pop("file", {})) as file:
        group = file.create_group("graph")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", W.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(W, name), **how)
    return path


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": (37,)},
        {"chunks": (37,), "compression": "gzip", "shuffle": True},
        {"file": {"userblock_size": 512}},
        {"dtype": ">i8"},
    ],
)
def test_every_layout_is_read(rng, tmp_path, how):
    W = random_graph(rng, 60, 2, isolated=3, weighted="dtype" not in how)
    path = write(tmp_path / "graph.h5", W, **how)
    found = stored_graph(path, "/graph", tmp_path).whole()
    assert abs(found - W).max() == 0
    assert [one.name for one in tmp_path.iterdir()] == ["graph.h5"]


def test_a_graph_is_opened_in_python(rng, tmp_path):
    W = random_graph(rng, 60)
    graph = open_graph(write(tmp_path / "graph.h5", W))
    assert graph.shape == (60, 60)
    assert graph.nnz == W.nnz
    with pytest.raises(InputError, match="no such file"):
        open_graph(tmp_path / "none.h5")


def test_what_mustlink_writes_is_read(rng, tmp_path):
    W, path = random_graph(rng, 60), tmp_path / "graph.h5"
    writing.write(str(path), formats.matrices.graph_content(W))
    assert abs(stored_graph(path, "/graph").whole() - W).max() == 0


@pytest.mark.parametrize(
    ("part", "values", "what"),
    [
        ("indptr", [0.0, 1.0], "integers"),
        ("indptr", [[0, 1]], "one dimension"),
        ("data", ["a"], "numbers"),
        ("indptr", [0, 5, 4], "row"),
        ("data", [1.0], "weights"),
    ],
)
def test_what_is_no_graph_is_told(rng, tmp_path, part, values, what):
    path = write(tmp_path / "graph.h5", random_graph(rng, 60))
    with h5py.File(path, "r+") as file:
        del file["graph"][part]
        file["graph"][part] = values
    with pytest.raises(InputError, match=what) as caught:
        stored_graph(path, "/graph")
    assert "\n" not in str(caught.value)


@pytest.fixture
def little(monkeypatch):
    """No graph fits into memory."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


@pytest.fixture
def planted(rng, tmp_path):
    W, truth = planted_graph(rng, 600, 4, inside=0.2, across=0.01)
    return write(tmp_path / "graph.h5", W), truth


@pytest.mark.thorough
def test_a_graph_is_cut_on_disk(planted, little, shell, tmp_path, monkeypatch):
    monkeypatch.setattr("mustlink_io.jobs.run._WORTH", np.inf)  # stages that compile take long
    path, truth = planted
    out = tmp_path / "out.h5"
    line = ["cluster", path, "-k", 4, "--memory", "1GB", "-o", out, "--json"]
    code, said, err = shell(*line)
    assert code == 0, err
    told = json.loads(said)
    assert told["method"].endswith("on disk")
    assert any("stay on disk" in note for note in told["notes"])
    assert sum(told["sizes"]) == 600
    assert len(told["clusters"]["conductance"]) == 4
    assert told["network"]["modularity"] > 0.5
    assert told["planned_peak_bytes"] <= 10**9
    with h5py.File(out) as file:
        assert adjusted_rand_score(truth, file["labels"][()]) == 1.0
        assert file["embedding"].shape == (600, 4)
        assert np.isfinite(file["embedding"][()]).all()
    assert {one.name for one in tmp_path.iterdir()} == {"graph.h5", "out.h5"}
    assert shell("info", out)[0] == 0
    page = tmp_path / "page.html"
    assert shell("report", out, "-o", page)[0] == 0


@pytest.mark.thorough
def test_the_plan_says_so(planted, little, shell):
    code, said, _ = shell("plan", planted[0], "-k", 4, "--memory", "1GB", "--json")
    assert code == 0
    plan = json.loads(said)
    assert any("stay on disk" in change for change in plan["changes"])
    assert plan["least_memory"] <= 10**9
    code, _, err = shell("plan", planted[0], "-k", 4, "--memory", "300MB")
    assert code == 2
    assert err.count("\n") == 1
    assert "on disk" in err


@pytest.mark.parametrize("more", [["--confidence"], ["-m", "sl"], ["--variant", "shi-malik"]])
def test_what_does_not_run_on_disk_is_refused(planted, little, shell, tmp_path, more):
    clusters = 2 if "shi-malik" in more else 4
    line = ["cluster", planted[0], "-k", clusters, "--memory", "1GB", *more]
    code, _, err = shell(*line, "-o", tmp_path / "out.h5")
    assert code == 2
    assert f"{' '.join(more)} does not run" in err
    assert err.count("\n") == 1


def test_edges_in_a_large_text_are_to_be_converted_first(planted, shell, tmp_path):
    source = tmp_path / "list.edges"
    source.write_text("0 1\n" * 300_000)
    code, _, err = shell("cluster", source, "-k", 2, "--memory", "1MB", "-o", "a.h5")
    assert code == 2
    assert "mustlink convert list.edges graph.h5 --memory 1MB" in err
    assert err.count("\n") == 1


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("damage", ["one way", "negative", "column"])
def test_damage_is_told_in_a_line(planted, little, shell, tmp_path, damage):
    path = planted[0]
    with h5py.File(path, "r+") as file:
        group = file["graph"]
        if damage == "one way":
            group["data"][3] *= 2
        elif damage == "negative":
            group["data"][3] = -1.0
        else:
            group["indices"][3] = 600
    out = tmp_path / "out.h5"
    code, _, err = shell("cluster", path, "-k", 4, "--memory", "1GB", "-o", out, "--quiet")
    assert code == 2
    assert err.count("\n") == 1
    assert str(path) in err
    assert not out.exists()


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
del sys.argv[1]
from mustlink_io.commands.cli import main
main()
"""


@pytest.mark.thorough
def test_memory_that_is_named_holds(tmp_path):
    """A grid of 600 by 500 nodes in less than it takes whole."""
    rows, columns = (sp.diags([1.0, 1.0], [-1, 1], shape=(n, n)) for n in (600, 500))
    W = sp.kron(rows, sp.identity(500)) + sp.kron(sp.identity(600), columns)
    graph = write(tmp_path / "grid.h5", W.astype(np.float32))
    cost = DiskCost(300_000, W.nnz, 6)
    memory = int(1.02 * cost.least_memory)
    line = [sys.executable, "-c", LIMITED, memory, "cluster", graph, "-k", 3, "--memory"]
    line += [f"{memory}B", "--regularization", 0, "-o", tmp_path / "out.h5", "--json", "--quiet"]
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["method"].endswith("on disk")
    assert told["peak_bytes"] <= memory
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.bincount(file["labels"][()]).min() > 50_000


@pytest.mark.thorough
def test_a_full_disk_is_told_in_a_line(planted, little, shell, tmp_path, monkeypatch):
    """Whichever of the temporary files it is that finds no room."""
    allocate, left = os.posix_fallocate, [0]

    def limited(*given):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(*given)

    monkeypatch.setattr(os, "posix_fallocate", limited)
    out = tmp_path / "out.h5"
    for files in (0, 3, 40):
        left[0] = files
        line = ["cluster", planted[0], "-k", 4, "--memory", "1GB", "--quiet", "-o", out]
        code, _, err = shell(*line)
        assert code != 0
        assert "do not fit" in err
        assert err.count("\n") == 1
        assert not out.exists()


def test_a_time_limit_is_kept(planted, little, shell, tmp_path):
    line = ["cluster", planted[0], "-k", 4, "--memory", "1GB", "--time", "0.01s"]
    code, said, _ = shell(*line, "--json", "-o", tmp_path / "out.h5")
    assert code == 0
    assert any("time limit" in told for told in json.loads(said)["warnings"])


def test_names_and_copies_are_in_the_result(planted, rng, little, shell, tmp_path):
    path, truth = planted
    names = [f"node {at}" for at in rng.permutation(700)]
    rows = rng.permutation(np.r_[np.arange(600), rng.integers(0, 600, 100)])
    with h5py.File(path, "r+") as file:
        file.create_dataset("names", data=names, dtype=h5py.string_dtype())
        file["graph/rows"], file["graph/weights"] = rows, np.bincount(rows).astype(float)
    out = tmp_path / "out.h5"
    line = ["cluster", path, "-k", 4, "--memory", "1GB", "-o", out, "--json"]
    code, said, err = shell(*line)
    assert code == 0, err
    told = json.loads(said)
    assert sum(told["sizes"]) == sum(told["clusters"]["sizes"]) == 700
    with h5py.File(out) as file:
        assert adjusted_rand_score(truth[rows], file["labels"][()]) > 0.9
        assert [name.decode() for name in file["names"][()]] == names
        assert file["embedding"].shape == (700, 4)


@pytest.mark.thorough
def test_rows_alone_are_another_order(planted, rng, shell, tmp_path, monkeypatch):
    """Nodes numbered by where they lie: in memory and on disk answers are those of the rows."""
    path, truth = planted
    rows = rng.permutation(600)
    with h5py.File(path, "r+") as file:
        file["graph/rows"] = rows.astype(np.int32)
    for least in (0, 10**15):
        monkeypatch.setattr(FitInput, "at_home", lambda *_, least=least: least)
        out = tmp_path / "out.h5"
        line = ["cluster", path, "-k", 4, "--memory", "1GB", "-o", out, "--quiet"]
        assert shell(*line)[0] == 0
        with h5py.File(out) as file:
            assert adjusted_rand_score(truth[rows], file["labels"][()]) == 1.0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("rows", [0, 1]),
        ("rows", np.full(700, 600)),
        ("rows", np.zeros(700, int)),
        ("weights", np.ones(7)),
        ("weights", np.full(600, -1.0)),
        ("names", ["a", "b"]),
    ],
)
def test_damaged_copies_are_told(planted, little, shell, tmp_path, part, values):
    with h5py.File(planted[0], "r+") as file:
        file[part if part == "names" else f"graph/{part}"] = values
    line = ["cluster", planted[0], "-k", 4, "--memory", "1GB", "-o", tmp_path / "out.h5"]
    code, _, err = shell(*line, "--quiet")
    assert code == 2
    assert err.count("\n") == 1
    assert str(planted[0]) in err
