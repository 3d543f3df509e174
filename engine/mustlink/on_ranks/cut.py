"""The normalised cut on ranks: the steps of `methods.normalized_cut` by the verbs of a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import check_choice, check_n_clusters, check_tolerance
from mustlink.constraints import Constraints
from mustlink.methods.clusterer import warn_of_sizes
from mustlink.methods.constraint_doubts import warn_if_broken
from mustlink.methods.normalized_cut import Cut, warn_of_gap
from mustlink.on_ranks.work import RankWork
from mustlink.result import EigenResult, Report
from mustlink.rounding.assign import kmeans, transform

VARIANTS = ("luxburg", "ng")


def normalized_cut(
    work: RankWork,
    k: int,
    *,
    variant: str = "luxburg",
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
    found: EigenResult | None = None,
) -> Cut:
    """Own rows of the cut of a graph into k clusters, see `NCut`; raises InputError.

    `found` are the pairs beyond the null space where they are known. The same on any number of
    ranks, bit by bit.
    """
    check_choice(variant, VARIANTS, "variant")
    check_tolerance(tol)
    check_n_clusters(k, work.rows.n_nodes)
    laplacian, space = work.laplacian, work.space
    null = laplacian.null
    count = min(k, null.n_components)
    if found is None:
        found = work.smallest_pairs(k - count, tol=tol, max_iter=max_iter, seed=seed)
    Z = space.stack([null.columns(np.arange(count)), found.vectors])
    values = np.concatenate([np.zeros(count), found.values])
    if variant == "ng":
        rows = space.rowwise(lambda X: transform(X, "sphere"), Z)
    else:
        rows = work.by_root(Z)
    with work.recorder.stage("clusters"):
        clusters = kmeans(rows, k, seed, space=space).labels
    return Cut(clusters, rows, values, found.convergence, found.beyond)


def answer(
    work: RankWork,
    cut: Cut,
    k: int,
    method: str,
    known: Constraints | None = None,
    choices: Mapping[str, Any] | None = None,
) -> tuple[NDArray[np.int64], Cut, Report] | None:
    """Labels (n,), the cut in the graph's order and the report, on rank 0; None on others.

    `known` is what the clusters should keep, `choices` what the report tells of parameters.
    """
    embedding, clusters = work.leave(cut.embedding), work.ranks.gathered(cut.clusters)
    peaks = work.peaks()
    if embedding is None or clusters is None:
        return None
    rows, recorder = work.rows, work.recorder
    labels = np.full(rows.n_nodes, -1, dtype=np.int64)
    labels[rows.nodes] = clusters
    warn_of_sizes(clusters, k, recorder)
    warn_of_gap(cut, recorder)
    alone, parts = rows.n_nodes - rows.nodes.size, work.laplacian.null.n_components
    if alone:
        recorder.note(f"{alone} nodes have no edge and cannot be clustered: labelled -1")
    if parts > 1:
        recorder.note(f"the graph has {parts} connected components beside isolated nodes")
    kept = None if known is None else warn_if_broken(labels, known, recorder)
    report = Report(
        method=method,
        n_nodes=rows.n_nodes,
        n_clusters=k,
        choices={
            **(choices or {}),
            "solver": cut.convergence.solver,
            "ranks": work.ranks.count,
        },
        convergence=cut.convergence,
        satisfaction=kept,
        **recorder.told(),
        extra={
            "n_components": parts + alone,
            "next_eigenvalue": cut.beyond,
            "peak_bytes_of_ranks": peaks,
        },
    )
    return labels, replace(cut, embedding=embedding, clusters=clusters), report
