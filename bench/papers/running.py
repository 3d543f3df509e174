"""Tasks of all sections in one pool, longest first; what is done is kept, and not done again.

Results live in `bench/out/papers/COMMIT`, by function (its module is the section) and arguments.
"""

from __future__ import annotations

import hashlib
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.runner import OUT, ROOT, commit, say

EVERY = 30.0  # seconds between two lines of progress where it is no terminal


@dataclass(frozen=True)
class Task:
    """A call of a module's function: its arguments are small, its result can be pickled.

    `seconds`, roughly, says which tasks begin first and how much is left.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    seconds: float = 1.0


class Found(defaultdict[Callable[..., Any], list[tuple[tuple[Any, ...], Any]]]):
    """Arguments and result of every task, by function, in the order of the section's tasks."""

    def __init__(self) -> None:
        super().__init__(list)


def sources() -> tuple[str, Path]:
    """The commit that is measured, and the folder of its results: of its own for every change."""
    label = commit()
    if not label.endswith("-changed"):
        return label, OUT / "papers" / label
    label = label.replace("-changed", "+changes")
    files = [path for top in ("engine", "io", "bench") for path in (ROOT / top).rglob("*.py")]
    digest = hashlib.sha1(b"".join(path.read_bytes() for path in sorted(files)))
    return label, OUT / "papers" / f"{label}-{digest.hexdigest()[:10]}"


def _measured(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, float]:
    """Result and CPU seconds."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # doubts about clusters are what is measured
        return function(*args), time.process_time() - started


def _kept(folder: Path) -> Any:
    """`_measured`, but what was ever returned is read from the folder."""
    from joblib import Memory

    return Memory(folder, verbose=0).cache(_measured)


def _one(folder: Path, place: int, task: Task) -> tuple[int, tuple[Any, float] | str]:
    """Place and result, or what went wrong: one task's error does not stop the others."""
    try:
        return place, _kept(folder)(task.function, task.args)
    except Exception:  # told by `run`, with the traceback
        return place, f"{task.function.__module__}{task.args}: {traceback.format_exc()}"


def run(tasks: Sequence[Task], jobs: int, folder: Path) -> list[tuple[Any, float]]:
    """Results and CPU seconds of all tasks, in order; tells how far it is on stderr."""
    from joblib import Parallel, delayed, parallel_config

    kept = _kept(folder)
    there = [kept.check_call_in_cache(task.function, task.args) for task in tasks]
    found = {i: kept(task.function, task.args) for i, task in enumerate(tasks) if there[i]}
    todo = sorted(set(range(len(tasks))) - set(found), key=lambda i: -tasks[i].seconds)
    whole = sum(tasks[i].seconds for i in todo)
    done, started, told = 0.0, time.monotonic(), 0.0
    failed: list[str] = []
    with parallel_config("loky", inner_max_num_threads=1):
        pool = Parallel(jobs, return_as="generator_unordered", batch_size=1)
        for i, result in pool(delayed(_one)(folder, i, tasks[i]) for i in todo):
            if isinstance(result, str):
                failed.append(result)
                say(result)
            else:
                found[i] = result
            done += tasks[i].seconds
            now = time.monotonic()
            if now - told > (1.0 if sys.stderr.isatty() else EVERY):
                told = now
                tell(len(found), len(tasks), (now - started) * (whole / done - 1))
    if failed:
        sys.exit(f"{len(failed)} of {len(tasks)} tasks failed, such as {failed[0]}the rest is kept")
    return [found[i] for i in range(len(tasks))]


def tell(done: int, tasks: int, left: float) -> None:
    """A line with the time that is left; a terminal's line is written over."""
    text = f"# {done:,} of {tasks:,} tasks, about {left / 60:.0f} min left  "
    print(text, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
