"""Neighbours by parts on disk beside points held in memory: recall, seconds, peak memory.

    python bench/partition.py                    all data sets
    python bench/partition.py --only sheets128   one of them
    python bench/partition.py --n 20000          synthetic ones small
    python bench/partition.py --broad            10^7 points of 12 broad overlapping clusters
    python bench/partition.py --broad --n 1000000

Every row is a process of its own that reads an HDF5 file. "least" is the smallest budget that the
plan accepts, "half" that in the middle to points held in memory. Files are kept in the
output folder and used again; --fresh makes them anew. --broad searches at a fixed budget, with
clusters ever less apart: the points of a million take 80 MB, of 10^7 0.8 GB on disk each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common

NEIGHBOURS, BLOCK, SHEETS = 15, 65_536, 10
DATA = ("sheets128", "sheets32", "sheets16", "mixture64", "mnist")
SIZES = {"sheets128": 1_000_000, "sheets32": 1_000_000, "sheets16": 3_000_000, "mixture64": 300_000}
BROAD, CLUSTERS, WIDTH = (0.6, 1.1, 1.6), 12, 20


# ---------------------------------------------------------------- jobs (each in its own child)


def write_points(path: str, name: str, n: int, seed: int) -> dict[str, Any]:
    """Points in row blocks: ten curved 4-dimensional sheets with noise, or 50 round clusters.

    The clusters fill all their dimensions, which is as hard for neighbours as data get.
    """
    import h5py
    import numpy as np

    from mustlink_io.hdf5 import writing

    rng = np.random.default_rng(seed)
    d = int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
    sheets = [
        (rng.normal(size=(4, d)), rng.normal(size=(8, d)), rng.normal(size=(4, 8)))
        for _ in range(SHEETS)
    ]
    centres = rng.normal(size=(50, d))
    with writing.atomic(path) as temporary, h5py.File(temporary, "w") as file:
        points = file.create_dataset("points", (n, d), dtype="f4")
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            if name.startswith("mixture"):
                rows = centres[rng.integers(50, size=m)] + 0.5 * rng.normal(size=(m, d))
            else:
                rows = np.empty((m, d))
                own = rng.integers(SHEETS, size=m)
                for c, (A, B, C) in enumerate(sheets):
                    u = rng.random((int((own == c).sum()), 4)) - 0.5
                    rows[own == c] = u @ A + 0.5 * (1 - np.cos(3 * u @ C)) @ B
                rows += 0.05 * rng.normal(size=(m, d))
            points[start : start + m] = rows
    return {"bytes": Path(path).stat().st_size}


def write_broad(path: str, noise: float, n: int, seed: int) -> dict[str, Any]:
    """Points in row blocks: centres of deviation 1.3 a coordinate, with round noise about them."""
    import h5py
    import numpy as np

    from mustlink_io.hdf5 import writing

    rng = np.random.default_rng(seed)
    centres = 1.3 * rng.standard_normal((CLUSTERS, WIDTH))
    with writing.atomic(path) as temporary, h5py.File(temporary, "w") as file:
        points = file.create_dataset("points", (n, WIDTH), dtype="f4")
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            rows = centres[rng.integers(CLUSTERS, size=m)]
            points[start : start + m] = rows + noise * rng.standard_normal((m, WIDTH))
    return {"bytes": Path(path).stat().st_size}


def write_mnist(path: str, source: str) -> dict[str, Any]:
    """Raw pixels as float32."""
    import h5py
    import numpy as np

    from mustlink_io.hdf5 import writing

    with np.load(source) as arrays:
        X = arrays["X"].reshape(len(arrays["X"]), -1)
    with writing.atomic(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset("points", data=X, dtype="f4")
    return {"bytes": Path(path).stat().st_size}


def budgets(path: str) -> dict[str, Any]:
    """Smallest budget that works, and one half way to what points held in memory need."""
    import h5py

    from mustlink.context.neighbor_cost import knn_plan

    with h5py.File(path) as file:
        n, d = file["points"].shape
    ample = knn_plan(n, d, NEIGHBOURS, 1 << 62)
    return {"n": n, "d": d, "least": ample.least, "half": (ample.least + ample.peak_bytes) // 2}


def graph(path: str, memory: int | None) -> dict[str, Any]:
    """One graph: of an array without a budget, of the HDF5 dataset with one."""
    import h5py
    import numpy as np

    from mustlink.context.neighbor_cost import knn_plan
    from mustlink.context.rates import measured_speed, neighbour_seconds
    from mustlink.core.observe import Recorder
    from mustlink.neighbors import knn_graph

    recorder = Recorder()
    with h5py.File(path) as file:
        data = file["points"]
        points = np.asarray(data) if memory is None else data
        options = {"memory": memory, "random_state": 0, "observer": recorder}
        made, seconds, cpu = common.cpu_timed(lambda: knn_graph(points, NEIGHBOURS, **options))
        shape = data.shape
        plan = None if memory is None else knn_plan(*shape, NEIGHBOURS, memory).peak_bytes
    return {
        "seconds": seconds,
        "plan_seconds": neighbour_seconds("cells", *shape, NEIGHBOURS) * measured_speed(),
        "cpu_seconds": cpu,
        "peak_bytes": common.own_peak_bytes(),
        "plan_bytes": plan,
        "kept": made.affinity.nnz / (made.n_nodes * NEIGHBOURS),
        "info": dict(made.info),
        "stages": {stage.name: stage.seconds for stage in recorder.stages},
    }


# ---------------------------------------------------------------- parts


def points_file(out: Path, name: str, n: int | None, seed: int, fresh: bool) -> Path | None:
    """HDF5 file of a data set, written unless it is there; None where there is no data."""
    out.mkdir(parents=True, exist_ok=True)
    if name == "mnist":
        path = out / "partition-mnist.h5"
        if fresh or not path.exists():
            source = common.data_file("points/mnist.npz")
            if source is None:
                return None
            common.call("partition:write_mnist", path=str(path), source=str(source))
        return path
    size = n or SIZES[name]
    path = out / f"partition-{name}-{size}-{seed}.h5"
    if fresh or not path.exists():
        common.say(f"writing {size:,} points of {name}")
        common.call("partition:write_points", path=str(path), name=name, n=size, seed=seed)
    return path


def compare(path: Path, name: str) -> list[dict[str, Any]]:
    """Without a budget, then with half of the memory and the least."""
    sizes = common.call("partition:budgets", path=str(path))
    rows = []
    for how, memory in (("in memory", None), ("half", sizes["half"]), ("least", sizes["least"])):
        common.say(f"{name}: {how}")
        found = common.call("partition:graph", path=str(path), memory=memory)
        rows.append({"data": f"{name} {sizes['n']:,} x {sizes['d']}", "how": how, **found})
    return rows


def broad(out: Path, noise: float, n: int, memory: int, seed: int, fresh: bool) -> dict[str, Any]:
    """One search of broad clusters within `memory` bytes."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"partition-broad{noise}-{n}-{seed}.h5"
    if fresh or not path.exists():
        common.say(f"writing {n:,} points of noise {noise}")
        common.call("partition:write_broad", path=str(path), noise=noise, n=n, seed=seed)
    common.say(f"noise {noise}: {memory / 1e9:.0f} GB")
    found = common.call("partition:graph", path=str(path), memory=memory)
    return {"data": f"broad {noise} {n:,} x {WIDTH}", "how": f"{memory / 1e9:.0f} GB", **found}


