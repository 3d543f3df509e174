"""The table of kernels that `mustlink warm` compiles: made of fits, each in a process of its own.

    python bench/kernels.py           which kernels it lacks, and which nothing uses any more
    python bench/kernels.py --write   engine/mustlink/context/signatures.json anew: minutes
    python bench/kernels.py --write --only StrokeCut RegionCut    what these take is added

A kernel is in it that Python called in any of these runs of the shell; those that only kernels call
are compiled with these. Seconds are of an empty cache.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import runner
import same_homes

CLUSTERERS = {
    "NCut": "ncut", "CSP": "csp", "SSSC": "sssc", "SpectralLearning": "sl", "ConstrainedAP": "ap",
    "FastGE": "fast-ge", "SRCP": "srcp", "E2CP": "e2cp", "SSKK": "sskk", "CSCGFHF": "csc-gfhf",
}  # fmt: skip
PROPAGATORS = {
    "Poisson": "poisson", "GFHF": "gfhf", "LLGC": "llgc", "TikReg": "tik-reg",
    "NCutPropagation": "ncut", "GreenFunction": "green", "LELP": "lelp", "GWEM": "gwem",
    "ClusterKernel": "cluster-kernel", "LNP": "lnp", "LLELP": "llelp", "LTSALP": "ltsalp",
}  # fmt: skip
# Sizes up to which no kernel is taken; runs are of data that are hardly larger.
SMALL = {
    "graph.image": "_FEW",
    "graph.several": "_FEW",
    "graph.graph": ("_FEW_ENTRIES", "_FEW_ORDERED"),
    "graph.weights": "_FEW",
    "kernels.blocks": "FEW",
    "kernels.row_hash": "_FEW_ROWS",
    "kernels.spmm": "FEW",
}
ON_DISK = ("NCut", "CSP", "SRCP", "GFHF", "LLGC")


@dataclass(frozen=True)
class Run:
    """A line of the shell, of which estimator, and whether its graph stays on disk."""

    name: str
    line: str
    on_disk: bool = False


def runs() -> list[Run]:
    """The runs that the table is made of; the first of a name is what a fit of it takes."""
    found = []
    for name, method in CLUSTERERS.items():
        told = {"NCut": "", "SRCP": "--constraints pairs.csv", "E2CP": "--constraints pairs.csv"}
        known = told.get(name, "--labels points.h5:/known")
        line = f"cluster points.h5:/points -k 4 -m {method} {known}"
        found.append(Run(name, line))
        if name in ON_DISK:
            found.append(_on_disk(name, line))
        if name not in ("NCut", "CSCGFHF"):
            found.append(
                Run(name, f"cluster plane.h5:/points -k 4 -m {method} --constraints pairs.csv")
            )
        found.append(
            Run(
                name,
                f"cluster few.h5:/points -k 4 -m {method} "
                + known.replace("points", "few").replace("pairs.", "few-pairs."),
            )
        )
    for name, method in PROPAGATORS.items():
        line = f"propagate points.h5:/points -m {method} --labels points.h5:/known"
        found.append(Run(name, line))
        if name in ON_DISK:
            found.append(_on_disk(name, line))
        found.append(Run(name, f"propagate few.h5:/points -m {method} --labels few.h5:/known"))
    more = "cluster points.h5:/points -k 4 --labels points.h5:/known"
    return [
        *found,
        Run("Auto", more),
        Run("Auto", "cluster points.h5:/points -k 4 --constraints pairs.csv"),
        Run("Auto", "cluster plane.h5:/points -k 4 --constraints pairs.csv"),
        Run("Auto", "cluster few.h5:/points -k 4 --constraints few-pairs.csv"),
        Run("Auto", "propagate points.h5:/points --labels points.h5:/known"),
        Run("DISIM", "cluster follows.edges -k 4 -m disim"),
        Run("CSP", more + " --membership --hierarchy"),
        Run("CSP", more + " --standardize --metric cosine"),
        Run("CSP", more.replace("points.h5:/points", "graph.h5")),
        Run("CSP", "cluster graph.h5 -k 4 --constraints pairs.csv --view plane-graph.h5"),
        Run("NCut", "cluster plane.h5:/points -k auto"),
        Run("NCut", "cluster points.h5:/points -k 4 --weights points.h5:/weights"),
        Run("GFHF", "propagate points.h5:/points -m gfhf --labels points.h5:/known --membership"),
        Run("Poisson", "propagate plane.h5:/points --labels points.h5:/known"),
        Run("StrokeCut", "cut photo.png --strokes strokes.png"),
        Run("RegionCut", "cut photo.png"),
        Run("representatives", "cluster points.h5:/points -k 4 -m ncut --representatives 500"),
        Run("graph", "graph points.h5:/points"),
        Run("suggest", "suggest points.h5 --labels points.h5:/known"),
    ]


def _on_disk(name: str, line: str) -> Run:
    stored = line.replace("points.h5:/points", "graph.h5")
    return Run(f"{name} disk", f"{stored} --memory {same_homes.MEMORY}", on_disk=True)


def make_data(folder: Path, n: int = 66_000) -> None:
    """Files of points, graphs, labels, pairs, edges and a photograph."""
    import h5py
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, count, d in (("points", n, 24), ("plane", n, 2), ("few", 1500, 12)):
        y = rng.integers(0, 4, count)
        X = (2.5 * rng.standard_normal((4, d))[y] + rng.standard_normal((count, d))).astype("f4")
        known = np.where(rng.random(count) < 400 / count, y, -1)
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["points"], file["labels"], file["known"] = X, y, known
            file["weights"] = rng.integers(1, 4, count).astype(float)
        ends = rng.integers(0, count, (600, 2))
        ends = ends[ends[:, 0] != ends[:, 1]]
        rows = [f"{i},{j},{1 if y[i] == y[j] else -1}" for i, j in ends.tolist()]
        pairs = folder / ("pairs.csv" if count == n else "few-pairs.csv")
        pairs.write_text("\n".join(["i,j,belief", *rows]) + "\n")
    edges = rng.integers(0, n, (8 * n, 2))
    near = (edges[:, 0] + rng.integers(1, 200, 8 * n)) % n
    both = np.column_stack([edges[:, 0], np.where(rng.random(8 * n) < 0.8, near, edges[:, 1])])
    np.savetxt(folder / "follows.edges", both[both[:, 0] != both[:, 1]], fmt="%d")
    row, column = np.mgrid[0:720, 0:960]
    inside = (row - 360) ** 2 + (column - 450) ** 2 < 240**2
    noise = 20 * rng.standard_normal((720, 960, 3))
    colour = np.where(inside[..., None], [180, 90, 60], [70, 90, 140]) + noise
    Image.fromarray(np.clip(colour, 0, 255).astype("u1")).save(folder / "photo.png")
    strokes = np.zeros((720, 960, 4), dtype="u1")
    strokes[345:375, 360:540] = (255, 0, 0, 255)
    strokes[15:36, 60:900] = (0, 0, 255, 255)
    Image.fromarray(strokes).save(folder / "strokes.png")


def recorded(run: Run, pipe: Any) -> None:
    """Run a line in this process; sends the kernels that Python called, and seconds of each."""
    from mustlink.context.compilation import dispatchers, encoded

    calls: Calls = []
    depth = 0

    def watched(name: str, body: Any, compile_one: Any) -> Any:
        def compile_now(signature: Any) -> Any:
            nonlocal depth
            depth += 1
            began, before = time.perf_counter(), sum(body.stats.cache_misses.values())
            try:
                return compile_one(signature)
            finally:
                depth -= 1
                if not depth:  # else a kernel calls it
                    types = [encoded(one) for one in getattr(signature, "args", signature)]
                    missed = sum(body.stats.cache_misses.values()) > before
                    calls.append((name, types, time.perf_counter() - began, missed))

        return compile_now

    for name, body in dispatchers().items():
        body.compile = watched(name, body, body.compile)
    for module, names in SMALL.items():
        for name in (names,) if isinstance(names, str) else names:
            assert hasattr(import_module(f"mustlink.{module}"), name), (module, name)
            setattr(import_module(f"mustlink.{module}"), name, 0)
    if run.on_disk:
        same_homes.nothing_fits()
    pipe.send((*_shell(run), calls))


def _shell(run: Run) -> tuple[int, str]:
    from mustlink_io.commands import cli

    words = run.line.split()
    if words[0] != "suggest":
        words += ["-o", f"out-{os.getpid()}" + (".png" if words[0] == "cut" else ".h5")]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = cli.run([*words, "--quiet"] if words[0] != "suggest" else words)
    return code, err.getvalue()


Calls = list[tuple[str, Any, float, bool]]


@contextlib.contextmanager
def in_data() -> Iterator[Calls]:
    """Within a folder of data; what making its graphs called."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        make_data(Path(name))
        os.chdir(name)
        try:
            calls = _in_child(Run("", "graph points.h5:/points"), rename="graph.h5")
            calls += _in_child(Run("", "graph plane.h5:/points"), rename="plane-graph.h5")
            yield calls
        finally:
            os.chdir(before)


