"""Pictures and stacks of slices, strokes painted on them, and labels of pixels; by pillow."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.matrices import load_npy
from mustlink_io.hdf5.writing import atomic
from mustlink_io.system import needed

_T = TypeVar("_T")


def opened(
    path: str | Path, where: str, read: Callable[[Any], _T], formats: tuple[str, ...] | None = None
) -> _T:
    """What `read` makes of a picture that pillow opened, of any of its formats or of `formats`.

    Raises InputError that begins with `where`, and names the file.
    """
    Image = needed("PIL.Image", where, "plot")
    named = where if where == str(path) else f"{where}: {path}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large picture
            with Image.open(path, formats=formats) as found:
                return read(found)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{named}: no such file") from error
    # The last two are what pillow raises where a header is cut off or a chunk is broken.
    except (OSError, ValueError, Image.DecompressionBombError, TypeError, SyntaxError) as error:
        kind = " or ".join(formats) if formats else "picture"
        words = str(error).replace(f" {str(path)!r}", "")
        raise InputError(
            f"{named} cannot be read as a {kind} ({' '.join(words.split())})"
        ) from error


PAINTED_ON = "paint on the picture itself, and do not crop the layer"
_MOST = 64  # colours of strokes; more are a soft brush
_OPAQUE = 255
_GREY = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")  # one number a pixel
_DEEP = ("I", "I;16", "I;16B", "I;16L", "F")  # grey of more than 8 bits


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
        count = "one opaque colour" if len(colours) else "no opaque colour"
        raise InputError(
            f"{where}: {count} in {path}, each is a class; paint with two at least, one of them "
            "what is not to be cut out"
        )
    labels = np.full(painted.shape, -1, dtype=np.int64)
    labels[painted] = codes.ravel()
    return labels, colours


OF_CUT = b"Software\0mustlink cut"  # a text in pictures of a cut, by which they are known again


def save_image(pixels: NDArray[np.uint8], path: str | Path, mark: bytes = b"") -> None:
    """Write grey (h, w), (h, w, 3) or, with alpha, (h, w, 4) as PNG, whole or not at all.

    `mark` is the title of a text in it, a zero, and the text.
    """
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    about = PngInfo()
    if mark:
        title, _, words = mark.decode().partition("\0")
        about.add_text(title, words)
    with atomic(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG", pnginfo=about)


def _pixels(path: str | Path, mode: str, where: str) -> NDArray[Any]:
    return _turned(
        path, where, lambda found: np.asarray(_in_eight_bits(found, where).convert(mode))
    )


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


def _turned(path: str | Path, where: str, read: Callable[[Any], _T]) -> _T:
    """What is read of a picture as it is seen: phones say beside the pixels how to turn them."""

    def turned(found: Any) -> _T:
        from PIL import ImageOps

        return read(ImageOps.exif_transpose(found))

    return opened(path, where, turned)


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

    def numbers(found: Any) -> NDArray[np.int64] | None:
        plain = found.mode in _GREY and "transparency" not in found.info
        return np.asarray(found).astype(np.int64) if plain else None

    values = _turned(path, where, numbers)
    if values is not None:
        return values, None
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


STACKS = (".tif", ".tiff", ".npy")
_TIFF = ("TIFF",)
_DESCRIPTION = 270  # the tag in which ImageJ says how many pages follow the first without tags
_STACKED = {"1": "bool", "L": "uint8", "I": "int32", "F": "float32"}  # I;16, I;16B: uint16
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
    if ending not in STACKS:
        raise InputError(f"{where}: {path} is no stack; give a TIFF with several pages, or .npy")
    if ending == ".npy":
        found = load_npy(Path(path))
        if found.ndim != 3 or found.dtype.kind not in "biuf":
            raise InputError(
                f"{where}: {path} has shape {found.shape}, {found.dtype}; give numbers (slices, "
                "height, width)"
            )
        return found
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
        count = "one grey value" if classes.size else "no grey value"
        raise InputError(
            f"{where}: {count} above 0 in {path}, each is a class; paint two at least, one of them "
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


def _pages(file: Any, path: str | Path, where: str) -> NDArray[Any]:
    count = int(getattr(file, "n_frames", 1))
    declared = re.search(r"images=(\d+)", str(file.tag_v2.get(_DESCRIPTION, "")))
    if declared and int(declared[1]) > count:
        raise InputError(
            f"{where}: {path} declares {declared[1]} slices, but has {count} TIFF pages, as ImageJ "
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
        kind = np.dtype(_STACKED.get(mode, "uint16"))
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


_SHOWN = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


def picture_files(folder: str | Path, n: int) -> list[Path]:
    """Picture files of a folder in the order of their names, one for each of n rows; InputError."""
    if not Path(folder).is_dir():
        raise InputError(f"show: {folder} is no folder; give one with a picture for each row")
    files = sorted(one for one in Path(folder).iterdir() if one.suffix.lower() in _SHOWN)
    if len(files) != n:
        raise InputError(
            f"show: {len(files)} pictures in {folder}, but {n} rows; give one for each"
        )
    return files
