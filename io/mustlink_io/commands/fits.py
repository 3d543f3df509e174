"""The verbs that fit, `mustlink cluster` and `propagate`, and `plan`: what they would take."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import (
    BELIEF,
    BELIEFS,
    INTO,
    JSON,
    OF_GRAPH,
    OF_RUN,
    PREPARING,
    WEIGHTS,
    FitCommand,
    Name,
    clusters,
    file_option,
    method_help,
    output_of,
    program_began,
    several,
    with_methods,
)
from mustlink_io.jobs.methods import METHODS, PROPAGATORS
from mustlink_io.terminal.console import (
    bounded_cut,
    choice_rows,
    clock,
    constraints_kept,
    emit,
    facts,
    feasible,
    held_out,
    labels_kept,
    mean_confidence,
    nodes_left,
    on_network,
    planned_time,
    prior_row,
    size,
    sizes_line,
    stability_row,
    stage_table,
    stdout_console,
    table,
    with_name,
)

if TYPE_CHECKING:
    from mustlink_io.hdf5.result import Result, ResultAdjustment
    from mustlink_io.jobs.job import Job

_QUANTILES = (("0", "least"), ("0.01", "1 %"), ("0.5", "median"), ("0.99", "99 %"), ("1", "most"))


@click.command(
    cls=FitCommand,
    completed=partial(with_methods, methods=METHODS),
    short_help="Points or a graph to clusters.",
)
@click.argument("data")
@clusters(
    "Number of clusters; auto, the default: classes of the labels, else counted on the graph, "
    "which disim cannot.",
    default="auto",
)
@click.option(
    "-m",
    "method",
    type=Name(list(METHODS)),
    help=method_help(METHODS) + " Default: auto with side information, else ncut; csp for "
    "pictures, with --ranks, and with options that auto has not.",
)
@several(*INTO)
@click.option(
    "--labels",
    help="Known labels, -1 unknown: H5[:DATASET], .npy, .csv, .txt; of a picture strokes as .png.",
)
@click.option(
    "--constraints",
    help="Pairs: .csv or .parquet with header i,j,belief, or H5:GROUP. Or a second graph: "
    ".graphml, .metis, .npz, .mtx, H5:GROUP, an edge list (.edges, .txt, .tsv, .csv).",
)
@file_option(
    "--soft-labels",
    help="Shares of the classes in every node, as a classifier gives them: n rows, a column for "
    "each class in their order, or called as they are, as --prior of propagate has them.",
)
@click.option(
    "--belief",
    **BELIEF,
    help="How sure soft labels are, from 0 to 1, as sure as a label: a number, or one a node; "
    "default by how far the largest share is from an even one.",
)
@BELIEFS
@click.option(
    "--strict",
    is_flag=True,
    help="Contradictory constraints are an error, and labels of rows that DATA do not have.",
)
@several(WEIGHTS, *PREPARING, *OF_GRAPH)
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
@click.option(
    "--stability",
    is_flag=True,
    help="Also how far the clusters are found again without half of the edges, by five more fits.",
)
@several(*OF_RUN)
def cluster(**given: Any) -> int:
    """Cluster DATA into K clusters; OUT.h5 gets /labels, /embedding, /report.

    \b
      mustlink cluster points.h5:/points -k 10 -o out.h5
      mustlink cluster network.mtx -k auto -o out.h5
      mustlink cluster points.h5 -k 10 --labels few.csv -o out.h5
      mustlink cluster points.h5 -k 10 --soft-labels chances.csv --belief 0.5 -o out.h5
      mustlink cluster graph.mtx -k 5 -m csp --constraints pairs.csv -o out.h5
      mustlink cluster links.mtx --view words.h5 --labels few.csv -k 5 -o out.h5
      mustlink cluster words.mtx --as bipartite -k 20 -o out.h5
      mustlink cluster mails.csv --text body -k 20 -o out.h5
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
    from mustlink_io.jobs.fits import ClusterJob

    return _fit(ClusterJob, given)