def _in_child(run: Run, rename: str = "") -> Calls:
    """What a run called; a fork has every module, but no kernel yet."""
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=recorded, args=(run, there))
    child.start()
    there.close()
    code, err, calls = here.recv()
    child.join()
    assert code == 0, f"{run.line}: {err}"
    if rename:
        os.replace(f"out-{child.pid}.h5", rename)
    for left in Path.cwd().glob("out-*"):
        if left.is_file():
            left.unlink()
    return calls


def table(chosen: list[Run], before: dict[str, Any]) -> dict[str, Any]:
    """Kernels in the order of their first use, and the places of what a fit of a name takes.

    `before` is a table that this is added to.
    """
    from mustlink.context import compilation

    compilation.dispatchers()  # every module is loaded before the first fork
    kernels = {json.dumps(row[:2]): row for row in before["kernels"]}
    anew = {run.name for run in chosen}
    fits = {name: places for name, places in before["fits"].items() if name not in anew}

    def places(calls: Calls) -> list[int]:
        taken = []
        for name, types, seconds, _ in calls:
            key = json.dumps([name, types])
            row = kernels.setdefault(key, [name, types, 0.0])
            row[2] = round(max(row[2], seconds), 3)
            taken.append(list(kernels).index(key))
        return taken

    with in_data() as calls:
        places(calls)  # the first to compile these
        for run in chosen:
            began = time.perf_counter()
            taken = places(_in_child(run))
            fits.setdefault(run.name, list(dict.fromkeys(taken)))
            print(
                f"# {time.perf_counter() - began:6.1f} s {len(taken):4} {run.line}", file=sys.stderr
            )
    return {"kernels": list(kernels.values()), "fits": fits}


