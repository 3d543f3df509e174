"""Labels of pixels as pictures: painted strokes, or grey with a value for every class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.photographs import PAINTED_ON, load_grey, load_strokes, save_image
from mustlink_io.hdf5.writing import atomic

ENDINGS = (".png", ".tif", ".tiff", ".jpg", ".jpeg")
_BLURRED = (".jpg", ".jpeg")
_BYTE, _WORD = 1 << 8, 1 << 16


def load_label_picture(path: Path) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Labels (h, w) of pixels, -1 unknown, and the colours that name the classes, #rrggbb.

    Colours painted on a transparent layer are as `load_strokes` has them. What is grey or indexed
    and has no transparent pixel, as `mustlink cut` writes it, has the classes themselves as values,
    without names. Raises InputError.
    """
    where = str(path)
    if path.suffix.lower() in _BLURRED:
        raise InputError(f"{where}: JPEG changes colours, which are the classes; save it as PNG")
    values = load_grey(path, where)
    if values is not None:
        return values.astype(np.int64), None
    codes, colours = load_strokes(path, where)
    return codes, tuple("#" + bytes(colour).hex() for colour in colours)


def check_pixels(
    shape: tuple[int, ...], n_nodes: int | None, pixels: tuple[int, ...] | None, where: str
) -> None:
    """Raise InputError for labels (h, w) that are not of the picture's `pixels` (h, w).

    Where both are None anything will do, but where only `pixels` is the data are no picture.
    """
    if pixels is None:
        if n_nodes is not None:
            raise InputError(
                f"{where}: a picture of labels, but the data is no picture; labels of pixels go "
                "with the graph that `mustlink graph photo.png` makes"
            )
    elif shape != tuple(pixels):
        raise InputError(
            f"{where}: {shape[1]} x {shape[0]} pixels, but the picture of the data has {pixels[1]} "
            f"x {pixels[0]}; {PAINTED_ON}"
        )


def save_label_picture(labels: NDArray[np.int64], path: str | Path) -> str | None:
    """Write labels (h, w), -1 none, as PNG or TIFF, the value of a pixel its label; returns a note.

    PNG is 8-bit grey, transparent without a label, or 16-bit from 257 classes on, TIFF is 32-bit.
    Raises InputError for what PNG cannot hold.
    """
    from PIL import Image

    if Path(path).suffix.lower() != ".png":
        with atomic(path) as temporary:
            Image.fromarray(labels.astype(np.int32)).save(temporary, format="TIFF")
        return None
    missing, most = labels < 0, int(labels.max(initial=0))
    if most >= _WORD or (most >= _BYTE and missing.any()):
        raise InputError(
            f"{path}: PNG cannot hold {most + 1} classes{' beside -1' * bool(missing.any())}; "
            "write .npy or .tif"
        )
    if most >= _BYTE:
        save_image(labels.astype(np.uint16), path)
        return None
    grey = np.where(missing, 0, labels).astype(np.uint8)
    if not missing.any():
        save_image(grey, path)
        return None
    save_image(np.dstack([grey, np.where(missing, 0, 255).astype(np.uint8)]), path)
    return f"{path}: {int(missing.sum()):,} pixels without a label are transparent"
