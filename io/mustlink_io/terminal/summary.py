"""What several summaries tell, in one line each, and the choice of JSON or words for a person.

Notes of a run are not repeated in a summary: they went to stderr, and `mustlink info` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mustlink_io.terminal.console import cell

if TYPE_CHECKING:
    from mustlink_io.hdf5.constraint_parts import Constraints
    from mustlink_io.hdf5.result import Report
    from mustlink_io.hdf5.result_parts import Baseline, Calibration, Network, Satisfaction


def emit(result: Mapping[str, Any], as_json: bool, show: Callable[[Any], None]) -> None:
    """Print a result as one JSON object or for a person."""
    from mustlink_io.hdf5.plain_json import to_json

    if as_json:
        click.echo(to_json(result))
    else:
        show(result)


def sizes_line(sizes: Sequence[int], names: Sequence[Any] = (), of: str = "clusters") -> str:
    """Return sizes in one line; with names, unless these are 0, 1, 2 …, `name: size`."""
    named = bool(names) and list(names) != list(range(len(names)))
    shown = ", ".join(
        f"{names[at]}: {count:,}" if named else f"{count:,}" for at, count in enumerate(sizes[:20])
    )
    return shown + (f", … ({len(sizes)} {of})" if len(sizes) > 20 else "")


def nodes_left(count: int | None) -> str | None:
    """Return how many nodes have no cluster."""
    return f"{count:,} {'node' if count == 1 else 'nodes'} (label -1)" if count else None


def constraints_kept(kept: Satisfaction | None) -> str | None:
    """Return the satisfaction of constraints in one line, the two kinds on balance first."""
    if kept is None or (kept.on_balance is None and not kept.n_unclustered):
        return None
    apart = f"{int(kept.n_unclustered):,} more are of nodes in no cluster"
    if kept.on_balance is None:
        return apart
    kinds = ", ".join(f"{share:.1%} of {count:,} {name}" for name, share, count in kept.asked)
    told = kinds if len(kept.asked) == 1 else f"{kept.on_balance:.1%} on balance: {kinds}"
    return f"{told}; {apart}" if kept.n_unclustered else told


def on_network(told: Network | None) -> str | None:
    """Return the scores on the edges of a network in one line."""
    from mustlink.result import network_in_words

    return None if told is None else network_in_words(told.model_dump())


def held_out(told: Baseline | Mapping[str, Any] | None) -> str | None:
    """Return who answers how many of the labels held out, in one line."""
    if told is None:
        return None
    found = told if isinstance(told, Mapping) else told.model_dump()
    shares = ", ".join(
        f"{found['method'] if name == 'ours' else name} {share:.0%}"
        for name, share in found["right"].items()
    )
    words = f"{shares} of {found['held_out']:,} right, on a sample of {found['sampled']:,} points"
    single = found["single"]
    return words + (f"; {single} classes of one label are not held out" if single else "")


def feasible(told: Report) -> str | None:
    """Return how many of the vectors wanted there are, and of how many feasible cuts."""
    from mustlink.result import feasible_in_words

    if told.feasible is None:
        return None
    cuts = None if told.cuts is None else told.cuts.model_dump()
    return feasible_in_words(told.feasible.model_dump(), cuts)


def choice_rows(choices: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was decided for the caller, as (name, value and reason)."""
    rows = []
    for name, value in choices.items():
        if name == "graph":  # told by `mustlink graph`, but for what several weigh
            if "graph_weights" in value:
                weights = ", ".join(cell(weight) for weight in value["graph_weights"])
                rows.append(("  graphs", f"weights {weights}: {value['why']}"))
            continue
        shown = value
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {cell(v)}" for k, v in value.items())
        elif isinstance(value, list | tuple):
            numbers = all(isinstance(v, float) for v in value)  # else a value and its reason
            shown = (", " if numbers else ": ").join(cell(v) for v in value)
        rows.append((f"  {name}", cell(shown)))
    return rows


def calibrated(by: Calibration | None) -> str | None:
    """Return by what confidence was calibrated, None where nothing tells."""
    if by is None:
        return None
    what = [f"{n:,} {noun}" for n, noun in ((by.n_labels, "labels"), (by.n_pairs, "pairs")) if n]
    return f"calibrated by {' and '.join(what)} held out" if what else "not calibrated"


def mean_confidence(told: Report) -> str | None:
    """Return how sure the answers are on average, and what that is calibrated by."""
    if told.mean_confidence is None:
        return None
    how = calibrated(told.calibration)
    return f"{told.mean_confidence:.3f}" + (f", {how}" if how else "")


def prior_row(asked: Constraints | None) -> str | None:
    """Return how many answers are the likeliest class of what was believed beforehand."""
    if asked is None or asked.prior is None:
        return None
    found = asked.prior
    return (
        f"of {found.n_believed:,} nodes, mean belief {found.mean_belief:.3g}; "
        f"{found.n_as_believed:,} are answered as it says"
    )


def labels_kept(report: Report) -> str | None:
    """Return how many of the given labels were answered with their own class."""
    if report.labels_kept is None or report.n_labels is None:
        return None
    return f"{report.labels_kept:.1%} of the {int(report.n_labels):,} given"
