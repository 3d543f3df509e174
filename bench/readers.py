"""Reading a large edge list: seconds and peak memory, beside pandas' reader and SciPy.

Every reader turns the same file into the same symmetric matrix, in a process of its own, after
each other in turn; its peak is that of the process. `--edges 8000000` is the size that is quoted.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import common

SEEDS = 0


def write(path: Path, edges: int, kind: str) -> None:
    """Write edges between edges/8 nodes, each near in number: `i<tab>j`, weights or names."""
    import numpy as np

    rng = np.random.default_rng(SEEDS)
    n = max(10, edges // 8)
    i = rng.integers(n, size=edges)
    j = (i + 1 + rng.integers(min(500, n - 1), size=edges)) % n
    weight = rng.random(edges).round(6)
    step = 2**18
    with path.open("w") as file:
        for at in range(0, edges, step):
            part = slice(at, at + step)
            a, b = (ends[part].tolist() for ends in (i, j))
            if kind == "weights":
                rows = zip(a, b, weight[part].tolist(), strict=True)
                file.write("".join(map("%d\t%d\t%g\n".__mod__, rows)))
            else:
                form = "user%d\tuser%d\n" if kind == "names" else "%d\t%d\n"
                file.write("".join(map(form.__mod__, zip(a, b, strict=True))))


def mustlink(path: str) -> dict[str, Any]:
    """Our reader, with what is installed."""
    from mustlink_io.formats import edges

    started, cpu = time.perf_counter(), time.process_time()
    affinity = edges.read_edges(Path(path))[0]
    return _told(affinity, started, cpu)


def numpy_only(path: str) -> dict[str, Any]:
    """Our reader where pyarrow is not installed."""
    import sys

    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    return mustlink(path)


def pandas(path: str) -> dict[str, Any]:
    """pandas' reader in C, then the larger of the two directions by SciPy."""
    import numpy as np
    import scipy.sparse as sp

    started, cpu = time.perf_counter(), time.process_time()
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
    return _told(upper + sp.triu(upper, 1).T, started, cpu)


def _told(affinity: Any, started: float, cpu: float) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "n_nodes": affinity.shape[0],
        "nnz": affinity.nnz,
        "sum": float(affinity.sum()),
    }


READERS = ("mustlink", "numpy_only", "pandas")


def main() -> None:
    """Measure."""
    parser = common.parser(__doc__)
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--kinds", nargs="+", default=["numbers", "weights", "names"])
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--repeat", type=int, default=2, help="of which the fastest counts")
    given = parser.parse_args()
    rows = []
    for kind in given.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.tsv"
            common.say(f"{given.edges:,} edges, {kind}")
            write(path, given.edges, kind)
            size = path.stat().st_size
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in given.readers}
            for _ in range(given.repeat):
                for name in given.readers:
                    found[name].append(common.call(f"readers:{name}", path=path))
        sums = {(run[0]["n_nodes"], run[0]["nnz"]) for run in found.values()}
        assert len(sums) == 1, f"{kind}: the readers differ: {found}"
        for name, runs in found.items():
            best = min(runs, key=lambda run: run["seconds"])
            rows.append({"kind": kind, "reader": name, "bytes": size, "edges": given.edges, **best})
    common.table(
        f"{given.edges:,} edges to a symmetric matrix",
        ["file", "reader", "seconds", "CPU seconds", "peak"],
        [
            (
                r["kind"],
                r["reader"],
                r["seconds"],
                r["cpu_seconds"],
                common.gigabytes(r["rss_bytes"]),
            )
            for r in rows
        ],
    )
    common.write_json(given.out, "readers", rows)
    files: dict[str, Any] = {}
    for r in rows:
        told = {"seconds": r["seconds"], "peak_gb": r["rss_bytes"] / 1e9}
        files.setdefault(r["kind"], {})[r["reader"]] = told
    common.record("readers", {"edges": given.edges, "files": files})


if __name__ == "__main__":
    main()
