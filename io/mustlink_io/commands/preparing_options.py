"""Options that prepare the columns of points, whose values may be left out."""

from __future__ import annotations

from typing import Any

import click

from mustlink.preparation.request import IMPUTE, STANDARDIZE

# What an option stands for without a value, and the words that it takes from behind a blank.
_USUAL = {"--standardize": STANDARDIZE, "--impute": IMPUTE}


class PreparingCommand(click.Command):
    """A command with `--standardize` and `--impute`, alone or as `--standardize=robust`.

    The word behind one of them is its value only if it is one that it knows: in
    `--standardize points.h5` the file is DATA.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Join options and their values before click reads them."""
        return super().parse_args(context, _joined(args))


def _joined(args: list[str]) -> list[str]:
    found: list[str] = []
    words = iter(range(len(args)))
    for at in words:
        word, behind = args[at], args[at + 1] if at + 1 < len(args) else ""
        if word == "--":
            return [*found, *args[at:]]
        if word not in _USUAL:
            found.append(word)
            continue
        if behind in _USUAL[word]:
            next(words)
        else:
            behind = _USUAL[word][0]
        found.append(f"{word}={behind}")
    return found


def _columns(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str | int, ...] | None:
    """Names or numbers behind lists such as 1,2,service; those of one option add up."""
    if not value:
        return None
    words = [word.strip() for one in value for word in one.split(",")]
    if not all(words):
        shown = next(one for one in value if not all(map(str.strip, one.split(","))))
        raise click.BadParameter(f"{shown!r} is no list of columns, such as 1,2 or port,service")
    words = list(dict.fromkeys(words))
    return tuple(int(word) if word.isdecimal() else word for word in words)


def _option(flag: str, **given: Any) -> Any:
    usual = _USUAL[flag][0]
    return click.option(flag, is_flag=False, flag_value=usual, **given)


COLUMN_STEPS = (
    click.option("--drop", callback=_columns, multiple=True, metavar="COLUMNS",
        help="As id,3: leave out these columns (names, or numbers from 0), whatever is in them."),
    _option("--impute", type=click.Choice(IMPUTE),
        help="Fill missing values (NaN, empty cells) by column; default mean, of one-hot columns "
        "the most frequent value."),
    click.option("--one-hot", callback=_columns, multiple=True, metavar="COLUMNS",
        help="As port,2: one column of 0 and 1 for every value of these, which may be text."),
    _option("--standardize", type=click.Choice(STANDARDIZE),
        help="At last: columns less their mean, by their standard deviation; robust: less their "
        "median, by the distance of their quartiles."),
)  # fmt: skip
PREPARING = (
    *COLUMN_STEPS,
    click.option("--drop-missing", is_flag=True, default=None,
        help="Or leave out rows with missing values; their label is -1."),
)  # fmt: skip
