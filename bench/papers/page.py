"""RESULTS.md: a summary with one line per table, then every section."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bench.render import grid

from .reporting import Report, Table

HEAD = """# The papers' tables and figures, again

Written by `make papers` (`python -m bench.papers`) alone, all of it at one commit:
{about}.

Cells like `0.880 / 0.901 / +0.021` are the paper's value, ours, and the difference. Where a paper
shows a curve only, its statements are checked. What the papers leave open (kernel widths,
positions, noise) is chosen in each script's docstring.

## Summary

Numbers are *reproduced* where nine in ten are as near the paper's as the line says, *better* where
nine in ten are that near or better and more are better than worse, and else *differ*. PairGroups
are reproduced where all hold, better where each that does not hold fails because ours is better,
and else differ."""


@dataclass(frozen=True)
class Section:
    """A module's title, text under it, draws made and draws of the paper, report, CPU seconds."""

    title: str
    about: tuple[str, ...]
    draws: int
    paper_draws: int
    report: Report
    seconds: float

    def markdown(self, commit: str) -> str:
        """The section, every table with its commit and draws."""
        parts = [f"## {self.title}", *self.about]
        for one in self.report.text:
            parts.append(one.markdown(self.stamp(one, commit)) if isinstance(one, Table) else one)
        parts.append(f"*{self.seconds:,.0f} s of CPU.*")
        return "\n\n".join(part.strip() for part in parts)

    def stamp(self, table: Table, commit: str) -> str:
        """Commit and draws of a table."""
        draws = self.draws if table.draws is None else table.draws
        if draws == 0:
            told = "nothing random"
        elif isinstance(draws, str):
            told = f"draws: {draws}"
        else:
            told = f"{draws} draw{'s' * (draws != 1)}"
            if draws < self.paper_draws:
                told += f" (the paper: {self.paper_draws})"
        return f"Commit {commit}, {told}."


def section(module: Any, draws: int, report: Report, seconds: float) -> Section:
    """A module's section: the first paragraph of its docstring is the title, the others follow."""
    first, *others = (module.__doc__ or "").split("\n\n")
    about = tuple(p for p in others if not p.strip().startswith("python -m"))
    paper_draws = getattr(module, "PAPER_DRAWS", module.DRAWS)
    title = " ".join(first.split()).rstrip(".")
    return Section(title, about, draws, paper_draws, report, seconds)


def page(sections: Iterable[Section], commit: str, about: str) -> str:
    """The whole file."""
    there = list(sections)
    lines = [(one.table, f"**{one.verdict}**", one.why) for s in there for one in s.report.verdicts]
    summary = grid(("table", "verdict", "why"), lines)
    head = HEAD.format(about=f"{commit}, {about}")
    return "\n\n".join([head, summary, *(one.markdown(commit) for one in there)]) + "\n"
