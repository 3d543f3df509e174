"""A plan: the stages of a job, what each takes, and what is told of it before anything runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mustlink.deadline import duration_text
from mustlink.observe import Recorder

_GRAPH = ("kNN graph", "weights", "components")
_SHARE = 0.4  # of the time, beyond which neighbours are searched in another way


STEPS = "how many steps the solver takes, ten times as many or not, is known when the graph is seen"


@dataclass(frozen=True)
class StagePlan:
    """One stage: peak of the process in bytes, seconds, and how it is done where that varies.

    `disk_bytes` are those of temporary files and what is kept for another run.
    """

    name: str
    peak_bytes: int
    seconds: float
    how: str = ""
    disk_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """The stages of a job, what is changed to fit `memory`, and the least memory that works.

    `method` is that for the data. `promise` is what the seconds are, "at least" for one, where the
    data are of a kind whose rate is not known, and `why`. `on_disk`: the data are a graph
    that is left in its file.
    """

    stages: tuple[StagePlan, ...]
    changes: tuple[str, ...]
    memory: int | None
    least: int
    method: str = ""
    promise: str = ""
    why: tuple[str, ...] = ()
    on_disk: bool = False

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max(stage.peak_bytes for stage in self.stages)

    @property
    def disk_bytes(self) -> int:
        """Most bytes on disk at a time, without the result."""
        return max(stage.disk_bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Sum over the stages."""
        return sum(stage.seconds for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "stages": [asdict(stage) for stage in self.stages],
            "peak_bytes": self.peak_bytes,
            "disk_bytes": self.disk_bytes,
            "seconds": self.seconds,
            "seconds_are": self.promise,
            "why": list(self.why),
            "memory": self.memory,
            "least_memory": self.least,
            "changes": list(self.changes),
        }


def tell_time(plan: Plan, limit: float, recorder: Recorder) -> None:
    """Note that a time limit will not hold what is planned, before anything runs."""
    for sentence in beyond(plan, limit):
        recorder.note(sentence)


def beyond(plan: Plan, limit: float) -> list[str]:
    """What a plan says about a time limit in seconds; nothing where it holds."""
    if plan.seconds <= limit:
        return []
    graph = sum(stage.seconds for stage in plan.stages if stage.name in _GRAPH)
    given, alone = duration_text(limit), duration_text(round(graph, 1))
    if graph > _SHARE * limit:
        return [f"--time {given}: the graph alone takes about {alone}; a coarser search is used"]
    whole = duration_text(round(plan.seconds, 1))
    promise = plan.promise or "about"
    return [
        f"--time {given}: {promise} {whole} would be needed; the best answer by then is written"
    ]
