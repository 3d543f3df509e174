"""How a neighbour graph is made within a budget, chosen before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.cost.neighbour_graph import (
    BASE_BYTES,
    LOW,
    MOST_OVERLAP,
    ROOM,
    Layout,
    cell_layout,
    knn_bytes,
    layout,
    least_room,
    partition_bytes,
)
from mustlink.cost.process_memory import size_text
from mustlink.cost.stored_neighbours import (
    StoredLayout,
    sizes_within,
    stored_lists_bytes,
    task_sizes,
)
from mustlink.errors import InputError


@dataclass(frozen=True)
class Plan:
    """How a neighbour graph is to be made, and the peak of each stage.

    `method`: "brute", "tree", "cells", "tasks", or "stored cells" and "partition" with points on
    disk.
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
    few, else by cells, of points on disk where the budget leaves no room for them, and by parts on
    disk where it leaves none for such cells. With a budget, and `by_tasks`, W is in single
    precision but where all pairs are compared, or a tree is used.

    `base`: what the process holds without the points, `held` bytes of points in memory; `by_rows`:
    the points would have to be read. `small`: all pairs may be compared. Raises InputError that
    names the least budget.
    """
    below = base + held
    if by_tasks and not small:
        return _task_plan(n, d, k, budget, below)
    tight = least_room(d, k)
    least = below + max(
        *(knn_bytes(n, d, k, threads=1, room=tight)["partition"].values()),
        partition_bytes(n, d, k, 1, tight, MOST_OVERLAP),
    )
    if budget is not None and least > budget:
        raise _too_small(budget, n, d, k, least)
    method = "brute" if small else "tree" if d <= LOW else "cells"
    stages = knn_bytes(n, d, k, itemsize=itemsize)[method]
    stages = _shifted(stages, below + (4 * n * d if by_rows else 0))
    if budget is None and method == "cells":
        return Plan(method, cell_layout(n, d, k), stages, least)
    if budget is None or (method != "cells" and max(stages.values()) <= budget):
        return Plan(method, None, stages, least)
    room = tight
    # One thread's need with the most parts: neither may change the layout, so the graph.
    while room < ROOM and (below + partition_bytes(n, d, k, 1, 2 * room, MOST_OVERLAP) <= budget):
        room *= 2
    found = knn_bytes(n, d, k, threads=threads, room=room)
    lean = _shifted(found["lean cells"], below)
    if max(lean.values()) <= budget:
        return Plan("cells", cell_layout(n, d, k, room), lean, least, True)
    sizes = sizes_within(budget - below, n, d, k)
    search = stored_lists_bytes(n, d, k, sizes, 1)  # threads may not change the method
    stored = _shifted({**found["partition"], "kNN graph": search}, below)
    if max(stored.values()) <= budget:
        return Plan("stored cells", sizes, stored, least, True)
    return Plan(
        "partition", layout(n, d, k, room), _shifted(found["partition"], below), least, True
    )


def _task_plan(n: int, d: int, k: int, budget: int | None, below: int) -> Plan:
    """By tasks, each of a block of cells: what this process takes, and a worker at most."""
    rest = knn_bytes(n, d, k, threads=1)["partition"]

    def stages(sizes: StoredLayout) -> dict[str, int]:
        search = stored_lists_bytes(n, d, k, sizes, 1)
        return _shifted({**rest, "kNN graph": search}, below)

    least = max(stages(task_sizes(0, n, d, k)).values())
    if budget is not None and least > budget:
        raise _too_small(budget, n, d, k, least)
    sizes = task_sizes(None if budget is None else budget - below, n, d, k)
    return Plan("tasks", sizes, stages(sizes), least, True)


def _too_small(budget: int, n: int, d: int, k: int, least: int) -> InputError:
    return InputError(
        f"memory: {size_text(budget)} given; {n} points of {d} coordinates with "
        f"{k} neighbours each need at least {size_text(least, up=True)}"
    )


def _shifted(stages: dict[str, int], by: int) -> dict[str, int]:
    return {name: int(size + by) for name, size in stages.items()}
