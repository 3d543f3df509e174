"""Budgets that hold: peaks against `--memory`, enforced limits, graphs on disk, plans.

    python bench/memory.py --budget          1 M x 128 points: unlimited, 2 GB, 2 GB enforced
    python bench/memory.py --plan 4 5 6 7    10⁴ to 10⁷ x 16 points: plan and peak (10⁷ in 12 GB)
    python bench/memory.py --plans           13 methods at 10⁵ and 10⁶ x 16 points: plan and peak;
                                             goes on where it was stopped
    python bench/memory.py --disk            10⁶, 3·10⁶ and 10⁷ x 20 points to labels, in memory and
                                             on disk in two sevenths of that
    python bench/memory.py --edges           a text file of 1.5·10⁸ edges converted and cut in 3 GB
    python bench/memory.py --group           1 M x 64 points in cgroups of 1.5, 1 and 0.3 GB, nobody
                                             names a memory; for whoever may make cgroups

Limits are enforced (RLIMIT_DATA, of cgroups by the kernel): a run that takes more ends.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import data
import render
from runner import RunCache, call, child, command, options, record, result, say

LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from mustlink_io.commands.cli import main
main()
"""
ENTERING = """
import sys
with open(sys.argv.pop(1), "w") as procs:
    procs.write("0")
from mustlink_io.commands.cli import main
main()
"""
LEAST, NODE = 750 * 10**6, 60  # bytes, and bytes a point, of a run on disk that is not squeezed
STEP = 50 * 10**6  # bytes to which what is given is rounded
GROUPS, INSIDE = 8, 0.8  # of the generated edges: classes, and the share within them
EDGES_MEMORY = 3 * 10**9
PLANNED = {  # method: what is known
    "ncut": "nothing", "csp": "pairs", "sssc": "pairs", "sl": "labels", "ap": "pairs",
    "fast-ge": "labels", "sskk": "labels", "srcp": "pairs", "e2cp": "pairs", "csc-gfhf": "labels",
    "gfhf": "labels", "llgc": "labels", "poisson": "labels",
}  # fmt: skip
SPREADING = ("gfhf", "llgc", "poisson")


