"""Budgets that hold: peaks against `--memory`, enforced limits, and plans against measured peaks.

python bench/memory.py --budget          1 M x 128 points: unlimited, 2 GB, 2 GB enforced
python bench/memory.py --plan 4 5 6      10⁴, 10⁵, 10⁶ x 16 points: plan and measured peak
python bench/memory.py --plan 7          10⁷ x 16 points within 12 GB (about ten minutes)
python bench/memory.py --plans           13 methods at 10⁵ and 10⁶ x 16 points, each in a process of
                                         its own; what is measured is kept (--fresh: measure again)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import common
from common import _result, child, command, machine, record, say, table, write_json
from million import SHEETS, write_points

LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from mustlink_io.commands.cli import main
main()
"""


def points(out: Path, n: int, d: int) -> Path:
    path = out / f"sheets-{n}x{d}.h5"
    if not path.exists():
        say(f"writing {path.name}")
        write_points(str(path), n, 0, d)
    return path


def run(data: Path, out: Path, method: list[str], memory: str | None, limit: int | None) -> Any:
    arguments = ["cluster", data, "-k", SHEETS, *method, "-o", out, "--fresh"]
    arguments += ["--memory", memory] if memory else []
    if limit is None:
        return command(*arguments)
    words = [str(word) for word in (*arguments, "--quiet", "--json")]
    done = child(["-c", LIMITED, str(limit), *words])
    found = _result(done, f"limited to {limit}")
    return {**found, "wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}


def judged(out: Path, data: Path) -> dict[str, Any]:
    return command("score", out, "--truth", f"{data}:/labels")


def row(name: str, found: dict[str, Any], score: dict[str, Any]) -> list[Any]:
    info = found["choices"]["graph"]
    return [
        name,
        f"{found['wall_seconds']:.0f}",
        f"{found['rss_bytes'] / 1e9:.2f}",
        f"{(found.get('planned_peak_bytes') or 0) / 1e9:.2f}",
        info["method"],
        f"{info['recall']:.3f}",
        f"{score['truth']['ari']:.5f}",
    ]


def part_budget(out: Path, n: int, d: int, memory: str, methods: list[list[str]]) -> None:
    data = points(out, n, d)
    limit = 2 * 10**9
    rows, results = [], {}
    for method in methods:
        for name, given, enforced in (
            ("unlimited", None, None),
            (memory, memory, None),
            (f"{memory}, RLIMIT_DATA {limit / 1e9:g} GB", memory, limit),
        ):
            target = out / "memory.h5"
            found = run(data, target, method, given, enforced)
            score = judged(target, data)
            label = " ".join(str(word) for word in method if not isinstance(word, Path))
            rows.append(row(f"{label}, {name}", found, score))
            results[f"{label}, {name}"] = found
            say(" | ".join(map(str, rows[-1])))
    heads = ["run", "s", "peak GB", "planned GB", "neighbours by", "recall", "ARI"]
    table(f"{n:,} x {d}", heads, rows)
    write_json(out, f"memory-{n}x{d}", {"machine": machine(), "runs": results})
    figures: dict[str, Any] = {}
    for name, cells in zip(results, rows, strict=True):
        method, kind = name.split()[1].rstrip(","), "enforced" if "RLIMIT" in name else "budget"
        kind = "free" if "unlimited" in name else kind
        figures.setdefault(method, {})[kind] = {
            "seconds": results[name]["wall_seconds"],
            "peak_gb": results[name]["rss_bytes"] / 1e9,
            "recall": results[name]["choices"]["graph"]["recall"],
            "ari": float(cells[-1]),
        }
    record("memory_budget", figures)


def part_plan(out: Path, powers: list[int], d: int) -> None:
    rows, results = [], {}
    for power in powers:
        n = 10**power
        data = points(out, n, d)
        memory = ["--memory", "12GB"] if power >= 7 else []
        plan = json.loads(
            child(
                ["-m", "mustlink_io", "plan", str(data), "-k", str(SHEETS), *memory, "--json"]
            ).stdout
        )
        found = run(data, out / "memory.h5", [], memory[-1] if memory else None, None)
        score = judged(out / "memory.h5", data)
        off = plan["peak_bytes"] / found["rss_bytes"] - 1
        rows.append(
            [
                f"10^{power} x {d}",
                f"{plan['peak_bytes'] / 1e9:.2f}",
                f"{found['rss_bytes'] / 1e9:.2f}",
                f"{off:+.0%}",
                f"{plan['seconds']:.0f}",
                f"{found['wall_seconds']:.0f}",
                f"{found['choices']['graph']['recall']:.3f}",
                f"{score['truth']['ari']:.5f}",
            ]
        )
        say(" | ".join(rows[-1]))
        say(stage_lines(plan, found))
        results[str(n)] = {"plan": plan, "measured": found}
    heads = ["points", "plan GB", "peak GB", "off", "plan s", "took s", "recall", "ARI"]
    table("Plans and what was measured", heads, rows)
    write_json(out, f"memory-plan-{'-'.join(map(str, powers))}", results)
    if 7 in powers:
        plan, found = results[str(10**7)]["plan"], results[str(10**7)]["measured"]
        over = {
            f"10^{power}": one["plan"]["peak_bytes"] / one["measured"]["rss_bytes"] - 1
            for power, one in zip(powers, results.values(), strict=True)
            if power != 7
        }
        largest = {
            "seconds": found["wall_seconds"],
            "peak_gb": found["rss_bytes"] / 1e9,
            "recall": found["choices"]["graph"]["recall"],
            "ari": float(rows[powers.index(7)][-1]),
            "planned_seconds": plan["seconds"],
            "planned_peak_gb": plan["peak_bytes"] / 1e9,
        }
        record("memory_plan", {"over": over, "ten_million": largest})


# ---------------------------------------------------------------- plans of 13 methods

PLANNED: dict[str, tuple[str, str]] = {  # name: (verb, what is known)
    "ncut": ("cluster", "nothing"),
    "csp": ("cluster", "pairs"),
    "sssc": ("cluster", "pairs"),
    "sl": ("cluster", "labels"),
    "ap": ("cluster", "pairs"),
    "fast-ge": ("cluster", "labels"),
    "sskk": ("cluster", "labels"),
    "srcp": ("cluster", "pairs"),
    "e2cp": ("cluster", "pairs"),
    "csc-gfhf": ("cluster", "labels"),
    "gfhf": ("propagate", "labels"),
    "llgc": ("propagate", "labels"),
    "poisson": ("propagate", "labels"),
}


def known_files(out: Path, data: Path, n: int) -> dict[str, list[Any]]:
    """Options that say what is known: 400 labels, or 1,000 pairs, of the true sheets."""
    import h5py
    import numpy as np

    with h5py.File(data) as file:
        truth = file["labels"][()]
    labels, pairs = out / f"plans-{n}-labels.csv", out / f"plans-{n}-pairs.csv"
    common.write_labels(labels, common.labels_per_class(truth, 40, np.random.default_rng(0)))
    common.write_pairs(pairs, *common.random_pairs(truth, 1_000, np.random.default_rng(1)))
    return {"nothing": [], "labels": ["--labels", labels], "pairs": ["--constraints", pairs]}


def planned(out: Path, n: int, d: int, method: str) -> dict[str, Any]:
    """Peak and seconds of one method, as planned and as measured in a child."""
    data = points(out, n, d)
    verb, side = PLANNED[method]
    options = ["-m", method, *known_files(out, data, n)[side]]
    options += ["-k", SHEETS] if verb == "cluster" else []
    words = ["-m", "mustlink_io", "plan", data, "--for", verb, *options, "--json"]
    plan = _result(child([str(word) for word in words]), f"plan {method}")
    found = command(verb, data, *options, "-o", out / "plans.h5", "--fresh")
    return {
        "planned_peak_gb": plan["peak_bytes"] / 1e9,
        "peak_gb": found["rss_bytes"] / 1e9,
        "over": plan["peak_bytes"] / found["rss_bytes"] - 1,
        "planned_seconds": plan["seconds"],
        "seconds": found["wall_seconds"],
    }


def part_plans(given: argparse.Namespace, powers: list[int], d: int) -> None:
    """Every method at every size; kept one by one, so that a stopped run goes on."""
    kept = given.out / "plans.json"
    if given.fresh:
        kept.unlink(missing_ok=True)
    figures = json.loads(kept.read_text()) if kept.exists() else {}
    for power in powers:
        for method in given.methods:
            if method in figures.get(f"10^{power}", {}):
                continue
            say(f"{method}, 10^{power} points")
            found = planned(given.out, 10**power, d, method)
            figures.setdefault(f"10^{power}", {})[method] = found
            kept.write_text(json.dumps(figures, indent=1))
            say(f"planned {found['planned_peak_gb']:.2f}, measured {found['peak_gb']:.2f} GB")
    heads = ["points", "method", "plan GB", "peak GB", "off", "plan s", "took s"]
    rows = [
        (
            size,
            method,
            one["planned_peak_gb"],
            one["peak_gb"],
            f"{one['over']:+.0%}",
            one["planned_seconds"],
            one["seconds"],
        )
        for size, by in figures.items()
        for method, one in by.items()
    ]
    table("Plans of 13 methods, and what was measured", heads, rows)
    record("memory_plans", figures)


def stage_lines(plan: dict[str, Any], found: dict[str, Any]) -> str:
    expected = {one["name"]: one for one in plan["stages"]}
    lines = []
    for one in found["stages"]:
        told = expected.get(one["name"])
        planned = f"{told['seconds']:8.1f} {told['peak_bytes'] / 1e9:7.2f}" if told else " " * 16
        lines.append(
            f"{one['name']:32s} {one['seconds']:8.1f} {one['peak_bytes'] / 1e9:7.2f}   {planned}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--plan", type=int, nargs="*", metavar="POWER")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("-n", type=int, default=10**6)
    parser.add_argument("-d", type=int, default=128)
    parser.add_argument("--csp", action="store_true", help="CSP with 100 labels, too")
    parser.add_argument("--plans", type=int, nargs="*", metavar="POWER")
    parser.add_argument("--methods", nargs="*", choices=PLANNED, default=list(PLANNED))
    parser.add_argument("--fresh", action="store_true", help="forget what --plans measured")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.budget:
        part_budget(given.out, given.n, given.d, given.memory, methods(given))
    if given.plan is not None:
        part_plan(given.out, given.plan or [4, 5, 6], 16)
    if given.plans is not None:
        part_plans(given, given.plans or [5, 6], 16)


def methods(given: argparse.Namespace) -> list[list[Any]]:
    found: list[list[Any]] = [["-m", "ncut"]]
    if given.csp:
        import h5py
        import numpy as np

        from common import labels_per_class, write_labels

        with h5py.File(points(given.out, given.n, given.d)) as file:
            few = labels_per_class(file["labels"][()], 10, np.random.default_rng(0))
        write_labels(given.out / "few.csv", few)
        found.append(["-m", "csp", "--labels", given.out / "few.csv"])
    return found


if __name__ == "__main__":
    main()
