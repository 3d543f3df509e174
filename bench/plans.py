"""Plans against runs: seconds and peaks of every stage, and whether the least memory suffices.

    python bench/plans.py                        twelve kinds at 10⁵ rows, planned and taken
    python bench/plans.py -n 1000000 --kinds sheets csp
    python bench/plans.py --least                with the least memory named, and with 2 % less
    python bench/plans.py --cpu                  CPU seconds of one thread: for a busy machine

The rates are in `mustlink.context.rates`. With --cpu plans tell seconds of two cores for what one
thread took: a stage whose ratio is 0.5 to 1 is right. Every kind is run once before, that no
kernel is compiled while it is measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import runner
from data import labels_per_class, write_points
from render import table
from runner import child, machine, record, result, say, write_json

KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # data, verb, options
    "blobs": ("blobs", "cluster", ("-m", "ncut", "-k", "10")),
    "sheets": ("sheets", "cluster", ("-m", "ncut", "-k", "10")),
    "wide": ("wide", "cluster", ("-m", "ncut", "-k", "10")),
    "low": ("low", "cluster", ("-m", "ncut", "-k", "10")),
    "copies": ("copies", "cluster", ("-m", "ncut", "-k", "10")),
    "csp": ("blobs", "cluster", ("-m", "csp", "-k", "10", "--labels", "LABELS")),
    "srcp": ("blobs", "cluster", ("-m", "srcp", "-k", "10", "--labels", "LABELS")),
    "gfhf": ("blobs", "propagate", ("-m", "gfhf", "--labels", "LABELS")),
    "network": ("network", "cluster", ("-m", "ncut", "-k", "10")),
    "grid": ("grid", "cluster", ("-m", "ncut", "-k", "4")),
    "grid llgc": ("grid", "propagate", ("-m", "llgc", "--labels", "LABELS")),
    "blobs on disk": ("blobs", "cluster", ("-m", "ncut", "-k", "10", "--memory", "LEAST")),
}
BUSY = """
import sys, time, types
import mustlink.core.observe as observe
observe.time = types.SimpleNamespace(perf_counter=time.process_time)
from mustlink_io.commands.cli import main
main()
"""
LESS = 0.98
MILLION = 1_000_000


def write(path: str, kind: str, n: int) -> dict[str, Any]:
    """Data of one kind with labels, a hundred of which are known."""
    import h5py
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    y, d = rng.integers(10, size=n), {"wide": 128, "low": 3}.get(kind, 16)
    content: dict[str, Any] = {}
    if kind == "sheets":
        write_points(path, n, 0, d)
        with h5py.File(path) as file:
            y = file["labels"][()]
    elif kind == "grid":
        side = int(n**0.5)
        line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
        content = rows_of(sp.csr_matrix(sp.kronsum(line, line)))
        y = np.repeat(np.arange(4), -(-side * side // 4))[: side * side]
    elif kind == "network":
        i, order = rng.integers(n, size=7 * n), np.argsort(y, kind="stable")
        first, count = np.searchsorted(y[order], np.arange(10)), np.bincount(y, minlength=10)
        own = order[first[y[i]] + (rng.random(i.size) * count[y[i]]).astype(np.int64)]
        j = np.where(rng.random(i.size) < 0.85, own, rng.integers(n, size=i.size))
        W = sp.csr_matrix((np.ones(i.size), (i, j)), (n, n))
        W.setdiag(0)
        content = rows_of(sp.csr_matrix(W + W.T))
    else:
        centres = 2.5 * rng.standard_normal((10, d))
        X = (centres[y] + rng.standard_normal((n, d))).astype(np.float32)
        if kind == "copies":
            again = rng.integers(n // 5, size=n)
            X, y = X[again], y[again]
        content = {"points": X}
    with h5py.File(path, "a") as file:
        for name, values in content.items():
            file[name] = values
        if "graph" in file:
            file["graph"].attrs["shape"] = (y.size, y.size)
        if "labels" not in file:
            file["labels"] = y
        file["known"] = labels_per_class(y, 10, rng)
    return {"n": int(y.size)}


def rows_of(W: Any) -> dict[str, Any]:
    """A graph as HDF5 has it."""
    return {f"graph/{part}": getattr(W, part) for part in ("data", "indices", "indptr")}


def words(args: Any, kind: str) -> tuple[Path, str, list[str]]:
    """The file, the verb and the options of a kind; the file is written where there is none."""
    data, verb, options = KINDS[kind]
    path = args.out / f"plans-{data}-{args.n}.h5"
    if not path.exists():
        say(f"writing {path.name}")
        runner.call("plans:write", path=path, kind=data, n=args.n)
    found = [f"{path}:/known" if word == "LABELS" else word for word in options]
    if "LEAST" in found:
        free = plan(args, path, verb, found[:-2])
        found[-1] = f"{free['least_memory']}B"
    return path, verb, found + (["--threads", "1"] if args.cpu else [])


def shell(args: Any, *line: Any) -> runner.Child:
    """The program in a child, by the clock of the CPU where that is asked for."""
    start = ["-c", BUSY] if args.cpu else ["-m", "mustlink_io"]
    return child([*start, *map(str, line)])


def plan(args: Any, path: Path, verb: str, options: list[str]) -> dict[str, Any]:
    """What is planned."""
    if "--threads" in options:
        options = options[:-2]
    return result(shell(args, "plan", path, "--for", verb, *options, "--json"), "plan")


def taken(args: Any, path: Path, verb: str, options: list[str]) -> dict[str, Any]:
    """What a run takes."""
    line = (verb, path, *options, "-o", args.out / "plans.h5", "--fresh", "--quiet", "--json")
    done = shell(args, *line)
    return {**result(done, verb), "wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}


def compared(args: Any, kind: str) -> dict[str, Any]:
    """Seconds and peaks of one kind, planned and taken, in all and by stages."""
    path, verb, options = words(args, kind)
    taken(args, path, verb, options)
    told, found = plan(args, path, verb, options), taken(args, path, verb, options)
    stages: dict[str, list[float | None]] = {}
    for at, stage_list in enumerate((told["stages"], found["stages"])):
        for one in stage_list:  # a stage may run more than once
            if not one["name"].startswith("keeping"):
                both = stages.setdefault(one["name"], [None, None])
                both[at] = (both[at] or 0.0) + one["seconds"]
    between = found["wall_seconds"] - sum(took or 0.0 for _, took in stages.values())
    stages["start and end, and between stages"] = [None, between]
    return {
        "planned_seconds": told["seconds"],
        "seconds": sum(one["seconds"] for one in found["stages"])
        if args.cpu
        else found["wall_seconds"],
        "planned_peak_gb": told["peak_bytes"] / 1e9,
        "peak_gb": found["rss_bytes"] / 1e9,
        "promise": told["seconds_are"],
        "stages": stages,
    }


def tight(args: Any, kind: str) -> dict[str, Any]:
    """Whether a kind runs with the least memory that is named, and is refused with less."""
    path, verb, options = words(args, kind)
    options = options[: options.index("--memory")] if "--memory" in options else options
    least = plan(args, path, verb, options)["least_memory"]
    found = taken(args, path, verb, [*options, "--memory", f"{least}B"])
    less = (verb, path, *options, "--memory", f"{int(LESS * least)}B", "-o", args.out / "less.h5")
    return {
        "least_gb": least / 1e9,
        "peak_gb": found["rss_bytes"] / 1e9,
        "within": found["rss_bytes"] <= least,
        "less_is_refused": shell(args, *less, "--quiet").code == 2,
        "home": "disk" if found["method"].endswith("on disk") else "memory",
    }


def main() -> None:
    parser = runner.parser(__doc__)
    parser.add_argument("-n", type=int, default=10**5)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    for kind in args.kinds:
        say(f"{kind}, {args.n:,} rows")
        figures[kind] = (tight if args.least else compared)(args, kind)
        say(json.dumps(figures[kind]))
    if args.least:
        heads = ["kind", "least GB", "peak GB", "within", "2 % less is refused", "home"]
        table("The least memory", heads, [(kind, *one.values()) for kind, one in figures.items()])
    else:
        heads = ["kind", "plan s", "took s", "plan / took", "plan GB", "peak GB", "off"]
        rows = [
            (
                f"{one['promise']} {kind}".strip(),
                one["planned_seconds"],
                one["seconds"],
                one["planned_seconds"] / one["seconds"],
                one["planned_peak_gb"],
                one["peak_gb"],
                f"{one['planned_peak_gb'] / one['peak_gb'] - 1:+.0%}",
            )
            for kind, one in figures.items()
        ]
        table(f"Plans and what was taken, {args.n:,} rows", heads, rows)
        by_stage = [
            (kind, name, planned, found, planned / found if planned and found else None)
            for kind, one in figures.items()
            for name, (planned, found) in one["stages"].items()
        ]
        table("By stages", ["kind", "stage", "plan s", "took s", "plan / took"], by_stage)
    name = "plans_least" if args.least else "plans"
    write_json(args.out, f"{name}-{args.n}", {"machine": machine(), "figures": figures})
    record(name if args.n < MILLION else f"{name}_million", figures)


if __name__ == "__main__":
    main()
