"""Labels spread by the shell over a graph that stays in its file."""

from __future__ import annotations

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from cases import planted_graph
from mustlink.context.method_cost import DiskCost, FitInput
from mustlink_io.formats.matrices import graph_content
from mustlink_io.hdf5 import writing


@pytest.fixture
def little(monkeypatch):
    """No graph fits into memory."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


@pytest.fixture
def data(tmp_path):
    """A graph of three groups, a table of labels with names, and as many numbers."""
    W, truth = planted_graph(np.random.default_rng(4), 600, 3, inside=0.2, across=0.01)
    writing.write(tmp_path / "graph.h5", graph_content(sp.csr_matrix(W)))
    at = np.random.default_rng(5).choice(600, 30, replace=False)
    names = np.array(["ant", "bee", "cow"])[truth]
    (tmp_path / "few.csv").write_text("\n".join(["node,label", *(f"{i},{names[i]}" for i in at)]))
    np.save(tmp_path / "few.npy", np.where(np.isin(np.arange(600), at), truth, -1))
    return tmp_path


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["poisson", "gfhf --class-mass", "llgc", "tik-reg"])
def test_the_same_file_as_at_home(data, mustlink, monkeypatch, method):
    line = f"propagate graph.h5 --labels few.csv -m {method} --json -o "
    more = " --alpha 0.9 --class-shares equal" if method == "llgc" else ""
    assert mustlink(f"{line}home.h5 --quiet{more}")[0] == 0
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)
    code, said, err = mustlink(f"{line}there.h5 --memory 1GB{more}")
    assert code == 0, err
    told = json.loads(said)
    assert told["method"].endswith("on disk")
    assert any("stay on disk" in note for note in told["notes"])
    assert told["planned_peak_bytes"] <= 10**9  # the peak is that of all tests before
    with h5py.File(data / "home.h5") as home, h5py.File(data / "there.h5") as there:
        for name in ("labels", "classes", "class_names", "constraints/labels"):
            assert np.array_equal(home[name][()], there[name][()]), name
        for name in ("label_distributions", "confidence"):
            np.testing.assert_allclose(there[name][()], home[name][()], atol=2e-6)
    assert mustlink("info there.h5")[0] == 0
    assert mustlink("report there.h5 -o page.html")[0] == 0


@pytest.mark.thorough
def test_the_plan_says_so(data, little, mustlink):
    line = "plan graph.h5 --for propagate -m gfhf --labels few.csv --memory"
    code, said, err = mustlink(f"{line} 1GB --json")
    assert code == 0, err
    plan = json.loads(said)
    assert any("stay on disk" in change for change in plan["changes"])
    assert "propagating" in [stage["name"] for stage in plan["stages"]]
    code, _, err = mustlink(f"{line} 300MB")
    assert code == 2
    assert "on disk" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("more", ["-m gwem", "-m gfhf --solver dense", "-m cluster-kernel"])
def test_what_does_not_run_on_disk_is_refused(data, little, mustlink, more):
    line = f"propagate graph.h5 --labels few.npy --memory 1GB {more} -o no.h5"
    code, _, err = mustlink(line)
    assert code == 2
    assert err.count("\n") == 1
    assert not (data / "no.h5").exists()


@pytest.mark.thorough
def test_memory_that_is_named_holds(tmp_path):
    """A grid of 600 by 500 nodes in less than it takes whole."""
    rows, columns = (sp.diags([1.0, 1.0], [-1, 1], shape=(n, n)) for n in (600, 500))
    W = sp.kron(rows, sp.identity(500)) + sp.kron(sp.identity(600), columns)
    writing.write(tmp_path / "grid.h5", graph_content(W.astype(np.float32).tocsr()))
    known = np.full(300_000, -1)
    known[[0, 299_999, 150_000]] = [0, 1, 1]
    np.save(tmp_path / "few.npy", known)
    memory = int(1.02 * DiskCost.of_labels(300_000, W.nnz, 2).least_memory)
    line = ["propagate", "grid.h5", "--labels", "few.npy", "-m", "gfhf", "--memory", f"{memory}B"]
    line += ["--tol", "1e-3", "--threads", "2", "-o", "out.h5", "--json", "--quiet"]
    command = [sys.executable, "-m", "mustlink_io", *line]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["method"].endswith("on disk")
    assert told["peak_bytes"] <= memory
    assert min(told["sizes"]) > 1000
