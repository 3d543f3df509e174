"""Neighbours and batches by Dask's workers: seconds, recall, workers killed (extra `dask`).

    python bench/workers.py                     300,000 x 16 and 10⁶ x 32 points, 1 and 2 workers
    python bench/workers.py --only neighbours   without the kills
    python bench/workers.py --n 60000           small; `--draws 3` kills three times instead of ten

"start" is the seconds until workers answer and have loaded what they run; the search after it is
counted apart, and so is the graph of its lists, which this process makes. "main" are the CPU
seconds of the process that hands out the tasks: while it works alone the workers wait. A worker of
two is then killed (kill -9) at a random moment of the search, and of a batch of six jobs: exit code
1 where any list or result differs from those without a kill.
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

import common

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


# ---------------------------------------------------------------- jobs (each in its own child)


def _digest(*arrays: Any) -> str:
    import numpy as np

    found = hashlib.sha256()
    for one in arrays:
        found.update(np.ascontiguousarray(one).tobytes())
    return found.hexdigest()


def _search(path: str, executor: Any, recorder: Any = None) -> tuple[Any, float, float]:
    """A graph of the points in a file by an executor: it, seconds, and this process's own."""
    import h5py

    from mustlink.neighbors import knn_graph

    options = {"executor": executor, "random_state": 0, "scratch": Path(path).parent}
    options |= {"observer": recorder}
    with h5py.File(path) as file:
        found = common.cpu_timed(lambda: knn_graph(file["points"], NEIGHBOURS, **options))
    assert found[0].info["parts"] > 1, "so few points are compared here, all with all"
    return found


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
        made, seconds, own = _search(path, executor, recorder)
    W = made.affinity
    return {
        "start_seconds": start,
        "search_seconds": sum(s.seconds for s in recorder.stages if s.name == "kNN graph"),
        "seconds": seconds,
        "main_cpu_seconds": own,
        "recall": made.info["recall"],
        "graph": _digest(W.indptr, W.indices, W.data),
    }


def here(path: str, warm: str) -> dict[str, Any]:
    """The same points without workers, on one thread."""
    import h5py
    import numpy as np

    from mustlink.neighbors import knn_graph

    for one in (warm, path):
        with h5py.File(one) as file:
            X = np.asarray(file["points"])
        made, seconds = common.timed(knn_graph, X, NEIGHBOURS, random_state=0, n_jobs=1)
    return {"seconds": seconds, "recall": made.info["recall"]}


def killed_searches(path: str, draws: int, seed: int) -> dict[str, Any]:
    """Searches by two workers of which one is killed: graphs that differ from one of no kill."""
    import numpy as np

    from mustlink_io.workers import dask_cluster

    rng, found = np.random.default_rng(seed), []
    with dask_cluster.client_of(2, None) as client:
        executor = client.get_executor(pure=False)
        _search(path, executor)
        whole, usual, _ = _search(path, executor)
    expected = _digest(whole.affinity.indptr, whole.affinity.indices, whole.affinity.data)
    for _ in range(draws):
        with dask_cluster.client_of(2, None) as client:
            pid = min(client.run(os.getpid).values())
            moment = rng.uniform(0, usual)
            timer = threading.Timer(moment, os.kill, (pid, signal.SIGKILL))
            timer.start()
            made, seconds, _ = _search(path, client.get_executor(pure=False))
            timer.join()
        W = made.affinity
        found.append((moment, seconds, _digest(W.indptr, W.indices, W.data) == expected))
    return {"usual_seconds": usual, "draws": found, "same": sum(one[-1] for one in found)}


# ---------------------------------------------------------------- parts


def _points(out: Path, name: str, n: int) -> Path:
    path = out / f"workers-{name}-{n}.h5"
    if not path.exists():
        common.call("partition:write_points", path=path, name=name, n=n, seed=0)
    return path


