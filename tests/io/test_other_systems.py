"""What Windows and macOS do not have is taken away: the package is imported and works all the same.

A test here cannot be those systems; it shows that nothing asks for what they lack.
"""

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mustlink
import mustlink_io

# Run in a process of its own, before anything of ours is imported. What others need is loaded
# first: they have their own ways on those systems, which are not here.
TAKEN_AWAY = """
import asyncio, ctypes, multiprocessing.connection, os, signal, subprocess, sys, tempfile
import click, h5py, numba, pyamg, pydantic, pynndescent, rich.console, rich.progress, scipy.sparse
import scipy.sparse.csgraph, scipy.sparse.linalg, scipy.spatial, scipy.stats, sklearn.cluster
import sklearn.datasets, sklearn.metrics, sklearn.neighbors, sklearn.mixture, urllib.request
import networkx, pandas, psutil, pyarrow.csv
platform = sys.argv[1]
gone = "sched_getaffinity posix_fallocate preadv pwritev"
if platform == "win32":
    gone += (
        " fork pread pwrite geteuid getuid killpg wait4 sysconf getpgid setsid getpriority mkfifo"
        " O_CLOEXEC O_NOFOLLOW register_at_fork nice chown"
    )
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    for name in ("SIGKILL", "SIGHUP", "SIGXCPU", "SIGUSR1"):
        delattr(signal, name)
for name in gone.split():
    if hasattr(os, name):
        delattr(os, name)
library = ctypes.CDLL
def no_names(name, *args, **kwargs):
    if name is None:
        raise TypeError("bad argument type for built-in operation")
    return library(name, *args, **kwargs)
ctypes.CDLL = no_names
sys.platform = platform
import mustlink.core.resources as process_memory
from pathlib import Path
process_memory._PROC = Path("/no/proc")
"""
WORK = """
import importlib, numpy as np, warnings
warnings.simplefilter("ignore")
for name in sys.argv[2].split():
    importlib.import_module(name)
import mustlink as ml
from mustlink.space.disk import DiskBlock
X = np.load("x.npy")
est = ml.NCut(2, random_state=0).fit(X)
est.save("m.h5")
assert np.array_equal(ml.load("m.h5").predict(X), est.labels_)
block = DiskBlock(None, (1000, 3), np.float32)
block[10:20] = np.ones((10, 3), np.float32)
assert np.asarray(block[0:30]).sum() == 30
assert process_memory.resident_bytes() > 10**7
assert process_memory.peak_bytes() > (10**7 if platform == "win32" else 10**4)  # macOS: in bytes
from mustlink.core import resources
assert resources.cores() >= 1
assert resources.most_memory() > 10**8
assert resources.automatic_memory().limit > 10**8
from mustlink_io.commands import cli
assert cli.run(["cluster", "x.npy", "-k", "2", "-m", "ncut", "-o", "out.h5"]) == 0
assert cli.run(["info", "out.h5"]) == 0
assert np.array_equal(ml.load("out.h5").predict(X), ml.load("out.h5").labels_)
assert cli.run("cluster x.npy -k 2 -m ncut -o d.h5 --memory 900MB".split()) == 0
from mustlink_io.batch.children import run_job
Path("job").mkdir()
ended = run_job([], "job", ["-c", "print(7)"], ".")
assert ended.code == 0, ended
assert Path("job/result.json").read_text().strip() == "7"
Path("job/stop").touch()
ended = run_job([], "job", ["-c", "import time; time.sleep(600)"], ".")
assert ended.code not in (None, 0)
Path("jobs.toml").write_text('[[job]]\\nname = "a"\\ndata = "x.npy"\\nk = 2\\noutput = "b.h5"')
assert cli.run(["batch", "jobs.toml"]) == 0
assert Path("b.h5").exists()
if platform == "win32":
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ml.NCut(2, random_state=0).fit(X).save("again.h5")
    assert ["this system has no locks" in str(one.message) for one in told].count(True) == 1
print("done")
"""
NOT_ALONE = ("mpi4py", "petsc4py", "__main__", "batch_child")  # need a program, or run one


def _modules():
    for package in (mustlink, mustlink_io):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(word in found.name for word in NOT_ALONE):
                yield found.name


@pytest.mark.thorough
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_without_what_other_systems_lack(tmp_path, platform):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 3)) + 8 * (np.arange(60) % 2)[:, None])
    program = TAKEN_AWAY + WORK
    paths = os.pathsep.join(str(Path(one.__path__[0]).parent) for one in (mustlink, mustlink_io))
    found = subprocess.run(
        [sys.executable, "-c", program, platform, " ".join(_modules())],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert found.stdout.endswith("done\n")
