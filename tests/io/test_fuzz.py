"""A few mutations of the fuzzer in every run of the tests; `python bench/fuzz.py` has thousands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits by a Linux system call")
def test_fuzzed_files_end_in_a_result_or_one_line(tmp_path):
    command = [sys.executable, str(BENCH / "fuzz.py"), "--fast", "--mutations", "40"]
    done = subprocess.run(
        [*command, "--out", tmp_path / "fuzz.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "fuzz.json").read_text()) == {"seeds": [0, 39], "failures": []}
    assert "40 mutations, 0 failures" in done.stdout


def test_checksums_made_right_are_those_of_the_library(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import h5py
    import numpy as np

    import fuzz_checksums

    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        for i in range(5):
            file.create_dataset(f"a{i}", data=np.arange(10 * i + 5.0), chunks=(5,))
            file[f"a{i}"].attrs["words"] = "hello" * i
    right = (tmp_path / "x.h5").read_bytes()
    whole = bytearray(right)
    assert fuzz_checksums.repair(whole) == 0
    at = whole.find(b"OHDR")
    whole[at + 20] ^= 1
    assert fuzz_checksums.repair(whole) == 1
    whole[at + 20] ^= 1
    assert fuzz_checksums.repair(whole) == 1
    assert whole == right
