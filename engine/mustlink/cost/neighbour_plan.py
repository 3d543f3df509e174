"""How a neighbour graph is made within a budget, chosen before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.cost.neighbour_graph import (
    BASE_BYTES,
    LOW,
    ROOM,
    Layout,
    cell_layout,
    knn_bytes,
)
from mustlink.cost.process_memory import size_text
from mustlink.cost.stored_neighbours import (
    StoredLayout,
    sizes_within,
    stored_lists_bytes,
    task_sizes,
)
from mustlink.errors import InputError

_HALVINGS = 5  # of the buffers, until points no longer fit beside them


@dataclass(frozen=True)
class Plan:
    """How a neighbour graph is to be made, and the peak of each stage.

    `method`: "brute", "tree", "cells", or "stored cells" on disk, "tasks" of an executor.
    `stages` are bytes with all that the process holds; `least` is the smallest budget that works.
    `lean`: W is in single precision.
    """

    method: str
    layout: Layout | StoredLayout | None
    stages: dict[str, int]
    least: int
    lean: bool = False

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max(self.stages.values())


def knn_plan(
    n: int,
    d: int,
    k: int,
    budget: int | None,
    *,
    base: int = BASE_BYTES,
    held: int = 0,
    itemsize: int = 4,
    by_rows: bool = True,
    small: bool = False,
    threads: int = 2,
    by_tasks: bool = False,
) -> Plan:
    """Choose how to make a neighbour graph within `budget` bytes of resident memory in all.

    Few points are compared all with all where that fits, more by a k-d tree where coordinates are
    few, else by cells, of points on disk where the budget leaves no room for them, or `by_tasks`.
    With a budget, or by tasks, W is in single precision but where all pairs are compared, or a tree
    is used.

    `base`: what the process holds without the points, `held` bytes of points in memory; `by_rows`:
    the points would have to be read. `small`: all pairs may be compared; `threads` search on disk.
    Raises InputError that names the least budget.
    """
    below = base + held
    rest = knn_bytes(n, d, k)["lean cells"]

    def on_disk(sizes: StoredLayout, threads: int) -> dict[str, int]:
        search = stored_lists_bytes(n, d, k, sizes, threads)
        return _shifted({**rest, "kNN graph": search}, below)

    by_tasks = by_tasks and not small
    tight = (task_sizes if by_tasks else sizes_within)(0, n, d, k)
    least = max(on_disk(tight, 1).values())
    if budget is not None and least > budget:
        raise _too_small(budget, n, d, k, least)
    if by_tasks:
        sizes = task_sizes(None if budget is None else budget - below, n, d, k)
        return Plan("tasks", sizes, on_disk(sizes, 1), least, True)
    method = "brute" if small else "tree" if d <= LOW else "cells"
    stages = knn_bytes(n, d, k, itemsize=itemsize)[method]
    stages = _shifted(stages, below + (4 * n * d if by_rows else 0))
    if budget is None and method == "cells":
        return Plan(method, cell_layout(n, d, k), stages, least)
    if budget is None or (method != "cells" and max(stages.values()) <= budget):
        return Plan(method, None, stages, least)
    for room in (ROOM >> step for step in range(_HALVINGS)):
        lean = _shifted(knn_bytes(n, d, k, room=room)["lean cells"], below)
        if max(lean.values()) <= budget:
            return Plan("cells", cell_layout(n, d, k, room), lean, least, True)
    sizes = sizes_within(budget - below, n, d, k)
    return Plan("stored cells", sizes, on_disk(sizes, threads), least, True)


def _too_small(budget: int, n: int, d: int, k: int, least: int) -> InputError:
    return InputError(
        f"memory: {size_text(budget)} given; {n} points of {d} coordinates with "
        f"{k} neighbours each need at least {size_text(least, up=True)}"
    )


def _shifted(stages: dict[str, int], by: int) -> dict[str, int]:
    return {name: int(size + by) for name, size in stages.items()}
