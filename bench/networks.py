"""Networks with known classes: ours beside Louvain, Leiden, scikit-network and graphlearning.

    python bench/networks.py                     networks of the data folder, 5 draws
    python bench/networks.py FILE.npz ...        others
    python bench/networks.py --only polblogs amazon_photo --methods NCut Leiden
    python bench/networks.py --large             a million nodes; K = 44 and 585: seconds, memory

Known are nothing, 5 or 20 labels a class (at most half of a class), or n/10 pairs, and the number
of classes, but for Louvain and Leiden, which count themselves. ARI and NMI are over nodes whose
class is known and was not given. Every fit is a line of `out/networks.jsonl`; a fit that is there
is not run again. Peers that are not installed are left out with a line.
"""

from __future__ import annotations

import argparse
import signal
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import data
import fits
import peers
import render
import runner

ASKED = {"com_dblp": 20, "notredame_actors_bipartite": 20}  # clusters where classes say no number
SETTINGS = ("none", "5 labels", "20 labels", "pairs")
LARGE = {  # 10 labels a class are 200 in the million
    "sbm_50000": ("none",),
    "LFR_N100000_ad5_mc50_mu0.3": ("none",),
    "dcsbm_1000000": ("none", "10 labels"),
}
METHODS: dict[str, tuple[str, ...]] = {  # name: kinds of settings that it takes
    "NCut": ("none",),
    "CSP": ("labels", "pairs"),
    "SSSC": ("labels", "pairs"),
    **dict.fromkeys(("GFHF", "LLGC", "Poisson"), ("labels",)),
    **dict.fromkeys(peers.OF_NETWORKS, ("none",)),
    **dict.fromkeys(peers.LABELS_OF_NETWORKS, ("labels",)),
}
CROWDED = 0.9  # a cluster of a larger share is marked, where no class is as large
MEANS = ("ari", "nmi", "seconds", "cpu_seconds", "largest", "modularity", "clusters")


def about(path: str) -> dict[str, Any]:
    """Size of a network and of its classes."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    W, y = data.network(Path(path)) or (None, None)
    sizes = np.zeros(0) if y is None else np.bincount(y[y >= 0])
    return {
        "nodes": W.shape[0],
        "edges": W.nnz // 2,
        "components": connected_components(W, directed=False)[0],
        "isolated": (np.diff(W.indptr) == 0).sum(),
        "classes": (sizes > 0).sum(),
        "largest": sizes.max() / sizes.sum() if len(sizes) else None,
    }


def answer(method: str, W: Any, k: int, known: data.Known, seed: int) -> Any:
    """Labels (n,) of a method."""
    if method in peers.OF_NETWORKS:
        return peers.OF_NETWORKS[method](W, k, seed)
    if method in peers.LABELS_OF_NETWORKS:
        return peers.LABELS_OF_NETWORKS[method](W, known.labels)
    return fits.fit(fits.make(method, k, random_state=seed), W, known).labels_


def one(
    path: str, method: str, setting: str, k: int, truth: bool, seeds: list[int], limit: int
) -> dict[str, Any]:
    """Fits of a method to a network, a draw each; SIGPROF ends the process of a slow one."""
    import numpy as np

    W, y = data.network(Path(path)) or (None, None)
    y = np.full(W.shape[0], -1) if y is None else y
    setting = f"{len(y) // 10} pairs" if setting == "pairs" else setting
    small = data.planted(data.Planted(600, 3, 8, 0.1))
    answer(method, small[0], 3, data.draw(small[1], setting, 0), 0)  # compiles, loads
    runs = []
    for seed in seeds:
        known = data.draw(y, setting, seed)
        signal.setitimer(signal.ITIMER_PROF, limit)
        labels, seconds, cpu = runner.cpu_timed(partial(answer, method, W, k, known, seed))
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = {"draw": seed, "seconds": seconds, "cpu_seconds": cpu}
        found["peak_bytes"] = runner.own_peak_bytes() if len(seeds) == 1 else None
        runs.append({**found, **scores(W, y, known, np.asarray(labels), truth)})
    return {"runs": runs}


def scores(W: Any, y: Any, known: data.Known, labels: Any, truth: bool) -> dict[str, Any]:
    """Sizes and modularity over all nodes; ARI and NMI where the class is known and not given."""
    import numpy as np
    from sklearn.metrics import normalized_mutual_info_score

    sizes = np.sort(np.bincount(labels[labels >= 0]))[::-1]
    found = {"clusters": (sizes > 0).sum(), "largest": sizes[0] / len(labels)}
    found["modularity"] = modularity(W, labels)
    if truth:
        asked = y >= 0 if known.labels is None else (y >= 0) & (known.labels < 0)
        found["ari"] = fits.ari(y[asked], labels[asked])
        found["nmi"] = normalized_mutual_info_score(y[asked], labels[asked])
    return found


def modularity(W: Any, labels: Any) -> float:
    """Σ_c (w_c / 2m - (d_c / 2m)²), w_c twice the weight inside c, d_c its degrees."""
    import numpy as np

    own = np.where(labels < 0, labels.max() + 1 + np.arange(len(labels)), labels)
    degrees = np.asarray(W.sum(axis=1, dtype=float)).ravel()
    row = np.repeat(own, np.diff(W.indptr))
    inside = W.data[row == own[W.indices]].sum(dtype=float)
    return float(inside / degrees.sum() - ((np.bincount(own, degrees) / degrees.sum()) ** 2).sum())


# ---------------------------------------------------------------- files, runs, tables


def generate(path: str) -> dict[str, Any]:
    """A generated network of `data.LARGE`, as an npz of the form of the data folder's."""
    import numpy as np

    W, y = data.planted(data.LARGE[Path(path).stem])
    parts = {name: getattr(W, name) for name in ("data", "indices", "indptr")}
    np.savez_compressed(path, **parts, shape=np.array(W.shape), y=y)
    return {}


