"""`mustlink score`: its arguments, its help, and how scores look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import facts, stdout_console, table
from mustlink_io.terminal.summary import constraints_kept, emit, nodes_left, sizes_line


@click.command(short_help="How good labels are.")
@click.argument("labels", nargs=-1, required=True)
@click.option("--truth", help="True classes, -1 unknown.")
@click.option("--constraints", help="Pairs to count as kept or broken.")
@click.option("--graph", "graph_file", help="Graph on which to score clusters: modularity, cut.")
@click.option(
    "--leiden",
    is_flag=True,
    help="Beside Leiden's clusters of it, for one file of labels; needs igraph.",
)
@JSON
def score(
    labels: tuple[str, ...],
    truth: str | None,
    constraints: str | None,
    graph_file: str | None,
    leiden: bool,
    as_json: bool,
) -> None:
    """Compare the labels in OUT.h5 with the truth, constraints, or a graph; of several files, a row
    each. Nodes without a cluster (-1) are one more cluster in the adjusted Rand index, also told
    without them, and wrong in the accuracy.

    \b
      mustlink score out.h5 --truth data.h5:/labels
      mustlink score out.h5 --constraints pairs.csv --graph graph.h5 --json
      mustlink score out.h5 --graph network.mtx --leiden
      mustlink score out/*.h5 --truth data.h5:/labels         the best last
    """
    from mustlink_io.jobs.score import score as compute

    if leiden and len(labels) > 1:
        raise click.UsageError("--leiden is for one file of labels at a time")
    found = [compute(one, truth, constraints, graph_file, leiden) for one in labels]
    if len(found) == 1:
        emit(found[0], as_json, show_score)
        return
    emit({"scores": found}, as_json, lambda _: show_scores(found))


def show_scores(found: Sequence[Mapping[str, Any]]) -> None:
    """Print a row a file, by the adjusted Rand index, else the constraints kept, rising."""

    def figures(one: Mapping[str, Any]) -> list[float | None]:
        truth, kept = one.get("truth") or {}, one.get("satisfaction") or {}
        told = [truth.get("ari"), truth.get("nmi"), truth.get("accuracy"), truth.get("right")]
        cut = [one.get("modularity"), one.get("worst_conductance"), one.get("mncut")]
        return [*told, kept.get("balanced", kept.get("kept")), *cut]

    measures = ("ARI", "NMI", "accuracy", "right", "kept", "modularity", "conductance", "cut")
    names = ("file", "clusters", "-1", *measures)
    ranked = sorted(found, key=lambda one: [-1.0 if v is None else v for v in figures(one)])
    rows = [
        (
            one["labels"],
            len(one["sizes"]),
            one["unassigned"],
            *("" if value is None else f"{value:.4f}" for value in figures(one)),
        )
        for one in ranked
    ]
    used = [at for at in range(len(names)) if any(row[at] != "" for row in rows)]
    table(stdout_console(), [names[at] for at in used], [[row[at] for at in used] for row in rows])


def show_score(result: Mapping[str, Any]) -> None:
    """Print scores."""
    from mustlink_io.hdf5.result_parts import Satisfaction

    console = stdout_console()
    truth, kept = result.get("truth") or {}, result.get("satisfaction")
    unassigned = result["unassigned"]
    apart = truth.get("ari_clustered")
    facts(
        console,
        [
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", sizes_line(result["sizes"], result["names"])),
            ("unassigned", nodes_left(unassigned)),
            ("nodes of known class", f"{truth['n_known']:,}" if truth else None),
            ("right class", f"{truth['right']:.4f}" if "right" in truth else None),
            ("adjusted Rand index", f"{truth['ari']:.4f}" if truth else None),
            ("  without label -1", None if apart is None else f"{apart:.4f}"),
            ("mutual information", f"{truth['nmi']:.4f} (normalised)" if truth else None),
            ("accuracy", f"{truth['accuracy']:.4f} (best matching)" if truth else None),
            ("constraints kept", None if kept is None else constraints_kept(Satisfaction(**kept))),
            ("graph scored on", result.get("graph_is")),
            ("modularity", f"{result['modularity']:.4f}" if "modularity" in result else None),
            ("edges inside", f"{result['coverage']:.1%}" if "coverage" in result else None),
            ("worst conductance", _worst(result)),
            ("normalised cut", f"{result['mncut']:.4g}" if "mncut" in result else None),
            ("Leiden", _of_leiden(result)),
        ],
    )


def _of_leiden(result: Mapping[str, Any]) -> str | None:
    """What Leiden finds on the same graph, in one line."""
    found = result.get("leiden")
    if found is None:
        return None
    told = f"{found['n_clusters']:,} clusters, modularity {found['modularity']:.4f}"
    told += f", {found['coverage']:.1%} of the edges inside"
    truth = found["truth"]
    return told if truth is None else f"{told}, adjusted Rand index {truth['ari']:.4f}"


def _worst(result: Mapping[str, Any]) -> str | None:
    """The largest conductance of a cluster, and whose it is."""
    if result.get("worst_conductance") is None:
        return None
    return f"{result['worst_conductance']:.4f} (cluster {result['worst_cluster']})"
