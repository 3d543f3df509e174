"""Spectral learning, SL (Kamvar, Klein & Manning 2003), and WHC11's SL-L̄."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.constraints import Constraints
from mustlink.constraints.links import capped_links, diagonal
from mustlink.constraints.pairs import NodeMatrix
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.eigen.work import MEMORY
from mustlink.graph import Graph
from mustlink.graph.graph import fold
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.selection.constrained_fit import Formulation, ParameterValues, row_scale

_KEPT = 1e-8  # share of its degree that a node keeps which lost all its edges


@dataclass(eq=False, repr=False)
class SpectralLearning(ConstrainedSpectral):
    """K clusters of a graph whose weights were overwritten by the constraints (WHC11 §2.2.2).

    W'_ij = 1 for must-links and 0 for cannot-links (a belief b < 1 goes the share b of the way;
    where weights exceed 1 the largest weight stands for 1). Then

    * SL: the K largest eigenvectors of (W' + d_max·I − D')/d_max, which are the K smallest of the
      Laplacian D' − W'
    * SL-L̄: the K smallest of I − D'^-½W'D'^-½

    and rows are set on the unit sphere. Cliques of labelled nodes stay low rank.

    * `normalized`: takes the normalised Laplacian, SL-L̄.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` the eigenvectors (n, K), orthonormal, `eigenvalues_`
    of D' − W', or of the normalised Laplacian, `graph_` the graph as given, `report_`.
    """

    normalized: bool = False

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})  # it looks up weights of the graph

    def _formulation(
        self, graph: Graph, laplacian: NormalizedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        d = graph.degrees
        change = overwritten(graph, known)
        degrees = change.sums()
        lost = d + degrees < _KEPT * d
        kept = np.where(lost, _KEPT * d, 0.0)
        nodes = known.nodes
        # D' − W' on top of D − W. A node that lost its edges keeps M definite, with eigenvalue 1 in
        # SL-L̄; in SL it is next to a null vector, as an isolated node should be.
        delta = diagonal(degrees + kept) + change.times(-1.0)
        penalty = local_operator(delta, laplacian, nodes, scaled=True)
        root = laplacian.root_degree
        if self.normalized:
            moved = local_operator(diagonal(degrees + kept), laplacian, nodes, scaled=True)
            problem = PenalizedProblem(laplacian, penalty, k, mass_update=moved, positive=True)
            # Of the modified graph: the rows of every copy, C^-½D'^½D^-½v.
            scale = np.sqrt(laplacian.to_working_order(d + degrees + kept)) / root
            scale = scale * laplacian.to_working_order(row_scale(graph))
        else:
            mass = laplacian.copies / root**2
            problem = PenalizedProblem(laplacian, penalty, k, mass=mass, positive=True)
            scale = 1.0 / root
        return Formulation(problem, scale, ("sphere",), ParameterValues(rivals=(1.0,)))


def overwritten(graph: Graph, known: Constraints) -> NodeMatrix:
    """W' − W: what the constraints change in the affinity; the diagonal stays as it is."""
    W = graph.affinity
    single = row_scale(graph) ** 2
    copy = W if graph.weights is None else fold(W, single)  # between two copies
    full = max(1.0, float(copy.data.max(initial=0.0)))
    must, cannot = capped_links(known, graph.degrees)
    touched = _among(W, known.nodes)
    both = must + cannot
    share = (both if graph.weights is None else both.between(single)).on_pattern(touched)
    share.data = np.clip(share.data, 0.0, 1.0)
    return must.times(full) + NodeMatrix(touched.multiply(share).tocsr() * -1.0)


def _among(W: sp.csr_matrix, nodes: NDArray[np.int64]) -> sp.csr_matrix:
    """Entries of W between two of the nodes, off the diagonal, at their places in (n, n)."""
    found = W[nodes][:, nodes].tocoo()
    off = found.row != found.col
    place = (nodes[found.row[off]], nodes[found.col[off]])
    return sp.csr_matrix((found.data[off].astype(np.float64), place), shape=W.shape)
