"""Constraints held out of a fit, and how embeddings are judged by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.constraints import Constraints
from mustlink.core.check import as_integer, as_labels, as_random_state, encoded
from mustlink.discretize.assign import kmeans, splitting_value
from mustlink.discretize.satisfaction import satisfaction, satisfaction_added
from mustlink.errors import InputError
from mustlink.kernels.blocks import nearest_centre
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.space import LocalSpace

if TYPE_CHECKING:
    from sklearn.utils.metadata_routing import MetadataRequest

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


class ConstraintSample(NamedTuple):
    """Constrained `nodes` (s,) with an edge; working `rows` (r,) of some nodes and, last, of these.

    `counts` (r,) is how often they count, None: 1 each.
    """

    nodes: Ints
    rows: Ints
    counts: NDArray[np.float64] | None


def held_out_score(
    rows: Block, of: ConstraintSample, fold: Fold, k: int, way: str, seed: int
) -> float:
    """Share of what is held out that clusters keep, of an embedding transformed for `way`.

    Constraints on nodes without an edge, which no clusters can keep, are not counted.

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
        labels[place] = nearest_centre(seen, starting_centers(rows, inside, fold.given, k, seed))
    return fold.share_kept(labels)


def sampled_rows(laplacian: PlacedLaplacian, constrained: Ints, seed: int) -> ConstraintSample:
    """Constrained nodes with an edge, and working rows: a sample of all nodes, then theirs."""
    position, space = laplacian.positions[constrained], laplacian.space
    rows, counts = np.concatenate([space.sample(_SAMPLE, seed), position[position >= 0]]), None
    if laplacian.weights is not None:
        counts = space.take(space.column(laplacian.weights), rows)[:, 0]
    return ConstraintSample(constrained[position >= 0], rows, counts)


def starting_centers(
    rows: Block, of: ConstraintSample, constraints: Constraints, k: int, seed: int
) -> Block:
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


def seeds_of(rows: Block, of: ConstraintSample, constraints: Constraints, k: int) -> Block | None:
    """Starting centres from labels, soft or not, where each of k classes has some: their means.

    `rows` are the transformed embedding of the sample's constrained nodes.
    """
    if constraints.classes.size != k:
        return None
    if constraints.shares is not None:
        soft = constraints.shares.at(of.nodes)
        weight: Any = soft.belief[:, None] * soft.values
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


# --- What is chosen by them


NONE = "no constraints"  # why the smoothest vectors of the graph alone are clustered


@dataclass(frozen=True)
class SelectedModel:
    """Subspace dimension p (None: the full problem), parameter, discretisation, and why.

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

    @property
    def where(self) -> str:
        """The problem that is solved, in words."""
        if self.p is None:
            return "full problem"
        regular = f", {self.tau:g} of the mean degree added" if self.tau else ""
        return f"subspace of {self.p} smooth vectors{regular}"


# --- Choosing parameters by held-out constraints, with scikit-learn's `GridSearchCV`
#
#     search = GridSearchCV(
#         CSP(n_clusters=10).set_fit_request(constraints=True),
#         {"beta": [0.1, 0.5], "n_neighbors": [10, 15, 20]},
#         scoring=ConstraintScorer(),
#         cv=ConstraintKFold(known),
#     ).fit(X, constraints=known)
#
# `sklearn.set_config(enable_metadata_routing=True)` lets the constraints through; labels `y` need
# no routing. Every fold clusters the points without those of some constraints and predicts these.


def constraint_satisfaction_score(labels: Any, constraints: Constraints) -> float:
    """Share of the constraints that labels (n,) keep, weighted by |belief|; 1 without any.

    Must-links in one cluster and cannot-links in two, each pair once; a node labelled -1 is in
    no cluster. Raises InputError.
    """
    return satisfaction(labels, constraints)["kept_weighted"]


class ConstraintScorer:
    """A scorer for `GridSearchCV` and `cross_val_score`: `constraint_satisfaction_score` of points.

    They are clustered by `estimator.predict`. What should be kept are `constraints`, which
    metadata routing brings (see the module), labels `y`, -1 for unknown, or both.
    """

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, constraints: Constraints | None = None
    ) -> float:
        """Share of the constraints among points X (q, d) that are kept."""
        found = estimator.predict(X)
        known = Constraints.none(len(found)) if constraints is None else constraints
        if y is not None:
            known = known + Constraints.from_labels(as_labels(encoded(y, "y")[0], len(found)))
        if constraints is None and y is None:
            raise InputError(
                "scoring: neither labels nor constraints to score by; give y, or let constraints "
                "through by sklearn.set_config(enable_metadata_routing=True)"
            )
        return constraint_satisfaction_score(found, known)

    def get_metadata_routing(self) -> MetadataRequest:
        """Tell scikit-learn that constraints are wanted."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(param="constraints", alias=True)
        return request

    def __repr__(self) -> str:
        """Name."""
        return "ConstraintScorer()"


class ConstraintKFold:
    """Splits for cross-validation: each time, the nodes of some constraints are held out.

    Nodes joined by constraints stay together, so that few constraints are lost between the parts,
    unless they are more than a fold: then they are dealt one by one. Nodes about which nothing is
    known are in every training part and in no test part.
    """

    def __init__(
        self, constraints: Constraints, n_splits: int = 5, random_state: Any = None
    ) -> None:
        self.constraints = constraints
        self.n_splits = as_integer(n_splits, "n_splits", 2)
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits

    def split(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[Ints, Ints]]:
        """Nodes to fit and nodes to score, both ascending; raises InputError."""
        nodes, n = self.constraints.nodes, self.constraints.n_nodes
        if nodes.size < 2 * self.n_splits:
            raise InputError(
                f"n_splits: {self.n_splits} folds of {nodes.size} constrained nodes; each needs 2, "
                "ask for fewer"
            )
        fold = self._folds(nodes)
        for number in range(self.n_splits):
            test = nodes[fold == number]
            yield np.setdiff1d(np.arange(n), test), test

    def _folds(self, nodes: Ints) -> Ints:
        """Fold of every constrained node: groups in random order to whoever has fewest."""
        rng = as_random_state(self.random_state)
        group = _groups(self.constraints, nodes)
        large = np.bincount(group)[group] > nodes.size / self.n_splits
        group[large] = group.max() + 1 + np.arange(np.count_nonzero(large))
        group = np.unique(group, return_inverse=True)[1].ravel()
        sizes = np.bincount(group)
        held, fold_of = (
            np.zeros(self.n_splits, dtype=np.int64),
            np.empty(sizes.size, dtype=np.int64),
        )
        for one in rng.permutation(sizes.size):
            fold_of[one] = int(held.argmin())
            held[fold_of[one]] += sizes[one]
        return fold_of[group]


def _groups(known: Constraints, nodes: Ints) -> Ints:
    """Number of the group of every constrained node: those that constraints join are one."""
    n = known.n_nodes
    i, j = known.pairs.T
    if known.labels is not None or known.shares is not None:
        has = known.labels >= 0 if known.shares is None else known.shares.known  # type: ignore[operator]
        labelled = np.flatnonzero(has)
        i = np.concatenate([i, labelled[:-1]])
        j = np.concatenate([j, labelled[1:]])
    joined = sp.csr_matrix((np.ones(i.size), (i, j)), shape=(n, n))
    if known.soft is not None:
        joined = joined + abs(known.soft)
    return connected_components(joined, directed=False)[1][nodes].astype(np.int64)
