"""Which job runs next: plans, shares of the memory, and an order without starvation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mustlink.cost.process_memory import size_text
from mustlink.errors import InputError
from mustlink_io.batch.arguments import Ready
from mustlink_io.jobs.planning import plan_job

MARGIN = 1.2  # of an estimate: what it may be off by
_GRAIN = 10**6  # shares are whole megabytes


@dataclass(frozen=True)
class Estimate:
    """What a job is expected to take, and the method for its data.

    `least_bytes` is the least memory it could be planned for.
    """

    peak_bytes: int
    seconds: float
    least_bytes: int
    method: str = ""


def estimate(ready: Ready, memory: int | None, speed: float) -> Estimate:
    """Return what the plan of a job says, made to fit into `memory`; `speed` as for `plan_job`.

    Raises InputError when it cannot be made to fit, or its files cannot be read.
    """
    plan = plan_job(dataclasses.replace(ready.job, memory=memory), speed=speed)
    return Estimate(plan.peak_bytes, plan.seconds, plan.least, plan.method)


@dataclass(frozen=True)
class Admission:
    """The plan of a job, the memory it is admitted with, or why it is not."""

    plan: Estimate | None = None
    share: int | None = None
    refused: str | None = None


def admission(ready: Ready, budget: int | None, speed: float) -> Admission:
    """Plan a job for the memory it may have: its own, within the budget of the batch."""
    own = ready.job.memory
    most = min((size for size in (own, budget) if size is not None), default=None)
    plan = None
    try:
        plan = estimate(ready, most, speed)
        return Admission(plan, None if most is None else share(plan, most))
    except InputError as error:
        return Admission(plan, None, str(error))
    except Exception as error:  # a hostile file must not stop the other jobs
        return Admission(plan, None, f"plan: {type(error).__name__}: {error}")


def share(plan: Estimate, most: int) -> int:
    """Return the memory that a job is admitted with: its plan, a fifth more, at most `most`.

    Raises InputError when no plan fits.
    """
    if plan.least_bytes > most:
        raise InputError(
            f"memory: needs at least {size_text(plan.least_bytes, up=True)} by its plan, but at "
            f"most {size_text(most)} are allowed; raise --memory or the job's own memory"
        )
    enough = max(int(plan.peak_bytes * MARGIN), plan.least_bytes)  # less the job would refuse
    wanted = -(-enough // _GRAIN) * _GRAIN
    return min(wanted, most)


def admit(
    waiting: Sequence[int],
    running: Sequence[int],
    shares: Mapping[int, int],
    budget: int | None,
    workers: int,
) -> int | None:
    """Return the job to start now, or None; jobs are numbers in the order of the file.

    The first that waits is started as soon as its share fits beside those that run. Until then a
    later one may overtake it, but only where all that overtook it leave room for its share: it
    waits for jobs that ran when it came to be the first and for no other, so that nothing starves.
    """
    if not waiting or len(running) >= workers:
        return None
    first, *others = waiting
    if budget is None:
        return first
    used = sum(shares[job] for job in running)
    if used + shares[first] <= budget:
        return first
    overtook = sum(shares[job] for job in running if job > first)
    for job in others:
        fits = used + shares[job] <= budget
        if fits and overtook + shares[job] + shares[first] <= budget:
            return job
    return None
