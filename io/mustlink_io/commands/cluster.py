"""`mustlink cluster`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mustlink_io.commands.method_options import CLUSTER_OWN, kind_weights, method_help
from mustlink_io.commands.options import (
    AFFINITY,
    AS,
    EDGE_WEIGHTS,
    FRESH,
    IN_PLACE,
    JSON,
    KEY,
    MAX_ITER,
    MEMORY,
    METRIC,
    NEIGHBORS,
    NO_MODEL,
    OUTPUT,
    OVERWRITE,
    QUIET,
    RANKS,
    RESUME,
    SCHEDULER,
    SEED,
    THREADS,
    TIME,
    TOL,
    VIEW,
    VIEW_WEIGHTS,
    WEIGHTS,
    WORKERS,
    check_no_workers,
    cluster_count,
    number_or_file,
    output_of,
    program_began,
    several,
)
from mustlink_io.commands.preparing_options import PREPARING, PreparingCommand
from mustlink_io.jobs.methods import METHODS
from mustlink_io.terminal.console import clock, facts, size, stage_table, stdout_console
from mustlink_io.terminal.summary import (
    choice_rows,
    constraints_kept,
    emit,
    feasible,
    held_out,
    mean_confidence,
    nodes_left,
    on_network,
    sizes_line,
)

if TYPE_CHECKING:
    from mustlink_io.hdf5.result import Result
    from mustlink_io.hdf5.result_parts import Adjustment

_QUANTILES = (("0", "least"), ("0.01", "1 %"), ("0.5", "median"), ("0.99", "99 %"), ("1", "most"))


@click.command(cls=PreparingCommand, short_help="Points or a graph to clusters.")
@click.argument("data")
@click.option(
    "-k",
    "n_clusters",
    metavar="K|auto",
    callback=cluster_count,
    required=True,
    help="Number of clusters; auto: classes of the labels, else counted on the graph, which disim "
    "cannot.",
)
@click.option(
    "-m",
    "method",
    type=click.Choice(list(METHODS)),
    help=method_help(METHODS) + " Default: csp with side information, else ncut.",
)
@several(OUTPUT, IN_PLACE, KEY, OVERWRITE)
@click.option(
    "--labels",
    help="Known labels, -1 unknown: H5[:DATASET], .npy, .csv, .txt; of a picture strokes as .png.",
)
@click.option(
    "--constraints",
    help="Pairs: .csv or .parquet with header i,j,belief, or H5:GROUP. Or a second graph: "
    ".graphml, .metis, .npz, .mtx, H5:GROUP, an edge list (.edges, .txt, .tsv, .csv).",
)
@click.option(
    "--soft-labels",
    metavar="FILE[:DATASET]",
    help="Shares of the classes in every node, as a classifier gives them: n rows, a column for "
    "each class in their order, or called as they are, as --prior of propagate has them.",
)
@click.option(
    "--belief",
    metavar="NUMBER|FILE[:DATASET]",
    callback=number_or_file,
    help="How sure soft labels are, from 0 to 1, as sure as a label: a number, or one a node; "
    "default by how far the largest share is from an even one.",
)
@click.option(
    "--beliefs",
    metavar="KIND=NUMBER,...",
    callback=kind_weights,
    help="What must-links, cannot-links, pairs of labels and of a second graph weigh against one "
    "another: must=2,cannot=1,labels=0.5,graph=0.1; default 1 each.",
)
@click.option("--strict", is_flag=True, help="Contradictory constraints are an error.")
@several(*CLUSTER_OWN)
@several(WEIGHTS, *PREPARING)
@several(VIEW, VIEW_WEIGHTS)
@several(AS, AFFINITY, NEIGHBORS, METRIC, EDGE_WEIGHTS)
@click.option(
    "--solver",
    type=click.Choice(
        ["auto", "dense", "lobpcg", "shift-invert", "lanczos", "cg", "diffusion", "krylov"]
    ),
    help="Of the eigenproblem; srcp, e2cp: of the propagation; not all for every method.",
)
@several(TOL, MAX_ITER)
@click.option("--isolated", type=click.Choice(["drop", "assign"]), help="Drop: label -1.")
@click.option("--confidence", is_flag=True, help="Also /confidence, how sure it is.")
@click.option(
    "--membership",
    is_flag=True,
    help="Also /membership, shares of all clusters in every node, and /confidence. With 15 "
    "labels and 3 a cluster, or 30 pairs and 10 a cluster, both are calibrated by three more fits.",
)
@click.option(
    "--hierarchy",
    is_flag=True,
    help="Also /hierarchy: parts of the clusters and how they merge; mustlink report draws it.",
)
@several(RANKS, SEED, THREADS, MEMORY, TIME, WORKERS, SCHEDULER, RESUME, FRESH)
@several(NO_MODEL, QUIET, JSON)
def cluster(
    method: str | None,
    labels: str | None,
    constraints: str | None,
    beliefs: dict[str, float] | None,
    ranks: int | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Cluster DATA into K clusters; OUT.h5 gets /labels, /embedding, /report.

    \b
      mustlink cluster points.h5:/points -k 10 -o out.h5
      mustlink cluster network.mtx -k auto -o out.h5
      mustlink cluster points.h5 -k 10 --labels few.csv -o out.h5
      mustlink cluster points.h5 -k 10 --soft-labels chances.csv --belief 0.5 -o out.h5
      mustlink cluster graph.mtx -k 5 -m csp --constraints pairs.csv -o out.h5
      mustlink cluster links.mtx --view words.h5 --labels few.csv -k 5 -o out.h5
      mustlink cluster words.mtx --as bipartite -k 20 -o out.h5
      mustlink cluster follows.edges -k 5 -m disim -o out.h5
      mustlink cluster points.h5 -k 10 -m csc-gfhf --labels few.csv -o out.h5
      mustlink cluster points.h5 -k 10 -m srcp --constraints pairs.csv -o out.h5
      mustlink cluster points.npy -k 8 --json --quiet -o out.h5 | jq .sizes
      mustlink cluster pbmc.h5ad -k 8 --labels pbmc.h5ad:/obs/cell_type -o out.h5ad

    \b
    few.csv      one label a line, -1 unknown; or the header node,label
    pairs.csv    i,j,belief     belief > 0: must-link, < 0: cannot-link;
                 0,17,1         nodes are numbered from 0, or named as in DATA
                 0,23,-1
    """
    from mustlink_io.jobs import on_ranks
    from mustlink_io.jobs.cluster import ClusterJob, usual_method
    from mustlink_io.jobs.methods import steps_of
    from mustlink_io.jobs.mpi_launch import is_rank, launch
    from mustlink_io.jobs.run import run
    from mustlink_io.terminal.progress import observing
    from mustlink_io.workers.dask_cluster import executor_of

    names = ("data", "output", "n_clusters", "strict", "views", "confidence", "membership",
             "hierarchy", "soft_labels", "belief")  # fmt: skip
    asked = {name: given.pop(name) for name in names}
    run_as = ("threads", "memory", "time_limit", "resume", "fresh", "no_model")
    limits = {name: given.pop(name) for name in run_as}
    into = {name: given.pop(name) for name in ("key", "in_place", "overwrite")}
    asked["output"] = output_of(asked["data"], asked["output"], into["in_place"])
    steps = steps_of(given)
    where = given.pop("workers"), given.pop("scheduler")
    job = ClusterJob(
        **asked,
        steps=steps,
        sample_weight=given.pop("sample_weight"),
        read_as=given.pop("read_as"),
        **limits,
        **into,
        began=program_began(),
        method=method or usual_method(labels, constraints, asked["soft_labels"]),
        labels=labels,
        constraints=constraints,
        beliefs=beliefs or {},
        params={name: value for name, value in given.items() if value is not None},
    )
    if ranks is not None:
        check_no_workers(where)
    if ranks is not None and not is_rank():
        on_ranks.check(job, ranks)
        return launch(ranks, sys.argv[1:])
    with observing(quiet) as observer, executor_of(*where) as executor:
        result = (
            run(job, observer, executor) if ranks is None else on_ranks.run(job, ranks, observer)
        )
    if result is not None:
        emit(result.flat(), as_json, lambda _: show_cluster(result))
    return 0


