"""`mustlink cut`: along strokes or without, a picture or a stack of slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustlink.errors import InputError
from mustlink.observe import Observer
from mustlink_io.formats.stacks import ENDINGS, pages_in
from mustlink_io.jobs.cut_alone import cut_alone
from mustlink_io.jobs.cut_picture import cut_picture
from mustlink_io.jobs.cut_stack import cut_stack


def cut(
    picture: str,
    strokes: str | None,
    output: str,
    *,
    n_clusters: int | str = "auto",
    spacing: tuple[float, ...] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    observer: Observer | None = None,
) -> dict[str, Any]:
    """Cut along `strokes`, or where these are None into `n_clusters` parts; returns plain values.

    What is written as TIFF or .npy is a stack, see `cut_stack`. Raises InputError.
    """
    pages, ending = pages_in(picture), Path(output).suffix.lower()
    told = f"has {pages} pages" if pages > 1 else "is an array"
    many = pages > 1 or Path(picture).suffix.lower() == ".npy"
    if strokes is None and many:
        raise InputError(
            f"strokes: none are given, but {picture} {told}; a stack is cut along strokes alone"
        )
    if strokes is not None and ending in ENDINGS:
        if Path(picture).suffix.lower() not in ENDINGS:
            raise InputError(
                f"output: {output} is for a stack, but {picture} is a picture; its labels need a "
                "name that ends in .png"
            )
        return cut_stack(picture, strokes, output, spacing, random_state, n_jobs, observer)
    if many:
        raise InputError(
            f"output: {output} is a picture, but {picture} {told}; labels of a stack need a name "
            "that ends in .tif or .npy"
        )
    if ending != ".png":
        raise InputError(
            f"output: {output} does not end in .png, which labels need, or in .tif or .npy, which "
            "those of a stack need; change it"
        )
    if strokes is None:
        return cut_alone(picture, n_clusters, output, random_state, n_jobs, observer)
    return cut_picture(picture, strokes, output, spacing, random_state, n_jobs, observer)
