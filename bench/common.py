"""What the measurements share: child processes with their peak memory, tables, data, draws.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
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


# ---------------------------------------------------------------- data


def data_folder() -> Path:
    """Folder of real data, not part of the product: MUSTLINK_DATA, else ../shared/data."""
    given = os.environ.get("MUSTLINK_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


def data_file(name: str) -> Path | None:
    """A file of the data folder, or None after saying on stdout why it is skipped."""
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


def _result(done: Child, what: str) -> dict[str, Any]:
    if done.code != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise ChildError(f"{what}: exit code {done.code}\n{tail}")
    last = done.stdout.strip().splitlines()[-1]
    return dict(json.loads(last)) if last.startswith("{") else dict(json.loads(done.stdout))


def command(*arguments: Any, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run `mustlink … --json` in a child; its result plus `wall_seconds` and `rss_bytes`."""
    words = [str(a) for a in arguments]
    quiet = ["--quiet"] if words[0] not in ("score", "info") else []
    done = child(["-m", "mustlink_io", *words, *quiet, "--json"], env)
    found = _result(done, "mustlink " + " ".join(words))
    return {**found, "wall_seconds": done.seconds, "rss_bytes": done.peak_bytes}


def call(function: str, env: Mapping[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    """Call `module:function(**arguments)` of this folder in a child; its dict, as `command`."""
    text = json.dumps(arguments, default=str)
    done = child([str(BENCH / "common.py"), function, text], env)
    found = _result(done, function)
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
    """A parser with the options of every benchmark: --out and --record."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("--out", type=Path, default=OUT)
    made.add_argument("--record", action="store_true", help="keep the figures for README and docs")
    return made


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


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Print a Markdown table and return it."""
    text = f"\n### {title}\n\n{grid(headers, rows)}"
    print(text, flush=True)
    return text


def grid(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table without a title."""
    cells = [[shown(c) for c in row] for row in rows]
    wide = [max(len(str(h)), *(len(r[i]) for r in cells), 3) for i, h in enumerate(headers)]
    lines = ["| " + " | ".join(h.ljust(w) for h, w in zip(headers, wide, strict=True)) + " |"]
    lines.append("|" + "|".join("-" * (w + 2) for w in wide) + "|")
    for row in cells:
        lines.append("| " + " | ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)) + " |")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A cell: four digits for numbers, a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def gigabytes(value: float) -> str:
    """Bytes as GB of 10⁹."""
    return f"{value / 1e9:.2f} GB"


def say(message: str) -> None:
    """Tell on stderr what is being run."""
    print(f"# {message}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- stages

# Stages of a fit that turn vectors into clusters or score them: no part of the eigenproblem.
AFTER_VECTORS = ("assign", "k-means", "kmeans", "discretis", "clusters", "scor", "satisf")


def is_after_vectors(stage: str) -> bool:
    """Whether a stage comes after the eigenvectors."""
    return any(word in stage.lower() for word in AFTER_VECTORS)


def stage_table(report: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by stage of a report; stages of one name are added."""
    found: dict[str, float] = {}
    for stage in report["stages"]:
        found[stage["name"]] = found.get(stage["name"], 0.0) + stage["seconds"]
    return found


def vector_seconds(total: float, report: Mapping[str, Any]) -> float:
    """Wall seconds of a fit without discretisation and scores: checks and set-up included."""
    return total - sum(s for name, s in stage_table(report).items() if is_after_vectors(name))


def cpu_timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float, float]:
    """Result, wall seconds and CPU seconds of all threads; the latter survive a busy machine."""
    before = time.process_time()
    found, seconds = timed(function, *args)
    return found, seconds, time.process_time() - before


def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, float]:
    """Result and wall seconds of a call."""
    started = time.perf_counter()
    found = function(*args, **kwargs)
    return found, time.perf_counter() - started


# ---------------------------------------------------------------- side information


def random_pairs(y: Any, m: int, rng: Any, wrong: float = 0.0) -> tuple[Any, Any]:
    """Pairs (m, 2) of random distinct nodes, belief ±1 by the classes y, a share of them wrong."""
    import numpy as np

    n = len(y)
    i = rng.integers(n, size=m)
    j = (i + 1 + rng.integers(n - 1, size=m)) % n
    belief = np.where(y[i] == y[j], 1.0, -1.0)
    flipped = rng.choice(m, size=round(wrong * m), replace=False)
    belief[flipped] *= -1
    return np.column_stack([i, j]).astype(np.int64), belief


def labels_per_class(y: Any, each: int, rng: Any) -> Any:
    """Labels (n,), -1 but for `each` nodes of every class, at most half of it but at least one."""
    import numpy as np

    given = np.full(len(y), -1, dtype=np.int64)
    for c in np.unique(y[y >= 0]):
        nodes = np.flatnonzero(y == c)
        given[rng.choice(nodes, size=min(each, max(1, len(nodes) // 2)), replace=False)] = c
    return given


def write_pairs(path: Path, pairs: Any, belief: Any) -> None:
    """Write pairs as the CSV that the command line reads."""
    rows = (f"{i},{j},{b:g}\n" for (i, j), b in zip(pairs.tolist(), belief.tolist(), strict=True))
    path.write_text("i,j,belief\n" + "".join(rows))


def write_labels(path: Path, labels: Any) -> None:
    """Write labels, one a line, as the command line reads them."""
    path.write_text("".join(f"{c}\n" for c in labels.tolist()))


if __name__ == "__main__":
    _child_main()
