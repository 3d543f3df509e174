"""Nasty data x every method x two budgets: does it end, in its memory, with an answer?

    python bench/hard.py                              all of it; 1,540 runs, an hour on two cores
    python bench/hard.py --kinds pixels star --methods csp gfhf --budgets 1GB

Every run is the command a user types, in a process of its own whose data segment is limited to the
budget (RLIMIT_DATA). Counted are tracebacks, warnings of libraries that were let through, refusals
that are not one line, answers that are not finite, peaks above the budget, and runs beyond five
times the planned time (one second at least) without a warning. Every run is a line of
out/hard.jsonl, and the next call goes on from there.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import resource
import time
import traceback
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import render
import runner

BUDGETS = ("700MB", "2GB")
PATIENCE, LEAST = 5.0, 1.0  # times the planned seconds, which are this at least: loading kernels
KILLED = 120.0  # seconds after which a run is not waited for
BAD = (
    "traceback", "raw warning", "no message", "not finite", "over budget", "too long", "killed",
    "out of memory",
)  # fmt: skip
_RAW = re.compile(r"\w+Warning: |encountered in |Ill-conditioned|did not converge")
_SLOW = re.compile(
    r"(note|warning): .*(seconds|time limit|takes too long| the full problem is tried)"
)
# A server without threads that has imported everything: its children start in milliseconds.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["mustlink", "mustlink_io.commands.cli", "mustlink_io.jobs.run"])


@dataclass(frozen=True)
class Data:
    """A file of data and labels, and what a command needs to know of it."""

    path: Path
    part: str
    k: int

    @classmethod
    def write(cls, path: Path, name: str, n: int) -> Data:
        """Write the data of a kind."""
        import h5py
        import numpy as np

        from hard_kinds import KINDS

        made = KINDS[name](np.random.default_rng(zlib.crc32(name.encode())), n)
        with h5py.File(path, "w") as file:
            if made.is_graph:
                group = file.create_group("graph")
                for part in ("data", "indices", "indptr"):
                    group[part] = getattr(made.data, part)
                group.attrs["shape"] = made.data.shape
            else:
                file["points"] = made.data
            file["labels"], file["truth"] = made.labels, made.truth
        return cls(path, "graph" if made.is_graph else "points", made.k)

    def command(self, run: str, memory: str) -> list[str]:
        """The words of a run such as "cluster csp", without its output."""
        from mustlink_io.jobs.fits import ClusterJob

        verb, method = run.split()
        words = [verb, f"{self.path}:/{self.part}", "-m", method, "--memory", memory]
        if verb == "cluster":
            words += ["-k", str(self.k)]
        if verb == "propagate" or ClusterJob.methods[method].takes:
            words += ["--labels", f"{self.path}:/labels"]
        return words + ["--impute"] * ("missing" in self.path.name)


def _say(words: list[str]) -> tuple[int, str, str, str]:
    """Exit code, stdout, stderr and an escaped traceback of the command line."""
    from mustlink_io.commands.cli import run

    out, err, code, escaped = io.StringIO(), io.StringIO(), -1, ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
    except BaseException:
        escaped = traceback.format_exc(limit=-4)
    return code, out.getvalue(), err.getvalue(), escaped


def _planned(command: list[str]) -> dict[str, Any]:
    """What `mustlink plan` promises, without the start of the program, on a free machine."""
    from mustlink.context.rates import START

    verb, data, *rest = command
    code, out, errors, escaped = _say(["plan", data, "--for", verb, *rest, "--json"])
    if code or escaped:
        return {"code": code, "errors": escaped or errors}
    output = json.loads(out.strip().splitlines()[-1])
    start = output["stages"][0]["seconds"]  # stretched as the rest where the machine is busy
    return {"code": 0, "seconds": (output["seconds"] - start) * START / start}


def _child(pipe: Any, command: list[str], out: Path, limit: int) -> None:
    """One run; sends how it went. What is planned counts in its peak, not in its seconds."""
    plan = _planned(command)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    wall, cpu = time.perf_counter(), time.process_time()
    code, output, errors, escaped = _say([*command, "-o", str(out), "--fresh", "--json"])
    seconds = min(time.perf_counter() - wall, time.process_time() - cpu)  # of a busy machine
    found = {"code": code, "seconds": seconds, "plan": plan, "peak": runner.own_peak_bytes()}
    pipe.send({**found, "output": output, "errors": errors, "escaped": escaped})
    pipe.close()
    os._exit(0)


def attempt(data: Data, run: str, memory: str) -> dict[str, Any]:
    """Run a command on a file within a budget; how it went."""
    from mustlink.core.resources import parse_size

    command = data.command(run, memory)
    out = data.path.with_name(f"{data.path.stem}-{run.replace(' ', '-')}-{memory}.h5")
    mine, theirs = FORK.Pipe(duplex=False)
    found: dict[str, Any] = {"command": command, "limit": parse_size(memory)}
    process = FORK.Process(target=_child, args=(theirs, command, out, found["limit"]))
    process.start()
    theirs.close()
    try:
        if mine.poll(KILLED):
            found |= mine.recv()
        else:
            process.kill()
            found["errors"] = f"no answer within {KILLED:.0f} seconds"
    except EOFError:
        found["errors"] = "the process ended without a word"
    finally:
        process.join()
    if found.get("code") == 0:
        found |= _answer(out, data, found["output"])
    found.pop("output", None)
    out.unlink(missing_ok=True)
    return {**found, "verdict": verdict(found), "times": times(found)}


def _answer(out: Path, data: Data, output: str) -> dict[str, Any]:
    """What in an answer is no number or no cluster, and how near it is to the truth."""
    import h5py
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    wrong: list[str] = []

    def look(name: str, entry: Any) -> None:
        parts = {name: entry} if isinstance(entry, h5py.Dataset) else {}
        parts |= {f"{name}@{key}": value for key, value in entry.attrs.items()}
        for where, value in parts.items():
            if getattr(value, "dtype", np.dtype(object)).kind in "fc":
                wrong.extend([where] * (not np.isfinite(np.asarray(value)).all()))

    with h5py.File(data.path) as file:
        truth = file["truth"][()]
    with h5py.File(out) as file:
        file.visititems(look)
        labels = file["labels"][()]
    if labels.dtype.kind not in "iu" or not ((labels >= -1) & (labels < data.k)).all():
        wrong.append("labels")
    if labels.size != truth.size:
        return {"wrong": [*wrong, "size"]}
    if re.search(r"\b(NaN|Infinity)\b", output):
        wrong.append("--json")
    return {"wrong": wrong, "ari": float(adjusted_rand_score(truth, labels))}


def verdict(found: dict[str, Any]) -> str:
    """How a run ended: "done", "refused", or one of `BAD`."""
    errors, plan, code = found.get("errors", ""), found.get("plan", {}), found.get("code")
    if code is None:
        return "killed"
    if found["escaped"] or "Traceback" in errors + plan.get("errors", "") or code not in (0, 2):
        return "traceback"
    if plan["code"] not in (0, 2):
        return "traceback"
    if _RAW.search(errors):
        return "raw warning"
    complaints = [line for line in errors.splitlines() if line.startswith("mustlink: ")]
    if "out of memory" in errors:
        return "out of memory"
    if len(complaints) != (code == 2):
        return "no message"
    if found.get("wrong"):
        return "not finite"
    if found["peak"] > found["limit"]:
        return "over budget"
    if times(found) > PATIENCE and not _SLOW.search(errors):
        return "too long"
    return "refused" if code else "done"


def times(found: dict[str, Any]) -> float:
    """How many times longer than planned a run took; 0 where nothing was planned."""
    if "seconds" not in found or "seconds" not in found["plan"]:
        return 0.0
    return float(found["seconds"] / max(found["plan"]["seconds"], LEAST))


def main() -> None:
    from hard_kinds import KINDS
    from mustlink_io.jobs.fits import ClusterJob, PropagateJob

    lists: dict[str, Any] = {"kinds": [""], "methods": [], "budgets": BUDGETS}
    args = runner.options(__doc__, n=6000, jobs=2, **lists)
    verbs = {"cluster": ClusterJob.methods, "propagate": PropagateJob.methods}
    runs = [f"{v} {m}" for v, ms in verbs.items() for m in ms if m in (args.methods or ms)]
    names = [name for name in KINDS if any(part in name for part in args.kinds)]
    folder = args.out / "hard"
    folder.mkdir(exist_ok=True)
    cache = runner.RunCache(args.out / "hard.jsonl")
    rows: dict[str, Any] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for name in names:
            path = folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.h5"
            data = Data.write(path, name, args.n)
            cases = [{"kind": name, "run": r, "budget": b} for r in runs for b in args.budgets]
            left = [case for case in cases if not cache.find(**case)]
            ended = pool.map(lambda c, data=data: attempt(data, c["run"], c["budget"]), left)
            for case, found in zip(left, ended, strict=True):
                cache.add({**case, **found})
                if found["verdict"] in BAD:
                    runner.say(f"{case}: {found['verdict']}: {found.get('errors', '')[-300:]}")
            every = cache.find(kind=name)
            count = Counter(one["verdict"] for one in every)
            right = [one["ari"] for one in every if "ari" in one]
            shares = [one["peak"] / one["limit"] for one in every if "peak" in one]
            rows[name] = {"data": name, **{how: count[how] for how in ("done", "refused", *BAD)}}
            rows[name] |= {"peak / budget": max(shares, default=None)}
            rows[name] |= {"time / plan": max((one["times"] for one in every), default=None)}
            rows[name] |= {"ARI, median": median(right) if right else None}
    render.records("Nasty data x methods x budgets", rows)
    ended_ = {how: sum(row[how] for row in rows.values()) for how in ("done", "refused", *BAD)}
    figures = {"kinds": len(names), "runs": sum(ended_.values()), "ended": ended_}
    runner.record("hard", {**figures, "table": list(rows.values())})


if __name__ == "__main__":
    main()
