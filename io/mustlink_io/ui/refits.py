"""An estimator's state after answers, reached by refits: the same by whichever way.

What the page does beside its loop, in threads of its own, begins here, too.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink
from mustlink.clusterers.label_clusters import LabelClusters
from mustlink.core.observe import Recorder, Unheard
from mustlink.core.state import chosen
from mustlink.eigen.memory_work import smooth_vectors
from mustlink.errors import DoubtfulResultWarning, MustlinkError
from mustlink.graph import Graph
from mustlink.kernels.threads import threads
from mustlink.propagation.propagator import Propagator
from mustlink_io.ui.classes import constraints_of, is_known
from mustlink_io.ui.journal import Answer

_STATES = 1 << 28  # bytes of states of the estimator, about, so that undo and redo take no refit
Answers = tuple[Answer, ...]
State = Mapping[str, Any]  # attributes of an estimator


def in_thread(work: Callable[[], Any], done: Callable[[Any], object]) -> None:
    """Do work in a thread of its own, then `done` with what it returned, in the loop running here.

    Or with what it raised. The thread ends with the process, whatever it does.
    """
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            found = work()
        except Exception as error:
            found = error
        loop.call_soon_threadsafe(done, found)

    Thread(target=run, daemon=True).start()


class Refits:
    """States of a fitted estimator by answers that ask for a fit, from its state at the beginning.

    `known_by(answers)` are labels (n,) before and by answers. The estimator itself stays as it is.
    """

    def __init__(
        self, estimator: Any, known_by: Callable[[Sequence[Answer]], NDArray[Any]]
    ) -> None:
        self.spreads = hasattr(estimator, "given_labels_")
        self.base = estimator.given_labels_ if self.spreads else estimator.constraints_
        self._clusters = None if self.spreads else getattr(estimator, "n_clusters", None)
        self._estimator, self._known_by = copy(estimator), known_by
        self._states: dict[Answers, State] = {(): dict(vars(estimator))}
        self._stop_of: dict[Answers, int] = {(): 0}  # see `_last_stop`

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the rows (n,) that are known without answers; -1 or "" elsewhere."""
        if self.spreads:
            return np.asarray(self.base)
        labels, n = self.base.labels, self._estimator.labels_.size
        return np.full(n, -1, dtype=np.int64) if labels is None else labels

    def known(self, answers: Sequence[Answer]) -> Any:
        """All that is known with answers, as the estimator takes it; raises InputError."""
        y = self._known_by(answers)
        return y if self.spreads else constraints_of(self.base, y, answers)

    def warm(self) -> None:
        """Decide how systems on the graph are solved, for which the first refit would wait."""
        one = chosen(self._estimator)
        if not (isinstance(one, LabelClusters | Propagator) and isinstance(one.graph_, Graph)):
            return  # others have their vectors
        weights = getattr(one, "_row_weights", None)
        view = one._view(one.graph_, Recorder(Unheard()), row_weights=weights)
        with threads(one.n_jobs):
            smooth_vectors(view, one._used_seed)

    def find(self, answers: Answers) -> State | None:
        """The state of these answers, if it is at hand."""
        return self._states.get(answers)

    def reached(self, answers: Answers) -> State:
        """The state of these answers; raises what a refit raises.

        It is reached by a refit from that of the last stop before, see `_last_stop`, whatever was
        fitted in the meantime.
        """
        states = self._states
        if answers not in states:
            at = self._last_stop(answers)
            if answers not in states:
                states[answers] = self._reached(answers, at, len(answers))[0]
            arrays = [one for one in states[answers].values() if isinstance(one, np.ndarray)]
            of_one = sum(one.nbytes for one in arrays)
            for one in [*states][: -max(2, _STATES // max(of_one, 1))]:
                if self._stop_of[one] != len(one) and one != answers:
                    del states[one]
        return states[answers]

    def most(self, answers: Answers, before: Answers) -> dict[Answer, str]:
        """Reach the state of these answers, or of those that can be fitted; why others cannot.

        Those that are not among `before` are fitted one after another where all cannot be fitted at
        once. Raises what a refit raises where none of them is to blame.
        """
        new, wrong = [one for one in answers if one not in before], dict[Answer, str]()
        try:
            self.reached(answers)
        except (MustlinkError, MemoryError) as error:
            if not new:
                raise
            left = set(new)
            for one in new:
                left.remove(one)
                try:
                    self.reached(tuple(each for each in answers if each not in {*left, *wrong}))
                except (MustlinkError, MemoryError) as own:
                    wrong[one] = " ".join(str(own or error).split()) or "out of memory"
        return wrong

    def _last_stop(self, fits: Answers) -> int:
        """How many of the answers were counted when a refit last made choices anew, 0 for none.

        That takes long, and so the states behind are reached with the choices of this one, which
        is among the states then. What is known is half to twice as much, or the method or K would
        be another: see `Auto.refit` and `InformedClusterer.refit`.
        """
        at = low = 0
        for low in range(len(fits), -1, -1):
            at = self._stop_of.get(fits[:low], -1)
            if at >= 0 and fits[:at] in self._states:
                break
        while low < len(fits):
            found = self._next_stop(fits, at, low)
            at = at if found is None else found
            low = len(fits) if found is None else found
        return at

    def _next_stop(self, fits: Answers, at: int, low: int) -> int | None:
        """The first stop behind `low` answers, which are no more than those behind the stop `at`.

        A refit to fewer keeps the choices, one to more makes them anew: it is looked for where what
        is known doubles, else from `low` on, by steps that double.
        """

        def anew(to: int) -> State | None:
            state, is_new = self._reached(fits, at, to)
            if is_new:
                return state
            self._states[fits[:to]], self._stop_of[fits[:to]] = state, at
            return None

        last = len(fits)
        first = min(max(self._doubled(fits, at), low + 1), last)
        if (state := anew(first)) is None:
            low = first
            if low == last or (state := anew(last)) is None:
                return None
            first = last
        step = 1 if first == last else first - 1 - low
        while first - low > 1:  # a choice takes as long as many refits
            middle = min(low + step, first - 1)
            sooner = anew(middle)
            low, first = (middle, first) if sooner is None else (low, middle)
            state = state if sooner is None else sooner
            step = 2 * step if sooner is None else max((first - low) // 4, 1)
        self._states[fits[:first]], self._stop_of[fits[:first]] = state, first
        return first

    def _reached(self, fits: Answers, at: int, to: int) -> tuple[State, bool]:
        """The state of `to` answers, from that of `at`, and whether choices were made anew."""
        made = copy(self._estimator)
        made.__dict__ = dict(self._states[fits[:at]])

        def chosen_by() -> list[int]:  # how much was known
            return [getattr(one, "_amount", 0) for one in (made, chosen(made))]

        before, known = chosen_by(), self.known(fits[:to])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResultWarning)  # they are in the history
            if self.spreads:
                made.refit(known)
            else:
                if isinstance(self._clusters, int):
                    is_new = known.classes.size > self.base.classes.size
                    most = max(self._clusters, known.classes.size) if is_new else self._clusters
                    made.set_params(n_clusters=most)
                made.refit(constraints=known)
        return dict(vars(made)), chosen_by() != before

    def _doubled(self, fits: Answers, at: int) -> int:
        """The number of answers from which twice as much is known as by `at` of them, about."""
        known, others = is_known(self.labels), 0
        by_pairs = not self.spreads and not isinstance(self._estimator, mustlink.Auto)
        amounts = []
        for one in (None, *fits):
            if one is not None:
                known[one.nodes] |= one.kind == "label"
                others += one.kind == "pair"
            count = int(known.sum())
            amounts.append(others + (count * (count - 1) // 2 if by_pairs else count))
        more = (to for to in range(at + 1, len(fits)) if amounts[to] + 1 > 2 * (amounts[at] + 1))
        return next(more, len(fits))
