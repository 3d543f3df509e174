"""From a method's values to the results of a fit: distributions, classes, warnings, a report.

Written by the verbs of a space, for nodes in memory, on disk and on ranks alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.check import check_number
from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT, Report, held_out_right
from mustlink.discretize.cuts import BlockModel, refine
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.kernels.blocks import by_rows
from mustlink.propagation.prior import LabelSet
from mustlink.propagation.problem import PropagationProblem
from mustlink.space import Block, Dots, Small, Space, Vector

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]
_EMPTY = 1e-6  # share of the largest class mass that counts as none
NAMED_SHARES = ("equal", "smoothed")
_WANTED = 'give True, False, "equal", "smoothed" or one share a class'
# Labels added to every class: with 3 or 30 instead accuracy on 18 sets was lower where labels are
# drawn at random and few, or where there are many.
ADDED = 10.0
_BEYOND = 1e6  # times the usual range of a row: a root mean square that a few rows make
_ROWS = 1 << 16  # of distributions at a time

_MANY = 50  # labels of the rarest class from which the graph decides about its size
_UNEQUAL = 3.0  # times as many labels in one class as in another: a note
_CHANGED = 0.1  # share of labels that a result changes: a warning
_LOST = 1e-2  # times as many nodes as expected by the labels' share: a class that came out empty
_TELLING = 20  # least number of labels held out for a warning
_HALF, _SURE = 0.5, 0.7  # right of those held out, and mean confidence, that do not fit together
_PROMISED = 10  # nodes from which that is no chance
TOO_FAR = "; some are too far for the solver's residual, lower tol"

# --- distributions


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
    if isinstance(class_mass, str) and class_mass not in NAMED_SHARES:
        raise InputError(f"class_mass: {class_mass!r} is unknown; {_WANTED}")
    if isinstance(class_mass, str) and class_mass == "equal":
        return np.full(n_classes, 1.0 / n_classes)
    if class_mass is True or isinstance(class_mass, str):
        shares = counts + (1.0 if class_mass is True else ADDED)
        return shares / shares.sum()
    values = np.ravel(np.asarray(class_mass, dtype=object))
    if values.size != n_classes:
        raise InputError(f"class_mass: {values.size} numbers for {n_classes} classes; {_WANTED}")
    shares = np.array([check_number(q, "class_mass", "shares above 0") for q in values])
    if not (shares > 0).all():
        raise InputError("class_mass: shares must be above 0; leave out a class that is empty")
    return shares / shares.sum()


def distributions(
    problem: PropagationProblem,
    scores: Block,
    shares: Small | None,
    *,
    masses: bool,
    floor: float = 0.0,
) -> Block:
    """Rows (n, K) that sum to 1, largest where the scores are; or zero rows.

    Masses (>= 0 up to rounding) are scaled until their sums over the unlabelled nodes are in the
    proportion of `shares`, and divided by the row's sum; rows whose sum is at most `floor` times
    the largest become 0. Values of either sign are divided by their root mean square and moved to
    the nearest point of the simplex, which keeps their order. Classes without a label or belief in
    a node's component get 0.
    """
    if not problem.size:
        return problem.Y
    space, possible = problem.space, problem.possible
    part = problem.laplacian.null.component
    if not masses:
        unit = typical(space, scores, problem.counts)

        def nearest(F: Array, part: Array, inside: Array) -> Array:
            P = np.zeros_like(F)
            P[inside] = onto_simplex(np.where(possible[part], F / unit, -np.inf)[inside])
            return P

        return space.rowwise(nearest, scores, part, problem.inside)

    def cut(F: Array, part: Array, inside: Array) -> Array:
        return np.where(possible[part] & inside[:, None], np.maximum(F, 0.0), 0.0)

    P = space.rowwise(cut, scores, part, problem.inside)
    sums = space.rowwise(lambda P: P.sum(axis=1, keepdims=True), P)
    least = floor * float(space.peaks(sums)[0])
    factor = np.ones(problem.n_classes)
    if shares is not None:
        mass = space.gram(space.column(problem.without_label), P)[0]
        # A class without mass outside its labels is not blown up beyond all others.
        factor = shares / np.maximum(mass, max(_EMPTY * mass.max(initial=0.0), 1e-300))
        factor /= factor.max()

    def divided(P: Array) -> Array:
        total = P.sum(axis=1, keepdims=True)
        silent = total <= least
        # Rows first: values of 10⁻³⁰⁰ times a factor would be 0.
        P = P / np.where(silent, 1.0, total) * factor
        P /= np.where(silent, 1.0, P.sum(axis=1, keepdims=True))
        return np.where(silent, 0.0, P)

    return space.rowwise(divided, P)


def typical(space: Space, F: Block, counts: Vector) -> float:
    """Root mean square of values (n, K); where few rows are far larger, that of the others.

    Nodes that are weakly attached may have potentials 10⁹ times as large: beside them all others
    would be ties. `counts` (n,) is how often rows count; those with 0 do not.
    """
    largest = float(np.abs(space.peaks(F)).max())
    if largest == 0.0:
        return 1.0

    def squares(F: Array) -> Array:
        return np.mean((F / largest) ** 2, axis=1, keepdims=True)

    each = space.column(counts)
    ones = space.column(space.rowwise(np.ones_like, counts))
    there = space.column(space.rowwise(lambda counts: (counts > 0) * 1.0, counts))
    found = space.sums(Dots(each, space.rowwise(squares, F)), Dots(each, ones), Dots(there, ones))
    total, weight, rows = (float(one[0]) for one in found)
    size, n = float(np.sqrt(total / weight)), round(rows)
    spread = space.rowwise(lambda F: np.ptp(F, axis=1) / largest, F)
    if 2 * _below(space, spread, counts, size / _BEYOND) <= n:
        return size * largest
    usual = median(space, spread, counts, n)
    return largest * (min(size, _BEYOND * usual) if usual > 0 else size)


def _below(space: Space, values: Vector, counts: Vector, limit: float) -> int:
    """How many rows with a count above 0 have values below a limit."""
    found = space.rowwise(lambda x, c: ((x < limit) & (c > 0))[:, None] * 1.0, values, counts)
    return round(float(space.dots(found, found)[0]))


def median(space: Space, values: Vector, counts: Vector, n: int) -> float:
    """Median of values (>= 0) of the n rows that count: bits of such numbers rise as they do."""
    found = []
    for rank in ((n - 1) // 2, n // 2):
        low, high = 0, int(np.float64(np.inf).view(np.int64))  # at most `rank` are below low
        while high - low > 1:
            middle = (low + high) // 2
            limit = float(np.int64(middle).view(np.float64))
            few = _below(space, values, counts, limit) <= rank
            low, high = (middle, high) if few else (low, middle)
        found.append(float(np.int64(low).view(np.float64)))
    return float(np.mean(found))


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

    def lead(P: Floats) -> Floats:
        top = np.partition(P, -2, axis=1)[:, -2:]
        return top[:, 1] - top[:, 0]

    return by_rows(lead, P)


def answers(P: Array) -> Array:
    """Class of every row (m, K), (m,); −1 for a zero row."""
    return by_rows(lambda P: np.where(P.any(axis=1), P.argmax(axis=1), -1), P)


def refined(problem: PropagationProblem, P: Block) -> Block:
    """Distributions (m, K) of the classes that the block model finds from those of P.

    They are the block model's probabilities of a node by the classes of its neighbours. Nodes
    without a class stay without; labelled ones have their label.
    """
    space, work = problem.space, problem.work

    def first(P: Floats, code: Ints) -> Ints:
        return np.where(code >= 0, code, np.where(P.any(axis=1), P.argmax(axis=1), -1))

    blocks = space.rowwise(first, P, problem.codes)
    with problem.recorder.stage("block model"):
        inside = space.rowwise(lambda inside: np.where(inside, 0, -1), problem.inside)
        weight, edges, _ = work.cluster_sums(inside, 1)
        unit = float(weight.sum() / max(edges.sum(), 1.0)) or 1.0
        start = BlockModel(problem.laplacian, blocks, problem.n_classes, unit)
        numbers = work.to_working_order(np.arange(work.n_nodes))
        how: Any = {"possible": problem.possible, "recorder": problem.recorder}
        Q = refine(start, problem.labelled, numbers, problem.seed, **how)
        Q = Q.distributions(problem.possible)

    def last(Q: Floats, code: Ints, own: Ints) -> Floats:
        found = np.where(own[:, None] >= 0, Q, 0.0)
        known = np.flatnonzero(code >= 0)
        found[known] = 0.0
        found[known, code[known]] = 1.0
        return found

    return space.rowwise(last, Q, problem.codes, blocks)


# --- attributes, warnings, report


def conclude(
    estimator: Any, spread: Any, P: Any, known: LabelSet, said: LabelSet, *, last: bool = True
) -> None:
    """Set labels, distributions `P` (n, K) and report of an estimator; `P` may be on disk.

    `spread` is a `held_out.PropagationResult` of the labels `said`, all or some of the `known`,
    whose others are answered as they are. Unless it is the `last` step of a method, classes
    are not its result, and there are no warnings about them.
    """
    problem, solution, best = spread.problem, spread.solution, spread.best
    work = problem.work
    way, recorder, classes, given = best.way, problem.recorder, estimator.classes_, known.rows
    own = known.of_rows
    alone = np.flatnonzero(own >= 0)  # without an edge, or not spread: they keep their own class
    alone = alone[(work.places(alone) < 0) | (said.of_rows[alone] < 0)]
    if work.home == MEMORY and work.graph.shares is not None:
        own = given  # representatives have labels by their rows, which may have others
        if _keeps_labels(spread):
            alone = np.flatnonzero(np.isin(given, classes))
        if not isinstance(P, np.ndarray):
            P.fix(alone, (own[alone, None] == classes) * 1.0)
            alone = alone[:0]
    codes, sure = np.empty(len(P), dtype=np.int64), np.empty(len(P))
    at_once = max(len(P), 1) if isinstance(P, np.ndarray) else _ROWS
    for first in range(0, len(P), at_once):
        rows = slice(first, first + at_once)
        part = P[rows]
        if (at := alone[(alone >= first) & (alone < rows.stop)]).size:
            part[at - first] = (own[at, None] == classes) * 1.0
            P[rows] = part
        codes[rows], sure[rows] = answers(part), confidence(part)
    convergence, answered = solution.convergence, codes >= 0
    missed = convergence is not None and not convergence.converged.all()
    if convergence is not None and missed and convergence.reason != TIME_LIMIT:
        recorder.warn(convergence.status)
    counts = problem.class_counts
    shares = class_shares(way.class_mass, counts)
    few = way._counts_labels or counts.min() < _MANY
    if (
        few
        and counts.max(initial=0) > _UNEQUAL * max(counts.min(), 1)
        and way._scales_classes
        and (shares is None or way.class_mass is True)
    ):
        recorder.note(
            f"classes have from {counts.min():g} to {counts.max():g} labels, which weighs on "
            'their sizes; if those differ less, say so: class_mass="equal" (--class-shares '
            "equal) or the shares"
        )
    told_mass: Any = way.class_mass
    if not isinstance(told_mass, str):
        told_mass = False if shares is None else [round(float(q), 6) for q in shares]
    labels = np.where(answered, classes[codes], -1)
    estimator.labels_, estimator.label_distributions_, estimator.confidence_ = labels, P, sure
    unanswered = int(np.count_nonzero(~answered))
    warn_unreached(unanswered, spread.advice, recorder)
    if last:
        warn_of_classes(classes, given, labels, way._remedy(), recorder)
        mean = float(sure[answered].mean()) if answered.any() else 0.0
        warn_of_held_out(best.right, known.nodes, mean, recorder)
    labelled = given >= 0
    estimator.report_ = Report(
        method=type(estimator).__name__ + ("" if work.home == MEMORY else f", on {work.home}"),
        n_nodes=given.size,
        n_clusters=problem.n_classes,
        choices={
            **solution.choices,
            "class_mass": told_mass,
            "refine": way.refine,
            **({"why": best.why} if best.why else {}),
            "solver": "none" if convergence is None else convergence.solver,
            "graph": dict(problem.work.info),
        },
        convergence=convergence,
        satisfaction=None,
        **recorder.report_parts(),
        extra={
            "n_components": work.n_components,
            "n_labels": int(np.count_nonzero(labelled)),
            "labels_kept": float(np.mean(labels[labelled] == given[labelled])),
            "unanswered": unanswered,
            **({} if best.right is None else {"held_out": held_out_right(best.right)}),
        },
    )


def _keeps_labels(spread: Any) -> bool:
    """Whether a method answers nodes with a label by that label alone."""
    held = spread.distributions[spread.problem.labelled]
    return bool((held.max(axis=1, initial=0.0) == 1.0).all())


def warn_of_classes(
    classes: Ints, given: Ints, found: Ints, remedy: str, recorder: Recorder
) -> None:
    """Warn of classes (K,) with labels that come out empty, and of changed labels `given` (n,).

    `found` (n,) are the classes of the result.
    """
    lost = lost_classes(classes, np.where(np.isin(given, classes), given, -1), found)
    if lost:
        recorder.warn(
            f"{lost} of {classes.size} classes have hardly a node beside their labels; {remedy}"
        )
    known = given >= 0
    changed = 1 - float(np.mean(found[known] == given[known]))
    if changed > _CHANGED:
        recorder.warn(
            f"{changed:.1%} of the given labels were answered with another class; "
            f"where they are right, {remedy}"
        )
    elif changed > 0:
        recorder.note(f"{changed:.1%} of the given labels were answered with another class")


def warn_of_held_out(
    right: NDArray[np.bool_] | None, given: Ints, sure: float, recorder: Recorder
) -> None:
    """Warn where few of the labels held out were answered `right` (m,); None: none were held out.

    `given` (n,) are all labels, -1 unknown, `sure` is the mean confidence. Few is what the largest
    class for all would have, up to two standard errors, or less than a half with a high confidence.
    """
    if right is None or right.size < _TELLING:
        return
    share, known = float(right.mean()), np.unique(given[given >= 0], return_counts=True)[1]
    largest = float(known.max() / known.sum())
    text = f"only {share:.1%} of {right.size} labels held out were answered right"
    if share <= largest + 2 * np.sqrt(largest * (1 - largest) / right.size):
        recorder.warn(
            f"{text}, and {largest:.1%} would be by the largest class for all: the edges say "
            "little about these classes; give other edges, or many more labels"
        )
    elif share < _HALF and sure > _SURE:
        recorder.warn(
            f"{text}, while the mean confidence is {sure:.2f}, which is not to be believed; give "
            "more labels"
        )


def warn_unreached(count: int, advice: str, recorder: Recorder) -> None:
    """Warn of nodes that no label reaches."""
    if count:
        nodes = "node is" if count == 1 else "nodes are"
        recorder.warn(f"{count} {nodes} not reached by any label and labelled -1{advice}")


def lost_classes(classes: Ints, given: Ints, found: Ints) -> int:
    """How many classes (K,) have hardly a node in the result `found` (n,) beside the `given` ones.

    Expected of a class with m_c of m labels are n_u m_c/m of the n_u nodes without a label.
    """
    known, new = given >= 0, (given < 0) & (found >= 0)
    labels = np.bincount(np.searchsorted(classes, given[known]), minlength=classes.size)
    nodes = np.bincount(np.searchsorted(classes, found[new]), minlength=classes.size)
    promised = nodes.sum() * labels / max(int(labels.sum()), 1)
    return int(np.count_nonzero((promised >= _PROMISED) & (nodes <= _LOST * promised)))
