"""Clusters that are the classes of labels, spread with a prior by columns and by other clusters.

    F = argmin Σ_ij w_ij ‖f_i − f_j‖²/2 + Σ_i u_i ‖f_i − p_i‖²,  f_i = e_{y_i} where y_i is known

p_i is the mean of what the parts of the prior say of row i: the chances of a classifier on columns,
with smooth vectors or alone (`Columns`), the shares of labels in the cluster it is in,
or another propagator's distributions; u_i is the belief times the degree of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.clusterers.clusterer import AUTO
from mustlink.clusterers.informed_clusterer import InformedClusterer
from mustlink.constraints import Constraints
from mustlink.context.method_cost import Cost, clamped_propagation
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import as_points, check_choice
from mustlink.core.names import estimator_of
from mustlink.core.observe import Recorder, Unheard
from mustlink.core.state import unbound
from mustlink.discretize.cuts import note_alone, warn_of_sizes
from mustlink.discretize.merge_tree import renumbered
from mustlink.discretize.satisfaction import rows_moved_by_pairs, warn_if_broken
from mustlink.eigen.memory_work import MemoryWork, laplacian_of, smoothest
from mustlink.eigen.smooth_subspace import BASIS_TOL
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.blocks import row_slices
from mustlink.kernels.threads import in_threads
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.propagation.prior import note_repeated, statements_of_rows
from mustlink.selection.constrained_fit import USUAL

Ints = NDArray[np.int64]
# Name of a clusterer, K, and what it chose; of one that does not see the labels its clusters (n,).
Parts = tuple[tuple[str, int, Any], ...]

COLUMNS, ALONE = "columns", "columns alone"
BLIND = "NCut"  # a part that does not see the labels
NAMED = "NCut, named"  # the same clusters, each with a class of its own
_TRIAL_TREES = 25
_HALF_WAY = 0.9  # of LLGC: how far labels travel where that is not chosen
_FULL = 1000  # nodes up to which the full problem is tried
_MOST_WHOLE = 20_000  # nodes up to which clusterers of a prior choose as they do alone
_ROUGH = 0.05  # of pairs that are spread in a trial: all of a matrix's eigenvectors take longer
_MOST = 150  # vectors of a trial, but for many clusters
_FOLDS = 2  # by which a parameter of a trial is chosen
_LOST = 0.01  # share of the rows in a cluster from which it is said that it halved
_VECTORS = 2  # smooth vectors a class beside the columns


@dataclass(eq=False, repr=False)
class LabelClusters(InformedClusterer):
    """Clusters from labels of all classes: cluster c is class `classes_[c]`. What `Auto` fits.

    `method` is the propagator, "GFHF" or "LLGC", `parts` are what its prior is the mean of:
    "columns" and "columns alone", without smooth vectors (both of points), names of clusterers and
    of propagators, "NCut, named", whose clusters have one class each; `belief` in it is in units of
    a row's degree.

    Takes labels, of as many classes as there are clusters; pairs where they follow from these, or,
    as a candidate of `Auto`, as moves of single nodes at the end (`moved_by_pairs`).
    After `fit`: as every clusterer; `embedding_` (n, K) are the shares of the classes in every row,
    `classes_` (K,) their numbers. Cost: that of the parts, and one propagation.
    """

    method: str = "GFHF"
    parts: Sequence[str] = ()
    belief: float = 0.3

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _columns_of = None  # points, where a graph is fitted that was made of them before
    _parts = ()  # type: Parts  # clusterers of the prior on this graph, for refits

    def cost(self, n_classes: int | None = None) -> Cost:
        """Labels spread as by `GFHF`; the parts take no more than `CSP`."""
        return clamped_propagation(self._k_or(n_classes))

    def _check(self) -> None:
        check_choice(self.method, ("GFHF", "LLGC"), "method")
        if not 0 <= self.belief < np.inf:
            raise InputError(f"belief: {self.belief}; give 0 or more, in units of a row's degree")

    def run_on(self, view: Workspace, known: Constraints, seed: int, priors: Priors) -> Self:
        """`fit` as a trial on a view of the graph, with priors that several trials share."""
        work = MemoryWork(view)
        self._run(work, self._of_nodes(known, work), seed, priors)
        return self

    def _run(self, work: Any, known: Constraints, seed: int, priors: Priors | None = None) -> None:
        graph, recorder, labels = work.graph, work.recorder, self._labels_alone()
        classes = np.unique(labels[labels >= 0])
        k = self._clusters(work, classes.size, seed)
        if k != classes.size:
            raise InputError(
                f"n_clusters: labels of {classes.size} classes for {k} clusters; label nodes of "
                "every class, or take CSP (-m csp)"
            )
        prior, belief, given = None, None, labels
        labels = statements_of_rows(work, given, graph.rows)
        note_repeated(given, labels, recorder)
        if priors is not None:
            prior, belief = priors.of(self.parts, self.belief, labels)
        elif self.parts:
            with recorder.stage("prior"):
                quiet = Recorder(Unheard(), recorder.deadline)
                quiet.budget = recorder.budget
                view = replace(work.view, recorder=quiet)
                priors = Priors(self, view, self._points_of(graph), seed)
                had = getattr(self, "_before", self)  # of `add` the graph is another
                if getattr(had, "graph_", None) is graph:
                    priors.chosen = {name: rest for name, *rest in self._parts}
                prior, belief = priors.of(self.parts, self.belief, labels)
            self._parts = tuple((name, *rest) for name, rest in priors.chosen.items())
        spread = made_like(self, estimator_of(self.method), seed).fit_on(
            work.view, labels, seed, prior, belief
        )
        self.graph_, self.classes_ = graph, spread.classes_
        self.embedding_ = spread.label_distributions_
        self.embedding_[labels != given] = given[labels != given, None] == self.classes_
        answers = self._numbers(work, np.where(labels != given, given, spread.labels_), k)
        self.labels_, moved = rows_moved_by_pairs(graph, answers, known, self._pull, k)
        if moved:
            recorder.note(f"pairs: {moved:,} nodes moved to where pairs and neighbours are")
        kept = warn_if_broken(self.labels_, known, recorder)
        choices, steps = spread.report_.choices, spread.report_.convergence
        choices = {one: value for one, value in choices.items() if one != "graph"}
        self._report(work, k, choices, steps, kept, self.method, **spread.report_.extra)

    def _labels_alone(self) -> Ints:
        """Labels (n,) of the rows; raises InputError where they are not all that is known."""
        given = self._given
        kinds = ("labels", "mixed") if self._pull else ("labels",)
        if given is None or given.labels is None or given.kind not in kinds:
            raise InputError(
                f"constraints: {self.method} spreads labels; label nodes of every class, or take "
                "CSP (-m csp) for pairs"
            )
        return given.labels

    def _numbers(self, work: Any, answers: Ints, k: int) -> Ints:
        """Clusters (n,) by the order of the classes; warns of crumbs and of lone nodes."""
        found = np.where(answers < 0, -1, np.searchsorted(self.classes_, answers))
        sizes = np.bincount(found[found >= 0], minlength=k)
        warn_of_sizes(sizes, k, work.recorder)
        if self.isolated == "assign" and (found < 0).any():
            note_alone(int((found < 0).sum()), "put in the largest cluster", work.recorder)
            found[found < 0] = int(sizes.argmax())
        return found

    def _points_of(self, graph: Graph) -> Any:
        """The points of the rows; None where there are none in memory."""
        points = self._points if self._columns_of is None else self._columns_of
        return None if points is None or is_rows(points) else points

    def _twin(self) -> Self:
        twin = super()._twin()
        twin._points, twin.graph_, twin._parts = self._points, self.graph_, self._parts
        twin._columns_of = self._points if self._columns_of is None else self._columns_of
        return twin

    def _numbered_as(self, before: Ints, recorder: Recorder, verb: str = "refit") -> Self:
        """Clusters keep the order of the classes; names follow their rows."""
        old = np.full(self.labels_.size, -1, dtype=np.int64)
        old[: before.size] = before
        found, names = renumbered(old, self.labels_, self.labels_.size), self._names or {}
        place = dict(zip(found.labels.tolist(), self.labels_.tolist(), strict=True))
        self._names = {place[one]: name for one, name in names.items() if one in place}
        moved = float(np.mean(found.labels[: before.size] != before)) if before.size else 0.0
        recorder.note(f"{verb}: {moved:.2%} of the nodes changed their cluster")
        for one in np.unique(before[before >= 0]).tolist():
            was, now = int((before == one).sum()), int((found.labels == one).sum())
            if was >= _LOST * before.size and 2 * now < was:
                recorder.warn(
                    f"{verb}: of {was:,} rows of cluster {place.get(one, one)} {now:,} are left; "
                    "look at what was said last, or take it back"
                )
        changed = {"new": [place[one] for one in found.new], "gone": list(found.gone)}
        self._report_more(recorder, changed=moved, clusters_changed=changed)
        return self


def made_like(estimator: Any, kind: Any, seed: int) -> Any:
    """An estimator of a kind with the parameters of another that it has, for one graph."""
    own = kind._get_param_names()
    theirs = estimator.get_params() | {"graph_weights": AUTO, "representatives": None}
    how = {one: value for one, value in theirs.items() if one in own}
    if not isinstance(estimator.random_state, int):
        how["random_state"] = seed
    return unbound(kind, **how)  # nobody else sees it


class Priors:
    """Priors on a graph of all rows by their parts; kept for the labels asked last.

    `estimator` has the parameters, `points` (n, d) are None of a graph, `chosen` is what clusterers
    keep for other labels of as many classes, as in `Parts`.
    """

    def __init__(
        self, estimator: Any, work: Workspace, points: Any, seed: int, *, trial: bool = False
    ) -> None:
        self.work, self.chosen = work, dict[str, Any]()
        self._estimator, self._points, self._seed, self._trial = estimator, points, seed, trial
        self._columns: dict[bool, Columns] = {}  # with smooth vectors beside them, or alone
        self._made: dict[str, Any] = {}
        self._labels: Any = None

    def of(self, parts: Sequence[str], belief: float, labels: Ints) -> tuple[Any, Any]:
        """Distributions (n, K) over the classes of labels (n,), and beliefs (n,)."""
        if self._labels is not labels:
            self._made, self._labels = {}, labels
        for part in parts:
            if part not in self._made:
                self._made[part] = self._part(part, labels)
        P = self._made[parts[0]].copy()
        for part in parts[1:]:
            P += self._made[part]
        P /= len(parts)
        total = P.sum(axis=1, keepdims=True)
        graph = self.work.graph
        degrees = graph.degrees if graph.weights is None else graph.degrees / graph.weights
        each = belief * graph.spread(np.nan_to_num(degrees)) * total[:, 0]
        return np.divide(P, total, out=np.zeros_like(P), where=total > 0), each

    def _part(self, part: str, labels: Ints) -> Any:
        """What one part says of every row, (n, K); rows are 0 where it says nothing."""
        if part in (COLUMNS, ALONE):
            return self._chances(labels, alone=part == ALONE)
        if part != NAMED and hasattr(estimator_of(part), "_minimises"):  # it spreads labels
            made = made_like(self._estimator, estimator_of(part), self._seed)
            made = hastened(made) if self._trial else made
            return made.fit_on(self.work, labels, self._seed).label_distributions_
        return self._clusters(part, labels)

    def _chances(self, labels: Ints, *, alone: bool) -> Any:
        classes = np.unique(labels[labels >= 0])
        if alone not in self._columns:
            if self._points is None:
                raise InputError('parts: "columns" are of points in memory; leave them out')
            k, points = classes.size, as_points(self._points)
            p = 0 if alone else _VECTORS * k + 2
            self._columns[alone] = Columns.of(points, self.work, p, USUAL * k, self._seed)
        n_trees = _TRIAL_TREES if self._trial else TREES
        return self._columns[alone].chances(labels, classes, self._seed, n_trees)

    def _clusters(self, part: str, labels: Ints) -> Any:
        """Shares of the classes among the labels of a node's cluster, 0 where it has none.

        `NAMED` is one class a cluster and one cluster a class, so that most labels are right (Kuhn
        1955): few labels do not run clusters together.
        """
        named, part = part == NAMED, BLIND if part == NAMED else part
        classes, codes = np.unique(labels, return_inverse=True)
        k, graph = int(np.count_nonzero(classes >= 0)), self.work.graph
        had = self.chosen.get(part, (0, None))
        if had[0] == k and part == BLIND:
            found = had[1]
        else:
            made = made_like(self._estimator, estimator_of(part), self._seed)
            made.set_params(n_clusters=k)
            if self._trial or graph.n_nodes > _MOST_WHOLE:
                hastened(made, graph)
            if had[0] == k:  # to choose anew is most of the time of a fit
                found = made.fit_as_chosen(graph, labels, had[1], self.work.recorder).labels_
            else:
                side = None if part == BLIND else labels
                found = made.fit(graph, side, observer=self.work.recorder).labels_
                if part == BLIND or getattr(made, "_acted", False):  # others have chosen nothing
                    self.chosen[part] = k, found if part == BLIND else made._choice
        known = np.flatnonzero((labels >= 0) & (found >= 0))
        votes = np.zeros((int(found.max(initial=0)) + 1, classes.size))
        np.add.at(votes, (found[known], codes[known]), 1)
        votes = votes[:, classes >= 0]
        if named:
            from scipy.optimize import linear_sum_assignment

            pairs = linear_sum_assignment(votes, maximize=True)
            votes = np.zeros_like(votes)
            votes[pairs] = 1
        votes /= np.maximum(votes.sum(axis=1, keepdims=True), 1)
        return np.where(found[:, None] >= 0, votes[np.maximum(found, 0)], 0.0)


def hastened(made: Any, graph: Graph | None = None, n_pairs: int = 0) -> Any:
    """Parameters for a trial: what takes longer than all the rest of it is left out.

    No choice by what is held out of those labels that are not held out already; the usual subspace,
    with a vector for every ten pairs, to some extent: many are not kept within a few vectors, which
    need not be sharp. Of few nodes with a pair for every other the full problem: a few vectors keep
    too little of them.
    """
    own = made.get_params()
    if own.get("alpha") == AUTO:
        made.set_params(alpha=_HALF_WAY)
    if "new_edges" in own and graph is not None and graph.n_nodes > _FULL:
        made.set_params(solver="diffusion", tol=_ROUGH)
    if "subspace" in own and graph is not None:
        if 2 * n_pairs >= graph.n_nodes and graph.n_nodes <= _FULL:
            return made.set_params(subspace="exact")
        p = max(USUAL * made.n_clusters, min(n_pairs // 10, _MOST))
        p = max(made.n_clusters, 2, min(p, graph.n_nodes // 4))
        made.set_params(subspace=p, tol=BASIS_TOL)
        made._most_folds = _FOLDS
    return made


# --- What the columns of points say of their classes: a classifier on columns and smooth vectors
#
# Distances take all columns alike; trees take those that tell the classes apart. With the smoothest
# eigenvectors of the neighbour graph as columns, they learn from points without a label, too.

Block = NDArray[np.float64]
TREES = 200
_WIDTH = 256  # columns for which blocks of rows are made


@dataclass(frozen=True, eq=False)
class Columns:
    """Points (n, d) and rows (m, p) of smooth vectors of their nodes, `nodes` (n,) of the points.

    Memory: the vectors; rows of both are put together by blocks.
    """

    points: NDArray[np.floating]
    vectors: Block
    nodes: NDArray[np.integer[Any]]

    @classmethod
    def of(
        cls, points: NDArray[np.floating], work: Workspace, p: int, computed: int, seed: int
    ) -> Self:
        """With the p smoothest vectors D^-½v of the graph of the points, 0 without an edge.

        They are the first of so many `computed`, which others take as well; of p = 0 none is.
        """
        graph = work.graph
        nodes = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        if p == 0:
            return cls(points, np.empty((graph.n_nodes, 0)), nodes)
        laplacian, basis = laplacian_of(work), smoothest(work, max(p, computed), seed=seed)
        rows = np.zeros((graph.n_nodes, min(p, basis.p)))
        rows[laplacian.nodes] = (basis.vectors / laplacian.root_degree[:, None])[:, : rows.shape[1]]
        return cls(points, rows, nodes)

    def rows(self, some: Any) -> Block:
        """Columns and vectors of some points."""
        return np.column_stack([self.points[some], self.vectors[self.nodes[some]]])

    def chances(self, labels: Ints, classes: Ints, seed: int, n_trees: int = TREES) -> Block:
        """Chances (n, K) of classes by extra trees on the labelled points (Geurts et al. 2006).

        `labels` (n,) are -1 where unknown. The same for any number of threads.
        """
        from sklearn.ensemble import ExtraTreesClassifier

        known = np.flatnonzero(labels >= 0)
        model = ExtraTreesClassifier(n_trees, random_state=seed)
        model.fit(self.rows(known), labels[known])
        found = np.zeros((labels.size, classes.size))
        at = np.searchsorted(classes, model.classes_)

        def fill(block: slice) -> None:
            # The forest's own sum sets the process's warnings anew, which no two threads may.
            rows = self.rows(block).astype(np.float32)
            part = np.zeros((len(rows), at.size))
            for tree in model.estimators_:
                part += tree.predict_proba(rows, check_input=False)
            found[block, at] = part / n_trees

        in_threads(fill, row_slices(labels.size, _WIDTH))
        return found