def shown_broad(row: dict[str, Any]) -> list[Any]:
    """Cells of one row of --broad."""
    info = row["info"]
    return [
        row["data"],
        f"{info['parts']} x {info['overlap']}" if "overlap" in info else info["parts"],
        info["visited"],
        info["recall"],
        row["stages"]["kNN graph"],
        row["plan_seconds"],
        row["seconds"],
        row["cpu_seconds"],
        common.gigabytes(row["rss_bytes"]),
        common.gigabytes(row["plan_bytes"]),
    ]


def shown(row: dict[str, Any]) -> list[Any]:
    """Cells of one row."""
    info = row["info"]
    parts = f"{info['parts']} x {info['overlap']}" if "overlap" in info else info.get("parts")
    return [
        row["data"],
        row["how"],
        parts,
        info.get("visited"),
        info["recall"],
        row["seconds"],
        row["cpu_seconds"],
        common.gigabytes(row["rss_bytes"]),
        None if row["plan_bytes"] is None else common.gigabytes(row["plan_bytes"]),
    ]


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--n", type=int, help="points of the synthetic sets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="make the points anew")
    parser.add_argument("--broad", action="store_true", help="only broad overlapping clusters")
    parser.add_argument("--noise", nargs="+", type=float, default=BROAD, help="of --broad")
    parser.add_argument("--memory", type=float, default=12.0, help="GB, of --broad")
    args = parser.parse_args()
    common.say(f"machine: {common.machine()}")
    rows: list[dict[str, Any]] = []
    if args.broad:
        n, memory = args.n or 10**7, int(args.memory * 1e9)
        for noise in args.noise:
            rows.append(broad(args.out, noise, n, memory, args.seed, args.fresh))
        headers: tuple[str, ...] = ("points", "parts", "visited", "recall")
        headers = (*headers, "search s", "planned s", "graph s", "CPU s", "peak", "planned")
        common.table("Neighbours of broad clusters by parts", headers, map(shown_broad, rows))
        common.write_json(args.out, "partition-broad", rows)
        return
    for name in args.only:
        path = points_file(args.out, name, args.n, args.seed, args.fresh)
        if path is not None:
            rows += compare(path, name)
    headers = ("points", "memory", "parts", "visited", "recall", "s")
    headers = (*headers, "CPU s", "peak", "planned")
    common.table("Neighbours by cells and by parts", headers, map(shown, rows))
    common.write_json(args.out, "partition", rows)


if __name__ == "__main__":
    main()