def first_of_each() -> list[Run]:
    """The first run of every name."""
    return list({run.name: run for run in reversed(runs())}.values())


def compiled_by(chosen: list[Run]) -> Iterator[str]:
    """Lines: a name, and what a run of it compiled though caches are full."""
    from mustlink.context import compilation

    compilation.dispatchers()
    with in_data():
        for run in chosen:
            yield f"{run.name} {sorted({name for name, *_, missed in _in_child(run) if missed})}"


def main() -> None:
    path = runner.ROOT / "engine" / "mustlink" / "context" / "signatures.json"
    args = runner.options(__doc__, write=False, only=())
    write, nothing = args.write, {"kernels": [], "fits": {}}
    before = json.loads(path.read_text()) if path.exists() else nothing
    with tempfile.TemporaryDirectory() as empty:
        if write:
            os.environ["NUMBA_CACHE_DIR"] = empty  # numba has not been imported yet
        chosen = [run for run in runs() if not args.only or run.name in args.only]
        found = table(chosen, before if args.only else nothing)
    names = [{json.dumps(row[:2]) for row in one["kernels"]} for one in (before, found)]
    for key in sorted(names[0] ^ names[1]):
        print("+" if key in names[1] else "-", key)
    if write:
        rows = ",\n".join(json.dumps(row) for row in found["kernels"])
        fits = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found["fits"].items())
        path.write_text('{"kernels": [\n' + rows + '\n], "fits": {\n' + fits + "\n}}\n")


if __name__ == "__main__":
    main()
