"""What `Auto` is given: data, what is known of their rows, and what of that is held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.candidates import LABELS, NOTHING, PAIRS, Way, pairs_right
from mustlink.clusterers.clusterer import AUTO
from mustlink.clusterers.label_clusters import Priors, hastened
from mustlink.constraints import Constraints
from mustlink.context.method_cost import sample_rows
from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import Recorder, Unheard
from mustlink.discretize.cuts import ClusterSums
from mustlink.eigen.memory_work import MemoryWork
from mustlink.estimators.fit_input import side_information
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.neighbors import knn_graph
from mustlink.neighbors.affinities import n_rows
from mustlink.neighbors.points_by_rows import is_rows, prepare
from mustlink.propagation.held_out import folds_of_labels
from mustlink.propagation.prior import check_prior, statements_of_rows
from mustlink.selection.cluster_count import count_clusters
from mustlink.selection.held_out import Fold, can_hold_out

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_LABELS, MOST_PAIRS = 600, 1500  # of a sample, at most
_HELD, _SPLITS = 0.25, 2  # share of the pairs held out, and how often
_PULL, _IN_NETWORKS = 0.7, 0.3  # of pairs on single nodes
_FEW = 3  # labels of a class in the mean from which folds say something
_REPEATED, _FEW_PAIRS = 40, 300  # labels and pairs up to which they are dealt again


@dataclass(frozen=True)
class _PointRows:
    """Rows of points, of which something is known before they have a graph."""

    n_rows: int
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class AutoInput:
    """What a fit is given. `known` is of rows, `points` (n, d) are None of a graph.

    `graph` is that of all rows, None where it is not made yet, `kind` what is known, and
    `all_classes` whether there are labels of as many classes as there are to be clusters.
    """

    X: Any
    known: Constraints
    kind: str
    y: Any = None
    constraints: Constraints | None = None
    prior: Any = None
    belief: Any = None
    all_classes: bool = False
    points: Any = None
    graph: Graph | None = None
    graphs: Any = None
    sample_weight: Any = None

    @classmethod
    def of(
        cls,
        n_clusters: Any,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        *,
        prior: Any = None,
        belief: Any = None,
    ) -> AutoInput:
        """What is known of X, checked; raises InputError."""
        check_prior("Auto", True, prior, belief)
        where: Any = X if isinstance(X, Graph | DiskGraph) else _PointRows(n_rows(X))
        known = side_information(where, y, constraints)
        kind = NOTHING if known.is_empty and prior is None else PAIRS
        classes = known.classes.size
        all_classes = classes > 1 and n_clusters in (None, AUTO, classes)
        if known.kind == "labels" and all_classes:
            kind = LABELS
        return cls(X, known, kind, y, constraints, prior, belief, all_classes)

    @property
    def n(self) -> int:
        """Rows."""
        return self.known.n_nodes

    @property
    def labels(self) -> Ints:
        """Labels (n,), -1 unknown."""
        assert self.known.labels is not None
        return self.known.labels

    @property
    def named_labels(self) -> Any:
        """Labels (n,) as they were given, with the names of their classes."""
        return self.labels if self.constraints is not None else self.y

    @property
    def n_classes(self) -> int | None:
        """Number of classes among the labels, None without any."""
        return self.known.classes.size or None

    @property
    def said(self) -> Ints:
        """Labels (n,) without those that repeat their neighbours', see `prior.statements`."""
        if self.graph is None:
            return self.labels
        work = MemoryWork(Workspace(self.graph))
        return statements_of_rows(work, self.labels, self.graph.rows)

    @property
    def amount(self) -> int:
        """Labels and pairs that say something new."""
        labels = 0 if self.known.labels is None else int(np.count_nonzero(self.said >= 0))
        return labels + len(self.known.pairs)

    @property
    def is_soft(self) -> bool:
        """Whether something is said that is neither a pair nor a label."""
        known = self.known
        return not (self.prior is None and known.soft is None and known.soft_labels is None)

    @property
    def is_network(self) -> bool:
        """Whether the graph is none of points."""
        return self.graph.is_network if self.graph is not None else self.points is None

    @property
    def pull(self) -> float:
        """Of a pair on a single node at the end of a fit, where all of its neighbours have 1."""
        if self.kind != PAIRS or self.is_soft:
            return 0.0
        return _IN_NETWORKS if self.is_network else _PULL

    @property
    def level(self) -> int:
        """0, 1 or 2: how much is known, as `Way.usual` has it."""
        if self.kind == LABELS:
            counts = np.unique(self.labels[self.labels >= 0], return_counts=True)[1]
            return int(np.searchsorted((_FEW, 6), np.median(counts), side="right"))
        pairs_a_row = self.known.merged[0].shape[0] / max(self.n, 1)
        return int(np.searchsorted((0.25, 1.0), pairs_a_row))

    @property
    def enough(self) -> bool:
        """Whether a part of what is known can be held out."""
        if self.kind == LABELS:
            return int(np.count_nonzero(self.labels >= 0)) >= _FEW * self.known.classes.size
        return can_hold_out(self.known, 2)

    def folds(self) -> list[Any]:
        """Rows whose labels are held out, or parts of the constraints.

        The same for any seed, which would choose by which are held out; little is dealt again.
        """
        if self.kind == LABELS:
            few = np.count_nonzero(self.labels >= 0) <= _REPEATED
            dealt = [folds_of_labels(self.labels, i) for i in range(2 if few else 1)]
            return [fold for some in dealt for fold in some]
        rng = np.random.default_rng(0)
        splits = _SPLITS if self.known.n_constraints > _FEW_PAIRS else 2 * _SPLITS
        return [Fold.of(*self.known.split(_HELD, rng)) for _ in range(splits)]

    def sampled(self, made_by: Mapping[str, Any], seed: int) -> AutoInput:
        """Some thousand rows, with their labels or pairs and with their own graph."""
        rng = np.random.default_rng(seed)
        if self.kind == LABELS:
            nodes = np.flatnonzero(self.labels >= 0)
            nodes = rng.choice(nodes, min(_LABELS, nodes.size), replace=False)
        else:
            pairs = self.known.merged[0]
            some = rng.choice(len(pairs), min(MOST_PAIRS, len(pairs)), replace=False)
            nodes = np.unique(pairs[some])
        others = sample_rows(self.n, self.n_classes or 0)
        rows = np.union1d(nodes, rng.choice(self.n, min(others, self.n), replace=False))
        known = self.known[rows]
        if self.kind == LABELS:  # of the others they would be too many
            labels = np.full(self.n, -1, dtype=np.int64)
            labels[nodes] = self.labels[nodes]
            known = Constraints.from_labels(labels[rows])
        own = self.points
        points = prepare(own, "euclidean").gather(rows) if is_rows(own) else own[rows]
        graph = knn_graph(
            points, duplicates="merge", random_state=seed, observer=Unheard(), **made_by
        )
        part = [None if one is None else np.asarray(one) for one in (self.prior, self.belief)]
        prior, belief = (one if one is None or one.ndim == 0 else one[rows] for one in part)
        more: dict[str, Any] = {"prior": prior, "belief": belief, "all_classes": self.all_classes}
        return AutoInput(points, known, self.kind, points=points, graph=graph, **more)


