"""`mustlink cluster --ranks`: files in, files out, and how it ends where something is wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from graphs import CLUSTERS, graphs
from sklearn.metrics import adjusted_rand_score

from mustlink_io.formats.matrices import graph_content
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.locks import locked
from mustlink_io.jobs.on_ranks import environment, launcher

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
MUSTLINK = [sys.executable, "-m", "mustlink_io"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the graphs in files."""
    folder = tmp_path_factory.mktemp("command")
    for name, W in graphs():
        writing.write(folder / f"{name}.h5", graph_content(W))
    np.save(folder / "ok.npy", np.where(np.arange(4000) < 4, np.arange(4000) % 2, -1))
    return folder


def start(data, line, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*MUSTLINK, *line.split()], cwd=data, **pipes, **options)


def run(data, line):
    """Exit code, stdout, stderr."""
    job = start(data, line)
    out, err = job.communicate(timeout=120)
    return job.returncode, out, err


def test_one_and_three_ranks_write_the_same(data):
    line = "cluster many_parts.h5 -k 6 -m ncut --regularization 0 --quiet"
    code, _, doubts = run(data, f"{line} -o home.h5")
    assert code == 0
    assert "heap of 98 components" in doubts
    for ranks in (1, 3):
        code, out, err = run(data, f"{line} --ranks {ranks} -o out{ranks}.h5")
        assert code == 0
        assert re.sub(r"cluster \d", "", err) == re.sub(r"cluster \d", "", doubts)
        assert out == ""
        assert "\x1b" not in err  # codes for a terminal, which a file is not
    with h5py.File(data / "out1.h5") as one, h5py.File(data / "out3.h5") as three:
        for name in ("labels", "embedding", "eigenvalues"):
            assert np.array_equal(one[name], three[name]), name
        labels = three["labels"][:]
        assert (labels == -1).sum() == 17
        assert "peak_bytes_of_ranks" in str(three["report"][()])
    with h5py.File(data / "home.h5") as home:
        assert adjusted_rand_score(home["labels"][:], labels) >= 0.9999


@pytest.mark.parametrize("method", ["csp", "fast-ge"])  # others: `test_same_choices`
def test_constraints_on_ranks(data, method):
    labels = np.where(np.arange(3600) % 40 == 7, (np.arange(3600) // 60 > 22).astype(int), -1)
    np.save(data / "few.npy", labels)
    line = f"cluster picture.h5 -k 2 -m {method} --labels few.npy --subspace 8"
    code, out, err = run(data, f"{line} --ranks 2 --quiet --json -o {method}.h5")
    assert (code, err) == (0, ""), err
    told = json.loads(out)
    assert told["choices"]["subspace"] == 8
    assert told["satisfaction"]["balanced"] > 0.95
    with h5py.File(data / f"{method}.h5") as file:
        assert np.array_equal(file["constraints/labels"][:], labels)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cluster points.h5 -k 3 -m csp", "give --labels or --constraints"),
        (
            "cluster points.h5 -k 3 -m csp --labels few.npy --subspace exact",
            "--subspace exact: does not run on ranks",
        ),
        ("cluster points.h5 -k 3 -m csp --labels few.npy", "few.npy"),
        (
            "cluster points.h5 -k 3 -m ap --labels few.csv --prior affinity",
            "--prior affinity: does not run on ranks",
        ),
        ("cluster points.h5 -k 3 -m sskk --labels few.csv", "-m sskk: does not run on ranks"),
        ("cluster points.h5 -k 3 -m ncut --memory 1GB", "--memory: does not run on ranks"),
        ("cluster points.h5 -k auto -m ncut", "-k auto: does not run on ranks"),
        ("cluster points.h5 -k 3 -m ncut --variant shi-malik", "shi-malik: does not run on ranks"),
        ("cluster nothing.h5 -k 3 -m ncut", "nothing.h5"),
        ("propagate points.h5 --labels ok.npy -m gwem", "-m gwem: does not run on ranks"),
        (
            "propagate points.h5 --labels ok.npy -m llgc --solver dense",
            "solver dense: does not run on ranks",
        ),
        ("propagate points.h5 --labels ok.npy --memory 1GB", "--memory: does not run on ranks"),
        ("propagate points.h5 --labels ok.npy --metric cosine", "--metric cosine: does not run"),
        ("propagate points.h5 --labels ok.npy --workers 2", "leave out --workers"),
        ("propagate points.h5 --labels none.npy", "none.npy"),
        ("cluster points.h5:labels -k 3 -m ncut", "no graph by rows"),
        ("cluster points.h5 -k 3 -m ncut --ranks 25", "ask for at most 24 ranks"),
    ],
)
def test_what_does_not_run_is_refused_in_a_line_before_ranks_start(mustlink, data, line, said):
    more = "" if "--ranks" in line else " --ranks 2"
    code, out, err = mustlink(f"{line}{more} -o no.h5")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (data / "no.h5").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("column", "columns outside 0 to 3999"),
        ("negative", "negative, NaN or infinite"),
        ("falling", "indptr falls"),
        ("asymmetric", "not symmetric"),
    ],
)
def test_what_a_rank_finds_wrong_is_told_in_a_line(data, damage, said):
    bad = data / f"{damage}.h5"
    bad.write_bytes((data / "points.h5").read_bytes())
    with h5py.File(bad, "r+") as file:
        graph, last = file["graph"], file["graph/data"].size - 1  # of the last rank's rows
        if damage == "column":
            graph["indices"][last] = 10**8
        elif damage == "falling":
            graph["indptr"][3990] = 0
        else:
            graph["data"][last] = -1.0 if damage == "negative" else 7.5
    code, out, err = run(data, f"cluster {bad.name} -k 3 -m ncut --ranks 2 --quiet -o no.h5")
    assert (code, out) == (2, ""), err
    assert said in err
    assert err.count("\n") == 1, err


