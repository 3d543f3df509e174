"""Tables of the measurements, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Print a Markdown table and return it."""
    text = f"\n### {title}\n\n{grid(headers, rows)}"
    print(text, flush=True)
    return text


def grid(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table without a title."""
    cells = [[shown(c) for c in row] for row in rows]
    wide = [max(len(str(h)), *(len(r[i]) for r in cells), 3) for i, h in enumerate(headers)]
    lines = ["| " + " | ".join(h.ljust(w) for h, w in zip(headers, wide, strict=True)) + " |"]
    lines.append("|" + "|".join("-" * (w + 2) for w in wide) + "|")
    for row in cells:
        lines.append("| " + " | ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)) + " |")
    return "\n".join(lines)


def records(title: str, rows: dict[Any, dict[str, Any]], columns: Sequence[str] = ()) -> str:
    """Print a table of records: a row for each name, a column for each key.

    `columns` selects and orders the keys. Keys that end in `bytes` are shown as GB.
    """
    keys = list(columns) or [
        key
        for key in dict.fromkeys(key for one in rows.values() for key in one)
        if not any(isinstance(one.get(key), (dict, list)) for one in rows.values())
    ]
    heads = ["", *(key.replace("_bytes", " GB").replace("_", " ") for key in keys)]
    cells = [
        [
            str(name),
            *(
                one[key] / 1e9 if key.endswith("bytes") and one.get(key) else one.get(key)
                for key in keys
            ),
        ]
        for name, one in rows.items()
    ]
    return table(title, heads, cells)


def shown(value: Any) -> str:
    """A cell: four digits for numbers, a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
