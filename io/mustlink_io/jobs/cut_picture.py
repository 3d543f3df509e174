"""`mustlink cut` along strokes: a photograph becomes labels of pixels, and cut-outs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mustlink as ml
from mustlink.errors import InputError
from mustlink.observe import Observer
from mustlink_io.formats.photographs import PAINTED_ON, load_cut_out, load_strokes, save_image
from mustlink_io.hdf5.writing import check_output
from mustlink_io.jobs.cut_answer import answer
from mustlink_io.pictures.cut_out import cut_out, outlined


def cut_picture(
    picture: str,
    strokes: str,
    output: str,
    spacing: tuple[float, ...] | None,
    random_state: int,
    n_jobs: int | None,
    observer: Observer | None,
) -> dict[str, Any]:
    """Cut, and write the labels, the outline and a cut-out for each class; returns plain values.

    What is transparent in the picture stays so in the cut-outs. Raises InputError.
    """
    pixels = load_cut_out(picture, picture)
    image, own = pixels[..., :3], pixels[..., 3]
    labels, colours = load_strokes(strokes, "strokes")
    if labels.shape != image.shape[:2]:
        raise InputError(
            f"strokes: {_size(labels)} pixels, but {picture} has {_size(image)}; {PAINTED_ON}"
        )
    names = ["#" + bytes(colour).hex() for colour in colours]
    path = Path(output)
    outline = path.with_name(f"{path.stem}-outline.png")
    parts = [path.with_name(f"{path.stem}-{code}.png") for code in range(len(names))]
    for target in (path, outline, *parts):
        check_output(target, (picture, strokes))
    est = ml.StrokeCut(random_state=random_state, n_jobs=n_jobs)
    est.fit(image, labels, spacing=spacing, observer=observer)
    found, shares, ground = est.labels_, est.label_distributions_, int(est.ground_)
    save_image(found.astype(np.uint8), path)
    save_image(outlined(image, found, ground, colours), outline)
    for code, part in enumerate(parts):
        one = cut_out(image, found == code, shares[..., code])
        one[..., 3] = np.minimum(one[..., 3], own)
        save_image(one, part)
    counts = np.bincount(found.ravel(), minlength=len(names))
    return answer(
        est,
        path,
        outline,
        classes=[
            {
                "value": code,
                "colour": name,
                "strokes": int((labels == code).sum()),
                "pixels": int(counts[code]),
                "cut_out": str(parts[code]),
                "is_ground": code == ground,
            }
            for code, name in enumerate(names)
        ],
    )


def _size(picture: Any) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]}"
