"""Nasty data x every method x two budgets: does it end, in its memory, with an answer?

python bench/hard.py                              all of it; 1,540 runs, an hour on two cores
python bench/hard.py --kinds pixels star --methods csp gfhf --budgets 1GB
python bench/hard.py --fresh                      measures again what bench/out/hard.json has
python bench/hard.py --seconds -n 30000           ordinary data: seconds planned and used

Every run is the command a user types, in a process of its own whose data segment is limited to the
budget (RLIMIT_DATA). Counted are tracebacks, warnings of libraries that were let through, refusals
that are not one line, answers that are not finite, peaks above the budget, and runs beyond five
times the planned time (one second at least) of which nothing was said.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from common import machine, parser, record, say, table
from hard_runs import BAD, Data, attempt, times, verdict

BUDGETS = ("700MB", "2GB")
PLANNED = ["ncut", "csp", "sssc", "gfhf", "poisson"]  # methods whose seconds are compared
THREADS = 2  # to be set as NUMBA_NUM_THREADS
OFF = 2.0  # times more or less than promised that seconds may be


def main() -> None:
    from hard_kinds import KINDS
    from mustlink_io.jobs.cluster import ClusterJob
    from mustlink_io.jobs.propagate import PropagateJob
    from plain_kinds import PLAIN

    verbs = {"cluster": ClusterJob.methods, "propagate": PropagateJob.methods}
    every = {f"{verb} {method}": method for verb, methods in verbs.items() for method in methods}
    options = parser(__doc__ or "")
    options.add_argument("--kinds", nargs="+", default=[""], metavar="KIND")
    options.add_argument("--methods", nargs="+", choices=sorted(set(every.values())))
    options.add_argument("--budgets", nargs="+", default=list(BUDGETS), metavar="SIZE")
    options.add_argument("-n", type=int, default=6000, help="rows")
    options.add_argument("--jobs", type=int, default=2, help="runs at once")
    options.add_argument("--seconds", action="store_true", help="plans of ordinary data")
    options.add_argument("--fresh", action="store_true", help="measure again")
    given = options.parse_args()
    kinds = PLAIN if given.seconds else KINDS
    if given.seconds:
        given.methods, given.budgets = given.methods or PLANNED, ["8GB"]
    folder = given.out / ("planned" if given.seconds else "hard")
    folder.mkdir(parents=True, exist_ok=True)
    kept = given.out / f"{folder.name}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    names = [name for name in kinds if any(part in name for part in given.kinds)]
    runs = [run for run, method in every.items() if method in (given.methods or every.values())]
    with ThreadPoolExecutor(given.jobs) as pool:
        for name in names:
            path = folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.h5"
            data = Data.write(path, name, given.n)
            wanted = [(run, budget) for run in runs for budget in given.budgets]
            if not given.fresh:
                wanted = [one for one in wanted if "|".join((name, *one)) not in known]
            found = pool.map(lambda one, data=data: attempt(data, *one), wanted)
            for one, ended in zip(wanted, found, strict=True):
                known["|".join((name, *one))] = ended
                if verdict(ended) in BAD:
                    say(f"{name}, {', '.join(one)}: {verdict(ended)}: {_told(ended)}")
            kept.write_text(json.dumps(known, indent=1))
            say(f"{name}: {dict(Counter(verdict(one) for one in _of(known, name)))}")
    (tell_seconds if given.seconds else tell)(known, names)


def _told(found: dict[str, Any]) -> str:
    """What is worth telling of a run that went wrong."""
    last = found["said"].strip().splitlines()[-1:]
    more = f"{times(found):.1f} times the plan; " if times(found) else ""
    return more + (found.get("escaped") or " ".join([*found.get("wrong", []), *last]))


def _of(known: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [found for key, found in known.items() if key.split("|")[0] == name]


def tell(known: dict[str, Any], names: list[str]) -> None:
    """A table, a kind of data a row, and its sums."""
    rows, every = [], Counter[str]()
    for name in names:
        runs = _of(known, name)
        count = Counter(verdict(one) for one in runs)
        every += count
        shares = [one["peak"] / one["limit"] for one in runs if "peak" in one]
        right = [one["ari"] for one in runs if "ari" in one]
        rows.append(
            [
                name,
                count["done"],
                count["refused"],
                *(count[how] for how in BAD),
                max(shares, default=None),
                max((times(one) for one in runs), default=None),
                median(right) if right else None,
            ]
        )
    last = ["peak / budget", "time / plan", "ARI, median"]
    heads = ["data", "done", "refused", *BAD, *last]
    table("Nasty data x methods x budgets", heads, rows)
    figures = {
        "kinds": len(names),
        "runs": every.total(),
        "ended": {how: every[how] for how in ("done", "refused", *BAD)},
        "table": [dict(zip(heads, row, strict=True)) for row in rows],
        "machine": machine(),
    }
    record("hard", figures)


def tell_seconds(known: dict[str, Any], names: list[str]) -> None:
    """Seconds planned, and those used of the CPU for each of two threads, in a table."""
    rows = []
    for name in names:
        for key, one in known.items():
            if key.split("|")[0] == name and verdict(one) == "done":
                planned, used = one["plan"]["seconds"], one["cpu"] / THREADS
                promise = one["plan"]["promise"]
                rows.append([name, key.split("|")[1], promise, planned, used, used / planned])
    heads = ["data", "run", "promise", "planned s", "CPU s a thread", "times"]
    table("Seconds planned and used", heads, rows)
    promised = [row[-1] for row in rows if not row[2]]
    figures = {
        "runs": len(rows),
        "promised": len(promised),
        "within": sum(1 / OFF <= times <= OFF for times in promised),
        "table": [dict(zip(heads, row, strict=True)) for row in rows],
        "machine": machine(),
    }
    record("planned_seconds", figures)


if __name__ == "__main__":
    main()
