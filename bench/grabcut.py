"""GrabCut photographs with people's scribbles: every method, IoU of the foreground, pictures.

    python bench/grabcut.py                      12 images at full resolution (154,401 pixels)
    python bench/grabcut.py --only 24077 --methods CSP FastGE --out FOLDER

Labels are the first set of scribbles. The two clusters are named by the labels they hold. Pixels
with ground truth 128 (unsure) do not count. Needs the data folder.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import common

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "NCut": ("NCut", {}),
    "CSP": ("CSP", {}),
    "CSP exact": ("CSP", {"subspace": "exact", "beta": 0.01}),
    "SSSC": ("SSSC", {}),
    "SL exact": ("SpectralLearning", {"subspace": "exact"}),
    "SL-L̄ exact": ("SpectralLearning", {"subspace": "exact", "normalized": True}),
    "AP exact": ("ConstrainedAP", {"subspace": "exact", "noise": 0.3}),
    "FastGE": ("FastGE", {}),
    "FastGE exact": ("FastGE", {"subspace": "exact"}),
    "SSKK": ("SSKK", {}),
    "GFHF": ("GFHF", {}),
    "LLGC": ("LLGC", {}),
    "Poisson": ("Poisson", {}),
}
_PROPAGATORS = {"GFHF", "LLGC", "Poisson"}  # classes, not clusters


def names(source: str) -> dict[str, Any]:
    """Images of the file."""
    import h5py

    with h5py.File(source) as file:
        return {"names": sorted(file)}


def segment(source: str, name: str, methods: list[str], picture: str) -> dict[str, Any]:
    """All methods on one image, sharing its graph and what was computed from that."""
    import h5py
    import numpy as np

    import mustlink as ml

    with h5py.File(source) as file:
        image, truth, scribbles = (file[name][key][()] for key in ("image", "gt", "scribbles1"))
    y = np.where(scribbles > 0, scribbles.astype(np.int64) % 2, -1).ravel()  # 1 foreground
    graph, graph_seconds = common.timed(ml.image_graph, image, 2, n_similar=8)
    known = ml.Constraints.from_labels(y)
    found: dict[str, Any] = {}
    for method in methods:
        estimator, options = METHODS[method]
        spreads = estimator in _PROPAGATORS
        count = {} if spreads else {"n_clusters": 2}
        est = getattr(ml, estimator)(**count, affinity="precomputed", random_state=0, **options)
        side = {"y": y} if spreads else {} if estimator == "NCut" else {"constraints": known}
        _, seconds = common.timed(est.fit, graph, **side)
        front = est.labels_ == _front(est.labels_, y)
        certain = truth.ravel() != 128
        real = (truth.ravel() > 128) & certain
        front &= certain
        found[method] = {
            "iou": float((front & real).sum() / max((front | real).sum(), 1)),
            "accuracy": float((front == real)[certain].mean()),
            "seconds": seconds,
            "kept": (est.report_.satisfaction or {}).get("kept"),
            "subspace": est.report_.choices.get("subspace"),
            "status": est.report_.convergence.status if est.report_.convergence else "",
            "labels": est.labels_.reshape(image.shape[:2]),
        }
    _draw(picture, image, y.reshape(image.shape[:2]), found)
    for one in found.values():
        del one["labels"]
    return {"graph_seconds": graph_seconds, "pixels": int(y.size), "methods": found}


def _front(labels: Any, y: Any) -> int:
    """The cluster with the larger share of foreground scribbles than of background ones."""
    import numpy as np

    share = [np.mean(labels[y == 1] == c) - np.mean(labels[y == 0] == c) for c in (0, 1)]
    return int(np.argmax(share))


def _draw(picture: str, image: Any, strokes: Any, found: dict[str, Any]) -> None:
    """Scribbles, and the image with the background of every method's result darkened."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    columns = 4
    rows = -(-(len(found) + 1) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.2 * columns, 2.6 * rows))
    for axis in axes.ravel():
        axis.axis("off")
    shown = image.copy()
    shown[strokes == 1], shown[strokes == 0] = (255, 60, 60), (60, 60, 255)
    axes.ravel()[0].imshow(shown)
    axes.ravel()[0].set_title("scribbles", fontsize=8)
    for axis, (method, one) in zip(axes.ravel()[1:], found.items(), strict=False):
        front = one["labels"] == _front(one["labels"].ravel(), strokes.ravel())
        axis.imshow(np.where(front[..., None], image, image // 4))
        axis.set_title(f"{method}: {one['iou']:.2f}", fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=90)
    plt.close(figure)


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    args = parser.parse_args()
    source = common.data_file("images/grabcut_a.h5")
    if source is None:
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in args.only or common.call("grabcut:names", source=str(source))["names"]:
        common.say(name)
        results[name] = common.call(
            "grabcut:segment",
            source=str(source),
            name=name,
            methods=args.methods,
            picture=str(args.out / f"grabcut-{name}.png"),
        )
        common.write_json(args.out, "grabcut", results)
    rows = [
        (name, *(f"{one['methods'][m]['iou']:.3f}" for m in args.methods))
        for name, one in results.items()
    ]

    def mean(key: str) -> tuple[float, ...]:
        parts = [[one["methods"][m][key] for one in results.values()] for m in args.methods]
        return tuple(statistics.mean(part) for part in parts)

    rows.append(("mean IoU", *(f"{v:.3f}" for v in mean("iou"))))
    rows.append(("mean accuracy", *(f"{v:.3f}" for v in mean("accuracy"))))
    rows.append(("mean seconds", *(f"{v:.1f}" for v in mean("seconds"))))
    common.table("IoU of the foreground, scribbles 1", ("image", *args.methods), rows)
    figures: dict[str, Any] = {"pixels": next(iter(results.values()))["pixels"]}
    for method, iou, seconds in zip(args.methods, mean("iou"), mean("seconds"), strict=True):
        figures[method] = {"iou": iou, "seconds": seconds}
    common.record("grabcut", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
