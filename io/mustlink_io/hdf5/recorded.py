"""JSON that a result file carries, held against the form it was written in.

A damaged or foreign file can hold any JSON; whoever shows it counts on the form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mustlink.errors import InputError
from mustlink_io.hdf5 import store

_KEPT = (("must_kept", "n_must"), ("cannot_kept", "n_cannot"))  # a share, and of how many
_INPUT = ("role", "name", "sha256")


def checked(name: str, text: str, where: str) -> Any:
    """Return what the text of `parameters`, `versions`, `inputs` or `report` says.

    Texts in it are made printable. Raises InputError when it is no JSON, or not of the form that
    mustlink writes.
    """
    try:
        value = _printable(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: damaged JSON in its {name} ({error})") from error
    if not _fits(name, value):
        raise InputError(f"{where}: damaged: its {name} are not as mustlink writes them")
    return value


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return store.text(value)
    if isinstance(value, list):
        return [_printable(part) for part in value]
    if isinstance(value, dict):
        return {store.text(key): _printable(part) for key, part in value.items()}
    return value


def _fits(name: str, value: Any) -> bool:
    if name == "inputs":
        return isinstance(value, list) and all(
            isinstance(one, Mapping) and all(isinstance(one.get(key), str) for key in _INPUT)
            for one in value
        )
    if not isinstance(value, Mapping):
        return False
    return name != "report" or _is_report(value)


def _is_report(report: Mapping[str, Any]) -> bool:
    """Whether what `mustlink info` shows of a report can be shown."""
    notes, kept = report.get("notes", []), report.get("satisfaction")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        return False
    if kept is not None and not isinstance(kept, Mapping):
        return False
    pairs = [(kept, *names) for names in _KEPT] if kept else []
    if "labels_kept" in report:
        pairs.append((report, "labels_kept", "n_labels"))
    return all(
        not holder.get(count) or (_is_number(holder.get(share)) and _is_number(holder[count]))
        for holder, share, count in pairs
    ) and ("labels_kept" not in report or _is_number(report.get("n_labels")))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
