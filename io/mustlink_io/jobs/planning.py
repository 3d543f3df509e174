"""What a job will take, before anything runs: its input is read, its plan is the engine's."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from mustlink.context.fit_plan import (
    Plan,
    PlanInput,
    plan_in_memory,
    plan_of_rank,
    plan_of_representatives,
    plan_on_disk,
    representatives_for,
)
from mustlink.context.method_cost import MOST_TRIED, FitInput, Size, full_problem, home_for
from mustlink.context.neighbor_cost import compared_bytes, sparse_bytes
from mustlink.context.rates import other_seconds
from mustlink.core.check import as_integer
from mustlink.core.observe import duration_text
from mustlink.core.resources import (
    AUTO,
    Allowed,
    allowed_memory,
    automatic_memory,
    named_memory,
    size_text,
)
from mustlink.errors import InputError
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.neighbors.distances import BY_CELLS
from mustlink.neighbors.representatives import check_representatives
from mustlink.propagation.held_out import FOLDS
from mustlink.selection.resolve import TRUSTED
from mustlink.space.division import Division
from mustlink_io import formats
from mustlink_io.hdf5.file_names import named_view
from mustlink_io.jobs.on_disk import (
    Probe,
    Shape,
    cost_on_disk,
    in_memory_only,
    is_by_rows,
    probe_of,
    refuse_large_text,
    shape_of,
    tells_shape,
)
from mustlink_io.jobs.side_information import wanted_of_view

_GRAPH = ("kNN graph", "weights", "components")
_AS_THEY_ARE = "how long rows are compared depends on them, by a factor of eight"
_VIEWS = "neighbours in views that have a name are searched, too"
_SHARE = 0.4  # of the time, beyond which neighbours are searched in another way
_SINGLE = 1e-4  # residual down to which vectors of ranks are in single precision
_SMALL = 64  # times the bytes of a file that are less than what may be taken
_SMOOTH = 4  # times K: vectors of a subspace, where none is named


def beyond(plan: Plan, limit: float) -> list[str]:
    """What a plan says about a time limit in seconds; nothing where it is within."""
    if plan.seconds <= limit:
        return []
    graph = sum(stage.seconds for stage in plan.stages if stage.name in _GRAPH)
    wanted, alone = duration_text(limit), duration_text(round(graph, 1))
    if graph > _SHARE * limit:
        return [f"--time {wanted}: the graph alone takes about {alone}; a coarser search is used"]
    whole, promise = duration_text(round(plan.seconds, 1)), plan.promise or "about"
    return [
        f"--time {wanted}: {promise} {whole} would be needed; the best answer by then is written"
    ]


def check_room(plan: Plan, output: str) -> None:
    """Raise InputError where temporary files will not fit beside the output."""
    folder = Path(output).resolve().parent
    free = shutil.disk_usage(folder).free
    if plan.disk_bytes > free:
        raise InputError(
            f"{output}: temporary files take up to {size_text(plan.disk_bytes, up=True)}, but "
            f"{size_text(free)} are free in {folder}; make room, or write to another disk"
        )


def settled_here(job: Any) -> tuple[Allowed | None, Plan | None]:
    """What a job is allowed here, and its plan where that is a number; raises InputError.

    What is not decided before the data are read is None: a text does not say how large it is, and a
    small file is read sooner than looked at. The fit decides then.
    """
    named = named_memory(job.memory)
    if named is not None:
        return named, None if named.limit is None else plan_job(job)
    here, steps = automatic_memory(), job.steps
    if here.limit is None:
        return Allowed(), None
    refuse_large_text(job, here)
    if _SMALL * formats.parse(job.data).path.stat().st_size <= here.limit:
        return None, None
    is_read = steps.one_hot or steps.drop_missing or steps.drop
    is_read = is_read or job.wanted in ("bipartite", "directed")
    others = (named_view(text)[1] for text in job.views)
    if is_read or not all(map(tells_shape, (job.data, *others))):
        return None, None
    shape = shape_of(job.data, steps, job.wanted, job.apart)
    is_points = shape.d > 0 and job.params.get("affinity") not in PRECOMPUTED
    fit = _input_of(job.settled(is_graph=not is_points), shape, Probe(), is_points)
    plain = job.params.get("representatives") is None
    if plain and _unlimited(fit, here.enforced) <= here.limit:  # without a look at the points
        return Allowed(), None
    plan = plan_job(job, here=here)
    return plan.allowed, plan


def _unlimited(fit: PlanInput, at_most: bool) -> int:
    """Bytes that a fit takes where no memory is named."""
    rival = (full_problem(fit.clusters or fit.cost.columns),) if fit.rival else ()
    return fit.data.unlimited(fit.cost, *rival, at_most=at_most)


def plan_job(
    job: Any, *, shape: Shape | None = None, speed: float = 1.0, here: Allowed | None = None
) -> Plan:
    """Plan a job of `mustlink cluster` or `mustlink propagate`; raises InputError.

    `speed` is how many times slower than the machine of the rates this one is, `here` what
    memory="auto" stands for. The error for a memory that is too small names the least that works.
    """
    named = named_memory(job.memory)
    found = named or here or automatic_memory()
    if shape is None:
        refuse_large_text(job, found)
        shape = shape_of(job.data, job.steps, job.wanted, job.apart)
    if shape.d == 0:
        job.check_graph(job.data)
    is_points = shape.d > 0 and job.params.get("affinity") not in PRECOMPUTED
    job = job.settled(is_graph=not is_points)
    job.check_count(shape.n)
    other = is_points and _searched(job, shape) > 0
    seen = probe_of(job.data, job.steps) if is_points and not other else Probe()
    if other:
        seen = replace(seen, later=_AS_THEY_ARE)
    if not job.steps.is_nothing:  # of data that are prepared, only which rows are equal
        seen = Probe(distinct=seen.distinct)
    fit = _input_of(job, shape, seen, is_points)
    if is_points and (p := _representatives(job, fit, found)) is not None:
        plan = plan_of_representatives(replace(fit, memory=found.limit), p)
        if found.enforced and found.limit is not None and plan.least > found.limit:
            _refuse(job, found, plan.least, None, on_disk=False)
        return replace(plan, method=job.method, here=found).at(speed)
    alone = stored = None
    if is_points or is_by_rows(job):
        alone = in_memory_only(job, is_points=is_points)
        # On disk every row is a node.
        nnz = int(seen.symmetric * shape.n * fit.data.k) if is_points else shape.nnz
        stored = None if alone else cost_on_disk(job, shape.n, nnz)

    def least(limit: int | None) -> int:
        home = home_for(limit, fit.cost, fit.data, stored)
        if home.name is None and found.enforced:
            _refuse(job, found, home.least, alone, on_disk=stored is not None)
        return home.least

    memory = found.limit
    if named is None:
        memory = allowed_memory(
            AUTO, lambda at_most: _unlimited(fit, at_most), least, found=found
        ).limit
    else:
        least(memory)
    fit, home = replace(fit, memory=memory), home_for(memory, fit.cost, fit.data, stored)
    if home.name == "disk" and stored is not None:
        plan = plan_on_disk(fit, home, stored)
    else:
        plan = plan_in_memory(fit, home)
    return replace(plan, method=job.method, here=found).at(speed)


def _representatives(job: Any, fit: PlanInput, found: Allowed) -> int | None:
    """How many stand for all points; None: every point is a node."""
    p = job.params.get("representatives")
    if p == AUTO:
        limit = math.inf if job.time_limit is None else job.time_limit
        return representatives_for(found.limit, limit, fit.cost, fit.data, fit.clusters)[0]
    return p if p is None else check_representatives(p, fit.data.rows, fit.clusters)


def _input_of(job: Any, shape: Shape, seen: Probe, is_points: bool) -> PlanInput:
    """What the engine needs to know of a job on data of some shape, a sample of which was seen."""
    n, of_labels = shape.n, job.verb == "propagate"
    others = sum(_weights_of_view(text, job.neighbours) for text in job.views)
    beside, cost = job.beside(n), job.stated_cost()
    if is_points:
        nodes = n if seen.distinct is None or job.views else seen.distinct
        k = min(job.neighbours, n - 1)
        size = FitInput(nodes, others, shape.d, k, n, beside=beside)
        if searched := _searched(job, shape):
            d = -(-2 * shape.entries // n) if _is_sparse(job, shape) else shape.d
            seconds = other_seconds(n, shape.d, shape.entries if d != shape.d else 0)
            how: dict[str, Any] = {
                "searched": searched,
                "search_seconds": seconds,
                "in_file": False,
            }
            size = replace(size, d=max(1, d), **how)
    else:  # of directed graphs every node is there twice
        often = 2 if job.doubles else 1
        size = FitInput(often * n, often * shape.nnz + others, 0, 0, n, beside=beside)
        cost = cost.of_given()
    views = "given" if "graph_weights" in job.params else "chosen"
    tries_ways = of_labels and not is_points and job.methods[job.method].spreads
    ways = len(job.estimator()._ways(network=True)) if tries_ways else 1
    if job.method == "ncut" and not of_labels and _is_auto(job, "variant"):
        from mustlink.clusterers.ncut import BY_EVIDENCE

        ways = len(BY_EVIDENCE)
    labels_alone = job.labels is not None and getattr(job, "constraints", None) is None
    return PlanInput(
        data=size,
        cost=cost,
        memory=None,
        file_bytes=shape.file_bytes,
        clusters=job.clusters_planned,
        symmetric=seen.symmetric,
        dimension=seen.dimension,
        sooner=seen.sooner,
        later=seen.later or (_VIEWS if any(named_view(one)[0] for one in job.views) else ""),
        labels=is_points and job.labels is not None,
        of_labels=of_labels,
        folds=FOLDS,
        ways=ways,
        views=views if job.views else "",
        doubled=job.doubles and len(job.inputs) > 1,
        rival=TRUSTED if labels_alone and _is_auto(job, "subspace") else 0.0,
        regularized=not shape.even and _is_auto(job, "regularization"),
        caches_vectors=job.method == "ncut" and not of_labels,
        trials=_trials(job, n, is_points=is_points),
    )


def _trials(job: Any, n: int, *, is_points: bool) -> str:
    """By what a method is chosen before it is fitted; "" where none is."""
    if job.methods[job.method].estimator != "Auto" or not (is_points or n <= MOST_TRIED):
        return ""
    if getattr(job, "constraints", None) is not None:
        return "pairs"
    return "" if job.labels is None else "labels"


def _weights_of_view(text: str, k: int) -> int:
    """Weights of another graph of the nodes, or of that which rows of a view become."""
    name, file = named_view(text)
    if name is None:
        return int(shape_of(file, want="graph").nnz)
    want, place = wanted_of_view(file), formats.parse(file)
    shape = shape_of(file if want is None else str(place.path), want=want)
    return int(2 * k * shape.n) if shape.d else shape.nnz


def _is_sparse(job: Any, shape: Shape) -> bool:
    """Whether points stay sparse."""
    return bool(shape.entries and job.takes_sparse and job.steps.is_nothing)


def _searched(job: Any, shape: Shape) -> int:
    """Bytes of a search that is not by cells, 0 where it is."""
    k, metric = min(job.neighbours, shape.n - 1), job.params.get("metric", AUTO)
    if _is_sparse(job, shape):
        return sparse_bytes(shape.n, shape.entries, k)
    usual = metric in (AUTO, *BY_CELLS)
    return 0 if usual else compared_bytes(shape.n, shape.d, k)


def _is_auto(job: Any, name: str) -> bool:
    """Whether the method has a parameter, and decides it by evidence."""
    return name in job.methods[job.method].options and job.params.get(name, "auto") == "auto"


def _refuse(job: Any, here: Allowed, needed: int, alone: str | None, *, on_disk: bool) -> NoReturn:
    """Raise InputError for a memory in which a job does not run."""
    least = size_text(needed, up=True)
    limit = f"{'memory' if here.source else '--memory'}: {here.words}"
    if alone is not None:
        raise InputError(
            f"{limit}, in which the graph of {job.data} stays on disk, where "
            f"{alone} does not run; do without, or give {least}"
        )
    raise InputError(
        f"{limit}, but {job.data} with -m {job.method} needs at least {least}"
        + (", with graph and vectors on disk" if on_disk else "")
    )


def plan_on_ranks(job: Any, shape: Shape, ranks: int, speed: float) -> Plan:
    """The plan of a rank of a job that runs on ranks; raises InputError."""
    if shape.d:
        raise InputError(f"{job.data}: --ranks takes a graph; make one by: mustlink graph")
    Division(shape.n, ranks)
    job.check_count(shape.n)
    of_labels, grounded = job.verb == "propagate", job.method == "gfhf"
    if of_labels:
        k = columns = job.stated_cost().columns
        item = 8
    else:
        k, (columns, item) = job.n_clusters, _vectors_on_ranks(job, shape.n)
    how: dict[str, Any] = {"item": item, "grounded": grounded, "k": k, "of_labels": of_labels}
    plan = plan_of_rank(Size(shape.n, shape.nnz), columns, ranks, shape.file_bytes, **how)
    return replace(plan, method=job.method).at(speed)


def _vectors_on_ranks(job: Any, n: int) -> tuple[int, int]:
    """How many vectors are found on ranks, and bytes of a number."""
    from mustlink.context.method_cost import n_guard_vectors
    from mustlink.eigen.plain_solve import default_tolerance

    wanted = job.n_clusters
    if job.method != "ncut":
        subspace = job.params.get("subspace", _SMOOTH * wanted)
        wanted = (
            _SMOOTH * wanted if isinstance(subspace, str) else as_integer(subspace, "subspace", 1)
        )
    tol = job.params.get("tol") or default_tolerance(n)
    return wanted + n_guard_vectors(wanted), 4 if tol >= _SINGLE else 8
