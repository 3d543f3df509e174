"""Stacks of grey slices: TIFF of several pages, as microscopes and scanners write, and .npy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.pillow_files import opened
from mustlink_io.hdf5.writing import atomic

ENDINGS = (".tif", ".tiff", ".npy")
_TIFF = ("TIFF",)
_DESCRIPTION = 270  # the tag in which ImageJ says how many pages follow the first without tags
_GREY = {"1": "bool", "L": "uint8", "I": "int32", "F": "float32"}  # I;16, I;16B: uint16
_COLOURS = ("RGB", "RGBA", "P", "CMYK", "LAB", "YCbCr", "PA", "LA")


def pages_in(path: str | Path) -> int:
    """How many pages a TIFF has; 1 for any other file."""
    if Path(path).suffix.lower() not in (".tif", ".tiff"):
        return 1
    return opened(path, str(path), lambda found: int(getattr(found, "n_frames", 1)), _TIFF)


def load_stack(path: str | Path, where: str) -> NDArray[Any]:
    """Grey values (d, h, w) of a TIFF's pages or of a .npy file, in the type that they are in.

    Raises InputError that begins with `where`.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{where}: {path} is no stack; give a TIFF with several pages, or .npy")
    if ending == ".npy":
        return _array(path, where)
    return opened(path, where, lambda found: _pages(found, path, where), _TIFF)


def load_stack_strokes(path: str | Path, where: str) -> NDArray[np.int64]:
    """Labels (d, h, w) of painted voxels: their grey values from 1 on, and -1 where that is 0.

    Raises InputError that begins with `where`.
    """
    values = load_stack(path, where)
    if values.dtype.kind == "f" and not (values == np.rint(values)).all():
        raise InputError(f"{where}: {path} has values between whole numbers; paint 0, 1, 2, …")
    if (values < 0).any() and (values == 0).any():
        raise InputError(
            f"{where}: {path} has values below 0 beside 0, which is where nothing is painted; add 1"
        )
    classes = np.unique(values[values > 0])
    if classes.size < 2:
        told = "one grey value" if classes.size else "no grey value"
        raise InputError(
            f"{where}: {told} above 0 in {path}, each is a class; paint two at least, one of them "
            "what is not wanted, and leave 0 where nothing is painted"
        )
    if (values > 0).all():
        raise InputError(f"{where}: {path} has no voxel of 0, so that all are painted")
    labels = np.full(values.shape, -1, dtype=np.int64)
    labels[values > 0] = values[values > 0]
    return labels


def save_stack(labels: NDArray[np.integer[Any]], path: str | Path) -> None:
    """Write labels (d, h, w) from 0 on as TIFF pages of 8, 16 or 32 bits, or .npy, whole or not."""
    from PIL import Image

    kind = np.min_scalar_type(int(labels.max()))
    whole = labels.astype(kind if kind.itemsize <= 2 else np.int32)
    with atomic(path) as temporary:
        if Path(path).suffix.lower() == ".npy":
            with temporary.open("wb") as file:
                np.save(file, whole)
        else:
            first, *rest = (Image.fromarray(page) for page in whole)
            more: dict[str, Any] = {"save_all": True, "append_images": rest} if rest else {}
            first.save(temporary, format="TIFF", compression="tiff_adobe_deflate", **more)


def _array(path: str | Path, where: str) -> NDArray[Any]:
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{where}: {path}: no such file") from error
    except (OSError, ValueError, EOFError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"{where}: {path} cannot be read as .npy ({words})") from error
    if not isinstance(found, np.ndarray) or found.ndim != 3 or found.dtype.kind not in "biuf":
        told = (
            f"shape {found.shape}, {found.dtype}" if isinstance(found, np.ndarray) else "no array"
        )
        raise InputError(f"{where}: {path} has {told}; give numbers (slices, height, width)")
    return found


def _pages(file: Any, path: str | Path, where: str) -> NDArray[Any]:
    count = int(getattr(file, "n_frames", 1))
    told = re.search(r"images=(\d+)", str(file.tag_v2.get(_DESCRIPTION, "")))
    if told and int(told[1]) > count:
        raise InputError(
            f"{where}: {path} tells of {told[1]} slices, but has {count} TIFF pages, as ImageJ "
            "writes large stacks; save it as an image sequence's plain TIFF, or as .npy"
        )
    found: NDArray[Any] | None = None
    for number in range(count):
        file.seek(number)
        mode, size = file.mode, (file.height, file.width)
        if mode in _COLOURS:
            raise InputError(
                f"{where}: page {number + 1} of {path} is in colours ({mode}); a stack is grey, "
                "save one channel of it"
            )
        kind = np.dtype(_GREY.get(mode, "uint16"))
        if found is None:
            found = np.empty((count, *size), dtype=kind)
        if size != found.shape[1:] or kind != found.dtype:
            raise InputError(
                f"{where}: page {number + 1} of {path} has {size[1]} x {size[0]} pixels of "
                f"{kind}, the first {found.shape[2]} x {found.shape[1]} of {found.dtype}; all "
                "slices of a stack are alike"
            )
        found[number] = np.asarray(file)
    assert found is not None  # a picture has a page
    return found
