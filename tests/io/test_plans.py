"""Promises of plans: the least memory that is named runs, less is refused; one rule says where."""

import json

import h5py
import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.context.method_cost import Cost, DiskCost, FitInput, home_for
from mustlink.errors import InputError
from mustlink_io.commands.cli import run as cli
from mustlink_io.formats.matrices import graph_content
from mustlink_io.hdf5 import writing
from mustlink_io.jobs.fits import ClusterJob, PropagateJob
from mustlink_io.jobs.methods import METHODS, PROPAGATORS
from mustlink_io.jobs.on_disk import Shape
from mustlink_io.jobs.planning import plan_job

SHAPES = [(300, 2), (10**4, 784), (3 * 10**5, 16), (10**6, 128), (10**7, 16), (10**8, 3)]
JOBS = [("cluster", name) for name in METHODS if name != "disim"]
JOBS += [("propagate", name) for name in PROPAGATORS]


def planned(verb, method, shape, memory=None):
    given = {"data": "x", "output": "", "method": method, "memory": memory, "labels": "y.csv"}
    if verb == "propagate":
        job = PropagateJob(**given)
    else:
        job = ClusterJob(n_clusters=10, **given | ({"labels": None} if method == "ncut" else {}))
    return plan_job(job, shape=Shape(*shape, 0, 4 * shape[0] * shape[1]))


@pytest.mark.thorough(but=21)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("verb", "method"), JOBS)
def test_a_plan_within_what_it_names_is_a_plan_and_with_less_there_is_none(verb, method, shape):
    least = planned(verb, method, shape).least
    for more in (1.0, 1.01, 1.2, 2.0, 9.0):
        plan = planned(verb, method, shape, int(more * least))
        assert plan.least == least
        assert plan.peak_bytes <= more * least
    with pytest.raises(InputError, match=r"needs at least|or give"):
        planned(verb, method, shape, int(0.98 * least))


@pytest.fixture
def files(tmp_path, monkeypatch):
    X, y = blobs(np.random.default_rng(0), 600, 3, d=6)
    monkeypatch.chdir(tmp_path)
    with h5py.File("points.h5", "w") as file:
        file["points"] = X.astype(np.float32)
    writing.write(tmp_path / "graph.h5", graph_content(ml.knn_graph(X, random_state=0).affinity))
    np.save("few.npy", np.where(np.arange(600) % 10 == 0, y, -1))


@pytest.mark.thorough
@pytest.mark.parametrize("home", ["memory", "disk"])
@pytest.mark.parametrize("data", ["points.h5", "graph.h5"])
@pytest.mark.parametrize(
    ("verb", "method"),
    [("cluster", "ncut"), ("cluster", "csp"), ("cluster", "srcp"), ("propagate", "gfhf")],
)
def test_the_least_memory_that_is_named_runs_and_less_is_refused(
    files, shell, monkeypatch, verb, method, data, home
):
    """By the checks of the fit, whatever this process held before."""
    if home == "disk":
        monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)
    how = ["-m", method, *(["-k", 3] if verb == "cluster" else [])]
    how += [] if method == "ncut" else ["--labels", "few.npy"]
    least = json.loads(shell("plan", data, "--for", verb, *how, "--json")[1])["least_memory"]
    line = [verb, data, *how, "-o", "out.h5", "--quiet", "--json", "--memory"]
    code, said, err = shell(*line, f"{least}B")
    assert code == 0, err
    # The spread fields of srcp are most of what it takes: its least memory is that of the disk.
    there = home == "disk" or method == "srcp"
    assert json.loads(said)["method"].endswith("on disk") == there
    code, _, err = shell(*line, f"{int(0.98 * least)}B")
    assert code == 2
    assert "needs at least" in err


def test_a_home_is_the_first_that_fits():
    cost, stored = Cost(10, 10), DiskCost(10**6, 15 * 10**6, 12)
    given = FitInput(10**6, 0, 16, 15, 10**6)
    home, disk = given.at_home(cost), given.on_disk(stored)
    assert disk < home
    assert home_for(None, cost, given, stored).name == "memory"
    assert home_for(home, cost, given, stored).name == "memory"
    assert home_for(home - 1, cost, given, stored).name == "disk"
    assert home_for(disk, cost, given, stored).name == "disk"
    assert home_for(disk - 1, cost, given, stored).name is None
    assert home_for(home - 1, cost, given).name is None
    assert home_for(home - 1, cost, given, stored).least == disk
    assert "GB in memory" in home_for(disk, cost, given, stored).why


def test_points_that_the_caller_holds_take_their_part():
    cost, n, d = Cost(10, 10), 10**6, 100
    in_file, held = (FitInput(n, 0, d, 15, n, in_file=so) for so in (True, False))
    assert held.at_home(cost) == in_file.at_home(cost) + 4 * n * d
    assert home_for(10**11, cost, in_file).held == 4 * n * d
    assert home_for(in_file.at_home(cost), cost, in_file).held == 0


@pytest.mark.thorough
def test_without_a_named_memory_a_plan_keeps_to_what_there_is_and_says_whose(monkeypatch, capsys):
    line = ["plan", "1000000x64", "-k", "10"]

    def plan(*words):
        assert cli([*line, *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    monkeypatch.setenv("MUSTLINK_MEMORY", "1GB")
    short = plan()
    assert (short["memory"], short["memory_here"]) == (10**9, 10**9)
    assert short["memory_source"] == "named by MUSTLINK_MEMORY"
    assert short["peak_bytes"] == plan("--memory", "1GB")["peak_bytes"] <= 10**9
    assert any("stay on disk" in change for change in short["changes"])
    none = plan("--memory", "none")
    assert (none["memory"], none["memory_source"]) == (None, "")
    monkeypatch.setenv("MUSTLINK_MEMORY", "900GB")
    ample = plan()
    assert (ample["memory"], ample["changes"]) == (None, none["changes"])
    assert cli(line) == 0
    assert "named by MUSTLINK_MEMORY: enough" in " ".join(capsys.readouterr().out.split())
    for named, words in (("300MB", "300 MB, named by MUSTLINK_MEMORY, but"), ("3x", "not a size")):
        monkeypatch.setenv("MUSTLINK_MEMORY", named)
        assert cli(line) == 2
        told = capsys.readouterr().err
        assert words in told
        assert told.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("copies", [1, 2])
def test_a_plan_counts_rows_that_differ_where_a_sample_has_equal_ones(copies, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400_000 // copies, 4)).astype(np.float32)
    X = X[rng.integers(len(X), size=400_000)] if copies > 1 else X
    np.save(path := tmp_path / "rows.npy", X)
    assert cli(["plan", str(path), "-k", "5", "-m", "ncut", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert ("equal rows, which become one" in json.dumps(plan)) == (copies > 1)
