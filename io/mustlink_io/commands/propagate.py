"""`mustlink propagate`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.method_options import PROPAGATE_OWN, method_help
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
    number_or_file,
    output_of,
    program_began,
    several,
)
from mustlink_io.commands.preparing_options import PREPARING, PreparingCommand
from mustlink_io.jobs.methods import PROPAGATORS
from mustlink_io.terminal.console import clock, facts, size, stage_table, stdout_console
from mustlink_io.terminal.summary import (
    choice_rows,
    emit,
    held_out,
    labels_kept,
    mean_confidence,
    prior_row,
    sizes_line,
)

if TYPE_CHECKING:
    from mustlink_io.hdf5.result import Result


@click.command(cls=PreparingCommand, short_help="Labels of a few nodes to a class of every node.")
@click.argument("data")
@click.option(
    "--labels",
    required=True,
    metavar="FILE[:DATASET]",
    help="Known labels, -1 unknown: HDF5, .npy, .npz, .csv, .txt; of a picture strokes as .png.",
)
@click.option(
    "-m",
    "method",
    type=click.Choice(list(PROPAGATORS)),
    help=method_help(PROPAGATORS)
    + " Default: poisson for points, as it does well from one label a "
    "class on; where classes have unequally many labels, add --class-shares; gfhf with "
    "--prior. llgc for a graph, how far labels travel chosen by labels held out; gfhf for a "
    "picture's.",
)
@several(OUTPUT, IN_PLACE, KEY, OVERWRITE)
@click.option(
    "--graph",
    metavar="FILE[:DATASET]",
    help="Neighbour graph of the points, made before; lnp, llelp, ltsalp fit to --neighbors of it.",
)
@click.option(
    "--prior",
    metavar="FILE[:DATASET]",
    help="What something else says of every node, such as a classifier: n rows of chances, a "
    "column for each class in their order, or called as they are in a table, .h5 or .h5ad "
    "(/prior, or /label_distributions of an earlier answer).",
)
@click.option(
    "--belief",
    metavar="NUMBER|FILE[:DATASET]",
    callback=number_or_file,
    help="How much that counts, >= 0, beside weights of edges: a number, or one a node; default 1.",
)
@click.option(
    "--membership",
    is_flag=True,
    help="Also /membership, the chance of every class, and /confidence is that of the answer. With "
    "15 labels and 3 a class they are calibrated by labels held out of five more fits.",
)
@several(*PROPAGATE_OWN)
@several(WEIGHTS, *PREPARING)
@several(VIEW, VIEW_WEIGHTS)
@several(AS, AFFINITY, NEIGHBORS, METRIC, EDGE_WEIGHTS)
@click.option("--solver", type=click.Choice(["auto", "dense", "cg"]), help="Of the equations.")
@several(TOL, MAX_ITER, SEED, THREADS, MEMORY, TIME)
@several(RANKS, WORKERS, SCHEDULER, RESUME, FRESH, NO_MODEL, QUIET, JSON)
def propagate(quiet: bool, as_json: bool, ranks: int | None, **given: Any) -> int:
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
    from mustlink_io.jobs import propagate_on_ranks
    from mustlink_io.jobs.methods import steps_of
    from mustlink_io.jobs.mpi_launch import is_rank, launch
    from mustlink_io.jobs.propagate import PropagateJob, usual_methods
    from mustlink_io.jobs.run import run
    from mustlink_io.terminal.progress import observing
    from mustlink_io.workers.dask_cluster import executor_of

    names = ("data", "output", "method", "labels", "graph", "prior", "belief", "membership")
    asked = {name: given.pop(name) for name in names}
    run_as = ("threads", "memory", "time_limit", "resume", "fresh", "no_model")
    limits = {name: given.pop(name) for name in run_as}
    limits |= {name: given.pop(name) for name in ("key", "in_place", "overwrite")}
    limits["began"] = program_began()
    asked["output"] = output_of(asked["data"], asked["output"], limits["in_place"])
    if asked["method"] is None:
        asked |= usual_methods(asked["prior"])
    steps, asked["sample_weight"] = steps_of(given), given.pop("sample_weight")
    asked["views"] = given.pop("views")
    asked["read_as"] = given.pop("read_as")
    where = given.pop("workers"), given.pop("scheduler")
    if asked["graph"] is not None and any(where):
        raise InputError("--graph: says who neighbours are; leave out --workers and --scheduler")
    params = {name: value for name, value in given.items() if value is not None}
    job = PropagateJob(**asked, **limits, steps=steps, params=params)
    if ranks is not None:
        check_no_workers(where)
        if not is_rank():
            propagate_on_ranks.check(job, ranks)
            return launch(ranks, sys.argv[1:])
    with observing(quiet) as observer, executor_of(*where) as executor:
        if ranks is None:
            result: Result | None = run(job, observer, executor)
        else:
            result = propagate_on_ranks.run(job, ranks, observer)
    if result is not None:
        told = result
        emit(told.flat(), as_json, lambda _: show_propagate(told))
    return 0


def show_propagate(result: Result) -> None:
    """Print the outcome of `mustlink propagate`."""
    told = result.report
    console = stdout_console()
    stage_table(console, result.stages)
    choices = {
        name: value
        for name, value in (told.choices or {}).items()
        if value is not False and name != "solver"  # named under convergence
    }
    facts(
        console,
        [
            ("method", told.method),
            ("nodes", f"{told.n_nodes:,}"),
            ("labels kept", labels_kept(told)),
            ("prior", prior_row(told.constraints)),
            ("held-out labels", held_out(told.baseline)),
            ("class sizes", sizes_line(told.sizes or (), _class_names(result), "classes")),
            ("unanswered", f"{told.unanswered:,} nodes (label -1)" if told.unanswered else None),
            ("mean confidence", mean_confidence(told)),
            *choice_rows(choices),
            ("convergence", told.convergence.status if told.convergence else None),
            ("time, peak memory", f"{clock(told.seconds or 0)}, {size(told.peak_bytes or 0)}"),
            ("written", result.output),
        ],
    )


def _class_names(result: Result) -> Sequence[Any]:
    """Names of the classes, else their numbers."""
    from mustlink_io.hdf5.store import text

    return [text(name) for name in result.class_names] or result.classes
