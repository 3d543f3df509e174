"""Templates in a jobs file, and words that are safe in file names."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping
from pathlib import PurePath

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch.spec import Scalar

MARK = "batch.json"  # says that a folder is the state of a batch
FILES = (
    "data",
    "labels",
    "constraints",
    "soft-labels",
    "graph",
    "view",
    "weights",
    "prior",
    "belief",
)
_LONGEST = 150  # bytes of a name
_UNSAFE = re.compile(r"[^\w.+,=@ -]")


def split(text: str) -> tuple[str, str | None]:
    """Split `FILE.h5:DATASET` as `formats.parse` does, but leave the words as they are."""
    place = formats.parse(text)
    if place.part is None:
        return text, None
    return text[: -len(place.part) - 1], place.part


def safe(value: Scalar) -> str:
    """Return a value as a part of a file name: no separators, no leading dot, never empty."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = _UNSAFE.sub("-", text)
    return f"_{text}" if text[:1] in ("", ".") else text


def fields(values: Mapping[str, Scalar]) -> dict[str, str]:
    """Return what templates may name: every key, the data's folder and dataset; all safe."""
    found = {key: safe(value) for key, value in values.items()}
    for key in FILES:
        if isinstance(values.get(key), str):
            found[key] = safe(PurePath(split(str(values[key]))[0]).stem)
    path, part = split(str(values["data"]))
    found["folder"] = safe(PurePath(path).parent.name)
    found["dataset"] = safe((part or "").strip("/"))
    return found


def fill(template: str, known: Mapping[str, str]) -> str:
    """Put `known` in place of `{key}`; `{{` and `}}` are braces. Raises InputError."""
    found = ""
    try:
        for literal, field, form, conversion in string.Formatter().parse(template):
            found += literal
            if field is None:
                continue
            key = field.replace("_", "-")
            if form or conversion or not key:
                raise InputError(f"{template!r}: write {{key}} and nothing else into the braces")
            if key not in known:
                listed = ", ".join(sorted(known))
                raise InputError(f"{{{field}}} is not known in this job; known are {listed}")
            found += known[key]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{template!r}: a brace has no partner; double it to mean one") from error
    return found


def check_name(name: str) -> None:
    """Raise InputError unless a name can be a folder of the state."""
    if _UNSAFE.search(name) or not name.strip() or name[0] in ". " or name[-1] == " ":
        raise InputError(
            f"{name!r} names a folder of the state too; use letters, digits and . + - _ = , @"
        )
    if name.casefold() == MARK:
        raise InputError(f"{name!r} is a file of the state; give another name")
    if len(os.fsencode(name)) > _LONGEST:
        raise InputError(f"{name[:40]}…: longer than {_LONGEST} bytes; give a shorter one")
