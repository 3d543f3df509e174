"""What was derived from a graph, as plain trees: order, and vectors that took long.

Laplacians and grids are made again: that is quick, and the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import BasisKey, CarriedKey, OrderKey, PairsKey, laplacian_of
from mustlink.graph import Graph
from mustlink.graph.derived import Derived
from mustlink.persistence.attributes import damaged, refuse
from mustlink.result import Convergence, EigenResult
from mustlink.workspace import Workspace
from mustlink.workspace.workspace import RegularizedKey

_BASIS = ("whole", "values", "residuals", "n_ties")
RECORDS: tuple[type, ...] = (PairsKey, BasisKey, CarriedKey, EigenResult, Convergence)


def derived_state(graph: Graph) -> list[dict[str, Any]]:
    """Results kept with a graph, those of degrees that were regularised with their τ."""
    found = list(_of(graph.derived, 0.0))
    for key, derived in graph.derived.of(RegularizedKey):
        found += _of(derived, key.tau)
    return found


def _of(derived: Derived, tau: float) -> Iterator[dict[str, Any]]:
    for _, order in derived.of(OrderKey):
        yield {"tau": tau, "order": order}
    for key, pairs in derived.of(PairsKey):
        yield {"tau": tau, "key": key, "pairs": pairs}
    for kind in (BasisKey, CarriedKey):
        for one, basis in derived.of(kind):
            yield {"tau": tau, "key": one} | {name: getattr(basis, name) for name in _BASIS}


def restore_derived(graph: Graph, entries: Any) -> None:
    """Put what `derived_state` told back to the graph; raises InputError for what cannot be so."""
    refuse(not isinstance(entries, list), "what was derived from the graph")
    by_tau = sorted((one for one in entries if isinstance(one, dict)), key=_tau)
    refuse(len(by_tau) != len(entries), "what was derived from the graph")
    for one in by_tau:
        if "order" in one:
            _put_order(graph, one["order"])
    for one in by_tau:
        if "order" not in one:
            _put_vectors(Workspace(graph, tau=_tau(one)), one)


def _tau(entry: dict[str, Any]) -> float:
    tau = entry.get("tau")
    if not isinstance(tau, int | float) or not 0 <= tau < np.inf:
        raise damaged("what was derived from the graph")
    return float(tau)


def _put_order(graph: Graph, order: Any) -> None:
    n = graph.n_nodes
    is_one = isinstance(order, np.ndarray) and order.shape == (n,) and order.dtype == np.int64
    refuse(not is_one or not np.array_equal(np.sort(order), np.arange(n)), "the order of the nodes")
    graph.derived.put(OrderKey(None), order)


def _put_vectors(work: Workspace, entry: dict[str, Any]) -> None:
    key = entry.get("key")
    kind = PairsKey if "pairs" in entry else (BasisKey, CarriedKey)
    refuse(not isinstance(key, kind), "its eigenvectors")
    assert isinstance(key, PairsKey | BasisKey)
    laplacian = laplacian_of(Workspace(work.graph, tau=work.tau, single=bool(key.single)))
    m = laplacian.size
    if isinstance(key, PairsKey):
        pairs = entry["pairs"]
        refuse(not isinstance(pairs, EigenResult), "its eigenvectors")
        _check_block(pairs.values, pairs.vectors, m, 0)
        work.derived.put(key, pairs)
        return
    whole, values, residuals, n_ties = (cast(Any, entry.get(name)) for name in _BASIS)
    _check_block(values, whole, m, 1)
    refuse(not isinstance(residuals, np.ndarray) or residuals.shape > values.shape, "its basis")
    refuse(not isinstance(n_ties, int) or not 0 <= n_ties <= values.size, "its basis")
    plain = laplacian_of(Workspace(work.graph, single=bool(key.single)))
    work.derived.put(key, SmoothBasis(plain, whole, values, residuals, n_ties))


def _check_block(values: Any, vectors: Any, m: int, more: int) -> None:
    """Values (p,) and vectors (m, p + more) that are numbers."""
    arrays = isinstance(values, np.ndarray) and isinstance(vectors, np.ndarray)
    refuse(not arrays, "its eigenvectors")
    refuse(values.dtype != np.float64 or vectors.dtype.kind != "f", "its eigenvectors")
    refuse(vectors.ndim != 2 or values.ndim != 1, "its eigenvectors")
    refuse(vectors.shape != (m, values.size + more), "its eigenvectors")
    refuse(not np.isfinite(values).all() or not np.isfinite(vectors).all(), "its eigenvectors")
