"""Compiled kernels on disk: shared by processes, and done without where nothing can be written."""

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba as nb
import pytest

from mustlink.context import compilation
from mustlink.kernels.row_hash import sort_row
from mustlink.kernels.threads import kernel

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import kernels

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / home) for home in ("engine", "io"))
CODE = """
import numpy as np
from mustlink.kernels.row_hash import sort_row
columns, values = np.array([7, 3, 5], dtype=np.int32), np.array([0.7, 0.3, 0.5])
sort_row(columns, values, 0, 3)
print(columns.tolist(), values.tolist(), sum(sort_row.stats.cache_hits.values()))
"""
REFUSING = """
import tempfile
allowed = tempfile.TemporaryFile
def refuse(*args, dir=None, **options):
    if not str(dir).startswith(tempfile.gettempdir()):
        raise PermissionError(13, "Permission denied", str(dir))
    return allowed(*args, dir=dir, **options)
tempfile.TemporaryFile = refuse
"""
WARM = """
import sys
from mustlink_io.commands.cli import run
sys.exit(run(["warm", "--json", "--quiet", {!r}]))
"""
SORTED = "[3, 5, 7] [0.3, 0.5, 0.7]"


def child(code=CODE, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=kept | {"PYTHONPATH": PATHS, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_garbage_is_searched_again_after_compiling():
    with pytest.raises(TypeError):
        sort_row.compile((int,))  # it has four arguments
    assert gc.isenabled()


def test_a_number_in_a_call_is_compiled_as_any_other():
    body = kernel()(lambda x, by: x * by)
    for number in (2, 3):
        body.get_call_template((nb.int64, nb.types.literal(number)), {})
    assert body.signatures == [(nb.int64, nb.int64)]


@pytest.mark.thorough
def test_processes_that_compile_at_once_leave_a_whole_cache(tmp_path):
    both = [child(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=120)
        assert out.startswith(SORTED), err
    out, err = child(NUMBA_CACHE_DIR=str(tmp_path)).communicate(timeout=120)
    assert out == f"{SORTED} 1\n", err


@pytest.mark.thorough
def test_kernels_that_make_no_arrays_return_none():
    """Their references would not be counted, and the caller would free what is not its own."""
    bodies = compilation.dispatchers()
    for name, types, _ in json.loads(compilation.TABLE.read_text())["kernels"]:
        if not bodies[name].targetoptions["_nrt"]:
            signature = tuple(compilation.decoded(one) for one in types)
            bodies[name].compile(signature)
            assert "array" not in str(bodies[name].overloads[signature].signature.return_type)


@pytest.mark.thorough
def test_kernels_are_compiled_where_nothing_can_be_written(tmp_path):
    """Numba tries folders by a temporary file in them: refused but in the folder of such files."""
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    installed = shutil.copytree(
        ROOT / "engine", tmp_path / "installed", ignore=shutil.ignore_patterns("__pycache__")
    )
    paths = {"PYTHONPATH": str(installed), "TMPDIR": str(temporary), "HOME": str(home)}
    out, err = child(REFUSING + CODE, **paths).communicate(timeout=120)
    assert out == f"{SORTED} 0\n", err
    assert "set NUMBA_CACHE_DIR to a folder" in err
    assert not list(temporary.iterdir())


# --- mustlink warm


def seconds_of(name):
    return sum(one.seconds for one in compilation.kernels_of(name))


QUICKEST = min(compilation.known(), key=seconds_of)


def warm(name=QUICKEST, before="", **environment):
    return child(before + WARM.format(name), **environment)


def ended(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert err == ""
    return json.loads(out)


@pytest.mark.thorough
def test_warm_compiles_once_for_all_processes_of_a_kind_of_processor(tmp_path):
    cache, n = {"NUMBA_CACHE_DIR": str(tmp_path)}, len(compilation.kernels_of(QUICKEST))
    both = [ended(one) for one in [warm(**cache), warm(**cache)]]  # at once
    for one in both:
        assert one["kernels"] == n
        assert one["folder"].startswith(str(tmp_path))
    assert ended(warm(**cache))["compiled"] == 0
    other = ended(warm(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="", **cache))
    assert (other["processor"], other["compiled"]) == ("generic", n)
    assert ended(warm(**cache))["compiled"] == 0  # theirs is beside ours


@pytest.mark.thorough
def test_what_was_compiled_is_used_where_it_cannot_be_written(tmp_path):
    """In an image, say, whose user owns nothing; and where this user has a cache of his own."""
    image, temporary, home = (tmp_path / name for name in ("image", "temporary", "home"))
    temporary.mkdir()
    child(CODE, NUMBA_CACHE_DIR=str(image)).communicate(timeout=120)
    given = {"NUMBA_CACHE_DIR": str(image), "TMPDIR": str(temporary), "HOME": str(home)}
    out, err = child(REFUSING + CODE, **given).communicate(timeout=120)
    assert (out, err) == (f"{SORTED} 1\n", "")
    assert not list(temporary.iterdir())
    own = REFUSING.replace("tempfile.gettempdir()", f"({str(home)!r}, tempfile.gettempdir())")
    out, err = child(own + CODE, **given, XDG_CACHE_HOME=str(home)).communicate(timeout=120)
    assert (out, err) == (f"{SORTED} 1\n", "")


@pytest.mark.thorough
def test_warm_says_where_nothing_can_be_written(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = warm(before=REFUSING, TMPDIR=str(temporary), HOME=str(tmp_path / "home"))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert "set NUMBA_CACHE_DIR to one that can" in err


def test_warm_knows_estimators():
    process = warm("Nonsense")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("mustlink: estimators: 'Nonsense' is not known; choose of NCut")


@pytest.mark.slow
def test_nothing_is_left_to_compile_after_warm(tmp_path):
    """A fit of every method, in memory and on disk: see the table of `bench/kernels.py`."""
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "bench")!r})
import kernels
for line in kernels.compiled_by(kernels.first_of_each()):
    print(line)
"""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    everything = child(WARM.replace(", {!r}", ""), **cache)
    out, err = everything.communicate(timeout=1800)
    assert json.loads(out)["kernels"] > 0, err
    out, err = child(code, **cache).communicate(timeout=1800)
    left = [line for line in out.splitlines() if not line.endswith(" []")]
    assert len(out.splitlines()) == len(kernels.first_of_each()), err
    assert left == [], "run python bench/kernels.py --write"