@click.command(
    cls=FitCommand,
    completed=partial(with_methods, methods=PROPAGATORS),
    short_help="Labels of a few nodes to a class of every node.",
)
@click.argument("data")
@file_option(
    "--labels",
    required=True,
    help="Known labels, -1 unknown: HDF5, .npy, .npz, .csv, .txt; of a picture strokes as .png.",
)
@click.option(
    "-m",
    "method",
    type=Name(list(PROPAGATORS)),
    help=method_help(PROPAGATORS)
    + " Default: auto; gfhf for a picture's graph. With --ranks, and with options that auto has "
    "not: llgc for a graph, how far labels travel chosen by labels held out; poisson for points, "
    "which does well from one label a class on, or gfhf with --prior; where classes have unequally "
    "many labels, add --class-shares.",
)
@several(*INTO)
@file_option(
    "--graph",
    help="Neighbour graph of the points, made before; lnp, llelp, ltsalp fit to --neighbors of it.",
)
@file_option(
    "--prior",
    help="What something else says of every node, such as a classifier: n rows of chances, a "
    "column for each class in their order, or called as they are in a table, .h5 or .h5ad "
    "(/prior, or /label_distributions of an earlier answer).",
)
@click.option(
    "--belief",
    **BELIEF,
    help="How much that counts, >= 0, beside weights of edges: a number, or one a node; default 1.",
)
@click.option(
    "--membership",
    is_flag=True,
    help="Also /membership, the chance of every class, and /confidence is that of the answer. With "
    "15 labels and 3 a class they are calibrated by labels held out of five more fits.",
)
@several(WEIGHTS, *PREPARING, *OF_GRAPH, *OF_RUN)
def propagate(**given: Any) -> int:
    """Give every node of DATA a class, from the labels of a few.

    OUT.h5 gets /labels, /label_distributions (one column a class), /confidence from 0 (a tie) to
    1, with --membership the chance that the answer is right, and /classes. A part of the graph
    without any label is answered with -1.

    \b
      mustlink propagate points.h5 --labels few.csv -o out.h5
      mustlink propagate points.h5:/points --labels data.h5:/known -m gfhf --class-mass -o out.h5
      mustlink propagate graph.h5 --labels few.csv -m llgc --alpha 0.9 -o out.h5
      mustlink propagate points.h5 --labels few.csv --prior chances.csv --belief 0.5 -o out.h5
      mustlink propagate pbmc.h5ad --labels pbmc.h5ad:/obs/cell_type -o out.h5ad
      mustlink score out.h5 --truth data.h5:/labels

    The graph made once, for several runs:

    \b
      mustlink graph points.h5 -o graph.h5
      mustlink propagate graph.h5 --labels few.csv -o poisson.h5
      mustlink propagate points.h5 --graph graph.h5 --labels few.csv -m lnp -o lnp.h5

    \b
    few.csv      one label a line, -1 unknown; or a table of the known ones:
                 node,label     nodes are numbered from 0, or named as in DATA,
                 0,3            classes are whole numbers from 0 on, or words;
                 17,1           the answers are among them
    """
    from mustlink_io.jobs.fits import PropagateJob

    return _fit(PropagateJob, given)


def _fit(kind: type[Job], given: dict[str, Any]) -> int:
    """Run a job of the options given, here or on ranks, and print its outcome; the exit code."""
    from mustlink_io.jobs import on_ranks
    from mustlink_io.jobs.run import run
    from mustlink_io.terminal.console import observing
    from mustlink_io.workers.dask_cluster import executor_of

    quiet, as_json, ranks = (given.pop(name) for name in ("quiet", "as_json", "ranks"))
    workers = given.pop("workers"), given.pop("scheduler")
    output = output_of(given["data"], given["output"], given["in_place"])
    job = kind.of({**given, "output": output, "began": program_began()}, ranks=ranks)
    if any(workers) and getattr(job, "graph", None) is not None:
        raise InputError("--graph: says who neighbours are; leave out --workers and --scheduler")
    if any(workers) and ranks is not None:
        raise InputError(
            "--ranks: takes a graph, whose neighbours are known; leave out --workers "
            "and --scheduler, and give them to mustlink graph"
        )
    if ranks is not None and not on_ranks.is_rank():
        on_ranks.check(job, ranks)
        return on_ranks.launch(ranks, sys.argv[1:])
    with observing(quiet) as observer, executor_of(*workers) as executor:
        if ranks is None:
            result: Result | None = run(job, observer, executor)
        else:
            result = on_ranks.run(job, ranks, observer)
    if result is not None:
        done = result
        emit(done.flat(), as_json, lambda _: None if quiet else show(done))
    return 0


