"""A fitted estimator and what a person says of its nodes: answers, refits, undo, history."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import mustlink
from mustlink.clusterers.informed_clusterer import InformedClusterer
from mustlink.constraints import Constraints
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.models import save_model
from mustlink_io.ui.journal import Answer, Journal, Step


def constraints_of(
    base: Constraints, y: NDArray[np.int64], answers: Sequence[Answer]
) -> Constraints:
    """All that is known and follows; of a node labelled before the last answer counts.

    Labels (n,), -1 for unknown, are those of `base` and of answers. Raises InputError.
    """
    if base.labels is not None and (y != base.labels)[base.labels >= 0].any():
        if base.soft_labels is not None:
            raise InputError("labels: some were given with a prior, which cannot be changed")
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


def is_known(told: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels (n,) are known: not -1, or not ""."""
    return np.asarray(told != "" if told.dtype.kind in "OU" else told >= 0)


def told_classes(told: NDArray[Any]) -> list[Any]:
    """Classes among labels (n,), -1 or "" for unknown, in order."""
    return list(np.unique(told[is_known(told)]).tolist())


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
    groups: Sequence[int], labels: NDArray[np.int64], told: NDArray[np.int64]
) -> dict[int, int]:
    """The class that says of a node that it is in a cluster, another one for every cluster.

    Clusters and classes that were told are paired so that most known nodes agree, numbers where
    they do not say. Clusters that are left have classes of their own, of their number where it is
    free. Empty where nothing was told.
    """
    known = np.flatnonzero((told >= 0) & (labels >= 0))
    if not known.size:
        return {}
    numbers, (classes, code) = np.array(groups), np.unique(told[known], return_inverse=True)
    agree = 0.5 * np.equal.outer(numbers, classes)
    np.add.at(agree, (np.searchsorted(numbers, labels[known]), code), 1.0)
    pairs = zip(*linear_sum_assignment(agree, maximize=True), strict=True)
    found = {int(numbers[i]): int(classes[j]) for i, j in pairs if agree[i, j] > 0}
    free = count(int(max(numbers.max(), classes.max())) + 1)
    taken = set(classes.tolist())
    return {one: found[one] if one in found else next(free) if one in taken else one
            for one in numbers.tolist()}  # fmt: skip


def name_clusters(estimator: Any, answers: Sequence[Answer]) -> None:
    """Give clusters the names that answers tell, in turn: each to that of most of its nodes."""
    for one in answers:
        if one.kind != "name":
            continue
        inside = estimator.labels_[one.nodes]
        inside = inside[inside >= 0]
        if inside.size:
            estimator.name_clusters({int(np.bincount(inside).argmax()): str(one.value)})


_MORE = 1.1  # times what was known from which it is calibrated anew


class Confidence:
    """Chances that labels are right, of one estimator while it is refitted."""

    def __init__(self) -> None:
        self._last: tuple[int, Any] | None = None  # how much was known, and the calibration by it

    def of(self, estimator: Any, known: int) -> NDArray[np.float64]:
        """Chances (n,), the largest of `membership_`, where so many labels and pairs are known.

        Calibrated by fits to a part of what is known, anew when a tenth more is known.
        """
        if self._last is not None and known <= _MORE * self._last[0]:
            estimator.calibrate(known=self._last[1])
        else:
            self._last = known, estimator.calibration_
        spreads = hasattr(estimator, "given_labels_")  # whose `confidence_` are margins
        return np.asarray(estimator.membership_.max(axis=1) if spreads else estimator.confidence_)


def meaning(estimator: Any) -> str:
    """What the chances are, and by what they are calibrated."""
    by = estimator.calibration_
    held = [(by.n_labels, "labels"), (getattr(by, "n_pairs", 0), "pairs")]
    told = " and ".join(f"{count:,} {what}" for count, what in held if count)
    how = f"calibrated by {told} held out" if told else "not calibrated"
    return f"the chance that a node is where it belongs, {how}"


Ints = NDArray[np.int64]
Ask = Callable[..., NDArray[Any]]


