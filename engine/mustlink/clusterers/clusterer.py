"""What all clusterers share: K, labels of rows, new points, lasting numbers, confidence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.method_cost import MOST_COUNTED, Cost, DiskCost, eigenvectors, n_guard_vectors
from mustlink.core.check import called_by_most, check_choice, check_n_clusters
from mustlink.core.observe import Recorder, Unheard, recorded
from mustlink.core.result import Convergence, Report
from mustlink.core.state import (
    ClusterMixin,
    GraphTransformer,
    check_columns,
    check_is_fitted,
    found_by_fit,
    unbound,
)
from mustlink.discretize.cuts import (
    below_classes,
    network_scores,
    note_alone,
    warn_of_components,
    warn_of_sizes,
)
from mustlink.discretize.memberships import (
    Calibration,
    Evidence,
    MembershipExponents,
    Outcomes,
    calibrated,
    led_by,
    own_share,
    usual,
)
from mustlink.discretize.merge_tree import MergeTree, cut_into, grown_tree, renumbered
from mustlink.discretize.satisfaction import satisfaction
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.work import DISK, MEMORY, Work
from mustlink.errors import InputError
from mustlink.estimators.fit_input import input_of
from mustlink.estimators.graph_choice import candidates, graph_by_evidence, of_clusters, of_labels
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.several import Views, several
from mustlink.graph.shares import mixed
from mustlink.kernels.threads import threads
from mustlink.neighbors.affinities import n_rows
from mustlink.neighbors.disk_knn import graph_where_short
from mustlink.neighbors.distances import as_rows, resolved_metric
from mustlink.neighbors.streamed_points import with_block
from mustlink.propagation.gfhf import GFHF
from mustlink.propagation.held_out import enough_labels, folds_of_labels
from mustlink.selection.cluster_count import count_clusters
from mustlink.selection.held_out import can_hold_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FITS, _HELD = 3, 1 / 3  # fits to parts of what is known, by which confidence is calibrated
ISOLATED = ("drop", "assign")
AUTO = "auto"
_COUNTS = 'n_clusters: "auto" counts on a graph in memory; give a number, or labels of classes'
USUAL_CLUSTERS = 8  # where nobody says how many, as in scikit-learn


@dataclass(eq=False, repr=False)
class GraphClusterer(GraphTransformer, ClusterMixin, GraphEstimator):
    """Base of the clusterers: K, and what every fit begins and ends with.

    `n_clusters` K: None takes the number of classes among the labels, and where they name none, or
    one alone, 8, with a note; `report_.n_clusters` tells. "auto" counts on the graph instead of
    taking 8, see `selection.cluster_count`; `report_.choices` has the counts, and what they
    disagree about is a doubt. As in scikit-learn a clusterer is a transformer, too: points to rows
    of the embedding.
    """

    n_clusters: int | str | None = None
    _: KW_ONLY
    isolated: str = "drop"

    _places_known: ClassVar[bool] = False  # whether it looks up nodes that something is known of

    _informed: ClassVar[bool] = True  # whether it takes constraints

    _trusts_edges: ClassVar[bool] = True  # whether nodes of a cluster are linked to each other

    # What fits find. No annotations: of these a dataclass makes parameters.
    _names = None  # type: Mapping[int, str] | None  # by the person
    _class_names = None  # type: tuple[str, ...] | None  # of labels that are text
    _first_new = 0  # no cluster ever had this number or a larger one
    _calibrated = None  # type: tuple[Ints, Calibration] | None  # and the labels that it is of
    _given = None  # type: Constraints | None  # about rows
    _row_weights = None  # type: Floats | None
    _hierarchy = None  # type: MergeTree | None

    def _in_memory_only(self) -> dict[str, bool]:
        return {"isolated": self.isolated != "drop"}

    def _columns(self, k: int) -> int:
        """Eigenvectors that are computed together for k clusters, at most."""
        return k

    @abstractmethod
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Set `labels_`, `embedding_` and `report_`."""

    @property
    def partial_fit(self) -> Callable[..., Self]:
        """Go on with another block of points (m, d) of a stream: `partial_fit(X, observer=None)`.

        With `representatives` p alone. The first block has p rows at least, of which p are chosen
        to stand for all; later blocks add to what they count, and get new ones where 16 rows or
        more lie together far from all (`neighbors.streamed_points`). Nothing else of a block is
        held: rows of this fit are the representatives, `labels_` (p,) theirs; `predict` labels
        points. `fit` begins anew. Cost O(m p d) and a fit to p nodes. Raises InputError.
        """
        p = self.representatives
        if isinstance(p, bool) or not isinstance(p, int | np.integer):
            raise AttributeError(f"partial_fit: representatives={p!r}; give a number, such as 1000")
        return self._go_on

    def _go_on(self, X: Any, y: Any = None, observer: Any = None, **options: Any) -> Self:
        """See `partial_fit`; `y` has no use, as no rows are held."""
        before, recorder = getattr(self, "graph_", None), recorded(observer)
        if y is not None:
            recorder.warn(
                "y: labels of a stream are not used, as none of its rows is held; fit rows that "
                "have labels by fit"
            )
        going_on = isinstance(before, Graph) and "seen" in before.info
        points = self._as_fitted(X) if going_on else as_rows(X)
        p: Any = self.representatives
        how: Any = {"metric": resolved_metric(self.metric, points), "random_state": self._seed()}
        with threads(self.n_jobs):
            graph = with_block(before if going_on else None, points, p, recorder=recorder, **how)
        own: Any = self
        own.fit(graph, observer=recorder, **options)
        self._points = own.graph_.shares.finder.centres
        found_by_fit(self, "_points")
        check_columns(self, X)
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`; scikit-learn's own would leave the labels `y` out."""
        self.fit(X, y, **options)
        found: Ints = self.labels_
        return found

    def predict(self, X: Any) -> Ints:
        """Cluster of new points (q, d): that of most of their nearest fitted points, weighted.

        A fitted point keeps its own. Weights as in `transform`. `cluster_names_` has their names.
        """
        return self._new_points(X).vote(self.labels_)

    def predict_proba(self, X: Any) -> Floats:
        """Share of every cluster in new points (q, K): the mean of their neighbours' memberships.

        Columns as of `membership_`, the largest is that of `predict`; weights as there, a fitted
        point keeps its own. Cost that of `membership_`, and O(q n d).
        """
        shares = self.membership_
        new = self._new_points(X, shares.shape[1])
        return led_by(new.mean(shares), new.vote(self.labels_))

    def cost(self, n_classes: int | None = None) -> Cost:
        """K eigenvectors of the graph at a time; see `GraphEstimator.cost`."""
        return eigenvectors(self._k_or(n_classes))

    def _cost_on_disk(
        self, others: dict[str, Any], classes: int | None, n: int, nnz: int
    ) -> DiskCost:
        """At least what a fit takes of n points with nnz neighbours on disk; InputError."""
        self._check_home(DISK, others)
        if isinstance(self._named_clusters(classes or 0), str):
            raise InputError(_COUNTS)
        return self.cost_of_clusters(2, n, nnz)

    def _home_of(
        self,
        X: Any,
        recorder: Recorder,
        known: Callable[[Any], Constraints],
        others: dict[str, Any],
        classes: int | None = None,
        beside: int = 0,
    ) -> Any:
        """Where a fit to X runs: on disk where the graph stays there, else in memory; InputError.

        `known(graph)` is what is known of its rows, with labels of `classes`; `others` is what else
        `fit` got, which disk refuses; `beside` are bytes held beside the points.
        """
        self._used_seed = seed = self._seed()
        cost = self.cost(classes)
        on_disk = partial(self._cost_on_disk, others, classes) if DISK in self.homes else None
        more: Any = {"others": others["graphs"], "beside": beside, "classes": classes}
        self._allow(X, cost, on_disk, **more)
        if on_disk is not None and not isinstance(X, Graph | DiskGraph):
            X = graph_where_short(self, X, recorder, cost, on_disk, seed)
        if isinstance(X, DiskGraph) and self._stays_on_disk(X):
            self._check_home(DISK, others)
            if X.copies is not None and self._places_known:
                raise InputError(
                    "graph: has nodes that stand for several rows, of which nothing can be said "
                    "on disk; give more memory, or take NCut"
                )
            k = self._named_clusters(known(X).classes.size)
            if isinstance(k, str):
                raise InputError(_COUNTS)
            least = self.cost_of_clusters(k, X.n_nodes, X.n_entries)
            return self._disk_work(X, self._columns(k), least, recorder)
        X = X if others["graphs"] is None else several(X, others["graphs"], known)
        how: Any = {"sample_weight": others["sample_weight"], "cost": cost, "beside": beside}
        graph = self._graph_by_evidence(X, recorder, known, others["sample_weight"], classes)
        if graph is None:
            work = self._work(X, recorder, seed, **how)
        else:
            work = self._points_and_view(X, graph, recorder, seed, needs_points=False, **how)[1]
        self._row_weights = work.row_weights  # which refits need, too
        return MemoryWork(work)

    def _graph_by_evidence(
        self, X: Any, recorder: Recorder, known: Any, weights: Any, classes: int | None
    ) -> Graph | None:
        """The graph that evidence chooses for points where `representatives` is "auto", else None.

        By labels, else by normalised cuts of all points and two draws: `estimators.graph_choice`.
        """
        whole = weights is None or np.asarray(weights).all()  # which are not told of candidates
        if self.representatives != AUTO or isinstance(X, Views | Graph | DiskGraph) or not whole:
            return None
        k, seed = self._k_or(classes), self._used_seed

        def verdict(p: int, quiet: Recorder) -> Any:
            made = candidates(self, self._tried_on_graphs(), p, seed, k)
            fitted = [one.fit(X, observer=quiet) for one in made]
            if not self._informed:
                return fitted, of_clusters(fitted, Constraints.none(n_rows(X)), seed)
            side = known(fitted[0].graph_)
            if side.labels is None or not enough_labels(side.labels):
                return fitted, of_clusters(fitted, side, seed)
            rivals = [GFHF(affinity="precomputed", random_state=seed) for _ in fitted]
            graphs, folds = [one.graph_ for one in fitted], folds_of_labels(side.labels, seed)
            return fitted, of_labels(rivals, graphs, side.labels, folds, quiet)

        given = input_of(X, None, self.affinity, self.n_neighbors, self.metric)
        return graph_by_evidence(self, X, given and given[0], recorder, k, verdict)

    def _tried_on_graphs(self) -> type[GraphClusterer]:
        """The clusterer that knows nothing, by which graphs are compared."""
        return type(self)

    def _home_again(self, recorder: Recorder) -> Any:
        """Where the last fit ran, for a refit; raises InputError."""
        if isinstance(self.graph_, DiskGraph):
            self._check_home(DISK)
            on_disk: Any = self
            on_disk._home = on_disk._home.with_recorder(recorder)
            return on_disk._home
        return MemoryWork(self._view(self.graph_, recorder, row_weights=self._row_weights))

    def cost_of_clusters(self, k: int, n: int, nnz: int) -> DiskCost:
        """What a fit of k clusters takes of a graph of n nodes and nnz weights on disk."""
        columns = self._columns(k)
        return DiskCost(
            n,
            nnz,
            columns + n_guard_vectors(columns),
            constrained=self._places_known,
            spreads=self.cost(k).spreads,
        )

    def _k_or(self, n_classes: int | None) -> int:
        """K for a cost, before anything is checked."""
        wanted = n_classes if self._follows_labels else self.n_clusters
        usual = USUAL_CLUSTERS if self.n_clusters is None else MOST_COUNTED
        return wanted if isinstance(wanted, int) and wanted > 0 else usual

    @property
    def _follows_labels(self) -> bool:
        """Whether K is the number of classes, where labels name them."""
        return self.n_clusters is None or self.n_clusters == AUTO

    def _named_clusters(self, n_classes: int) -> Any:
        """K as requested, or the number of named classes; AUTO where it is to be counted."""
        if self._follows_labels and n_classes > 1:
            return n_classes
        return USUAL_CLUSTERS if self.n_clusters is None else self.n_clusters

    def _clusters(
        self, work: Any, n_classes: int, seed: int, known: Constraints | None = None
    ) -> int:
        """K, checked against the nodes that can be clustered at all; labels name `n_classes`.

        `known` may have pairs of nodes that tell.
        """
        check_choice(self.isolated, ISOLATED, "isolated")
        recorder, n = work.recorder, work.n_nodes
        wanted, self._counted = self._named_clusters(n_classes), None
        if self._follows_labels and n_classes > 1:
            self._counted = "classes among the labels"
        elif wanted == AUTO:
            if work.home != MEMORY:
                raise InputError(_COUNTS)
            count = count_clusters(work.view, seed, known)
            wanted, self._counted = count.k, count.reason
            if count.doubt is None:
                recorder.note(f"n_clusters: {count.k} counted; {count.reason}")
            else:
                recorder.warn(f"n_clusters: {count.k} taken; {count.doubt}")
        elif self.n_clusters is None:
            recorder.note(f"n_clusters: {wanted} taken, as neither a number nor labels were given")
        k = check_n_clusters(wanted, n)
        if k > 1 and work.info.get("all_equal"):
            raise InputError(
                f"n_clusters: {k} clusters asked of 1 distinct row: all {work.graph.n_rows} points "
                "are equal; check that the right columns were read"
            )
        linked = work.look.n_linked
        if k > linked:
            raise InputError(
                f"n_clusters: {k} clusters asked for, but only {linked} of {n} nodes "
                "have an edge; ask for fewer"
            )
        if doubt := below_classes(k, n_classes):
            recorder.warn(doubt)
        return k

    def _in_one(self, work: Any, known: Constraints) -> None:
        """K = 1: all nodes that have an edge are one cluster."""
        space, root = work.space, work.laplacian.root_degree
        clusters = space.rowwise(lambda r: np.where(r > 0, 0, -1), root)
        rows = space.rowwise(lambda r: (r > 0)[:, None].astype(np.float64), root)
        self.labels_ = self._labels(work, clusters, 1)
        self.embedding_ = work.from_working_order(rows)
        self.eigenvalues_ = np.zeros(1)
        self.graph_ = work.graph
        kept = None if known.is_empty else satisfaction(self.labels_, known.as_given)
        self._report(work, 1, {"why": "one cluster asked for"}, None, kept)

    def _report(
        self,
        work: Any,
        k: int,
        choices: dict[str, Any],
        convergence: Convergence | None,
        kept: Mapping[str, float] | None,
        method: str | None = None,
        **extra: Any,
    ) -> None:
        """Set `report_` of a fit to k clusters at a home; `kept` of the constraints."""
        where = "" if work.home == MEMORY else f", on {work.home}"
        self.report_ = Report(
            method=f"{method or type(self).__name__}{where}",
            n_nodes=self.labels_.size,
            n_clusters=k,
            choices={**choices, "graph": dict(work.info)},
            convergence=convergence,
            satisfaction=kept,
            **work.recorder.report_parts(),
            extra={"n_components": work.n_components, **extra},
        )

    def _scored(self, recorder: Recorder) -> Self:
        """Add to the report how K was counted, and how a network is cut."""
        graph = self.graph_
        if self.n_clusters == AUTO:
            counted = {"n_clusters": [self.report_.n_clusters, self._counted]}
            self.report_ = replace(self.report_, choices={**counted, **self.report_.choices})
        if isinstance(graph, Graph) and graph.is_network:
            labels = self.labels_[graph.first_rows]
            warn_of_components(graph.components, labels, recorder)
            self._report_more(recorder, network=network_scores(graph, labels))
        return self

    def _report_more(self, recorder: Recorder, **extra: Any) -> None:
        """Add entries to the report, and the notes and warnings since."""
        remarks = recorder.report_parts()
        self.report_ = replace(
            self.report_,
            extra={**self.report_.extra, **extra},
            notes=remarks["notes"],
            warnings=remarks["warnings"],
        )

    def _labels(self, work: Work, clusters: Any, k: int, sizes: Any = None, lost: int = 0) -> Ints:
        """Labels of the caller's rows; of nodes without an edge -1, or the largest cluster's.

        `sizes` (k,) of the clusters, where they are known; `lost` nodes have no edge any more.
        """
        labels = work.labels_of_rows(clusters)
        sizes = work.cluster_sizes(clusters, k) if sizes is None else sizes
        added = getattr(self, "regularization", 1)
        more = (added == AUTO or added < 1) and getattr(self, "variant", "") != "shi-malik"
        warn_of_sizes(sizes, k, work.recorder, informed=self._informed, regularized=more)
        if alone := work.isolated + lost:
            done = "labelled -1"
            if self.isolated == "assign":
                labels[labels < 0] = int(sizes.argmax())
                done = "put in the largest cluster"
            note_alone(alone, done, work.recorder)
        return labels

    # --- names, and numbers that mean the same cluster from one refit to the next

    @property
    def cluster_names_(self) -> dict[int, str]:
        """Names of clusters by number: given by `name_clusters`, else the class of most labels.

        Classes have names where labels are text; a cluster without labels has no name. Names that
        were given stay while the cluster does.
        """
        check_is_fitted(self)
        found = {**self._names_by_labels(), **(self._names or {})}
        return {number: name for number, name in sorted(found.items()) if name}

    def _names_by_labels(self) -> dict[int, str]:
        known = None if self._given is None else self._given.labels
        if self._class_names is None or known is None:
            return {}
        names = called_by_most(self.labels_, known, dict(enumerate(self._class_names)))
        return {at: name for at, name in enumerate(names) if name}

    def name_clusters(self, names: Mapping[int, str]) -> Self:
        """Give names to clusters by their numbers in `labels_`; "" takes one away. InputError."""
        check_is_fitted(self)
        there = set(np.unique(self.labels_[self.labels_ >= 0]).tolist())
        found = dict(self._names or {})
        if not isinstance(names, Mapping):
            kind = type(names).__name__
            raise InputError(f"names: {kind} given; give text by number: {{0: 'cats', 3: 'dogs'}}")
        for number, name in names.items():
            if number not in there:
                raise InputError(f"names: no cluster has number {number}; labels_ tells which do")
            if not isinstance(name, str):
                raise InputError(f"names: {name!r} for cluster {number}; give text")
            found[int(number)] = name
        by_labels = self._names_by_labels()
        self._names = {one: name for one, name in sorted(found.items()) if name or one in by_labels}
        found_by_fit(self, "_names")
        return self

    def _numbered_as(self, before: Ints, recorder: Recorder, verb: str = "refit") -> Self:
        """Give clusters the numbers they had `before` (b,), b <= n; the report tells what changed.

        Rows that are new, n − b, move with their clusters.
        """
        first = max(self._first_new, int(before.max(initial=-1)) + 1)
        old = np.full(self.labels_.size, -1, dtype=np.int64)
        old[: before.size] = before
        found = renumbered(old, self.labels_, first)
        self._reorder(found.labels)
        self.labels_ = found.labels
        self.__dict__.pop("_cut_on_disk", None)  # its clusters have other numbers
        self._first_new = max(first, int(found.labels.max(initial=-1)) + 1)
        self._names = {
            number: name for number, name in (self._names or {}).items() if number not in found.gone
        }
        moved = float(np.mean(found.labels[: before.size] != before)) if before.size else 0.0
        recorder.note(f"{verb}: {moved:.2%} of the nodes changed their cluster")
        if found.new or found.gone:
            parts = [f"new {', '.join(map(str, found.new))}"] if found.new else []
            parts += [f"gone {', '.join(map(str, found.gone))}"] if found.gone else []
            recorder.note(f"{verb}: clusters {'; '.join(parts)}")
        changed = {"new": list(found.new), "gone": list(found.gone)}
        self._report_more(recorder, changed=moved, clusters_changed=changed)
        return self

    def _reorder(self, labels: Ints) -> None:
        """Put what has a column a cluster in the order of the numbers that `labels_` will have."""

    # --- how sure it is, from `labels_`, `embedding_` and `graph_`

    @property
    def membership_(self) -> Floats:
        """Share of every cluster in every node (n, K); rows sum to 1, 0 where `labels_` is -1.

        p_ic ∝ a_ic^α · (‖x_i − μ_c‖² + v_c)^-β: a_ic the share of the node's edges that goes to
        cluster c, with one more edge spread over all clusters, x_i its row of the embedding, μ_c
        and v_c the cluster's mean row and mean squared distance from it; α and β are those of
        `calibration_`. `labels_` has the largest of a row: a node whose edges say otherwise is
        nearly a tie. With `representatives` p are those of the nodes, which rows have by their
        shares. Nodes without an edge that were put in a cluster (`isolated="assign"`) have
        the clusters' sizes to the power α. Computed at every access, in O(nnz + nKr).
        """
        calibration = self.calibration_
        with threads(self.n_jobs):
            found = self._evidence().all_memberships(calibration.trust)
        rows: Floats = self.graph_.spread(found)
        return rows if self.graph_.shares is None else led_by(rows, self.labels_)

    @property
    def confidence_(self) -> Floats:
        """Chance that a node is in its cluster by right, (n,): its own entry of `membership_`.

        1/K is a guess, 0 stands where `labels_` is -1. By blocks of rows, without (n, K).
        """
        calibration = self.calibration_
        with threads(self.n_jobs):
            if (own := self.graph_.shares) is not None:
                P, sure = self._evidence().all_memberships(calibration.trust), np.empty(own.n_rows)
                for part, near in own.blocks():
                    labels = self.labels_[part]
                    sure[part] = own_share(led_by(mixed(near, P), labels), labels)
                return sure
            found = self._evidence().confidence(calibration.trust)
        rows: Floats = self.graph_.spread(found)
        return rows

    @property
    def calibration_(self) -> Calibration:
        """α and β of `membership_`: by labels and pairs held out of further fits, else usual ones.

        Where the person gave enough to spare some, a third is held out of each of three fits
        like the last one, and α and β are those that made what turned out likeliest; elsewhere
        those that did so on ten other data sets. Made once for a fit.
        """
        check_is_fitted(self)
        made = self._calibrated
        if made is None or made[0] is not self.labels_:
            return self.calibrate()
        return made[1]

    @property
    def constraints_(self) -> Constraints:
        """Labels and pairs of the last fit, of the rows; empty where there were none."""
        check_is_fitted(self)
        return Constraints.none(self.graph_.n_rows) if self._given is None else self._given

    def calibrate(self, observer: Any = None, known: Calibration | None = None) -> Calibration:
        """`calibration_`, made now; an observer sees its stage.

        Or the one that is `known`, of a fit before a few more answers: without further fits.
        """
        check_is_fitted(self)
        if isinstance(self.graph_, DiskGraph):
            raise InputError("confidence: the graph of this fit is on disk; it needs it in memory")
        if known is not None:
            self._calibrated = self.labels_, known
            return known
        usually = usual(self.graph_)
        if not self._trusts_edges:
            usually = replace(usually, trust=MembershipExponents(0.0, usually.trust.embedding))
        recorder = recorded(Unheard() if observer is None else observer)
        with threads(self.n_jobs):
            found = calibrated(usually, self._held_out(recorder))
        self._calibrated = self.labels_, found
        return found

    def _held_out(self, recorder: Recorder) -> list[Outcomes]:
        """What fits to parts of the side information say of the rest; none where it is little."""
        given, k = self._given, self.report_.n_clusters
        if given is None or k < 2 or not can_hold_out(given, k):
            return []
        parts = []
        with recorder.stage("confidence by held-out constraints") as advance:
            for number in range(_FITS):
                if recorder.deadline.is_over:
                    recorder.skip_for_time(f"confidence is by {number} fits instead of {_FITS}")
                    break
                kept, held = given.split(_HELD, number)
                with suppress(InputError):  # what is left may be too little, or infeasible
                    quiet = Recorder(Unheard(), recorder.deadline)
                    twin = self._fitted_again(kept, quiet)
                    parts.append(Outcomes.of(twin._evidence(), kept, held, number))
                advance((number + 1) / _FITS)
        return parts

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        """One like this, fitted to something else about the same graph, whose vectors it keeps."""
        raise NotImplementedError

    def _twin(self) -> Self:
        """The same parameters, K as it was found; not fitted."""
        params = {**self.get_params(deep=False), "n_clusters": self.report_.n_clusters}
        found: Self = unbound(type(self), **params)
        return found

    def _evidence(self) -> Evidence:
        """Clusters and embedding of the nodes."""
        first, labels = self.graph_.first_rows, self.labels_
        k = max(self.report_.n_clusters, int(labels.max(initial=-1)) + 1)
        return Evidence.of(self.graph_, labels[first], self.embedding_[first], k)

    # --- fewer and more clusters than K

    @property
    def hierarchy_(self) -> Floats:
        """Linkage (L − 1, 4) of L small clusters in scipy's format; made when first asked for.

        Leaves are parts of the clusters, up to 64 in all, by k-means on the smoothest vectors of
        the graph; they are merged by normalised cut (`discretize.merge_tree`), within a cluster
        first: at K clusters it is cut into `labels_`. Constraints are kept at each level:
        parts with must-links between them are merged before others, with cannot-links last.
        `hierarchy_leaves_` are the leaves of the rows; `scipy.cluster.hierarchy.dendrogram` draws
        it. Cost: 4K smooth vectors, where the fit had fewer, and one pass over the edges.
        """
        return self._tree().linkage

    @property
    def hierarchy_leaves_(self) -> Ints:
        """Leaf of every row in `hierarchy_`, (n,), -1 where `labels_` is."""
        return self._tree().leaves

    def cut_hierarchy(self, k: int) -> Ints:
        """Labels (n,) of k clusters, without a fit; clusters of `labels_` keep their numbers.

        At K these are `labels_`. Of fewer clusters each has the number of its largest part; where a
        cluster is cut, the larger part keeps its number and the other gets a new one, the same at
        every k. Raises InputError for more clusters than leaves.
        """
        return cut_into(self._tree(), k, self._first_new)

    def _tree(self) -> MergeTree:
        check_is_fitted(self)
        if self._hierarchy is not None and self._hierarchy.labels is self.labels_:
            return self._hierarchy
        if not isinstance(self.graph_, Graph):
            raise InputError("hierarchy: the graph of this fit is on disk; it needs it in memory")
        with threads(self.n_jobs):
            work = self._view(self.graph_, Recorder(Unheard()))
            self._hierarchy = grown_tree(work, self.labels_, self.constraints_, self._used_seed)
        return self._hierarchy


def fit_at(estimator: Any, work: Any, known: Any = None) -> Any:
    """Fit a clusterer on a home that is there already, to what is known of its nodes, if anything.

    Sets what `fit` sets; on ranks `embedding_` is on rank 0 alone, and all else everywhere.
    Raises InputError for what does not run there.
    """
    estimator._check_home(work.home)
    estimator._used_seed = seed = estimator._seed()
    if known is None:
        estimator._run(work)
    else:
        estimator._given = known
        estimator._run(work, known, seed)
    return estimator
