"""Answers of a person, a line each, in a file that a killed process leaves whole.

A line is written and synced when an answer is given, so that at most the last can be cut off by a
kill, and is then ignored. Undoing an answer is a line as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import digest
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph

_FORMAT = "mustlink answers 1"
_LARGEST = 1 << 30  # bytes of a journal that is read
KINDS = ("label", "pair", "unknown", "name")
_UNDO = "undo"


@dataclass(frozen=True, eq=False)
class Answer:
    """Nodes (m,) are of class `value`; or two are together, `value` 1, or not, -1; or unknown.

    Or the cluster in which most of the nodes are is called `value`, text, "" for no name.
    """

    kind: str
    nodes: NDArray[np.int64]
    value: int | str = 0

    @property
    def asks_a_fit(self) -> bool:
        """Whether clusters may be others by it."""
        return self.kind in ("label", "pair")

    def words(self) -> str:
        """What was said, short."""
        count = self.nodes.size
        if self.kind == "name":
            return f"cluster named {self.value}" if self.value else "name taken away"
        if self.kind == "pair":
            together = "together" if self.value == 1 else "apart"
            return f"nodes {self.nodes[0]:,} and {self.nodes[1]:,} {together}"
        told = f"node {self.nodes[0]:,}" if count == 1 else f"{count:,} nodes"
        return f"{told}: don't know" if self.kind == "unknown" else f"{told}: class {self.value}"


@dataclass(frozen=True)
class Step:
    """A row of the history: what was said, and what followed."""

    said: str
    answers: int
    satisfaction: float | None
    moved: float
    sizes: tuple[int, ...]
    seconds: float
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journal:
    """The file `path` of answers on the n rows of `data`, whose graph has the digest `graph`."""

    path: Path
    data: str
    n: int
    graph: str

    @classmethod
    def beside(cls, target: Path, estimator: Any) -> Journal:
        """That of the result file `target`, of what the estimator was fitted to.

        Other data of as many rows, in a file of the same name, have another graph. Cost O(nnz), on
        disk O(n): there the numbers of neighbours tell graphs apart.
        """
        path, graph = target.with_name(f"{target.name}.answers"), estimator.graph_
        known = digest(graph.ends if isinstance(graph, DiskGraph) else graph.affinity)
        return cls(path, target.name, int(estimator.labels_.size), known)

    def read(self) -> list[Answer]:
        """Answers that were given and not undone; raises InputError for another file."""
        if not self.path.exists():
            return []
        if self.path.stat().st_size > _LARGEST:
            raise InputError(f"{self.path}: more than 1 GB, no file of answers; move it away")
        with self.path.open("rb") as file:
            lines = file.read().split(b"\n")[:-1]  # behind the last break is what was cut off
        if not lines:
            return []
        self._check(self._entry(lines[0], 1))
        found: list[Answer] = []
        for number, line in enumerate(lines[1:], 2):
            entry = self._entry(line, number)
            if entry.get("kind") != _UNDO:
                found.append(self._answer(entry, number))
            elif found:
                found.pop()
        return found

    def add(self, *answers: Answer) -> None:
        """Write answers behind the others; where that fails, none of them is there."""
        self._append(
            [{"kind": one.kind, "nodes": one.nodes.tolist(), "value": one.value} for one in answers]
        )

    def undo(self, times: int = 1) -> None:
        """Write that the last answers do not count."""
        self._append([{"kind": _UNDO}] * times)

    @property
    def _of(self) -> dict[str, Any]:
        """What the answers are on, as the first line says it."""
        return {"data": self.data, "n": self.n, "graph": self.graph}

    def end(self) -> None:
        """Remove it: its answers are in a model now."""
        self.path.unlink(missing_ok=True)

    def _append(self, entries: Sequence[dict[str, Any]]) -> None:
        if not entries:
            return
        lines = list(entries)
        mode = "r+b" if self.path.exists() and self.path.stat().st_size else "w+b"
        if mode == "w+b":
            lines.insert(0, {"format": _FORMAT, **self._of})
        try:
            with self.path.open(mode, buffering=0) as file:
                end = file.seek(_whole(file))
                file.truncate()  # what was cut off by a kill
                try:
                    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
                    while text:
                        text = text[file.write(text) :]
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(end)  # lines that did not all fit
                    raise
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error

    def _entry(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{self.path}: line {number} is no answer; move the file away")
        return found

    def _check(self, header: dict[str, Any]) -> None:
        if header.get("format") != _FORMAT:
            raise InputError(f"{self.path}: no file of answers; move it away")
        if any(header.get(name) != value for name, value in self._of.items()):
            which = (
                "of the same name; their graph is another"
                if ((header.get("data"), header.get("n")) == (self.data, self.n))
                else f"({header.get('n')} rows of {header.get('data')})"
            )
            raise InputError(
                f"{self.path}: answers on other data {which}; move it away, or give another name "
                "with -o"
            )

    def _answer(self, entry: dict[str, Any], number: int) -> Answer:
        kind, value = entry.get("kind"), entry.get("value")
        given = entry.get("nodes")
        nodes: list[Any] = given if isinstance(given, list) else []
        inside = bool(nodes) and all(type(one) is int and 0 <= one < self.n for one in nodes)
        if kind == "pair":
            sound = inside and len(set(nodes)) == len(nodes) == 2 and value in (1, -1)
        elif kind == "name":
            sound = inside and isinstance(value, str)
        else:
            sound = inside and value != "" and isinstance(value, int | str)
            sound = sound and (isinstance(value, str) or (type(value) is int and value >= 0))
        if kind not in KINDS or not sound:
            raise InputError(f"{self.path}: line {number} is no answer; move the file away")
        assert value is not None
        return Answer(str(kind), np.array(nodes, dtype=np.int64), value)


def _whole(file: Any) -> int:
    """Where the last whole line ends."""
    size = file.seek(0, os.SEEK_END)
    step = 1 << 20
    for end in range(size, 0, -step):
        begin = max(0, end - step)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return int(begin + found + 1)
    return 0
