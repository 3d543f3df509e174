"""Nasty data x every method x two budgets: does it end, in its memory, with an answer?

python bench/hard.py                              all of it; about 2,400 runs, an hour on two cores
python bench/hard.py --kinds pixels star --methods csp gfhf --budgets 1GB
python bench/hard.py --fresh                      measures again what bench/out/hard.json has

Every run is the command a user types, in a process of its own whose data segment is limited to the
budget (RLIMIT_DATA). Counted are tracebacks, answers that are not finite, peaks above the budget,
and runs beyond five times the planned time of which nothing was said.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import machine, maxrss_bytes, parser, record, say, table

BUDGETS = ("700MB", "2GB")
# A server without threads that has imported everything: its children start in milliseconds.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["mustlink", "mustlink_io.commands.cli", "mustlink_io.jobs.run"])
PATIENCE = 5.0  # times the planned seconds
LEAST = 4.0  # planned seconds at least: below it starting and compiling decide
KILLED = 120.0  # seconds after which a run is not waited for
BAD = ("traceback", "not finite", "over budget", "too long", "killed", "out of memory")


def write(path: Path, name: str, n: int) -> dict[str, Any]:
    """Write the data of a kind and its labels; tells what a command needs to know of it."""
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
        file["labels"] = made.labels
    return {"k": made.k, "part": "graph" if made.is_graph else "points"}


def words(path: Path, about: dict[str, Any], method: str, memory: str) -> list[str]:
    """The command of a run, without its output."""
    from mustlink_io.jobs.cluster import ClusterJob

    data = f"{path}:/{about['part']}"
    impute = ["--impute"] if "missing" in path.name else []
    if method in ClusterJob.methods:
        takes = ClusterJob.methods[method].takes
        labels = ["--labels", f"{path}:/labels"] if takes else []
        return [
            "cluster",
            data,
            "-k",
            str(about["k"]),
            "-m",
            method,
            *labels,
            "--memory",
            memory,
            *impute,
        ]
    return [
        "propagate",
        data,
        "-m",
        method,
        "--labels",
        f"{path}:/labels",
        "--memory",
        memory,
        *impute,
    ]


def planned(command: list[str]) -> float | None:
    """Seconds that `mustlink plan` promises; None where it promises none."""
    from mustlink_io.commands.cli import run

    verb, data, *rest = command
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["plan", data, "--for", verb, *rest, "--json"])
    if code:
        return None
    found = json.loads(out.getvalue().strip().splitlines()[-1]).get("seconds")
    return None if found is None else float(found)


def child(pipe: Any, command: list[str], out: Path, limit: int) -> None:
    """One run; sends the exit code, what was said, and an escaped traceback."""
    from mustlink_io.commands.cli import run

    stdout, stderr = io.StringIO(), io.StringIO()
    promised = None
    with contextlib.suppress(Exception):
        promised = planned(command)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    started, code, escaped = time.perf_counter(), -1, ""
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = run([*command, "-o", str(out), "--fresh", "--json"])
    except BaseException:
        escaped = traceback.format_exc(limit=-4)
    seconds = time.perf_counter() - started
    peak = maxrss_bytes(resource.getrusage(resource.RUSAGE_SELF))
    said = stderr.getvalue()
    pipe.send((code, seconds, promised, peak, said[-4000:], escaped))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)


def finite(path: Path, n_clusters: int) -> bool:
    """Whether everything in an output is a number, and labels are -1 or clusters."""
    import h5py
    import numpy as np

    fine = True

    def look(name: str, entry: Any) -> None:
        nonlocal fine
        if isinstance(entry, h5py.Dataset) and entry.dtype.kind == "f":
            fine &= bool(np.isfinite(entry[()]).all())

    with h5py.File(path) as file:
        file.visititems(look)
        labels = file["labels"][()]
        fine &= labels.dtype.kind not in "iu" or bool((labels >= -1).all())
    return fine


def attempt(path: Path, about: dict[str, Any], method: str, memory: str) -> dict[str, Any]:
    """Run a method on a file within a budget; how it ended."""
    from mustlink.cost.process_memory import parse_size

    limit = parse_size(memory)
    command = words(path, about, method, memory)
    out = path.with_name(f"{path.stem}-{method}-{memory}.h5")
    mine, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=child, args=(theirs, command, out, limit))
    process.start()
    theirs.close()
    try:
        if not mine.poll(KILLED):
            process.kill()
            return {"how": "killed", "command": command}
        code, seconds, promised, peak, said, escaped = mine.recv()
    except EOFError:
        return {"how": "killed", "command": command, "said": "the process ended without a word"}
    finally:
        process.join()
    heard = [line for line in said.splitlines() if "time" in line or "progress" in line]
    how = "done" if code == 0 else "refused"
    if (
        escaped
        or code not in (0, 2)
        or "Traceback" in said
        or (code == 2 and "\n" in said.strip()[:-1] and not said)
    ):
        how = "traceback"
    elif code == 2 and "out of memory" in said:
        how = "out of memory"
    elif code == 0 and not finite(out, about["k"]):
        how = "not finite"
    elif peak > limit:
        how = "over budget"
    elif promised is not None and seconds > PATIENCE * max(promised, LEAST) and not heard:
        how = "too long"
    out.unlink(missing_ok=True)
    found = {"how": how, "seconds": seconds, "planned": promised, "peak": peak, "limit": limit}
    if how not in ("done",):
        last = [line for line in said.splitlines() if line.startswith("mustlink: ")]
        found |= {"said": escaped or (last[-1] if last else said[-400:]), "command": command}
    return found


def main() -> None:
    from hard_kinds import KINDS
    from mustlink_io.jobs.cluster import ClusterJob
    from mustlink_io.jobs.propagate import PropagateJob

    every = [*ClusterJob.methods, *PropagateJob.methods]
    options = parser(__doc__ or "")
    options.add_argument("--kinds", nargs="+", default=list(KINDS), metavar="KIND")
    options.add_argument("--methods", nargs="+", default=every, choices=every, metavar="METHOD")
    options.add_argument("--budgets", nargs="+", default=list(BUDGETS), metavar="SIZE")
    options.add_argument("-n", type=int, default=6000, help="rows")
    options.add_argument("--jobs", type=int, default=2, help="runs at once")
    options.add_argument("--fresh", action="store_true", help="measure again")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "hard.json"
    known = json.loads(kept.read_text()) if kept.exists() and not given.fresh else {}
    names = [name for name in KINDS if any(part in name for part in given.kinds)]
    folder = given.out / "hard"
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        for name in names:
            path = folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.h5"
            about = write(path, name, given.n)
            wanted = [(m, b) for m in given.methods for b in given.budgets]
            wanted = [(m, b) for m, b in wanted if f"{name}|{m}|{b}" not in known]
            found = pool.map(lambda mb, p=path, a=about: attempt(p, a, *mb), wanted)
            for (method, budget), ended in zip(wanted, found, strict=True):
                known[f"{name}|{method}|{budget}"] = ended
                if ended["how"] in BAD:
                    say(f"{name}, {method}, {budget}: {ended['how']}: {ended.get('said', '')}")
            kept.write_text(json.dumps(known, indent=1))
            say(f"{name}: {dict(Counter(one['how'] for one in _of(known, name)))}")
    tell(known, names)


def _of(known: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [found for key, found in known.items() if key.split("|")[0] == name]


def tell(known: dict[str, Any], names: list[str]) -> None:
    """A table, a kind of data a row, and its sums."""
    rows = []
    for name in names:
        runs = _of(known, name)
        count = Counter(one["how"] for one in runs)
        shares = [one["peak"] / one["limit"] for one in runs if "peak" in one]
        slow = [one["seconds"] / max(one["planned"], LEAST) for one in runs if one.get("planned")]
        bad = [count[how] for how in BAD]
        rows.append(
            [
                name,
                count["done"],
                count["refused"],
                *bad,
                max(shares, default=None),
                max(slow, default=None),
            ]
        )
    heads = ["data", "done", "refused", *BAD, "peak / budget", "time / plan"]
    table("Nasty data x methods x budgets", heads, rows)
    every = Counter(found["how"] for found in known.values())
    figures = {
        "kinds": len(names),
        "runs": len(known),
        "ended": {how: every[how] for how in ("done", "refused", *BAD)},
        "table": [dict(zip(heads, row, strict=True)) for row in rows],
        "machine": machine(),
    }
    record("hard", figures)


if __name__ == "__main__":
    main()
