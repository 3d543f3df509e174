"""Picture files opened by pillow, and what it says of damaged ones as one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mustlink.errors import InputError

_T = TypeVar("_T")


def opened(
    path: str | Path, where: str, read: Callable[[Any], _T], formats: tuple[str, ...] | None = None
) -> _T:
    """What `read` makes of a picture that pillow opened, of any of its formats or of `formats`.

    Raises InputError that begins with `where`, and names the file.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            f"{where}: pillow is missing; install it with: pip install 'mustlink[plot]'"
        ) from error
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
