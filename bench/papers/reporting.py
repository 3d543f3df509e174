"""What a section reports: tables, what the paper says beside ours, a verdict for every table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.render import grid

SAME, BETTER, DIFFERS = "reproduced", "better", "differs"
MOST = 0.9  # share of a table's cells that decides
FEW = 2  # statements that a line of the summary names


@dataclass(frozen=True)
class Table:
    """A table with the number of draws behind each of its cells.

    `draws` is None for the section's own number, 0 where nothing is random, and a text such as
    "see the column" where rows differ.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    draws: int | str | None = None

    def markdown(self, stamp: str) -> str:
        """Title, the line that says commit and draws, rows."""
        return f"### {self.title}\n\n*{stamp}*\n\n{grid(self.headers, self.rows)}"


@dataclass(frozen=True)
class Statement:
    """What a paper says, what was measured, and whether the one follows from the other.

    `better` marks a statement that does not hold because ours does better than the paper says.
    """

    says: str
    ours: str
    holds: bool | None
    better: bool = False

    def row(self) -> tuple[str, str, str]:
        """A row of a table; None is "not measured"."""
        if self.holds is None:
            return self.says, self.ours, "not measured"
        told = "holds" if self.holds else "does not" + (", ours is better" if self.better else "")
        return self.says, self.ours, told


@dataclass(frozen=True)
class Verdict:
    """A line of the summary: a table or figure of a paper, the verdict, and what it comes from."""

    table: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Report:
    """The tables and notes of a section, and its lines of the summary."""

    text: Sequence[Table | str] = ()
    verdicts: Sequence[Verdict] = ()


def statements(title: str, found: Iterable[Statement], draws: int | str | None = None) -> Table:
    """Table of statements."""
    headers = ("the paper says", "ours", "")
    return Table(title, headers, [one.row() for one in found], draws)


def by_statements(table: str, found: Iterable[Statement], why: str = "") -> Verdict:
    """Reproduced: all that was measured holds. Better: ours is better wherever it does not.

    `why` is told where the verdict is not "reproduced".
    """
    known = [one for one in found if one.holds is not None]
    failed = [one for one in known if not one.holds]
    told = f"{len(known) - len(failed)} of {len(known)} statements hold"
    beaten = sum(one.better for one in failed)
    if not known:
        return Verdict(table, DIFFERS, f"not measured. {why}".strip())
    if not failed:
        return Verdict(table, SAME, told)
    kind = BETTER if all(one.better for one in failed) else DIFFERS
    if len(failed) <= FEW:
        told += ", not " + ", ".join(f"“{one.says}”" for one in failed)
    if beaten:
        told += f"; {beaten} of the others fail because ours is better"
    return Verdict(table, kind, f"{told}. {why}".strip())


def by_numbers(
    table: str,
    cells: Iterable[tuple[float | None, float | None]],
    near: float,
    why: str = "",
    larger: bool = True,
    beside: str = "the paper's",
) -> Verdict:
    """Of cells (paper, ours): nine in ten within `near`, nine in ten no worse than that, or not.

    Better is also more cells above than below. A cell that the paper has and ours has not counts
    as worse. `larger` values are better; `beside` says whose the first values are.
    """
    known = [(paper, ours) for paper, ours in cells if paper is not None]
    sign = 1.0 if larger else -1.0
    gains = [float("-inf") if ours is None else sign * (ours - paper) for paper, ours in known]
    same = sum(abs(gain) <= near for gain in gains)
    above = sum(gain > near for gain in gains)
    below = len(known) - same - above
    told = (
        f"{same} of {len(known)} cells within {near:g} of {beside}, {above} better, {below} worse"
    )
    if known and same >= MOST * len(known):
        return Verdict(table, SAME, told)
    kind = BETTER if above > below and same + above >= MOST * len(known) else DIFFERS
    return Verdict(table, kind, f"{told}. {why}".strip())