# --- Candidates of `Auto` fitted to a part of what is known, and what they predict of the rest

_CHOSEN = {"power", "variant"}  # parameters that a refit would choose again


class Trials:
    """Fits to a part of what is known of a graph, and what they predict of the rest."""

    def __init__(self, auto: Any, data: AutoInput, recorder: Recorder) -> None:
        self._auto, self._data, self._recorder = auto, data, recorder
        self._work = auto._view(data.graph, recorder, cost=auto.cost(data.n_classes))
        self._priors = Priors(auto, self._work, data.points, auto._used_seed, trial=True)
        self._fold: Any = None
        self._made: dict[str, Any] = {}

    def right(self, way: Way, fold: Any) -> tuple[Floats, Floats]:
        """Whether every label held out is predicted, and how it counts; of pairs how far all are.

        Labels may be as many of every class where rows are not: one of class c counts n_c/l_c, n_c
        of all answers and l_c of the labels are c.
        """
        if self._data.kind == PAIRS:
            found = self._fitted(way, fold.kept).labels_
            agreement = pairs_right(found[fold.nodes], fold.both, fold.given)
            held = fold.both.n_constraints - fold.given.n_constraints
            found_right = np.full(max(min(held, MOST_PAIRS), 1), agreement)
            return found_right, np.ones_like(found_right)
        labels = self._data.labels
        if self._fold is None or self._fold[0] is not fold:
            known = labels.copy()
            known[fold] = -1
            self._fold = fold, known
        own, answers = labels[fold], self._answers(way, self._fold[1])
        k = labels.max() + 1
        sizes, counts = (np.bincount(x[x >= 0], minlength=k) for x in (answers, labels))
        return np.asarray(answers[fold] == own, dtype=np.float64), sizes[own] / counts[own]

    def clusters(self, way: Way) -> Ints:
        """Those (n,) by all that is known."""
        return np.array(self._fitted(way, self._data.known).labels_)

    def nats(self, way: Way) -> float:
        """What the answers by all labels tell about the edges, `ClusterSums.nats`."""
        graph = self._work.graph
        answers = self._answers(way, self._data.labels)[graph.first_rows].astype(np.int64)
        sizes = np.bincount(answers[answers >= 0], minlength=1).astype(np.float64)
        weights, edges = graph.cluster_weights(answers, sizes.size)
        return ClusterSums(weights, edges, sizes).nats

    def _answers(self, way: Way, known: Ints) -> Ints:
        """Classes (n,) by some of the labels (n,), -1 where none reaches."""
        prior, belief = self._data.prior, self._data.belief
        if way.parts:
            prior, belief = self._priors.of(way.parts, way.belief, known)
        made = hastened(self._auto._made(way, self._data))
        found: Ints = made.fit_on(self._work, known, self._auto._used_seed, prior, belief).labels_
        return found

    def _fitted(self, way: Way, known: Constraints) -> Any:
        """A clusterer fitted to some of the constraints, the first time in a usual subspace.

        Then refitted: what it has chosen stays, and that is most of its time.
        """
        if way.name in self._made:
            return self._made[way.name].refit(constraints=known, observer=self._recorder)
        made = self._auto._made(way, self._data, spreads=bool(way.parts))
        if way.parts:
            return made.run_on(self._work, known, self._auto._used_seed, self._priors)
        made.set_params(n_clusters=self._k)
        hastened(made, self._work.graph, len(known.merged[0]))
        self._made[way.name] = made.fit(
            self._data.graph, constraints=known, observer=self._recorder
        )
        chosen = {name: made.report_.choices.get(name) for name in _CHOSEN & set(made.get_params())}
        made.set_params(**{name: one for name, one in chosen.items() if one is not None})
        return made

    @cached_property
    def _k(self) -> int:
        """K as it is named, else of the classes, else counted on the graph."""
        named, classes = self._auto.n_clusters, self._data.n_classes
        if isinstance(named, int):
            return named
        if classes is not None and classes > 1:
            return classes
        return count_clusters(self._work, self._auto._used_seed, self._data.known).k
