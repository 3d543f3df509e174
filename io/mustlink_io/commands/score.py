"""`mustlink score`: its arguments, its help, and how scores look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import facts, stdout_console
from mustlink_io.terminal.summary import constraints_kept, emit, sizes_line


@click.command(short_help="How good labels are.")
@click.argument("labels")
@click.option("--truth", help="True classes, -1 unknown.")
@click.option("--constraints", help="Pairs to count as kept or broken.")
@click.option("--graph", "graph_file", help="Graph on which to measure the normalised cut.")
@JSON
def score(
    labels: str, truth: str | None, constraints: str | None, graph_file: str | None, as_json: bool
) -> None:
    """Compare the labels in OUT.h5 with the truth, constraints, or a graph.

    \b
      mustlink score out.h5 --truth data.h5:/labels
      mustlink score out.h5 --constraints pairs.csv --graph graph.h5 --json
    """
    from mustlink_io.jobs.score import score as compute

    emit(compute(labels, truth, constraints, graph_file), as_json, show_score)


def show_score(result: Mapping[str, Any]) -> None:
    """Print scores."""
    from mustlink_io.hdf5.result_parts import Satisfaction

    console = stdout_console()
    truth, kept = result.get("truth") or {}, result.get("satisfaction")
    unassigned = result["unassigned"]
    facts(
        console,
        [
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", sizes_line(result["sizes"], result["names"])),
            ("unassigned", f"{unassigned:,} nodes (label -1)" if unassigned else None),
            ("nodes of known class", f"{truth['n_known']:,}" if truth else None),
            ("right class", f"{truth['right']:.4f}" if "right" in truth else None),
            ("adjusted Rand index", f"{truth['ari']:.4f}" if truth else None),
            ("mutual information", f"{truth['nmi']:.4f} (normalised)" if truth else None),
            ("accuracy", f"{truth['accuracy']:.4f} (best matching)" if truth else None),
            ("constraints kept", None if kept is None else constraints_kept(Satisfaction(**kept))),
            ("normalised cut", f"{result['mncut']:.4g}" if "mncut" in result else None),
        ],
    )
