"""Is a change slower, or hungrier? Large jobs by two versions in turn, whole processes.

    python bench/ratios.py HEAD~20 .                     five jobs, three times each: A B A B A B
    python bench/ratios.py HEAD~20 . --only disk --disk-n 10000000     10⁷ points on disk
    python bench/ratios.py HEAD~20 . --n 50000 --runs 1  small

    file     points of 24 coordinates in an HDF5 file to labels
    disk     the same under a limit that keeps graph and vectors on disk, enforced by the engine
    srcp     SRCP with 1,000 pairs on the graph of the points
    ranks    a normalised cut on two ranks, of three tenths as many nodes (needs MPI and PETSc)
    workers  the graph of the points by two Dask workers (needs Dask)

Versions are as for `same.py`. Every run is the shell's, in a process of its own: wall seconds, CPU
seconds of it and of all that it started, and the largest peak of one of them. A run of each before
those that count compiles the kernels. Ratios are new / old, the median of those of neighbouring
runs. Exit code 1 where CPU seconds are up by more than 5 %, a peak by more than 2 %, or labels
differ.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
import render
import runner
import same
from memory import LEAST, NODE, STEP

DIMENSION, PAIRS, RANKS_SHARE = 24, 1_000, 0.3
SLOWER, HIGHER = 1.05, 1.02
NAMES = ("file", "disk", "srcp", "ranks", "workers")


@dataclass(frozen=True)
class Job:
    """What is typed after `mustlink`, without where it is written; `what` is compared in that."""

    name: str
    words: tuple[str, ...]
    what: str = "labels"


def digest(path: str, what: str) -> dict[str, Any]:
    """SHA-256 of labels, or of the graph, in a result; and whether notes tell of the disk."""
    import hashlib

    import h5py

    found = hashlib.sha256()
    with h5py.File(path) as file:
        if what == "labels":
            found.update(file["labels"][()].tobytes())
        else:
            for name in ("indptr", "indices", "data"):
                found.update(file[what][name][()].tobytes())
    return {"digest": found.hexdigest()}


# ---------------------------------------------------------------- jobs


def write_pairs(source: str, target: str) -> dict[str, Any]:
    """Random pairs of the points, told by their sheets merged in pairs."""
    import numpy as np

    truth = data.labels(source) // 2
    data.write_pairs(Path(target), *data.random_pairs(truth, PAIRS, np.random.default_rng(0)))
    return {}


def jobs(out: Path, only: list[str], n: int, disk_n: int, memory: int | None) -> Iterator[Job]:
    """What is asked for, its files made."""
    # The paper's form in both: what stands for "auto" is not the same work in all versions.
    cut = ("-k", str(data.SHEETS), "-m", "ncut", "--variant", "luxburg", "--fresh")
    if "file" in only:
        yield Job("file", ("cluster", f"{data.sheets(out, n, DIMENSION)}:/points", *cut))
    if "disk" in only:
        given = memory or (LEAST + NODE * disk_n) // STEP * STEP
        source = f"{data.sheets(out, disk_n, DIMENSION)}:/points"
        yield Job("disk", ("cluster", source, *cut, "--memory", f"{given}B"))
    if "srcp" in only:
        points, pairs = data.sheets(out, n, DIMENSION), out / f"ratios-{n}-pairs.csv"
        made = data.graph_of(points)
        runner.call("ratios:write_pairs", source=points, target=pairs)
        told = ("-k", str(data.SHEETS // 2), "-m", "srcp", "--constraints", str(pairs), "--fresh")
        yield Job("srcp", ("cluster", str(made), *told))
    if "ranks" in only:
        made = data.graph_of(data.sheets(out, round(RANKS_SHARE * n), DIMENSION))
        yield Job("ranks", ("cluster", str(made), *cut[:-1], "--ranks", "2"))
    if "workers" in only:
        source = f"{data.sheets(out, n, DIMENSION)}:/points"
        yield Job("workers", ("graph", source, "--workers", "2"), "graph")


# ---------------------------------------------------------------- runs


def run(job: Job, one: same.Version, out: Path) -> dict[str, Any]:
    """A job by a version in a process of its own."""
    target = out / "ratios.h5"
    target.unlink(missing_ok=True)
    shutil.rmtree(out / "ratios.h5.work", ignore_errors=True)
    words = ["-m", "mustlink_io", *job.words, "-o", str(target), "--quiet", "--json"]
    sources = [one.folder / root for root in ("engine", "io")]
    done = runner.child(words, python=one.python, sources=sources)
    if done.code != 0:
        raise runner.ChildError(f"{one.name}, {job.name}: {done.stderr.strip()[-500:]}")
    told = runner.call("ratios:digest", path=target, what=job.what)
    return {
        "seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds,
        "peak_gb": done.peak_bytes / 1e9,
        "digest": told["digest"],
        "on_disk": "stay on disk" in done.stdout,
    }


def in_turn(job: Job, versions: list[same.Version], out: Path, count: int) -> dict[str, Any]:
    """Runs of both versions in turn, and the median ratios of neighbours."""
    runs: list[list[dict[str, Any]]] = [[], []]
    for turn in range(count + 1):
        for one, found in zip(versions, runs, strict=True):
            runner.say(f"{job.name}, {one.name}, {f'run {turn}' if turn else 'to compile'}")
            made = run(job, one, out)
            if turn:
                found.append(made)
    figures: dict[str, Any] = {"old": runs[0], "new": runs[1]}
    for key in ("seconds", "cpu_seconds", "peak_gb"):
        ratios = [b[key] / a[key] for a, b in zip(*runs, strict=True)]
        figures[key] = {
            "old": statistics.median(one[key] for one in runs[0]),
            "new": statistics.median(one[key] for one in runs[1]),
            "ratio": statistics.median(ratios),
        }
    figures["same"] = len({one["digest"] for found in runs for one in found}) == 1
    return figures


def lacking(name: str, versions: list[same.Version]) -> str:
    """Why a job cannot be run by these interpreters; "" where it can."""
    for one in versions:
        if name == "ranks" and (why := same.no_ranks(one.python)):
            return why
        test = [one.python, "-c", "import distributed"]
        if name == "workers" and subprocess.run(test, capture_output=True, check=False).returncode:
            return f"{one.python} has no Dask"
    return ""


def row(name: str, found: dict[str, Any]) -> list[Any]:
    """A row of the table."""
    cells: list[Any] = [name]
    for key in ("seconds", "cpu_seconds", "peak_gb"):
        one = found[key]
        cells += [one["old"], one["new"], f"{one['ratio']:.3f}"]
    places = {"disk" if one["on_disk"] else "memory" for one in (*found["old"], *found["new"])}
    return [*cells, "yes" if found["same"] else "NO", " and ".join(sorted(places))]


def is_worse(found: dict[str, Any]) -> bool:
    """Whether a change shows that is not allowed."""
    slower = found["cpu_seconds"]["ratio"] > SLOWER
    return slower or found["peak_gb"]["ratio"] > HIGHER or not found["same"]


def main() -> int:
    parser = runner.parser(__doc__ or "")
    parser.add_argument("old", help="a commit, or a folder with engine/ and io/")
    parser.add_argument("new", nargs="?", default=str(runner.ROOT))
    parser.add_argument("--python", type=Path, help="interpreter for both versions")
    parser.add_argument("--ranks-python", type=Path, default=same.SCALE, help="one with MPI")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--n", type=int, default=1_000_000, help="points")
    parser.add_argument("--disk-n", type=int, help="points of the run on disk; default --n")
    parser.add_argument("--memory", type=int, help="bytes of the run on disk; default by --disk-n")
    parser.add_argument("--runs", type=int, default=3, help="of each version, beside the first")
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    versions = [same.version(name, out / "same", args.python) for name in (args.old, args.new)]
    with_mpi = [same.replace(one, python=args.ranks_python.absolute()) for one in versions]
    figures: dict[str, Any] = {}
    asked = []
    for name in args.only:
        why = lacking(name, with_mpi if name == "ranks" else versions)
        if why:
            print(f"skipped {name}: {why}")
        else:
            asked.append(name)
    for job in jobs(out, asked, args.n, args.disk_n or args.n, args.memory):
        by = with_mpi if job.name == "ranks" else versions
        figures[job.name] = in_turn(job, by, out, args.runs)
        runner.write_json(out, "ratios", figures)
    heads = ["job", "old s", "new s", "ratio", "old CPU s", "new CPU s", "ratio", "old GB"]
    heads += ["new GB", "ratio", "same answer", "graph in"]
    title = " and ".join(f"{one.commit[:7]}{'' if one.clean else '-changed'}" for one in versions)
    render.table(
        f"{title}, {args.n:,} points, medians of {args.runs}, {os.cpu_count()} cores",
        heads,
        [row(name, found) for name, found in figures.items()],
    )
    told = {
        name: {key: value for key, value in found.items() if key not in ("old", "new")}
        for name, found in figures.items()
    }
    runner.record("ratios", {"old": versions[0].commit[:7], "n": args.n, "jobs": told})
    return 1 if any(map(is_worse, figures.values())) else 0


if __name__ == "__main__":
    sys.exit(main())
