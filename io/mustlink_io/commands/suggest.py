"""`mustlink suggest`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import AS, JSON, MEMORY, QUIET, VIEW, WEIGHTS, several


@click.command(short_help="Which method and parameters, and why.")
@click.argument("data")
@click.option("-k", "n_clusters", type=int, help="Clusters, if you know how many.")
@click.option("--labels", help="Known labels, -1 unknown, as of the cluster command.")
@click.option("--constraints", help="Pairs or a second graph, as of the cluster command.")
@several(VIEW, AS, WEIGHTS, MEMORY, QUIET, JSON)
def suggest(data: str, quiet: bool, as_json: bool, **given: Any) -> None:
    """Look at DATA and what is known about it; name a method, the reason, and the command.

    Nothing is clustered: a sample of the points, or the graph, is looked at, and how far labels or
    pairs agree with it. Labels are held out and answered by the method and by what knows no graph
    (1-NN, seeded k-means, extra trees). What looks wrong is told in plain words.

    \b
      mustlink suggest points.h5                              how many clusters does it show?
      mustlink suggest points.h5 --labels few.csv
      mustlink suggest graph.h5 -k 5 --constraints pairs.csv
      mustlink suggest points.h5 -k 10 --memory 2GB
      mustlink suggest links.mtx --view words.h5 --labels few.csv
      mustlink suggest words.mtx --as bipartite
      mustlink suggest points.h5 -k 10 --json | jq -r .command | sh    and do it
    """
    from mustlink_io.jobs.suggest import suggest_for
    from mustlink_io.terminal.progress import observing
    from mustlink_io.terminal.summary import emit

    with observing(quiet) as observer:
        result = suggest_for(data, observer, **given)
    emit(result, as_json, show_suggestion)


def show_suggestion(result: Mapping[str, Any]) -> None:
    """Print a suggestion; the command on one line of its own, to be copied."""
    from mustlink_io.terminal.console import facts, planned_time, size, stdout_console
    from mustlink_io.terminal.summary import held_out

    console = stdout_console()
    seen, seconds = result["seen"], result["seconds"]
    parameters = ", ".join(f"{name}={value!r}" for name, value in result["parameters"].items())
    time = None if seconds is None else f"{planned_time(result)}, {size(result['peak_bytes'])}"
    facts(
        console,
        [
            ("data", f"{result['data']}: {_data(seen)}"),
            *(("looks", line) for line in _looks(seen)),
            ("known", _known(seen["known"])),
            ("method", f"{result['method']}({parameters})"),
            *(("because", reason) for reason in result["reasons"]),
            ("time, peak memory", time),
            ("held-out labels", held_out(result["baseline"])),
            *(("doubt", doubt) for doubt in result["doubts"]),
            *(("or", f"{one['method']}: {one['when']}") for one in result["alternatives"]),
        ],
    )
    click.echo(f"\n{result['command']}")


def _data(seen: Mapping[str, Any]) -> str:
    """Sizes."""
    if seen["kind"] == "points":
        return (
            f"{seen['n']:,} points of {seen['d']:,} columns, {seen['sampled']:,} of them looked at"
        )
    noun = "pixels" if seen["kind"] == "pixels" else "nodes"
    return f"a graph of {seen['n']:,} {noun}, {seen['links']['edges']:,} edges"


def _looks(seen: Mapping[str, Any]) -> list[str]:
    """What is remarkable about the data."""
    links, numbers = seen["links"], seen["coordinates"]
    found = []
    if numbers is not None:
        kind = "whole numbers" if numbers["whole"] else "real numbers"
        sign = "some negative" if numbers["negative"] else "none negative"
        found.append(f"{kind}, {sign}, {numbers['zeros']:.0%} zeros")
    noun = "component" if links["parts"] == 1 else "components"
    where = " (neighbours in the sample)" if seen["kind"] == "points" else ""
    found.append(
        f"{links['parts']} {noun} of 1 % of the nodes or more, {links['median_degree']:.0f} "
        f"neighbours a node (median), at most {links['largest_degree']:,}{where}"
    )
    return found


def _known(known: Mapping[str, Any]) -> str:
    """The side information in one line."""
    parts = []
    if known["labelled"]:
        each = (
            f"{known['least']}"
            if known["least"] == known["most"]
            else f"{known['least']} to {known['most']}"
        )
        parts.append(f"{known['labelled']:,} labels of {known['classes']} classes, {each} each")
    if known["must"] or known["cannot"]:
        parts.append(
            f"{known['must']:,} must-links, {known['cannot']:,} cannot-links on "
            f"{known['nodes']:,} nodes"
        )
    if known["soft"]:
        parts.append("a second graph")
    if known["agreement"] is not None:
        parts.append(f"agreement with the data {known['agreement']:.0%}")
    return "; ".join(parts) or "nothing"
