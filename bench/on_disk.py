"""Graphs that stay on disk, beside the same cut in memory: seconds, peaks, plans, ARI.

python bench/on_disk.py                   10⁶ x 16 points: their graph, in half of the memory
python bench/on_disk.py --n 1000000 3000000
python bench/on_disk.py --points --n 1000000 3000000 10000000
                                          points to labels, graph and vectors on disk
python bench/on_disk.py --edges 150000000 as many edges in a text file: converted, cut in 3 GB

The limit is enforced (RLIMIT_DATA): a run that takes more ends.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from common import child, command, machine, parser, record, say, table, write_json
from memory import LIMITED, judged, points, run

_LEAST, _NODE = 750 * 10**6, 60  # bytes, and bytes a point, of a run on disk that is not squeezed
HEADS = ["s", "peak GB", "ARI", "given GB", "on disk s", "peak GB", "planned", "ARI"]
_STEP = 50 * 10**6  # bytes to which what is given is rounded
_GROUPS, _INSIDE = 8, 0.8  # of the generated edges: classes, and the share within them
_LINES = 2_000_000
_EDGES_MEMORY = 3 * 10**9


def half(peak: int) -> int:
    """Half of a peak, rounded down."""
    return peak // 2 // _STEP * _STEP


def part_points(out: Path, sizes: list[int], d: int) -> None:
    """Graphs of neighbours, in memory and on disk."""
    rows, results = [], {}
    for n in sizes:
        data, graph = points(out, n, d), out / f"sheets-{n}x{d}-graph.h5"
        if not graph.exists():
            command("graph", data, "-o", graph)
        target = out / "on_disk.h5"
        whole = run(graph, target, [], None, None)
        there = judged(target, data)["truth"]["ari"]
        memory = half(whole["rss_bytes"])
        found = run(graph, target, [], f"{memory}B", memory)
        here = judged(target, data)["truth"]["ari"]
        cells = _cells(n, whole, there, memory, found, here)
        rows.append(cells)
        say(" | ".join(cells))
        results[str(n)] = {
            "whole": whole,
            "on_disk": found,
            "ari": [there, here],
            "given_bytes": memory,
        }
    table("A cut in memory, and on disk in half of it", ["nodes", *HEADS], rows)
    write_json(out, "on_disk", {"machine": machine(), "runs": results})
    record("on_disk", {n: _figures(one) for n, one in results.items()})


def part_labels(out: Path, sizes: list[int], d: int, given: int | None) -> None:
    """Points to labels: in memory, and on disk in `given` bytes, two sevenths of that as a rule."""
    rows, results = [], {}
    for n in sizes:
        data, target = points(out, n, d), out / "on_disk.h5"
        whole = run(data, target, ["-m", "ncut"], None, None)
        there = judged(target, data)["truth"]["ari"]
        memory = given or max(whole["rss_bytes"] * 2 // 7, _LEAST + _NODE * n) // _STEP * _STEP
        found = run(data, target, ["-m", "ncut"], f"{memory}B", memory)
        here = judged(target, data)["truth"]["ari"]
        cells = _cells(n, whole, there, memory, found, here)
        rows.append(cells)
        say(" | ".join(cells))
        for one in found["stages"]:
            say(f"  {one['name']:32s} {one['seconds']:8.1f} s {one['peak_bytes'] / 1e9:6.2f} GB")
        results[str(n)] = {
            "whole": whole,
            "on_disk": found,
            "ari": [there, here],
            "given_bytes": memory,
        }
    table("Points to labels in memory, and on disk", ["points", *HEADS], rows)
    write_json(out, "on_disk-points", {"machine": machine(), "runs": results})
    record("on_disk_points", {n: _figures(one) for n, one in results.items()})


def _cells(n: int, whole: Any, there: float, memory: int, found: Any, here: float) -> list[str]:
    return [
        f"{n:,}",
        f"{whole['wall_seconds']:.0f}",
        f"{whole['rss_bytes'] / 1e9:.2f}",
        f"{there:.5f}",
        f"{memory / 1e9:.2f}",
        f"{found['wall_seconds']:.0f}",
        f"{found['rss_bytes'] / 1e9:.2f}",
        f"{found['planned_peak_bytes'] / 1e9:.2f}",
        f"{here:.5f}",
    ]


def _figures(one: dict[str, Any]) -> dict[str, Any]:
    told = {
        name: {
            "seconds": one[name]["wall_seconds"],
            "peak_gb": one[name]["rss_bytes"] / 1e9,
            "ari": ari,
        }
        for name, ari in zip(("whole", "on_disk"), one["ari"], strict=True)
    }
    planned, given = one["on_disk"]["planned_peak_bytes"], one["given_bytes"]
    return {**told, "planned_peak_gb": planned / 1e9, "given_gb": given / 1e9}


def write_edges(path: Path, edges: int) -> int:
    """Random edges of a tenth as many nodes in eight classes, node i in class i mod 8."""
    import numpy as np
    from pyarrow import csv
    from pyarrow import table as columns

    rng, n = np.random.default_rng(0), edges // 10 // _GROUPS * _GROUPS
    options = csv.WriteOptions(include_header=False, delimiter=" ")
    with path.open("wb") as file:
        for first in range(0, edges, _LINES):
            m = min(_LINES, edges - first)
            i = rng.integers(0, n, m)
            own = rng.integers(0, n // _GROUPS, m) * _GROUPS + i % _GROUPS
            j = np.where(rng.random(m) < _INSIDE, own, rng.integers(0, n, m))
            csv.write_csv(columns({"i": i, "j": j}), file, options)
    return n


def part_edges(out: Path, edges: int) -> None:
    """A text file of edges to clusters, never in memory whole."""
    import h5py
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    source, graph = out / f"planted-{edges}.edges", out / f"planted-{edges}.h5"
    target, given = out / "on_disk.h5", ["--memory", f"{_EDGES_MEMORY}B"]
    n = write_edges(source, edges)
    rows, figures = [], {}
    for line in (
        ["convert", source, graph, *given],
        ["cluster", graph, "-k", _GROUPS, "--regularization", 0, *given, "-o", target, "--quiet"],
    ):
        words = [str(word) for word in (*line, "--json")]
        done = child(["-c", LIMITED, str(_EDGES_MEMORY), *words])
        assert done.code == 0, done.stderr
        found = json.loads(done.stdout)
        rows.append([line[0], f"{done.seconds:.0f}", f"{done.peak_bytes / 1e9:.2f}"])
        say(" | ".join(rows[-1]))
        write_json(out, f"on_disk-{line[0]}", found)
        figures[line[0]] = {"seconds": done.seconds, "peak_gb": done.peak_bytes / 1e9}
    with h5py.File(target) as file:
        labels = file["labels"][: min(n, 1_000_000)]
    ari = adjusted_rand_score(np.arange(labels.size) % _GROUPS, labels)
    table(f"{edges:,} edges of {n:,} nodes, ARI {ari:.5f}", ["verb", "s", "peak GB"], rows)
    given_gb = _EDGES_MEMORY / 1e9
    record(
        "on_disk_edges", {"edges": edges, "nodes": n, "given_gb": given_gb, "ari": ari, **figures}
    )


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--n", type=int, nargs="+", default=[1_000_000], help="points")
    made.add_argument("--dimension", type=int, default=16)
    made.add_argument("--points", action="store_true", help="to labels, graphs not being there")
    made.add_argument("--memory", type=int, help="bytes, where two sevenths are not wanted")
    made.add_argument("--edges", type=int, default=0, help="of a text file, instead of points")
    given: argparse.Namespace = made.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.edges:
        part_edges(given.out, given.edges)
    elif given.points:
        part_labels(given.out, given.n, given.dimension, given.memory)
    else:
        part_points(given.out, given.n, given.dimension)


if __name__ == "__main__":
    main()
