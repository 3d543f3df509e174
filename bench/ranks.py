"""Ranks against one: seconds, memory, messages counted and as the model has them.

python bench/ranks.py                        10⁶ points of 32 coordinates, 1, 2 and 4 ranks
python bench/ranks.py --graph graph.h5 --runs 5

In the environment of `make test-scale`. One thread a rank. `critical` adds up, between messages,
the CPU seconds of the rank that takes longest: a run on cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import BENCH, SOURCES, command, machine, parser, record, say, table, write_json

_RANKS = (1, 2, 4)
_K = 10
_STAGES = ("reading rows", "Laplacian", "multigrid set-up", "eigenvectors")


def measured(graph: Path, ranks: int) -> dict[str, Any]:
    """One run on so many ranks."""
    from mustlink_io.jobs.on_ranks import environment, launcher

    paths = ":".join(str(path) for path in SOURCES)
    env = environment(ranks) | {"PYTHONPATH": paths}
    line = [*launcher(ranks), sys.executable, str(BENCH / "ranks_worker.py"), str(graph), str(_K)]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run; of ranks the largest."""
    every = found["ranks"]
    stages = {
        name: {
            part: max(one["stages"][name][part] for one in every)
            for part in ("seconds", "critical", "peak")
        }
        for name in _STAGES
    }
    busiest = max(every, key=lambda one: one["step"]["counted"][1])
    return {
        "stages": stages,
        "seconds": sum(stage["seconds"] for stage in stages.values()),
        "critical": sum(stage["critical"] for stage in stages.values()),
        "peak_gb": max(stage["peak"] for stage in stages.values()) / 1e9,
        "halo_share": max(one["halo"] / one["nodes"] for one in every),
        "step": busiest["step"],
        "cycle": busiest["cycle"],
        "iterations": every[0]["iterations"],
        "values": every[0]["values"],
    }


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--graph", type=Path, help="instead of the graph of points")
    made.add_argument("--runs", type=int, default=3, help="of which the best is told")
    given: argparse.Namespace = made.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    graph = given.graph
    if graph is None:
        from memory import points

        graph = given.out / "sheets-1000000x32-graph.h5"
        if not graph.exists():
            command("graph", points(given.out, 1_000_000, 32), "-o", graph)
    best: dict[int, dict[str, Any]] = {}
    for number in range(given.runs):
        for ranks in _RANKS:  # in turn: a busy machine is busy for all
            one = summary(measured(graph, ranks))
            say(f"run {number + 1}, {ranks} ranks: {one['seconds']:.1f} s, {one['critical']:.1f} s")
            seen = best.setdefault(ranks, one)
            assert seen["values"] == one["values"] == best[1]["values"], "other bits"
            for part in ("seconds", "critical"):
                if one[part] < seen[part]:
                    seen |= {part: one[part], "stages": one["stages"]}
    rows, heads = [], ["ranks", "s", "critical s", "times", "GB", "share", "halo"]
    heads += ["messages a step", "model", "bytes a step", "model"]
    for ranks, one in best.items():
        (calls, size), (calls_model, size_model) = one["step"]["counted"], one["step"]["model"]
        rows.append(
            [
                ranks,
                f"{one['seconds']:.1f}",
                f"{one['critical']:.1f}",
                f"{best[1]['critical'] / one['critical']:.2f}",
                f"{one['peak_gb']:.2f}",
                f"{one['peak_gb'] / best[1]['peak_gb']:.2f}",
                f"{one['halo_share']:.3f}",
                f"{calls:.1f}",
                calls_model,
                f"{size:,.0f}",
                f"{size_model:,}",
            ]
        )
    table("Ranks of one thread", heads, rows)
    write_json(given.out, "ranks", {"machine": machine(), "runs": best})
    figures = {
        str(ranks): {k: v for k, v in one.items() if k != "values"} for ranks, one in best.items()
    }
    record("ranks", figures)


if __name__ == "__main__":
    main()
