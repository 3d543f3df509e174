"""`mustlink cluster`: its arguments and its help."""

from __future__ import annotations

from typing import Any

import click

from mustlink_io.commands.options import (
    AFFINITY,
    CLUSTER_OWN,
    FRESH,
    IN_PLACE,
    JSON,
    KEY,
    MAX_ITER,
    MEMORY,
    METRIC,
    NEIGHBORS,
    OUTPUT,
    OVERWRITE,
    QUIET,
    RESUME,
    SEED,
    THREADS,
    TOL,
    WEIGHTS,
    method_help,
    output_of,
    several,
)
from mustlink_io.jobs.methods import METHODS


@click.command(short_help="Points or a graph to clusters.")
@click.argument("data")
@click.option("-k", "n_clusters", type=int, required=True, help="Number of clusters.")
@click.option(
    "-m",
    "method",
    type=click.Choice(list(METHODS)),
    help=method_help(METHODS) + " Default: csp with side information, else ncut.",
)
@several(OUTPUT, IN_PLACE, KEY, OVERWRITE)
@click.option("--labels", help="Known labels, -1 unknown: H5[:DATASET], .npy, .csv, .txt.")
@click.option(
    "--constraints",
    help="Pairs: .csv or .parquet with header i,j,belief, or H5:GROUP. Or a second graph: "
    ".graphml, .metis, .npz, .mtx, H5:GROUP, an edge list (.edges, .txt, .tsv, .csv).",
)
@click.option("--strict", is_flag=True, help="Contradictory constraints are an error.")
@several(*CLUSTER_OWN)
@several(AFFINITY, NEIGHBORS, METRIC, WEIGHTS)
@click.option(
    "--solver",
    type=click.Choice(
        ["auto", "dense", "lobpcg", "shift-invert", "lanczos", "cg", "diffusion", "krylov"]
    ),
    help="Of the eigenproblem; srcp, e2cp: of the propagation; not all for every method.",
)
@several(TOL, MAX_ITER)
@click.option("--isolated", type=click.Choice(["drop", "assign"]), help="Drop: label -1.")
@several(SEED, THREADS, MEMORY, RESUME, FRESH, QUIET, JSON)
def cluster(
    method: str | None,
    labels: str | None,
    constraints: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Cluster DATA into K clusters; OUT.h5 gets /labels, /embedding, /report.

    \b
      mustlink cluster points.h5:/points -k 10 -o out.h5
      mustlink cluster points.h5 -k 10 --labels few.csv -o out.h5
      mustlink cluster graph.mtx -k 5 -m csp --constraints pairs.csv -o out.h5
      mustlink cluster points.h5 -k 10 -m csc-gfhf --labels few.csv -o out.h5
      mustlink cluster points.h5 -k 10 -m srcp --constraints pairs.csv -o out.h5
      mustlink cluster points.npy -k 8 --json --quiet -o out.h5 | jq .sizes
      mustlink cluster pbmc.h5ad -k 8 --labels pbmc.h5ad:/obs/cell_type -o out.h5ad

    \b
    few.csv      one label a line, -1 unknown; or the header node,label
    pairs.csv    i,j,belief     belief > 0: must-link, < 0: cannot-link;
                 0,17,1         nodes are numbered from 0, or named as in DATA
                 0,23,-1
    """  # noqa: D301  (click marks unwrapped examples with \b)
    from mustlink_io.jobs.cluster import ClusterJob
    from mustlink_io.jobs.job import run
    from mustlink_io.terminal.progress import observing
    from mustlink_io.terminal.summary import emit, show_cluster

    asked = {name: given.pop(name) for name in ("data", "output", "n_clusters", "strict")}
    limits = {name: given.pop(name) for name in ("threads", "memory", "resume", "fresh")}
    into = {name: given.pop(name) for name in ("key", "in_place", "overwrite")}
    asked["output"] = output_of(asked["data"], asked["output"], into["in_place"])
    job = ClusterJob(
        **asked,
        **limits,
        **into,
        method=method or ("csp" if labels or constraints else "ncut"),
        labels=labels,
        constraints=constraints,
        params={name: value for name, value in given.items() if value is not None},
    )
    with observing(quiet) as observer:
        result = run(job, observer)
    emit(result, as_json, show_cluster)
