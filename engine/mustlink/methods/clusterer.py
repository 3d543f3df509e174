"""What all clusterers share: labels back to the caller's nodes, new points, doubts about sizes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mustlink.check import check_choice, check_n_clusters
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import MOST_COUNTED, Cost, eigenvectors
from mustlink.eigen.memory_work import in_memory
from mustlink.eigen.work import MEMORY, Work
from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.methods.hierarchies import Hierarchies
from mustlink.methods.homes import COUNTS, words_of
from mustlink.methods.lasting_numbers import LastingNumbers
from mustlink.methods.soft_clusters import SoftClusters
from mustlink.observe import Recorder
from mustlink.result import Report
from mustlink.scores import network_scores, satisfaction
from mustlink.scores.cuts import few_nodes
from mustlink.selection.cluster_count import count_clusters
from mustlink.workspace import Workspace

Ints = NDArray[np.int64]
_GIANT = 0.95  # share of the nodes in one cluster that a person should look at
_MUCH = 0.5  # share of the nodes of a component that is worth to be clustered by itself
ISOLATED = ("drop", "assign")
AUTO = "auto"
USUAL_CLUSTERS = 8  # where nobody says how many, as in scikit-learn


@dataclass(eq=False, repr=False)
class GraphClusterer(
    LastingNumbers,
    Hierarchies,
    SoftClusters,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    GraphEstimator,
):
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

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})  # where it runs
    _places_known: ClassVar[bool] = False  # whether it looks up nodes that something is known of

    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""

    def _in_memory_only(self) -> dict[str, bool]:
        """Parameters, and whether their values run in memory alone."""
        return {"isolated": self.isolated != "drop"}

    def _columns(self, k: int) -> int:
        """Eigenvectors that are computed together for k clusters, at most."""
        return k

    @abstractmethod
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Set `labels_`, `embedding_` and `report_`."""

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`; scikit-learn's own would leave the labels `y` out."""
        self.fit(X, y, **options)
        found: Ints = self.labels_
        return found

    def predict(self, X: Any) -> Ints:
        """Cluster of new points (q, d): that of most of their nearest fitted points, weighted.

        A fitted point keeps its own. Weights as in `transform`.
        """
        return self._new_points(X).vote(self.labels_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Embedding of new points (q, d): the mean of their nearest fitted points' rows.

        z(x) = Σ_j w_j z_j / Σ_j w_j over the `n_neighbors` nearest, w_j = exp(−d_j²/s²), s the
        distance of the 7th; a fitted point keeps its own row. Cost O(q n d).
        """
        check_is_fitted(self)
        return self._new_points(X, self._n_features_out).mean(self.embedding_)

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> NDArray[np.float64]:
        """`fit(X, y, ...)`, then `embedding_`, one row a node."""
        self.fit(X, y, **options)
        found: NDArray[np.float64] = self.embedding_
        return found

    @property
    def _n_features_out(self) -> int:
        """Columns of the embedding."""
        return int(self.embedding_.shape[1])

    def _work(
        self,
        X: Any,
        recorder: Recorder,
        seed: int,
        sample_weight: Any = None,
        cost: Cost | None = None,
        beside: int = 0,
    ) -> Workspace:
        check_choice(self.isolated, ISOLATED, "isolated")
        return super()._work(X, recorder, seed, sample_weight, cost, beside)

    def cost(self, n_classes: int | None = None) -> Cost:
        """K eigenvectors of the graph at a time; see `GraphEstimator.cost`."""
        return eigenvectors(self._k_or(n_classes))

    def _k_or(self, n_classes: int | None) -> int:
        """K as it was asked for; what is no number is told later."""
        wanted = n_classes if self._follows_labels else self.n_clusters
        usual = USUAL_CLUSTERS if self.n_clusters is None else MOST_COUNTED
        return wanted if isinstance(wanted, int) and wanted > 0 else usual

    @property
    def _follows_labels(self) -> bool:
        """Whether K is the number of classes, where labels name them."""
        return self.n_clusters is None or self.n_clusters == AUTO

    def _named_clusters(self, n_classes: int) -> Any:
        """K as asked for, or as many as classes are named; AUTO where it is to be counted."""
        if self._follows_labels and n_classes > 1:
            return n_classes
        return USUAL_CLUSTERS if self.n_clusters is None else self.n_clusters

    def _clusters(
        self, work: Any, n_classes: int, seed: int, known: Constraints | None = None
    ) -> int:
        """K, checked against the nodes that can be clustered at all; labels name `n_classes`.

        `known` may have pairs of nodes that tell.
        """
        work = in_memory(work)
        recorder, n = work.recorder, work.n_nodes
        asked, self._counted = self._named_clusters(n_classes), None
        if self._follows_labels and n_classes > 1:
            self._counted = "classes among the labels"
        elif asked == AUTO:
            if work.home != MEMORY:
                raise InputError(COUNTS)
            count = count_clusters(work.view, seed, known)
            asked, self._counted = count.k, count.reason
            if count.doubt is None:
                recorder.note(f"n_clusters: {count.k} counted; {count.reason}")
            else:
                recorder.warn(f"n_clusters: {count.k} taken; {count.doubt}")
        elif self.n_clusters is None:
            recorder.note(f"n_clusters: {asked} taken, for nobody said how many clusters there are")
        k = check_n_clusters(asked, n)
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
        return k

    def _in_one(self, work: Any, known: Constraints) -> Self:
        """K = 1: all nodes that have an edge are one cluster."""
        work = in_memory(work)
        space, root = work.space, work.laplacian.root_degree
        clusters = space.rowwise(lambda r: np.where(r > 0, 0, -1), root)
        rows = space.rowwise(lambda r: (r > 0)[:, None].astype(np.float64), root)
        self.labels_ = self._labels(work, clusters, 1)
        self.embedding_ = work.leave(rows)
        self.eigenvalues_ = np.zeros(1)
        self.graph_ = work.graph
        self.report_ = Report(
            method=f"{type(self).__name__}{words_of(work.home)}",
            n_nodes=self.labels_.size,
            n_clusters=1,
            choices={"why": "one cluster asked for", "graph": dict(work.info)},
            convergence=None,
            satisfaction=None if known.is_empty else satisfaction(self.labels_, known.as_given),
            **work.recorder.told(),
            extra={"n_components": work.n_components},
        )
        return self

    def _scored(self, recorder: Recorder) -> Self:
        """The fitted estimator; its report gains who counted, and how a network is cut."""
        graph = self.graph_
        if self.n_clusters == AUTO:
            counted = {"n_clusters": [self.report_.n_clusters, self._counted]}
            self.report_ = replace(self.report_, choices={**counted, **self.report_.choices})
        if isinstance(graph, Graph) and graph.is_network:
            labels = self.labels_[graph.first_rows]
            warn_of_components(graph.components, labels, recorder)
            more = {**self.report_.extra, "network": network_scores(graph, labels)}
            told = recorder.told()  # with that doubt
            self.report_ = replace(
                self.report_, extra=more, notes=told["notes"], warnings=told["warnings"]
            )
        return self

    def _labels(self, work: Work, clusters: Any, k: int) -> Ints:
        """Labels of the caller's rows; isolated nodes -1, or in the largest cluster."""
        labels, sizes = work.labels_of_rows(clusters), work.cluster_sizes(clusters, k)
        warn_of_sizes(sizes, k, work.recorder)
        if work.isolated:
            if self.isolated == "assign":
                labels[labels < 0] = int(sizes.argmax())
            done = "put in the largest cluster" if self.isolated == "assign" else "labelled -1"
            note_alone(work.isolated, done, work.recorder)
        return labels


def note_alone(count: int, done: str, recorder: Recorder) -> None:
    """Tell what was done with so many nodes without an edge."""
    noun = "node has" if count == 1 else "nodes have"
    recorder.note(f"{count} {noun} no edge and cannot be clustered: {done}")


def warn_of_sizes(sizes: NDArray[Any], k: int, recorder: Recorder) -> None:
    """Warn of a cluster with nearly all of the nodes, of crumbs, and of clusters without any.

    `sizes` (k,) count a node as often as it stands for rows.
    """
    largest = sizes.max() / sizes.sum()
    if largest > _GIANT and k > 1:
        recorder.warn(
            f"one cluster holds {largest:.1%} of the nodes, the others are small groups on its "
            "rim or apart from it; look before relying on it"
        )
    count = np.count_nonzero(sizes)
    crumbs = few_nodes(sizes, k)
    if largest <= _GIANT and 2 * np.count_nonzero(crumbs) > k:
        recorder.warn(
            f"{np.count_nonzero(crumbs)} of {k} clusters are crumbs, {sizes[crumbs].sum():,.0f} of "
            f"{sizes.sum():,.0f} nodes together: groups that hang on the rest by few edges; ask "
            "for fewer clusters, or add more to the degrees: NCut's regularization=1"
        )
    if count < k:
        recorder.warn(
            f"only {count} of {k} clusters have nodes: the vectors tell no more groups apart; ask "
            "for fewer clusters or give more constraints"
        )


def warn_of_components(components: NDArray[Any], labels: Ints, recorder: Recorder) -> None:
    """Warn where clusters (n,) are whole `components` (n,): they can be had without clustering."""
    linked = labels >= 0
    component, labels = components[linked], labels[linked]
    if np.unique(labels).size < 2:
        return
    of_component = np.empty(int(component.max()) + 1, dtype=np.int64)
    of_component[component] = labels
    if not (of_component[component] == labels).all():
        return
    said = ""
    linked_components = np.unique(component)
    heaps = np.bincount(of_component[linked_components])
    heap, share = int(heaps.argmax()), np.bincount(component).max() / component.size
    if heaps[heap] > 1:
        together = np.count_nonzero(labels == heap) / labels.size
        said += (
            f"; cluster {heap} is a heap of {heaps[heap]:,} components with {together:.1%} of the "
            f"nodes, which nothing joins: there are {linked_components.size:,} components, each of "
            "which may be one cluster"
        )
    if share > _MUCH:
        said += f"; the largest has {share:.1%} of the nodes, cluster it by itself"
    recorder.warn(
        "all clusters are whole components of the graph: no edge is cut, and nothing within a "
        f"component is told apart{said}; ask for more clusters to cut components, too"
    )
