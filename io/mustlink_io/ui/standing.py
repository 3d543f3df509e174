"""What is seen first: red flags, and how often the fit knew an answer before it was given."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from mustlink_io.jobs.carried import named_in
from mustlink_io.ui.classes import is_known
from mustlink_io.ui.node_session import NodeSession

_NAMED = 3  # rows or pairs that a flag names
_WINDOW = 20  # last answers of a share
_WIDE, _HIGH = 300, 34  # pixels of the line


def flags(session: NodeSession) -> list[str]:
    """Why not to rely on what is shown, a sentence each, the answers of the person first.

    Labels that their cluster does not have, pairs that are not kept, classes without a cluster;
    then the warnings of the fit. Cost O(n).
    """
    found = [*_alone(session), *_disagreeing(session), *_broken(session)]
    warned = named_in(session.estimator.report_.warnings, session.names)
    return [*found, *(" ".join(one.split()) for one in warned)]


def _disagreeing(session: NodeSession) -> list[str]:
    known = session.known_labels
    rows = np.flatnonzero(is_known(known))
    now = np.array(session.classes_now(rows), dtype=object)
    others = rows[now != known[rows].astype(object)]
    if not others.size:
        return []
    is_one = others.size == 1
    return [
        f"{others.size:,} of {rows.size:,} labels {'is' if is_one else 'are'} answered otherwise: "
        f"{_some(session, others[:_NAMED].tolist(), others.size)}; look at "
        f"{'it' if is_one else 'them'}, or take {'it' if is_one else 'them'} back"
    ]


def _alone(session: NodeSession) -> list[str]:
    """Classes that no cluster stands for."""
    known = session.known_labels
    there = {session.class_of(one) for one in session.groups}
    classes, count = np.unique(known[is_known(known)], return_counts=True)
    return [
        f"no cluster stands for {session.choices[one]}, the label of {size:,} "
        f"row{'s' if size > 1 else ''}: label more of it, or take more clusters"
        for one, size in zip(classes.tolist(), count.tolist(), strict=True)
        if one not in there
    ]


def _broken(session: NodeSession) -> list[str]:
    if not session.takes_pairs:
        return []
    pairs, belief = session.estimator.constraints_.merged
    if not len(pairs):
        return []
    ends = np.asarray(session.labels)[pairs]
    together = ends[:, 0] == ends[:, 1]
    broken = pairs[(belief > 0) & ~together | (belief < 0) & together]
    if not len(broken):
        return []
    named = "; ".join(
        " and ".join(session.called(one) for one in pair) for pair in broken[:_NAMED].tolist()
    )
    more = "; …" if len(broken) > _NAMED else ""
    return [
        f"{len(broken):,} of {len(pairs):,} pairs {'is' if len(broken) == 1 else 'are'} not kept: "
        f"{named}{more}"
    ]


def _some(session: NodeSession, rows: Sequence[int], of: int) -> str:
    return ", ".join(map(session.called, rows)) + (", …" if of > len(rows) else "")


def flags_html(found: Sequence[str]) -> str:
    """A line of the first flag, the others folded below it; "" without any."""
    if not found:
        return ""
    first, rest = escape(found[0]), "".join(f"<li>{escape(one)}</li>" for one in found[1:])
    more = f" <small>and {len(found) - 1} more</small>" if rest else ""
    line = f"<b>⚑</b> {first}{more}"
    return f"<details><summary>{line}</summary><ul>{rest}</ul></details>" if rest else line


def guessed_html(guesses: Sequence[bool]) -> str:
    """How often the fit was right about a row before it was labelled, and a line of that.

    A point of the line is the share of the last 20 such answers.
    """
    if not guesses:
        return ""
    shares = running(guesses)
    at = np.linspace(0, _WIDE, shares.size) if shares.size > 1 else np.array([0.0])
    points = " ".join(f"{x:.1f},{_HIGH * (1 - y):.1f}" for x, y in zip(at, shares, strict=True))
    last = min(len(guesses), _WINDOW)
    right = sum(guesses[-last:])
    return (
        f"known before you answered: <b>{right} of the last {last}</b> "
        f"<small>(rows that are asked are harder than most)</small>"
        f"<svg width='{_WIDE}' height='{_HIGH + 2}' style='display:block' role='img' "
        f"aria-label='share known before, by answers'>"
        f"<path d='M0,1H{_WIDE}M0,{_HIGH}H{_WIDE}' stroke='#d9dfe4'/>"
        f"<polyline points='{points}' fill='none' stroke='#0072b2' stroke-width='2'/></svg>"
    )


def running(guesses: Sequence[bool]) -> Any:
    """The share that is right among the last 20, after every answer."""
    total = np.concatenate([[0], np.cumsum(guesses)])
    ends = np.arange(1, len(guesses) + 1)
    first = np.maximum(ends - _WINDOW, 0)
    return (total[ends] - total[first]) / (ends - first)