def test_labels_are_spread_on_ranks(data):
    group = np.arange(3600) // 60 > 22
    table = ["node,label", *(f"{i},{('sky', 'sea')[int(group[i])]}" for i in range(7, 3600, 40))]
    (data / "names.csv").write_text("\n".join(table))
    line = "propagate picture.h5 --labels names.csv -m llgc --alpha 0.9 --quiet --json"
    for more in ("--ranks 2 -o spread.h5", "-o spread-home.h5 --threads 2"):
        code, out, err = run(data, f"{line} {more}")
        assert (code, err) == (0, ""), err
    assert json.loads(out)["n_nodes"] == 3600
    with h5py.File(data / "spread.h5") as file, h5py.File(data / "spread-home.h5") as home:
        for name in ("labels", "class_names", "classes", "constraints/labels"):
            assert np.array_equal(file[name][()], home[name][()]), name
        for name in ("label_distributions", "confidence"):
            np.testing.assert_allclose(file[name][()], home[name][()], atol=2e-6)


def test_ranks_that_were_started_by_a_scheduler(data):
    line = "cluster points.h5 -k 5 -m ncut --ranks 2 --quiet --json -o inside.h5"
    started = [*launcher(2), *MUSTLINK, *line.split()]
    there = environment(2)
    del there["MUSTLINK_RANKS"]
    said = subprocess.run(started, cwd=data, env=there, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["choices"]["ranks"] == 2
    assert (data / "inside.h5").exists()


def test_other_ranks_than_asked_for_are_noticed(data):
    """As another MPI's mpiexec does it: jobs of one rank each, all of which are the first."""
    alone = {**os.environ, "MUSTLINK_RANKS": "2", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    alone["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    job = start(data, "cluster points.h5 -k 3 -m ncut --ranks 2 --quiet -o no.h5", env=alone)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 2
    assert err.startswith("mustlink: --ranks 2: MPI started 1;")


def test_an_output_that_is_being_written_is_told_before_any_work(data):
    with locked(data / "busy.h5"):
        line = "cluster points.h5 -k 3 -m ncut --ranks 2 -o busy.h5"
        code, out, err = run(data, line)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "busy.h5" in err
    assert not (data / "busy.h5").exists()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as told:
        return [int(each) for each in told.read().split()]


def runs(pid):
    """Whether a process does anything: one that nobody waited for is there, as a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as told:
            return told.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_rank_that_is_killed_ends_all_with_a_line(data):
    line = f"cluster points.h5 -k {CLUSTERS['points']} -m ncut --ranks 3 -o killed.h5"
    job = start(data, line)
    ranks, until = [], time.monotonic() + 30
    while len(ranks) < 3 and time.monotonic() < until:
        time.sleep(0.02)
        ranks = [each for mpiexec in children(job.pid) for each in children(mpiexec)]
    os.kill(ranks[1], signal.SIGKILL)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 1
    assert err.splitlines()[-1].startswith("mustlink: a rank was ended by SIGKILL, and all others")
    assert not any(runs(each) for each in ranks)
    assert not (data / "killed.h5").exists()
    code, _, err = run(data, f"{line} --quiet")
    assert (code, err) == (0, "")
    assert (data / "killed.h5").exists()


def test_a_file_that_ends_early_is_told_in_a_line(data):
    whole = (data / "points.h5").read_bytes()
    (data / "cut.h5").write_bytes(whole[: len(whole) // 2])
    code, out, err = run(data, "cluster cut.h5 -k 3 -m ncut --ranks 2 --quiet -o no.h5")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "cut.h5" in err
    assert "truncated" in err


def test_nobody_else_loads_mpi():
    code = "import sys, mustlink, mustlink_io.commands.cli as c; c.run(['cluster', '--help']); "
    code += "print([m for m in ('mpi4py', 'petsc4py') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"
