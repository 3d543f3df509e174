"""What a propagator says of how sure it is: chances of all classes, by labels held out."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.labels import as_labels, encoded, labels_of_nodes
from mustlink.observe import Recorder, Unheard, recorded
from mustlink.propagate.answer_chances import AnswerCalibration, Held, calibrated_answers
from mustlink.propagate.glp import Ints
from mustlink.propagate.held_out_labels import enough_labels, folds_of_labels
from mustlink.propagate.prior import GivenPrior

Floats = NDArray[np.float64]


class SoftAnswers:
    """Chances of answers, from `label_distributions_`, `confidence_` and the labels given."""

    graph_: Any
    labels_: Any
    label_distributions_: Any
    confidence_: Floats
    given_labels_: Any

    _calibrated: tuple[Any, AnswerCalibration] | None = None  # and the labels that it is of
    _given_prior: GivenPrior | None = None

    @property
    def membership_(self) -> Any:
        """Chance of every class for every node (n, K): the largest of a row is that of the answer.

        `label_distributions_` moved as `calibration_` says: rows sum to 1, `labels_` has the
        largest, 0 where `labels_` is -1. Where nothing could be held out they are as they were.
        """
        return self.calibration_.moved(self.label_distributions_, self.confidence_)

    @property
    def calibration_(self) -> AnswerCalibration:
        """How margins (`confidence_`) become chances: by labels held out of five further fits.

        From 15 labels and 3 a class on. Made once for a fit, when it is first asked for. Fits on
        disk are not calibrated: `n_labels` is 0.
        """
        check_is_fitted(self)
        made = self._calibrated
        if made is None or made[0] is not self.labels_:
            return self.calibrate()
        return made[1]

    def calibrate(
        self, observer: Any = None, known: AnswerCalibration | None = None
    ) -> AnswerCalibration:
        """`calibration_`, made now; an observer sees its stage.

        Or the one that is `known`, of a fit before a few more answers: without further fits.
        """
        check_is_fitted(self)
        if known is not None:
            self._calibrated = self.labels_, known
            return known
        folds = self._held_out(recorded(Unheard() if observer is None else observer))
        found = calibrated_answers(folds, self.labels_) if folds else AnswerCalibration()
        self._calibrated = self.labels_, found
        return found

    @abstractmethod
    def refit(self, y: Any, observer: Any = None) -> Self:
        """Label the rows again from other labels."""

    def _held_out(self, recorder: Recorder) -> list[Held]:
        """What fits without a fold of the labels answer of it; none where labels are few."""
        graph = self.graph_
        if not isinstance(graph, Graph):
            return []
        codes, names = encoded(self.given_labels_, "y")
        labels = as_labels(codes, graph.n_rows)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        nodes = labels_of_nodes(labels, rows, np.ones(labels.size), graph.n_nodes)[0]
        if not enough_labels(nodes):
            return []
        prior = self._given_prior
        if prior is not None and names is not None:  # the twins' classes are numbers
            code = {name: at for at, name in enumerate(names.tolist())}
            prior = replace(prior, classes=np.array([code[one] for one in prior.classes.tolist()]))
        found: list[Held] = []
        folds = folds_of_labels(nodes, 0)
        with recorder.stage("confidence by held-out labels") as advance:
            for number, fold in enumerate(folds):
                if recorder.deadline.is_over:
                    recorder.leave_out(f"confidence is by {number} fits instead of {len(folds)}")
                    break
                hidden = np.zeros(graph.n_nodes, dtype=np.bool_)
                hidden[fold] = True
                with suppress(InputError):  # a class may be left without a label
                    quiet = Recorder(Unheard(), recorder.deadline)
                    twin = self._twin()
                    twin._given_prior = prior
                    twin.refit(np.where(hidden[rows], -1, labels), observer=quiet)
                    found.append(_held(twin, graph.first_rows[fold], nodes[fold], names))
                advance((number + 1) / len(folds))
        return found

    def _twin(self) -> Any:
        """The same parameters and graph, with no answers."""
        twin: Any = clone(self)
        for name in ("graph_", "_points", "_row_weights", "_used_seed"):
            if name in vars(self):
                setattr(twin, name, getattr(self, name))
        return twin


def _held(twin: Any, rows: Ints, told: Ints, names: NDArray[Any] | None) -> Held:
    """What was answered of some rows whose class is known; of those answered at all."""
    there = twin.labels_[rows] >= 0
    answer = twin.labels_[rows[there]]
    right = answer == told[there]
    return Held(twin.confidence_[rows[there]], answer if names is None else names[answer], right)
