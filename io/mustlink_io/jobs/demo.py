"""`mustlink demo`: a photograph at full resolution, cut along a person's strokes.

WD14 §7.1 had to shrink images to 48 x 32 pixels; here 427 x 640 = 273,280 pixels are nodes. The
photograph ships inside scikit-learn, the strokes with this package.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.process_memory import peak_bytes
from mustlink.errors import InputError
from mustlink.observe import Observer, Recorder
from mustlink_io import pictures
from mustlink_io.formats.photographs import load_image
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.result import Result
from mustlink_io.jobs import diagnostics
from mustlink_io.jobs.cluster import cluster_content, cluster_findings
from mustlink_io.jobs.graph import N_SIMILAR
from mustlink_io.jobs.provenance import command_line, stages_of
from mustlink_io.jobs.run import result_of

STROKES = "data/china_strokes.csv"


@dataclass(frozen=True)
class Stroke:
    """A polyline (m, 2) of (x, y) in pixels, drawn `width` pixels wide, for one class."""

    name: str
    width: float
    points: NDArray[np.float64]


def read_strokes(text: str) -> list[Stroke]:
    """Strokes from CSV text with the columns class, width, points; raises InputError."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    strokes = []
    for number, row in enumerate(csv.DictReader(lines), start=1):
        try:
            points = np.array(row["points"].split(), dtype=np.float64).reshape(-1, 2)
            strokes.append(Stroke(row["class"], float(row["width"]), points))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"strokes: row {number} is not 'class,width,x y x y …'; correct it"
            ) from error
    return strokes


def rasterise(strokes: list[Stroke], shape: tuple[int, int]) -> tuple[NDArray[np.int64], list[str]]:
    """Labels (h, w), -1 off the strokes, and the class names in order of appearance.

    A pixel belongs to a stroke when it is at most half its width away from a segment; later strokes
    are drawn over earlier ones.
    """
    names = list(dict.fromkeys(stroke.name for stroke in strokes))
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    labels = np.full(shape, -1, dtype=np.int64)
    for stroke in strokes:
        for a, b in zip(stroke.points[:-1], stroke.points[1:], strict=True):
            along = b - a
            t = ((x - a[0]) * along[0] + (y - a[1]) * along[1]) / max(along @ along, 1e-12)
            t = np.clip(t, 0.0, 1.0)
            distance = np.hypot(x - a[0] - t * along[0], y - a[1] - t * along[1])
            labels[distance <= stroke.width / 2] = names.index(stroke.name)
    return labels, names


def photograph() -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """The image (h, w, 3), the labels (h, w) of the strokes on it, and names of the classes."""
    picture = resources.files("sklearn.datasets") / "images" / "china.jpg"
    with resources.as_file(picture) as path:
        image = load_image(path, "demo")
    text = resources.files("mustlink_io").joinpath(STROKES).read_text(encoding="utf-8")
    return (image, *rasterise(read_strokes(text), image.shape[:2]))


def run(out_dir: str, observer: Observer) -> Result:
    """Segment the photograph with and without strokes: picture, HDF5 labels, summary."""
    import mustlink

    pictures.require_matplotlib()
    out = Path(out_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {out_dir}: cannot be made a folder ({error.strerror})") from error
    picture, result_file = out / "china.png", out / "china.h5"
    for path in (picture, result_file):
        store.check_output(path, ())
    recorder = Recorder(observer)
    with recorder.stage("photograph and strokes"):
        image, strokes, names = photograph()
    shape, k = image.shape[:2], len(names)
    with recorder.stage("pixel graph"):
        graph = mustlink.image_graph(image, n_similar=N_SIMILAR)
    common: dict[str, Any] = {"n_clusters": k, "affinity": "precomputed", "random_state": 0}
    constrained = mustlink.CSP(**common).fit(graph, strokes.ravel(), observer=recorder)
    plain = mustlink.NCut(**common).fit(graph, observer=recorder)
    labels = constrained.labels_.reshape(shape)
    with recorder.stage("picture"):
        figure = pictures.segmentation(
            image,
            strokes,
            plain.labels_.reshape(shape),
            labels,
            titles=("a person's strokes", "without them (NCut)", "with them (CSP)"),
        )
        pictures.save(figure, picture)
    with recorder.stage("looking at the result"):
        known = mustlink.Constraints.from_labels(strokes.ravel())
        look = {
            **cluster_findings(constrained, known),
            "command": command_line("demo", None, {"-o": out_dir}),
        }
        content = {**cluster_content(constrained), **diagnostics.side_content(known)}
        told = {**look, **_summary(constrained, plain, strokes, names)}
    parameters = {"method": "csp", **constrained.get_params()}
    result = result_of(constrained, told, content, recorder, parameters, ())
    with recorder.stage("writing"):
        store.write(result_file, {**content, "/image": image, **result.content()})
    files = [str(picture), str(result_file)]
    result = result.told(output=str(result_file), peak_bytes=peak_bytes(), files=files)
    return result.model_copy(update={"stages": stages_of(recorder), "classes": names})


def _summary(
    constrained: Any, plain: Any, strokes: NDArray[np.int64], names: list[str]
) -> dict[str, Any]:
    """What the summary shows and the result file keeps."""
    k = len(names)
    marked = strokes.ravel() >= 0
    return {
        "image": "china.jpg of scikit-learn",
        "data": {"kind": "image", "shape": list(strokes.shape)},
        "stroke_pixels": int(marked.sum()),
        "obeyed": _obeyed(constrained.labels_[marked], strokes.ravel()[marked], k),
        "obeyed_without": _obeyed(plain.labels_[marked], strokes.ravel()[marked], k),
    }


def _obeyed(found: NDArray[np.int64], given: NDArray[np.int64], k: int) -> float:
    """Share of stroke pixels in the cluster of their class, clusters matched to classes."""
    from scipy.optimize import linear_sum_assignment

    overlap = np.bincount(given * k + found, minlength=k * k).reshape(k, k)
    rows, columns = linear_sum_assignment(-overlap)
    return float(overlap[rows, columns].sum() / given.size)
