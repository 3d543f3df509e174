"""What a person should hear of labels that were spread: of unequal shares, and of answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import Recorder

_MANY = 50  # labels of the rarest class from which the graph says how far it reaches
_UNEQUAL = 3.0  # times as many labels in one class as in another that a person should hear about
_CHANGED = 0.1  # share of the given labels answered otherwise from which a result is doubtful
_LOST = 1e-2  # times as many nodes as its labels' share promises: a class that came out empty
_TELLING = 20  # labels held out from which a share of them says something
_HALF, _SURE = 0.5, 0.7  # right of those held out, and confidence, that do not fit together
_PROMISED = 10  # nodes from which that is no chance


def note_shares(count: NDArray[np.float64], recorder: Recorder, *, always: bool) -> None:
    """Tell of labels that are unequally many, where they decide about the sizes of the classes.

    `count` (K,) are those of every class; `always`: however many there are.
    """
    few = always or count.min() < _MANY
    if few and count.max(initial=0) > _UNEQUAL * max(count.min(), 1):
        recorder.note(
            f"classes have from {count.min():g} to {count.max():g} labels, which weighs on "
            'their sizes; if those differ less, say so: class_mass="equal" (--class-shares '
            "equal) or the shares"
        )


def doubt_answers(
    classes: NDArray[np.int64],
    given: NDArray[np.int64],
    answers: NDArray[np.int64],
    remedy: str,
    recorder: Recorder,
) -> None:
    """Tell where classes (K,) that have labels come out empty, or labels `given` (n,) are not kept.

    `answers` (n,) are the classes answered.
    """
    lost = lost_classes(classes, np.where(np.isin(given, classes), given, -1), answers)
    if lost:
        recorder.warn(
            f"{lost} of {classes.size} classes have hardly a node beside their labels; {remedy}"
        )
    known = given >= 0
    changed = 1 - float(np.mean(answers[known] == given[known]))
    if changed > _CHANGED:
        recorder.warn(
            f"{changed:.1%} of the given labels were answered with another class; "
            f"where they are right, {remedy}"
        )
    elif changed > 0:
        recorder.note(f"{changed:.1%} of the given labels were answered with another class")


def doubt_held_out(
    right: NDArray[np.bool_] | None,
    given: NDArray[np.int64],
    sure: float,
    recorder: Recorder,
) -> None:
    """Tell where labels held out were hardly answered `right` (m,), None where none were.

    `given` (n,) are all labels, -1 unknown, `sure` is the mean confidence of the answers. Poor is
    what the largest class alone would have, up to two standard errors, or less than a half where
    the answers are confident.
    """
    if right is None or right.size < _TELLING:
        return
    share, known = float(right.mean()), np.unique(given[given >= 0], return_counts=True)[1]
    largest = float(known.max() / known.sum())
    told = f"only {share:.1%} of {right.size} labels held out were answered right"
    if share <= largest + 2 * np.sqrt(largest * (1 - largest) / right.size):
        recorder.warn(
            f"{told}, and {largest:.1%} would be by the largest class for all: the edges say "
            "little about these classes; give other edges, or many more labels"
        )
    elif share < _HALF and sure > _SURE:
        recorder.warn(
            f"{told}, while the mean confidence is {sure:.2f}, which is not to be believed; give "
            "more labels"
        )


TOO_FAR = "; some are too far for the solver's residual, lower tol"


def warn_unreached(count: int, advice: str, recorder: Recorder) -> None:
    """Tell of nodes that no label reaches."""
    if count:
        nodes = "node is" if count == 1 else "nodes are"
        recorder.warn(f"{count} {nodes} not reached by any label and labelled -1{advice}")


def lost_classes(
    classes: NDArray[np.int64], given: NDArray[np.int64], answers: NDArray[np.int64]
) -> int:
    """How many classes (K,) have hardly a node among the `answers` (n,) beside the `given` ones.

    Expected of a class with m_c of m labels are n_u m_c/m of the n_u answered nodes without one.
    """
    known, new = given >= 0, (given < 0) & (answers >= 0)
    labels = np.bincount(np.searchsorted(classes, given[known]), minlength=classes.size)
    nodes = np.bincount(np.searchsorted(classes, answers[new]), minlength=classes.size)
    promised = nodes.sum() * labels / max(int(labels.sum()), 1)
    return int(np.count_nonzero((promised >= _PROMISED) & (nodes <= _LOST * promised)))
