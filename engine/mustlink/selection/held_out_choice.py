"""Choices by evidence: which subspace, parameter and discretisation predict held-out constraints.

Some constraints are kept out of the fit; what was fitted on the rest is scored by the share of
the held-out ones that it keeps, weighted by belief. Everything happens in the smooth subspace and
on a sample of nodes, so that a choice costs a second or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.errors import OutOfMemoryError
from mustlink.observe import Recorder
from mustlink.rounding.assign import transform
from mustlink.selection.formulation import FormulationOf
from mustlink.selection.held_out import (
    Fold,
    can_hold_out,
    folds_of,
    held_out_score,
    sampled_rows,
)

Ints = NDArray[np.int64]
Block = NDArray[np.float64]

FACTORS = (1, 2, 4, 8, 12)  # p as multiples of K; with K the graph decides nearly everything
_USUAL = 4
_CLEAR_GAP = 3.0  # times the gaps that follow
_MORE = (24,)
_MANY_LABELS = 300  # per class
_GAIN = 0.95  # a larger subspace is tried while the last step left fewer errors than this share
_ENOUGH = 0.003  # and while there are more errors than this
WAY_MARGIN = 0.01  # what another discretisation must be better by


@dataclass(frozen=True)
class Choice:
    """Subspace dimension p (None: the full problem), parameter, discretisation, and why.

    `score` is the share of held-out constraints kept, None where nothing was held out; `scores`
    lists (p, value, way, score) of all candidates tried, p = 0 for the full problem.
    """

    p: int | None
    value: float
    way: str
    reason: str
    score: float | None = None
    scores: tuple[tuple[int, float, str, float], ...] = field(default=(), repr=False)

    @property
    def where(self) -> str:
        """The problem that is solved, in words."""
        return "full problem" if self.p is None else f"subspace of {self.p} smooth vectors"


@dataclass(frozen=True)
class Candidates:
    """What may be chosen from; one entry each where the caller has decided."""

    ps: tuple[int, ...]
    values: tuple[float, ...]
    ways: tuple[str, ...]


def subspace_sizes(k: int, room: int, labelled: int = 0) -> tuple[int, ...]:
    """K, 2K, 4K, 8K, 12K, as far as the graph has that many directions; at least 2 and 4.

    With hundreds of labels per class (strokes on a picture) 24K too.
    """
    factors = FACTORS + (_MORE if labelled >= _MANY_LABELS * k else ())
    sizes = sorted({min(max(4 if f > 1 else 2, f * k), room) for f in factors})
    return tuple(sizes)


def choose_smooth(
    constraints: Constraints,
    k: int,
    candidates: Candidates,
    basis_of: Callable[[int], SmoothBasis],
    formulation_of: FormulationOf,
    seed: int,
    recorder: Recorder,
) -> Choice:
    """Choose among the candidates by held-out constraints.

    `basis_of(p)` gives at least p directions; it is asked for more only while more helps. Without
    enough constraints `usual_size` decides alone.
    The first way of discretising is tried everywhere, the others for the winner only.
    """
    way = candidates.ways[0]
    if len(candidates.ps) > 1:
        wanted = usual_size(constraints, k, basis_of(min(candidates.ps[-1], _USUAL * k)).values)
    else:
        wanted = candidates.ps[0]
    p = max((p for p in candidates.ps if p <= wanted), default=candidates.ps[0])
    first = (p, candidates.values[-1], way)
    if len(candidates.ps) * len(candidates.values) * len(candidates.ways) == 1:
        return Choice(*first, "given")
    if not can_hold_out(constraints, k):
        return Choice(*first, "by rule: too few constraints, or of one kind only, to hold some out")
    folds = folds_of(constraints, seed)
    trials: list[_Trial] = []
    best: list[_Trial] = []
    for p in candidates.ps:
        if best and recorder.deadline.is_over:
            recorder.leave_out(f"subspaces of {p} and more smooth vectors were not tried")
            break
        try:
            basis = basis_of(p)
        except OutOfMemoryError as error:
            if not trials:
                raise
            recorder.note(f"{error}; larger subspaces are not tried")
            break
        with recorder.stage("choosing by held-out constraints"):
            found = _score(k, p, candidates.values, way, basis, folds, formulation_of, seed)
        trials += found
        best.append(max(found, key=_Trial.mean))
        if (
            len(best) > 1
            and p > 2 * k
            and not _worth_more(1.0 - best[-2].mean(), 1.0 - best[-1].mean())
        ):
            break
    # Another dimension must beat the usual one by more than the noise.
    usual = max((t for t in best if t.p <= first[0]), key=lambda t: t.p, default=best[0])
    chosen = max([usual, *(t for t in best if t.beats(usual))], key=_Trial.mean)
    for other in candidates.ways[1:]:
        if recorder.deadline.is_over:
            recorder.leave_out("other ways from vectors to clusters were not tried")
            break
        with recorder.stage("choosing by held-out constraints"):
            trials += _score(
                k, chosen.p, (chosen.value,), other, basis_of(chosen.p), folds, formulation_of, seed
            )
        if trials[-1].mean() > chosen.mean() + WAY_MARGIN:
            chosen = trials[-1]
    reason = (
        f"keeps {chosen.mean():.1%} of held-out constraints, chosen from {len(trials)} candidates"
    )
    table = tuple((t.p, t.value, t.way, t.mean()) for t in trials)
    return Choice(chosen.p, chosen.value, chosen.way, reason, chosen.mean(), table)


def usual_size(constraints: Constraints, k: int, values: NDArray[np.float64]) -> int:
    """Dimension that must be beaten, and is taken where nothing can be held out.

    K where the eigenvalues of the graph have a clear gap there: it shows K clusters by itself. Else
    4K, never far from the best in measurements, if constraints can be held out or speak about every
    node (a second graph); 2K if they are few, which cannot steer many directions.
    """
    gaps = np.diff(values[: k + 3])
    if gaps.size >= k + 1 and gaps[k - 2] > _CLEAR_GAP * gaps[k - 1 : k + 2].max():
        return k
    if constraints.soft is not None or can_hold_out(constraints, k):
        return _USUAL * k
    return 2 * k


@dataclass(frozen=True)
class _Trial:
    """One candidate and its score on every fold."""

    p: int
    value: float
    way: str
    scores: tuple[float, ...]

    def mean(self) -> float:
        return float(np.mean(self.scores))

    def beats(self, other: _Trial) -> bool:
        """Whether it is better by more than the standard error of the difference."""
        difference = np.subtract(self.scores, other.scores)
        error = difference.std(ddof=1) / np.sqrt(difference.size) if difference.size > 1 else 0.0
        return bool(difference.mean() > error)


def _worth_more(before: float, now: float) -> bool:
    """Whether held-out errors fell enough to pay for yet more eigenvectors."""
    return now > _ENOUGH and now < _GAIN * before


def _score(
    k: int,
    p: int,
    values: tuple[float, ...],
    way: str,
    basis: SmoothBasis,
    folds: list[Fold],
    formulation_of: FormulationOf,
    seed: int,
) -> list[_Trial]:
    """Share of held-out constraints kept on every fold, for every value of the parameter."""
    laplacian = basis.laplacian
    basis = basis.first(p)
    scores: dict[float, list[float]] = {value: [] for value in values}
    for fold in folds:
        formulation = formulation_of(fold.kept)
        inside = formulation.problem.restricted(basis)
        sample = sampled_rows(laplacian, fold.nodes, seed)
        U = basis.rows(sample.rows) * formulation.row_scale[sample.rows, None]
        for value in values:
            found = inside.trial(value)
            E = transform(U @ found.vectors, way, found.cost)
            scores[value].append(held_out_score(E, sample, fold, k, way, seed))
    return [_Trial(basis.p, value, way, tuple(kept)) for value, kept in scores.items()]
