"""A fitted estimator and what a person says of its nodes: answers, refits, undo, history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink
from mustlink.core.state import chosen
from mustlink.errors import InputError, spelt_alike
from mustlink_io.formats import labels as label_files
from mustlink_io.jobs.carried import Carried, named_in
from mustlink_io.jobs.models import save_model
from mustlink_io.ui.classes import (
    ClassWords,
    class_number,
    classes_of,
    is_known,
    is_stated,
)
from mustlink_io.ui.journal import COLOUR, Answer, HistoryRow, Journal
from mustlink_io.ui.refits import Answers, Refits, in_thread

_FOUND_BY = 100  # rows by which a cluster is found again when its name or colour is kept
_TOLD = 3  # answers that one row of the history tells
_MORE = 1.1  # times the known labels and pairs from which confidence is calibrated anew
BATCH = 10  # questions that wait at once
Ints = NDArray[np.int64]
Version = tuple[list[Answer], list[int]]  # answers, and nodes that are asked about
Ask = Callable[..., NDArray[Any]]


def _of_fits(answers: Sequence[Answer]) -> Answers:
    return tuple(one for one in answers if one.asks_a_fit)


class NodeSession:
    """A clusterer or propagator that is refitted to the answers of a person.

    Its labels and pairs stay, but where the person says something else of a node.
    The estimator is refitted itself, in place: its state follows from that at the beginning and the
    `answers` alone, so that answers that are undone, taken back or read again lead to the very same
    labels. With a `journal` every answer is on disk before the refit, and those that are there
    already are taken up. `beside` is what the file of the estimator says that it does not know.
    `waiting` are the nodes that are asked about, first the one that is shown; `listeners` are
    called after every change. Cost of an answer: a refit.

    After `go_beside_loop`, in a loop of events, an answer counts at once and is fitted in a thread,
    one fit at a time, with all that came meanwhile; till then labels are those of the fit before.
    So are questions chosen: the next while these are answered, as if they were.
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
        names = getattr(chosen(estimator), "_class_names", None)
        if self.beside is None and names is not None:
            self.beside = Carried(classes=dict(enumerate(names)))
        self._spreads = hasattr(estimator, "given_labels_")
        if not self._spreads and not getattr(estimator, "_informed", False):
            raise InputError(
                f"{type(estimator).__name__}: takes no answers; run again with -m auto, which "
                "needs no labels to begin with"
            )
        self._ask = ask
        self._refits = Refits(estimator, self._known_by)
        self._first_names = dict(getattr(estimator, "cluster_names_", {}))
        self._top = self._last_number()
        self._doubted: set[str] = set()  # classes that may be slips
        # A kill between the model and the end of the journal leaves answers in both.
        read = [] if journal is None else journal.read()
        self.answers = [
            one for one in read if self._spreads or not is_stated(self._refits.base, one)
        ]
        self.history: list[HistoryRow] = []
        self.waiting: list[int] = []
        self.listeners: list[Callable[[], None]] = []
        self.may_replace: set[Path] = set()  # files that may be written anew
        self._past: list[Version] = []
        self._future: list[Version] = []
        self._calibrated: list[tuple[int, Any]] = []  # how much was known, and by it
        self.beside_loop = self.is_fitting = self._chooses = False
        self._settled = list(self.answers), ()  # type: tuple[list[Answer], Answers]  # as fitted
        self._since: list[str] = []  # what was said since
        self._ready: list[int] | None = None  # the next questions
        self.asks = self._other = False  # are waited for; are to be chosen anew
        self._shown = 0  # how often others were
        self._record("as fitted", 0.0, self.labels)
        if journal is not None and self.answers:
            count = len(self.answers)
            self._since = [f"{count} answer{'s' if count > 1 else ''} from {journal.path.name}"]
            self._fit()

    @property
    def place(self) -> str:
        """On what the answers are, as a browser keeps them."""
        return "" if self.journal is None else f"{self.journal.path.resolve()} {self.journal.graph}"

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
        own, called = getattr(self.estimator, "cluster_names_", {}), self._words().names
        found = {}
        for one in self.groups:
            code = self._class_of.get(one, one)
            words = called.get(code) if code in self._class_of.values() or self._spreads else None
            plain = f"{one}" if code == one else f"{one} (class {code})"
            found[one] = own.get(one) or words or stored.get(one) or plain
        return found

    @property
    def choices(self) -> dict[Any, str]:
        """Class that an answer records, and what it is called: see `choose`.

        Every cluster has its own (`classes_of`); classes without nodes follow.
        """
        found: dict[Any, str] = {self._class_of.get(one, one): name
                                 for one, name in self.names.items()}  # fmt: skip
        called, numbers = self._words().names, set(map(str, self.groups))
        for one in np.unique(self.known_labels[is_known(self.known_labels)]).tolist():
            if one not in found:
                name = f"class {one}" if str(one) in numbers else str(one)
                found[one] = called.get(one, name)
        return found

    def called(self, node: int) -> str:
        """The name of a row; its number where rows have no names."""
        name = None if self.beside is None else self.beside.called(node)
        return f"node {self.row(node):,}" if name is None else name

    def row(self, node: int) -> int:
        """The row of the data that a node is; the same unless some are left out."""
        return node if self.beside is None else self.beside.row(node)

    def words(self, answers: Sequence[Answer]) -> list[str]:
        """Answers in a few words each, with the names of rows and classes."""
        names = self._words().names
        return [one.words(self.called, names) for one in answers]

    def _in_words(self, answer: Answer) -> str:
        return self.words([answer])[0]

    @property
    def _stated_names(self) -> Mapping[Any, str]:
        return {} if self.beside is None else self.beside.classes

    @property
    def _numbered(self) -> bool:
        """Whether the fit knows classes by numbers, whatever they are called."""
        return not self._spreads or self._refits.base.dtype.kind not in "OU"

    def _words(self, answers: Sequence[Answer] | None = None) -> ClassWords:
        """How classes are called by these answers, or those so far."""
        given = self.answers if answers is None else answers
        return ClassWords.of(given if self._numbered else (), self._stated_names, self._top)

    def _said(self, answer: Answer) -> Answer:
        """What a person typed, `checked`; a new class spelt like another is doubted once."""
        made, word = self.checked(answer), str(answer.value)
        known = [*self.choices.values(), *self._words().names.values()]
        if answer.kind != "label" or made.value != word or word in {*known, *self._doubted}:
            return made
        meant = spelt_alike(word, known)
        if meant is None:
            return made
        self._doubted.add(word)
        raise InputError(f"{word}: did you mean {meant}? give it again to add a class")

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
        fitting = [by for count, by in self._calibrated if count <= known <= _MORE * count]
        if fitting:
            chosen(self.estimator).calibrate(known=fitting[-1])
        else:
            self._calibrated.append((known, self.estimator.calibration_))
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
        return self._known_by(self.answers)

    def _known_by(self, answers: Sequence[Answer]) -> NDArray[Any]:
        found, words = np.array(self._refits.labels), self._words(answers)
        for one in answers:
            if one.kind == "label":
                if found.dtype.kind == "U":
                    found = found.astype(object)
                found[one.nodes] = words.new.get(one.value, one.value)
        return found

    def label(self, nodes: Any, value: int | str) -> None:
        """Say that nodes (m,) are of a cluster or class, by a number of `groups` or in words."""
        self.take([self._said(Answer("label", self._checked(nodes), value))])

    def choose(self, nodes: Any, choice: int | str) -> None:
        """Say that nodes (m,) are of a class, one of the keys of `choices`."""
        self.take([Answer("label", self._checked(nodes), self._words().stored(choice))])

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
        words, value = self._words(), answer.value
        called = words.numbers(self.choices, stated=self._numbered)
        if value in called:
            return replace(answer, value=called[value])
        if self._numbered:
            clusters = getattr(self.estimator, "cluster_names_", {})
            is_first = not is_known(self.known_labels).any()
            if value not in clusters.values() and words.takes(value, is_first):
                return answer
            value = class_number(value, clusters)
        elif not value:
            raise InputError("class: has no name; give one")
        return replace(answer, value=self._class_of.get(value, value))

    def unknown(self, nodes: Any) -> None:
        """Say that one does not know; it is not asked again."""
        self.take([Answer("unknown", self._checked(nodes), 0)])

    def read(self, entry: Mapping[str, Any]) -> Answer:
        """The answer that a browser sent: {id, node, kind, value}; raises InputError."""
        kind, value = str(entry["kind"]), entry["value"]
        nodes = self._checked([int(entry["node"])])
        if kind == "unknown":
            return Answer(kind, nodes, 0, entry["id"])
        if kind == "word":
            return self._said(Answer("label", nodes, str(value), entry["id"]))
        if value not in self.choices:
            raise InputError(f"answer on {self.called(nodes[0])}: {value!r} is no class here")
        return Answer("label", nodes, self._words().stored(value), entry["id"])

    def ask_again(self, at: int) -> None:
        """Take answer number `at` back, and ask about its first node now; raises InputError."""
        node = int(self._answer(at).nodes[0])
        self.take_back(at)
        self.ask_first(node)

    def ask_about(self, nodes: list[int]) -> None:
        """Let these nodes wait for an answer, and tell the listeners."""
        self.waiting = nodes
        self._tell()

    def ask_first(self, node: int) -> None:
        """Ask about this node now, and about those that wait behind it."""
        self.ask_about([node, *(one for one in self.waiting if one != node)])

    def turn(self, steps: int) -> None:
        """Ask about another of the waiting nodes, `steps` further."""
        at = steps % max(len(self.waiting), 1)
        self.ask_about(self.waiting[at:] + self.waiting[:at])

    def doubtful(self, n: int) -> list[int]:
        """The n nodes without an answer of which it is least sure, the least sure first."""
        known = self._known_or_not()
        order = np.argsort(np.where(known, np.inf, self.confidence), kind="stable")
        found: list[int] = order[: min(n, int((~known).sum()))].tolist()
        return found

    def _known_or_not(self) -> NDArray[np.bool_]:
        """Which rows (n,) have a label, or one does not know."""
        found = is_known(self.known_labels)
        for one in self.answers:
            found[one.nodes] |= one.kind == "unknown"
        return found

    def table(self) -> str:
        """Answers as CSV that `mustlink answer` reads, but for names and pairs; who and when."""
        called = self.choices
        return label_files.table_text(
            ["row", "name", "when", "who", "answer"],
            [[self.row(one), self.called(one), each.when, each.who,
              called.get(each.value, each.value) if each.kind == "label" else "?"]
             for each in self.answers if each.kind in ("label", "unknown")
             for one in each.nodes.tolist()],
        )  # fmt: skip

    def name(self, nodes: Any, name: str) -> None:
        """Call the cluster that most of the nodes (m,) have by a name, "" by none; InputError."""
        if not self.takes_names:
            raise InputError("name: classes are called as their labels are; label with a name")
        answer = Answer("name", self._checked(nodes), name)
        self._change([*self.answers, answer], self._in_words(answer))

    def some_of(self, group: Any) -> Ints:
        """Rows (m,) by which a cluster or class is found again: spread over all of its rows."""
        rows = np.flatnonzero(self.labels == group)
        return rows[np.unique(np.linspace(0, rows.size - 1, _FOUND_BY).astype(np.int64))]

    def recolour(self, group: Any, colour: str) -> None:
        """Show a cluster or class in a colour, #rrggbb, in every tab; raises InputError.

        It is an answer, which is undone, is in the journal, and stays there when the rest is saved.
        """
        if group not in self.groups or COLOUR.fullmatch(colour) is None:
            raise InputError(
                f"colour: {group}, {colour}; give a cluster that there is, and #rrggbb"
            )
        others = [one for one in self.answers
                  if one.kind != "colour" or self._group_of(one) != group]  # fmt: skip
        self._change([*others, Answer("colour", self.some_of(group), colour)])

    @property
    def colours(self) -> dict[Any, str]:
        """Colours of the clusters or classes that a person coloured."""
        found = {self._group_of(one): str(one.value) for one in self.answers
                 if one.kind == "colour"}  # fmt: skip
        return {group: colour for group, colour in found.items() if group in self.groups}

    def _group_of(self, answer: Answer) -> Any:
        """The cluster or class that most nodes of an answer are in, of those that are in one."""
        inside = self.labels[answer.nodes]
        found, count = np.unique(inside[is_known(inside)], return_counts=True)
        return found.tolist()[count.argmax()] if found.size else None

    def class_of(self, group: Any) -> Any:
        """The class that a cluster stands for, as an answer records it; see `choices`."""
        return self._class_of.get(group, group)

    def classes_now(self, nodes: Ints) -> list[Any]:
        """Classes that nodes (m,) have by their clusters."""
        return [self.class_of(one) for one in self.labels[nodes].tolist()]

    @property
    def guesses(self) -> list[bool]:
        """Of the nodes that one answer labelled, in turn: whether the fit before was right."""
        return [one.guess == "right" for one in self.answers if one.guess]

    def _with_guess(self, answer: Answer) -> Answer:
        """The answer, and whether the labels so far say the same of its node."""
        if answer.kind != "label" or answer.nodes.size != 1:
            return answer
        if is_known(self.known_labels[answer.nodes]).any():
            return answer
        value = self._words([*self.answers, answer]).new.get(answer.value, answer.value)
        right = self.classes_now(answer.nodes) == [value]
        return replace(answer, guess="right" if right else "wrong")

    def take(self, answers: Sequence[Answer]) -> None:
        """Count answers, see `checked`, all by one refit; where that fails, none counts.

        Those that count already, as a browser may send them again, are left out.
        """
        there = {one.id for one in self.answers} - {""}
        new = [self._with_guess(one) for one in answers if one.id not in there]
        if new:
            words = "; ".join(self.words(new[:_TOLD]))
            more = f" and {len(new) - _TOLD} more" if len(new) > _TOLD else ""
            self._change([*self.answers, *new], words + more)

    def take_each(self, answers: Sequence[Answer]) -> list[str]:
        """Count answers by one refit, or those that can be; each is undone alone. What is wrong."""
        before = self.answers, self.waiting
        try:
            self.take(answers)
        except InputError as error:
            if len(answers) == 1:
                return [" ".join(str(error).split())]
            return [wrong for one in answers for wrong in self.take_each([one])]
        steps, done = self.answers[len(before[0]) : -1], set[int]()
        for at, one in enumerate(steps, len(before[0]) + 1):
            done |= set(one.nodes.tolist())
            waiting = [node for node in before[1] if node not in done]
            self._past.append((self.answers[:at], waiting))
        return []

    def take_back(self, at: int) -> None:
        """Let answer number `at` not count, all others as before; raises InputError."""
        words = f"taken back: {self._in_words(self._answer(at))}"
        self._change([*self.answers[:at], *self.answers[at + 1 :]], words)

    def correct(self, at: int, choice: int | str) -> None:
        """Let answer number `at`, a label, say another class of `choices`; raises InputError."""
        was = self._answer(at)
        if was.kind != "label":
            raise InputError(
                f"answer {at}: {self._in_words(was)}; take it back, only labels are corrected"
            )
        made = Answer("label", was.nodes, self._words().stored(choice))
        answers = [*self.answers[:at], made, *self.answers[at + 1 :]]
        self._change(answers, f"corrected: {self._in_words(made)}")

    def undo(self) -> bool:
        """Back to what was so before the last change; False where there is none.

        Answers, labels and the question are what they were. Where a refit fails nothing changes.
        """
        if not self._past and not self.answers:
            return False
        past = self._past or [(self.answers[:-1], [])]  # those of a journal have no past
        self._future.append(self._go(past[-1], "undone"))
        self._past = past[:-1]
        return True

    def redo(self) -> bool:
        """Do again what was undone last; False where there is nothing."""
        if not self._future:
            return False
        self._past.append(self._go(self._future[-1], "done again"))
        self._future.pop()
        return True

    def _go(self, version: Version, what: str) -> Version:
        """To another version of answers and waiting questions; returns the one before."""
        before, (answers, waiting) = (self.answers, self.waiting), version
        gone = [one for one in before[0] if one not in answers]
        others = gone or [one for one in answers if one not in before[0]]
        self._become(answers, waiting, f"{what}: {self._in_words(others[-1])}" if others else "")
        return before

    def _change(self, answers: list[Answer], words: str = "") -> None:
        """Let these be the answers, which can be undone; a question that they answer is done."""
        new = {int(node) for one in answers
               if one not in self.answers and one.kind not in ("name", "colour")
               for node in one.nodes}  # fmt: skip
        before = self.answers, self.waiting
        self._become(answers, [one for one in self.waiting if one not in new], words)
        self._past.append(before)
        self._future.clear()

    def _become(self, answers: list[Answer], waiting: list[int], words: str) -> None:
        """Let these be the answers, on disk before the fit, so that a kill does not lose them.

        Where something fails all is what it was.
        """
        before = self.answers, self.waiting, self._since
        self._write(answers)
        self.answers, self.waiting = answers, waiting
        self._since = [*self._since, words] if words else self._since
        if not self.beside_loop or self._refits.find(_of_fits(answers)) is not None:
            try:
                self._fit()
            except BaseException:
                self.answers, self.waiting, self._since = before
                self._write(self.answers)
                raise
        elif not self.is_fitting:
            self._begin()
        self._tell()

    def _tell(self) -> None:
        for tell in [*self.listeners]:
            tell()

    def _fit(self) -> None:
        """Put the estimator into the state of the answers."""
        began, fits = perf_counter(), _of_fits(self.answers)
        state, said = self._refits.reached(fits), self._since
        is_new, self._since = fits != self._settled[1], []
        self._take_over(state, fits, said, perf_counter() - began if is_new else 0.0)

    def _take_over(self, state: Any, fits: Answers, said: list[str], seconds: float) -> None:
        labels = self.labels
        self.estimator.__dict__ = dict(state)
        there = [one for one in self.answers if one in fits or not one.asks_a_fit]
        self._settled = there, fits
        self._name_again()
        if said:
            more = f" and {len(said) - _TOLD} more" if len(said) > _TOLD else ""
            self._record("; ".join(said[:_TOLD]) + more, seconds, labels)

    def _begin(self) -> None:
        """Fit in a thread, then to what came meanwhile."""
        (answers, before), fits = self._settled, _of_fits(self.answers)
        said, self._since, self.is_fitting, began = self._since, [], True, perf_counter()

        def done(wrong: Any) -> None:
            self.is_fitting = False
            if isinstance(wrong, Exception):  # nobody knows of which
                wrong = {one: str(wrong) for one in self.answers if one not in answers}
                self.answers = list(answers)
            for version in [self.answers, *(each for each, _ in self._past + self._future)]:
                version[:] = [one for one in version if one not in wrong]
            if wrong:
                self._write(self.answers)
            now, those = _of_fits(self.answers), tuple(one for one in fits if one not in wrong)
            state = self._refits.find(those)
            if state is not None and now[: len(those)] == those:
                self._take_over(state, those, said, perf_counter() - began)
            for one, why in wrong.items():
                self._record(f"{self._in_words(one)}: does not count: {why}", 0.0, self.labels)
            if self._refits.find(now) is None:
                self._begin()
            elif now != self._settled[1]:
                self._fit()
            self._tell()
            self.prepare()

        in_thread(lambda: self._refits.most(fits, before), done)

    def _answer(self, at: int) -> Answer:
        if not 0 <= at < len(self.answers):
            raise InputError(f"answer {at}: there are {len(self.answers)}, numbered from 0")
        return self.answers[at]

    def _write(self, answers: Sequence[Answer]) -> None:
        if self.journal is not None:
            self.journal.write(answers)

    def _name_again(self) -> None:
        """Names as they were at first, and those of the answers."""
        if not self.takes_names:
            return
        there = {one: name for one, name in self._first_names.items() if one in self.labels}
        gone = dict.fromkeys(self.estimator.cluster_names_, "")
        self.estimator.name_clusters({**gone, **there})
        for one in self.answers:
            if one.kind == "name" and (group := self._group_of(one)) is not None:
                self.estimator.name_clusters({group: str(one.value)})

    def go_beside_loop(self) -> None:
        """From now on answers count at once; what the first ones need is prepared."""
        if not self.beside_loop:
            self.beside_loop = True
            in_thread(self._refits.warm, bool)
            self.prepare()

    def ask(self) -> None:
        """Let the next questions wait as soon as they are chosen, and tell the listeners."""
        if not self.beside_loop:
            self.ask_about(np.asarray(self.questions(BATCH)).tolist())
            return
        self.asks = True
        self.prepare()

    def prepare(self) -> None:
        """Choose the next questions in a thread, as if those that wait were answered."""
        if not self.beside_loop:
            return
        if self.asks and self._ready is not None:
            open_ = ~self._known_or_not()
            found = [one for one in self._ready if open_[one]]
            self.asks = bool(self._ready and not found)  # by a lasso: others
            self._ready = None
            if not self.asks:
                self._shown += 1
                self.ask_about(found)
        if self._chooses:
            self._other = True
            return
        self._chooses, self._other = True, False
        work, shown = partial(self.questions, BATCH, about=self._assumed()), self._shown

        def done(found: Any) -> None:
            self._chooses, failed = False, isinstance(found, Exception)
            is_stale = failed or shown != self._shown  # others are answered meanwhile
            self._ready = None if is_stale else np.asarray(found).tolist()
            if failed and self.asks:
                self.asks = False
                self._record(" ".join(str(found).split()), 0.0, self.labels)
                self._tell()
            elif self.asks or self._other:
                self.prepare()

        in_thread(work, done)

    def _assumed(self) -> Any:
        """The fit, with all that is known, and as if of what waits all were right."""
        found, waiting = copy(chosen(self.estimator)), np.array(self.waiting, dtype=np.int64)
        now, words = zip(waiting, self.classes_now(waiting), strict=True), self._words()
        said = [Answer("label", np.array([node]), words.stored(one)) for node, one in now]
        known = self._refits.known([*self.answers, *said])
        vars(found)["given_labels_" if self._spreads else "_given"] = known
        return found

    def questions(
        self, n: int, kind: str = "labels", strategy: str = "auto", about: Any = None
    ) -> NDArray[Any]:
        """Nodes (m,) or pairs (m, 2) whose answers would help most, m <= n; raises InputError.

        `about` is the fit as it is, unless another one is given.
        """
        ask = mustlink.next_queries if self._ask is None else self._ask
        unknown = [one.nodes for one in self.answers if one.kind == "unknown"]
        if kind == "pairs":
            avoid: Any = [nodes for nodes in unknown if nodes.size == 2]
            avoid = np.array(avoid, dtype=np.int64).reshape(-1, 2)
        else:
            avoid = np.array([nodes[0] for nodes in unknown if nodes.size == 1], dtype=np.int64)
        fit = self.estimator if about is None else about
        return ask(fit, n=n, kind=kind, strategy=strategy, avoid=avoid)

    def save(self, path: str | Path) -> None:
        """Write the model, which holds the answers, too, and what is `beside` it; journal ends."""
        if (words := self._words()).new:
            self.beside = (self.beside or Carried()).with_classes(words.names)
        save_model(self.estimator, path, beside=self.beside)
        self._refits = Refits(self.estimator, self._known_by)
        self._first_names = dict(getattr(self.estimator, "cluster_names_", {}))
        self._past, self._future, self._top = [], [], self._last_number()
        self.answers = [one for one in self.answers if one.kind in ("unknown", "colour")]
        self._settled = list(self.answers), ()
        self._write(self.answers)

    def _last_number(self) -> int:
        """The largest of a class or cluster so far; -1 where these are words."""
        known = self._refits.labels
        numbers = [one.max(initial=-1) for one in (known, self.labels) if one.dtype.kind in "iu"]
        return int(max(numbers, default=-1))

    def _checked(self, nodes: Any) -> Ints:
        found = np.unique(np.asarray(nodes, dtype=np.int64))
        if not found.size or found[0] < 0 or found[-1] >= self.n:
            raise InputError(f"nodes: none, or outside 0 to {self.n - 1}; choose some of the map")
        return found

    def _record(self, words: str, seconds: float, before: NDArray[Any]) -> None:
        """A row of the history, with how many labels are others than `before` (n,)."""
        report = self.estimator.report_
        kept = (report.satisfaction or {}).get("balanced")
        found, counts = np.unique(self.labels, return_counts=True)
        some = (found != "") if found.dtype.kind in "OU" else (found >= 0)
        self._groups: list[Any] = found[some].tolist()
        self._class_of: dict[Any, int] = {}
        if not self._spreads:
            self._class_of = classes_of(self._groups, self.labels, self.known_labels)
        sizes = tuple(counts[some].tolist())
        doubts = tuple(named_in(report.warnings, self.names))
        counted = sum(one.asks_a_fit for one in self.answers)
        moved = float(np.mean(self.labels != before))
        self.history.append(HistoryRow(words, counted, kept, moved, sizes, seconds, doubts))
