"""The normalised cut on ranks: the steps of `methods.normalized_cut` by the verbs of a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import check_choice, check_n_clusters, check_tolerance
from mustlink.constraints import Constraints
from mustlink.methods.clusterer import note_alone, warn_of_components, warn_of_sizes
from mustlink.methods.constraint_doubts import warn_if_broken
from mustlink.methods.normalized_cut import note_components, warn_of_gap
from mustlink.methods.stored_cut import CutsByRows, RowCut
from mustlink.on_ranks.work import RankWork
from mustlink.result import Report
from mustlink.scores.cuts import scores_of_links
from mustlink.selection.regularization import check_regularization, decided_cut

VARIANTS = ("luxburg", "ng")
_TABLES = ("candidates", "regularizations_tried")  # beside the choices, as at home


def normalized_cut(
    work: RankWork,
    k: int,
    *,
    variant: str = "luxburg",
    tol: float | None = None,
    max_iter: int = 200,
    regularization: float | str = "auto",
    seed: int = 0,
) -> tuple[RowCut, dict[str, Any]]:
    """Own rows of the cut of a graph into k clusters, see `NCut`, and its choices; InputError.

    The same on any number of ranks, bit by bit.
    """
    check_choice(variant, VARIANTS, "variant")
    check_tolerance(tol)
    check_regularization(regularization)
    check_n_clusters(k, work.rows.n_nodes)
    cuts = CutsByRows(work, k, variant, tol, max_iter, seed)
    cut, regular = decided_cut(cuts, regularization, k)
    if not regular.tau:
        note_components(work.laplacian.null.n_components, k, work.recorder)
    told = {"regularization": [regular.tau, regular.reason]}
    return cut, told | {"regularizations_tried": regular.table}


def answer(
    work: RankWork,
    cut: RowCut,
    k: int,
    method: str,
    known: Constraints | None = None,
    choices: Mapping[str, Any] | None = None,
    given: RankWork | None = None,
) -> tuple[NDArray[np.int64], RowCut, Report] | None:
    """Labels (n,), the cut in the graph's order and the report, on rank 0; None on others.

    `known` is what the clusters should keep, `choices` what the report tells of parameters,
    `given` the graph as it was given, where another one was cut.
    """
    given = work if given is None else given
    embedding, clusters = work.leave(cut.embedding), work.ranks.gathered(cut.clusters)
    peaks, null, network = work.peaks(), given.laplacian.null, given.look.is_network
    component = given.leave(null.component, -1) if network else None
    if embedding is None or clusters is None:
        return None
    rows, recorder = work.rows, work.recorder
    labels = np.full(rows.n_nodes, -1, dtype=np.int64)
    labels[rows.nodes] = clusters
    warn_of_sizes(clusters, k, recorder)
    if alone := work.isolated:
        note_alone(alone, "labelled -1", recorder)
    warn_of_gap(cut, recorder)
    if component is not None:
        warn_of_components(component, labels, recorder)
    kept = None if known is None else warn_if_broken(labels, known, recorder)
    told = dict(choices or {})
    tried = {name: told.pop(name) for name in _TABLES if name in told}
    report = Report(
        method=method,
        n_nodes=rows.n_nodes,
        n_clusters=k,
        choices={
            **told,
            "solver": cut.convergence.solver,
            "graph": dict(given.info),
            "ranks": work.ranks.count,
        },
        convergence=cut.convergence,
        satisfaction=kept,
        **recorder.told(),
        extra={
            "n_components": null.n_components + given.isolated,
            "next_eigenvalue": cut.beyond,
            "peak_bytes_of_ranks": peaks,
            **tried,
            **({"network": scores_of_links(cut.links)[0]} if network else {}),
        },
    )
    return labels, replace(cut, embedding=embedding, clusters=clusters), report
