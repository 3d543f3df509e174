"""Pictures whose pixels are nodes, and strokes painted on them, read and written by pillow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5.writing import atomic

_MOST = 64  # colours of strokes; more are a soft brush
_OPAQUE = 255


def load_image(path: str | Path, where: str) -> NDArray[Any]:
    """Image (h, w, 3) of uint8 from a picture file; raises InputError that begins with `where`."""
    return _pixels(path, "RGB", where)


def load_cut_out(path: str | Path, where: str) -> NDArray[Any]:
    """Image (h, w, 4) of uint8, the last how opaque it is; raises as `load_image` does."""
    return _pixels(path, "RGBA", where)


def load_strokes(path: str | Path, where: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Labels (h, w) of painted pixels, -1 elsewhere, and the colour of each, (K, 3), in order.

    Every opaque colour is a class. Raises InputError that begins with `where`.
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
    labels = np.full(painted.shape, -1, dtype=np.int64)
    labels[painted] = codes.ravel()
    return labels, colours


def save_image(pixels: NDArray[np.uint8], path: str | Path) -> None:
    """Write grey (h, w), (h, w, 3) or, with alpha, (h, w, 4) as PNG, whole or not at all."""
    from PIL import Image

    with atomic(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG")


def _pixels(path: str | Path, mode: str, where: str) -> NDArray[Any]:
    """A picture as it is seen: phones write it as it was held, and how to turn it."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise InputError(
            f"{where}: pillow is missing; install it with: pip install 'mustlink[plot]'"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large picture
            with Image.open(path) as opened:
                return np.asarray(ImageOps.exif_transpose(opened).convert(mode))
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"{where}: cannot be read as a picture ({words})") from error
