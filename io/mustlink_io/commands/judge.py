"""`mustlink suggest`, `score` and `report`: what suits data, and how good a result is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from mustlink_io.commands.options import (
    AS,
    DROP,
    ID,
    JSON,
    MEMORY,
    QUIET,
    TEXT,
    VIEW,
    WEIGHTS,
    several,
)
from mustlink_io.terminal.console import (
    constraints_kept,
    emit,
    facts,
    held_out,
    nodes_left,
    planned_time,
    size,
    sizes_line,
    stdout_console,
    table,
    with_name,
)


@click.command(short_help="Which method and parameters, and why.")
@click.argument("data")
@click.option("-k", "n_clusters", type=int, help="Clusters, if you know how many.")
@click.option("--labels", help="Known labels, -1 unknown, as of the cluster command.")
@click.option("--constraints", help="Pairs or a second graph, as of the cluster command.")
@several(DROP, VIEW, AS, TEXT, ID, WEIGHTS, MEMORY, QUIET, JSON)
def suggest(data: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Look at DATA and what is known about it; name a method, the reason, and the command.

    Nothing is clustered: a sample of the points, or the graph, is looked at, and how far labels or
    pairs agree with it. Labels are held out and answered by the method and by what knows no graph
    (1-NN, seeded k-means, extra trees). What looks wrong is named in plain words.

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
    from mustlink_io.terminal.console import observing

    options["drop"] = options["drop"] or ()
    with observing(quiet) as observer:
        result = suggest_for(data, observer, **options)
    emit(result, as_json, show_suggestion)


def show_suggestion(result: Mapping[str, Any]) -> None:
    """Print a suggestion; the command on one line of its own, to be copied."""
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
            *(("warning", warning) for warning in result["warnings"]),
            *(("or", f"{one['method']}: {one['when']}") for one in result["alternatives"]),
        ],
    )
    click.echo(f"\n{result['command']}")


def _data(seen: Mapping[str, Any]) -> str:
    if seen["kind"] == "points":
        return (
            f"{seen['n']:,} points of {seen['d']:,} columns, {seen['sampled']:,} of them looked at"
        )
    noun = "pixels" if seen["kind"] == "pixels" else "nodes"
    return f"a graph of {seen['n']:,} {noun}, {seen['links']['edges']:,} edges"


def _looks(seen: Mapping[str, Any]) -> list[str]:
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
@click.option(
    "--strict", is_flag=True, help="Rows of the truth that OUT.h5 does not have are an error."
)
@JSON
def score(
    labels: tuple[str, ...],
    truth: str | None,
    constraints: str | None,
    graph_file: str | None,
    leiden: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Compare the labels in OUT.h5 with the truth, constraints, or a graph; of several files, a row
    each. Nodes without a cluster (-1) are one more cluster in the adjusted Rand index, also
    given without them, and wrong in the accuracy. Where rows have names, those that both files have
    are compared.

    \b
      mustlink score out.h5 --truth data.h5:/labels
      mustlink score out.h5 --constraints pairs.csv --graph graph.h5 --json
      mustlink score out.h5 --graph network.mtx --leiden
      mustlink score out/*.h5 --truth data.h5:/labels         the best last
    """
    from mustlink_io.jobs.score import score as compute

    if leiden and len(labels) > 1:
        raise click.UsageError("--leiden is for one file of labels at a time")
    found = [compute(one, truth, constraints, graph_file, leiden, strict) for one in labels]
    if len(found) == 1:
        emit(found[0], as_json, show_score)
        return
    emit({"scores": found}, as_json, lambda _: show_scores(found))


def show_scores(found: Sequence[Mapping[str, Any]]) -> None:
    """Print a row a file, by the adjusted Rand index, else the constraints kept, rising."""

    def figures(one: Mapping[str, Any]) -> list[float | None]:
        truth, kept = one.get("truth") or {}, one.get("satisfaction") or {}
        words = [truth.get("ari"), truth.get("nmi"), truth.get("accuracy"), truth.get("right")]
        cut = [one.get("modularity"), one.get("worst_conductance"), one.get("mncut")]
        return [*words, kept.get("balanced", kept.get("kept")), *cut]

    measures = ("ARI", "NMI", "accuracy", "right", "kept", "modularity", "conductance", "cut")
    names = ("file", "clusters", "-1", "known class", *measures)
    ranked = sorted(found, key=lambda one: [-1.0 if v is None else v for v in figures(one)])
    rows = [
        (
            one["labels"],
            len(one["sizes"]),
            one["unassigned"],
            (one.get("truth") or {}).get("n_known", ""),
            *("" if value is None else f"{value:.4f}" for value in figures(one)),
        )
        for one in ranked
    ]
    used = [at for at in range(len(names)) if any(row[at] != "" for row in rows)]
    console = stdout_console()
    table(console, [names[at] for at in used], [[row[at] for at in used] for row in rows])
    facts(
        console,
        [(f"left out, {one['labels']}", _left_out(one.get("truth") or {})) for one in ranked],
    )


