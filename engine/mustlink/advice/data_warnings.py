"""What a person should look at before trusting any method: one function a doubt.

Each takes what was seen and returns one plain sentence with its figure and what to do, or None.
"""

from __future__ import annotations

from collections.abc import Callable

from mustlink.advice.observations import Seen, are_counts
from mustlink.preparation.request import column_title
from mustlink.selection.cluster_count import enough_pairs

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


def tiny(seen: Seen) -> str | None:
    """Few nodes."""
    if seen.n >= _TINY:
        return None
    return f"only {seen.n} nodes: results depend on single nodes, look at them one by one"


def scales(seen: Seen) -> str | None:
    """One column that decides all distances."""
    c = seen.coordinates
    if c is None or seen.metric == "cosine" or are_counts(c, seen.d):
        return None
    if seen.preparation.standardize or seen.d < 3 or c.spread < _SPREAD or c.dominance < _DOMINANCE:
        return None
    return (
        f"{column_title(c.largest, seen.columns)} makes up {c.dominance:.0%} of all variance, its "
        f"standard deviation is {c.spread:,.0f} times the median one, so that distances are hardly "
        "more than this column: "
        "divide columns of different units by their standard deviations: --standardize, or "
        "sklearn's StandardScaler in Python"
    )


def constant_columns(seen: Seen) -> str | None:
    """Points that are all the same."""
    c = seen.coordinates
    if c is None or c.constant < seen.d:
        return None
    return f"all {seen.d} columns are constant in the sample: there is nothing to tell points apart"


def duplicates(seen: Seen) -> str | None:
    """Rows several times over."""
    c = seen.coordinates
    if c is None or c.duplicates < _DUPLICATES:
        return None
    return (
        f"{c.duplicates:.0%} of the points equal another one: equal rows are one node that counts "
        "them; where copies are an accident, keep one of each"
    )


def wide(seen: Seen) -> str | None:
    """Very many coordinates."""
    if seen.d <= _WIDE:
        return None
    return (
        f"{seen.d:,} columns: reduce them to 50 or 100 first (sklearn's PCA, TruncatedSVD for "
        "words); neighbours are found much sooner, and often better"
    )


def disconnected(seen: Seen) -> str | None:
    """Components of some size in a graph that was given."""
    g = seen.links
    if seen.kind == "points" or g.parts <= 1:
        return None
    more = ""
    if seen.known.kind == "none" and g.parts > seen.count.k and seen.count.source != "later":
        more = f"; {seen.count.k} clusters are fewer: one of them is a heap of components"
    return (
        f"the graph falls into {g.parts} components of 1 % of the nodes or more, which no edge "
        f"joins: labels do not reach from one to another{more}"
    )


def crumbs(seen: Seen) -> str | None:
    """Many small components."""
    g = seen.links
    if g.crumbs < _CRUMBS:
        return None
    where = "of the graph" if seen.kind != "points" else "of a sample's neighbour graph"
    return (
        f"{g.crumbs:.0%} of the nodes {where} are in small components: outliers, or groups too "
        "small to be clusters"
    )


def isolated(seen: Seen) -> str | None:
    """Nodes without an edge."""
    g = seen.links
    if seen.kind == "points" or g.isolated == 0:
        return None
    nodes = "node has" if g.isolated == 1 else "nodes have"
    return f'{g.isolated:,} {nodes} no edge and get label -1 (or isolated="assign")'


def hubs(seen: Seen) -> str | None:
    """Nodes that are joined with a large part of all others."""
    g = seen.links
    if seen.kind == "points" or g.largest_degree < max(100, 0.3 * g.nodes):
        return None
    return (
        f"one node has {g.largest_degree:,} neighbours of {g.nodes:,} (median "
        f"{g.median_degree:.0f}): it ties everything together; leave it out if it says nothing"
    )


def contradictions(seen: Seen) -> str | None:
    """Side information that cannot all hold."""
    k = seen.known
    if k.contradictions == 0:
        return None
    noun = "contradiction" if k.contradictions == 1 else "contradictions"
    return f"{k.contradictions:,} {noun} in the side information, such as: {k.contradiction}"


def classes_without_labels(seen: Seen) -> str | None:
    """More clusters asked for than classes labelled."""
    k = seen.known
    if k.classes == 0 or k.classes >= seen.count.k:
        return None
    return (
        f"labels are of {k.classes} classes, but {seen.count.k} clusters are asked for: the other "
        f"{seen.count.k - k.classes} rest on the graph alone; label some of their nodes"
    )


