"""Representatives beside the graph of all points, MiniBatchKMeans and BIRCH.

    python bench/representatives.py [--only shapes files] [--n 1000000] [--record]

* shapes: the five of Huang et al. (TKDE 2020), drawn anew: two bananas, smiling face, concentric
  circles, circles and Gaussians, flower; `--n` points each, 0: as many as theirs (10⁶ to 2·10⁷).
* clouds: twelve broad clusters of 20 dimensions, three noisy rings; `--n` points.
* real: MNIST and tables, nothing known, 20 labels a class and n/10 pairs, against the graph of
  all points.
* files: `--rows` points of 16 coordinates in HDF5 to labels in HDF5, within 2 GB, enforced
  (RLIMIT_DATA); the file is made here and removed.
* workers: passes over 10⁷ such points by one and by two of Dask's workers.

Where the graph of all points would take more than `--most` points it is left out.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
import fits
import memory
import render
import runner

P = (500, 1000, 2000, 4000)
MOST = 2 * 10**9  # bytes, enforced
REAL = ("mnist", "usps", "letter", "optdigits", "satellite-like", "digits", "mfeat_fourier")
SIZES = {  # of Huang et al.
    "bananas": 10**6, "face": 2 * 10**6, "circles": 5 * 10**6, "circles, clouds": 10**7,
    "flower": 2 * 10**7,
}  # fmt: skip
COUNTS = {"bananas": 2, "face": 4, "circles": 3, "circles, clouds": 7, "flower": 13}


def ring(rng: Any, n: int, centre: Any, radius: float, noise: float, arc: Any = (0, 2)) -> Any:
    """Points on an arc, from and to in units of π."""
    t = rng.uniform(*arc, n) * np.pi
    r = radius + rng.normal(0, noise, n)
    return np.c_[r * np.cos(t), r * np.sin(t)] + centre


def shape(name: str, n: int, seed: int) -> tuple[Any, Any]:
    """Points (n, 2) of a shape, and the part that each is from."""
    rng = np.random.default_rng(seed)
    y = rng.integers(COUNTS[name], size=n)
    X = np.empty((n, 2))
    for c in range(COUNTS[name]):
        m = int((y == c).sum())
        if name == "bananas":
            X[y == c] = ring(rng, m, (c, 0.4 * c), 1, 0.12, (c, c + 1))
        elif name == "face":
            eye = rng.normal(((-0.8, 0.8)[c % 2], 0.7), 0.15, (m, 2))
            mouth = ring(rng, m, (0, 0), 1.2, 0.1, (1.15, 1.85))
            X[y == c] = (ring(rng, m, (0, 0), 2.5, 0.1), mouth, eye, eye)[c]
        elif name == "circles" or (name == "circles, clouds" and c < 3):
            X[y == c] = ring(rng, m, (0, 0), 1 + c, 0.12)
        elif name == "circles, clouds":
            X[y == c] = rng.normal(((-5, 5)[c % 2], (-3, 3)[c // 2 % 2]), 0.7, (m, 2))
        else:
            turn = 2 * np.pi * c / 12
            petal = rng.normal(0, 1, (m, 2)) * (0.7, 0.2) + (3, 0)
            way = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
            X[y == c] = petal @ way if c < 12 else rng.normal(0, 0.4, (m, 2))
    return X.astype(np.float32), y


def cloud(name: str, n: int, seed: int) -> tuple[Any, Any]:
    """Twelve clusters of 20 dimensions that overlap, or three rings with noise."""
    rng = np.random.default_rng(seed)
    if name == "rings":
        y = rng.integers(3, size=n)
        X = np.empty((n, 2))
        for c in range(3):
            X[y == c] = ring(rng, int((y == c).sum()), (0, 0), 1 + c, 0.1)
        return X.astype(np.float32), y
    centres = np.random.default_rng(1).normal(size=(12, 20)) * 1.1
    y = rng.integers(12, size=n)
    return (centres[y] + rng.normal(size=(n, 20))).astype(np.float32), y


def scored(y: Any, fit: Any) -> dict[str, float]:
    """ARI, NMI, and CPU and wall seconds of a fit that returns labels."""
    from sklearn.metrics import normalized_mutual_info_score as nmi

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cpu, wall = time.process_time(), time.perf_counter()
        found = fit()
    took = time.process_time() - cpu, time.perf_counter() - wall
    return {"ARI": fits.ari(y, found), "NMI": nmi(y, found), "CPU": took[0], "seconds": took[1]}


def near(X: Any) -> float:
    """How far a point is from the nearest of a thousand others: the radius of BIRCH's leaves."""
    from sklearn.metrics import pairwise_distances_argmin_min

    some = np.random.default_rng(0).choice(len(X), 2000, replace=False)
    return float(np.median(pairwise_distances_argmin_min(X[some[1000:]], X[some[:1000]])[1]))


