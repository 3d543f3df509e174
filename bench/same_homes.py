"""Small jobs of the shell in memory, on disk and on two ranks, and what each of them answered.

Only the command line is used, so that one text runs on any version; where it runs is decided by
what a user types (--ranks), or by what fits. So small a graph always fits: for a run on disk the
functions in FITS are told that nothing does. `bench/same.py` runs this for two versions and
compares; by hand: `python bench/same_homes.py FOLDER --home disk` with a version on PYTHONPATH,
ranks by `mpiexec -n 2 python bench/same_homes.py FOLDER --home ranks`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from same_cases import Data, data, digest, some_labels, some_pairs

HOMES = ("memory", "disk", "ranks")
RANKS = 2
MEMORY = "2GB"  # of a run on disk
MOST_SECONDS = 1800  # of a job; the process ends then, and the ranks that wait for each other
RUNNING = "running"
NO_ROOM = 10**15  # bytes that a fit in memory is said to need there
# Functions of any version that tell what a fit in memory needs at least: by name wherever they are,
# or by module and place in it. A run that stays in memory nevertheless is an error, so that a
# missing one is seen.
FITS = (
    "least_in_memory",
    "least_of_points",
    "mustlink_io.jobs.planning:_least",
    "mustlink.cost.method_cost:Given.at_home",
    "mustlink.context.method_cost:FitInput.at_home",
)
_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
ARRAYS = {
    "labels": "labels",
    "eigenvalues": "eigenvalues",
    "embedding": "embedding",
    "distributions": "label_distributions",
}


KEPT = ("choices", "satisfaction", "adjustment", "notes", "warnings")


@dataclass(frozen=True)
class Job:
    """A line of the shell: verb, method and data, what is known, options as they are typed."""

    verb: str
    method: str
    data: str
    known: str
    options: str = ""

    @property
    def name(self) -> str:
        """Verb, method, data, side information and options in one word."""
        return " ".join(filter(None, (self.verb, self.method, self.data, self.known, self.options)))


def cut(method: str, data: str, known: str = "nothing", options: str = "") -> Job:
    """A row of the table below for `mustlink cluster`."""
    return Job("cluster", method, data, known, options)


def spread(method: str, data: str, options: str = "") -> Job:
    """A row of the table below for `mustlink propagate`."""
    return Job("propagate", method, data, "labels", options)


JOBS: tuple[Job, ...] = (
    cut("ncut", "blocks"),
    cut("ncut", "nearest", options="--variant ng"),
    cut("ncut", "parts"),
    cut("csp", "nearest", "labels"),
    cut("csp", "blocks", "pairs"),
    cut("csp", "parts", "labels", "--subspace 12"),
    cut("csp", "halves", "both"),
    cut("sssc", "blocks", "both"),
    cut("sssc", "nearest", "pairs"),
    cut("fast-ge", "blocks", "labels"),
    cut("fast-ge", "halves", "pairs"),
    cut("ap", "blocks", "pairs"),
    cut("ap", "nearest", "both"),
    cut("srcp", "blocks", "pairs"),
    cut("srcp", "nearest", "labels"),
    cut("e2cp", "nearest", "pairs"),
    cut("e2cp", "parts", "both"),
    spread("gfhf", "nearest", "--class-mass"),
    spread("gfhf", "parts"),
    spread("llgc", "blocks"),
    spread("llgc", "nearest", "--alpha 0.95"),
    spread("poisson", "nearest"),
    spread("poisson", "parts", "--center rows"),
    spread("tik-reg", "blocks"),
    # points: their graph is made where the fit is; ranks are given one
    cut("ncut", "points"),
    cut("csp", "points", "labels"),
    spread("poisson", "points"),
    # refused where nodes are on disk or on ranks, until they run there
    cut("sl", "nearest", "pairs"),
    cut("csc-gfhf", "blocks", "labels"),
    spread("ncut", "nearest"),
    spread("green", "blocks"),
    spread("gwem", "nearest"),
    spread("lelp", "nearest"),
)


# ---------------------------------------------------------------- data


def halves() -> Data:
    """The nearest neighbours of the two largest blobs, which are cut at a sign."""
    found = data("nearest")
    keep = np.flatnonzero(found.truth >= 4)
    W = found.given[keep][:, keep]
    return Data(sp.csr_matrix(W), found.truth[keep] - 4, "precomputed")


def points() -> Data:
    """The blobs as points, in the precision of files."""
    found = data("blobs")
    return Data(found.given.astype(np.float32), found.truth, "knn")


MADE_OF = {"halves": "nearest", "points": "blobs"}


@cache
def data_of(name: str) -> Data:
    """The data set of that name."""
    return {"halves": halves, "points": points}[name]() if name in MADE_OF else data(name)


def write(folder: Path, name: str) -> None:
    """A data set and what is known of it, as files."""
    import h5py

    found = data_of(name)
    with h5py.File(folder / f"{name}.h5", "w") as file:
        if name == "points":
            file["points"] = found.given
        else:
            W = sp.csr_matrix(found.given).astype(np.float32)
            W.sort_indices()
            group = file.create_group("graph")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", W.shape
            for part, kind in (("data", "f4"), ("indices", "i4"), ("indptr", "i8")):
                group[part] = getattr(W, part).astype(kind)
    np.save(folder / f"{name}-labels.npy", some_labels(found.truth))
    pairs, belief = some_pairs(found.truth, 0.0)
    rows = (f"{i},{j},{b:g}\n" for (i, j), b in zip(pairs.tolist(), belief.tolist(), strict=True))
    (folder / f"{name}-pairs.csv").write_text("i,j,belief\n" + "".join(rows))


# ---------------------------------------------------------------- jobs


def words(job: Job, folder: Path, home: str, seed: int) -> list[str]:
    """What is typed."""
    at = folder / job.data
    line = [
        job.verb,
        f"{at}.h5",
        "-m",
        job.method,
        "-o",
        str(folder / "out.h5"),
        "--quiet",
        "--json",
    ]
    line += ["--seed", str(seed), "--no-model", *job.options.split()]
    if job.verb == "cluster":
        line += ["-k", str(int(data_of(job.data).truth.max()) + 1)]
    if job.known in ("labels", "both"):
        line += ["--labels", f"{at}-labels.npy"]
    if job.known in ("pairs", "both"):
        line += ["--constraints", f"{at}-pairs.csv"]
    more = {"memory": [], "disk": ["--memory", MEMORY], "ranks": ["--ranks", str(RANKS)]}
    return line + more[home]


class Both(io.StringIO):
    """What is written, kept and passed on: of a rank that ends all others only that is left."""

    def write(self, text: str) -> int:
        sys.__stderr__.write(text)
        return super().write(text)

    def flush(self) -> None:
        sys.__stderr__.flush()


def answer(line: Sequence[str], home: str, own: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a job says, as plain values, and its arrays."""
    import h5py

    from mustlink_io.commands.cli import run

    target, said = Path(line[line.index("-o") + 1]), Both()
    if own == 0:
        target.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = run(list(line))
    if code != 0:
        text = said.getvalue().strip().replace(f"{target.parent}/", "").splitlines()
        return {"error": text[-1] if text else f"exit code {code}", "refused": code == 2}, {}
    if own != 0:
        return {}, {}
    with h5py.File(target) as file:
        arrays = {name: file[at][()] for name, at in ARRAYS.items() if at in file}
        report = json.loads(file["report"][()])
    if home == "disk" and not any("on disk" in note for note in report["notes"]):
        raise RuntimeError(f"it ran in memory: see FITS of {Path(__file__).name}")
    return {key: report.get(key) for key in KEPT}, arrays


