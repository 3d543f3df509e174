"""Profiles of data and side information: the figures behind advice, and warnings from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import Workspace
from mustlink.core.check import as_points
from mustlink.discretize.cuts import below_classes
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.preprocessing.fitted import prepared
from mustlink.preprocessing.mixed import is_row_numbers
from mustlink.preprocessing.request import Preparation, column_title
from mustlink.selection.cluster_count import (
    count_clusters,
    enough_pairs,
    is_counted_as_network,
)


@dataclass(frozen=True)
class Coordinates:
    """Values of points, by a sample of rows.

    `zeros` is the share of values that are 0, `whole` whether all are whole numbers, `negative`
    whether some are below 0, `largest` the column of largest variance and `dominance` its share of
    all variance, `spread` its standard deviation over the median one of the columns that vary,
    `constant` the number of columns that do not, `duplicates` the share of rows that equal another.
    """

    zeros: float
    whole: bool
    negative: bool
    largest: int
    dominance: float
    spread: float
    constant: int
    duplicates: float


@dataclass(frozen=True)
class GraphProfile:
    """A graph: the one given, or that of the nearest neighbours among a sample of points.

    `parts` counts components of 1 % of the nodes or more, `crumbs` the share of nodes in smaller
    ones that still have an edge, `isolated` the nodes without an edge.
    """

    nodes: int
    edges: int
    parts: int
    crumbs: float
    isolated: int
    median_degree: float
    largest_degree: int


@dataclass(frozen=True)
class Known:
    """Side information.

    `least` and `most` are the numbers of labels of the class with fewest and most, `nodes` the
    number of nodes with side information, `soft` is whether there is a second graph or matrix,
    `contradiction` the first of the contradictions. `agreement` with the data is, by labels, the
    share of labelled nodes whose nearest labelled node has their class, and by pairs the chance
    that a must-link is nearer than a cannot-link, 0.5 if they are random; None where too little can
    be compared. `compared` is the number of nodes or pairs for it. `repeated` are columns of the
    points with one value a class on these labelled nodes, which may be the labels themselves.
    """

    labelled: int = 0
    classes: int = 0
    least: int = 0
    most: int = 0
    must: int = 0
    cannot: int = 0
    nodes: int = 0
    soft: bool = False
    contradictions: int = 0
    contradiction: str = ""
    agreement: float | None = None
    compared: int = 0
    repeated: tuple[int, ...] = ()

    @property
    def pairs(self) -> int:
        """Distinct pairs."""
        return self.must + self.cannot

    @property
    def kind(self) -> str:
        """The kind: none, labels, pairs, graph, or mixed."""
        parts = {"labels": self.labelled > 0, "pairs": self.pairs > 0, "graph": self.soft}
        kinds = [name for name, present in parts.items() if present]
        return "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"


@dataclass(frozen=True)
class Count:
    """The number of clusters, its source, and how clear it is.

    `source` is given, labels, gap (of the spectrum), network (three counts), default, or later: it
    is counted in the fit, and `k` only serves to estimate memory. Of gap and network, on a sample's
    graph, `gap` is the widest (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), at most 1, `reason` the counts in
    words, and `doubt` why it may be another number.
    """

    k: int
    source: str
    gap: float | None = None
    reason: str = ""
    doubt: str | None = None


@dataclass(frozen=True)
class DataProfile:
    """The profile of data and side information.

    `kind` is points, or of a graph as input: pixels (of a picture), network (relations, with
    degrees that differ) or graph (all others, mostly of nearest neighbours). d is 0 for graphs. The
    graph's profile, agreement and count are of points after `preparation`, coordinates of points
    before it. `columns` are the names of the columns, if they have some.
    """

    kind: str
    n: int
    d: int
    sampled: int
    metric: str
    metric_reason: str
    coordinates: Coordinates | None
    links: GraphProfile
    known: Known
    count: Count
    memory: int | None = None
    preparation: Preparation = field(default_factory=Preparation)
    columns: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {**asdict(self), "columns": list(self.columns)}
        values["known"]["repeated"] = list(self.known.repeated)
        return {**values, "preparation": self.preparation.to_dict()}


# --- A graph: components, degrees, its kind; its spectrum


SPECTRUM_NODES = 30_000  # most nodes of a graph whose spectrum is computed
NETWORK_NODES = 50_000  # of a network, whose vectors may be rough
DEFAULT_CLUSTERS = 8  # of the estimators
_PART = 0.01  # share of the nodes from which a component is no crumb
_OFFSETS = 40  # steps between neighbours that a grid of pixels has at most, both ways
_GRID = 0.5  # share of the edges that they make
_GRID_NODES = 400


def look_at_graph(graph: Graph) -> GraphProfile:
    """Components and degrees. Cost O(n + nnz)."""
    n, W = graph.n_nodes, graph.affinity
    degree = np.diff(W.indptr)
    sizes = np.bincount(graph.components)
    parts = sizes >= max(2, _PART * n)
    crumbs = sizes[~parts & (sizes > 1)].sum() / n
    return GraphProfile(
        nodes=n,
        edges=graph.n_edges,
        parts=int(np.count_nonzero(parts)),
        crumbs=float(crumbs),
        isolated=int(np.count_nonzero(degree == 0)),
        median_degree=float(np.median(degree)),
        largest_degree=int(degree.max()),
    )


def kind_of_graph(graph: Graph) -> str:
    """Return pixels, network or graph; see `DataProfile`."""
    if is_pixels(graph):
        return "pixels"
    return (
        "graph"
        if graph.look.even[0] or graph.info.get("kind") in ("knn", "rbf", "representatives")
        else "network"
    )


def is_pixels(graph: Graph) -> bool:
    """Whether the nodes are pixels of a picture, row by row: most edges have few differences."""
    if graph.info.get("kind") == "image":
        return True
    W = graph.affinity
    if graph.n_nodes < _GRID_NODES or W.nnz > 100 * graph.n_nodes:
        return False
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(W.indptr))
    steps = np.unique(rows - W.indices, return_counts=True)[1]
    if steps.size <= 4:
        return False  # a path or a ring
    common = np.sort(steps)[::-1][:_OFFSETS]
    return bool(common.sum() >= _GRID * W.nnz)


def count_of_graph(graph: Graph, seed: int) -> Count:
    """K as clusterers count it, 2 of nearly empty graphs, 8 where only the fit shall count.

    Cost: a few seconds; ten or more for networks of 50,000 nodes.
    """
    network = is_counted_as_network(graph)
    if graph.n_nodes > (NETWORK_NODES if network else SPECTRUM_NODES):
        return Count(DEFAULT_CLUSTERS, "later")
    try:
        found = count_clusters(Workspace(graph), seed)
    except InputError:  # nothing to count
        return Count(min(2, graph.n_nodes), "default")
    source = "network" if network else "gap"
    return Count(found.k, source, found.gap, found.reason, found.doubt)


# --- Values of points: zeros, whole numbers, columns of other scale, duplicates


_ROWS = 2000  # for shares of values
_COUNTS_ZEROS = 0.9  # share of zeros from which non-negative numbers are words, tags, genes …
_COUNTS_COLUMNS = 100


def look_at_points(X: Floats) -> Coordinates:
    """Traits of points (m, d), a sample of them where m is large. Cost O(md)."""
    step = max(1, X.shape[0] // _ROWS)
    some = X[::step]
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))
    times = np.unique(rows.ravel(), return_counts=True)[1]
    variance = X.var(axis=0, dtype=np.float64)
    varying = variance > 0
    total = float(variance.sum())
    largest = int(np.argmax(variance))
    median = float(np.median(variance[varying])) if varying.any() else 0.0
    return Coordinates(
        zeros=float(np.mean(some == 0)),
        whole=bool(np.all(some == np.round(some))),
        negative=bool((X < 0).any()),
        largest=largest,
        dominance=float(variance[largest] / total) if total > 0 else 0.0,
        spread=float(np.sqrt(variance[largest] / median)) if median > 0 else 1.0,
        constant=int(np.count_nonzero(~varying)),
        duplicates=float(times[times > 1].sum() / X.shape[0]),
    )


def row_numbers(X: Floats, n: int) -> tuple[int, ...]:
    """Columns of row numbers in a sample X (m, d) of n rows, in their order."""
    found = tuple(at for at in range(X.shape[1]) if is_row_numbers(X[:, at], n))
    return found if len(found) < X.shape[1] else ()


def are_counts(c: Coordinates, d: int) -> bool:
    """Whether points look like words or tags of documents: few of many columns, none negative."""
    return not c.negative and c.zeros >= _COUNTS_ZEROS and d >= _COUNTS_COLUMNS


# --- A sample of rows, of an array or a file


WORK = 6e9  # m²(d + 130) of comparing all pairs of a sample: half a second
MOST = 6000  # points of a sample
RUN = 32  # neighbouring rows that are read together from a file
Floats = NDArray[np.floating]


def is_square(data: Any) -> bool:
    """Whether data are a square sparse matrix, and so a graph."""
    is_matrix: bool = sp.issparse(data)
    return is_matrix and data.ndim == 2 and data.shape[0] == data.shape[1]


def readable(points: Any) -> tuple[Any, bool]:
    """Points (n, d) as a checked array, or as rows to be read by blocks; raises InputError.

    Missing values (NaN) of an array are filled with means; also returns whether there were some.
    """
    is_sparse: bool = sp.issparse(points)
    if is_sparse:
        raise InputError(
            f"points: sparse matrix of shape {points.shape}; reduce it first, as by "
            "sklearn.decomposition.TruncatedSVD(100), or pass points.toarray()"
        )
    if not is_rows(points):
        X = as_points(points, allow_missing=True)
        if not np.isnan(X).any():
            return X, False
        if np.isnan(X).all():
            raise InputError("points: NaN in every cell; there is nothing to look at")
        return prepared(X, Preparation(impute="mean"))[:], True
    if len(points.shape) != 2 or 0 in points.shape:
        raise InputError(f"points: shape {tuple(points.shape)}; give (n points, d features)")
    return points, False


def sampled_rows(points: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of the rows of a sample, ascending: any of an array, short runs of a file.

    So many that all can be compared with each other within a fixed amount of work.
    """
    n, d = (int(size) for size in points.shape)
    m = int(min(n, MOST, max(500, (WORK / (d + 130)) ** 0.5)))
    return np.arange(n) if m == n else np.sort(some_rows(n, m, is_rows(points), rng))


