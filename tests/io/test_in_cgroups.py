"""The shell in cgroups of its own, where nobody names a memory: done on disk, or refused.

Groups are made below that of the tests, where whoever runs them may; else tests are skipped.
"""

import json
import os
import subprocess
import sys
import uuid
from contextlib import suppress

import h5py
import numpy as np
import pytest

from cases import blobs
from mustlink.core import resources

MB = 10**6
LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
LOOK = """
from mustlink.core.resources import automatic_memory, cores
found = automatic_memory()
print(found.limit, cores(), found.source, sep="|")
"""


def made_group(controller, below=None):
    """A new group, its version and folder; skips the test where none can be made."""
    try:
        version, parent = next(resources.cgroups(controller))
    except StopIteration:
        pytest.skip(f"no cgroup of {controller} is mounted here")
    folder = (below or parent) / f"mustlink-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of {controller} may be made here: {error.strerror}")
    return version, folder


@pytest.fixture
def group():
    """Make groups of a controller, which are removed at the end."""
    made = []

    def make(controller, below=None, **files):
        version, folder = made_group(controller, below)
        made.append(folder)
        try:
            for name, text in files.get(f"v{version}", {}).items():
                (folder / name).write_text(str(text))
        except OSError as error:
            pytest.skip(f"{folder}: {error.strerror}; its limits are not for us to set")
        return folder

    yield make
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


def of_memory(n_bytes):
    return {f"v{version}": {name: n_bytes} for version, name in LIMIT.items()}


def run(folder, *words, **variables):
    """A Python that begins in a group, with nothing named."""
    named = ("SLURM_", "LSB_", "MUSTLINK_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(named)}

    def enter():
        (folder / "cgroup.procs").write_text("0")  # the process that writes

    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=env | variables,
        preexec_fn=enter,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.thorough
def test_a_limit_is_seen_from_below_without_pages_of_files(group, tmp_path):
    outer = group("memory", **of_memory(800 * MB))
    inner = group("memory", below=outer)
    read = f"open({str(tmp_path / 'large')!r}, 'rb').read()\n"
    with open(tmp_path / "large", "wb") as file:
        file.write(os.urandom(100 * MB))
        os.fsync(file.fileno())
    for folder, program in ((outer, LOOK), (inner, LOOK), (inner, read + LOOK)):
        done = run(folder, "-c", program)
        assert done.returncode == 0, done.stderr
        limit, _, source = done.stdout.strip().split("|")
        assert "left by a cgroup's limit of 800 MB" in source
        assert 640 * MB < int(limit) <= 800 * MB


def test_a_quota_of_cores_is_seen(group):
    folder = group(
        "cpu",
        v1={"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": 150_000},
        v2={"cpu.max": "150000 100000"},
    )
    done = run(folder, "-c", LOOK)
    assert done.stdout.split("|")[1] == "1", done.stderr


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """100,000 points of five round clusters in 32 dimensions, in a file."""
    X, truth = blobs(np.random.default_rng(0), 100_000, 5, d=32)
    path = tmp_path_factory.mktemp("groups") / "points.h5"
    with h5py.File(path, "w") as file:
        file["points"], file["truth"] = X.astype(np.float32), truth
    return path


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "done"), [(600 * MB, True), (300 * MB, False)])
def test_a_run_is_done_in_what_there_is_or_refused(group, points, limit, done):
    folder, out = group("memory", **of_memory(limit)), points.with_name(f"{limit}.h5")
    line = ["-m", "mustlink_io", "cluster", points, "-k", "5", "-m", "ncut", "--json", "-o", out]
    found = run(folder, *line)
    if not done:
        assert found.returncode == 2
        assert out.exists() is False
        assert found.stderr.count("\n") == 1
        assert "left by a cgroup's limit of 300 MB" in found.stderr
        assert "at least" in found.stderr
        return
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert any(note.startswith("memory: kept to") for note in told["notes"])
    assert told["peak_bytes"] < limit + 100 * MB  # pages of libraries may be another group's
    with h5py.File(out) as file, h5py.File(points) as source:
        pairs = np.unique(np.stack([file["labels"][()], source["truth"][()]]), axis=1)
    assert pairs.shape == (2, 5)
