"""`mustlink ask` and `mustlink answer`: questions about a result file, and a result with answers.

What was answered on the page and not saved yet counts, and who knew no answer there is not asked
again here, nor the other way round: both keep that in the file OUT.h5.answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats import questions
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.stored_names import StoredNames, stored_names
from mustlink_io.jobs.models import load_model
from mustlink_io.ui.journal import Answer, Journal
from mustlink_io.ui.node_session import NodeSession


@dataclass(frozen=True, eq=False)
class Opened:
    """A result file that is asked about: names of its rows and of its classes, where it has any."""

    path: Path
    session: NodeSession
    names: StoredNames | None
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Opened:
        """Load the model of a file with what was answered on the page; raises InputError."""
        path = Path(text)
        estimator = load_model(path)
        n = int(np.asarray(estimator.labels_).size)
        with store.open_h5(path) as file:
            rows = store.dataset(file, "/labels").shape[0]
            names = stored_names(file, path)
            given = store.find(file, "/class_names") is not None
            classes = store.texts(file, "/class_names") if given else ()
        if rows != n:
            raise InputError(
                f"{path}: {rows - n} rows with missing values are in no model; fill them and fit "
                "again to be asked"
            )
        journal = Journal(path.with_name(f"{path.name}.answers"), path.name, n)
        return cls(path, NodeSession(estimator, journal), names, tuple(map(str, classes)))

    def called(self, row: int) -> list[str]:
        """The name of a row, in a list; none where rows have no names."""
        return [] if self.names is None else [str(self.names[row : row + 1][0])]

    def vocabulary(self) -> dict[str, Any]:
        """What may be answered for a class: names, each with what the estimator is told."""
        estimator = self.session.estimator
        numbers = list(getattr(estimator, "classes_", range(len(self.class_names))))
        found = dict(zip(self.class_names, numbers, strict=False))
        given = {name: number for number, name in self.session.names.items()}
        return {name: number for name, number in {**given, **found}.items() if name}

    def now(self, row: int) -> str:
        """What the class or cluster of a row is called; "" for none."""
        label = self.session.labels[row]
        if label in ("", -1):
            return ""
        called = {number: name for name, number in self.vocabulary().items()}
        return str(called.get(label, label))


def ask(text: str, n: int, kind: str, strategy: str) -> str:
    """The next n questions about the result file `text`, as CSV; raises InputError."""
    opened = Opened.of(text)
    asked = opened.session.questions(n, kind, strategy)
    named = opened.names is not None
    if kind == "pairs":
        sides = questions.PAIR
        header = [one for side in sides for one in ((side, f"{side}_name") if named else (side,))]
        lines = [[one for row in pair for one in (row, *opened.called(row))] for pair in asked]
        return questions.written(header, lines)
    header = [questions.ROW, *(["name"] if named else []), "now"]
    lines = [[row, *opened.called(row), opened.now(row)] for row in asked.tolist()]
    return questions.written(header, lines)


def answer(text: str, table: str, output: str | None = None) -> dict[str, Any]:
    """Write the result file with the answers of a table; returns what the summary shows.

    In the place of `text`, or as `output`. Raises InputError, and then nothing is written.
    """
    opened = Opened.of(text)
    session, path = opened.session, Path(table)
    target = opened.path if output is None else Path(output)
    if target != opened.path:
        store.check_output(target, (opened.path, path))
    told = questions.load_answers(path, session.n)
    before = np.asarray(session.labels).copy()
    given = [_as_answer(one, opened, path) for one in told]
    unknown = [one for one in given if one.kind == "unknown"]
    known = [one for one in given if one.kind != "unknown"]
    if known:
        session.take(known)
    found = ml.settled(session.estimator)
    session.journal = Journal(target.with_name(f"{target.name}.answers"), target.name, session.n)
    session.answers += unknown
    session.save(target, beside=_beside(opened))
    return {
        "output": str(target),
        "answers": len(known),
        "unknown": len(unknown),
        "moved": float(np.mean(np.asarray(session.labels) != before)),
        "sizes": list(session.history[-1].sizes),
        "warnings": list(session.estimator.report_.warnings),
        "settled": {"moved": found.moved, "agreed": found.agreed, "enough": found.enough},
        "advice": str(found),
    }


def _as_answer(one: questions.Answered, opened: Opened, path: Path) -> Answer:
    nodes = np.array(one.nodes, dtype=np.int64)
    if not one.answer:
        return Answer("unknown", nodes)
    if nodes.size == 2:
        value = 1 if questions.together(one.answer, path, one.line) else -1
        return opened.session.checked(Answer("pair", np.sort(nodes), value))
    words = opened.vocabulary()
    known: Any = words.get(one.answer, one.answer)
    try:
        return opened.session.checked(Answer("label", nodes, known))
    except InputError as error:
        some = _some(sorted(words))
        raise InputError(
            f"{path}: line {one.line} is answered {one.answer!r}; {error}{some}"
        ) from None


def _some(words: Sequence[str]) -> str:
    return f" (classes are {', '.join(words[:8])}{' …' if len(words) > 8 else ''})" if words else ""


def _beside(opened: Opened) -> dict[str, Any]:
    """What the file says of rows and classes beside the model, which is to stay in it."""
    found: dict[str, Any] = {}
    if opened.names is not None:
        found["/names"] = opened.names[slice(0, len(opened.names))]
    session = opened.session
    if opened.class_names and not getattr(session.estimator, "cluster_names_", {}):
        clusters = hasattr(session.estimator, "constraints_")
        more = max(session.groups) + 1 - len(opened.class_names) if clusters else 0
        found["/class_names"] = [*opened.class_names, *[""] * max(more, 0)]
    return found
