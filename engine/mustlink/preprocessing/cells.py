"""Cells of a table's column as numbers or words, whatever they are held as."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError

MISSING = frozenset({"", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "null", "NULL", "None", "?"})
_TRUTH = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("nein", "ja"), ("n", "j"))
_GERMAN = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
_LIKE_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.\d{4}")
_MOSTLY = 0.8  # of the cells that are numbers in a column in which words are slips
_EPOCH = date(1970, 1, 1).toordinal()
_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[^,]*,\d{3}")


@dataclass(frozen=True)
class RawColumn:
    """A column: `values` (n,) are float64, of dates days since 1970, or words; which are `empty`.

    `kind` is number, yes/no (0 and 1), date or words; `comma`: numbers were written with one.
    """

    kind: str
    values: NDArray[Any]
    empty: NDArray[np.bool_]
    comma: bool = False

    @property
    def is_words(self) -> bool:
        """Whether values are text."""
        return self.kind == "words"

    @property
    def is_number(self) -> bool:
        """Whether values are plain numbers or truth values, as arrays have them."""
        return self.kind == "number"

    @property
    def is_truth(self) -> bool:
        """Whether values are 0 and 1 that were words."""
        return self.kind == "yes/no"

    def numbers(self, name: str, where: str) -> NDArray[np.float64]:
        """Values as numbers; raises InputError for the first word."""
        if not self.is_words:
            return self.values
        row = int(np.flatnonzero(~self.empty)[0])
        raise InputError(
            f"{where}: {self.values[row][:40]!r} in row {row}, column {name!r} is a word, where "
            "the fitted table had numbers or dates; correct or empty it"
        )


def read_cells(
    cells: Any, name: str, where: str, *, as_words: bool = False, slips: bool = False
) -> RawColumn:
    """Cells (n,) of an array, a list or a data frame's column; InputError names row and column.

    Text that is numbers, yes/no or dates throughout is read as that, but `as_words`; so are a
    frame's categories words. A few words among many different numbers are an error, unless `slips`
    are allowed.
    """
    as_words = as_words or getattr(getattr(cells, "dtype", None), "categories", None) is not None
    values = np.asarray(cells)
    if values.dtype.kind in "mM":
        seconds = values.astype(f"{values.dtype.kind}8[s]")
        gap = np.isnat(seconds)
        days = np.where(gap, np.nan, seconds.astype(np.int64) / 86400.0)
        return RawColumn("date", days, gap)
    if values.dtype.kind in "biuf" and not as_words:
        found = values.astype(np.float64)
        _refuse_infinite(found, name, where)
        return RawColumn("number", found, np.isnan(found))
    values = values.astype(object)
    known = _different(values, name, where)
    kept = {cell: cell for cell in known if not _is_missing(cell)}
    empty = np.array([cell not in kept for cell in values], dtype=bool)
    kind, read, comma = _read([*kept], as_words=as_words)
    if kind == "words":
        if not as_words and not slips:
            _refuse_slip(values, empty, name, where)
        read = [_word(cell) for cell in kept]
    places = dict(zip(kept, read, strict=True))
    nothing: Any = "" if kind == "words" else np.nan
    dtype = object if kind == "words" else np.float64
    found = np.array([places.get(cell, nothing) for cell in values], dtype=dtype)
    if kind != "words":
        _refuse_infinite(found, name, where)
    return RawColumn(kind, found, empty, comma)


def _different(values: NDArray[np.object_], name: str, where: str) -> list[Any]:
    """Cells, each once; raises InputError for what is no number, word, date or truth value."""
    try:
        known = list(dict.fromkeys(values))
        wrong = next((cell for cell in known if not _is_cell(cell)), None)
    except TypeError:  # lists and the like have no hash
        known, wrong = [], next(cell for cell in values if not _is_cell(cell))
    if wrong is None:
        return known
    row = next(at for at, cell in enumerate(values) if cell is wrong)
    raise InputError(
        f"{where}: row {row}, column {name!r} holds a {type(wrong).__name__}; cells are numbers, "
        "words, dates or empty: leave the column out"
    )


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip() in MISSING
    # pandas is not imported for its NA and NaT
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)  # noqa: PLR0124  NaN


def _is_cell(cell: Any) -> bool:
    return isinstance(cell, str | Real | Decimal | date | np.bool_) or _is_missing(cell)


def _read(known: list[Any], *, as_words: bool) -> tuple[str, list[Any], bool]:
    """Kind of cells that are each there once, their values, and whether , is their decimal sign."""
    if as_words:
        return "words", known, False
    texts = [cell.strip() for cell in known if isinstance(cell, str)]
    if not texts:
        if known and all(isinstance(cell, date) for cell in known):
            return "date", [_days(cell) for cell in known], False
        if not any(isinstance(cell, date) for cell in known):
            return "number", [float(cell) for cell in known], False
        return "words", known, False
    if len(texts) < len(known):
        return "words", known, False
    lower = {text.lower() for text in texts}
    for no, yes in _TRUTH:
        if lower <= {no, yes}:
            kind = "number" if yes == "true" else "yes/no"  # as arrays of truth values are
            return kind, [float(text.lower() == yes) for text in texts], False
    for kind, convert in (("number", float), ("date", _day_in)):
        found = _all_of(texts, convert)
        if found is not None:
            return kind, found, False
    found = numbers_with_comma(texts)
    return ("words", known, False) if found is None else ("number", found, True)


def _all_of(texts: Iterable[str], convert: Callable[[str], float]) -> list[float] | None:
    try:
        return [convert(text) for text in texts]
    except ValueError:
        return None


def numbers_with_comma(texts: list[str], *, surely: bool = False) -> list[float] | None:
    """Numbers with a decimal comma, as 1.234,5; None where some text is none.

    None, too, where each comma may be one of thousands (1,234), or where there is none, unless
    they are `surely` written so.
    """
    if not all(text and _COMMA.fullmatch(text) for text in texts):
        return None
    commas = [text for text in texts if "," in text]
    if not surely and all(_THOUSANDS.fullmatch(text) for text in commas):
        return None
    return _all_of([text.replace(".", "").replace(",", ".") for text in texts], float)


def _days(cell: date) -> float:
    """Days since 1970, of the day and the time that a clock shows."""
    found = float(cell.toordinal() - _EPOCH)
    if isinstance(cell, datetime):
        found += (cell.hour + (cell.minute + cell.second / 60) / 60) / 24
    return found


def _day_in(text: str) -> float:
    """Days since 1970 of a date in text; ValueError."""
    if not _LIKE_DATE.match(text):
        raise ValueError(text)
    for form in _GERMAN:
        try:
            return _days(datetime.strptime(text, form))
        except ValueError:
            continue
    return _days(datetime.fromisoformat(text))


def _word(cell: Any) -> str:
    """A cell as a word: whole numbers without a point."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def _refuse_slip(
    values: NDArray[np.object_], empty: NDArray[np.bool_], name: str, where: str
) -> None:
    """Raise InputError for a word in a column where most of the cells are numbers."""
    filled = np.flatnonzero(~empty)
    wrong = [int(row) for row in filled if not _is_numeric(values[row])]
    commas = sum(bool(_COMMA.fullmatch(str(values[row]).strip())) for row in wrong)
    numbers = len(filled) - len(wrong)
    few = 4 * len(set(values[filled].tolist())) <= len(filled)  # such as 4, 6, 8 and rotary
    if not wrong or few or numbers + commas < _MOSTLY * len(filled):
        return
    more = f" (so are {len(wrong) - 1} more)" if wrong[1:] else ""
    cure = "write numbers with a point and no other mark" if commas else "correct or empty it"
    raise InputError(
        f"{where}: {str(values[wrong[0]])[:40]!r} in row {wrong[0]}, counted from 0, column "
        f"{name!r} is no number{more}, while {numbers:,} other cells are; {cure}, or leave the "
        "column out"
    )


def _is_numeric(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _refuse_infinite(values: NDArray[np.float64], name: str, where: str) -> None:
    bad = np.isinf(values)
    if bad.any():
        raise InputError(
            f"{where}: Inf in row {int(bad.argmax())}, column {name!r}; replace it by a number, or "
            "empty the cell"
        )