def show_score(result: Mapping[str, Any]) -> None:
    """Print scores."""
    from mustlink_io.hdf5.result import Satisfaction

    console = stdout_console()
    truth, kept = result.get("truth") or {}, result.get("satisfaction")
    unassigned = result["unassigned"]
    apart = truth.get("ari_clustered")
    names = _called(result)
    facts(
        console,
        [
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", sizes_line(result["sizes"], list(names.values()))),
            ("unassigned", nodes_left(unassigned)),
            ("nodes of known class", f"{truth['n_known']:,}" if truth else None),
            ("  left out", _left_out(truth)),
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


def _left_out(truth: Mapping[str, Any]) -> str | None:
    """Rows of the truth that the result does not have."""
    count, names = truth.get("left_out", 0), truth.get("strange", ())
    some = ", ".join(names) + (", …" if count > len(names) else "")
    rows = "row" if count == 1 else "rows"
    return f"{count:,} {rows} of the truth, not among the labelled: {some}" if count else None


def _of_leiden(result: Mapping[str, Any]) -> str | None:
    found = result.get("leiden")
    if found is None:
        return None
    words = f"{found['n_clusters']:,} clusters, modularity {found['modularity']:.4f}"
    words += f", {found['coverage']:.1%} of the edges inside"
    truth = found["truth"]
    return words if truth is None else f"{words}, adjusted Rand index {truth['ari']:.4f}"


def _worst(result: Mapping[str, Any]) -> str | None:
    if result.get("worst_conductance") is None:
        return None
    worst = result["worst_cluster"]
    return f"{result['worst_conductance']:.4f} (cluster {_called(result).get(worst, worst)})"


def _called(result: Mapping[str, Any]) -> dict[int, Any]:
    """What clusters are called, by their numbers."""
    names = result.get("class_names") or [""] * len(result["names"])
    return {at: with_name(at, name) for at, name in zip(result["names"], names, strict=True)}


@click.command(short_help="A page about a result, with pictures.")
@click.argument("file", metavar="OUT.h5")
@click.option("-o", "output", help="HTML file to write; by default OUT.html beside OUT.h5.")
@click.option(
    "--pictures", "folder", metavar="DIR", help="Write every picture there, as PNG and SVG."
)
@click.option("--image", help="PNG or JPEG whose pixels, row by row, are the nodes.")
@click.option(
    "--show", help="What a row is: a folder with a picture for each, FILE.h5:DATASET or .npy."
)
@QUIET
@JSON
def report(
    file: str,
    output: str | None,
    folder: str | None,
    image: str | None,
    show: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Tell what was run, how the graph, the clusters and the constraints look, and what to doubt.

    One page that loads nothing: it can be sent, kept and printed. With --pictures or --json and
    without -o, no page is written. Needs: pip install 'mustlink[plot]' (not for --json alone).

    \b
      mustlink report out.h5                         writes out.html
      mustlink report out.h5 -o report.html
      mustlink report out.h5 --pictures figures      embedding.png, embedding.svg, spectrum.png, …
      mustlink report photo.h5 --image photo.jpg     segments drawn over the photograph
      mustlink report leaves.h5 --show leaves/       typical rows and rows in doubt as pictures
      mustlink report out.h5 --json | jq .constraints
    """
    from mustlink_io.report.page import make

    def written(result: Mapping[str, Any]) -> None:
        facts(stdout_console(), [("warning", line) for line in result["warnings"]])
        facts(stdout_console(), [("written", path) for path in result["written"]])

    wanted = not (folder or as_json)
    made = make(file, output, folder=folder, image=image, show=show, page_wanted=wanted)
    emit(made, as_json, written, quiet=quiet)
