"""The stages of a job after its graph: what each takes in memory and time."""

from __future__ import annotations

from typing import Any

from mustlink.cost.method_cost import FACTORS, Cost, Size, entry_bytes, full_problem
from mustlink.cost.process_memory import PROGRAM
from mustlink.cost.sample_fits import sample_bytes
from mustlink.cost.work import rival_seconds
from mustlink.selection.resolve import TRUSTED
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.held_out import STAGE, seconds_for, spreading_seconds
from mustlink_io.jobs.methods import PROPAGATORS
from mustlink_io.jobs.plan import StagePlan
from mustlink_io.jobs.rates import duration

_LOADED = 8  # columns that a product could take in the time in which its matrix is read
_NARROW = 60  # columns up to which products with the graph take longest
_NUMBERS = 4  # of every row: its node, its label given and found, how sure that is
_TRIED = 12  # columns a cluster, of smooth subspaces and the full problem of a fit to constraints
_TRIALS, _FITS = 6, 2  # such fits of senders and of receivers: to a part of them, and to all
_SAMPLE = 50_000  # rows of k-means with all its starts
_CLUSTERS = 60  # by which regularisations are compared, at most


def solving_stages(
    cost: Cost, size: Size, held: int, single: bool, job: Any, shape: Shape, hard: bool
) -> list[StagePlan]:
    """The stages after the graph, which has `size`; of a `hard` one the solver takes more."""
    n, nnz, clusters = size.n, size.nnz, job.clusters_planned or cost.columns
    at_rest = PROGRAM + held + size.operator(single)
    hard_peaks = cost.hard_peaks(size, single=single) if hard else (0, 0)
    set_up, eliminated = (held + peak for peak in hard_peaks)
    vectors = cost.columns * n * entry_bytes(single)
    embedding = clusters * n * entry_bytes(single)
    found = [
        StagePlan("order of the nodes", at_rest, duration("order of the nodes", nnz)),
        StagePlan("Laplacian", at_rest, duration("Laplacian", nnz)),
        StagePlan("multigrid set-up", max(at_rest, set_up), duration("multigrid set-up", nnz)),
    ]
    if cost.spreads:
        how = "more with thousands of pairs"
        peak = at_rest + FACTORS
        found.append(StagePlan("constraint propagation", peak, spreading_seconds(n), how))
    if shape.d == 0 and not shape.even and chooses_regularization(job):
        name, work = "candidate regularisations", nnz * min(clusters, _CLUSTERS)
        found.append(StagePlan(name, at_rest + 2 * vectors, duration(name, work)))
    name = "propagating" if job.methods is PROPAGATORS else "eigenvectors"
    peak = max(held + cost.peak(size, single=single, usual=True), eliminated)
    if name == "propagating":
        seconds = duration(name, nnz * (cost.columns + _LOADED))
    else:
        seconds = duration("eigenvectors", nnz * cost.columns)
    seconds += duration("steps", nnz * cost.columns * (cost.most_steps or 0))
    if name == "eigenvectors":
        seconds += duration("wide blocks", n * cost.columns * max(cost.columns - _NARROW, 0))
    found.append(StagePlan(name, peak, seconds))
    if job.doubles and len(job.inputs) > 1:
        fit = duration("eigenvectors", nnz * _TRIED * clusters)
        found.append(StagePlan("choosing by held-out constraints", peak, _TRIALS * fit))
        found.append(StagePlan("constrained vectors", peak, _FITS * fit))
    if _has_rival(job):
        peak = held + full_problem(clusters).peak(size, single=single, usual=True)
        if job.memory is None or peak <= job.memory:
            how = f"where smooth vectors keep less than {TRUSTED:.0%} of labels held out"
            found.append(StagePlan("full problem", peak, rival_seconds(size, clusters), how))
    found.append(StagePlan("clusters", at_rest + vectors + 3 * embedding, _clustering(n, clusters)))
    answered = max(at_rest + vectors, held + answers_peak(cost, size, single, shape.n))
    peak = answered + sample_bytes(shape.n, shape.d, clusters, cost)
    if shape.d and job.labels is not None and (job.memory is None or peak <= job.memory):
        found.append(StagePlan(STAGE, peak, seconds_for(shape.n, clusters, cost)))
    found.append(StagePlan("looking at the result", at_rest, duration("looking", nnz)))
    out = shape.n * (8 + 8 * clusters)
    found.append(StagePlan("writing", answered, duration("writing", out)))
    return found


def chooses_regularization(job: Any) -> bool:
    """Whether degrees of a given graph are regularised by evidence."""
    offered = "regularization" in job.methods[job.method].options
    return offered and job.params.get("regularization", "auto") == "auto"


def _has_rival(job: Any) -> bool:
    """Whether the full problem may be tried beside the smooth subspace: labels alone are known."""
    offered = "subspace" in job.methods[job.method].options
    known = job.labels is not None and getattr(job, "constraints", None) is None
    return offered and known and job.params.get("subspace", "auto") == "auto"


def answers_peak(cost: Cost, size: Size, single: bool, rows: int) -> int:
    """Peak while answers of the nodes become those of all rows: a number for every class.

    The blocks of the iteration are freed by then.
    """
    of_nodes = 8 * cost.held * size.n if cost.held else 2 * entry_bytes(single) * size.n
    there = PROGRAM + size.operator(single) + int(cost.columns * of_nodes)
    return there + 8 * rows * (cost.least + _NUMBERS)


def _clustering(n: int, clusters: int) -> float:
    """Seconds of k-means: on a sample many times, then on all."""
    sample = duration("k-means", min(n, _SAMPLE) * clusters**2)
    return duration("clusters", n * clusters) + sample