def show(result: Result) -> None:
    """Print the outcome of a fit."""
    run, of_classes = result.report, bool(result.classes)
    console = stdout_console()
    values = ", ".join(f"{v:.4g}" for v in result.eigenvalues[:12])
    noun, nouns, choices = "cluster", "clusters", run.choices or {}
    if of_classes:
        noun, nouns = "class", "classes"
        choices = {  # the solver is named under convergence
            name: value
            for name, value in choices.items()
            if value is not False and name != "solver"
        }
    names = _names(result, of_classes)
    facts(
        console,
        [
            ("method", run.method),
            ("nodes", f"{run.n_nodes:,}"),
            ("labels kept", labels_kept(run)),
            ("prior", prior_row(run.constraints)),
            (f"{noun} sizes", sizes_line(run.sizes or (), names, nouns)),
            ("unassigned", nodes_left(run.unassigned)),
            ("unanswered", nodes_left(None if run.unassigned else run.unanswered)),
            ("mean confidence", mean_confidence(run)),
            ("eigenvalues", values or None),
            ("constraints kept", constraints_kept(run.satisfaction)),
            ("on the network", on_network(run.network, names)),
            ("normalised cut", bounded_cut(run.ncut)),
            ("held-out labels", held_out(run.baseline)),
            ("stability", stability_row(run.stability, names)),
            ("feasible", feasible(run)),
            ("edges", _adjusted(run.adjustment)),
            ("  F on them", _spread_of(run.adjustment)),
            *choice_rows(choices),
            ("convergence", run.convergence.status if run.convergence else None),
            ("time, peak memory", f"{clock(run.seconds or 0)}, {size(run.peak_bytes or 0)}"),
            ("written", result.output),
        ],
    )
    stage_table(console, result.stages)


def _names(result: Result, of_classes: bool) -> Sequence[Any]:
    """Names of classes, else their numbers; of clusters the class of most labelled nodes, too."""
    from mustlink_io.hdf5.store import text

    names = [text(name) for name in result.class_names]
    if of_classes:
        return names or result.classes
    return [with_name(at, name) for at, name in enumerate(names)]


def _adjusted(edges: ResultAdjustment | None) -> str | None:
    if edges is None:
        return None
    kinds = ("strengthened", "weakened", "added", "untouched")
    return ", ".join(f"{getattr(edges, kind):,} {kind}" for kind in kinds)


def _spread_of(edges: ResultAdjustment | None) -> str | None:
    """Return how F is distributed over the edges that it changes, which is not known on disk."""
    if edges is None or not edges.F or not edges.strengthened + edges.weakened:
        return None
    return ", ".join(f"{name} {edges.F[at]:.3g}" for at, name in _QUANTILES)


# ------------------------------------------------------------------ plan

_NOT_PLANNED = {"data", "output", "key", "in_place", "overwrite", "quiet", "as_json", "resume"}
_NOT_PLANNED |= {"fresh", "strict", "threads", "beliefs", "confidence", "membership", "workers"}
_NOT_PLANNED |= {"scheduler", "no_model", "hierarchy", "stability"}


def _of_both(own: list[click.Parameter]) -> list[click.Parameter]:
    """The parameters of both commands, those of `cluster` where they share a name."""
    shared = {one.name: one for one in (*propagate.params, *cluster.params)}
    taken = {name: one for name, one in shared.items() if name not in _NOT_PLANNED}
    return [*(taken | {one.name: one for one in own}).values()]


