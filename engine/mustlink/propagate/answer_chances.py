"""The chance that an answer is right, from its margin: by labels that were held out.

    chance = 1/(1 + exp(−a − b·margin)),   margin: largest share less the second

a and b ≥ 0 are those that make likeliest what fits without a part of the labels answered of it
(Platt 1999). Labels are often drawn by class, and nodes are not: a label held out counts as much as
the nodes that were given its answer,

    w_i = (share of the nodes answered c_i)/(share of the labels held out answered c_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mustlink.kernels.blocks import row_slices
from mustlink.propagate.glp import Ints
from mustlink.scores.reliability import Reliability

Floats = NDArray[np.float64]
_STIFF = 0.05  # of the penalty on a and log b, for margins of deviation 1: far less than a label
_MOST = 5.0  # that a label counts: a class of a single label would decide alone
_TIE = 1e-9  # by which the answer is ahead where its chance is that of a guess


@dataclass(frozen=True)
class AnswerCalibration:
    """a and b of the chance, of how many labels held out, and how reliable that was of them.

    The table has every label by the a and b that the other folds gave. Where nothing was held out
    a and b are None, and shares are as the method gave them.
    """

    intercept: float | None = None
    slope: float | None = None
    n_labels: int = 0
    reliability: Reliability | None = None

    def chance(self, margin: NDArray[Any]) -> Floats:
        """Chances (m,) of answers by their margins, which are told apart by b alone."""
        assert self.intercept is not None
        assert self.slope is not None
        found: Floats = expit(self.intercept + self.slope * np.asarray(margin, dtype=np.float64))
        return found

    def moved(self, P: Any, margin: NDArray[Any]) -> Any:
        """Distributions (n, K) whose largest entry is the answer's chance; rows of 0 stay.

        A row is moved towards its answer alone, or towards 1/K, until its largest entry is the
        chance, or hardly above 1/K.
        """
        if self.intercept is None:
            return P
        out = np.zeros(P.shape)
        for rows in row_slices(*P.shape):
            out[rows] = _moved(np.asarray(P[rows]), self.chance(margin[rows]))
        return out


@dataclass(frozen=True, eq=False)
class Held:
    """What a fit without some labels answered of them: margins (l,), answers (l,), if right."""

    margin: Floats
    answer: Ints
    right: NDArray[np.bool_]


def calibrated_answers(folds: list[Held], answers: NDArray[Any]) -> AnswerCalibration:
    """How margins become chances, by what fits without a fold of the labels said of it.

    `answers` (n,) are those of the fit with all labels, -1 for none.
    """
    margin, answer, right = (
        np.concatenate([getattr(fold, name) for fold in folds])
        for name in ("margin", "answer", "right")
    )
    if not margin.size:
        return AnswerCalibration()
    weight = _weights(answer, answers)
    part = np.repeat(np.arange(len(folds)), [fold.margin.size for fold in folds])
    chance = np.empty(margin.size)
    for number in range(len(folds)):
        held, others = part == number, part != number
        if held.any() and others.any():
            a, b = _likeliest(margin[others], right[others], weight[others])
        else:
            a, b = _likeliest(margin, right, weight)
        chance[held] = expit(a + b * margin[held])
    table = Reliability.of(chance, right, weight)
    return AnswerCalibration(*_likeliest(margin, right, weight), margin.size, table)


def _likeliest(margin: Floats, right: NDArray[np.bool_], weight: Floats) -> tuple[float, float]:
    unit = float(margin.std()) or 1.0
    sign = np.where(right, 1.0, -1.0)

    def loss(given: Floats) -> float:
        z = given[0] + np.exp(given[1]) * margin / unit
        return float(-weight @ log_expit(sign * z) + _STIFF * given @ given)

    a, log_b = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(a), float(np.exp(log_b) / unit)


def _weights(answer: Ints, answers: NDArray[Any]) -> Floats:
    """What every label held out counts, 1 in the mean."""
    classes, at = np.unique(answer, return_inverse=True)
    nodes = np.array([np.count_nonzero(answers == c) for c in classes], dtype=np.float64)
    ratio = nodes / np.bincount(at)
    found = ratio[at] / max(float(ratio[at].mean()), 1e-300)
    found = np.minimum(found, _MOST)
    return np.asarray(found / found.mean()) if found.any() else np.ones(answer.size)


def _moved(P: Floats, chance: Floats) -> Floats:
    k, place = P.shape[1], np.arange(len(P))
    own = P.argmax(axis=1)
    share, chance = P[place, own], np.maximum(chance, 1.0 / k + _TIE)
    up = chance >= share
    way = np.where(up, 1.0 - share, share - 1.0 / k)
    step = np.abs(chance - share) / np.where(way > 0, way, 1.0)
    out = (1.0 - step)[:, None] * P + np.where(up, 0.0, step / k)[:, None]
    out[place, own] = chance
    out[~P.any(axis=1)] = 0.0
    return np.asarray(out)
