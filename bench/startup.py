"""How long a user waits for nothing: imports, --help, the first and the second small fit.

    python bench/startup.py           imports, --help, a small fit
    python bench/startup.py --demo    `mustlink demo`, the first time and again
    python bench/startup.py --cold    kernels compiled by a first run, and a million points

Every figure but the second fit is of a process of its own, the median of five. The first fit ever
is with an empty cache of compiled kernels, as after installing; the first is any later process's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import data
import kernels
import render
import runner

FIT = """
import sys, time
import mustlink as ml
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
y[50:] = -1
given = (X, y) if sys.argv[1] == "CSP" else (X,)
for _ in range(2):
    started = time.perf_counter()
    getattr(ml, sys.argv[1])(n_clusters=10, random_state=0).fit(*given)
    print(time.perf_counter() - started)
"""
# A line of the shell; then what it compiled, the processor's seconds for it, and those of the other
# process that compiles beside it, whose start is among them.
COUNTED = """
import json, resource, sys, time
from numba.core import event
class Count(event.Listener):
    depth = kernels = seconds = 0
    def on_start(self, _):
        self.depth += 1
        if self.depth == 1:
            self.kernels, self.began = self.kernels + 1, time.thread_time()
    def on_end(self, _):
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.thread_time() - self.began
count = Count()
event.register("numba:compile", count)
from mustlink_io.commands.cli import run
code = run(sys.argv[1:])
from mustlink.context import compilation
compilation._BESIDE.end()
beside = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({
    "kernels": count.kernels,
    "compile_cpu_seconds": count.seconds,
    "beside_cpu_seconds": beside.ru_utime + beside.ru_stime,
}))
sys.exit(code)
"""
LINES = {
    "NCut": "cluster points.h5:/points -k 10 -m ncut",
    "CSP": "cluster points.h5:/points -k 10 -m csp --labels points.h5:/known",
    "SRCP": "cluster points.h5:/points -k 10 -m srcp --constraints pairs.csv",
    "LLGC": "propagate points.h5:/points -m llgc --labels points.h5:/known",
    "NCut on disk": "cluster million-graph.h5 -k 10 -m ncut --memory LEAST",
    "cut": "cut photo.png --strokes strokes.png",
    "million": "cluster million.h5:/points -k 10 -m ncut",
}
# Python writes its own compiled files, as it does for a user.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
COMMANDS = {
    "import_seconds": ["-c", "import mustlink"],
    "csp_import_seconds": ["-c", "from mustlink import CSP"],
    "sklearn_base_import_seconds": ["-c", "import sklearn.base"],
    "sklearn_import_seconds": ["-c", "import sklearn.cluster"],
    "help_seconds": ["-m", "mustlink", "--help"],
    "cluster_help_seconds": ["-m", "mustlink", "cluster", "--help"],
    "propagate_help_seconds": ["-m", "mustlink", "propagate", "--help"],
    "plan_help_seconds": ["-m", "mustlink", "plan", "--help"],
}


def run(arguments: list[str], **more: str) -> tuple[str, float]:
    """Output and seconds of a process."""
    started = time.perf_counter()
    words, env = [sys.executable, *arguments], {**ENVIRONMENT, **more}
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, env=env, text=True)
    return done.stdout, time.perf_counter() - started


def small_fits(method: str) -> dict[str, float]:
    """The first fit ever, the first of a later process, and the second."""
    with tempfile.TemporaryDirectory() as cache:
        made = [run(["-c", FIT, method], NUMBA_CACHE_DIR=cache)[0].split() for _ in range(6)]
    first, second = (statistics.median(float(one[i]) for one in made[1:]) for i in (0, 1))
    cold = float(made[0][0])
    return {"first_ever_seconds": cold, "first_seconds": first, "second_seconds": second}


def demo() -> None:
    """`mustlink demo` with an empty cache of compiled kernels, and again."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "mustlink_io", "demo", "-o", f"{folder}/out", "--quiet"]
        first, again = (run(words, NUMBA_CACHE_DIR=f"{folder}/cache")[1] for _ in range(2))
    print(f"mustlink demo: the first time {first:.1f} s, then {again:.1f} s")
    runner.record("demo", {"first_seconds": first, "seconds": again})


def counted(folder: Path, name: str, line: str, cache: str) -> dict[str, Any]:
    """Seconds of one line in a process of its own, its labels, and what it compiled."""
    output = folder / ("out.png" if name == "cut" else "out.h5")
    output.unlink(missing_ok=True)
    shutil.rmtree(f"{output}.work", ignore_errors=True)  # what another run would go on from
    words = [*line.split(), "-o", str(output), "--quiet", "--json"]
    env = {**ENVIRONMENT, "NUMBA_CACHE_DIR": cache}
    done = runner.child(["-c", COUNTED, *words], env)
    labels = output.read_bytes() if name == "cut" else data.labels(output).tobytes()
    found = {**runner.result(done, line), "labels": labels}
    return {**found, "seconds": done.seconds, "cpu_seconds": done.cpu_seconds}


def cold(out: Path, rounds: int, only: Sequence[str]) -> None:
    """Every line with an empty cache and with a full one, in turn."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        kernels.make_data(Path(name), 100_000)
        chosen = {key: line for key, line in LINES.items() if not only or key in only}
        if {"million", "NCut on disk"} & set(chosen):
            os.symlink(data.sheets(out.resolve(), 1_000_000), "million.h5")
        if "NCut on disk" in chosen:
            apart = {**ENVIRONMENT, "NUMBA_CACHE_DIR": f"{name}/graph"}  # what it compiles
            runner.command("graph", "million.h5:/points", "-o", "million-graph.h5", env=apart)
            plan = runner.command("plan", "million-graph.h5", "-k", "10", "-m", "ncut")
            least = f"{-(-plan['least_memory'] // 10**6)}MB"
            chosen["NCut on disk"] = chosen["NCut on disk"].replace("LEAST", least)
        for key, line in chosen.items():
            made: dict[str, list[dict[str, Any]]] = {"empty": [], "full": []}
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as cache:
                    for runs in made.values():
                        runs.append(counted(Path(name), key, line, cache))
            labels = {one.pop("labels") for runs in made.values() for one in runs}
            median = {
                state: {k: statistics.median(one[k] for one in runs) for k in runs[0]}
                for state, runs in made.items()
            }
            figures[key] = {**median, "same_labels": len(labels) == 1}
            runner.say(f"{key}: {figures[key]}")
    runner.record("startup_cold", figures)


def main() -> None:
    args = runner.options(__doc__, demo=False, cold=False, rounds=3, only=())
    if args.demo:
        demo()
        return
    if args.cold:
        cold(args.out, args.rounds, args.only)
        return
    figures = {
        name: statistics.median(run(words)[1] for _ in range(5)) for name, words in COMMANDS.items()
    }
    plain, constrained = small_fits("NCut"), small_fits("CSP")
    render.records("Seconds", {"process": figures, "NCut": plain, "CSP": constrained})
    runner.record("startup", {**figures, **constrained, "NCut": plain})


if __name__ == "__main__":
    main()
