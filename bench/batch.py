"""30 jobs of which 3 must fail, a kill -9 in the middle, --resume: what is there afterwards.

    python bench/batch.py                     one kill after 12 jobs, two jobs side by side
    python bench/batch.py --kills 3 --workers 1 --n 20000

Every job is a real one: 3,000 points and up, three methods, in processes of their own. The same 30
jobs are also run without a kill, and all labels compared. Exit code 1 unless 27 results are there,
3 jobs failed with a clear line, and nothing that had ended was run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import common

JOBS = """
[defaults]
output = "{out}/{{name}}.h5"
labels = "in/{{data}}.csv"
neighbors = 10

[[job]]
name = "damaged"
data = "in/damaged.h5"
k = 5

[[job]]
name = "cut"
data = "in/set*.h5:/points"
method = ["ncut", "csp"]
k = 5

[[job]]
name = "many"
data = "in/set0.h5"
k = 1000000

[[job]]
name = "spread"
command = "propagate"
data = ["in/set0.h5", "in/set1.h5", "in/set2.h5", "in/set3.h5", "in/set4.h5"]
method = ["poisson", "llgc"]

[[job]]
name = "far"
data = "in/set0.h5"
constraints = "in/far.csv"
k = 5

[[job]]
name = "graph-{{data}}"
command = "graph"
data = "in/set0.h5"
"""


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=3000, help="points of the smallest set")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", help="budget of all jobs, as 4GB")
    parser.add_argument("--kills", type=int, default=1)
    args = parser.parse_args()
    folder = args.out / "batch"
    shutil.rmtree(folder, ignore_errors=True)
    make_inputs(folder / "in", args.n)
    options = ["--workers", str(args.workers)]
    options += ["--memory", args.memory] if args.memory else []

    rows = []
    common.say("30 jobs, not disturbed")
    (folder / "calm.toml").write_text(JOBS.format(out="calm"))
    calm, seconds, held = run(folder, "calm.toml", options)
    rows.append(row("not disturbed", calm, seconds, held))

    (folder / "jobs.toml").write_text(JOBS.format(out="out"))
    for kill in range(args.kills):
        after = round(24 * (kill + 1) / (args.kills + 1))
        common.say(f"30 jobs, killed once {after} have ended")
        seconds = killed(folder, options, after)
        before = statuses(folder)
        rows.append(row(f"killed (-9) once {after} had ended", before, seconds, None))
        options = [*options, "--resume"] if kill == 0 else options
    common.say("resumed")
    ended = {name for name, one in before.items() if one["phase"] in ("done", "failed")}
    final, seconds, held = run(folder, "jobs.toml", options)
    rows.append(row("resumed to the end", final, seconds, held))
    again, seconds, held = run(folder, "jobs.toml", options)
    rows.append(row("resumed once more", again, seconds, held))

    common.table(
        "30 jobs, 3 of which must fail",
        ("run", "done", "failed", "running", "not begun", "attempts", "seconds", "most held"),
        rows,
    )
    failures = [(name, one["error"]) for name, one in final.items() if one["phase"] == "failed"]
    common.table("Failures", ("job", "error"), failures)
    done = [name for name, one in final.items() if one["phase"] == "done"]
    twice = sum(final[name]["attempts"] != before[name]["attempts"] for name in ended)
    same = sum(labels_equal(folder, name) for name in done)
    checks = {
        "results": (len(done), 27),
        "outputs that can be read": (same_names(folder, done), 27),
        "clear failures": (len(failures), 3),
        "jobs that had ended and were run again": (twice, 0),
        "labels or graphs as without a kill": (same, 27),
        "children left after a kill": (len(left_over(folder)), 0),
        "jobs run by resuming once more": (attempts(again) - attempts(final), 0),
    }
    common.table("Must show", ("what", "found", "wanted"), [(k, *v) for k, v in checks.items()])
    common.write_json(args.out, "batch", {"runs": rows, "failures": failures, "checks": checks})
    return 0 if all(found == wanted for found, wanted in checks.values()) else 1


def make_inputs(folder: Path, n: int) -> None:
    """Eight sets of points in five groups, labels of 50 nodes each, a damaged file, far pairs."""
    import numpy as np

    from mustlink_io.hdf5 import writing

    folder.mkdir(parents=True)
    for at in range(8):
        rng = np.random.default_rng(at)
        y = rng.integers(5, size=n + 500 * at)
        points = rng.normal(size=(y.size, 8)) + 4 * np.eye(8)[y]
        writing.write(folder / f"set{at}.h5", {"/points": points.astype("f4"), "/labels": y})
        known = rng.choice(y.size, 50, replace=False)
        lines = "".join(f"{node},{y[node]}\n" for node in sorted(known))
        (folder / f"set{at}.csv").write_text("node,label\n" + lines)
    whole = (folder / "set0.h5").read_bytes()
    (folder / "damaged.h5").write_bytes(whole[: len(whole) // 2])
    shutil.copy(folder / "set0.csv", folder / "damaged.csv")
    (folder / "far.csv").write_text(f"i,j,belief\n0,{10 * n},1\n")


def start(folder: Path, name: str, options: list[str]) -> subprocess.Popen[bytes]:
    paths = [*map(str, common.SOURCES), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "mustlink_io", "batch", name, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        stdout=subprocess.DEVNULL,
    )


def run(folder: Path, name: str, options: list[str]) -> tuple[dict[str, Any], float, int]:
    """Statuses after a run to the end, its seconds, and the most its jobs held at one time."""
    started = time.perf_counter()
    batch = start(folder, name, [*options, "--summary", "table.json"])
    most = 0
    while batch.poll() is None:
        most = max(most, held_by_children(batch.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    assert batch.returncode == 1, batch.returncode  # three jobs failed
    assert len(json.loads((folder / "table.json").read_text())["jobs"]) == 30
    return statuses(folder, name), seconds, most


def held_by_children(pid: int) -> int:
    """Resident bytes of the processes that a process started, Linux only."""
    held = 0
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{child}/status").read_text())
                held += int(found.group(1)) * 1024 if found else 0
    return held


def killed(folder: Path, options: list[str], after: int) -> float:
    """Kill a batch once `after` jobs have ended and others run; its seconds."""
    started = time.perf_counter()
    batch = start(folder, "jobs.toml", options)
    while True:
        phases = [one["phase"] for one in statuses(folder).values()]
        if len(phases) - phases.count("running") >= after and "running" in phases:
            break
        assert batch.poll() is None, "ended before it could be killed"
        time.sleep(0.05)
    time.sleep(0.7)  # into the middle of the jobs that run
    batch.send_signal(signal.SIGKILL)
    batch.wait()
    time.sleep(0.5)
    return time.perf_counter() - started


def statuses(folder: Path, name: str = "jobs.toml") -> dict[str, Any]:
    found = {}
    for path in (folder / f"{name}.state").glob("*/status.json"):
        one = json.loads(path.read_text())
        found[one["name"]] = one
    return found


def attempts(found: dict[str, Any]) -> int:
    return sum(one["attempts"] for one in found.values())


def row(name: str, found: dict[str, Any], seconds: float, held: int | None) -> tuple[Any, ...]:
    phases = [one["phase"] for one in found.values()]
    counts = (phases.count(phase) for phase in ("done", "failed", "running"))
    most = None if held is None else common.gigabytes(held)
    return (name, *counts, 30 - len(phases), attempts(found), seconds, most)


def same_names(folder: Path, names: list[str]) -> int:
    """Outputs that are there and open, of the jobs named; no other file may be beside them."""
    from mustlink_io.hdf5 import store

    there = [path for path in (folder / "out").iterdir() if not path.name.endswith(".work")]
    assert {path.name for path in there} == {f"{name}.h5" for name in names}, there
    for path in there:
        with store.open_h5(path):
            pass
    return len(there)


def labels_equal(folder: Path, name: str) -> bool:
    """Whether a result is what it is without a kill."""
    from mustlink_io import formats
    from mustlink_io.hdf5 import store

    def read(run: str) -> Any:
        path = folder / run / f"{name}.h5"
        with store.open_h5(path) as file:
            graph = store.find(file, "/labels") is None
        return formats.load(str(path)).value.toarray() if graph else formats.load_labels(str(path))

    return bool((read("calm") == read("out")).all())


def left_over(folder: Path) -> list[str]:
    """Processes that still work in the folder, Linux only."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.resolve() == folder.resolve():
                found.append(place.parent.name)
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
