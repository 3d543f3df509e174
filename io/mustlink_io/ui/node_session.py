"""A fitted estimator and what a person says of its nodes: answers, refits, undo, history."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import mustlink
from mustlink.constraints import Constraints
from mustlink.core.state import chosen
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.models import save_model
from mustlink_io.ui.journal import Answer, HistoryRow, Journal


def constraints_of(
    base: Constraints, y: NDArray[np.int64], answers: Sequence[Answer]
) -> Constraints:
    """All that is known and follows; of a node labelled before the last answer counts.

    Labels (n,), -1 for unknown, are those of `base` and of answers. Raises InputError.
    """
    if base.labels is not None and (y != base.labels)[base.labels >= 0].any():
        if base.soft_labels is not None:
            raise InputError("labels: some are of a prior, which cannot be changed")
        base = base.having(labels=None)
    new = y if base.labels is None else np.where(base.labels >= 0, -1, y)
    found = base + Constraints.from_labels(new)
    pairs = [one for one in answers if one.kind == "pair"]
    if pairs:
        ends = np.array([one.nodes for one in pairs])
        belief = [float(one.value) for one in pairs]
        found = found + Constraints.from_pairs(ends, belief, n_nodes=y.size)
        with suppress(InputError):  # what is believed in part has no closure
            found = found.closure()
    return found


def is_stated(base: Constraints, answer: Answer) -> bool:
    """Whether constraints say as surely what an answer on a pair says."""
    if answer.kind != "pair":
        return False
    pairs, belief = base.merged
    own = (np.sort(pairs, axis=1) == np.sort(answer.nodes)).all(axis=1)
    return bool((belief[own] * float(answer.value) >= 1).any())


def is_known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels (n,) are known: not -1, or not ""."""
    return np.asarray(labels != "" if labels.dtype.kind in "OU" else labels >= 0)


def class_number(value: int | str, named: Mapping[int, str]) -> int:
    """The class of a number, or of the name of a cluster; raises InputError."""
    numbers: dict[int | str, int | str] = {name: one for one, name in named.items()}
    try:
        found = int(numbers.get(value, value))
    except ValueError:
        raise InputError(
            f"class {value!r}: classes have whole numbers here, and no cluster is called so; "
            "give a number"
        ) from None
    if found < 0:
        raise InputError(f"class {found}: numbers of classes are 0 or more; give one")
    return found


def classes_of(
    groups: Sequence[int], labels: NDArray[np.int64], known_labels: NDArray[np.int64]
) -> dict[int, int]:
    """The class that says of a node that it is in a cluster, another one for every cluster.

    Clusters and classes of known labels are paired so that most known nodes agree, numbers where
    they do not say. Clusters that are left have classes of their own, of their number where it is
    free. Empty without known labels.
    """
    known = np.flatnonzero((known_labels >= 0) & (labels >= 0))
    if not known.size:
        return {}
    numbers, (classes, code) = np.array(groups), np.unique(known_labels[known], return_inverse=True)
    agree = 0.5 * np.equal.outer(numbers, classes)
    np.add.at(agree, (np.searchsorted(numbers, labels[known]), code), 1.0)
    pairs = zip(*linear_sum_assignment(agree, maximize=True), strict=True)
    found = {int(numbers[i]): int(classes[j]) for i, j in pairs if agree[i, j] > 0}
    free = count(int(max(numbers.max(), classes.max())) + 1)
    taken = set(classes.tolist())
    return {one: found[one] if one in found else next(free) if one in taken else one
            for one in numbers.tolist()}  # fmt: skip


def name_clusters(estimator: Any, answers: Sequence[Answer]) -> None:
    """Give clusters the names in the answers, in turn: each to that of most of its nodes."""
    for one in answers:
        if one.kind != "name":
            continue
        inside = estimator.labels_[one.nodes]
        inside = inside[inside >= 0]
        if inside.size:
            estimator.name_clusters({int(np.bincount(inside).argmax()): str(one.value)})


_MORE = 1.1  # times the known labels and pairs from which confidence is calibrated anew
Ints = NDArray[np.int64]
Ask = Callable[..., NDArray[Any]]