def beside(
    X: Any, y: Any, most: int, sizes: Sequence[int], draws: int
) -> dict[str, dict[str, float]]:
    """Every method on points; the mean of draws of representatives."""
    from sklearn.cluster import Birch, MiniBatchKMeans

    import mustlink as ml

    k = int(y.max()) + 1
    ways: dict[str, Any] = {}
    rows: dict[str, dict[str, float]] = {}
    for p in (p for p in sizes if 2 * p < len(X)):
        ones = [ml.NCut(k, representatives=p, random_state=seed) for seed in range(draws)]
        found = [scored(y, lambda one=one: one.fit_predict(X)) for one in ones]
        rows[f"p = {p}"] = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    if len(X) <= most:
        ways["all points"] = ml.NCut(k, random_state=0)
    ways["MiniBatchKMeans"] = MiniBatchKMeans(k, n_init=3, random_state=0)
    if len(X) <= most:
        ways["BIRCH"] = Birch(n_clusters=k, threshold=near(X))
    more = {name: scored(y, lambda way=way: way.fit_predict(X)) for name, way in ways.items()}
    return rows | more


def real(name: str, draws: int, sizes: Sequence[int]) -> dict[str, dict[str, float]] | None:
    """ARI on a table by representatives and by all points; means of draws where something is known.

    Nothing known is by `NCut`, labels are spread by `GFHF`, pairs constrain `CSP`.
    """
    import mustlink as ml

    found = data.points(name)
    if found is None:
        return None
    X, y = found
    k, rows = int(np.unique(y).size), {}
    ways = {
        "20 labels": lambda c, how: ml.GFHF(**how).fit(X, c.labels).labels_,
        "n/10 pairs": lambda c, how: (
            ml.CSP(k, **how).fit(X, constraints=c.constraints(len(y))).labels_
        ),
    }
    amounts = {"20 labels": "20 labels", "n/10 pairs": f"{len(y) // 10} pairs"}
    for p in (*(p for p in sizes if 2 * p < len(X)), "auto", None):
        how: dict[str, Any] = {"representatives": p, "random_state": 0}
        blind = scored(y, lambda how=how: ml.NCut(k, **how).fit_predict(X))
        row = {"nothing": blind["ARI"]}
        for kind, fit in ways.items():
            known = [data.draw(y, amounts[kind], seed) for seed in range(draws)]
            found = [scored(y, partial(fit, c, how))["ARI"] for c in known]
            row[kind] = float(np.mean(found))
        row["CPU of NCut"] = blind["CPU"]
        rows["all points" if p is None else f"p = {p}" if p != "auto" else p] = row
    return rows


def write_clouds(path: str, n: int) -> dict[str, Any]:
    """Points (n, 16) of 20 clusters in single precision, and the cluster of each, by chunks."""
    import h5py

    centres = np.random.default_rng(1).normal(size=(20, 16)) * 2.0
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (n, 16), "f4", chunks=(min(n, 1 << 16), 16))
        Y = file.create_dataset("y", (n,), "u1", chunks=(min(n, 1 << 16),))
        for number, first in enumerate(range(0, n, 1 << 20)):
            rng, m = np.random.default_rng((0, number)), min(1 << 20, n - first)
            y = rng.integers(20, size=m)
            X[first : first + m] = centres[y] + rng.normal(size=(m, 16))
            Y[first : first + m] = y
    return {}


