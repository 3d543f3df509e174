"""Pictures whose pixels are nodes, and strokes painted on them, read and written by pillow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.pillow_files import opened
from mustlink_io.hdf5.writing import atomic

PAINTED_ON = "paint on the picture itself, and do not crop the layer"
_MOST = 64  # colours of strokes; more are a soft brush
_OPAQUE = 255
_GREY = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")  # one number a pixel
_DEEP = ("I", "I;16", "I;16B", "I;16L", "F")  # grey of more than 8 bits
_T = TypeVar("_T")


def load_image(path: str | Path, where: str) -> NDArray[Any]:
    """Image (h, w, 3) of uint8 from a picture file; deep grey from its least to its largest value.

    Raises InputError that begins with `where`.
    """
    return _pixels(path, "RGB", where)


def load_cut_out(path: str | Path, where: str) -> NDArray[Any]:
    """Image (h, w, 4) of uint8, the last how opaque it is; raises as `load_image` does."""
    return _pixels(path, "RGBA", where)


def load_strokes(path: str | Path, where: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Labels (h, w) of painted pixels, -1 elsewhere, and the colour of each, (K, 3), in order.

    Every opaque colour is a class, two at least. Raises InputError that begins with `where`.
    """
    pixels = _pixels(path, "RGBA", where)
    painted = pixels[..., 3] == _OPAQUE
    if painted.all():
        raise InputError(
            f"{where}: {path} has no transparent pixel, so that all are painted; paint on a "
            "transparent layer above the photograph, and save that alone as PNG"
        )
    colours, codes = np.unique(pixels[painted][:, :3], axis=0, return_inverse=True)
    if len(colours) > _MOST:
        raise InputError(
            f"{where}: {path} has {len(colours)} opaque colours, each a class; paint with a hard "
            "brush (a pencil, without smoothing)"
        )
    if len(colours) < 2:
        told = "one opaque colour" if len(colours) else "no opaque colour"
        raise InputError(
            f"{where}: {told} in {path}, each is a class; paint with two at least, one of them "
            "what is not to be cut out"
        )
    labels = np.full(painted.shape, -1, dtype=np.int64)
    labels[painted] = codes.ravel()
    return labels, colours


def load_grey(path: str | Path, where: str) -> NDArray[Any] | None:
    """Numbers (h, w) of what has one a pixel, grey or the index of a colour, and no transparency.

    None for any other picture. Raises InputError that begins with `where`.
    """

    def numbers(found: Any) -> NDArray[Any] | None:
        if found.mode not in _GREY or "transparency" in found.info:
            return None
        return np.asarray(found)

    return _opened(path, where, numbers)


def save_image(pixels: NDArray[np.uint8], path: str | Path) -> None:
    """Write grey (h, w), (h, w, 3) or, with alpha, (h, w, 4) as PNG, whole or not at all."""
    from PIL import Image

    with atomic(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG")


def _pixels(path: str | Path, mode: str, where: str) -> NDArray[Any]:
    def seen(found: Any) -> NDArray[Any]:
        return np.asarray(_in_eight_bits(found, where).convert(mode))

    return _opened(path, where, seen)


def _in_eight_bits(found: Any, where: str) -> Any:
    """Deep grey from its least to its largest value, which pillow would cut off at 255."""
    if found.mode not in _DEEP:
        return found
    from PIL import Image

    values = np.asarray(found, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{where}: NaN or Inf among its pixels; put numbers there")
    values = values - values.min()
    return Image.fromarray(np.rint(255 * values / max(values.max(), 1e-300)).astype(np.uint8))


def _opened(path: str | Path, where: str, read: Callable[[Any], _T]) -> _T:
    """What is read of a picture as it is seen: phones write it as held, and how to turn it."""

    def turned(found: Any) -> _T:
        from PIL import ImageOps

        return read(ImageOps.exif_transpose(found))

    return opened(path, where, turned)