class NodeSession:
    """A clusterer or propagator that is refitted to the answers of a person.

    Its labels and pairs stay, but where the person says something else of a node.
    The estimator is refitted itself, in place. With a `journal` every
    answer is on disk before the refit, and those that are there already are taken up.
    `beside` is what the file of the estimator says that it does not know. Cost of an answer: a
    refit.
    """

    def __init__(
        self,
        estimator: Any,
        journal: Journal | None = None,
        ask: Ask | None = None,
        beside: Carried | None = None,
    ) -> None:
        self.estimator, self.journal, self.beside = estimator, journal, beside
        if type(estimator) is mustlink.NCut:
            self.estimator = estimator = mustlink.Auto.after(estimator)
        self._spreads = hasattr(estimator, "given_labels_")
        if not self._spreads and not getattr(estimator, "_informed", False):
            raise InputError(
                f"{type(estimator).__name__}: takes no answers; run again with -m auto, which "
                "needs no labels to begin with"
            )
        self._ask = ask
        self._base = estimator.given_labels_ if self._spreads else estimator.constraints_
        self._clusters = None if self._spreads else estimator.get_params().get("n_clusters")
        self._first_names = dict(getattr(estimator, "cluster_names_", {}))
        # A kill between the model and the end of the journal leaves answers in both.
        read = [] if journal is None else journal.read()
        self.answers = [one for one in read if self._spreads or not is_stated(self._base, one)]
        self.history: list[HistoryRow] = []
        self._calibrated: tuple[int, Any] | None = None  # how much was known, and by it
        if journal is not None and any(one.asks_a_fit for one in self.answers):
            self._refit(f"{len(self.answers)} answers from {journal.path.name}")
        else:
            self._record("as fitted", 0.0)
        if any(one.kind == "name" for one in self.answers):
            self._name_again()

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.estimator.labels_.size)

    @property
    def labels(self) -> NDArray[Any]:
        """Cluster or class of every row (n,), -1 or "" for none."""
        found: NDArray[Any] = self.estimator.labels_
        return found

    @property
    def groups(self) -> list[Any]:
        """Numbers or names of the clusters or classes that there are, in order."""
        return self._groups

    @property
    def names(self) -> dict[Any, str]:
        """What to call every cluster or class."""
        stored = {} if self.beside is None else self.beside.clusters
        named = {**stored, **getattr(self.estimator, "cluster_names_", {})}
        classes = {one: f" (class {code})" for one, code in self._class_of.items() if one != code}
        return {one: named.get(one) or f"{one}{classes.get(one, '')}" for one in self.groups}

    @property
    def choices(self) -> dict[Any, str]:
        """Class that an answer records, and what it is called: see `choose`.

        Every cluster has its own (`classes_of`); classes without nodes follow.
        """
        found: dict[Any, str] = {self._class_of.get(one, one): name
                                 for one, name in self.names.items()}  # fmt: skip
        called, numbers = self._class_names, set(map(str, self.groups))
        for one in np.unique(self.known_labels[is_known(self.known_labels)]).tolist():
            if one not in found:
                name = f"class {one}" if str(one) in numbers else str(one)
                found[one] = called.get(one, name)
        return found

    @property
    def _class_names(self) -> Mapping[Any, str]:
        return {} if self.beside is None else self.beside.classes

    @property
    def tells_confidence(self) -> bool:
        """Whether the method says how sure it is; asks nothing of it yet."""
        return hasattr(type(chosen(self.estimator)), "membership_")

    @property
    def takes_pairs(self) -> bool:
        """Whether answers may say that two nodes are together or apart."""
        return not self._spreads

    @property
    def takes_names(self) -> bool:
        """Whether clusters may get names; the classes of labels have theirs."""
        return hasattr(self.estimator, "name_clusters")

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The chance (n,) that the label of every row is right, as in results.

        Calibrated by fits to a part of the known labels and pairs, anew when a tenth more is known.
        """
        known = int(is_known(self.known_labels).sum())
        if not self._spreads:
            known += len(self.estimator.constraints_.pairs)
        if self._calibrated is not None and known <= _MORE * self._calibrated[0]:
            chosen(self.estimator).calibrate(known=self._calibrated[1])
        else:
            self._calibrated = known, self.estimator.calibration_
        # of propagators `confidence_` are margins
        found = self.estimator.membership_.max(axis=1) if self._spreads else None
        return np.asarray(self.estimator.confidence_ if found is None else found)

    @property
    def confidence_means(self) -> str:
        """What the chances are, and by what they are calibrated."""
        by = self.estimator.calibration_
        held = [(by.n_labels, "labels"), (getattr(by, "n_pairs", 0), "pairs")]
        words = " and ".join(f"{count:,} {what}" for count, what in held if count)
        how = f"calibrated by {words} held out" if words else "not calibrated"
        return f"the chance that a node is where it belongs, {how}"

    @property
    def known_labels(self) -> NDArray[Any]:
        """Labels of the rows (n,) that are known, before and by answers; -1 or "" elsewhere."""
        found = np.array(self._known_labels())
        for one in self.answers:
            if one.kind == "label":
                if found.dtype.kind == "U":
                    found = found.astype(object)
                found[one.nodes] = one.value
        return found

    def label(self, nodes: Any, value: int | str) -> None:
        """Say that nodes (m,) are of a cluster or class, by a number of `groups` or in words."""
        self.take([self.checked(Answer("label", self._checked(nodes), value))])

    def choose(self, nodes: Any, choice: int | str) -> None:
        """Say that nodes (m,) are of a class, one of the keys of `choices`."""
        self.take([Answer("label", self._checked(nodes), choice)])

    def pair(self, first: int, second: int, together: bool) -> None:
        """Say that two nodes are together, or are not."""
        nodes = self._checked([first, second])
        self.take([self.checked(Answer("pair", nodes, 1 if together else -1))])

    def checked(self, answer: Answer) -> Answer:
        """The answer as the method takes it; raises InputError."""
        if answer.kind == "pair":
            if self._spreads:
                name = type(self.estimator).__name__
                raise InputError(f"pairs: {name} takes labels alone; label both, or cluster")
            if answer.nodes.size < 2:
                raise InputError(f"pairs: node {answer.nodes[0]} twice; click two nodes")
            return answer
        value: int | str = answer.value
        words = {name: one for one, name in self.choices.items()}
        if isinstance(value, str) and value in words:
            return Answer("label", answer.nodes, words[value])
        if not self._spreads or self._base.dtype.kind not in "OU":
            classes = {name: one for one, name in self._class_names.items()}
            if value in classes:
                return Answer("label", answer.nodes, classes[str(value)])
            value = class_number(value, getattr(self.estimator, "cluster_names_", {}))
        elif not value:
            raise InputError("class: has no name; give one")
        return Answer("label", answer.nodes, self._class_of.get(value, value))

    def unknown(self, nodes: Any) -> None:
        """Say that one does not know; it is not asked again."""
        with self._with([*self.answers, Answer("unknown", self._checked(nodes), 0)]):
            pass

    def name(self, nodes: Any, name: str) -> None:
        """Call the cluster that most of the nodes (m,) have by a name, "" by none; InputError."""
        if not self.takes_names:
            raise InputError("name: classes are called as their labels are; label with a name")
        answer = Answer("name", self._checked(nodes), name)
        with self._with([*self.answers, answer]):
            name_clusters(self.estimator, [answer])
        self._record(answer.words(), 0.0)

    def take(self, answers: Sequence[Answer]) -> None:
        """Count answers, see `checked`, all by one refit; where that fails, none counts."""
        words = answers[0].words() if len(answers) == 1 else f"{len(answers)} answers"
        with self._with([*self.answers, *answers]):
            self._refit(words)

    def undo(self) -> bool:
        """Take the last answer back; False where there is none. Where the refit fails it stays."""
        if not self.answers:
            return False
        last = self.answers[-1]
        with self._with(self.answers[:-1]):
            if last.asks_a_fit:
                self._refit(f"undone: {last.words()}")
        if last.kind == "name":
            self._name_again()
            self._record(f"undone: {last.words()}", 0.0)
        return True

    @contextmanager
    def _with(self, answers: list[Answer]) -> Iterator[None]:
        """Let these be the answers, on disk before the block, so that a kill does not lose them.

        Where the block fails they are what they were.
        """
        before = self.answers
        self._write(answers)
        self.answers = answers
        try:
            yield
        except BaseException:
            self.answers = before
            self._write(before)
            raise

    def _write(self, answers: Sequence[Answer]) -> None:
        if self.journal is not None:
            self.journal.write(answers)

    def _name_again(self) -> None:
        """Names as they were at first, and those of later answers that were not undone."""
        there = {one: name for one, name in self._first_names.items() if one in self.groups}
        gone = dict.fromkeys(self.estimator.cluster_names_, "")
        self.estimator.name_clusters({**gone, **there})
        name_clusters(self.estimator, self.answers)

    def questions(self, n: int, kind: str = "labels", strategy: str = "auto") -> NDArray[Any]:
        """Nodes (m,) or pairs (m, 2) whose answers would help most, m <= n; raises InputError."""
        ask = mustlink.next_queries if self._ask is None else self._ask
        unknown = [one.nodes for one in self.answers if one.kind == "unknown"]
        if kind == "pairs":
            avoid: Any = [nodes for nodes in unknown if nodes.size == 2]
            avoid = np.array(avoid, dtype=np.int64).reshape(-1, 2)
        else:
            avoid = np.array([nodes[0] for nodes in unknown if nodes.size == 1], dtype=np.int64)
        return ask(self.estimator, n=n, kind=kind, strategy=strategy, avoid=avoid)

    def save(self, path: str | Path) -> None:
        """Write the model, which holds the answers, too, and what is `beside` it; journal ends."""
        save_model(self.estimator, path, beside=self.beside)
        self._base = self.estimator.given_labels_ if self._spreads else self.estimator.constraints_
        self._clusters = self.estimator.get_params().get("n_clusters")
        self._first_names = dict(getattr(self.estimator, "cluster_names_", {}))
        self.answers = [one for one in self.answers if one.kind == "unknown"]
        self._write(self.answers)

    def _checked(self, nodes: Any) -> Ints:
        found = np.unique(np.asarray(nodes, dtype=np.int64))
        if not found.size or found[0] < 0 or found[-1] >= self.n:
            raise InputError(f"nodes: none, or outside 0 to {self.n - 1}; choose some of the map")
        return found

    def _known_labels(self) -> NDArray[Any]:
        if self._spreads:
            return np.asarray(self._base)
        labels = self._base.labels
        return np.full(self.n, -1, dtype=np.int64) if labels is None else labels

    def _refit(self, words: str) -> None:
        began, y = perf_counter(), self.known_labels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResultWarning)  # they are in the history
            if self._spreads:
                self.estimator.refit(y)
            else:
                known = constraints_of(self._base, y, self.answers)
                if isinstance(self._clusters, int):
                    is_new = known.classes.size > self._base.classes.size
                    most = max(self._clusters, known.classes.size) if is_new else self._clusters
                    self.estimator.set_params(n_clusters=most)
                self.estimator.refit(constraints=known)
        self._record(words, perf_counter() - began)

    def _record(self, words: str, seconds: float) -> None:
        report = self.estimator.report_
        kept = (report.satisfaction or {}).get("balanced")
        found, counts = np.unique(self.labels, return_counts=True)
        some = (found != "") if found.dtype.kind in "OU" else (found >= 0)
        self._groups: list[Any] = found[some].tolist()
        self._class_of: dict[Any, int] = {}
        if not self._spreads:
            self._class_of = classes_of(self._groups, self.labels, self.known_labels)
        sizes = tuple(counts[some].tolist())
        doubts = tuple(report.warnings)
        counted = sum(one.asks_a_fit for one in self.answers)
        moved = float(report.extra.get("changed", 0.0)) if seconds else 0.0
        self.history.append(HistoryRow(words, counted, kept, moved, sizes, seconds, doubts))
