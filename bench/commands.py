"""The table of recorded measurements: every entry of results.json, and the command that makes it.

    python bench/commands.py                    the table, and which entries are there
    python bench/commands.py --run million      run those whose name has this word, with --record
    python bench/commands.py --run ""           all: hours, on an idle machine, from a clean commit

`ranks` needs the environment of `make test-scale`, `page_speed` that of `make test-ui`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

import render
import runner

CASES = {
    "any_rows_distances": "any_rows.py --distances",
    "any_rows_large": "any_rows.py --large",
    "any_rows_texts": "any_rows.py",
    "architecture": "architecture.py",
    "asked_labels_gfhf": "active.py --method GFHF",
    "asked_labels_gfhf_wrong": "active.py --method GFHF --wrong 0.05",
    "asked_labels_poisson": "active.py",
    "asked_labels_poisson_by_shares": "active.py --method Poisson-by-shares",
    "asked_labels_poisson_wrong": "active.py --wrong 0.05",
    "asked_million": "million.py --asked",
    "asked_pairs_csp": "active.py --pairs --draws 5",
    "asked_pairs_csp_wrong": "active.py --pairs --draws 5 --wrong 0.05",
    "calibration": "calibration.py",
    "cluster_count": "cluster_count.py",
    "defaults": "defaults.py",
    "demo": "startup.py --demo",
    "fast_ge": "fast_ge.py",
    "fuzz": "fuzz.py --mutations 5000",
    "grabcut": "pictures.py --grabcut",
    "hard": "hard.py",
    "images": "pictures.py --flower",
    "kills": "kills.py",
    "lasso": "lasso.py",
    "lyapunov": "lyapunov.py",
    "memory_budget": "memory.py --budget",
    "memory_group": "memory.py --group",
    "memory_plan": "memory.py --plan 4 5 6 7",
    "memory_plans": "memory.py --plans",
    "methods": "million.py --methods",
    "million_constraints": "million.py --constraints",
    "million_peers": "million.py --peers",
    "million_pipeline": "million.py",
    "million_refit": "million.py --refit",
    "mixed_tables": "mixed_tables.py",
    "mixed_tables_alone": "mixed_tables.py --labels",
    "mnist": "mnist.py",
    "mnist_methods": "mnist.py --methods",
    "mnist_pairs": "mnist.py --pairs",
    "mnist_propagate": "mnist.py --propagate",
    "networks": "networks.py",
    "networks_large": "networks.py --large --draws 1",
    "nothing_known": "nothing_known.py",
    "on_disk_edges": "memory.py --edges",
    "on_disk_points": "memory.py --disk",
    "page_speed": "page_speed.py",
    "pairs": "million.py --pairs",
    "plans": "plans.py",
    "plans_least": "plans.py --least",
    "plans_million": "plans.py -n 1000000",
    "propagate": "million.py --propagate",
    "ranks": "ranks.py",
    "readers": "readers.py",
    "regions": "pictures.py --regions",
    "representatives_clouds": "representatives.py --only clouds",
    "representatives_files": "representatives.py --only files",
    "representatives_real": "representatives.py --only real --p 500 1000 2000 --draws 3",
    "representatives_shapes": "representatives.py --only shapes --n 0 --p 1000",
    "representatives_workers": "representatives.py --only workers",
    "startup": "startup.py",
    "startup_cold": "startup.py --cold",
    "stroke_classes": "pictures.py --classes",
    "tables": "tables.py skin.h5 connections.h5 --options connections=--standardize",
    "workers": "workers.py",
}


def main() -> int:
    word = runner.options(__doc__, run=None).run
    if word is None:
        there = runner.results()
        rows = [[name, f"python bench/{line}", there.get(name, {}).get("date")]
                for name, line in CASES.items()]  # fmt: skip
        render.table("Recorded", ["entry", "command", "measured"], rows)
        return 0
    for line in dict.fromkeys(line for name, line in CASES.items() if word in name):
        runner.say(line)
        script, *rest = shlex.split(line)
        command = [sys.executable, str(runner.BENCH / script), *rest, "--record"]
        if subprocess.run(command, check=False).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