def nothing_fits() -> None:
    """Have every fit stay on disk, in this process."""
    roots = [importlib.import_module(name) for name in ("mustlink", "mustlink_io")]
    for root in roots:
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if not found.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of MPI, pictures or pages: not needed here
                    importlib.import_module(found.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("mustlink", "mustlink_io"):
            for function in FITS:
                place, _, inside = function.rpartition(":")
                owner, _, short = inside.rpartition(".")
                there = getattr(module, owner, None) if owner else module
                if place in ("", name) and hasattr(there, short):
                    setattr(there, short, lambda *_, **__: NO_ROOM)


def asked(only: Sequence[str]) -> Iterator[Job]:
    """The jobs whose name has one of the words."""
    for job in JOBS:
        if not only or any(word in job.name for word in only):
            yield job


def run(folder: Path, home: str, only: Sequence[str], seed: int) -> None:
    """Do every job that has no outcome yet, which gets a file: a rank that fails ends all others.

    Which one is being done is in the file `RUNNING`.
    """
    own = int(next((os.environ[k] for k in _RANK if k in os.environ), 0)) if home == "ranks" else 0
    if home == "disk":
        nothing_fits()
    done = set(collect(folder)[0])
    for job in asked(only):
        if job.name in done:
            continue
        if own == 0:
            (folder / RUNNING).write_text(job.name)
            if not (folder / f"{job.data}.h5").exists():
                write(folder, job.data)
        _together(home)
        if hasattr(signal, "alarm"):
            signal.alarm(MOST_SECONDS)
        started = time.perf_counter()
        kept: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        try:
            kept, arrays = answer(words(job, folder, home, seed), home, own)
        except Exception as error:  # the comparison tells
            kept = {"error": f"{type(error).__name__}: {error}"}
        seconds = time.perf_counter() - started
        if own == 0:
            keep(folder, job, {"seconds": seconds, **kept}, arrays)
            print(f"# {seconds:6.1f} s  {job.name}  {kept.get('error', '')}", file=sys.stderr)


def keep(folder: Path, job: Job, kept: dict[str, Any], arrays: dict[str, Any]) -> None:
    """The outcome of a job, and that of the data to be sure that all saw the same."""
    kept = {"data": digest(MADE_OF.get(job.data, job.data)), **kept}
    place = folder / f"{JOBS.index(job):02d}"
    np.savez(place.with_suffix(".npz"), **arrays)
    place.with_suffix(".json").write_text(json.dumps({job.name: kept}, indent=1) + "\n")


def _together(home: str) -> None:
    """Wait until every rank is here."""
    if home == "ranks":
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()


def collect(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outcomes by the name of the job, and arrays by name and kind, of a folder."""
    outcomes: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for path in sorted(folder.glob("[0-9][0-9].json")):
        found = json.loads(path.read_text())
        outcomes |= found
        name = next(iter(found))
        arrays |= {f"{name}/{key}": a for key, a in np.load(path.with_suffix(".npz")).items()}
    return outcomes, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", choices=HOMES, default="memory")
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of jobs")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    run(args.folder.resolve(), args.home, args.only, args.seed)


if __name__ == "__main__":
    main()
