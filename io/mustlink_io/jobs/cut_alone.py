"""`mustlink cut` without strokes: a photograph becomes the parts that it shows."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink as ml
from mustlink.errors import InputError
from mustlink.observe import Observer
from mustlink_io.formats.photographs import load_image, save_image
from mustlink_io.hdf5.writing import check_output
from mustlink_io.jobs.cut_answer import answer
from mustlink_io.pictures.cut_out import outlined

_GOLDEN = 0.618034  # of the circle of hues between two parts, so that neighbours differ
_MOST = 256  # parts that 8-bit grey can tell apart
_ALL = -1  # no part is dimmed


def cut_alone(
    picture: str,
    n_clusters: int | str,
    output: str,
    random_state: int,
    n_jobs: int | None,
    observer: Observer | None,
) -> dict[str, Any]:
    """Cut, and write the labels and a picture with lines round the parts; returns plain values.

    Raises InputError.
    """
    if n_clusters != "auto" and int(n_clusters) > _MOST:
        raise InputError(f"n_clusters: {n_clusters} parts, but grey has {_MOST}; ask for fewer")
    path = Path(output)
    outline = path.with_name(f"{path.stem}-outline.png")
    for target in (path, outline):
        check_output(target, (picture,))
    image = load_image(picture, picture)
    est = ml.RegionCut(n_clusters, random_state=random_state, n_jobs=n_jobs)
    est.fit(image, observer=observer)
    labels, k = est.labels_, est.n_clusters_
    if k > _MOST:
        raise InputError(f"n_clusters: {k} parts found, but grey has {_MOST}; ask for fewer")
    colours = _colours(k)
    save_image(labels.astype(np.uint8), path)
    save_image(outlined(image, labels, _ALL, colours), outline)
    counts = np.bincount(labels.ravel(), minlength=k)
    return answer(
        est,
        path,
        outline,
        n_clusters=k,
        why=est.report_.choices["n_clusters"][1],
        parts=[
            {
                "value": part,
                "colour": "#" + bytes(colours[part]).hex(),
                "pixels": int(counts[part]),
            }
            for part in range(k)
        ],
    )


def _colours(k: int) -> NDArray[np.uint8]:
    """Bright colours (k, 3) of the lines round parts."""
    found = [colorsys.hsv_to_rgb(part * _GOLDEN % 1.0, 0.8, 1.0) for part in range(k)]
    return np.asarray(np.rint(255 * np.array(found)), dtype=np.uint8)
