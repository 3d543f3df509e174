"""A disk that fills up half-way: one line, exit code 2, and what was there before stays."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.hdf5 import writing

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(ROOT / "io")]),
    "OMP_NUM_THREADS": "1",
}


@contextlib.contextmanager
def files_no_larger_than(size):
    """Writing beyond fails with EFBIG, as ENOSPC would; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def some_content():
    rng = np.random.default_rng(0)
    return {
        "/points": rng.normal(size=(500, 3)).astype("f4"),
        "/labels": rng.integers(0, 3, 500),
        "/report": "x" * 3000,
        "/@parameters": "{}",
    }


def test_wherever_the_disk_ends_the_old_file_stays(tmp_path):
    # headers, values, text and what is only written at closing: every one fails once
    path = tmp_path / "out.h5"
    writing.write(path, some_content())
    whole = path.stat().st_size
    path.write_bytes(b"earlier")
    for size in range(0, whole, 997):
        with (
            files_no_larger_than(size),
            pytest.raises(InputError, match=r"out.h5: was not written: File too large") as caught,
        ):
            writing.write(path, some_content())
        assert "\n" not in str(caught.value)
        assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]
        assert path.read_bytes() == b"earlier"
    with files_no_larger_than(whole):
        writing.write(path, some_content())
    assert formats.load(str(path)).value.shape == (500, 3)


def test_the_library_is_as_good_as_new_afterwards(tmp_path):
    kinds = h5py.h5f.OBJ_FILE | h5py.h5f.OBJ_DATASET | h5py.h5f.OBJ_GROUP | h5py.h5f.OBJ_ATTR
    opened = h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, kinds)
    with files_no_larger_than(5000), pytest.raises(InputError):
        writing.write(tmp_path / "out.h5", some_content())
    assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, kinds) == opened
    writing.write(tmp_path / "out.h5", some_content())
    assert formats.load_classes(str(tmp_path / "out.h5")).codes.size == 500


def interrupted(path, error):
    with writing.create_h5(path) as file:
        file["x"] = np.arange(1000)
        raise error


def test_an_error_of_the_caller_stays_the_caller_s(tmp_path):
    path = tmp_path / "out.h5"
    path.write_bytes(b"earlier")
    for error in (ValueError("stop"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            interrupted(path, error)
        assert path.read_bytes() == b"earlier"
    assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]


def test_what_the_sink_writes_is_what_the_library_writes(tmp_path):
    rng = np.random.default_rng(1)
    values = {f"group {i % 7}/{i}": rng.normal(size=rng.integers(1, 3000)) for i in range(60)}
    with writing.create_h5(tmp_path / "a.h5") as file:
        for name, value in values.items():
            options = {"chunks": (100,), "compression": "gzip"} if value.size > 1000 else {}
            file.create_dataset(name, data=value, **options)
        del file["group 3"]
        file.flush()
        assert (file["group 1/1"][()] == values["group 1/1"]).all()
    with h5py.File(tmp_path / "a.h5") as file:
        assert "group 3" not in file
        for name, value in values.items():
            assert "group 3" in name or (file[name][()] == value).all()


# ---------------------------------------------------------------- a whole run

RUN = r"""
import json, os, resource, sys
from pathlib import Path
from mustlink_io.commands import cli
folder, limit, commands = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
out = folder / "out.h5"
for command in commands:  # what is compiled is kept, which is a file as well
    cli.run([word.replace("out.h5", "../first.h5") for word in command])
out.write_bytes(b"\x89HDF earlier")
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
else:  # fill the disk but for 60 kB
    free = os.statvfs(folder)
    (folder / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize - 60_000))
codes = [cli.run(command) for command in commands]
left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
print(json.dumps([codes, out.read_bytes() == b"\x89HDF earlier", left]))
"""


def commands(folder):
    """Two runs that each write more than 60 kB, points being beside the folder."""
    np.save(folder.parent / "points.npy", np.random.default_rng(0).normal(size=(1500, 3)))
    data, out = str(folder.parent / "points.npy"), str(folder / "out.h5")
    return [
        ["graph", data, "-o", out, "--quiet", "--json"],
        ["cluster", data, "-k", "40", "-o", out, "--quiet", "--json"],
    ]


def check(done, n_runs, more=()):
    assert done.returncode == 0, done.stderr
    codes, intact, left = json.loads(done.stdout.splitlines()[-1])
    assert codes == [2] * n_runs, done.stderr
    assert intact
    # results of stages may be kept for another try, but nothing half-written
    assert {name for name in left if not name.startswith("out.h5.work/")} == {"out.h5", *more}
    assert not [name for name in left if name.endswith(".tmp")]
    lines = [line for line in done.stderr.splitlines() if "warning: " not in line]
    assert len(lines) == n_runs, done.stderr  # nothing of the HDF5 library, nothing at exit
    for line in lines:
        assert line.startswith("mustlink: ")
        assert "out.h5: was not written: " in line


def run(prefix, folder, limit):
    given = json.dumps(commands(folder))
    return subprocess.run(
        [*prefix, sys.executable, "-c", RUN, str(folder), str(limit), given],
        capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip


@pytest.mark.thorough
def test_runs_that_may_not_write_so_much(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    check(run([], folder, 60_000), 2)


def mounted(folder):
    """Command that runs another one where `folder` is a file system of 2 MB, or None."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return None
    flags = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    mount = f'mount -t tmpfs -o size=2m tmpfs "{folder}" && exec "$@"'
    command = ["unshare", *flags, "sh", "-c", mount, "sh"]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if tried.returncode == 0 else None


@pytest.mark.thorough
def test_runs_on_a_full_disk(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    prefix = mounted(folder)
    if prefix is None:
        pytest.skip("neither root nor user namespaces: no file system can be mounted")
    done = run(prefix, folder, 0)
    check(done, 2, more=["filler"])
    assert "No space left on device" in done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_terminal_that_takes_no_more(tmp_path):
    writing.write(tmp_path / "x.h5", some_content())
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mustlink_io", "info", str(tmp_path / "x.h5")],
            stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("mustlink: ")
    assert "Traceback" not in done.stderr
