"""Neighbours and batches by Dask's workers: seconds, recall, workers killed (extra `dask`).

    python bench/workers.py                     300,000 x 16 and 10⁶ x 32 points, 1 and 2 workers
    python bench/workers.py --n 60000           small; `--draws 3` kills three times instead of ten

"start" is the seconds until workers answer and have loaded what they run; the search after it is
counted apart, and so is the graph of its lists, which this process makes. A worker of two is then
killed (kill -9) at a random moment of the search, and of a batch of six jobs: exit code 1 where any
list or result differs from those without a kill.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import render
import runner

NEIGHBOURS, WORKERS = 15, (1, 2)
SIZES = {"mixture16": 300_000, "mixture32": 1_000_000}
KILLED = 60_000  # points of the searches in which a worker is lost
JOBS = """
[[job]]
name = "j{seed}"
data = "points.h5"
k = 5
method = "ncut"
seed = [0, 1, 2, 3, 4, 5]
output = "out-{seed}.h5"
"""


def _digest(*arrays: Any) -> str:
    import numpy as np

    found = hashlib.sha256()
    for one in arrays:
        found.update(np.ascontiguousarray(one).tobytes())
    return found.hexdigest()


def _search(path: str, executor: Any, recorder: Any = None) -> dict[str, Any]:
    """A graph of the points in a file by an executor: its digest, recall and seconds."""
    import h5py

    from mustlink.neighbors import knn_graph

    how = {"executor": executor, "random_state": 0, "scratch": Path(path).parent}
    with h5py.File(path) as file:
        call = lambda: knn_graph(file["points"], NEIGHBOURS, observer=recorder, **how)  # noqa: E731
        made, seconds, own = runner.cpu_timed(call)
    assert made.info["parts"] > 1, "so few points are compared here, all with all"
    W = made.affinity
    found = {"seconds": seconds, "main_cpu_seconds": own, "recall": made.info["recall"]}
    return {**found, "graph": _digest(W.indptr, W.indices, W.data)}


def neighbours(path: str, warm: str, workers: int) -> dict[str, Any]:
    """One search by so many workers, after a small one that loads all that is needed."""
    from mustlink.core.observe import Recorder
    from mustlink_io.workers import dask_cluster

    recorder = Recorder()
    began = time.perf_counter()
    with dask_cluster.client_of(workers, None) as client:
        executor = client.get_executor(pure=False)
        _search(warm, executor)
        start = time.perf_counter() - began
        found = _search(path, executor, recorder)
    searching = sum(s.seconds for s in recorder.stages if s.name == "kNN graph")
    return {"start_seconds": start, "search_seconds": searching, **found}


def here(path: str, warm: str) -> dict[str, Any]:
    """The same points without workers, on one thread."""
    import h5py

    from mustlink.neighbors import knn_graph

    for one in (warm, path):
        with h5py.File(one) as file:
            X = file["points"][()]
        made, seconds = runner.timed(knn_graph, X, NEIGHBOURS, random_state=0, n_jobs=1)
    return {"seconds": seconds, "recall": made.info["recall"]}


def _killing(client: Any, moment: float | None) -> threading.Timer:
    """A timer that kills a worker of two; without a moment it does nothing."""
    pid = min(client.run(os.getpid).values())
    timer = threading.Timer(moment or 0, os.kill, (pid, signal.SIGKILL if moment else 0))
    timer.start()
    return timer


def search(folder: str, source: str, moment: float | None) -> str:
    """Digest of a graph made by two workers, of which one may be killed."""
    from mustlink_io.workers import dask_cluster

    with dask_cluster.client_of(2, None) as client:
        timer = _killing(client, moment)
        found = _search(source, client.get_executor(pure=False))
        timer.join()
    return str(found["graph"])


def batch(folder: str, source: str, moment: float | None) -> str:
    """Digest of the labels of six jobs by two workers, of which one may be killed."""
    import data
    from mustlink_io.commands import cli
    from mustlink_io.workers import dask_cluster

    place = Path(folder).absolute()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    os.link(Path(source).absolute(), place / "points.h5")
    (place / "jobs.toml").write_text(JOBS)
    with dask_cluster.client_of(2, None) as client:
        timer = _killing(client, moment)
        words = ["batch", "jobs.toml", "--scheduler", client.scheduler.address, "--quiet"]
        with contextlib.chdir(place):
            code = cli.run(words)
        timer.join()
    paths = sorted(place.glob("out-*.h5"))
    assert code == 0, code
    assert len(paths) == 6, paths
    return _digest(*(data.labels(path) for path in paths))


def killed(what: str, folder: str, source: str, draws: int) -> dict[str, Any]:
    """Runs in which a worker is killed: how many gave what a whole one gives."""
    import numpy as np

    run, rng = {"search": search, "batch": batch}[what], np.random.default_rng(1)
    run(folder, source, None)
    expected, usual = runner.timed(run, folder, source, None)
    found = []
    for _ in range(draws):
        moment = rng.uniform(0.1, usual)
        digest, seconds = runner.timed(run, folder, source, moment)
        found.append((moment, seconds, digest == expected))
    return {"usual_seconds": usual, "draws": found, "same": sum(one[-1] for one in found)}


def points(out: Path, name: str, n: int) -> Path:
    path = out / f"workers-{name}-{n}.h5"
    if not path.exists():
        runner.call("data:write_mixture", path=path, n=n, dimension=int(name[-2:]))
    return path


def main() -> int:
    args = runner.options(__doc__, n=1_000_000, draws=10)
    figures: dict[str, Any] = {"neighbours": {}, "kills": {}}
    warm = points(args.out, "mixture16", KILLED)
    for name, full in SIZES.items():
        files = {"path": points(args.out, name, min(full, args.n)), "warm": warm}
        runs = {"here": runner.call("workers:here", **files)}
        for w in WORKERS:
            runs[str(w)] = runner.call("workers:neighbours", **files, workers=w)
        assert runs["1"]["graph"] == runs["2"]["graph"], "the number of workers shows"
        render.records(f"Neighbours by Dask's workers, one thread each: {name}", runs)
        figures["neighbours"][name] = runs
    for what, source in (("search", warm), ("batch", points(args.out, "mixture16", 3000))):
        task = {"what": what, "folder": args.out / "workers", "source": source}
        figures["kills"][what] = runner.call("workers:killed", **task, draws=args.draws)
    render.records("A worker of two killed at random moments", figures["kills"],
                   ("usual_seconds", "same"))  # fmt: skip
    runner.record("workers", figures)
    return 0 if all(one["same"] == args.draws for one in figures["kills"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
