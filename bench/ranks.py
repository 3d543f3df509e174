"""Ranks against one: seconds, memory, messages counted and as the model has them.

python bench/ranks.py                        10⁶ points of 32 coordinates, 1, 2 and 4 ranks
python bench/ranks.py --graph graph.h5 --runs 5

In the environment of `make test-scale`. One thread a rank. `critical` adds up, between messages,
the CPU seconds of the rank that takes longest: a run on cores that nobody else uses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import data
import render
from runner import BENCH, SOURCES, options, record, say

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
    args = options(__doc__, n=1_000_000, graph=None, runs=3)
    graph = Path(args.graph) if args.graph else data.graph_of(data.sheets(args.out, args.n))
    best: dict[int, dict[str, Any]] = {}
    for number in range(args.runs):
        for ranks in _RANKS:  # in turn: a busy machine is busy for all
            one = summary(measured(graph, ranks))
            say(f"run {number + 1}, {ranks} ranks: {one['seconds']:.1f} s, {one['critical']:.1f} s")
            seen = best.setdefault(ranks, one)
            assert seen["values"] == one["values"] == best[1]["values"], "other bits"
            for part in ("seconds", "critical"):
                if one[part] < seen[part]:
                    seen |= {part: one[part], "stages": one["stages"]}
    rows = {
        f"{ranks} ranks": {
            **{key: one[key] for key in ("seconds", "critical", "peak_gb", "halo_share")},
            "messages and bytes a step": one["step"]["counted"],
            "by the model": one["step"]["model"],
        }
        for ranks, one in best.items()
    }
    render.records("Ranks of one thread", rows, list(rows["1 ranks"]))
    figures = {
        str(ranks): {k: v for k, v in one.items() if k != "values"} for ranks, one in best.items()
    }
    record("ranks", figures)


if __name__ == "__main__":
    main()
