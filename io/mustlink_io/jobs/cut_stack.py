"""`mustlink cut` of a stack: grey slices and painted ones become labels of voxels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mustlink as ml
from mustlink.errors import InputError
from mustlink.observe import Observer
from mustlink_io.formats.photographs import save_image
from mustlink_io.formats.stacks import load_stack, load_stack_strokes, save_stack
from mustlink_io.hdf5.writing import check_output
from mustlink_io.jobs.cut_answer import answer
from mustlink_io.pictures.canvas import colours as of_labels
from mustlink_io.pictures.slices import slices


def cut_stack(
    stack: str,
    strokes: str,
    output: str,
    spacing: tuple[float, ...] | None,
    random_state: int,
    n_jobs: int | None,
    observer: Observer | None,
) -> dict[str, Any]:
    """Cut, and write the labels and a picture of some slices; returns plain values.

    Raises InputError.
    """
    volume, painted = load_stack(stack, stack), load_stack_strokes(strokes, "strokes")
    if painted.shape != volume.shape:
        raise InputError(
            f"strokes: {_size(painted)}, but {stack} has {_size(volume)}; paint on slices of the "
            "stack itself, and leave the others 0"
        )
    path = Path(output)
    shown = path.with_name(f"{path.stem}-slices.png")
    for target in (path, shown):
        check_output(target, (stack, strokes))
    est = ml.StrokeCut(random_state=random_state, n_jobs=n_jobs)
    est.fit(volume, painted, spacing=spacing, observer=observer)
    codes = np.searchsorted(est.classes_, est.labels_)
    colours = np.rint(255 * of_labels(np.arange(len(est.classes_)))).astype(np.uint8)
    ground = int(np.searchsorted(est.classes_, est.ground_))
    picture, numbers = slices(volume, codes, ground, colours)
    save_stack(est.labels_, path)
    save_image(picture, shown)
    counts = np.bincount(codes.ravel(), minlength=len(est.classes_))
    return answer(
        est,
        path,
        shown,
        slices=[number + 1 for number in numbers],
        classes=[
            {
                "value": int(value),
                "colour": "#" + bytes(colour).hex(),
                "strokes": int((painted == value).sum()),
                "pixels": int(count),
                "cut_out": None,
                "is_ground": code == ground,
            }
            for code, (value, colour, count) in enumerate(
                zip(est.classes_.tolist(), colours, counts, strict=True)
            )
        ],
    )


def _size(volume: Any) -> str:
    depth, height, width = volume.shape
    return f"{depth} slice{'s' * (depth != 1)} of {width} x {height} pixels"