class NodeSession:
    """A clusterer or propagator that is refitted to the answers of a person.

    What the estimator was told before stays, but where the person says something else of a node.
    The estimator is refitted itself: who passes it sees the new labels. With a `journal` every
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
        self._spreads = hasattr(estimator, "given_labels_")
        if not self._spreads and not isinstance(estimator, InformedClusterer):
            raise InputError(
                f"{type(estimator).__name__}: takes no answers; fit one that takes constraints or "
                "labels, such as CSP (-m csp) or Poisson"
            )
        self._ask = ask
        self._base = estimator.given_labels_ if self._spreads else estimator.constraints_
        self._clusters = None if self._spreads else estimator.get_params().get("n_clusters")
        self._given_names = dict(getattr(estimator, "cluster_names_", {}))
        # A kill between the model and the end of the journal leaves answers in both.
        read = [] if journal is None else journal.read()
        self.answers = [one for one in read if self._spreads or not is_stated(self._base, one)]
        self.history: list[Step] = []
        self._sureness = Confidence()
        if journal is not None and any(one.asks_a_fit for one in self.answers):
            self._refit(f"{len(self.answers)} answers from {journal.path.name}")
        else:
            self._tell("as fitted", 0.0)
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
        given = {**stored, **getattr(self.estimator, "cluster_names_", {})}
        told = {one: f" (class {code})" for one, code in self._class_of.items() if one != code}
        return {one: given.get(one) or f"{one}{told.get(one, '')}" for one in self.groups}

    @property
    def choices(self) -> dict[Any, str]:
        """Class that an answer records, and what it is called: see `choose`.

        Every cluster has its own (`classes_of`); classes without nodes follow.
        """
        found: dict[Any, str] = {self._class_of.get(one, one): name
                                 for one, name in self.names.items()}  # fmt: skip
        called, numbers = self._class_names, set(map(str, self.groups))
        for one in told_classes(self.told):
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
        return hasattr(type(self.estimator), "membership_")

    @property
    def takes_pairs(self) -> bool:
        """Whether it may be told of two nodes that they are together or apart."""
        return not self._spreads

    @property
    def takes_names(self) -> bool:
        """Whether clusters may be given names; the classes of labels have theirs."""
        return hasattr(self.estimator, "name_clusters")

    @property
    def confidence(self) -> NDArray[np.float64]:
        """How sure the label of every row is (n,), as in results; now and then this takes fits."""
        known = int(is_known(self.told).sum())
        if not self._spreads:
            known += len(self.estimator.constraints_.pairs)
        return self._sureness.of(self.estimator, known)

    @property
    def confidence_means(self) -> str:
        """By what `confidence` is calibrated."""
        return meaning(self.estimator)

    @property
    def told(self) -> NDArray[Any]:
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
        answer = Answer("unknown", self._checked(nodes), 0)
        if self.journal is not None:
            self.journal.add(answer)
        self.answers.append(answer)

    def name(self, nodes: Any, name: str) -> None:
        """Call the cluster that most of the nodes (m,) have by a name, "" by none; InputError."""
        if not self.takes_names:
            raise InputError("name: classes are called as their labels are; label with a name")
        answer = Answer("name", self._checked(nodes), name)
        before = dict(self.estimator.cluster_names_)
        name_clusters(self.estimator, [answer])
        try:
            if self.journal is not None:
                self.journal.add(answer)
        except BaseException:
            self.estimator.name_clusters(
                {**dict.fromkeys(self.estimator.cluster_names_, ""), **before}
            )
            raise
        self.answers.append(answer)
        self._tell(answer.words(), 0.0)

    def take(self, answers: Sequence[Answer]) -> None:
        """Count answers, see `checked`, all by one refit; where that fails, none counts.

        They are in the journal before the refit, so that a kill does not lose them.
        """
        words = answers[0].words() if len(answers) == 1 else f"{len(answers)} answers"
        if self.journal is not None:
            self.journal.add(*answers)
        before = list(self.answers)
        self.answers += answers
        try:
            self._refit(words)
        except BaseException:
            self.answers = before
            if self.journal is not None:
                self.journal.undo(len(answers))
            raise

    def undo(self) -> bool:
        """Take the last answer back; False where there is none. Where the refit fails it stays."""
        if not self.answers:
            return False
        last = self.answers.pop()
        try:
            if last.asks_a_fit:
                self._refit(f"undone: {last.words()}")
            if self.journal is not None:
                self.journal.undo()
        except BaseException:
            self.answers.append(last)
            raise
        if last.kind == "name":
            self._name_again()
            self._tell(f"undone: {last.words()}", 0.0)
        return True

    def _name_again(self) -> None:
        """Names as they were at first, and those that were given since and not taken back."""
        there = {one: name for one, name in self._given_names.items() if one in self.groups}
        gone = dict.fromkeys(self.estimator.cluster_names_, "")
        self.estimator.name_clusters({**gone, **there})
        name_clusters(self.estimator, self.answers)

    @property
    def asks(self) -> bool:
        """Whether there is who chooses questions."""
        return self._ask is not None or hasattr(mustlink, "next_queries")

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
        self._given_names = dict(getattr(self.estimator, "cluster_names_", {}))
        self.answers = [one for one in self.answers if one.kind == "unknown"]
        if self.journal is not None:
            self.journal.end()
            self.journal.add(*self.answers)

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

    def _refit(self, said: str) -> None:
        began, y = perf_counter(), self.told
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResultWarning)  # the history tells them
            if self._spreads:
                self.estimator.refit(y)
            else:
                known = constraints_of(self._base, y, self.answers)
                if isinstance(self._clusters, int):
                    is_new = known.classes.size > self._base.classes.size
                    most = max(self._clusters, known.classes.size) if is_new else self._clusters
                    self.estimator.set_params(n_clusters=most)
                self.estimator.refit(constraints=known)
        self._tell(said, perf_counter() - began)

    def _tell(self, said: str, seconds: float) -> None:
        report = self.estimator.report_
        kept = (report.satisfaction or {}).get("balanced")
        found, counts = np.unique(self.labels, return_counts=True)
        some = (found != "") if found.dtype.kind in "OU" else (found >= 0)
        self._groups: list[Any] = found[some].tolist()
        self._class_of: dict[Any, int] = {}
        if not self._spreads:
            self._class_of = classes_of(self._groups, self.labels, self.told)
        sizes = tuple(counts[some].tolist())
        doubts = tuple(report.warnings)
        counted = sum(one.asks_a_fit for one in self.answers)
        moved = float(report.extra.get("changed", 0.0)) if seconds else 0.0
        self.history.append(Step(said, counted, kept, moved, sizes, seconds, doubts))
