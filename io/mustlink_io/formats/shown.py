"""Whatever has an entry for every row, texts, numbers or pictures, as HTML of a row."""

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
from mustlink_io.formats import matrices
from mustlink_io.formats.photographs import load_image, picture_files
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import HDF5, parse

Show = Callable[[int], str]
COLUMNS = 24  # of a row
_LETTERS = 2_000  # of a text
_SIDE = 240  # pixels that a picture is shown with


def shown(text: str, n: int) -> Show:
    """What a folder of pictures or a dataset of an HDF5 file shows of n rows; raises InputError."""
    if Path(text).is_dir():
        return of_folder(text, n)
    place = parse(text)
    if place.suffix in HDF5 and place.part:
        with store.open_h5(place.path) as file:
            found: Any = store.dataset(file, place.part)
            if found.dtype.kind in "OS":
                store.look_at_texts(file, place.part)
            stored = ShownRows(place.path, place.part, found.shape, found.dtype)
            return of_array(stored, n, text)
    if place.suffix == ".npy":
        return of_array(matrices.load_npy(place.path), n, text)
    raise InputError(f"show: {text}; give a folder of pictures, FILE.h5:DATASET or a .npy")


@dataclass(frozen=True)
class ShownRows:
    """A dataset of an HDF5 file whose values were verified: each row is read when it is shown."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, node: int) -> Any:
        """One entry; raises InputError where the file is another one now."""
        row = f"show: {self.path}:{self.name}: row {node} cannot be read"
        with store.refusing(row), h5py.File(self.path) as file:
            found = file[self.name]
            if (found.shape, found.dtype) != (self.shape, self.dtype):
                raise InputError(f"{row}: it has another shape or type now")
            return found[node]


def of_rows(values: Any, names: Sequence[str] = ()) -> Show:
    """Rows of a table or matrix (n, d), the first columns, by their names."""

    def show(node: int) -> str:
        row = np.asarray(values[node]).ravel()[:COLUMNS]
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
        text = texts[node]
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        more = " …" if len(words) > _LETTERS else ""
        return f"<p style='white-space:pre-wrap'>{escape(words[:_LETTERS])}{more}</p>"

    return show


def of_images(images: Any) -> Show:
    """Pictures (n, h, w) in grey, from their least to their largest value, or (n, h, w, 3)."""
    return lambda node: _image(np.asarray(images[node]), f"row {node}")


def of_folder(folder: str | Path, n: int) -> Show:
    """Picture files of a folder in the order of their names, one for each of n rows; InputError."""
    files = picture_files(folder, n)
    return lambda node: _image(load_image(files[node], "show"), files[node].name)


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
