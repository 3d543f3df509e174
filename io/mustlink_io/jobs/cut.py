"""`mustlink cut`: a picture or a stack along strokes, a picture by itself."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink as ml
from mustlink.core.observe import Observer
from mustlink.errors import InputError
from mustlink_io.formats.photographs import (
    OF_CUT,
    PAINTED_ON,
    STACKS,
    load_cut_out,
    load_image,
    load_stack,
    load_stack_strokes,
    load_strokes,
    pages_in,
    save_image,
    save_stack,
)
from mustlink_io.hdf5.writing import check_output
from mustlink_io.pictures.images import colours as of_labels
from mustlink_io.pictures.images import cut_out, outlined, slices

_GOLDEN = 0.618034  # of the circle of hues between two parts, so that neighbours differ
_MOST = 256  # parts that 8-bit grey can tell apart
_ALL = -1  # no part is dimmed
_NO_MARK = b"\0no mark"  # labels of a stack have none: the picture beside them says whose they are


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

    Writes the labels, a picture to look at and, of a picture along strokes, a cut-out for each
    class, in which what is transparent in the picture stays so. What is written as TIFF or .npy is
    a stack, of which the picture shows some slices. Raises InputError.
    """
    pages, ending = pages_in(picture), Path(output).suffix.lower()
    result = f"has {pages} pages" if pages > 1 else "is an array"
    many = pages > 1 or Path(picture).suffix.lower() == ".npy"
    how: Any = {"random_state": random_state, "n_jobs": n_jobs}
    if strokes is None and many:
        raise InputError(
            f"strokes: none are given, but {picture} {result}; a stack is cut along strokes alone"
        )
    if strokes is not None and ending in STACKS:
        if Path(picture).suffix.lower() not in STACKS:
            raise InputError(
                f"output: {output} is for a stack, but {picture} is a picture; its labels need a "
                "name that ends in .png"
            )
        est = ml.StrokeCut(**how)
        return _stack(est, picture, strokes, Path(output), spacing=spacing, observer=observer)
    if many:
        raise InputError(
            f"output: {output} is a picture, but {picture} {result}; labels of a stack need a name "
            "that ends in .tif or .npy"
        )
    if ending != ".png":
        raise InputError(
            f"output: {output} does not end in .png, which labels need, or in .tif or .npy, which "
            "those of a stack need; change it"
        )
    if strokes is None:
        return _alone(picture, n_clusters, Path(output), observer, **how)
    est = ml.StrokeCut(**how)
    return _picture(est, picture, strokes, Path(output), spacing=spacing, observer=observer)


def _alone(
    picture: str, n_clusters: int | str, path: Path, observer: Observer | None, **how: Any
) -> dict[str, Any]:
    """A photograph becomes the parts that it shows, with lines round them."""
    if n_clusters != "auto" and int(n_clusters) > _MOST:
        raise InputError(f"n_clusters: {n_clusters} parts, but grey has {_MOST}; ask for fewer")
    outline = _beside(path, "outline")
    for target in (path, outline):
        check_output(target, (picture,), OF_CUT)
    image = load_image(picture, picture)
    est = ml.RegionCut(n_clusters, **how).fit(image, observer=observer)
    labels, k = est.labels_, est.n_clusters_
    if k > _MOST:
        raise InputError(f"n_clusters: {k} parts found, but grey has {_MOST}; ask for fewer")
    bright = [colorsys.hsv_to_rgb(part * _GOLDEN % 1.0, 0.8, 1.0) for part in range(k)]
    colours = np.rint(255 * np.array(bright)).astype(np.uint8)
    save_image(labels.astype(np.uint8), path, OF_CUT)
    save_image(outlined(image, labels, _ALL, colours), outline, OF_CUT)
    counts = np.bincount(labels.ravel(), minlength=k).tolist()
    parts = [
        {"value": part, "colour": _hex(colours[part]), "pixels": counts[part]} for part in range(k)
    ]
    why = est.report_.choices["n_clusters"][1]
    return _result(est, path, outline, n_clusters=k, why=why, parts=parts)


