"""A picture of a million pixels: graph and cut, seconds and memory, beside scikit-image.

    python bench/pictures.py                            every method on two threads
    python bench/pictures.py --methods GFHF "random_walker cg_j" --jobs 4

The picture is a mosaic of the six landscape GrabCut photographs of 321 x 481 pixels with their
first scribbles, in the order of their names, two a row: 963 x 962 pixels. IoU is of all six
foregrounds together, pixels of unsure truth left out. "one stroke more" is a `refit` with the
stroke that the cut before did not have. Every method runs in a process of its own, after a small
picture has loaded its kernels. Peers take part where scikit-image is installed.
Needs the data folder.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import common

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "GFHF": ("GFHF", {}),
    "Poisson": ("Poisson", {}),
    "NCut, K = 8": ("NCut", {"n_clusters": 8}),
    "FastGE exact": ("FastGE", {"n_clusters": 2, "subspace": "exact"}),
}
CUTS = ("StrokeCut", "StrokeCut, one stroke more", "RegionCut")  # of pictures, not of graphs
PEERS = {"random_walker cg_j": "cg_j", "random_walker cg_mg": "cg_mg"}
_SPREADING = ("GFHF", "Poisson")


def mosaic(source: str) -> tuple[Any, Any, Any]:
    """Image (963, 962, 3), strokes of 1 (foreground), 0 and -1, truth of 0, 128 (unsure), 255."""
    import h5py
    import numpy as np

    def joined(file: Any, key: str) -> Any:
        parts = [file[n][key][()] for n in sorted(file) if file[n]["gt"].shape == (321, 481)]
        return np.concatenate([np.concatenate(parts[i : i + 2], axis=1) for i in (0, 2, 4)])

    with h5py.File(source) as file:
        image, painted, truth = (joined(file, key) for key in ("image", "scribbles1", "gt"))
    return image, np.where(painted > 0, painted.astype(np.int64) % 2, -1), truth


def ours(source: str, method: str, jobs: int) -> dict[str, Any]:
    """Graph and fit on so many threads."""
    import numba

    import mustlink as ml

    numba.set_num_threads(min(jobs, numba.get_num_threads()))
    image, strokes, truth = mosaic(source)
    small = image[::5, ::5], strokes[::5, ::5]
    _on_graph(ml.image_graph(small[0]), small[1], method, jobs)
    graph, graph_seconds, graph_cpu = common.cpu_timed(ml.image_graph, image)
    est, seconds, cpu = common.cpu_timed(_on_graph, graph, strokes, method, jobs)
    front = None if method.startswith("NCut") else _front(est.labels_, strokes)
    return {
        "pixels": strokes.size,
        "graph_seconds": graph_seconds,
        "graph_cpu": graph_cpu,
        "seconds": graph_seconds + seconds,
        "cpu": graph_cpu + cpu,
        "iou": None if front is None else _iou(front, truth),
        "steps": est.report_.convergence.iterations,
        "peak_bytes": common.own_peak_bytes(),
    }


def cut(source: str, method: str, jobs: int) -> dict[str, Any]:
    """Cut of the picture itself, by strokes, by one stroke more, or by none."""
    import mustlink as ml

    image, strokes, truth = mosaic(source)
    if method == "RegionCut":
        est: Any = ml.RegionCut(random_state=0, n_jobs=jobs)
        est.fit(image[::5, ::5])
        run, given = est.fit, (image,)
    else:
        est = ml.StrokeCut(random_state=0, n_jobs=jobs)
        est.fit(image[::5, ::5], strokes[::5, ::5])
        run, given = est.fit, (image, strokes)
        if method != "StrokeCut":
            est.fit(image, _without_one(strokes))
            run, given = est.refit, (strokes,)
    _, seconds, cpu = common.cpu_timed(run, *given)
    return {
        "pixels": strokes.size,
        "seconds": seconds,
        "cpu": cpu,
        "iou": None if method == "RegionCut" else _iou(est.labels_ == 1, truth),
        "peak_bytes": common.own_peak_bytes(),
    }


def _without_one(strokes: Any) -> Any:
    """Strokes but for the largest of the foreground."""
    import numpy as np
    from scipy import ndimage

    pieces, _ = ndimage.label(strokes == 1, np.ones((3, 3)))
    sizes = np.bincount(pieces.ravel())[1:]
    return np.where(pieces == 1 + int(sizes.argmax()), -1, strokes)


def peer(source: str, mode: str) -> dict[str, Any]:
    """`random_walker` of scikit-image with its defaults but for the solver (Grady 2006)."""
    import warnings

    from skimage.segmentation import random_walker

    def run(image: Any, strokes: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return random_walker(image, strokes + 1, mode=mode, channel_axis=-1) == 2

    image, strokes, truth = mosaic(source)
    front, seconds, cpu = common.cpu_timed(run, image, strokes)
    found = {"pixels": strokes.size, "seconds": seconds, "cpu": cpu, "iou": _iou(front, truth)}
    return found | {"peak_bytes": common.own_peak_bytes()}


def _on_graph(graph: Any, strokes: Any, method: str, jobs: int) -> Any:
    import mustlink as ml

    name, options = METHODS[method]
    est = getattr(ml, name)(affinity="precomputed", random_state=0, n_jobs=jobs, **options)
    y = strokes.ravel()
    if name in _SPREADING:
        return est.fit(graph, y=y)
    known = {} if name == "NCut" else {"constraints": ml.Constraints.from_labels(y)}
    return est.fit(graph, **known)


def _front(labels: Any, strokes: Any) -> Any:
    """Pixels of the cluster with the larger share of foreground than of background strokes."""
    import numpy as np

    y = strokes.ravel()
    share = [np.mean(labels[y == 1] == c) - np.mean(labels[y == 0] == c) for c in (0, 1)]
    return (labels == int(np.argmax(share))).reshape(strokes.shape)


def _iou(front: Any, truth: Any) -> float:
    certain, real = truth != 128, truth > 128
    return float((front & real)[certain].sum() / (front | real)[certain].sum())


def main() -> int:
    parser = common.parser(__doc__)
    usual = [*CUTS, *METHODS, *(PEERS if importlib.util.find_spec("skimage") else ())]
    parser.add_argument("--methods", nargs="+", choices=usual, default=usual)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    source = common.data_file("images/grabcut_a.h5")
    if source is None:
        return 0
    figures: dict[str, Any] = {"jobs": args.jobs}
    for method in args.methods:
        common.say(method)
        if method in PEERS:
            found = common.call("pictures:peer", source=str(source), mode=PEERS[method])
        else:
            given = {"source": str(source), "method": method, "jobs": args.jobs}
            found = common.call(f"pictures:{'cut' if method in CUTS else 'ours'}", **given)
        figures[method] = found
        common.write_json(args.out, "pictures", figures)
    keys = ("graph_seconds", "seconds", "cpu", "steps", "iou")
    common.table(
        f"A picture of a million pixels, {args.jobs} threads",
        ("method", "graph, s", "graph and cut, s", "CPU s", "steps", "IoU", "peak"),
        [
            (m, *(figures[m].get(k) for k in keys), common.gigabytes(figures[m]["peak_bytes"]))
            for m in args.methods
        ],
    )
    common.record("pictures", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
