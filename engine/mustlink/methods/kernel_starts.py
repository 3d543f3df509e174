"""Where kernel k-means begins: must-link neighbourhoods, smooth eigenvectors, given labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.statements import gather
from mustlink.eigen.sharpness import tell_unconverged
from mustlink.eigen.solver import smallest_pairs, smoothest
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.kernel_kmeans import Penalized, cluster_links, clusters_of
from mustlink.kernels.label_growth import grow
from mustlink.labels import as_labels
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.penalized_graph import PenalizedGraph
from mustlink.rounding.assign import kmeans
from mustlink.workspace import Workspace

Ints = NDArray[np.int64]
WIDEST = 4  # smooth vectors for the relaxation, times k
_SMOOTHING = 20  # products after which a node without affinity to the centres counts as far


def spectral_start(work: Workspace, laplacian: NormalizedLaplacian, k: int, seed: int) -> Ints:
    """k-means on the rows of D^-½Z, Z the k smoothest eigenvectors of L̄, null space included."""
    count = min(k, laplacian.null.n_components)
    found = smallest_pairs(work, k - count, seed=seed)
    tell_unconverged(work.recorder, found.convergence, single=work.single)
    with work.recorder.stage("start: k-means"):
        Z = np.column_stack([laplacian.null.columns(np.arange(count)), found.vectors])
        return kmeans(Z / laplacian.root_degree[:, None], k, seed, space=laplacian.space).labels


def relaxed_starts(
    problem: PenalizedGraph,
    work: Workspace,
    laplacian: NormalizedLaplacian,
    k: int,
    seed: int,
) -> list[Ints]:
    """k-means on the relaxed minimiser of J among smooth vectors: k, 2k and 4k of them.

    f = D^-½Uc for the smoothest eigenvectors U of L̄: the k largest pairs of
    (UᵀSU + wFᵀQF)c = μFᵀMFc with F = D^-½U, a small dense problem; k of them are the unconstrained
    start. Over all vectors the relaxation would have spikes on the constrained nodes.
    """
    basis = smoothest(work, WIDEST * k, seed=seed)
    Q, w, weight = problem.Q, problem.penalty, problem.A.weight
    found = []
    with work.recorder.stage("start: relaxation"):
        held = Q.support
        F = basis.vectors[held] / laplacian.root_degree[held, None]
        links = np.diag(1.0 - np.concatenate([[0.0], basis.values])) + w * F.T @ Q.inner(F)
        extra = weight[held] - laplacian.root_degree[held] ** 2
        mass = np.eye(basis.p + 1) + F.T @ (extra[:, None] * F)
        for p in sorted({min(p, basis.p) for p in (k - 1, 2 * k, WIDEST * k)}):
            part = slice(0, p + 1)
            C = dense_algebra.eigh(
                (links + links.T)[part, part] / 2, (mass + mass.T)[part, part] / 2
            )[1]
            rows = basis.vectors[:, part] @ C[:, ::-1][:, :k] / laplacian.root_degree[:, None]
            found.append(kmeans(rows, k, seed, space=laplacian.space).labels)
    return found


def neighbourhoods(known: Constraints, laplacian: NormalizedLaplacian) -> tuple[Ints, Ints]:
    """Working nodes and their neighbourhood: must-linked groups and labelled classes, from 0.

    The transitive closure of positive pairs and labels (Kulis et al. 2005). O(n + m log m).
    """
    pairs, mean = known.merged
    said = gather(pairs[mean > 0], np.empty((0, 2), dtype=np.int64), known.labels)
    nodes = laplacian.positions[said.nodes]
    linked = nodes >= 0
    groups = np.unique(said.grouped[0][linked], return_inverse=True)[1]
    return nodes[linked], np.asarray(groups, dtype=np.int64).ravel()


def neighbourhood_start(
    A: Penalized, laplacian: NormalizedLaplacian, known: Constraints, k: int
) -> Ints:
    """Choose k neighbourhoods by farthest-first, then everything else ring by ring.

    The first is the heaviest; each next has the least kernel value Σ_{i∈a,j∈b} A'_ij / √(s_a s_b)
    to its nearest predecessor (the cosine in the limit of a large shift), so that cannot-linked
    ones come first, and among equals the heaviest: most values of a sparse kernel are zero. Fewer
    than k neighbourhoods are completed by single nodes that a diffusion does not reach. Kernel
    distance to a centre tells nothing beyond its neighbours, hence `spread`. Cost O(k nnz).
    """
    nodes, group = neighbourhoods(known, laplacian)
    labels = np.full(laplacian.size, -1, dtype=np.int64)
    weight = np.bincount(group, weights=A.weight[nodes])
    nearest = np.full(weight.size, -np.inf)
    for c in range(min(k, weight.size)):
        chosen = int(np.lexsort((-weight, nearest))[0])
        members = nodes[group == chosen]
        labels[members] = c
        side = np.zeros(laplacian.size, dtype=np.int64)
        side[members] = 1
        links = cluster_links(A, clusters_of(A, side, 2))[nodes, 1]
        value = np.bincount(group, weights=links) / np.sqrt(weight * weight[chosen])
        nearest = np.maximum(nearest, value)
        nearest[chosen] = np.inf
    for c in range(weight.size, k):
        labels[_out_of_reach(laplacian, labels >= 0)] = c
    return spread(A, laplacian, labels, k)


def _out_of_reach(laplacian: NormalizedLaplacian, taken: NDArray[np.bool_]) -> int:
    """The node that a diffusion from the taken ones reaches least; of several the best linked."""
    heat = laplacian.smooth((laplacian.root_degree * taken)[:, None], _SMOOTHING)[:, 0]
    heat = np.where(taken, np.inf, np.abs(heat) / laplacian.root_degree)
    return int(np.lexsort((-laplacian.root_degree, heat))[0])


def given_start(
    A: Penalized, laplacian: NormalizedLaplacian, graph: Graph, init: object, k: int
) -> Ints:
    """The caller's clusters (rows,) in working order; where they say -1, from the neighbours."""
    labels = as_labels(init, graph.n_rows, "init")[graph.first_rows]
    if labels.max() >= k:
        raise InputError(f"init: cluster {labels.max()} given, but n_clusters is {k}; use 0 … K-1")
    return spread(A, laplacian, laplacian.enter(labels), k)


def spread(A: Penalized, laplacian: NormalizedLaplacian, labels: Ints, k: int) -> Ints:
    """Labels for all nodes; a component that nothing reaches joins the lightest cluster."""
    found = grow(laplacian.edges, laplacian.root_degree, labels, k)
    lost = found < 0
    if lost.any():
        degrees = A.weight
        weight = np.bincount(found[~lost], weights=degrees[~lost], minlength=k)
        component = laplacian.null.component
        size = np.bincount(component[lost], weights=degrees[lost])
        place = np.full(size.size, -1)
        for part in np.argsort(-size, kind="stable")[: np.count_nonzero(size)]:
            place[part] = int(weight.argmin())
            weight[place[part]] += size[part]
        found[lost] = place[component[lost]]
    return found