def classes_beyond_clusters(seen: Seen) -> str | None:
    """Fewer clusters asked for than classes labelled."""
    k = seen.known
    if k.classes <= seen.count.k:
        return None
    return (
        f"labels are of {k.classes} classes, which {seen.count.k} clusters cannot keep apart: ask "
        f"for {k.classes}"
    )


def one_class(seen: Seen) -> str | None:
    """Labels that only say what belongs together."""
    if seen.known.classes != 1:
        return None
    return "every label given is of one class: label nodes of another, too"


def unequal_labels(seen: Seen) -> str | None:
    """Some classes with many more labels than others."""
    k = seen.known
    if k.classes < 2 or k.most < _UNEQUAL * k.least or seen.kind == "pixels":
        return None  # of a picture, large parts have longer strokes
    return (
        f"a class has {k.most} labels, another {k.least}: large numbers win ties, also where "
        "classes are equally large; label more of the rare ones"
    )


def one_sign(seen: Seen) -> str | None:
    """Only must-links or only cannot-links."""
    k = seen.known
    if k.kind != "pairs" or (k.must and k.cannot):
        return None
    given, other = ("must-links", "cannot-links") if k.must else ("cannot-links", "must-links")
    return f"all {k.pairs:,} pairs are {given}: some {other} would tell how far to go"


def crowded(seen: Seen) -> str | None:
    """Many pairs on few nodes."""
    k = seen.known
    if k.pairs < 20 or k.nodes >= _FEW_NODES * seen.n or k.pairs < 2 * k.nodes:
        return None
    return (
        f"{k.pairs:,} pairs are about {k.nodes:,} nodes only ({k.nodes / seen.n:.1%}): they say no "
        "more than labels of these nodes would; pairs of other nodes are worth more"
    )


def disagreement(seen: Seen) -> str | None:
    """Side information that the data knows nothing of."""
    k = seen.known
    if seen.kind != "points" or k.agreement is None or k.compared < _COMPARED:
        return None
    if k.kind == "pairs" and k.agreement < _CHANCE:
        return (
            f"must-links are nearer than cannot-links in {k.agreement:.0%} of the comparisons only "
            "(half is chance): other features or another graph may serve better"
        )
    chance = 1.0 / max(k.classes, 1)
    if k.kind == "labels" and k.agreement < chance + 0.1 * (1 - chance):
        return (
            f"the nearest labelled node is of the same class for {k.agreement:.0%} of the labelled "
            f"ones ({chance:.0%} is chance): other features or another graph may serve better"
        )
    return None


def labels_among_columns(seen: Seen) -> str | None:
    """Columns that tell every class exactly."""
    at = seen.known.repeated
    if not at:
        return None
    title = column_title(at[0], seen.columns) + (f" and {len(at) - 1} more" if at[1:] else "")
    return (
        f"{title} has one value for every class on all labels compared: if it is made of the "
        "labels leave it out of the points, other rows do not know it"
    )


def number_of_clusters(seen: Seen) -> str | None:
    """K that nobody named."""
    c = seen.count
    if c.source == "default":
        return (
            f"the number of clusters was not given, and there is nothing to count: {c.k} is a mere "
            "default, name it"
        )
    if c.source == "later" and enough_pairs(seen.known.must, seen.known.cannot):
        return (
            'the number of clusters was not given: n_clusters="auto" (-k auto) asks the pairs in '
            "the fit; name it if you know it"
        )
    if c.source == "later":
        return (
            "the number of clusters was not given, and counting takes longer than this look: "
            'n_clusters="auto" (-k auto) counts in the fit; name it if you know it'
        )
    return None if c.doubt is None else f"the number of clusters was not given; {c.doubt}"


DOUBTS: tuple[Callable[[Seen], str | None], ...] = (
    contradictions,
    labels_among_columns,
    one_class,
    classes_beyond_clusters,
    classes_without_labels,
    number_of_clusters,
    disagreement,
    scales,
    constant_columns,
    duplicates,
    wide,
    disconnected,
    crumbs,
    isolated,
    hubs,
    unequal_labels,
    one_sign,
    crowded,
    tiny,
)


def doubts(seen: Seen) -> tuple[str, ...]:
    """Every doubt that there is, the gravest first."""
    found = (doubt(seen) for doubt in DOUBTS)
    return tuple(one for one in found if one is not None)