def from_file(n: int, p: int, out: Path, *more: Any) -> dict[str, Any]:
    """Seconds, peak, temporary files and ARI of n points, HDF5 to HDF5, within enforced 2 GB."""
    import h5py

    folder = out / f"points-{n}"
    points, answer = folder / "points.h5", folder / "answer.h5"
    folder.mkdir(parents=True)
    try:
        runner.call("representatives:write_clouds", path=points, n=n)
        how = ["-k", 20, "-m", "ncut", "--representatives", p, "--memory", "2GB", "--no-model"]
        words = ["cluster", f"{points}:X", *how, *more, "-o", answer, "--quiet", "--json"]
        with Watched(folder, points.name, answer.name) as watched:
            line = ["-c", memory.LIMITED, MOST, *words]
            done = runner.child([str(word) for word in line], {"TMPDIR": str(folder)})
        found = runner.result(done, f"{n:,} points in 2 GB")
        with h5py.File(points) as file, h5py.File(answer) as made:
            some = slice(0, None, max(1, n // 10**6))
            ari = fits.ari(file["y"][some].astype(int), made["labels"][some])
        return {
            "ARI": ari,
            "seconds": done.seconds,
            "CPU": done.cpu_seconds,
            "peak_bytes": done.peak_bytes,
            "temporary_bytes": watched.most,
            "stages": {one["name"]: one["seconds"] for one in found["stages"]},
        }
    finally:
        shutil.rmtree(folder)


class Watched:
    """The most bytes in a folder while it is watched, without files in it that have such names.

    An output that is being written has its name in that of its file; its work folder counts.
    """

    def __init__(self, folder: Path, *but: str) -> None:
        self.folder, self.but, self.most, self._over = folder, but, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            total = 0
            for one in self.folder.rglob("*"):
                named = one.parent == self.folder and any(name in one.name for name in self.but)
                with contextlib.suppress(OSError):  # gone since
                    total += 0 if named or one.is_dir() else one.stat().st_size
            self.most = max(self.most, total)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def main() -> None:
    args = runner.options(
        __doc__,
        only=["shapes", "clouds", "real", "files", "workers"],
        names=[""],
        n=1_000_000,
        most=1_000_000,
        draws=5,
        p=list(P),
        rows=[10**5, 10**6, 10**7, 10**8],
    )
    figures: dict[str, dict[str, Any]] = {part: {} for part in args.only}
    for part, names, make in (("shapes", COUNTS, shape), ("clouds", ("broad", "rings"), cloud)):
        for name in names if part in args.only else ():
            if args.names != [""] and name not in args.names:
                continue
            n = args.n or SIZES.get(name, 10**6)
            figures[part][name] = beside(*make(name, n, 0), args.most, args.p, args.draws)
            render.records(f"{name}, {n:,} points", figures[part][name])
    for name in REAL if "real" in args.only else ():
        if (args.names == [""] or name in args.names) and (rows := real(name, args.draws, args.p)):
            figures["real"][name] = rows
            render.records(name, rows)
    if "files" in args.only:
        figures["files"] = {f"{n:,}": from_file(n, 1000, args.out) for n in args.rows}
        render.records("From a file to a file, 2 GB", figures["files"])
    if "workers" in args.only:
        n = min(args.rows[-1], 10**7)
        for workers in (1, 2):
            found = from_file(n, 1000, args.out, "--workers", workers)
            figures["workers"][f"{workers} workers"] = found
        render.records(f"{n:,} points by Dask's workers", figures["workers"])
    for part, found in figures.items():
        runner.record(f"representatives_{part}", found)


if __name__ == "__main__":
    main()
