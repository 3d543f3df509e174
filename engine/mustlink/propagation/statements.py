"""Labels that say something new, and those that repeat what their neighbours say.

A person who draws round a group labels 200 neighbours at once: that is one statement, and not 200.
Where other classes have three labels each, 200 sources of one class take their nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.graph import Graph

Ints = NDArray[np.int64]
_FAR_MORE = 2.0  # times the labels of the other classes, by their median
_REPEATED = 0.5  # share of a class's labels that have a neighbour among its others


def statements(graph: Graph, labels: Ints) -> Ints:
    """Labels (n,) of rows, -1 unknown, without repeated ones of classes that have far more.

    Of a class with more than twice the median number of labels of the others, at least half of
    which are neighbours of each other, a set without neighbours is left, at most the median number:
    those with the fewest neighbours among the class's labels, which were not drawn round, of equals
    the first of a random order. Cost: the edges of such labels.
    """
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    found, rng = labels, np.random.default_rng(0)
    for at in range(classes.size if classes.size > 1 else 0):
        usual = int(np.ceil(np.median(np.delete(counts, at))))
        if counts[at] <= _FAR_MORE * usual:
            continue
        rows = rng.permutation(np.flatnonzero(labels == classes[at]))
        rows = rows[np.argsort(_company(graph, rows), kind="stable")]
        alone = _apart(graph, rows)
        if alone.size <= (1 - _REPEATED) * rows.size:
            found = found.copy() if found is labels else found
            found[np.setdiff1d(rows, alone[:usual])] = -1
    return found


def _company(graph: Graph, rows: Ints) -> Ints:
    """How many of the nodes of rows (m,) are neighbours of each one's, (m,)."""
    nodes: Any = rows if graph.rows is None else graph.rows[rows]
    there = np.zeros(graph.n_nodes)
    there[nodes] = 1.0
    found: Ints = np.rint((graph.affinity[nodes] > 0) @ there).astype(np.int64)
    return found


def _apart(graph: Graph, rows: Ints) -> Ints:
    """Rows in their order, but for those that are neighbours or copies of an earlier one."""
    nodes: Any = rows if graph.rows is None else graph.rows[rows]
    taken, shut = [], np.zeros(graph.n_nodes, dtype=np.bool_)
    indices, ends = graph.affinity.indices, graph.affinity.indptr
    for row, node in zip(rows.tolist(), nodes.tolist(), strict=True):
        if not shut[node]:
            taken.append(row)
            shut[node] = True
            shut[indices[ends[node] : ends[node + 1]]] = True
    return np.array(taken, dtype=np.int64)