def some_rows(n: int, m: int, by_runs: bool, rng: np.random.Generator) -> NDArray[np.int64]:
    """About m of n rows by chance, each once; in short runs, which are faster to read."""
    if not by_runs:
        return rng.choice(n, m, replace=False)
    starts = rng.choice(n // RUN, m // RUN, replace=False) * RUN
    return (starts[:, None] + np.arange(RUN)).ravel()


def take(points: Any, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Ascending rows (m, d) of an array or a file; raises InputError for NaN and Inf."""
    if isinstance(points, np.ndarray):
        return points[rows]
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    parts = [points[int(run[0]) : int(run[-1]) + 1] for run in np.split(rows, cuts)]
    return as_points(np.concatenate([np.asarray(part) for part in parts]))


# --- Warnings about data, from their profile: one plain sentence each, with a figure and a cure

_TINY = 50  # nodes
_WIDE = 1000  # coordinates
_SPREAD = 10.0  # times the median standard deviation
_DOMINANCE = 0.5  # of all variance
_DUPLICATES = 0.05
_CRUMBS = 0.02
_UNEQUAL = 5.0  # times as many labels
_FEW_NODES = 0.1  # constrained nodes beside as many pairs as a forest of them could have
_CHANCE = 0.53  # agreement of pairs below which they seem to be of something else
_COMPARED = 30


def data_warnings(seen: DataProfile) -> tuple[str, ...]:
    """All warnings, the gravest first."""
    topics = (_labels, _count, _agreement, _points, _graph, _pairs)
    found = [warning for topic in topics for warning in topic(seen)]
    if seen.n < _TINY:
        found.append(f"only {seen.n} nodes: results depend on single nodes, check each of them")
    return tuple(found)


def _labels(seen: DataProfile) -> Iterator[str]:
    """Contradictions, labels among the columns, classes beside clusters, unequal labels."""
    k, wanted = seen.known, seen.count.k
    if k.contradictions:
        noun = "contradiction" if k.contradictions == 1 else "contradictions"
        yield f"{k.contradictions:,} {noun} in the side information, such as: {k.contradiction}"
    if k.repeated:
        more = f" and {len(k.repeated) - 1} more" if k.repeated[1:] else ""
        yield (
            f"{column_title(k.repeated[0], seen.columns)}{more} has one value for every class on "
            "all labels compared: if it is made of the labels leave it out of the points, other "
            "rows do not know it"
        )
    if k.classes == 1:
        yield "every label given is of one class: label nodes of another, too"
    if 0 < k.classes < wanted:
        yield (
            f"labels are of {k.classes} classes, but {wanted} clusters are asked for: the other "
            f"{wanted - k.classes} rest on the graph alone; label some of their nodes"
        )
    # Large parts of a picture have longer strokes.
    if k.classes >= 2 and k.most >= _UNEQUAL * k.least and seen.kind != "pixels":
        yield (
            f"a class has {k.most} labels, another {k.least}: large numbers win ties, also where "
            "classes are equally large; label more of the rare ones"
        )


def _count(seen: DataProfile) -> Iterator[str]:
    """K that was not given, or is below the classes."""
    c, k = seen.count, seen.known
    few = below_classes(c.k, k.classes) if c.source == "given" else None
    if few is not None:
        yield few
    elif c.source == "default":
        yield (
            f"the number of clusters was not given, and there is nothing to count: {c.k} is a mere "
            "default, name it"
        )
    elif c.source == "later" and enough_pairs(k.must, k.cannot):
        yield (
            'the number of clusters was not given: n_clusters="auto" (-k auto) asks the pairs in '
            "the fit; name it if you know it"
        )
    elif c.source == "later":
        yield (
            "the number of clusters was not given, and counting takes longer than this look: "
            'n_clusters="auto" (-k auto) counts in the fit; name it if you know it'
        )
    elif c.doubt is not None:
        yield f"the number of clusters was not given; {c.doubt}"


def _agreement(seen: DataProfile) -> Iterator[str]:
    """Side information that does not agree with the points."""
    k = seen.known
    if seen.kind != "points" or k.agreement is None or k.compared < _COMPARED:
        return
    chance, cure = 1.0 / max(k.classes, 1), "other features or another graph may serve better"
    if k.kind == "pairs" and k.agreement < _CHANCE:
        yield (
            f"must-links are nearer than cannot-links in {k.agreement:.0%} of the comparisons only "
            f"(half is chance): {cure}"
        )
    if k.kind == "labels" and k.agreement < chance + 0.1 * (1 - chance):
        yield (
            f"the nearest labelled node is of the same class for {k.agreement:.0%} of the labelled "
            f"ones ({chance:.0%} is chance): {cure}"
        )


def _points(seen: DataProfile) -> Iterator[str]:
    """One column that is all of the distances, equal points, very many columns."""
    c = seen.coordinates
    if c is None:
        return
    dominated = seen.d >= 3 and c.spread >= _SPREAD and c.dominance >= _DOMINANCE
    of_one_unit = seen.metric == "cosine" or are_counts(c, seen.d) or seen.preparation.standardize
    if dominated and not of_one_unit:
        yield (
            f"{column_title(c.largest, seen.columns)} makes up {c.dominance:.0%} of all variance, "
            f"its standard deviation is {c.spread:,.0f} times the median one, so that distances "
            "are hardly more than this column: divide columns of different units by their standard "
            "deviations: --standardize, or sklearn's StandardScaler in Python"
        )
    if c.constant >= seen.d:
        yield (f"all {seen.d} columns are constant in the sample: points do not differ")
    if c.duplicates >= _DUPLICATES:
        yield (
            f"{c.duplicates:.0%} of the points equal another one: equal rows are one node that "
            "counts them; where copies are an accident, keep one of each"
        )
    if seen.d > _WIDE:
        yield (
            f"{seen.d:,} columns: reduce them to 50 or 100 first (sklearn's PCA, TruncatedSVD for "
            "words); neighbours are found much sooner, and often better"
        )


def _graph(seen: DataProfile) -> Iterator[str]:
    """Small components; of a graph that was given large ones, nodes without an edge, hubs."""
    g, given = seen.links, seen.kind != "points"
    if given and g.parts > 1:
        more = ""
        if seen.known.kind == "none" and g.parts > seen.count.k and seen.count.source != "later":
            more = f"; {seen.count.k} clusters are fewer: one of them is a heap of components"
        yield (
            f"the graph falls into {g.parts} components of 1 % of the nodes or more, which no edge "
            f"joins: labels do not reach from one to another{more}"
        )
    if g.crumbs >= _CRUMBS:
        where = "of the graph" if given else "of a sample's neighbour graph"
        yield (
            f"{g.crumbs:.0%} of the nodes {where} are in small components: outliers, or groups too "
            "small to be clusters"
        )
    if given and g.isolated:
        nodes = "node has" if g.isolated == 1 else "nodes have"
        yield f'{g.isolated:,} {nodes} no edge: label -1 (or isolated="assign")'
    if given and g.largest_degree >= max(100, 0.3 * g.nodes):
        yield (
            f"one node has {g.largest_degree:,} neighbours of {g.nodes:,} (median "
            f"{g.median_degree:.0f}): it ties everything together; leave it out if it says nothing"
        )


def _pairs(seen: DataProfile) -> Iterator[str]:
    """Only must-links or only cannot-links; many pairs on few nodes."""
    k = seen.known
    if k.kind == "pairs" and not (k.must and k.cannot):
        given, other = ("must-links", "cannot-links") if k.must else ("cannot-links", "must-links")
        yield f"all {k.pairs:,} pairs are {given}: some {other} would tell how far to go"
    if k.pairs >= max(20, 2 * k.nodes) and k.nodes < _FEW_NODES * seen.n:
        yield (
            f"{k.pairs:,} pairs are about {k.nodes:,} nodes only ({k.nodes / seen.n:.1%}): they "
            "say no more than labels of these nodes would; pairs of other nodes are worth more"
        )
