"""The work folder beside an output: what stages found, one file each, so that a run can go on.

A file is named by its stage and by a digest of everything the result depends on; it is written
beside its name, synced and renamed, so that whatever is found under a name is whole. A damaged file
counts as absent.
"""

from __future__ import annotations

import contextlib
import glob
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import VERSION, Notes, digest
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink_io.hdf5 import model_tree, store, writing
from mustlink_io.hdf5.graphs import stored_graph, write_rows
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.writing import to_json

ENDING = ".work"
_CUT_SHORT = -2  # the version of what is of no use to a later run
_PATTERN = re.compile(r"(?P<stage>[a-z0-9-]+)\.[0-9a-f]{20}\.h5")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


@dataclass(frozen=True)
class StageFile:
    """One file of a work folder, as its attributes say."""

    path: Path
    stage: str
    source: str
    version: int
    seconds: float
    made: float
    bytes: int

    def is_stale(self, source: str | None) -> bool:
        """Whether no run on these data will ask for it; data unknown: by the version alone."""
        return self.version != VERSION or (source is not None and self.source != source)


class WorkFolder:
    """Stores results of stages in `OUTPUT.work`, as `mustlink.context.stage_cache` asks.

    `source` names the data. With `fresh` nothing is recalled, and what is there is replaced.
    Results are written while the run goes on: on a million points a second is not waited for.
    """

    def __init__(self, folder: Path, source: str, *, fresh: bool = False) -> None:
        self.folder, self.source, self.fresh = folder, source, fresh
        self.scratch = folder.parent
        self.used: set[Path] = set()
        self.recalled = 0
        self.troubles: list[str] = []
        self._writer = ThreadPoolExecutor(1)
        self._pending: dict[Path, Future[None]] = {}

    def recall(self, stage: str, key: str, types: Iterable[type]) -> Any | None:
        """Return the result under the key; None for nothing, or a file that is damaged."""
        path = self._path(stage, key)
        if path in self._pending:
            self.settle()
        if (self.fresh and path not in self.used) or not path.exists():
            return None  # the HDF5 library would wait for what is being written
        with self._tolerant(path), h5py.File(path, "r") as file:
            known = {one.__name__: one for one in types}
            value = model_tree.read_tree(file, "value", known, self.scratch)
            if digest(value) != store.decoded(file.attrs["digest"]):
                raise ValueError("values and digest differ")
            self._count(path)
            return value
        return None

    @contextlib.contextmanager
    def _tolerant(self, path: Path) -> Iterator[None]:
        """Let a damaged file be a trouble, and a missing one nothing."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (InputError, OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
            words = " ".join(str(error).split())[:100]
            self.troubles.append(f"{path}: damaged ({words}), the stage is done again")

    def _count(self, path: Path) -> None:
        self.used.add(path)
        self.recalled += 1

    def keep(self, stage: str, key: str, value: Any, seconds: float) -> None:
        """Keep a result; a full disk or a forbidden folder is a trouble, not an error."""
        path = self._path(stage, key)
        self._pending[path] = self._writer.submit(self._write, path, stage, value, seconds)

    def recall_graph(self, stage: str, key: str) -> tuple[DiskGraph, Notes] | None:
        """The graph under the key, None for none, one cut short, or a damaged one."""
        path = self._path(stage, key)
        if self.fresh or not path.exists():
            return None
        with self._tolerant(path):
            with h5py.File(path, "r") as file:
                if file.attrs["mustlink-work"] != VERSION:
                    return None
                info = json.loads(store.text(file["graph"].attrs["info"]))
                stored = json.loads(store.decoded(file.attrs["notes"]))
                notes = tuple((str(note), bool(is_warning)) for note, is_warning in stored)
            graph = stored_graph(path, "/graph", self.scratch, info=info)
            self._count(path)
            return graph, notes
        return None

    def keep_graph(
        self,
        stage: str,
        key: str,
        n: int,
        blocks: Iterable[Any],
        info: Mapping[str, Any],
        rows: NDArray[np.int32],
        about: Callable[[], tuple[float, Notes] | None],
    ) -> DiskGraph:
        """Write a graph, which is then read from its file; raises InputError."""
        path = self._path(stage, key)
        writing.make_folder(self.folder)
        info = json.loads(to_json(info))

        def attributes() -> dict[str, Any]:
            found = about()
            if found is None:  # stale for every later run
                return self._about(stage, 0.0, version=_CUT_SHORT)
            return {**self._about(stage, found[0]), "notes": np.bytes_(json.dumps(found[1]))}

        write_rows(str(path), n, blocks, info, rows=rows, about=attributes)
        self.used.add(path)
        return stored_graph(path, "/graph", self.scratch, info=info)

    def _about(self, stage: str, seconds: float, version: int = VERSION) -> dict[str, Any]:
        """Attributes of a file: text as bytes, which where it is damaged hang no library."""
        about = {
            "mustlink-work": version,
            "stage": stage,
            "source": self.source,
            "seconds": seconds,
            "made": time.time(),
        }
        return {k: np.bytes_(v) if isinstance(v, str) else v for k, v in about.items()}

    def settle(self) -> None:
        """Wait until all results are written."""
        while self._pending:
            self._pending.popitem()[1].result()

    def _write(self, path: Path, stage: str, value: Any, seconds: float) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
            with writing.create_h5(path) as file:
                model_tree.write_tree(file, "value", value)
                file.attrs.update(self._about(stage, seconds))
                file.attrs["digest"] = np.bytes_(digest(value))
        except (InputError, OSError, RuntimeError) as error:
            self.troubles.append(f"{stage}: not stored for a later run: {error}")
            return
        self.used.add(path)

    def _path(self, stage: str, key: str) -> Path:
        slug = re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")
        return self.folder / f"{slug}.{key[:20]}.h5"


def listing(output: str) -> dict[str, Any]:
    """What `mustlink info` shows of the work folder beside a file; nothing if there is none.

    Stale is what no run on the latest data, by this version, would use.
    """
    found = entries(folder_of(output))
    if not found:
        return {}
    latest = _latest(found)
    rows = [
        {
            "file": one.path.name,
            "stage": one.stage,
            "bytes": one.bytes,
            "seconds": one.seconds,
            "made": datetime.fromtimestamp(one.made).isoformat(" ", "seconds"),
            "stale": one.is_stale(latest),
        }
        for one in found
    ]
    return {"work": {"folder": str(folder_of(output)), "results": rows}}


def _latest(found: list[StageFile]) -> str | None:
    return next((one.source for one in reversed(found) if one.version >= 0), None)


def clean(output: str, stale: bool) -> dict[str, Any]:
    """Remove the work folder of an output, or only what is stale in it; returns counts.

    Raises InputError where a run is using it, and where neither it nor the output is there.
    """
    folder = folder_of(output)
    if not folder.exists() and not Path(output).exists():
        raise InputError(f"{output}: no such file, nor {folder.name} beside it; check the name")
    with locked(output):
        found = entries(folder)
        gone = [one for one in found if not stale or one.is_stale(_latest(found))]
        freed = remove(folder, gone)
    return {
        "folder": str(folder),
        "removed": len(gone),
        "left": len(found) - len(gone),
        "bytes": freed,
    }


def folder_of(output: str | Path) -> Path:
    """The work folder of an output; of a work folder, itself."""
    path = Path(output)
    if path.name.endswith(ENDING) and path.is_dir():
        return path
    return path.with_name(path.name + ENDING)


def entries(folder: Path) -> list[StageFile]:
    """The results in a folder, oldest first; files that cannot be read are of version -1."""
    there = sorted(folder.iterdir()) if folder.is_dir() else ()
    found = [_describe(path) for path in there if _PATTERN.fullmatch(path.name)]
    return sorted(found, key=lambda one: one.made)


def _describe(path: Path) -> StageFile:
    stat = path.stat()
    name = _PATTERN.fullmatch(path.name)
    stage = name["stage"] if name else path.name
    try:
        with h5py.File(path, "r") as file:
            about = dict(file.attrs)
        return StageFile(
            path,
            store.decoded(about["stage"]),
            store.decoded(about["source"]),
            int(about["mustlink-work"]),
            float(about["seconds"]),
            float(about["made"]),
            stat.st_size,
        )
    except (OSError, RuntimeError, LookupError, TypeError, ValueError):
        return StageFile(path, stage, "", -1, 0.0, stat.st_mtime, stat.st_size)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that killed runs left beside `path`; the caller holds its lock."""
    name = re.escape(f".{path.name[:100]}.") + r"[0-9a-f]{12}\.tmp"
    for other in path.parent.glob(f".{glob.escape(path.name[:100])}.*.tmp"):
        if re.fullmatch(name, other.name):
            other.unlink(missing_ok=True)


def remove(folder: Path, which: Iterable[StageFile] | None = None) -> int:
    """Remove some entries, or all, and what killed runs left unfinished; returns the bytes freed.

    The folder goes when nothing else is in it.
    """
    freed = 0
    for one in entries(folder) if which is None else which:
        one.path.unlink(missing_ok=True)
        freed += one.bytes
    if folder.is_dir():
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                freed += path.stat().st_size
                path.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    return freed
