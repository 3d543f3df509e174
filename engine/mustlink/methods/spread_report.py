"""What SRCP and E2CP tell of a fit, wherever the rows of the graph are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mustlink.methods.candidate_cuts import BestCut
from mustlink.observe import Recorder
from mustlink.result import Report


class Chosen(NamedTuple):
    """The cut that was taken, of which power of F and by which variant, and all that were tried."""

    cut: Any
    power: float
    variant: str
    cuts: BestCut[Any]


def warn_of_few(edges: Mapping[str, Any], recorder: Recorder) -> None:
    """Warn where constraints only take away from the graph; `edges` are counts of what F does."""
    if edges["weakened"] and not edges["strengthened"] and not edges["added"]:
        recorder.warn("F < 0 wherever it changes the graph: few must-links, or it is too far")


def spread_report(
    parameter: Mapping[str, float],
    method: str,
    shape: tuple[int, int, int],
    F: Any,
    edges: Mapping[str, Any],
    chosen: Chosen,
    kept: dict[str, float] | None,
    recorder: Recorder,
    info: Mapping[str, Any],
    more: Mapping[str, Any],
) -> Report:
    """The report of n rows, K clusters and so many components, `shape`; `F` is how it was found.

    `more` is told beside what all fits tell.
    """
    n, k, parts = shape
    cut = chosen.cut
    return Report(
        method=method,
        n_nodes=n,
        n_clusters=k,
        choices={
            **parameter,
            **F.about,
            "largest_F": F.largest,
            "power": chosen.power,
            "variant": chosen.variant,
            "why": chosen.cuts.why,
            "solver": cut.convergence.solver,
            "graph": dict(info),
        },
        convergence=cut.convergence,
        satisfaction=kept,
        **recorder.told(),
        extra={
            "n_components": parts,
            "next_eigenvalue": cut.beyond,
            "adjustment": dict(edges),
            "pairs_with_the_sign_of_F": F.agreement,
            "propagation": F.told,
            "candidates": [one._asdict() for one in chosen.cuts.tried],
            **more,
        },
    )
