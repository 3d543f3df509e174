"""Reading a large edge list: seconds and peak memory, beside pandas' reader and SciPy.

    python bench/readers.py [--edges 8000000] [--kinds numbers weights names]

Every reader turns the same file into the same symmetric matrix, in a process of its own, after
each other in turn; the fastest of two runs counts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import render
import runner


def write(path: Path, edges: int, kind: str) -> None:
    """Write edges between edges/8 nodes, each near in number: `i<tab>j`, weights or names."""
    import numpy as np

    rng = np.random.default_rng(0)
    n = max(10, edges // 8)
    i = rng.integers(n, size=edges)
    j = (i + 1 + rng.integers(min(500, n - 1), size=edges)) % n
    weight = rng.random(edges).round(6)
    form = {"names": "user%d\tuser%d\n", "weights": "%d\t%d\t%g\n"}.get(kind, "%d\t%d\n")
    columns = (i, j, weight) if kind == "weights" else (i, j)
    with path.open("w") as file:
        for at in range(0, edges, 2**18):
            rows = zip(*(one[at : at + 2**18].tolist() for one in columns), strict=True)
            file.write("".join(map(form.__mod__, rows)))


def mustlink(path: str) -> dict[str, Any]:
    """Our reader, with what is installed."""
    from mustlink_io.formats import edges

    started = time.perf_counter()
    return _measured(edges.read_edges(Path(path))[0], started)


def numpy_only(path: str) -> dict[str, Any]:
    """Our reader where pyarrow is not installed."""
    import sys

    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    return mustlink(path)


def pandas(path: str) -> dict[str, Any]:
    """pandas' reader in C, then the larger of the two directions by SciPy."""
    import numpy as np
    import scipy.sparse as sp

    started = time.perf_counter()
    import pandas as pd

    frame = pd.read_csv(path, sep="\t", header=None)
    ends = frame[[0, 1]].to_numpy()
    if ends.dtype.kind == "O":
        codes, known = pd.factorize(ends.T.ravel())
        ends, n = codes.reshape(2, -1).T, len(known)
    else:
        n = int(ends.max()) + 1
    low, high = ends.min(axis=1), ends.max(axis=1)
    weight = frame[2] if 2 in frame else np.ones(len(frame))
    edges = pd.DataFrame({"i": low, "j": high, "w": weight}).groupby(["i", "j"]).max()
    i, j = (edges.index.get_level_values(level).to_numpy() for level in (0, 1))
    upper = sp.csr_matrix((edges["w"].to_numpy(), (i, j)), shape=(n, n))
    return _measured(upper + sp.triu(upper, 1).T, started)


def _measured(affinity: Any, started: float) -> dict[str, Any]:
    size = [affinity.shape[0], int(affinity.nnz)]
    return {"seconds": time.perf_counter() - started, "size": size}


READERS = ("mustlink", "numpy_only", "pandas")


def main() -> None:
    kinds = ["numbers", "weights", "names"]
    args = runner.options(__doc__, edges=8_000_000, kinds=kinds, readers=READERS)
    files: dict[str, Any] = {}
    for kind in args.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.tsv"
            runner.say(f"{args.edges:,} edges, {kind}")
            write(path, args.edges, kind)
            runs: dict[str, list[Any]] = {name: [] for name in args.readers}
            for name in [*args.readers] * 2:
                runs[name].append(runner.call(f"readers:{name}", path=path))
        sizes = {tuple(one["size"]) for found in runs.values() for one in found}
        assert len(sizes) == 1, f"{kind}: the readers differ: {sizes}"
        files[kind] = {}
        for name, found in runs.items():
            best = min(found, key=lambda run: run["seconds"])
            figures = {"seconds": best["seconds"], "peak_gb": best["rss_bytes"] / 1e9}
            files[kind][name] = figures
        render.records(f"{args.edges:,} edges to a symmetric matrix, {kind}", files[kind])
    runner.record("readers", {"edges": args.edges, "files": files})


if __name__ == "__main__":
    main()
