"""Volumes with a few painted voxels: `StrokeCut` beside scikit-image's random walker.

    python bench/volume.py                      128³ and 256³, two classes and three
    python bench/volume.py --sizes 64 --methods StrokeCut

A volume has eight tubes along random smooth curves (radius .03 of the side) and fourteen uneven
blobs, of one class or of two, on a ground. Grey values of the classes are .40 and .65, or .35, .60
and .85, times a shading that varies smoothly from .75 to 1.25, plus noise of .12, as 8 bits. In
five slices a line one voxel wide and at most 1/16 of the side long is painted for every class that
is there, through the middle of the widest place that it has. Constants of `StrokeCut` for volumes
were chosen on volumes of this kind from other seeds; these seeds are 100 and above.

Seconds are of the processor, peak memory is of a process that runs one method: Dice coefficients
of the classes, their mean, accuracy. "denoised" gives the walker a Gaussian mean of one voxel.
Peers take part where scikit-image is installed; cg_mg needs pyamg and takes part when asked for.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import common

PEERS = ("random_walker cg_j", "random_walker cg_mg", "random_walker denoised")
_GREY = {2: (0.40, 0.65), 3: (0.35, 0.60, 0.85)}


def volume(n: int, k: int, seed: int) -> tuple[Any, Any, Any]:
    """Grey values (n, n, n) uint8, strokes with -1 for none, and the true classes."""
    import numpy as np
    from scipy import ndimage

    rng = np.random.default_rng(seed)
    tubes = np.ones((n, n, n), dtype=bool)
    for _ in range(8):
        at = np.rint(_curve(rng, n)).astype(int)
        at = at[((at >= 0) & (at < n)).all(axis=1)]
        tubes[tuple(at.T)] = False
    inside = ndimage.distance_transform_edt(tubes) < 0.03 * n
    centres = np.ones((n, n, n), dtype=bool)
    centres[tuple(rng.integers(int(0.1 * n), int(0.9 * n), (14, 3)).T)] = False
    uneven = ndimage.distance_transform_edt(centres) + 0.03 * n * _smooth(rng, n, 8)
    truth = inside.astype(np.int8)
    truth[uneven < 0.11 * n] = k - 1
    shade = _smooth(rng, n, 2)
    shade = 0.75 + 0.5 * (shade - shade.min()) / np.ptp(shade)
    values = np.array(_GREY[k])[truth] * shade + rng.normal(0, 0.12, truth.shape)
    return np.rint(255 * np.clip(values / 1.3, 0, 1)).astype(np.uint8), _strokes(truth, k), truth


def _strokes(truth: Any, k: int) -> Any:
    import numpy as np
    from scipy import ndimage

    n = len(truth)
    painted = np.full(truth.shape, -1, dtype=np.int8)
    for z in np.linspace(0, n, 7)[1:-1].astype(int):
        for c in range(k):
            depth = ndimage.distance_transform_edt(np.pad(truth[z] == c, 1))[1:-1, 1:-1]
            y, x = np.unravel_index(depth.argmax(), depth.shape)
            half = int(min(n // 32, depth[y, x] - 1))
            if half >= 1:
                painted[z, y, max(0, x - half) : x + half + 1] = c
    return painted


def _curve(rng: Any, n: int) -> Any:
    """Points (6n, 3) along a smooth curve from one face of a cube to the other."""
    import numpy as np
    from scipy.interpolate import CubicSpline

    knots = rng.uniform(0.15, 0.85, (5, 3))
    knots[:, rng.integers(3)] = np.linspace(-0.05, 1.05, 5)
    return n * CubicSpline(np.arange(5), knots)(np.linspace(0, 4, 6 * n))


def _smooth(rng: Any, n: int, parts: int) -> Any:
    """Smooth noise (n, n, n), that of a coarse grid of parts + 3 between."""
    import numpy as np
    from scipy import ndimage

    coarse = rng.normal(size=(parts + 3,) * 3).astype(np.float32)
    return ndimage.zoom(coarse, n / parts, order=3)[:n, :n, :n]


def segment(source: str, method: str) -> dict[str, Any]:
    """One method on a volume of a file."""
    import numpy as np

    with np.load(source) as file:
        grey, strokes, truth = (file[name] for name in ("grey", "strokes", "truth"))
    before = common.own_peak_bytes()
    labels, _, seconds = common.cpu_timed(
        _stroke_cut if method == "StrokeCut" else _walker, grey, strokes, method
    )
    dice = [
        float(2 * ((labels == c) & (truth == c)).sum() / ((labels == c).sum() + (truth == c).sum()))
        for c in range(int(truth.max()) + 1)
    ]
    accuracy = float(np.mean(labels == truth))
    return {
        "dice": dice,
        "mean": float(np.mean(dice)),
        "accuracy": accuracy,
        "seconds": seconds,
        "before": before,
    }


def _stroke_cut(grey: Any, strokes: Any, _: str) -> Any:
    import mustlink as ml

    return ml.StrokeCut(random_state=0).fit(grey, strokes).labels_


def _walker(grey: Any, strokes: Any, method: str) -> Any:
    import warnings

    import numpy as np
    from scipy import ndimage
    from skimage.segmentation import random_walker

    values = grey.astype(np.float32) / 255
    if "denoised" in method:
        values = ndimage.gaussian_filter(values, 1.0)
    mode = "cg_mg" if "cg_mg" in method else "cg_j"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return random_walker(values, strokes.astype(np.int32) + 1, mode=mode) - 1


def make(target: str, n: int, k: int, seed: int) -> dict[str, Any]:
    """Write a volume; what share of it is painted."""
    import numpy as np

    grey, strokes, truth = volume(n, k, seed)
    np.savez_compressed(target, grey=grey, strokes=strokes, truth=truth)
    return {"painted": int((strokes >= 0).sum())}


def main() -> int:
    parser = common.parser(__doc__)
    there = importlib.util.find_spec("skimage") is not None
    usual = ["StrokeCut", PEERS[0], PEERS[2]] if there else ["StrokeCut"]
    parser.add_argument("--methods", nargs="+", choices=("StrokeCut", *PEERS), default=usual)
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 256])
    parser.add_argument("--classes", nargs="+", type=int, choices=(2, 3), default=[2, 3])
    parser.add_argument("--seed", type=int, default=100)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    rows = []
    for n in args.sizes:
        for k in args.classes:
            source = args.out / f"volume-{n}-{k}-{args.seed}.npz"
            made = common.call("volume:make", target=source, n=n, k=k, seed=args.seed)
            for method in args.methods:
                common.say(f"{n}³, {k} classes, {method}")
                found = common.call("volume:segment", source=source, method=method)
                figures[f"{n} {k} {method}"] = {**found, "painted": made["painted"]}
                rows.append(
                    (
                        *(n, k, made["painted"], method, found["mean"], found["accuracy"]),
                        *(round(found["seconds"], 1), common.gigabytes(found["rss_bytes"])),
                    )
                )
                common.write_json(args.out, "volume", figures)
    headers = ("side", "classes", "painted", "method", "mean Dice", "accuracy", "CPU s", "peak")
    common.table("Volumes", headers, rows)
    common.record("volume", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
