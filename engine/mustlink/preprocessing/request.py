"""Steps that prepare the columns of points, as requested."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mustlink.errors import InputError, spelt_alike

STANDARDIZE = ("standard", "robust")
IMPUTE = ("mean", "median", "most_frequent")


@dataclass(frozen=True)
class Preparation:
    """Steps in their order; columns by name or by number from 0.

    The columns of `drop` are left out, whatever they contain; others keep their numbers.
    Rows with missing values (NaN) are left out (`drop_missing`) or filled with the mean, median or
    most frequent value of the column (`impute`). Every column of `one_hot` becomes one column of 0
    and 1 per value. At last all columns are divided by their standard deviation about the mean
    (`standardize="standard"`), or by the distance of their quartiles about the median ("robust").
    """

    standardize: str | None = None
    one_hot: tuple[str | int, ...] = ()
    impute: str | None = None
    drop_missing: bool = False
    drop: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for unknown or contradictory steps."""
        from mustlink.core.check import check_choice  # NumPy comes with it: --help does without

        if self.standardize is not None:
            check_choice(self.standardize, STANDARDIZE, "standardize")
        if self.impute is not None:
            check_choice(self.impute, IMPUTE, "impute")
            if self.drop_missing:
                raise InputError("drop_missing: leaves out what impute would fill; give one")
        both = set(self.one_hot) & set(self.drop)
        if both:
            raise InputError(f"one_hot: column {both.pop()!r} is also in drop; give it once")

    @property
    def is_nothing(self) -> bool:
        """Whether there are no steps."""
        return self == Preparation()

    def to_dict(self) -> dict[str, Any]:
        """Plain values of the steps that are taken."""
        found = {name: value for name, value in asdict(self).items() if value}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    def options(self) -> list[str]:
        """Command-line options of these steps."""
        values = {
            "--drop": ",".join(map(str, self.drop)),
            "--impute": self.impute == "mean" or self.impute,
            "--drop-missing": self.drop_missing,
            "--one-hot": ",".join(map(str, self.one_hot)),
            "--standardize": self.standardize == "standard" or self.standardize,
        }
        return [
            name if value is True else f"{name}={value}" for name, value in values.items() if value
        ]

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Preparation:
        """The inverse of `to_dict`."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in saved.items()
        }
        return cls(**values)


def column_numbers(
    wanted: Sequence[str | int], names: Sequence[str], d: int, option: str
) -> tuple[int, ...]:
    """Numbers of columns by name or by number from 0, each once.

    A name goes before a number. Raises InputError that begins with the option.
    """
    found: list[int] = []
    for word in wanted:
        text = str(word).strip()
        if text in names:
            at = list(names).index(text)
        elif text.isdecimal() and int(text) < d:
            at = int(text)
        else:
            raise InputError(f"{option}: {_unknown(text, names, d)}")
        if at not in found:
            found.append(at)
    return tuple(found)


def column_title(at: int, names: Sequence[str]) -> str:
    """A column in a message."""
    return f"column {names[at]!r}" if at < len(names) else f"column {at}"


def listed(columns: Sequence[int], names: Sequence[str], most: int = 8) -> str:
    """Columns in a message: names or numbers, the first ones."""
    shown = [names[at] if at < len(names) else str(at) for at in columns[:most]]
    return ", ".join(shown) + (f", … ({len(columns)} in all)" if len(columns) > most else "")


def as_option(columns: Sequence[int], names: Sequence[str]) -> str:
    """Columns in an option: names, or numbers where a shell treats a name specially."""

    def word(at: int) -> str:
        name = names[at] if at < len(names) else ""
        plain = re.fullmatch(r"\w[\w.-]*", name) and not name.isdecimal()
        return name if plain and list(names).count(name) == 1 else str(at)

    return ",".join(map(word, columns))


def _unknown(text: str, names: Sequence[str], d: int) -> str:
    if text.lstrip("-").isdecimal():
        return f"column {text} is not there; columns are numbered from 0 to {d - 1}"
    if not names:
        return f"{text!r} is no number, and the columns have no names; give 0 to {d - 1}"
    close = spelt_alike(text, names)
    more = f"; did you mean {close!r}?" if close else f"; there are {', '.join(names[:12])}"
    return f"no column is called {text!r}" + more + (" …" if not close and len(names) > 12 else "")
