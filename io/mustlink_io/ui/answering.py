"""`mustlink ask` and `mustlink answer`: questions about a result file, and a result with answers.

Answers on the page that are not saved yet count, and a "don't know" there is not asked again here,
nor the other way round: both have the file OUT.h5.answers.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink as ml
from mustlink.core.state import chosen
from mustlink.discretize.memberships import usual
from mustlink.errors import InputError, spelt_alike
from mustlink_io.formats import labels as label_files
from mustlink_io.formats.photographs import picture_files
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.file_names import BEFORE, HDF5
from mustlink_io.hdf5.store import FileNames
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.models import load_model
from mustlink_io.ui.classes import is_known
from mustlink_io.ui.journal import Answer, Journal
from mustlink_io.ui.node_session import NodeSession

PICTURE = "picture"
_SURE = ("sure", "second", "third")
_TITLES = frozenset({"row", "name", "now", "answer", "first", PICTURE, *_SURE})
_MANY = 50  # labels of which one random half says as much as several


@dataclass(frozen=True, eq=False)
class Opened:
    """A result file with questions: its model, and what else is in it."""

    path: Path
    session: NodeSession
    carried: Carried

    @classmethod
    def of(cls, text: str) -> Opened:
        """Load the model of a file with what was answered on the page; raises InputError."""
        path = Path(text)
        if path.suffix not in HDF5:
            raise InputError(f"{path}: no result; give the .h5 file that a run wrote, as: out.h5")
        estimator = load_model(path, light=True)
        carried = Carried.of(path, int(np.asarray(estimator.labels_).size))
        return cls(path, NodeSession(estimator, Journal.beside(path, estimator)), carried)

    def called(self, nodes: NDArray[np.int64]) -> dict[int, list[Any]]:
        """Of every node (b,) its row, and its name where rows have names."""
        rows, names = self.carried.rows(nodes), self.carried.names
        if names is None:
            return {node: [row] for node, row in zip(nodes.tolist(), rows.tolist(), strict=True)}
        named = names.of_rows(rows) if isinstance(names, FileNames) else names
        return {node: [row, str(named[row])]
                for node, row in zip(nodes.tolist(), rows.tolist(), strict=True)}  # fmt: skip

    @property
    def names(self) -> dict[Any, str]:
        """What clusters or classes are called, by what the estimator calls them."""
        return {**self.session.names, **(self.carried.clusters if self.numbered else {})}

    @property
    def classes(self) -> dict[str, int]:
        """Classes by name, where they have names beside their numbers."""
        named = self.carried.classes.items() if self.numbered else ()
        return {name: number for number, name in named}

    @property
    def numbered(self) -> bool:
        """Whether the estimator knows classes by numbers, and not by names."""
        return self.session.known_labels.dtype.kind in "iu"

    def likeliest(self, rows: NDArray[np.int64]) -> list[list[str]]:
        """Of every row the share of what it is now, and the two others of most share with theirs.

        Of clusters in a smooth subspace they are calibrated, by refits that take moments; others
        are those of the method, as they are ranked for questions.
        """
        estimator = chosen(self.session.estimator)
        spread = getattr(estimator, "label_distributions_", None)
        if spread is not None:
            P, groups = np.asarray(spread[rows]), np.asarray(estimator.classes_).tolist()
        elif estimator.graph_.shares is not None:
            P = estimator.membership_[rows]
            groups = list(range(P.shape[1]))
        else:
            nodes = rows if estimator.graph_.rows is None else estimator.graph_.rows[rows]
            choice = getattr(estimator, "_choice", None)
            quick = choice is not None and choice.p is not None
            by = estimator.calibration_ if quick else usual(estimator.graph_)
            P = estimator._evidence().memberships(nodes, by.trust)
            groups = list(range(P.shape[1]))
        found = []
        for row, shares in zip(rows.tolist(), P, strict=True):
            label = self.session.labels[row]
            own = groups.index(label) if label in groups else -1
            others = [at for at in np.argsort(-shares, kind="stable").tolist() if at != own][:2]
            words = [
                f"{self.names.get(groups[at], groups[at])} ({shares[at]:.2f})" for at in others
            ]
            sure = f"{shares[own]:.2f}" if own >= 0 else ""
            found.append([sure, *words, *[""] * (2 - len(words))])
        return found

    def of_nodes(self, one: label_files.Answered, path: Path) -> label_files.Answered:
        """An answer on rows as one on nodes; raises InputError."""
        try:
            return replace(one, nodes=tuple(map(self.carried.node, one.nodes)))
        except InputError as error:
            raise InputError(f"{path}: line {one.line}: {error}; leave it out") from None

    def now(self, row: int) -> str:
        """What the class or cluster of a row is called; "" for none."""
        label = self.session.labels[row]
        return "" if label in ("", -1) else str(self.names.get(label, label))


def ask(
    text: str, n: int, kind: str, strategy: str, show: str | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Titles and lines of the next n questions about the result file `text`; raises InputError.

    With what is guessed, how sure that is, the next two, and the row's own columns; `show` is a
    folder of pictures, whose files are named.
    """
    opened = Opened.of(text)
    asked = opened.session.questions(n, kind, strategy)
    files = None if show is None else picture_files(show, opened.carried.n_rows)
    source, called = opened.carried.source(opened.path.parent), opened.called(asked.reshape(-1))
    named = opened.carried.names is not None

    def about(node: int) -> list[str]:
        file = [] if files is None else [str(files[called[node][0]])]
        return [*source.cells(node), *file]

    titles = [*source.titles, *([] if files is None else [PICTURE])]
    if kind == "pairs":
        sides = label_files.PAIR
        header = [one for side in sides for one in ((side, f"{side}_name") if named else (side,))]
        header += [f"{side}_{title}" for side in sides for title in ("now", *titles)]
        lines = [
            [one for node in pair for one in called[node]]
            + [one for node in pair for one in (opened.now(node), *about(node))]
            for pair in asked.tolist()
        ]
        return header, lines
    titles = [f"{one} (data)" if one.lower() in _TITLES else one for one in source.titles]
    titles += [] if files is None else [PICTURE]
    header = [label_files.ROW, *(["name"] if named else []), "now", *_SURE, *titles]
    lines = [
        [*called[node], opened.now(node), *sure, *about(node)]
        for node, sure in zip(asked.tolist(), opened.likeliest(asked), strict=True)
    ]
    return header, lines


