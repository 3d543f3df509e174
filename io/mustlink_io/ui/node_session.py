"""A fitted estimator and what a person says of its nodes: answers, refits, undo, history."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink
from mustlink.constraints import Constraints
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.methods.informed_clusterer import InformedClusterer
from mustlink_io.jobs.models import save_model
from mustlink_io.ui.journal import Answer, Journal

Ints = NDArray[np.int64]
Ask = Callable[..., NDArray[Any]]


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


class NodeSession:
    """A clusterer or propagator that is refitted to the answers of a person.

    What the estimator was told before stays, but where the person says something else of a node.
    The estimator is refitted itself: who passes it sees the new labels. With a `journal` every
    answer is on disk before the refit, and those that are there already are taken up.
    Cost of an answer: a refit.
    """

    def __init__(
        self, estimator: Any, journal: Journal | None = None, ask: Ask | None = None
    ) -> None:
        self.estimator, self.journal = estimator, journal
        self._spreads = hasattr(estimator, "given_labels_")
        if not self._spreads and not isinstance(estimator, InformedClusterer):
            raise InputError(
                f"{type(estimator).__name__}: takes no answers; fit one that takes constraints or "
                "labels, such as CSP or Poisson"
            )
        self._ask = ask
        self._base = estimator.given_labels_ if self._spreads else estimator.constraints_
        self._clusters = None if self._spreads else estimator.get_params().get("n_clusters")
        self.answers: list[Answer] = [] if journal is None else journal.read()
        self.history: list[Step] = []
        if self.answers:
            self._refit(f"{len(self.answers)} answers from {journal.path.name}" if journal else "")
        else:
            self._tell("as fitted", 0.0)

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
        given = getattr(self.estimator, "cluster_names_", {})
        return {one: given.get(one) or str(one) for one in self.groups}

    @property
    def tells_confidence(self) -> bool:
        """Whether the method says how sure it is; asks nothing of it yet."""
        return hasattr(type(self.estimator), "confidence_") or "confidence_" in vars(self.estimator)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """How sure the label of every row is (n,); once after every answer this may take fits."""
        found: NDArray[np.float64] = self.estimator.confidence_
        return found

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
        """Say that nodes (m,) are of a cluster or class, one of `groups` or a new one."""
        self.take([self.checked(Answer("label", self._checked(nodes), value))])

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
        if not self._spreads or self._base.dtype.kind not in "OU":
            try:
                value = int(value)
            except ValueError:
                raise InputError(
                    f"class {value!r}: classes have whole numbers here; give one"
                ) from None
            if value < 0:
                raise InputError(f"class {value}: numbers of classes are 0 or more; give one")
        elif not value:
            raise InputError("class: has no name; give one")
        return Answer("label", answer.nodes, self._classes.get(value, value))

    @property
    def _classes(self) -> dict[Any, Any]:
        """Class by which every cluster is told, where labels number them otherwise: most of its."""
        told = self.told
        if self._spreads or not (told >= 0).any():
            return {}
        found = {}
        for one in self.groups:
            own = told[(self.labels == one) & (told >= 0)]
            if own.size:
                found[one] = int(np.bincount(own).argmax())
        return found

    def unknown(self, nodes: Any) -> None:
        """Say that one does not know; it is not asked again."""
        answer = Answer("unknown", self._checked(nodes), 0)
        if self.journal is not None:
            self.journal.add(answer)
        self.answers.append(answer)

    def take(self, answers: Sequence[Answer]) -> None:
        """Count answers, see `checked`, all by one refit; after an InputError none counts."""
        before = list(self.answers)
        self.answers += answers
        words = answers[0].words() if len(answers) == 1 else f"{len(answers)} answers"
        try:
            self._refit(words)
        except InputError:
            self.answers = before
            raise
        if self.journal is not None:
            for one in answers:
                self.journal.add(one)

    def undo(self) -> bool:
        """Take the last answer back; False where there is none."""
        if not self.answers:
            return False
        if self.journal is not None:
            self.journal.undo()
        last = self.answers.pop()
        if last.kind != "unknown":
            self._refit(f"undone: {last.words()}")
        return True

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

    def save(self, path: str | Path, beside: Mapping[str, Any] | None = None) -> None:
        """Write the model, which holds the answers, too; the journal ends.

        `beside` are other entries of the file.
        """
        save_model(self.estimator, path, beside=beside)
        self._base = self.estimator.given_labels_ if self._spreads else self.estimator.constraints_
        self.answers = [one for one in self.answers if one.kind == "unknown"]
        if self.journal is not None:
            self.journal.end()
            for one in self.answers:
                self.journal.add(one)

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
                known = self._constraints(y)
                if isinstance(self._clusters, int):
                    most = max(self._clusters, known.classes.size)
                    self.estimator.set_params(n_clusters=most)
                self.estimator.refit(constraints=known)
        self._tell(said, perf_counter() - began)

    def _constraints(self, y: Ints) -> Constraints:
        """All that is known and follows; of a node labelled before the last answer counts."""
        base, pairs = self._base, [one for one in self.answers if one.kind == "pair"]
        if base.labels is not None and (y != base.labels)[base.labels >= 0].any():
            if base.soft_labels is not None:
                raise InputError("labels: some were given with a prior, which cannot be changed")
            base = base.weighted(labels=0.0)
        new = y if base.labels is None else np.where(base.labels >= 0, -1, y)
        found = base + Constraints.from_labels(new)
        if pairs:
            ends = np.array([one.nodes for one in pairs])
            belief = [float(one.value) for one in pairs]
            found = found + Constraints.from_pairs(ends, belief, n_nodes=self.n)
            with suppress(InputError):  # what is believed in part has no closure
                found = found.closure()
        return found

    def _tell(self, said: str, seconds: float) -> None:
        report = self.estimator.report_
        kept = (report.satisfaction or {}).get("balanced")
        found, counts = np.unique(self.labels, return_counts=True)
        some = (found != "") if found.dtype.kind in "OU" else (found >= 0)
        self._groups: list[Any] = found[some].tolist()
        sizes = tuple(counts[some].tolist())
        doubts = tuple(report.warnings)
        counted = sum(one.kind != "unknown" for one in self.answers)
        moved = float(report.extra.get("changed", 0.0)) if seconds else 0.0
        self.history.append(Step(said, counted, kept, moved, sizes, seconds, doubts))