def part_neighbours(out: Path, most: int | None) -> dict[str, Any]:
    """Seconds and recall by the number of workers."""
    rows, figures = [], {}
    warm = _points(out, "mixture16", KILLED)
    for name, full in SIZES.items():
        path = _points(out, name, min(full, most or full))
        alone = common.call("workers:here", path=path, warm=warm)
        runs = {
            w: common.call("workers:neighbours", path=path, warm=warm, workers=w) for w in WORKERS
        }
        assert len({run["graph"] for run in runs.values()}) == 1, "the number of workers shows"
        first = runs[WORKERS[0]]
        rows.append(
            [path.stem, "none", None, None, None, alone["seconds"], None, None, alone["recall"]]
        )
        for w, run in runs.items():
            rows.append(
                [
                    path.stem,
                    w,
                    run["start_seconds"],
                    run["search_seconds"],
                    first["search_seconds"] / run["search_seconds"],
                    run["seconds"],
                    first["seconds"] / run["seconds"],
                    run["main_cpu_seconds"],
                    run["recall"],
                ]
            )
        figures[name] = {"here": alone, **{str(w): run for w, run in runs.items()}}
    heads = ["points", "workers", "start s", "search s", "times", "with graph s", "times"]
    heads += ["main CPU s", "recall"]
    common.table("Neighbours by Dask's workers, one thread each", heads, rows)
    return figures


def _batch(folder: Path, source: Path, moment: float | None) -> tuple[dict[str, str], float]:
    """Digests of the labels of six jobs by two workers, one of them killed, and the seconds."""
    import h5py

    from mustlink_io.commands import cli
    from mustlink_io.workers import dask_cluster

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.link(source, folder / "points.h5")
    (folder / "jobs.toml").write_text(JOBS)
    with dask_cluster.client_of(2, None) as client:
        pid = min(client.run(os.getpid).values())
        timer = threading.Timer(moment or 0, os.kill, (pid, signal.SIGKILL if moment else 0))
        timer.start()
        words = ["batch", "jobs.toml", "--scheduler", client.scheduler.address, "--quiet"]
        with contextlib.chdir(folder):
            code, seconds = common.timed(cli.run, words)
        timer.join()
    assert code == 0, code
    found = {}
    for path in sorted(folder.glob("out-*.h5")):
        with h5py.File(path) as file:
            found[path.name] = _digest(file["labels"][:])
    return found, seconds


def killed_batches(folder: str, source: str, draws: int, seed: int) -> dict[str, Any]:
    """Batches by two workers of which one is killed: how many gave what a whole one gives."""
    import numpy as np

    place, rng, found = Path(folder).absolute(), np.random.default_rng(seed), []
    expected, usual = _batch(place, Path(source).absolute(), None)
    assert len(expected) == 6
    for _ in range(draws):
        moment = rng.uniform(0.1, usual)
        labels, seconds = _batch(place, Path(source).absolute(), moment)
        found.append((moment, seconds, labels == expected))
    return {"usual_seconds": usual, "draws": found, "same": sum(one[-1] for one in found)}


def part_kills(out: Path, most: int | None, draws: int) -> dict[str, Any]:
    """A worker killed at random moments of a search, and of a batch."""
    path = _points(out, "mixture16", min(KILLED, most or KILLED))
    small = _points(out, "mixture16", 3000)
    runs = {
        "search": common.call("workers:killed_searches", path=path, draws=draws, seed=1),
        "batch": common.call(
            "workers:killed_batches", folder=out / "workers", source=small, draws=draws, seed=2
        ),
    }
    rows = [
        [
            name,
            run["usual_seconds"],
            max(one[1] for one in run["draws"]),
            f"{run['same']} of {draws}",
        ]
        for name, run in runs.items()
    ]
    heads = ["what", "usual s", "with a kill, at most s", "the same result"]
    common.table("A worker of two killed at random moments", heads, rows)
    return runs


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, help="at most so many points")
    parser.add_argument("--draws", type=int, default=10, help="kills")
    parser.add_argument("--only", choices=("neighbours", "kills"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    if args.only != "kills":
        found["neighbours"] = part_neighbours(args.out, args.n)
    if args.only != "neighbours":
        found["kills"] = part_kills(args.out, args.n, args.draws)
    common.write_json(args.out, "workers", found)
    common.record("workers", found)
    return 0 if all(one["same"] == args.draws for one in found.get("kills", {}).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