def _picture(est: Any, picture: str, strokes: str, path: Path, **how: Any) -> dict[str, Any]:
    pixels = load_cut_out(picture, picture)
    image, own = pixels[..., :3], pixels[..., 3]
    painted, colours = load_strokes(strokes, "strokes")
    if painted.shape != image.shape[:2]:
        sizes = [f"{one.shape[1]} x {one.shape[0]}" for one in (painted, image)]
        raise InputError(f"strokes: {sizes[0]} pixels, but {picture} has {sizes[1]}; {PAINTED_ON}")
    outline = _beside(path, "outline")
    parts = [_beside(path, str(code)) for code in range(len(colours))]
    for target in (path, outline, *parts):
        check_output(target, (picture, strokes), OF_CUT)
    est.fit(image, painted, **how)
    found, shares, ground = est.labels_, est.label_distributions_, int(est.ground_)
    save_image(found.astype(np.uint8), path, OF_CUT)
    save_image(outlined(image, found, ground, colours), outline, OF_CUT)
    for code, part in enumerate(parts):
        one = cut_out(image, found == code, shares[..., code])
        one[..., 3] = np.minimum(one[..., 3], own)
        save_image(one, part, OF_CUT)
    return _result(est, path, outline, classes=_classes(est, painted, colours, parts))


def _stack(est: Any, stack: str, strokes: str, path: Path, **how: Any) -> dict[str, Any]:
    volume, painted = load_stack(stack, stack), load_stack_strokes(strokes, "strokes")
    if painted.shape != volume.shape:
        raise InputError(
            f"strokes: {_voxels(painted)}, but {stack} has {_voxels(volume)}; paint on slices of "
            "the stack itself, and leave the others 0"
        )
    shown = _beside(path, "slices")
    check_output(shown, (stack, strokes), OF_CUT)
    check_output(path, (stack, strokes), None if shown.exists() else _NO_MARK)
    est.fit(volume, painted, **how)
    codes = np.searchsorted(est.classes_, est.labels_)
    colours = np.rint(255 * of_labels(np.arange(len(est.classes_)))).astype(np.uint8)
    ground = int(np.searchsorted(est.classes_, est.ground_))
    picture, numbers = slices(volume, codes, ground, colours)
    save_stack(est.labels_, path)
    save_image(picture, shown, OF_CUT)
    classes = _classes(est, painted, colours, [None] * len(colours))
    return _result(est, path, shown, slices=[number + 1 for number in numbers], classes=classes)


def _classes(
    est: Any, painted: NDArray[Any], colours: NDArray[np.uint8], parts: Sequence[Path | None]
) -> list[dict[str, Any]]:
    return [
        {
            "value": value,
            "colour": _hex(colour),
            "strokes": int((painted == value).sum()),
            "pixels": int((est.labels_ == value).sum()),
            "cut_out": None if part is None else str(part),
            "is_ground": value == int(est.ground_),
        }
        for value, colour, part in zip(est.classes_.tolist(), colours, parts, strict=True)
    ]


def _result(est: Any, output: Path, outline: Path, **more: Any) -> dict[str, Any]:
    """Plain values of a fitted cut: the files, what is its own, seconds, notes and warnings."""
    return {
        "output": str(output),
        "outline": str(outline),
        "pixels": int(est.labels_.size),
        **more,
        "seconds": est.report_.seconds,
        "notes": list(est.report_.notes),
        "warnings": list(est.report_.warnings),
    }


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.stem}-{what}.png")


def _hex(colour: NDArray[np.uint8]) -> str:
    return "#" + bytes(colour).hex()


def _voxels(volume: Any) -> str:
    depth, height, width = volume.shape
    return f"{depth} slice{'s' * (depth != 1)} of {width} x {height} pixels"
