"""Kill -9 at random moments of a run, resume, and compare with an undisturbed run.

    python bench/kills.py --kills 40

Every trial starts afresh, is killed in a stage drawn at random (all stages alike, however short),
is checked for files that cannot be read, and goes on with the same command. Counted: whether the
labels are those of the undisturbed run, which results were stored and yet computed again, and the
seconds that the kill cost beside starting the program again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from data import SHEETS, labels_per_class, write_labels, write_points
from render import table
from runner import SOURCES, options, record, say


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES)), "PYTHONUNBUFFERED": "1"}


def start(arguments: list[str], errors: Path) -> subprocess.Popen[bytes]:
    with errors.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "mustlink_io", *arguments, "--json"],
            stdout=subprocess.DEVNULL, stderr=stream, env=environment(),
        )  # fmt: skip


def result(out: Path) -> dict[str, Any]:
    with h5py.File(out) as file:
        names = [name.decode() for name in file["stages/name"][()]]
        return {
            "labels": file["labels"][()],
            "stages": list(zip(names, file["stages/seconds"][()].tolist(), strict=True)),
        }


def run(arguments: list[str], errors: Path) -> float:
    started = time.perf_counter()
    code = start(arguments, errors).wait()
    if code != 0:
        raise SystemExit(f"exit code {code}: {errors.read_text()}")
    return time.perf_counter() - started


def moment(stages: list[tuple[str, float]], total: float, rng: random.Random) -> tuple[str, float]:
    """A stage, all alike, and a time within it; before the first comes the start of the program."""
    known = [("start of the program", total - sum(seconds for _, seconds in stages)), *stages]
    at = rng.randrange(len(known))
    before = sum(seconds for _, seconds in known[:at])
    return known[at][0], before + rng.random() * known[at][1]


def unreadable(folder: Path) -> list[str]:
    """Files under a final name that HDF5 cannot open."""
    bad = []
    for path in folder.rglob("*.h5"):
        if not path.name.startswith("."):
            try:
                with h5py.File(path) as file:
                    file.visititems(
                        lambda _, item: item[()] if isinstance(item, h5py.Dataset) else None
                    )
            except OSError:
                bad.append(path.name)
    return bad


def stored(out: Path) -> dict[str, int]:
    """Results in the work folder, with the time at which each was written."""
    folder = out.with_name(out.name + ".work")
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("[!.]*.h5")}


def main() -> None:
    args = options(__doc__, kills=40, n=200_000, method="csp", memory="1GB", seed=0)
    args.out = args.out / "kills"
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    data, labels, errors = (args.out / name for name in ("points.h5", "few.csv", "errors.txt"))
    write_points(str(data), args.n, 0)
    with h5py.File(data) as file:
        write_labels(labels, labels_per_class(file["labels"][()], 10, np.random.default_rng(0)))
    folder = args.out / "run"
    whole, out = args.out / "whole.h5", folder / "out.h5"
    command = ["cluster", str(data), "-k", str(SHEETS), "-m", args.method]
    command += ["--memory", args.memory, "--resume", "-o"]
    if args.method != "ncut":
        command[2:2] = ["--labels", str(labels)]
    run([*command, str(whole), "--fresh"], errors)
    total = run([*command, str(whole), "--fresh"], errors)  # the kernels are compiled now
    undisturbed = result(whole)
    say(
        f"undisturbed: {total:.1f} s, "
        + ", ".join(f"{n} {s:.1f}" for n, s in undisturbed["stages"])
    )
    rng = random.Random(args.seed)
    rows = []
    for trial in range(args.kills):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        stage, at = moment(undisturbed["stages"], total, rng)
        process = start([*command, str(out)], errors)
        time.sleep(at)
        process.send_signal(signal.SIGKILL)
        ended = process.wait() == 0
        bad, before = unreadable(folder), stored(out)
        again = run([*command, str(out)], errors)
        now = result(out)
        after = stored(out)
        made_again = [name for name, when in before.items() if after.get(name) != when]
        left = [path.name for path in folder.iterdir() if path.name.endswith((".tmp", ".lock"))]
        rows.append({
            "stage": stage, "killed_after": at, "too_late": ended, "unreadable": bad,
            "kept_before": sorted(before), "computed_again": sorted(made_again), "left": left,
            "same": bool(np.array_equal(now["labels"], undisturbed["labels"])),
            "cost": at + again - total, "resumed_in": again,
        })  # fmt: skip
        say(f"{trial + 1}: {stage} at {at:.1f} s, same {rows[-1]['same']}, again {again:.1f} s, "
            f"again computed {sorted(made_again)}, unreadable {bad}, left {left}")  # fmt: skip
    table(f"{args.kills} kills of {args.method}, {args.n:,} points", ["", ""], summary(rows))
    figures = {
        "nodes": args.n,
        "kills": len(rows),
        "identical": sum(row["same"] for row in rows),
        "unreadable": sum(len(row["unreadable"]) for row in rows),
        "twice": sum(len(row["computed_again"]) for row in rows),
    }
    record("kills", figures)


def summary(rows: list[dict[str, Any]]) -> list[list[Any]]:
    costs = sorted(row["cost"] for row in rows)
    return [
        ["labels as undisturbed", sum(row["same"] for row in rows)],
        ["files that could not be read", sum(len(row["unreadable"]) for row in rows)],
        ["stored results computed again", sum(len(row["computed_again"]) for row in rows)],
        ["temporary files left", sum(len(row["left"]) for row in rows)],
        ["stages hit", len({row["stage"] for row in rows})],
        ["runs that had ended before the kill", sum(row["too_late"] for row in rows)],
        ["seconds lost, median", round(costs[len(costs) // 2], 1)],
        ["seconds lost, most", round(costs[-1], 1)],
    ]


if __name__ == "__main__":
    main()
