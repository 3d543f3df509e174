"""What a question shows of a row: its numbers, its text or its picture, as a person reads them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError

Show = Callable[[int], str]
_COLUMNS = 24  # of a table's row
_LETTERS = 2_000  # of a text
_SIDE = 240  # pixels that a picture is shown with
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


@dataclass(frozen=True)
class StoredRows:
    """A dataset of an HDF5 file whose values were verified: each row is read when it is shown."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, node: int) -> Any:
        """One entry; raises InputError where the file is another one now."""
        try:
            with h5py.File(self.path) as file:
                found = file[self.name]
                if (found.shape, found.dtype) != (self.shape, self.dtype):
                    raise KeyError("it has another shape or type now")
                return found[node]
        except (OSError, RuntimeError, KeyError) as error:
            words = " ".join(str(error).split())[:200]
            raise InputError(f"show: {self.path}:{self.name}: row {node}: {words}") from None


def of_rows(values: Any, names: Sequence[str] = ()) -> Show:
    """Rows of a table or matrix (n, d), the first columns, by their names."""

    def show(node: int) -> str:
        row = np.asarray(values[node]).ravel()[:_COLUMNS]
        heads = [*names[: row.size], *(f"column {at}" for at in range(len(names), row.size))]
        cells = "".join(
            f"<tr><td>{escape(str(head))}</td><td style='text-align:right'>{_number(one)}</td></tr>"
            for head, one in zip(heads, row, strict=True)
        )
        return f"<div style='max-height:260px;overflow:auto'><table>{cells}</table></div>"

    return show


def of_texts(texts: Sequence[Any]) -> Show:
    """Texts (n,), the first 2,000 letters."""

    def show(node: int) -> str:
        told = texts[node]
        words = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        more = " …" if len(words) > _LETTERS else ""
        return f"<p style='white-space:pre-wrap'>{escape(words[:_LETTERS])}{more}</p>"

    return show


def of_images(images: Any) -> Show:
    """Pictures (n, h, w) in grey, from their least to their largest value, or (n, h, w, 3)."""

    def show(node: int) -> str:
        return _image(np.asarray(images[node]), f"row {node}")

    return show


def of_folder(folder: str | Path, n: int) -> Show:
    """Picture files of a folder in the order of their names, one for each of n rows; InputError."""
    files = sorted(one for one in Path(folder).iterdir() if one.suffix.lower() in PICTURES)
    if len(files) != n:
        raise InputError(
            f"show: {len(files)} pictures in {folder}, but {n} rows; give one for each"
        )
    from mustlink_io.formats.photographs import load_image

    def show(node: int) -> str:
        return _image(load_image(files[node], "show"), files[node].name)

    return show


def of_array(found: Any, n: int, where: str) -> Show:
    """Whatever has one entry for each of n rows: texts, rows or pictures; raises InputError."""
    if not len(found.shape) or found.shape[0] != n:
        raise InputError(f"show: {where} has shape {found.shape}, but there are {n} rows")
    if len(found.shape) == 1 and found.dtype.kind in "OSU":
        return of_texts(found)
    if found.dtype.kind not in "biuf":
        raise InputError(f"show: {where} has values of type {found.dtype}; give text or numbers")
    if len(found.shape) == 3 or (len(found.shape) == 4 and found.shape[3] in (3, 4)):
        return of_images(found)
    return of_rows(found)


def _image(pixels: NDArray[Any], name: str) -> str:
    from PIL import Image

    if pixels.dtype != np.uint8:
        values = np.nan_to_num(pixels.astype(np.float64))
        values -= values.min()
        pixels = np.rint(255 * values / max(values.max(), 1e-300)).astype(np.uint8)
    made, scale = Image.fromarray(pixels), _SIDE / max(pixels.shape[:2])
    size = max(1, round(made.width * scale)), max(1, round(made.height * scale))
    out = io.BytesIO()
    made.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX).save(
        out, "PNG"
    )
    data = base64.b64encode(out.getvalue()).decode()
    return f"<img alt='{escape(name, quote=True)}' src='data:image/png;base64,{data}'>"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, np.integer) else f"{value:.4g}"
