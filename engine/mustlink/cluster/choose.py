"""Evidence for choices: which subspace, parameter and discretisation predict constraints held out.

Some constraints are kept out of the fit; what was fitted on the rest is scored by the share of
the held-out ones that it keeps, weighted by belief. Everything happens in the smooth subspace and
on a sample of nodes, so that a choice costs a second or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mustlink.cluster.assign import kmeans, nearest, transform
from mustlink.cluster.family import FamilyOf
from mustlink.cluster.scores import satisfaction
from mustlink.cluster.split import splitting_value
from mustlink.constraints import Constraints
from mustlink.eigen.smooth import SmoothBasis
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]
Block = NDArray[np.float64]

FACTORS = (1, 2, 4, 8, 12)  # p as multiples of K; with K the graph decides nearly everything
_USUAL = 4
_CLEAR_GAP = 3.0  # times the gaps that follow
_MORE = (24,)
_MANY_LABELS = 300  # per class
_SAMPLE = 4000  # nodes beside the constrained ones on which candidates are clustered
_HELD = 0.25
_RUNS = 12  # runs of k-means from which the constraints choose one
_GAIN = 0.95  # a larger subspace is tried while the last step left fewer errors than this share
_ENOUGH = 0.003  # and while there are more errors than this
WAY_MARGIN = 0.01  # what another discretisation must be better by
_FEW_LABELS = 3  # per class, and
_FEW_PAIRS = 10  # per cluster: below, nothing can be held out


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


def can_hold_out(constraints: Constraints, k: int) -> bool:
    """Whether there is enough side information to keep a part of it for validation.

    It must be of both kinds: must-links alone are kept best by one giant cluster.
    """
    counts = constraints.counts()
    if counts["must"] == 0 or counts["cannot"] == 0:
        return False
    enough_labels = counts["labelled"] >= _FEW_LABELS * max(k, constraints.classes.size)
    enough_pairs = constraints.merged[0].shape[0] >= _FEW_PAIRS * k
    return bool(enough_labels or enough_pairs or constraints.soft is not None)


def choose_smooth(
    constraints: Constraints,
    k: int,
    candidates: Candidates,
    basis_of: Callable[[int], SmoothBasis],
    family_of: FamilyOf,
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
        basis = basis_of(p)
        with recorder.stage("choosing by held-out constraints"):
            found = _score(k, p, candidates.values, way, basis, folds, family_of, seed)
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
        with recorder.stage("choosing by held-out constraints"):
            trials += _score(
                k, chosen.p, (chosen.value,), other, basis_of(chosen.p), folds, family_of, seed
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


def folds_of(constraints: Constraints, seed: int) -> list[tuple[Constraints, Constraints]]:
    """Random splits: more of them when each holds out little."""
    count = constraints.counts()
    items = count["labelled"] or constraints.merged[0].shape[0] or 10_000
    repeats = 8 if items < 1500 else 4 if items < 4000 else 2
    rng = np.random.default_rng(seed)
    return [constraints.split(_HELD, rng) for _ in range(repeats)]


def _score(
    k: int,
    p: int,
    values: tuple[float, ...],
    way: str,
    basis: SmoothBasis,
    folds: list[tuple[Constraints, Constraints]],
    family_of: FamilyOf,
    seed: int,
) -> list[_Trial]:
    """Share of held-out constraints kept on every fold, for every value of the parameter."""
    laplacian = basis.laplacian
    p = min(p, basis.p)
    scores: dict[float, list[float]] = {value: [] for value in values}
    for kept, held in folds:
        family = family_of(kept)
        reduced = family.reduce(basis)
        nodes, rows = sampled_rows(laplacian, kept.nodes, held.nodes, seed)
        U = basis.vectors[rows, : p + 1] * family.row_scale[rows, None]
        for value in values:
            C, cost = reduced.solve(p, value)
            E = transform(U @ C, way, cost)
            scores[value].append(held_out_score(E, nodes, kept, held, k, way, seed))
    return [_Trial(p, value, way, tuple(found)) for value, found in scores.items()]


def held_out_score(
    rows: Block, nodes: Ints, kept: Constraints, held: Constraints, k: int, way: str, seed: int
) -> float:
    """Share of `held` kept by clusters of an embedding fitted on `kept`, transformed for `way`.

    `rows` are of a sample of nodes and, last, of the constrained `nodes`.
    """
    labels = np.full(held.n_nodes, -1, dtype=np.int64)
    if rows.shape[1]:
        seen = rows[-nodes.size :]
        if way == "sign":
            labels[nodes] = seen[:, 0] > 0
        elif way == "split":
            own = np.isin(nodes, kept.nodes)
            value = splitting_value(seen[own, 0], nodes[own], kept)
            labels[nodes] = seen[:, 0] > value
        else:
            labels[nodes] = nearest(seen, starting_centers(rows, nodes, kept, k, seed))
    return satisfaction(labels, held, given=kept)["kept_weighted"]


def sampled_rows(
    laplacian: NormalizedLaplacian, kept: Ints, held: Ints, seed: int
) -> tuple[Ints, Ints]:
    """Constrained nodes with an edge, and working rows: a sample of all nodes, then theirs."""
    sample = np.arange(laplacian.size)
    if laplacian.size > _SAMPLE:
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.choice(laplacian.size, _SAMPLE, replace=False))
    nodes = np.union1d(kept, held)
    position = laplacian.positions[nodes]
    return nodes[position >= 0], np.concatenate([sample, position[position >= 0]])


def starting_centers(
    rows: Block, nodes: Ints, constraints: Constraints, k: int, seed: int
) -> Block:
    """Centres (k, r) for k-means; the last rows are those of the constrained `nodes`.

    Class means where every one of k classes has a label. Otherwise the best of several runs on
    `rows`, best meaning the most constraints kept: k-means' own inertia was seen to prefer merging
    two clusters and splitting a third (MNIST, 1,000 pairs: ARI 0.80 by inertia, 0.84 so).
    """
    means = seeds_of(rows[-nodes.size :], nodes, constraints, k)
    if means is not None:
        return means
    labels = np.full(constraints.n_nodes, -1, dtype=np.int64)
    best, rank = None, (-1.0, 0.0)
    for run in range(_RUNS):
        found = kmeans(rows, k, seed + run, restarts=1)
        labels[nodes] = found.labels[-nodes.size :]
        # Few constraints are kept by many runs: among those, inertia decides after all.
        score = (satisfaction(labels, constraints)["kept_weighted"], -found.inertia)
        if best is None or score > rank:
            best, rank = found.centers, score
    assert best is not None
    return best


def seeds_of(rows: Block, nodes: Ints, constraints: Constraints, k: int) -> Block | None:
    """Starting centres from labels, where every one of k classes has some: their means.

    `rows` are the transformed embedding of `nodes` (the graph's numbers).
    """
    if constraints.labels is None or constraints.classes.size != k:
        return None
    labels = constraints.labels[nodes]
    known = labels >= 0
    place = np.searchsorted(constraints.classes, labels[known])
    sizes = np.bincount(place, minlength=k)
    if (sizes == 0).any():
        return None
    centers = np.zeros((k, rows.shape[1]))
    np.add.at(centers, place, rows[known])
    return centers / sizes[:, None]
