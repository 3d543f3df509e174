"""Compiled kernels on disk: shared by processes, and done without where nothing can be written."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mustlink.kernels.row_hash import sort_row

ENGINE = Path(__file__).resolve().parents[2] / "engine"
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
SORTED = "[3, 5, 7] [0.3, 0.5, 0.7]"


def child(code=CODE, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=kept | {"PYTHONPATH": str(ENGINE), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_garbage_is_searched_again_after_compiling():
    with pytest.raises(TypeError):
        sort_row.compile((int,))  # it has four arguments
    assert gc.isenabled()


@pytest.mark.thorough
def test_processes_that_compile_at_once_leave_a_whole_cache(tmp_path):
    both = [child(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=120)
        assert out.startswith(SORTED), err
    out, err = child(NUMBA_CACHE_DIR=str(tmp_path)).communicate(timeout=120)
    assert out == f"{SORTED} 1\n", err


@pytest.mark.thorough
def test_kernels_are_compiled_where_nothing_can_be_written(tmp_path):
    """Numba tries folders by a temporary file in them: refused but in the folder of such files."""
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    done = child(REFUSING + CODE, TMPDIR=str(temporary), HOME=str(home))
    out, err = done.communicate(timeout=120)
    assert out == f"{SORTED} 0\n", err
    assert "set NUMBA_CACHE_DIR to a folder" in err
    assert not list(temporary.iterdir())
