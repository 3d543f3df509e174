"""Batches by Dask's workers: jobs done again where a worker is lost, stopped, refused."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mustlink_io.batch import children
from mustlink_io.commands import cli
from mustlink_io.hdf5 import store, writing

RANDOM_MOMENTS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]
SECONDS = 0.3  # of a job

# Stands in for a job: copies a small HDF5 file to its output, and dies with its worker.
CHILD = """
import json, os, shutil, sys, time
from mustlink_io.commands.batch_child import _die_with
_die_with(int(sys.argv[1]))
words = sys.argv[2:]
out = words[words.index("-o") + 1]
assert "--threads=1" in words, words
with open("events.txt", "a") as file:
    file.write(out + chr(10))
print('{"half":', flush=True)
time.sleep(float(open("seconds.txt").read()))
shutil.copyfile("points.h5", out + ".tmp")
os.replace(out + ".tmp", out)
print('0, "n_nodes": 6, "seconds": 0.1}')
"""
JOBS = """
[[job]]
name = "j{seed}"
data = "points.h5:/points"
k = 2
method = "ncut"
seed = [0, 1, 2, 3, 4]
output = "out-{seed}.h5"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with points, a file of five jobs and what they do; the working directory."""
    writing.write(tmp_path / "points.h5", {"/points": np.arange(12.0).reshape(6, 2)})
    (tmp_path / "jobs.toml").write_text(JOBS)
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "seconds.txt").write_text(str(SECONDS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(children, "PROGRAM", ("child.py",))
    return tmp_path


def run(client, *words):
    """`mustlink batch` by the workers of a client: its exit code."""
    return cli.run(["batch", "jobs.toml", "--scheduler", client.scheduler.address, *words])


def check_all_done(folder):
    """Every job is done, and nothing is left of another attempt at it."""
    for seed in range(5):
        assert (folder / f"out-{seed}.h5").read_bytes() == (folder / "points.h5").read_bytes()
        place = folder / "jobs.toml.state" / f"j{seed}"
        assert {one.name for one in place.iterdir()} == {"status.json", "log.txt", "result.json"}
        assert json.loads((place / "result.json").read_text())["n_nodes"] == 6
        status = json.loads((place / "status.json").read_text())
        assert (status["phase"], status["attempts"], status["threads"]) == ("done", 1, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", RANDOM_MOMENTS)
def test_a_job_whose_worker_is_killed_is_done_again(doomed, folder, seed):
    client, kill_one = doomed
    kill_one(np.random.default_rng(seed).uniform(0.1, 2 * SECONDS))
    assert run(client) == 0
    check_all_done(folder)


@pytest.mark.thorough
def test_jobs_that_wait_run_side_by_side(client, folder):
    assert run(client) == 0
    check_all_done(folder)
    began = (folder / "events.txt").read_text().split()
    assert sorted(Path(one).name for one in began) == [f"out-{seed}.h5" for seed in range(5)]


@pytest.mark.thorough
def test_a_signal_stops_jobs_wherever_they_run(client, folder, request):
    # A process that a shell began in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    (folder / "seconds.txt").write_text("60")

    def interrupt():
        while not (folder / "events.txt").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    assert run(client) == 130
    assert time.monotonic() - began < 30
    thread.join()
    found = json.loads((folder / "jobs.toml.state" / "j0" / "status.json").read_text())
    assert found["phase"] == "interrupted"
    (folder / "seconds.txt").write_text("0")
    assert run(client, "--resume") == 0


@pytest.mark.thorough
def test_a_job_that_fails_says_why(client, folder, monkeypatch, capsys):
    monkeypatch.setattr(children, "PROGRAM", ("-c", "1/0"))
    assert run(client) == 1
    assert "j1: failed: exit code 1: ZeroDivisionError: division by zero" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_real_job_by_workers_begun_for_it(folder, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (folder / "jobs.toml").write_text(
        '[[job]]\nname = "g"\ncommand = "graph"\ndata = "points.h5:/points"\noutput = "g.h5"\n'
    )
    assert cli.run(["batch", "jobs.toml", "--scheduler", "local", "--quiet"]) == 0
    with store.open_h5(folder / "g.h5") as file:
        assert file


def test_without_dask_or_scheduler_nothing_runs(folder, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "dask", None)
        patch.setitem(sys.modules, "distributed", None)
        assert cli.run(["batch", "jobs.toml", "--scheduler", "local"]) == 2
        assert "pip install 'mustlink[dask]'" in capsys.readouterr().err
    pytest.importorskip("distributed")
    monkeypatch.setattr("mustlink_io.workers.dask_cluster._ANSWER", "300ms")
    assert cli.run(["batch", "jobs.toml", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "no answer" in capsys.readouterr().err
    assert not (folder / "jobs.toml.state").exists()
