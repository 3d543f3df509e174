"""`mustlink cut`: a photograph and painted strokes become labels of pixels, and cut-outs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.photographs import PAINTED_ON, load_image, load_strokes, save_image
from mustlink_io.formats.stacks import ENDINGS, pages_in
from mustlink_io.hdf5.writing import check_output
from mustlink_io.jobs.cut_stack import cut_stack
from mustlink_io.pictures.cut_out import cut_out, outlined


def cut(
    picture: str,
    strokes: str,
    output: str,
    random_state: int,
    n_jobs: int | None,
    spacing: tuple[float, ...] | None = None,
) -> dict[str, Any]:
    """Cut, and write the labels, the outline and a cut-out for each class; returns plain values.

    What is written as TIFF or .npy is a stack, see `cut_stack`. Raises InputError.
    """
    if Path(output).suffix.lower() in ENDINGS:
        return cut_stack(picture, strokes, output, spacing, random_state, n_jobs)
    if Path(output).suffix.lower() != ".png":
        raise InputError(
            f"output: {output} does not end in .png, which labels need, or in .tif or .npy, which "
            "those of a stack need; change it"
        )
    pages = pages_in(picture)
    if pages > 1 or Path(picture).suffix.lower() == ".npy":
        told = f"has {pages} pages" if pages > 1 else "is an array"
        raise InputError(
            f"output: {output} is a picture, but {picture} {told}; labels of a stack need a name "
            "that ends in .tif or .npy"
        )
    image = load_image(picture, "picture")
    labels, colours = load_strokes(strokes, "strokes")
    if labels.shape != image.shape[:2]:
        raise InputError(
            f"strokes: {_size(labels)} pixels, but {picture} has {_size(image)}; {PAINTED_ON}"
        )
    names = ["#" + "".join(f"{part:02x}" for part in colour) for colour in colours.tolist()]
    path = Path(output)
    outline = path.with_name(f"{path.stem}-outline.png")
    parts = [path.with_name(f"{path.stem}-{code}.png") for code in range(len(names))]
    for target in (path, outline, *parts):
        check_output(target, (picture, strokes))
    est = ml.StrokeCut(random_state=random_state, n_jobs=n_jobs)
    est.fit(image, labels, spacing=spacing)
    found, shares, ground = est.labels_, est.label_distributions_, int(est.ground_)
    save_image(found.astype(np.uint8), path)
    save_image(outlined(image, found, ground, colours), outline)
    for code, part in enumerate(parts):
        save_image(cut_out(image, found == code, shares[..., code]), part)
    counts = np.bincount(found.ravel(), minlength=len(names))
    return {
        "output": str(path),
        "outline": str(outline),
        "pixels": int(found.size),
        "classes": [
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
        "seconds": est.report_.seconds,
        "notes": list(est.report_.notes),
        "warnings": list(est.report_.warnings),
    }


def _size(picture: Any) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]}"