@click.command(
    cls=FitCommand, completed=_of_both, short_help="Memory and time that a run would take."
)
@click.argument("data")
@click.option(
    "--for",
    "command",
    type=click.Choice(["cluster", "propagate"]),
    default="cluster",
    show_default=True,
    help="What to plan.",
)
@click.option("-m", "method", help="As of the command; default as there.")
@clusters("Clusters, or auto: planned as 20.", default="10", show_default=True)
@click.option("--labels", help="Known labels, as of the command.")
@click.option("--prior", metavar="FILE[:DATASET]|laplacian|affinity", help="As of the command.")
@JSON
def plan(data: str, as_json: bool, command: str, ranks: int | None, **given: Any) -> None:
    """Estimate peak memory and seconds of every stage of a run on DATA, without running it.

    Takes the options of the cluster command that decide it, and with --for propagate those of
    propagate; the fits added by --stability, --confidence and --membership are not counted,
    nor workers. With --ranks the memory is that of each. With --memory it tells what would be done
    to fit, or the least that works. DATA may be a size such as 10000000x16, for data that are not
    there yet.

    \b
      mustlink plan points.h5 -k 10
      mustlink plan points.h5 -k 10 -m csp --memory 2GB
      mustlink plan 10000000x16 -k 10 --memory 12GB
      mustlink plan graph.h5 -k 10 --ranks 8
      mustlink plan points.h5 --for propagate -m llgc
      mustlink plan graph.h5 --for propagate --labels few.csv --ranks 4
    """
    from mustlink.context.rates import measured_speed
    from mustlink_io.jobs import on_ranks
    from mustlink_io.jobs.fits import ClusterJob, PropagateJob
    from mustlink_io.jobs.on_disk import shape_named, shape_of
    from mustlink_io.jobs.planning import beyond, plan_job, plan_on_ranks

    kind: type[Job] = ClusterJob
    if command == "propagate":
        kind = PropagateJob
        del given["n_clusters"], given["constraints"]
    elif (given["prior"] or "laplacian") not in ("laplacian", "affinity"):
        raise click.UsageError("--prior FILE: is of mustlink propagate; add --for propagate")
    method = given["method"]
    if method is not None and method not in kind.methods:
        raise click.UsageError(f"-m {method}: no method of mustlink {command}")
    job = kind.of({**given, "data": data, "output": ""}, ranks=ranks)
    shape = shape_named(data) or shape_of(data, job.steps, job.wanted, job.apart)
    job = job.settled(is_graph=shape.d == 0)
    if "labels" in job.methods[job.method].needs and job.labels is None:
        replace(job, labels="labels").check()  # which need not be there yet
    else:
        job.check()
    speed = measured_speed()
    if ranks is None:
        planned = plan_job(job, shape=shape, speed=speed)
    else:
        on_ranks.refuse(job)
        planned = plan_on_ranks(job, shape, ranks, speed)
    what = {"n": shape.n, "d": shape.d, "nnz": shape.nnz, "data": data, "method": job.method}
    summary = planned.to_dict()
    if job.time_limit is not None:
        summary["changes"] += beyond(planned, job.time_limit)
    emit(what | summary, as_json, show_plan)


def _least(result: Mapping[str, Any]) -> str:
    """The least memory; more than the peak where little is done, as what compiles must fit, too."""
    from mustlink.core.resources import size_text

    words = size_text(result["least_memory"], up=True)
    if result["least_memory"] <= result["peak_bytes"]:
        return words
    return f"{words}: kernels that are compiled at their first use must fit, too"


def _peak(result: Mapping[str, Any]) -> str:
    """The peak of what is sure to be done, and that of all that may be."""
    peak, most = (size(result[name]) for name in ("peak_bytes", "most_bytes"))
    return peak if peak == most else f"{peak}; {most} with what the data may ask for"


def _memory(result: Mapping[str, Any]) -> tuple[str, str | None]:
    """The limit; where nobody named it whose it is, and whether a run would keep to it."""
    limit, here = result["memory"], result["memory_here"]
    if not result["memory_source"]:
        return "memory given", None if limit is None else size(limit)
    kept = "kept to" if limit is not None else "enough"
    return "memory here", f"{size(here)}, {result['memory_source']}: {kept}"


def show_plan(result: Mapping[str, Any]) -> None:
    """Print the plan of a run."""
    console = stdout_console()
    rows = [
        (one["name"], clock(one["seconds"]), size(one["peak_bytes"]), one["how"])
        for one in result["stages"]
    ]
    table(console, ("stage", "time", "memory", "how"), rows)
    what = f"{result['n']:,} points of {result['d']:,} coordinates"
    if not result["d"]:
        what = f"{result['n']:,} nodes, {result['nnz']:,} weights"
    facts(
        console,
        [
            ("data", f"{result['data']}: {what}"),
            ("method", result["method"]),
            ("time, peak memory", f"{planned_time(result)}, {_peak(result)}"),
            *(("time", why) for why in result["why"]),
            _memory(result),
            ("least that works", _least(result)),
            *(("to fit", change) for change in result["changes"]),
        ],
    )
