"""Nearest neighbours beside other libraries, same points, same k: seconds against recall.

    python bench/neighbours.py                           six sets, two threads, picture and table
    python bench/neighbours.py --only broad --threads 1
    python bench/neighbours.py --scale 0.1               a tenth of the made points
    python bench/neighbours.py --peers-python VENV/bin/python   where the libraries are installed

Each search is a process of its own, with two or three settings, of which the time at a recall of
.95 is interpolated. Recall is that of 1,000 points, against all pairs. CPU seconds say what a busy
machine does not: over the threads they are the seconds of an idle one where all of it is parallel.
What takes longer than --limit is told as such.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import common
import neighbours_peers as peers

GOAL, SAMPLE = 0.95, 1000
SIZES = {
    "broad": (100_000, 32),
    "clear": (100_000, 32),
    "sheets": (100_000, 32),
    "uniform": (100_000, 16),
    "plane": (100_000, 2),
    "mnist": (70_000, 784),
}
TEXTS = {
    "broad": "ten Gaussian clusters, centres and noise of deviation 1",
    "clear": "ten Gaussian clusters, centres of deviation 4",
    "sheets": "ten curved sheets of 4 dimensions",
    "mnist": "pictures of digits",
    "uniform": "a filled cube",
    "plane": "a map: a thousand towns of unequal size",
}
LOW = 4  # coordinates up to which a k-d tree is asked


def make(name: str, scale: float) -> Any:
    """Points (n, d) of a set, None where there is no data."""
    import numpy as np

    n, d = SIZES[name]
    n = int(n * scale)
    rng = np.random.default_rng(0)
    if name == "mnist":
        source = common.data_file("points/mnist.npz")
        if source is None:
            return None
        with np.load(source) as arrays:
            X = arrays["X"].reshape(len(arrays["X"]), -1)[:n]
    elif name in ("broad", "clear"):
        centres = (1 if name == "broad" else 4) * rng.standard_normal((10, d))
        X = centres[rng.integers(10, size=n)] + rng.standard_normal((n, d))
    elif name == "sheets":
        X = np.empty((n, d))
        y = rng.integers(10, size=n)
        for c in range(10):
            A, B, C = (rng.normal(size=shape) for shape in ((4, d), (8, d), (4, 8)))
            u = rng.random((int((y == c).sum()), 4)) - 0.5
            X[y == c] = u @ A + 0.5 * (1 - np.cos(3 * u @ C)) @ B
        X += 0.05 * rng.normal(size=X.shape)
    elif name == "plane":
        towns, size = rng.random((1000, d)), 0.02 * rng.pareto(2, 1000)
        own = rng.integers(1000, size=n)
        X = towns[own] + size[own, None] * rng.standard_normal((n, d))
    else:
        X = rng.random((n, d))
    return np.ascontiguousarray(X, dtype=np.float32)


def prepared(out: Path, name: str, scale: float) -> Path | None:
    """Folder with the points and the true reach of some of them."""
    import numpy as np

    folder = out / f"neighbours-{name}-{scale:g}"
    if (folder / "truth.npz").exists():
        return folder
    X = make(name, scale)
    if X is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "points.npy", X)
    nodes = np.sort(np.random.default_rng(1).choice(len(X), min(SAMPLE, len(X)), replace=False))
    reach = np.empty(nodes.size)
    squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    for start in range(0, nodes.size, 100):
        some = nodes[start : start + 100]
        D = squares - 2 * (X[some] @ X.T).astype(np.float64)
        D[np.arange(some.size), some] = np.inf
        near = np.argpartition(D, peers.K + 5, axis=1)[:, : peers.K + 5]
        gaps = np.linalg.norm(X[near].astype(np.float64) - X[some][:, None], axis=2)
        reach[start : start + 100] = np.sort(gaps, axis=1)[:, peers.K - 1]
    np.savez(folder / "truth.npz", nodes=nodes, reach=reach)
    return folder


def measure(
    folder: Path, name: str, setting: int, threads: int, python: str, limit: float
) -> dict[str, Any] | None:
    """One search in a process; None where it fails or takes longer than the limit."""
    libraries = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    env = {**os.environ, **{f"{one}_NUM_THREADS": str(threads) for one in libraries}}
    if name == "mustlink":
        paths = [str(p) for p in common.SOURCES] + [os.environ.get("PYTHONPATH", "")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    words = [sys.executable if name == "mustlink" else python, peers.__file__, name, str(setting)]
    try:
        done = subprocess.run(
            [*words, str(threads), str(folder)],
            env=env, capture_output=True, text=True, timeout=limit, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        common.say(f"  {name} {setting}: more than {limit:.0f} s")
        return None
    except subprocess.CalledProcessError as error:
        common.say(f"  {name} {setting}: {(error.stderr.strip() or 'failed').splitlines()[-1]}")
        return None
    found = dict(json.loads(done.stdout.strip().splitlines()[-1]))
    text = "  {} {}: {seconds:.1f} s, {cpu:.1f} CPU s, start {start:.1f} s, recall {recall:.3f}"
    common.say(text.format(name, setting, **found))
    return {"library": name, "setting": setting, **found}


def at_goal(rows: list[dict[str, Any]], what: str) -> float | None:
    """Value at the goal: between two settings, or of the cheapest that is beyond it."""
    import numpy as np

    rows = sorted(rows, key=lambda row: row["recall"])
    if not rows or rows[-1]["recall"] < GOAL:
        return None
    above = min((row for row in rows if row["recall"] >= GOAL), key=lambda row: row[what])
    below = [row for row in rows if row["recall"] < GOAL]
    if not below or below[-1][what] >= above[what]:
        return float(above[what])
    low = below[-1]
    share = (GOAL - low["recall"]) / (above["recall"] - low["recall"])
    return float(np.exp((1 - share) * np.log(low[what]) + share * np.log(above[what])))


def picture(path: Path, measured: dict[str, list[dict[str, Any]]], threads: int) -> None:
    """Seconds against recall, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8.5), layout="constrained")
    colours = dict(zip(peers.SEARCHES, pyplot.get_cmap("tab10").colors, strict=True))
    for axis, (name, rows) in zip(axes.flat, measured.items(), strict=False):
        for library in peers.SEARCHES:
            own = sorted((r["recall"], r["cpu"] / threads) for r in rows if r["library"] == library)
            if own:
                mark = {"marker": "*", "ms": 18, "zorder": 3} if library == "mustlink" else {}
                style = {"marker": "o", "color": colours[library], **mark}
                axis.plot(*zip(*own, strict=True), label=library, **style)
        axis.axvline(GOAL, color="0.7", lw=1, zorder=0)
        axis.set(yscale="log", title=f"{name}: {TEXTS[name]}", xlabel="recall of 15 neighbours")
        axis.set_ylabel(f"CPU seconds / {threads}, without start-up")
        axis.grid(alpha=0.3, which="both")
    handles, labels = [], []
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--libraries", nargs="+", choices=list(peers.SEARCHES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one search")
    parser.add_argument("--peers-python", default=sys.executable)
    args = parser.parse_args()
    common.say(f"machine: {common.machine()}")
    measured: dict[str, list[dict[str, Any]]] = {}
    for name in args.only:
        folder = prepared(args.out, name, args.scale)
        if folder is None:
            continue
        common.say(name)
        rows = measured.setdefault(name, [])
        for library in args.libraries or peers.SEARCHES:
            if library == "cKDTree" and SIZES[name][1] > LOW:
                continue
            for setting in peers.SEARCHES[library][1]:
                found = measure(
                    folder, library, setting, args.threads, args.peers_python, args.limit
                )
                if found is None:
                    break  # the next setting takes longer
                rows.append(found)
        common.write_json(args.out, f"neighbours-{args.threads}", measured)
    headers = ("set", "library", "recall", "start s", "s", "CPU s", "peak", f"CPU s at {GOAL}")
    table, figures = [], {}
    for name, rows in measured.items():
        for library in peers.SEARCHES:
            own = [row for row in rows if row["library"] == library]
            if not own:
                continue
            best = at_goal(own, "cpu")
            figures[f"{name} {library}"] = {
                "cpu": best,
                "seconds": at_goal(own, "seconds"),
                "start": own[0]["start"],
                "recall": max(row["recall"] for row in own),
                "peak_gb": max(row["peak_bytes"] for row in own) / 1e9,
            }
            for row in own:
                cells = [row[key] for key in ("recall", "start", "seconds", "cpu")]
                what = f"{library} {row['setting'] or ''}"
                peak = common.gigabytes(row["peak_bytes"])
                table.append((name, what, *cells, peak, best if row is own[-1] else None))
    common.table(f"15 neighbours, {args.threads} threads", headers, table)
    picture(args.out / f"neighbours-{args.threads}.png", measured, args.threads)
    common.record(f"neighbours_{args.threads}", figures)


if __name__ == "__main__":
    main()