def sources(args: argparse.Namespace) -> list[Path]:
    """The npz files that are measured, small ones first."""
    files = [Path(one) for one in args.files_]
    if args.large:
        for name in LARGE:
            file = args.out / f"{name}.npz"
            if name in data.LARGE and not file.exists():
                runner.call("networks:generate", path=file)
            found = file if name in data.LARGE else runner.data_file(f"graphs/{name}.npz")
            files += [found] if found else []
    elif not files:
        folder = runner.data_file("graphs")
        files = [] if folder is None else [f for f in folder.glob("*.npz") if f.stem not in LARGE]
    files.sort(key=lambda f: f.stat().st_size)
    return [f for f in files if not args.only or f.stem in args.only]


def run(
    file: Path, facts: dict[str, Any], args: argparse.Namespace, cache: runner.RunCache
) -> None:
    """What is not done yet of a network; a method that fails or is late has no more draws."""
    sure = facts["classes"] > 0 and file.stem not in ASKED
    settings = LARGE[file.stem] if args.large else SETTINGS if sure else ("none",)
    for setting in settings:
        kind = setting.split()[-1]
        for method in peers.installed(args.methods or METHODS):
            cell = {"graph": file.stem, "setting": setting, "method": method}
            done = cache.find(**cell)
            seeds = sorted(set(range(args.draws)) - {run.get("draw") for run in done})
            if kind not in METHODS[method] or not seeds or any("error" in run for run in done):
                continue
            runner.say(", ".join(cell.values()))
            k = ASKED.get(file.stem, facts["classes"])
            task = {"path": file, "method": method, "setting": setting, "k": k, "truth": sure}
            try:
                found = runner.call("networks:one", **task, seeds=seeds, limit=args.limit)
                for each in found["runs"]:
                    cache.add({**cell, **each})
            except runner.ChildError as error:
                late = f"exit code {-signal.SIGPROF}\n" in f"{error}\n"
                why = f"> {args.limit} CPU s" if late else str(error).splitlines()[-1]
                cache.add({**cell, "error": why})


def mean(runs: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
    """Means over the draws that were done; where none was, the error."""
    done = [one for one in runs if "error" not in one]
    if not done:
        return {"error": runs[0]["error"]}
    found: dict[str, Any] = {
        key: statistics.fmean(one[key] for one in done) for key in MEANS if key in done[0]
    }
    peaks = [one["peak_bytes"] for one in done if one["peak_bytes"] is not None]
    crowded = found["largest"] > CROWDED >= (facts["largest"] or 0)
    found |= {"draws": len(done), "peak_bytes": max(peaks, default=None), "crowded": crowded}
    return found


def main() -> None:
    lists: dict[str, Any] = {"files_": [], "only": [], "methods": []}
    args = runner.options(__doc__, draws=5, limit=600, large=False, **lists)
    files = sources(args)
    facts = {f.stem: runner.call("networks:about", path=f) for f in files}
    cache = runner.RunCache(args.out / "networks.jsonl")
    for file in files:
        run(file, facts[file.stem], args, cache)
    cells: dict[str, Any] = {}
    for name, size in facts.items():
        for setting in dict.fromkeys(one["setting"] for one in cache.find(graph=name)):
            by = dict.fromkeys(one["method"] for one in cache.find(graph=name, setting=setting))
            cells.setdefault(setting, {})[name] = {
                m: mean(cache.find(graph=name, setting=setting, method=m), size) for m in by
            }
    render.records("Networks", facts)
    for setting, by in cells.items():
        for key in ("ari", "seconds", "largest", "modularity"):
            rows = {
                name: {m: one.get(key, one.get("error")) for m, one in methods.items()}
                for name, methods in by.items()
            }
            render.records(f"{setting}: {key}", rows)
    draws = max((one["draws"] for by in cells.values() for ms in by.values()
                 for one in ms.values() if "draws" in one), default=0)  # fmt: skip
    name = "networks_large" if args.large else "networks"
    runner.record(name, {"networks": facts, "settings": cells, "draws": draws})


if __name__ == "__main__":
    main()
