"""Warnings about data, from their profile: one plain sentence each, with a figure and a cure."""

from __future__ import annotations

from collections.abc import Iterator

from mustlink.advice.observations import DataProfile, are_counts
from mustlink.preprocessing.request import column_title
from mustlink.selection.cluster_count import below_classes, enough_pairs

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
    if k.classes > wanted:
        yield (
            f"labels are of {k.classes} classes, which {wanted} clusters cannot keep apart: ask "
            f"for {k.classes}"
        )
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
