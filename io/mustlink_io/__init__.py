"""Files, batch jobs, terminals and pictures around the `mustlink` engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mustlink.graph import DiskGraph


def open_graph(path: str | Path, part: str = "/graph") -> DiskGraph:
    """A graph in an HDF5 file, in CSR form, that stays on disk: `NCut(memory="1GB").fit` takes it.

    Other estimators, and `NCut` where it fits, read it whole. Compressed datasets are unpacked into
    temporary files. Raises InputError for what is no such graph.
    """
    from mustlink_io.hdf5.graphs import stored_graph

    return stored_graph(Path(path), part)
