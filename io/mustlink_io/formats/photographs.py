"""Pictures whose pixels are nodes, read through pillow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError


def load_image(path: str | Path, where: str) -> NDArray[Any]:
    """Image (h, w, 3) of uint8 from a picture file; raises InputError that begins with `where`."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise InputError(
            f"{where}: pillow is missing; install it with: pip install 'mustlink[plot]'"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large picture
            with Image.open(path) as opened:
                return np.asarray(opened.convert("RGB"))
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"{where}: cannot be read as a picture ({words})") from error
