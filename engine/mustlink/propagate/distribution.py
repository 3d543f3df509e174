"""From a method's values to class distributions and confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import check_number
from mustlink.errors import InputError
from mustlink.kernels.blocks import by_rows

Floats = NDArray[np.float64]
EMPTY = 1e-6  # share of the largest class mass that counts as none
NAMED_SHARES = ("equal", "smoothed")
_WANTED = 'give True, False, "equal", "smoothed" or one share a class'
# Labels added to every class: with 3 or 30 instead accuracy on 18 sets was lower where labels are
# drawn at random and few, or where there are many.
_ADDED = 10.0
BEYOND = 1e6  # times the usual range of a row: a root mean square that a few rows make


def class_shares(class_mass: Any, counts: Floats) -> Floats | None:
    """Shares q (K,) that class masses are scaled to, None for no scaling.

    `counts` (K,) are the labels of every class.

    True: the labels' own shares, one label added to every class (Zhu et al. 2003). "smoothed": ten
    labels added, so that a few labels, which say little about sizes, leave the classes about
    equal. "equal": 1/K. Numbers (K,): the shares themselves.
    """
    if class_mass is False or class_mass is None:
        return None
    n_classes = counts.size
    if isinstance(class_mass, str):
        if class_mass not in NAMED_SHARES:
            raise InputError(f"class_mass: {class_mass!r} is unknown; {_WANTED}")
        if class_mass == "equal":
            return np.full(n_classes, 1.0 / n_classes)
    if class_mass is True or isinstance(class_mass, str):
        added = 1.0 if class_mass is True else _ADDED
        more = counts + added
        return np.asarray(more / more.sum(), dtype=np.float64)
    given = np.ravel(np.asarray(class_mass, dtype=object))
    if given.size != n_classes:
        raise InputError(f"class_mass: {given.size} numbers for {n_classes} classes; {_WANTED}")
    shares = np.array([check_number(q, "class_mass", "shares above 0") for q in given])
    if not (shares > 0).all():
        raise InputError("class_mass: shares must be above 0; leave out a class that is empty")
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def distributions(
    scores: Floats,
    shares: Floats | None,
    unlabelled: NDArray[Any],
    *,
    masses: bool,
    floor: float = 0.0,
    possible: NDArray[np.bool_] | None = None,
    copies: Floats | None = None,
) -> Floats:
    """Rows (m, K) that sum to 1, largest where the scores are; zero rows where they say nothing.

    Masses (>= 0 up to rounding) are scaled until their sums over the unlabelled nodes are in the
    proportion of `shares`, and divided by the row's sum; a row says nothing if its sum is not above
    `floor` times the largest. Values of either sign are measured in
    units of their root mean square and moved to the nearest point of the simplex, which keeps
    their order; classes that are not `possible` (m, K) get nothing. Nodes may stand for `copies`
    (m,); `unlabelled` (m,) is a mask, or tells how many of them have no label.
    """
    if scores.size == 0:
        return np.zeros_like(scores)
    if not masses:
        V = scores / _unit(scores, copies)
        return onto_simplex(V if possible is None else np.where(possible, V, -np.inf))
    P = np.maximum(scores, 0.0)
    if possible is not None:
        P[~possible] = 0.0
    total = P.sum(axis=1)
    silent = total <= floor * total.max()
    if shares is not None:
        masked = unlabelled.dtype == np.bool_
        mass = P.sum(axis=0, where=unlabelled[:, None]) if masked else unlabelled @ P
        # A class without mass outside its labels is not blown up beyond all others.
        factor = shares / np.maximum(mass, max(EMPTY * mass.max(initial=0.0), 1e-300))
        # Rows first: values of 10⁻³⁰⁰ times a factor would be 0.
        P /= np.where(silent, 1.0, total)[:, None]
        P *= factor / factor.max()
        total = P.sum(axis=1)
    P /= np.where(silent, 1.0, total)[:, None]
    P[silent] = 0.0
    return P


def _unit(scores: Floats, copies: Floats | None) -> float:
    """Root mean square of the values, or what most rows have where a few are beyond all others.

    A part that hardly hangs on has potentials 10⁹ times as large: beside them all others would
    be ties.
    """
    largest = max(float(scores.max()), -float(scores.min()))
    if largest == 0.0:
        return 1.0

    def measured(F: Floats) -> Floats:
        part = F / largest
        spread = np.ptp(part, axis=1)
        return np.column_stack([np.mean(np.square(part, out=part), axis=1), spread])

    squares, spread = by_rows(measured, scores).T
    size = largest * float(np.sqrt(np.average(squares, weights=copies)))
    usual = float(np.median(spread)) * largest
    return min(size, BEYOND * usual) if usual > 0 else size


def onto_simplex(V: Floats) -> Floats:
    """Nearest probability distribution of every row (m, K), in O(m K log K) (Held et al. 1974)."""
    return by_rows(_onto_simplex, V)


def _onto_simplex(V: Floats) -> Floats:
    V = np.maximum(V - V.max(axis=1, keepdims=True), -2.0)  # the same point, whatever their size
    ordered = np.sort(V, axis=1)[:, ::-1]
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, V.shape[1] + 1)
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    return np.maximum(V - excess[np.arange(V.shape[0]), last][:, None], 0.0)


def confidence(P: Floats) -> Floats:
    """Largest minus second largest entry of every row (m, K): 0 for a tie, 1 for certainty."""
    return by_rows(_lead, P)


def _lead(P: Floats) -> Floats:
    top = np.partition(P, -2, axis=1)[:, -2:]
    return np.asarray(top[:, 1] - top[:, 0])