def answer(
    text: str, table: str, output: str | None = None, *, new_classes: bool = False
) -> dict[str, Any]:
    """Write the result file with the answers of a table; returns what the summary shows.

    As `output`, or in the place of `text`, which stays as OUT.h5.before. What no class is called
    is an error, which names the one that is spelt alike, unless there may be `new_classes`, or
    nothing is known yet. Raises InputError, and then nothing is written.
    """
    opened = Opened.of(text)
    session, path = opened.session, Path(table)
    target = opened.path if output is None else Path(output)
    if target != opened.path:
        writing.check_output(target, (opened.path, path))
    lines = [opened.of_nodes(one, path) for one in
             label_files.load_answers(path, opened.carried.n_rows)]  # fmt: skip
    before = np.asarray(session.labels).copy()
    classes, choices = dict(opened.classes), session.choices
    called = {*classes, *choices.values(), *map(str, choices)}
    answers = [_as_answer(one, opened, path, classes) for one in lines]
    names: dict[Any, str] = {number: name for name, number in classes.items()}
    if not new_classes and is_known(session.known_labels).any():
        for line, one in zip(lines, answers, strict=True):
            name = str(names.get(one.value, one.value))
            if one.kind == "label" and name not in called:
                raise InputError(f"{path}: line {line.line} is answered {_slip(name, called)}")
    unknown = [one for one in answers if one.kind == "unknown"]
    known = [one for one in answers if one.kind != "unknown"]
    if not known:
        raise InputError(f"{path}: no answer; fill in its column `answer`")
    journal = Journal.beside(target, session.estimator)
    if target != opened.path and journal.read():
        raise InputError(
            f"{journal.path}: holds answers that are in no model; save them on the page, or move "
            "it away"
        )
    session.journal = None  # the table holds the answers until the model does
    session.take(known)
    guesses = session.guesses
    many = int(is_known(session.known_labels).sum()) >= _MANY
    found = ml.settled(session.estimator, draws=1 if many else 3)
    session.answers += unknown
    more = [] if output is None else ["-o", output]
    more += ["--new-classes"] if new_classes else []
    carried = opened.carried.then(shlex.join(["mustlink", "answer", text, table, *more]), path)
    session.beside = carried.with_classes(names)
    session.journal = journal
    before_it = None if target != opened.path else _put_aside(target)
    session.save(target)
    labelled = {str(names.get(one.value, one.value)) for one in known if one.kind == "label"}
    return {
        "output": str(target),
        "before": before_it,
        "method": session.estimator.report_.method,
        "answers": len(known),
        "unknown": len(unknown),
        "guessed": {"right": sum(guesses), "of": len(guesses)},
        "new_classes": sorted(labelled - called),
        "moved": float(np.mean(np.asarray(session.labels) != before)),
        "sizes": list(session.history[-1].sizes),
        "names": [str(session.names[one]) for one in session.groups],
        "warnings": list(session.history[-1].warnings),
        "settled": {"moved": found.moved, "agreed": found.agreed, "enough": found.enough},
        "advice": str(found),
    }


def _slip(word: str, called: Collection[str]) -> str:
    """A word that no class is called, with the one that is spelt alike."""
    alike = spelt_alike(word, called)
    meant = ", which is no class;" if alike is None else f": did you mean {alike}?"
    names = sorted(one for one in called if not one.isdigit()) or sorted(called)
    listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f"{word}{meant} classes are {listed}; give one, or --new-classes to add it"


def _put_aside(path: Path) -> str:
    """Keep a file that is written anew under another name; returns that."""
    kept = path.with_name(path.name + BEFORE)
    kept.unlink(missing_ok=True)
    try:
        os.link(path, kept)  # the new one is put in its place, whole
    except OSError:
        shutil.copy2(path, kept)
    return str(kept)


def _as_answer(
    one: label_files.Answered, opened: Opened, path: Path, classes: dict[str, int]
) -> Answer:
    """A line as an answer; among classes with names what is none of them yet becomes one."""
    nodes, session = np.array(one.nodes, dtype=np.int64), opened.session
    if not one.answer:
        return Answer("unknown", nodes)
    if nodes.size == 2:
        value = 1 if label_files.together(one.answer, path, one.line) else -1
        return session.checked(Answer("pair", np.sort(nodes), value))
    words = {name: number for number, name in opened.names.items() if name}
    fresh = opened.numbered and not is_known(session.known_labels).any()
    if (classes or fresh) and one.answer not in words and not one.answer.lstrip("+-").isdigit():
        last = max([*classes.values(), int(session.known_labels.max(initial=-1))])
        classes.setdefault(one.answer, last + 1)
    if one.answer in classes:
        return Answer("label", nodes, classes[one.answer])
    try:
        return session.checked(Answer("label", nodes, words.get(one.answer, one.answer)))
    except InputError as error:
        listed = ", ".join(sorted(words)[:8]) + (" …" if len(words) > 8 else "")
        some = f" (classes are {listed})" if words else ""
        raise InputError(
            f"{path}: line {one.line} is answered {one.answer!r}; {error}{some}"
        ) from None