def show_cluster(result: Result) -> None:
    """Print the outcome of `mustlink cluster`."""
    told = result.report
    console = stdout_console()
    stage_table(console, result.stages)
    values = ", ".join(f"{v:.4g}" for v in result.eigenvalues[:12])
    facts(
        console,
        [
            ("method", told.method),
            ("nodes", f"{told.n_nodes:,}"),
            ("cluster sizes", sizes_line(told.sizes or (), _cluster_names(result))),
            ("unassigned", nodes_left(told.unassigned)),
            ("mean confidence", mean_confidence(told)),
            ("eigenvalues", values or None),
            ("constraints kept", constraints_kept(told.satisfaction)),
            ("on the network", on_network(told.network)),
            ("held-out labels", held_out(told.baseline)),
            ("feasible", feasible(told)),
            ("edges", _adjusted(told.adjustment)),
            ("  F on them", _spread_of(told.adjustment)),
            *choice_rows(told.choices or {}),
            ("convergence", told.convergence.status if told.convergence else None),
            ("time, peak memory", f"{clock(told.seconds or 0)}, {size(told.peak_bytes or 0)}"),
            ("written", result.output),
        ],
    )


def _cluster_names(result: Result) -> Sequence[Any]:
    """Numbers of clusters, with the class that most labelled nodes of each have."""
    from mustlink_io.hdf5.store import text

    names = [text(name)[:40] for name in result.class_names]
    return [f"{at} ({name})" if name else at for at, name in enumerate(names)]


def _adjusted(edges: Adjustment | None) -> str | None:
    """Return what spread constraints did to the graph in one line."""
    if edges is None:
        return None
    kinds = ("strengthened", "weakened", "added", "untouched")
    return ", ".join(f"{getattr(edges, kind):,} {kind}" for kind in kinds)


def _spread_of(edges: Adjustment | None) -> str | None:
    """Return how F is distributed over the edges that it changes, which is not known on disk."""
    if edges is None or not edges.F or not edges.strengthened + edges.weakened:
        return None
    return ", ".join(f"{name} {edges.F[at]:.3g}" for at, name in _QUANTILES)
