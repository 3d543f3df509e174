"""Dask workers (extra `dask`): the same lists and files, workers killed, what is absent."""

import pickle
import subprocess
import sys
import time
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mustlink.context.neighbor_cost import cell_layout
from mustlink.neighbors.cell_search import cell_lists
from mustlink.neighbors.points_by_rows import prepare
from mustlink_io.commands import cli
from mustlink_io.hdf5 import writing
from mustlink_io.workers import dask_cluster

RANDOM_MOMENTS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]


@pytest.fixture
def points(tmp_path):
    """A file of points."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 8)) + 4 * rng.integers(3, size=(6000, 1))
    writing.write(tmp_path / "points.h5", {"/points": X.astype(np.float32)})
    return tmp_path / "points.h5"


def search(path, executor=None):
    """Neighbours of the points in a file, in blocks so small that tasks are many."""
    with h5py.File(path, "r") as file:
        rows = prepare(file["points"], "euclidean")
        sizes = replace(cell_layout(*rows.shape, 9), block=300, chunk=1000, rows=1000)
        rng = np.random.default_rng(1)
        how = {"sample": 100, "folder": path.parent, "executor": executor}
        return cell_lists(rows, 9, rng, sizes, **how)


def in_one_process(path):
    """The search on disk, without tasks."""
    return search(path)


@pytest.mark.thorough
def test_two_workers_find_what_one_process_does(client, points):
    lists = search(points, client.get_executor(pure=False))
    expected = in_one_process(points)
    assert_array_equal(lists[0], expected[0])
    assert_array_equal(lists[1], expected[1])
    assert lists[2] == expected[2]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", RANDOM_MOMENTS)
def test_a_worker_killed_in_a_search_changes_nothing(doomed, points, seed):
    client, kill_one = doomed
    expected = in_one_process(points)
    executor = client.get_executor(pure=False)
    began = time.perf_counter()
    search(points, executor)
    usual = time.perf_counter() - began
    kill_one(np.random.default_rng(seed).uniform(0, usual))
    lists = search(points, executor)
    assert_array_equal(lists[0], expected[0])
    assert_array_equal(lists[1], expected[1])


def test_a_scheduler_that_is_not_there(points, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "_ANSWER", "300ms")
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        words = ["graph", str(points), "-o", str(points.parent / "g.h5"), "--scheduler", address]
        assert cli.run(words) == 2
        err = capsys.readouterr().err.strip()
        assert err.startswith(f"mustlink: --scheduler {address}: no answer")
        assert len(err.splitlines()) == 1


def test_a_scheduler_that_ends_is_one_line(points, capsys, monkeypatch):
    class Gone(Executor):
        def submit(self, task, /, *given, **named):
            done = Future()
            done.set_exception(CancelledError())
            return done

    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    monkeypatch.setattr(dask_cluster, "executor_of", lambda *_: nullcontext(Gone()))
    assert cli.run(["graph", str(points), "-o", str(points.parent / "g.h5"), "--quiet"]) == 1
    err = capsys.readouterr().err.strip()
    assert err.startswith("mustlink: executor: a task of the neighbour search was cancelled")
    assert len(err.splitlines()) == 1
    assert {one.name for one in points.parent.iterdir()} == {"points.h5"}


@pytest.mark.parametrize("option", [["--workers", "2"], ["--scheduler", "tcp://127.0.0.1:1"]])
def test_without_dask_one_line_says_what_to_install(points, capsys, monkeypatch, option):
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.run(["graph", str(points), "-o", str(points.parent / "g.h5"), *option]) == 2
    err = capsys.readouterr().err.strip()
    assert err.startswith(f"mustlink: {option[0]}: needs dask; ")
    assert err.endswith("pip install 'mustlink[dask]'")
    assert len(err.splitlines()) == 1


@pytest.mark.thorough
def test_nothing_imports_dask_before_it_is_asked_for():
    program = (
        "import sys, mustlink, mustlink_io.commands.cli, mustlink.neighbors.tasks;"
        "print([m for m in ('dask', 'distributed') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert told.stdout.decode().strip() == "[]"


@pytest.mark.thorough
def test_labels_are_spread_over_neighbours_that_workers_found(points, monkeypatch):
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    with h5py.File(points) as file:
        kinds = np.clip(np.round(file["points"][:].mean(axis=1) / 4), 0, 2).astype(int)
    known = np.where(np.arange(6000) % 300 == 0, kinds, -1)
    np.save(points.parent / "few.npy", known)
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(dask_cluster, "executor_of", lambda *_: nullcontext(pool))
        at, asked = points.parent, ["--workers", "2", "--quiet"]
        assert cli.run(["graph", str(points), "-o", str(at / "g.h5"), *asked]) == 0
        few = ["--labels", str(at / "few.npy"), "-m", "gfhf"]
        assert cli.run(["propagate", str(points), *few, "-o", str(at / "a.h5"), *asked]) == 0
        monkeypatch.undo()
    line = ["propagate", str(points), "--graph", str(at / "g.h5"), *few, "-o", str(at / "b.h5")]
    assert cli.run([*line, "--quiet"]) == 0
    with h5py.File(at / "a.h5") as one, h5py.File(at / "b.h5") as other:
        assert_array_equal(one["labels"][:], other["labels"][:])


@pytest.mark.parametrize(
    "kind", ["points.h5", "points.npy", "points.csv", "points.h5 --standardize"]
)
def test_passes_of_representatives_are_tasks_where_rows_are_in_a_file(kind, points, monkeypatch):
    class Counts(ThreadPoolExecutor):
        tasks = 0

        def submit(self, task, /, *given):
            self.tasks += 1
            return super().submit(pickle.loads(pickle.dumps(task)), *given)

    at = points.parent
    with h5py.File(points) as file:
        np.save(at / "points.npy", X := file["points"][:])
    np.savetxt(at / "points.csv", X, delimiter=",", header=",".join("abcdefgh"), comments="")
    name, *steps = kind.split()
    line = ["cluster", str(at / name), "-k", "3", "-m", "ncut", "--representatives", "50", *steps]
    with Counts(2) as pool:
        monkeypatch.setattr(dask_cluster, "executor_of", lambda *_: nullcontext(pool))
        output = ["-o", str(at / "a.h5"), "--quiet", "--workers", "2"]
        assert cli.run([*line, *output]) == 0
        monkeypatch.undo()
    assert cli.run([*line, "-o", str(at / "b.h5"), "--quiet"]) == 0
    assert (pool.tasks > 0) == (kind != "points.csv")
    with h5py.File(at / "a.h5") as one, h5py.File(at / "b.h5") as other:
        assert_array_equal(one["labels"][:], other["labels"][:])
        told = one["report"].asstr()[()]
    assert ("workers read those of" in told) == (kind == "points.csv")


def test_workers_have_no_use_for_a_graph_that_was_given(points, capsys):
    line = ["propagate", str(points), "--labels", "few.npy", "--graph", "g.h5", "--workers", "2"]
    assert cli.run([*line, "-o", str(points.parent / "out.h5")]) == 2
    assert "leave out --workers and --scheduler" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cluster -k 2", "graph", "propagate --labels few.csv"])
def test_a_graph_has_its_neighbours(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text("node,label\n0,0\n3,1\n")
    monkeypatch.setattr(dask_cluster, "executor_of", lambda *_: nullcontext(object()))
    (tmp_path / "list.edges").write_text("0 1\n1 2\n2 3\n")
    word, *rest = command.split()
    data, out = str(tmp_path / "list.edges"), tmp_path / "out.h5"
    assert cli.run([word, data, *rest, "--workers", "2", "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert "is a graph" in err
    assert "leave out --workers" in err
    assert not out.exists()


def test_a_plan_counts_no_workers(capsys):
    assert cli.run(["plan", "1000x3", "--workers", "2"]) == 2
    assert "No such option" in capsys.readouterr().err
