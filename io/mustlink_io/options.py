"""Options of the command line that several commands share, or that belong to single methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def number_or(*words: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that takes a number or one of the words."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or value in words:
            return value
        try:
            number = float(value)
        except ValueError:
            listed = " or ".join(words)
            raise click.BadParameter(f"{value!r} is neither a number nor {listed}") from None
        return int(number) if parameter.name == "subspace" and number.is_integer() else number

    return convert


def memory_size(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    """Bytes behind a size such as 4GB."""
    from mustlink.memory import parse_size

    return None if value is None else parse_size(value)


QUIET = click.option("--quiet", is_flag=True, help="No progress and no notes on stderr.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
THREADS = click.option("--threads", type=click.IntRange(min=1), help="Threads; default all.")
SEED = click.option(
    "--seed", "random_state", type=click.IntRange(min=0), help="Same seed, same answer; default 0."
)
NEIGHBORS = click.option("--neighbors", "n_neighbors", type=int, help="Of a point; default 15.")
METRIC = click.option("--metric", type=click.Choice(["euclidean", "cosine"]))
WEIGHTS = click.option(
    "--weights",
    type=click.Choice(["local", "gaussian", "connectivity"]),
    help="Of graph edges; default local scaling.",
)


# Options that belong to some methods only; `methods.METHODS` says to which.
OWN = (
    click.option(
        "--beta",
        callback=number_or("auto", "paper", "tight", "search", "wide"),
        help="csp: auto, paper, tight, search, wide, or a fraction below 1.",
    ),
    click.option(
        "--balanced", is_flag=True, default=None, help="csp: must- and cannot-links weigh the same."
    ),
    click.option(
        "--gamma", callback=number_or("auto", "search"), help="sssc: auto, search, or below 1."
    ),
    click.option(
        "--normalized", is_flag=True, default=None, help="sl: with the normalised Laplacian."
    ),
    click.option("--noise", callback=number_or("auto"), help="ap: auto, or how loose pairs are."),
    click.option("--mu", type=float, help="fast-ge: shift of the pencil; default 0.001."),
    click.option(
        "--subspace",
        callback=number_or("auto", "exact"),
        help="csp, sssc, sl, ap, fast-ge: auto, exact, or a dimension.",
    ),
    click.option(
        "--assign",
        type=click.Choice(
            ["auto", "sign", "split", "kmeans", "sign-kmeans", "cost-weighted", "sphere"]
        ),
        help="From embedding to clusters; not all ways for every method.",
    ),
    click.option(
        "--init",
        type=click.Choice(["auto", "spectral", "relaxed", "neighborhoods"]),
        help="sskk: start.",
    ),
    click.option("--penalty", callback=number_or("auto"), help="sskk: of a broken constraint."),
    click.option(
        "--volume", type=click.Choice(["links", "graph"]), help="sskk: what degrees count."
    ),
    click.option("--sigma", callback=number_or("auto"), help="sskk: diagonal shift."),
    click.option(
        "--variant",
        type=click.Choice(["luxburg", "ng", "shi-malik"]),
        help="ncut: default luxburg.",
    ),
)


def own_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of `OWN` to a command."""
    for option in reversed(OWN):
        command = option(command)
    return command
