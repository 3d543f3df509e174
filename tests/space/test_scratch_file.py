"""Temporary files without a name: nothing is left open, and nobody is warned of it."""

from __future__ import annotations

import gc
import os
import warnings

import numpy as np
import pytest

from mustlink.space.disk import NamedFile, ScratchFile


@pytest.mark.parametrize("kind", ["scratch", "named", "settled"])
def test_a_file_that_is_let_go_of_is_closed_without_a_warning(kind, tmp_path):
    gc.collect()  # what other tests left
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        file = ScratchFile(tmp_path, 80) if kind == "scratch" else NamedFile(tmp_path / "rows", 80)
        file.write(0, np.arange(10.0))
        if kind == "settled":
            file.settle()
        out = np.empty(10)
        file.read(0, out)
        number = file.fileno()
        del file
        gc.collect()
    assert out.tolist() == list(range(10))
    assert [one for one in seen if issubclass(one.category, ResourceWarning)] == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
