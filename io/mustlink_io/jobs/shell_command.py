"""The shell command that fits what the engine suggests."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from mustlink.advice import Suggestion
from mustlink.core.process_memory import parse_size
from mustlink_io.jobs.methods import METHODS, PROPAGATORS, flag


def method_of(estimator: str) -> tuple[str, str]:
    """Command and `-m` of an estimator of the engine."""
    tables = {"cluster": METHODS, "propagate": PROPAGATORS}
    return next(
        (command, name)
        for command, table in tables.items()
        for name, method in table.items()
        if method.estimator == estimator
    )


def command_of(
    suggestion: Suggestion,
    data: str,
    *,
    labels: str | None = None,
    constraints: str | None = None,
    weights: str | None = None,
    views: Sequence[str] = (),
    read_as: str | None = None,
) -> str:
    """The command of the suggested fit with files."""
    command, name = method_of(suggestion.method)
    words = ["mustlink", command, data, "-m", name, *suggestion.preparation.options()]
    for parameter, value in suggestion.parameters.items():
        words += _words(parameter, value)
    files = [("--view", view) for view in views] + [("--weights", weights), ("--as", read_as)]
    sides = [] if name == "ncut" else [("--labels", labels), ("--constraints", constraints)]
    for option, file in [*sides, *files]:
        words += [] if file is None else [option, file]
    return shlex.join([*words, "-o", "out.h5"])


def _words(parameter: str, value: Any) -> list[str]:
    if parameter == "affinity" or value is None:  # the file says what it is
        return []
    if parameter == "class_mass":
        return ["--class-mass"] if value is True else ["--class-shares", str(value)]
    if parameter == "memory" and isinstance(value, int):
        short = f"{value / 10**9:g}GB"
        value = short if parse_size(short) == value else value
    return ["-k" if parameter == "n_clusters" else flag(parameter), str(value)]
