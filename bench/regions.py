"""Pictures cut without strokes against what people segmented: covering, ARI, CPU seconds.

    python bench/regions.py                                 12 pictures of the data folder
    python bench/regions.py --bsds BSDS500/data --sample 80 test pictures of that folder, at random
    python bench/regions.py --methods RegionCut --out FOLDER

Covering is that of BSDS, Σ_R |R| max_S |R ∩ S| / |R ∪ S| / n over the parts R that a person drew
and S that were found (Arbeláez et al. 2011); like the ARI it is the mean over people, then over
pictures. Every method has one setting for all pictures. Those of RegionCut were fitted to 90
pictures of BSDS500 (train and val), none of which is among the 12; the peers' are scikit-image's,
or the best of 32 (SLIC + NCut) and 15 (felzenszwalb) tried on 40 of the 90. Peers take
part where scikit-image is installed.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import common

_SEED = 8


def ours(image: Any, n_clusters: Any = "auto") -> Any:
    import mustlink as ml

    return ml.RegionCut(n_clusters, random_state=0).fit_predict(image)


def ncut(image: Any) -> Any:
    """Pixels as nodes, each with those that are near and those that look alike."""
    import mustlink as ml

    graph = ml.image_graph(image)
    return (
        ml.NCut(8, affinity="precomputed", random_state=0)
        .fit(graph)
        .labels_.reshape(image.shape[:2])
    )


def slic_ncut(image: Any, n_segments: int, compactness: float, thresh: float) -> Any:
    """Superpixels, and the normalised cut of their graph (Shi & Malik 2000)."""
    from skimage import graph
    from skimage.segmentation import slic

    small = slic(image, n_segments=n_segments, compactness=compactness, start_label=0)
    near = graph.rag_mean_color(image, small, mode="similarity")
    return graph.cut_normalized(small, near, thresh=thresh, rng=0)


def felzenszwalb(image: Any, **options: Any) -> Any:
    from skimage.segmentation import felzenszwalb

    return felzenszwalb(image, **options)


def slic(image: Any) -> Any:
    from skimage.segmentation import slic

    return slic(image, n_segments=8, start_label=0)


METHODS: dict[str, Callable[[Any], Any]] = {
    "RegionCut": ours,
    "RegionCut, K = 8": partial(ours, n_clusters=8),
    "NCut, K = 8": ncut,
    "SLIC + NCut": partial(slic_ncut, n_segments=400, compactness=30, thresh=0.001),
    "SLIC + NCut, chosen": partial(slic_ncut, n_segments=200, compactness=20, thresh=0.01),
    "felzenszwalb, chosen": partial(felzenszwalb, scale=500, sigma=0.8, min_size=500),
    "SLIC, K = 8": slic,
}
_PEERS = {name for name in METHODS if "SLIC" in name or "felz" in name}


def covering(truth: Any, found: Any) -> float:
    """How well the parts of (h, w) that are true are covered by single ones that were found."""
    import numpy as np

    table = overlaps(truth, found)
    true, own = table.sum(axis=1), table.sum(axis=0)
    shares = table / (true[:, None] + own - table)
    return float((true * shares.max(axis=1)).sum() / np.sum(true))


def overlaps(truth: Any, found: Any) -> Any:
    """Pixels that parts of two segmentations have in common, (K, L)."""
    import numpy as np

    a, b = (np.unique(one, return_inverse=True)[1].ravel() for one in (truth, found))
    shape = a.max() + 1, b.max() + 1
    return np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape)


def shared(source: str) -> dict[str, Any]:
    """Names of the pictures of the data folder's file."""
    import h5py

    with h5py.File(source) as file:
        return {"names": sorted(file)}


def sampled(folder: str, sample: int) -> dict[str, Any]:
    """Names of some test pictures of a BSDS500 folder."""
    import numpy as np

    every = sorted(path.stem for path in Path(folder, "images", "test").glob("*.jpg"))
    chosen = np.random.default_rng(_SEED).choice(every, min(sample, len(every)), replace=False)
    return {"names": sorted(chosen.tolist())}


def _picture(source: str, name: str) -> tuple[Any, list[Any]]:
    """Image (h, w, 3) and people's segmentations (h, w)."""
    import io

    import h5py
    import numpy as np
    from PIL import Image

    if Path(source).is_dir():
        import scipy.io

        image = Image.open(Path(source, "images", "test", f"{name}.jpg")).convert("RGB")
        found = scipy.io.loadmat(str(Path(source, "groundTruth", "test", f"{name}.mat")))
        truths = [one["Segmentation"][0, 0] for one in found["groundTruth"][0]]
        return np.asarray(image), truths
    with h5py.File(source) as file:
        image = Image.open(io.BytesIO(file[name]["jpeg"][()].tobytes())).convert("RGB")
        return np.asarray(image), list(file[name]["seg"][()])


def judge(source: str, names: list[str], methods: list[str], out: str) -> dict[str, Any]:
    """Every method on every picture, its scores, and the picture with its boundaries."""
    import warnings

    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    from mustlink_io.pictures.images import outlined

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    ours(np.zeros((40, 40, 3)))  # loads what is compiled
    for name in names:
        common.say(name)
        image, truths = _picture(source, name)
        found[name] = {}
        for method in methods:
            labels, _, seconds = common.cpu_timed(METHODS[method], image)
            found[name][method] = {
                "covering": statistics.mean(covering(truth, labels) for truth in truths),
                "ari": statistics.mean(
                    adjusted_rand_score(truth.ravel(), labels.ravel()) for truth in truths
                ),
                "parts": int(np.unique(labels).size),
                "seconds": seconds,
            }
            if method == "RegionCut":
                red = np.tile(np.array([[255, 0, 0]], dtype=np.uint8), (labels.max() + 1, 1))
                _save(outlined(image, labels, -1, red), Path(out, f"regions-{name}.png"))
    return {"pictures": found, "pixels": int(image[..., 0].size)}


def _save(pixels: Any, path: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path)


def main() -> int:
    parser = common.parser(__doc__)
    there = importlib.util.find_spec("skimage") is not None
    usual = [name for name in METHODS if there or name not in _PEERS]
    parser.add_argument("--methods", nargs="+", choices=usual, default=usual)
    parser.add_argument("--bsds", help="folder data of BSDS500, with images and groundTruth")
    parser.add_argument("--sample", type=int, default=80, help="test pictures of that folder")
    args = parser.parse_args()
    source = args.bsds or common.data_file("images/bsds_12.h5")
    if source is None:
        return 0
    if args.bsds:
        told = common.call("regions:sampled", folder=args.bsds, sample=args.sample)
    else:
        told = common.call("regions:shared", source=str(source))
    args.out.mkdir(parents=True, exist_ok=True)
    results = common.call(
        "regions:judge",
        source=str(source),
        names=told["names"],
        methods=args.methods,
        out=str(args.out),
    )
    common.write_json(args.out, "regions", results)
    rows, figures = [], {}
    for method in args.methods:
        each = [one[method] for one in results["pictures"].values()]
        means = {key: statistics.mean(one[key] for one in each) for key in each[0]}
        figures[method] = means
        rows.append((method, *(format(means[key], ".3f") for key in means)))
    title = f"{len(results['pictures'])} pictures without strokes"
    common.table(title, ("method", "covering", "ARI", "parts", "CPU, s"), rows)
    if not args.bsds:
        common.record("regions", {**figures, "pixels": results["pixels"]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