def run(verb: str, source: Path, out: Path, words: list[Any], limit: int | None = None) -> Any:
    """One run of the shell, in a limit on data where one is given, and its ARI."""
    line = [verb, source, *words, "-o", out, "--fresh"]
    if limit is None:
        found = command(*line)
    else:
        line = ["-c", LIMITED, limit, *line, "--quiet", "--json"]
        done = child([str(word) for word in line])
        found = result(done, f"limited to {limit}")
        found |= {"wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}
    truth = command("score", out, "--truth", f"{source}:/labels")["truth"]
    kept = {"seconds": found["wall_seconds"], "peak_gb": found["rss_bytes"] / 1e9}
    kept |= {"recall": found["choices"].get("graph", {}).get("recall"), "ari": truth["ari"]}
    return {**kept, "planned_peak_gb": (found.get("planned_peak_bytes") or 0) / 1e9}


def plan(verb: str, source: Path, words: list[Any]) -> dict[str, Any]:
    """What `mustlink plan` says."""
    line = ["-m", "mustlink_io", "plan", source, "--for", verb, *words, "--json"]
    found = result(child([str(word) for word in line]), "plan")
    return {"planned_peak_gb": found["peak_bytes"] / 1e9, "planned_seconds": found["seconds"]}


def budget(args: argparse.Namespace) -> None:
    points, few = data.sheets(args.out, args.n, 128), args.out / "few.csv"
    call("memory:known", source=points, labels=few, pairs=args.out / "few-pairs.csv", each=10)
    figures: dict[str, Any] = {}
    for method, words in (("ncut", []), ("csp", ["--labels", few])):
        job = ["-k", data.SHEETS, "-m", method, *words]
        for kind, memory, limit in (
            ("free", [], None), ("budget", ["--memory", "2GB"], None),
            ("enforced", ["--memory", "2GB"], 2 * 10**9),
        ):  # fmt: skip
            say(f"{method}, {kind}")
            target = args.out / "memory.h5"
            found = run("cluster", points, target, [*job, *memory], limit)
            figures.setdefault(method, {})[kind] = found
        render.records(f"{method}, {args.n:,} x 128, 2 GB", figures[method])
    record("memory_budget", figures)


def planned(args: argparse.Namespace) -> None:
    rows = {}
    for power in args.plan:
        points = data.sheets(args.out, 10**power, 16)
        words = ["-k", data.SHEETS, *(["--memory", "12GB"] if power >= 7 else [])]
        told = plan("cluster", points, words)
        rows[f"10^{power}"] = run("cluster", points, args.out / "memory.h5", words) | told
    render.records("Plans and what was measured", rows)
    if 7 in args.plan:
        largest = rows.pop("10^7")
        over = {name: one["planned_peak_gb"] / one["peak_gb"] - 1 for name, one in rows.items()}
        record("memory_plan", {"over": over, "ten_million": largest})


def known(source: str, labels: str, pairs: str, each: int = 40) -> dict[str, Any]:
    """Write labels a class and 1,000 pairs of the true sheets, as the shell reads them."""
    y = data.labels(source)
    data.write_labels(Path(labels), data.draw(y, f"{each} labels", 0).labels)
    made = data.draw(y, "1000 pairs", 1)
    data.write_pairs(Path(pairs), made.pairs, made.belief)
    return {}


def plans(args: argparse.Namespace) -> None:
    """Every method at every size, as planned and as measured."""
    cache = RunCache(args.out / "plans.jsonl")
    figures: dict[str, Any] = {}
    for power in (5, 6):
        points = data.sheets(args.out, 10**power, 16)
        labels, pairs = (args.out / f"plans-{power}-{name}.csv" for name in ("labels", "pairs"))
        call("memory:known", source=points, labels=labels, pairs=pairs)
        told = {"nothing": [], "labels": ["--labels", labels], "pairs": ["--constraints", pairs]}
        for method, side in PLANNED.items():
            case = {"points": f"10^{power}", "method": method}
            if not cache.find(**case):
                say(str(case))
                verb = "propagate" if method in SPREADING else "cluster"
                words = ["-m", method, *told[side]]
                words += [] if verb == "propagate" else ["-k", data.SHEETS]
                found = run(verb, points, args.out / "plans.h5", words) | plan(verb, points, words)
                cache.add(
                    {**case, **found, "over": found["planned_peak_gb"] / found["peak_gb"] - 1}
                )
            one = cache.find(**case)[-1]
            figures.setdefault(case["points"], {})[method] = one
    for size, by in figures.items():
        render.records(f"Plans of 13 methods, {size}", by)
    record("memory_plans", figures)


def disk(args: argparse.Namespace) -> None:
    """Points to labels: in memory, and on disk in two sevenths of that."""
    figures = {}
    for n in args.sizes:
        points, target = data.sheets(args.out, n, 20), args.out / "on_disk.h5"
        words = ["-m", "ncut", "-k", data.SHEETS]
        whole = run("cluster", points, target, words)
        memory = max(int(whole["peak_gb"] * 1e9) * 2 // 7, LEAST + NODE * n) // STEP * STEP
        found = run("cluster", points, target, [*words, "--memory", f"{memory}B"], memory)
        render.records(f"{n:,} points", {"in memory": whole, f"on disk, {memory:,} B": found})
        figures[str(n)] = {"whole": whole, "on_disk": found, "given_gb": memory / 1e9}
        figures[str(n)]["planned_peak_gb"] = found["planned_peak_gb"]
    record("on_disk_points", figures)


def write_edges(path: Path, edges: int) -> int:
    """Random edges of a tenth as many nodes in eight classes, node i in class i mod 8."""
    import numpy as np
    from pyarrow import csv
    from pyarrow import table as columns

    rng, n = np.random.default_rng(0), edges // 10 // GROUPS * GROUPS
    how = csv.WriteOptions(include_header=False, delimiter=" ")
    with path.open("wb") as file:
        for first in range(0, edges, 2_000_000):
            m = min(2_000_000, edges - first)
            i = rng.integers(0, n, m)
            own = rng.integers(0, n // GROUPS, m) * GROUPS + i % GROUPS
            j = np.where(rng.random(m) < INSIDE, own, rng.integers(0, n, m))
            csv.write_csv(columns({"i": i, "j": j}), file, how)
    return n


def edges(args: argparse.Namespace) -> None:
    """A text file of edges to clusters, never in memory whole."""
    import numpy as np

    import fits

    source, graph = (args.out / f"planted-{args.m}.{ending}" for ending in ("edges", "h5"))
    target, given = args.out / "on_disk.h5", ["--memory", f"{EDGES_MEMORY}B"]
    n = write_edges(source, args.m)
    cut = ["cluster", graph, "-k", GROUPS, "--regularization", 0, *given, "-o", target, "--quiet"]
    figures: dict[str, Any] = {}
    for line in (["convert", source, graph, *given], cut):
        words = [str(word) for word in (*line, "--json")]
        done = child(["-c", LIMITED, str(EDGES_MEMORY), *words])
        json.loads(done.stdout)
        figures[line[0]] = {"seconds": done.seconds, "peak_gb": done.peak_bytes / 1e9}
    labels = data.labels(target)
    ari = fits.ari(np.arange(labels.size) % GROUPS, labels)
    render.records(f"{args.m:,} edges of {n:,} nodes, ARI {ari:.5f}", figures)
    told = {"edges": args.m, "nodes": n, "given_gb": EDGES_MEMORY / 1e9, "ari": ari}
    record("on_disk_edges", {**told, **figures})


def grouped(words: list[Any], limit: int) -> Any:
    """A child in a cgroup of its own below this process's, which may take `limit` bytes."""
    from mustlink.core.resources import cgroups

    version, parent = next(cgroups("memory"))
    folder = parent / f"mustlink-bench-{os.getpid()}"
    folder.mkdir()
    try:
        name = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
        (folder / name).write_text(str(limit))
        return child(["-c", ENTERING, folder / "cgroup.procs", *words, "--json"])
    finally:
        folder.rmdir()


def group(args: argparse.Namespace) -> None:
    """Points to labels in cgroups, where nobody names a memory."""
    points, target = data.sheets(args.out, args.n, 64), args.out / "grouped.h5"
    line = ["cluster", points, "-k", data.SHEETS, "-m", "ncut", "-o", target, "--fresh"]
    figures: dict[str, Any] = {}
    for limit in args.limits:
        target.unlink(missing_ok=True)
        done = grouped(line, limit)
        one: dict[str, Any] = {"code": done.code, "seconds": done.seconds}
        one |= {"cpu_seconds": done.cpu_seconds, "peak_gb": done.peak_bytes / 1e9}
        if done.code == 0:
            told = command("score", target, "--truth", f"{points}:/labels")["truth"]
            told |= {"method": json.loads(done.stdout)["method"]}
            one |= {"ari": told["ari"], "method": told["method"]}
        else:
            one["refused"] = done.stderr.strip()
        figures[f"{limit / 1e9:g} GB"] = one
        say(f"{limit / 1e9:g} GB: {one}")
    record("memory_group", figures)


def main() -> None:
    flags = {"budget": False, "plans": False, "disk": False, "edges": False, "group": False}
    sizes = [1_000_000, 3_000_000, 10_000_000]
    limits = [1_500_000_000, 1_000_000_000, 300_000_000]
    args = options(__doc__, n=10**6, m=150_000_000, plan=[0], sizes=sizes, limits=limits, **flags)
    parts = {"budget": budget, "plans": plans, "disk": disk, "edges": edges, "group": group}
    if args.plan != [0]:
        planned(args)
    for name, part in parts.items():
        if vars(args)[name]:
            part(args)


if __name__ == "__main__":
    main()
