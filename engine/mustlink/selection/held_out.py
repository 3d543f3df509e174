"""Constraints held out of a fit, and what they and the kept ones say about an embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.errors import OutOfMemoryError
from mustlink.observe import Recorder
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.rounding.assign import kmeans, nearest, transform
from mustlink.rounding.split import splitting_value
from mustlink.scores import satisfaction, satisfaction_added
from mustlink.selection.formulation import FormulationOf
from mustlink.space import LocalSpace

Ints = NDArray[np.int64]
Block = NDArray[np.float64]

_SAMPLE = 4000  # nodes beside the constrained ones on which candidates are clustered
_HELD = 0.25
_RUNS = 12  # runs of k-means from which the constraints choose one
# Fewer labels or pairs than these cannot spare any: per class or cluster, and in all.
_FEW_LABELS, _LEAST_LABELS = 3, 15
_FEW_PAIRS, _LEAST_PAIRS = 10, 30


def can_hold_out(constraints: Constraints, k: int) -> bool:
    """Whether there is enough side information to keep a part of it for validation.

    It must be of both kinds: must-links alone are kept best by one giant cluster.
    """
    counts = constraints.counts()
    if counts["must"] == 0 or counts["cannot"] == 0:
        return False
    classes = max(k, constraints.classes.size)
    enough_labels = counts["labelled"] >= max(_FEW_LABELS * classes, _LEAST_LABELS)
    enough_pairs = constraints.merged[0].shape[0] >= max(_FEW_PAIRS * k, _LEAST_PAIRS)
    return bool(enough_labels or enough_pairs or constraints.soft is not None)


@dataclass(frozen=True, eq=False)
class Fold:
    """Constraints that are fitted, `kept`, and others held out of the fit.

    They are judged on the s `nodes` that they are about: `given` are those kept and `both` all of
    them, numbered among these nodes.
    """

    kept: Constraints
    nodes: Ints
    given: Constraints
    both: Constraints

    @classmethod
    def of(cls, kept: Constraints, held: Constraints) -> Self:
        """A fold of two parts."""
        both = held + kept
        return cls(kept, both.nodes, kept[both.nodes], both[both.nodes])

    def share_kept(self, labels: Ints) -> float:
        """Share of what was held out that clusters (s,) of the nodes keep."""
        return satisfaction_added(labels, self.both, self.given)["kept_weighted"]


def folds_of(constraints: Constraints, seed: int) -> list[Fold]:
    """Random splits: more of them when each holds out little."""
    count = constraints.counts()
    items = count["labelled"] or constraints.merged[0].shape[0] or 10_000
    repeats = 8 if items < 1500 else 4 if items < 4000 else 2
    rng = np.random.default_rng(seed)
    return [Fold.of(*constraints.split(_HELD, rng)) for _ in range(repeats)]


class Sample(NamedTuple):
    """Constrained `nodes` (s,) with an edge; working `rows` (r,) of some nodes and, last, of these.

    `counts` (r,) is how often they count, None: 1 each.
    """

    nodes: Ints
    rows: Ints
    counts: NDArray[np.float64] | None


def held_out_score(rows: Block, of: Sample, fold: Fold, k: int, way: str, seed: int) -> float:
    """Share of what is held out that clusters keep, of an embedding transformed for `way`.

    What is said of nodes without an edge, which no clusters can keep, is not counted.

    `rows` (r, p) are those of the sample.
    """
    nodes = of.nodes
    labels = np.full(fold.nodes.size, -1, dtype=np.int64)
    if rows.shape[1] == 0:
        return 0.0
    seen = rows[-nodes.size :]
    place = np.searchsorted(fold.nodes, nodes)
    if way == "sign":
        labels[place] = seen[:, 0] > 0
    elif way == "split":
        own = np.isin(place, fold.given.nodes)
        value = splitting_value(seen[own, 0], place[own], fold.given)
        labels[place] = seen[:, 0] > value
    else:
        inside = of._replace(nodes=place)
        labels[place] = nearest(seen, starting_centers(rows, inside, fold.given, k, seed))
    return fold.share_kept(labels)


def sampled_rows(laplacian: PlacedLaplacian, constrained: Ints, seed: int) -> Sample:
    """Constrained nodes with an edge, and working rows: a sample of all nodes, then theirs."""
    sample = np.arange(laplacian.size)
    if laplacian.size > _SAMPLE:
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.choice(laplacian.size, _SAMPLE, replace=False))
    position = laplacian.positions[constrained]
    rows = np.concatenate([sample, position[position >= 0]])
    counts, space = None, laplacian.space
    if laplacian.weights is not None:
        counts = space.take(space.column(laplacian.weights), rows)[:, 0]
    return Sample(constrained[position >= 0], rows, counts)


def starting_centers(rows: Block, of: Sample, constraints: Constraints, k: int, seed: int) -> Block:
    """Centres (k, p) for k-means, of rows (r, p) of a sample of nodes.

    Class means where every one of k classes has a label. Otherwise the best of several runs on
    `rows`, best meaning the most constraints kept: k-means' own inertia was seen to prefer merging
    two clusters and splitting a third (MNIST, 1,000 pairs: ARI 0.80 by inertia, 0.84 so).
    """
    nodes, space = of.nodes, LocalSpace(rows.shape[0], of.counts)
    means = seeds_of(rows[-nodes.size :], of, constraints, k)
    if means is not None:
        return means
    labels = np.full(constraints.n_nodes, -1, dtype=np.int64)
    best, rank = None, (-1.0, 0.0)
    for run in range(_RUNS):
        found = kmeans(rows, k, seed + run, restarts=1, space=space)
        labels[nodes] = found.labels[-nodes.size :]
        # Few constraints are kept by many runs: among those, inertia decides after all.
        score = (satisfaction(labels, constraints)["kept_weighted"], -found.inertia)
        if best is None or score > rank:
            best, rank = found.centers, score
    assert best is not None
    return best


def seeds_of(rows: Block, of: Sample, constraints: Constraints, k: int) -> Block | None:
    """Starting centres from labels, soft or not, where each of k classes has some: their means.

    `rows` are the transformed embedding of the sample's constrained nodes.
    """
    if constraints.classes.size != k:
        return None
    if constraints.shares is not None:
        told = constraints.shares.at(of.nodes)
        weight: Any = told.belief[:, None] * told.values
    elif constraints.labels is not None:
        labels = constraints.labels[of.nodes]
        known = np.flatnonzero(labels >= 0)
        place = known, np.searchsorted(constraints.classes, labels[known])
        weight = sp.csr_matrix((np.ones(known.size), place), shape=(labels.size, k))
    else:
        return None
    counts = np.ones(len(rows)) if of.counts is None else of.counts[-len(rows) :]
    sizes = weight.T @ counts
    if (sizes == 0).any():
        return None
    return np.asarray(weight.T @ (counts[:, None] * rows) / sizes[:, None], dtype=np.float64)


# --- Choices by evidence: which subspace, parameter and discretisation predict held-out
# constraints
#
# Some constraints are kept out of the fit; what was fitted on the rest is scored by the share of
# the held-out ones that it keeps, weighted by belief. Everything happens in the smooth subspace and
# on a sample of nodes, so that a choice costs a second or two.


BasisOf = Callable[[int, float], SmoothBasis]

NONE = "no constraints"  # why the smoothest vectors of the graph alone are clustered
FACTORS = (1, 2, 4, 8, 12)  # p as multiples of K; with K the graph decides nearly everything
_USUAL = 4
_CLEAR_GAP = 3.0  # times the gaps that follow
_MORE = (24,)
_MANY_LABELS = 300  # per class
_GAIN = 0.95  # a larger subspace is tried while the last step left fewer errors than this share
_ENOUGH = 0.003  # and while there are more errors than this
# Standard errors by which regularised degrees must be better than those of the graph: mean ARI .481
# on 11 networks with 5 and 20 labels a class, with one error .480, without regularisation .407.
_CLEARLY = 2.0
WAY_MARGIN = 0.01  # what another discretisation must be better by


@dataclass(frozen=True)
class Choice:
    """Subspace dimension p (None: the full problem), parameter, discretisation, form, and why.

    `tau` is what is added to every degree where the subspace is looked for, in units of the mean
    one, `about_tau` why. `score` is the share of held-out constraints kept, None where nothing was
    held out; `scores` lists (p, value, way, score, tau) of all candidates tried, p = 0 for the full
    problem.
    """

    p: int | None
    value: float
    way: str
    reason: str
    score: float | None = None
    scores: tuple[tuple[int, float, str, float, float], ...] = field(default=(), repr=False)
    tau: float = 0.0
    about_tau: str = ""
    form: str = ""

    @property
    def where(self) -> str:
        """The problem that is solved, in words."""
        if self.p is None:
            return "full problem"
        regular = f", {self.tau:g} of the mean degree added" if self.tau else ""
        return f"subspace of {self.p} smooth vectors{regular}"


@dataclass(frozen=True)
class Candidates:
    """What may be chosen from; one entry each where the caller has decided.

    Of the regularisations `taus` the first is the one that the others must beat.
    """

    ps: tuple[int, ...]
    values: tuple[float, ...]
    ways: tuple[str, ...]
    taus: tuple[float, ...] = (0.0,)
    forms: tuple[str, ...] = ("",)

    @property
    def count(self) -> int:
        """How many there are."""
        ways = len(self.ways) * len(self.forms)
        return len(self.ps) * len(self.values) * ways * len(self.taus)


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
    basis_of: BasisOf,
    formulation_of: FormulationOf,
    seed: int,
    recorder: Recorder,
) -> Choice:
    """Choose among the candidates by held-out constraints.

    `basis_of(p, tau)` gives at least p directions; it is asked for more than 4K only while more
    helps. Without enough constraints `usual_size` decides alone.
    The first form and way of discretising are tried everywhere, the others for the winner only.
    """
    way, ps, plain = candidates.ways[0], candidates.ps, candidates.taus[0]
    form = candidates.forms[0]
    wanted = ps[0]
    if len(ps) > 1:
        wanted = usual_size(constraints, k, basis_of(min(ps[-1], _USUAL * k), plain).values)
    first = max((p for p in ps if p <= wanted), default=ps[0])
    given = Choice(first, candidates.values[-1], way, "given", tau=plain, form=form)
    if candidates.count == 1:
        return given
    if not can_hold_out(constraints, k):
        few = "by rule: too few constraints, or of one kind only, to hold some out"
        return replace(given, reason=few)
    trials = _Trials(k, folds_of(constraints, seed), basis_of, formulation_of, seed, recorder)
    for tau in candidates.taus:
        trials.grow(ps, tau, candidates.values, way, form)
    # Another dimension must beat the usual one by more than the noise, other degrees more clearly.
    best = trials.best[plain]
    usual = max((t for t in best if t.p <= first), key=lambda t: t.p, default=best[0])
    chosen = max([usual, *(t for t in best if t.beats(usual))], key=_Trial.mean)
    others = (t for tau in candidates.taus[1:] for t in trials.best.get(tau, ()))
    chosen = max([chosen, *(t for t in others if t.beats(chosen, _CLEARLY))], key=_Trial.mean)
    for other in candidates.forms[1:]:
        found = trials.score(chosen.p, chosen.tau, candidates.values, way, other)
        chosen = max([chosen, *(t for t in found if t.beats(chosen))], key=_Trial.mean)
    for other in candidates.ways[1:]:
        if recorder.deadline.is_over:
            recorder.leave_out("other ways from vectors to clusters were not tried")
            break
        (one,) = trials.score(chosen.p, chosen.tau, (chosen.value,), other, chosen.form)
        if one.mean() > chosen.mean() + WAY_MARGIN:
            chosen = one
    tried = trials.tried
    reason = (
        f"keeps {chosen.mean():.1%} of held-out constraints, chosen from {len(tried)} candidates"
    )
    table = tuple((t.p, t.value, t.way, t.mean(), t.tau) for t in tried)
    about = trials.about_taus() if len(trials.best) > 1 else ""
    told = chosen.p, chosen.value, chosen.way, reason, chosen.mean(), table, chosen.tau, about
    return Choice(*told, chosen.form)


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
    tau: float = 0.0
    form: str = ""

    def mean(self) -> float:
        return float(np.mean(self.scores))

    def beats(self, other: _Trial, errors: float = 1.0) -> bool:
        """Whether it is better by more than so many standard errors of the difference."""
        difference = np.subtract(self.scores, other.scores)
        error = difference.std(ddof=1) / np.sqrt(difference.size) if difference.size > 1 else 0.0
        return bool(difference.mean() > errors * error)


def _worth_more(before: float, now: float) -> bool:
    """Whether held-out errors fell enough to pay for yet more eigenvectors."""
    return now > _ENOUGH and now < _GAIN * before


@dataclass
class _Trials:
    """What was tried: every candidate, and of every regularisation the best of each dimension."""

    k: int
    folds: list[Fold]
    basis_of: BasisOf
    formulation_of: FormulationOf
    seed: int
    recorder: Recorder
    tried: list[_Trial] = field(default_factory=list)
    best: dict[float, list[_Trial]] = field(default_factory=dict)

    def grow(
        self, ps: tuple[int, ...], tau: float, values: tuple[float, ...], way: str, form: str
    ) -> None:
        """Try one dimension after the other while more of them help, memory and time last.

        Vectors up to 4K are computed at once: those of a smaller subspace are among them.
        """
        at_once = max(p for p in ps if p <= max(_USUAL * self.k, ps[0]))
        for p in ps:
            if self.tried and self.recorder.deadline.is_over:
                regular = f"{tau:g} of the mean degree added, " if tau else ""
                self.recorder.leave_out(
                    f"{regular}subspaces of {p} and more smooth vectors were not tried"
                )
                return
            try:
                self.basis_of(at_once if p == ps[0] else p, tau)
            except OutOfMemoryError as error:
                if not self.tried:
                    raise
                self.recorder.note(f"{error}; larger subspaces are not tried")
                return
            found = self.best.setdefault(tau, [])
            found.append(max(self.score(p, tau, values, way, form), key=_Trial.mean))
            more = len(found) < 2 or _worth_more(1.0 - found[-2].mean(), 1.0 - found[-1].mean())
            if p > 2 * self.k and not more:
                return

    def about_taus(self) -> str:
        """What the best of every regularisation keeps."""
        kept = {tau: max(trial.mean() for trial in found) for tau, found in self.best.items()}
        table = ", ".join(f"{share:.1%} at {tau:g}" for tau, share in kept.items())
        return f"held-out constraints kept: {table}"

    def score(
        self, p: int, tau: float, values: tuple[float, ...], way: str, form: str
    ) -> list[_Trial]:
        """Share of held-out constraints kept on every fold, for every value of the parameter."""
        basis = self.basis_of(p, tau).first(p)
        laplacian, space = basis.laplacian, basis.space
        scores: dict[float, list[float]] = {value: [] for value in values}
        with self.recorder.stage("choosing by held-out constraints"):
            for fold in self.folds:
                formulation = self.formulation_of(fold.kept).of(form)
                inside = formulation.problem.restricted(basis)
                sample = sampled_rows(laplacian, fold.nodes, self.seed)
                scale = space.take(space.column(formulation.row_scale), sample.rows)
                U = basis.rows(sample.rows) * scale
                for value in values:
                    found = inside.trial(value)
                    E = transform(U @ found.vectors, way, found.cost)
                    kept = held_out_score(E, sample, fold, self.k, way, self.seed)
                    scores[value].append(kept)
        held = p if tau else basis.p  # what z spans already is dropped from those of L̄_τ
        trials = [
            _Trial(held, value, way, tuple(kept), tau, form) for value, kept in scores.items()
        ]
        self.tried += trials
        return trials
