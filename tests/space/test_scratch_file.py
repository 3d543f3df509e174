"""Temporary files without a name: nothing is left open, and nobody is warned of it."""

from __future__ import annotations

import gc
import os
import warnings

import numpy as np
import pytest

from mustlink.space.disk import NamedFile, ScratchFile


def test_files_that_are_let_go_of_are_closed_without_a_warning(tmp_path):
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        files = [ScratchFile(tmp_path, 80)]
        files += [NamedFile(tmp_path / name, 80) for name in ("named", "settled")]
        for file in files:
            file.write(0, np.arange(10.0))
        files[-1].settle()
        out = np.empty((3, 10))
        for file, row in zip(files, out, strict=True):
            file.read(0, row)
        numbers = [file.fileno() for file in files]
        del file, files
        gc.collect()
    np.testing.assert_array_equal(out, [np.arange(10.0)] * 3)
    assert [one for one in seen if issubclass(one.category, ResourceWarning)] == []
    for number in numbers:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
