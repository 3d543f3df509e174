"""The runner of all measurements: child processes, clocks, options, and where results are written.

A measurement runs in a child of its own, so that its peak memory is its own. The parent stays
small on purpose (numpy and friends are imported late): on Linux a child's `ru_maxrss` begins at
the size of the process that started it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
SOURCES = (ROOT / "engine", ROOT / "io")
OUT = BENCH / "out"
RESULTS = BENCH / "results.json"

if importlib.util.find_spec("mustlink") is None:  # a clone that was not installed
    sys.path[:0] = [str(source) for source in SOURCES]


def data_folder() -> Path:
    """Folder of real data, not part of the product: MUSTLINK_DATA, else ../shared/data."""
    given = os.environ.get("MUSTLINK_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


def data_file(name: str) -> Path | None:
    """A file of the data folder, or None after a line on stdout that it is skipped."""
    path = data_folder() / name
    if path.exists():
        return path
    print(f"skipped {name}: not in the data folder (set MUSTLINK_DATA to the folder that has it)")
    return None


# ---------------------------------------------------------------- children


@dataclass(frozen=True)
class Child:
    """How a child process ended; CPU seconds and peak are with those of all that it waited for."""

    code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stdout: str
    stderr: str


def maxrss_bytes(usage: resource.struct_rusage) -> int:
    """Largest resident size; Linux counts in KiB, macOS in bytes."""
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def own_peak_bytes() -> int:
    """Largest resident size of this process until now."""
    return maxrss_bytes(resource.getrusage(resource.RUSAGE_SELF))


def child(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    python: Path | str = sys.executable,
    sources: Sequence[Path] = SOURCES,
) -> Child:
    """Run Python with arguments; wait; return exit code, seconds and peak memory.

    `python` and `sources` are those of another version.
    """
    paths = [str(p) for p in (*sources, BENCH)]
    paths += [p for p in (os.environ.get("PYTHONPATH"),) if p]
    full = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(python), *map(str, arguments)], stdout=out, stderr=err, env=full
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        cpu = usage.ru_utime + usage.ru_stime
        return Child(process.returncode, seconds, cpu, maxrss_bytes(usage), out.read(), err.read())


class ChildError(Exception):
    """A child that should have succeeded did not."""


def result(done: Child, what: str) -> dict[str, Any]:
    if done.code != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise ChildError(f"{what}: exit code {done.code}\n{tail}")
    last = done.stdout.strip().splitlines()[-1]
    return dict(json.loads(last)) if last.startswith("{") else dict(json.loads(done.stdout))


def command(*arguments: Any, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run `mustlink … --json` in a child; its result plus `wall_seconds` and `rss_bytes`."""
    words = [str(a) for a in arguments]
    quiet = ["--quiet"] if words[0] not in ("score", "info", "plan") else []
    done = child(["-m", "mustlink_io", *words, *quiet, "--json"], env)
    found = result(done, "mustlink " + " ".join(words))
    return {**found, "wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}


def call(function: str, env: Mapping[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    """Call `module:function(**arguments)` of this folder in a child; its dict, as `command`."""
    text = json.dumps(arguments, default=str)
    done = child([str(BENCH / "runner.py"), function, text], env)
    found = result(done, function)
    return {**found, "wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}


def _child_main() -> None:
    module, _, name = sys.argv[1].partition(":")
    found = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
    print("\n" + json.dumps(found, default=plain))


# ---------------------------------------------------------------- results


def plain(value: Any) -> Any:
    """Numpy scalars and arrays, and paths, as JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


class RunCache:
    """Runs of a measurement, a line of JSON each, so that a stopped measurement goes on."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.runs: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def find(self, **case: Any) -> list[dict[str, Any]]:
        """Runs of a case."""
        return [run for run in self.runs if case.items() <= run.items()]

    def add(self, run: dict[str, Any]) -> None:
        """Append a run to the file."""
        self.runs.append(json.loads(json.dumps(run, default=plain)))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run, default=plain) + "\n")


def write_json(out: Path, name: str, payload: Any) -> None:
    """Write a result, with where and how it was measured, as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "result": payload}
    (out / f"{name}.json").write_text(json.dumps(record, indent=1, default=plain) + "\n")


def results() -> dict[str, Any]:
    """What is told in README and docs, by name: figures, command, commit, date and machine."""
    return dict(json.loads(RESULTS.read_text(encoding="utf-8")))


def record(name: str, figures: Mapping[str, Any], arguments: Sequence[str] | None = None) -> None:
    """Put the figures of this run into the file from which README and docs are filled.

    Only where the command was given --record: other runs are smaller, or for curiosity.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--record" not in words:
        return
    words.remove("--record")
    if "--out" in words:  # where else it wrote says nothing
        at = words.index("--out")
        del words[at : at + 2]
    asked = ["python", f"bench/{Path(sys.argv[0]).name}", *words]
    entry = {
        "command": shlex.join(asked),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "figures": figures,
    }
    known = dict(sorted({**results(), name: entry}.items()))
    temporary = RESULTS.with_suffix(".tmp")
    text = json.dumps(known, indent=1, ensure_ascii=False, default=plain)
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(RESULTS)
    say(f"{name}: written to {RESULTS.name}; python bench/fill.py puts it into the texts")


def commit() -> str:
    """The commit that is measured, marked where sources or benchmarks differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, check=True)
    sources = ["--", "engine", "io", "bench/*.py", "pyproject.toml"]
    changed = subprocess.run(
        [*git, "status", "--porcelain", *sources], capture_output=True, check=True
    )
    return head.stdout.decode().strip() + ("-changed" if changed.stdout else "")


def parser(text: str) -> argparse.ArgumentParser:
    """A parser with the options of every measurement: --out and --record."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("--out", type=Path, default=OUT)
    made.add_argument("--record", action="store_true", help="keep the figures for README and docs")
    return made


def options(text: str | None, **defaults: Any) -> argparse.Namespace:
    """The options of a measurement: --out, --record, and one for each default.

    The default says how a word is read: False is a flag, a number or text one value, a list or
    tuple several values of the type of its first, None a text. A list whose name ends in `_` is
    positional.
    """
    made = parser(text or "")
    made.description, made.formatter_class = text, argparse.RawDescriptionHelpFormatter
    for name, default in defaults.items():
        flag = "--" + name.replace("_", "-")
        if default is False:
            made.add_argument(flag, action="store_true")
        elif isinstance(default, (list, tuple)):
            kind = type(default[0]) if default else str
            if name.endswith("_"):
                made.add_argument(name, nargs="*", type=kind, default=list(default))
            else:
                made.add_argument(flag, nargs="*", type=kind, default=list(default))
        else:
            kind = str if default is None else type(default)
            made.add_argument(flag, type=kind, default=default, help=f"default {default}")
    found = made.parse_args()
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def machine() -> dict[str, Any]:
    """Cores, load of the last minutes, versions: a busy machine makes seconds meaningless."""
    from importlib.metadata import version

    names = (
        "numpy",
        "scipy",
        "numba",
        "scikit-learn",
        "pyamg",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def say(message: str) -> None:
    """Tell on stderr what is being run."""
    print(f"# {message}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- stages

# Stages of a fit that turn vectors into clusters or score them: no part of the eigenproblem.
AFTER_VECTORS = ("assign", "k-means", "kmeans", "discretis", "clusters", "scor", "satisf")


def stage_table(report: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by stage of a report; stages of one name are added."""
    found: dict[str, float] = {}
    for stage in report["stages"]:
        found[stage["name"]] = found.get(stage["name"], 0.0) + stage["seconds"]
    return found


def vector_seconds(total: float, report: Mapping[str, Any]) -> float:
    """Wall seconds of a fit without discretisation and scores: checks and set-up included."""
    after = (
        seconds
        for name, seconds in stage_table(report).items()
        if any(word in name.lower() for word in AFTER_VECTORS)
    )
    return total - sum(after)


def cpu_timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float, float]:
    """Result, wall seconds and CPU seconds of all threads; the latter survive a busy machine."""
    before = time.process_time()
    found, seconds = timed(function, *args)
    return found, seconds, time.process_time() - before


def report_figures(report: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a report."""
    return {
        "kept": (report["satisfaction"] or {}).get("kept"),
        "choices": report["choices"],
        "convergence": report["convergence"],
        "stages": stage_table(report),
        "notes": report["notes"],
    }


def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, float]:
    """Result and wall seconds of a call."""
    started = time.perf_counter()
    found = function(*args, **kwargs)
    return found, time.perf_counter() - started


if __name__ == "__main__":
    _child_main()
