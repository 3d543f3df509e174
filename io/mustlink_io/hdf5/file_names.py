"""Names of files and of what is in them: `FILE` or `FILE:PART`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HDF5 = (".h5", ".hdf5", ".he5", ".h5ad")
EDGES = (".edges", ".txt", ".tsv")
BEFORE = ".before"  # behind the name of a result that was replaced
METIS = (".metis", ".graph")
PICTURES = (".png", ".jpg", ".jpeg")
SVMLIGHT = (".svmlight", ".libsvm")
SUFFIXES = (
    "FILE.h5[:DATASET], .h5ad[:DATASET], .npy, .npz[:NAME], .mtx, .csv, .parquet, METIS (.metis, "
    ".graph), .graphml, .svmlight, or an edge list .edges, .txt, .tsv"
)
FORMS = {  # what an ending says of a file that is written
    ".h5": "h5",
    ".hdf5": "h5",
    ".he5": "h5",
    ".h5ad": "h5ad",
    ".npy": "npy",
    ".npz": "npz",
    ".mtx": "mtx",
    ".metis": "metis",
    ".graph": "metis",
    ".edges": "edges",
    ".tsv": "edges",
    ".txt": "edges",
    ".graphml": "graphml",
    ".csv": "csv",
    ".parquet": "parquet",
    ".png": "png",
    ".tiff": "tif",
    ".tif": "tif",
}
USUAL = {form: ending for ending, form in reversed(FORMS.items())}
_WITH_PARTS = re.compile(
    r"(.+?\.(?:h5|hdf5|he5|h5ad|npz|csv|tsv|parquet|jsonl|ndjson)):([^:]*)", re.IGNORECASE
)

_NAMED = re.compile(r"([\w][\w -]*)=(.+)")


@dataclass(frozen=True)
class Place:
    """A file, and the dataset or column in it if one was named."""

    path: Path
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.part}" if self.part else str(self.path)

    @property
    def suffix(self) -> str:
        """File name ending in small letters; of a result that was put aside, its own."""
        return Path(self.path.name.lower().removesuffix(BEFORE)).suffix


def parse(text: str) -> Place:
    """Split `FILE.h5:DATASET`; a colon counts only after an ending that can have parts."""
    found = _WITH_PARTS.fullmatch(text)
    if found is None or Path(text).exists():
        return Place(Path(text))
    return Place(Path(found.group(1)), found.group(2) or None)


def named_view(text: str) -> tuple[str | None, str]:
    """Split `NAME=FILE`; the name is None where there is none, or a file is called so."""
    found = _NAMED.fullmatch(text)
    if found is None or parse(text).path.exists():
        return None, text
    return found.group(1).strip(), found.group(2)
