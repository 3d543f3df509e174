"""Answers of a person, a line each, in a file that a killed process leaves whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import digest
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink_io.hdf5 import writing

_FORMAT = "mustlink answers 2"
_LARGEST = 1 << 30  # bytes of a journal that is read
_MORE = ("id", "when", "who", "guess")
KINDS = ("label", "pair", "unknown", "name", "colour")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


def _user() -> str:
    """Who answers; "" where nobody is known, as in some containers."""
    try:
        return getuser()
    except (OSError, KeyError, ImportError):
        return ""


@dataclass(frozen=True, eq=False)
class Answer:
    """Nodes (m,) are of class `value`; or two are together, `value` 1, or not, -1; or unknown.

    Or the cluster in which most of the nodes are is called `value`, text, "" for no name, or shown
    in the colour `value`, #rrggbb. `id` is that of a browser, which may send the answer again;
    `when` the time, in UTC, and `who` the user. `guess` of the class of one node: whether the fit
    before was "right" or "wrong" about it, "" where that is no question.
    """

    kind: str
    nodes: NDArray[np.int64]
    value: int | str = 0
    id: str = ""
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    who: str = field(default_factory=_user)
    guess: str = ""

    @property
    def asks_a_fit(self) -> bool:
        """Whether clusters may be others by it."""
        return self.kind in ("label", "pair")

    def words(
        self,
        called: Callable[[int], str] = "node {:,}".format,
        classes: Mapping[Any, str] = MappingProxyType({}),
    ) -> str:
        """The answer in a few words: rows as they are `called`, classes by their names, if any."""
        count, value = self.nodes.size, classes.get(self.value, self.value)
        if self.kind == "name":
            return f"cluster named {self.value}" if self.value else "name taken away"
        if self.kind == "colour":
            return f"cluster in the colour {self.value}"
        if self.kind == "pair":
            together = "together" if self.value == 1 else "apart"
            return f"{' and '.join(called(one) for one in self.nodes.tolist())} {together}"
        which = called(int(self.nodes[0])) if count == 1 else f"{count:,} nodes"
        return f"{which}: don't know" if self.kind == "unknown" else f"{which}: class {value}"


@dataclass(frozen=True)
class HistoryRow:
    """A row of the history: an answer, and what followed."""

    words: str
    answers: int
    satisfaction: float | None
    moved: float
    sizes: tuple[int, ...]
    seconds: float
    warnings: tuple[str, ...] = ()


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
        disk O(n): there the numbers of neighbours are compared.
        """
        path, graph = Journal.place(target), estimator.graph_
        known = digest(graph.ends if isinstance(graph, DiskGraph) else graph.affinity)
        return cls(path, target.name, int(estimator.labels_.size), known)

    @staticmethod
    def place(target: Path) -> Path:
        """Where the answers on a result file are."""
        return target.with_name(f"{target.name}.answers")

    @property
    def _of(self) -> dict[str, Any]:
        """What the answers are on, as the first line says it."""
        return {"data": self.data, "n": self.n, "graph": self.graph}

    def read(self) -> list[Answer]:
        """The answers in the file; raises InputError for another file."""
        if not self.path.exists():
            return []
        if self.path.stat().st_size > _LARGEST:
            raise InputError(f"{self.path}: more than 1 GB, no file of answers; move it away")
        lines = self.path.read_bytes().splitlines()
        self._check(self._entry(lines[0] if lines else b"", 1))
        return [
            self._answer(self._entry(line, number), number)
            for number, line in enumerate(lines[1:], 2)
        ]

    def write(self, answers: Sequence[Answer]) -> None:
        """Let the file hold these answers, whole or not at all; without any it goes. InputError."""
        if not answers:
            self.path.unlink(missing_ok=True)
            return
        with writing.atomic(self.path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.write(json.dumps({"format": _FORMAT, **self._of}) + "\n")
            for one in answers:
                entry = {"kind": one.kind, "nodes": one.nodes.tolist(), "value": one.value}
                entry |= {name: getattr(one, name) for name in _MORE if getattr(one, name)}
                file.write(json.dumps(entry) + "\n")

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
        stored = entry.get("nodes")
        nodes: list[Any] = stored if isinstance(stored, list) else []
        inside = bool(nodes) and all(type(one) is int and 0 <= one < self.n for one in nodes)
        if kind == "pair":
            sound = inside and len(set(nodes)) == len(nodes) == 2 and value in (1, -1)
        elif kind == "name":
            sound = inside and isinstance(value, str)
        elif kind == "colour":
            sound = inside and isinstance(value, str) and COLOUR.fullmatch(value) is not None
        else:
            sound = inside and value != "" and isinstance(value, int | str)
            sound = sound and (isinstance(value, str) or (type(value) is int and value >= 0))
        if kind not in KINDS or not sound:
            raise InputError(f"{self.path}: line {number} is no answer; move the file away")
        assert value is not None
        more = {name: str(entry.get(name, ""))[:200] for name in _MORE}
        return Answer(str(kind), np.array(nodes, dtype=np.int64), value, **more)
