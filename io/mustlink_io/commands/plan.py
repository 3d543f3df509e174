"""`mustlink plan`: what a run would take, told before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from mustlink_io.commands.cluster import cluster
from mustlink_io.commands.options import JSON, cluster_count
from mustlink_io.commands.preparing_options import PreparingCommand
from mustlink_io.commands.propagate import propagate
from mustlink_io.terminal.console import clock, facts, planned_time, size, stdout_console, table
from mustlink_io.terminal.summary import emit

_OUTPUT = {"output", "key", "in_place", "overwrite"}
_APART = _OUTPUT | {"data", "quiet", "as_json", "resume", "fresh", "strict", "threads", "beliefs"}
_APART |= {"confidence", "membership", "workers", "scheduler"}  # not planned
_APART |= {"no_model", "hierarchy"}


def _plan(data: str, as_json: bool, **given: Any) -> None:
    """Estimate peak memory and seconds of every stage of a run on DATA, without running it.

    Takes the options of the cluster command that decide it, and with --for propagate those of
    propagate; fits that --confidence and --membership add are not counted, nor workers. With
    --ranks the memory is that of each. With --memory it tells what would be done to fit, or the
    least that works. DATA may be a size such as 10000000x16, for data that are not there yet.

    \b
      mustlink plan points.h5 -k 10
      mustlink plan points.h5 -k 10 -m csp --memory 2GB
      mustlink plan 10000000x16 -k 10 --memory 12GB
      mustlink plan graph.h5 -k 10 --ranks 8
      mustlink plan points.h5 --for propagate -m llgc
      mustlink plan graph.h5 --for propagate --labels few.csv --ranks 4
    """
    from mustlink.cost.rates import measured_speed
    from mustlink_io.formats.own_columns import columns_apart
    from mustlink_io.jobs import on_ranks, propagate_on_ranks
    from mustlink_io.jobs.cluster import ClusterJob, usual_method
    from mustlink_io.jobs.data_shape import shape_named, shape_of
    from mustlink_io.jobs.methods import METHODS, steps_of
    from mustlink_io.jobs.planning import beyond, plan_job, plan_on_ranks
    from mustlink_io.jobs.propagate import PropagateJob, usual_methods, usual_on

    command, ranks = given.pop("command"), given.pop("ranks")
    asked = {name: given.pop(name) for name in ("labels", "memory", "time_limit")}
    method, constraints = given.pop("method"), given.pop("constraints")
    n_clusters = given.pop("n_clusters")
    asked["steps"], asked["sample_weight"] = steps_of(given), given.pop("sample_weight")
    asked["read_as"], asked["views"] = given.pop("read_as"), given.pop("views")
    params = {name: value for name, value in given.items() if value is not None}
    job: Any
    reads = METHODS[method].reads if command == "cluster" and method in METHODS else None
    apart = columns_apart(data, asked["labels"], asked["sample_weight"])
    shape = shape_named(data) or shape_of(data, asked["steps"], reads or asked["read_as"], apart)
    if command == "propagate":
        asked |= {name: params.pop(name, None) for name in ("graph", "prior", "belief")}
        usual = usual_on(data) if shape.d == 0 else usual_methods(asked["prior"])["method"]
        job = PropagateJob(data=data, output="", method=method or usual, params=params, **asked)
    else:
        if params.get("prior", "laplacian") not in ("laplacian", "affinity"):
            raise click.UsageError("--prior FILE: is of mustlink propagate; add --for propagate")
        soft = {name: params.pop(name, None) for name in ("soft_labels", "belief")}
        job = ClusterJob(
            data=data,
            output="",
            n_clusters=n_clusters,
            method=method or usual_method(asked["labels"], constraints, soft["soft_labels"]),
            constraints=constraints,
            params=params,
            **soft,
            **asked,
        )
    if job.method not in job.methods:
        raise click.UsageError(f"-m {job.method}: no method of mustlink {command}")
    if "labels" in job.methods[job.method].needs and job.labels is None:
        replace(job, labels="labels").check()  # which need not be there yet
    else:
        job.check()
    speed = measured_speed()
    if ranks is None:
        plan = plan_job(job, shape=shape, speed=speed)
    else:
        (propagate_on_ranks if command == "propagate" else on_ranks).refuse(job)
        plan = plan_on_ranks(job, shape, ranks, speed)
    size = {"n": shape.n, "d": shape.d, "nnz": shape.nnz, "data": data, "method": job.method}
    told = plan.to_dict()
    if job.time_limit is not None:
        told["changes"] += beyond(plan, job.time_limit)
    emit(size | told, as_json, show_plan)


def _parameters() -> list[click.Parameter]:
    """The parameters of both commands, those of `cluster` where they share a name."""
    shared = {one.name: one for one in (*propagate.params, *cluster.params)}
    method = click.Option(["-m", "method"], help="As of the command; default as there.")
    clusters = click.Option(
        ["-k", "n_clusters"], metavar="K|auto", callback=cluster_count, default="10",
        show_default=True, help="Clusters, or auto: planned as 20.",
    )  # fmt: skip
    command = click.Option(
        ["--for", "command"], type=click.Choice(["cluster", "propagate"]), default="cluster",
        show_default=True, help="What to plan.",
    )  # fmt: skip
    labels = click.Option(["--labels"], help="Known labels, as of the command.")
    prior = click.Option(
        ["--prior"], metavar="FILE[:DATASET]|laplacian|affinity", help="As of the command.",
    )  # fmt: skip
    own: dict[str | None, click.Parameter] = {
        "method": method, "n_clusters": clusters, "labels": labels, "prior": prior,
    }  # fmt: skip
    rest = [own.get(name, one) for name, one in shared.items() if name not in _APART]
    return [click.Argument(["data"]), command, *rest]


plan = JSON(
    PreparingCommand(
        "plan",
        params=_parameters(),
        callback=_plan,
        help=_plan.__doc__,
        short_help="Memory and time that a run would take.",
    )
)


def _least(result: Mapping[str, Any]) -> str:
    """The least memory; more than the peak where little is done, as what compiles must fit, too."""
    from mustlink.cost.process_memory import size_text

    told = size_text(result["least_memory"], up=True)
    if result["least_memory"] <= result["peak_bytes"]:
        return told
    return f"{told}: kernels that are compiled at their first use must fit, too"


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
    memory = result["memory"]
    facts(
        console,
        [
            ("data", f"{result['data']}: {what}"),
            ("method", result["method"]),
            ("time, peak memory", f"{planned_time(result)}, {size(result['peak_bytes'])}"),
            *(("time", why) for why in result["why"]),
            ("memory given", None if memory is None else size(memory)),
            ("least that works", _least(result)),
            *(("to fit", change) for change in result["changes"]),
        ],
    )
