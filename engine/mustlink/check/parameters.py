"""Checks of parameters: numbers, choices, seeds."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mustlink.errors import InputError


class PlainParameters:
    """Of an estimator: a parameter that is a number of numpy's is Python's from when it is set.

    `np.int64(5)` is no `int`, `np.True_` is not `True`: nobody behind this border has to ask.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, np.generic) and not (name.startswith("_") or name.endswith("_")):
            value = value.item()
        super().__setattr__(name, value)


def check_number(value: Any, where: str, wanted: str) -> float:
    """Return a finite number; raises InputError that says what is wanted."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{where}: {value!r} is not a number; give {wanted}")
    return number


def check_positive(value: Any, where: str) -> float:
    """Return a finite number > 0; raises InputError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {value!r} is not a number; give one above 0") from None
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{where}: {value!r} given; it must be finite and above 0")
    return number


def check_share(value: Any, where: str) -> float:
    """Return a number strictly between 0 and 1; raises InputError."""
    number = check_number(value, where, "a number between 0 and 1")
    if not 0 < number < 1:
        raise InputError(f"{where}: {value!r} given; it must lie between 0 and 1, both excluded")
    return number


def check_tolerance(tol: float | None, where: str = "tol") -> None:
    """Raise InputError unless tol is None or a positive number."""
    if tol is not None and not 0 < float(tol) < np.inf:
        raise InputError(
            f"{where}: {tol} is no residual to reach; give a number above 0, such as 1e-4"
        )


def as_integer(value: Any, where: str, low: int | None = None) -> int:
    """Return a whole number (never a bool), at least `low`; raises InputError."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_):
        raise InputError(f"{where}: {value!r} is not a whole number; give an integer")
    if low is not None and number < low:
        raise InputError(f"{where}: {number} given; it must be at least {low}")
    return number


def check_n_clusters(n_clusters: Any, n_nodes: int) -> int:
    """Return K as int with 1 <= K <= n; raises InputError."""
    k = as_integer(n_clusters, "n_clusters", 1)
    if k > n_nodes:
        raise InputError(
            f"n_clusters: {k} clusters asked of {n_nodes} nodes; ask for at most {n_nodes}"
        )
    return k


def check_n_jobs(n_jobs: Any) -> int | None:
    """Return a number of threads >= 1, or None for all of them (None, -1); raises InputError."""
    if n_jobs is None:
        return None
    jobs = as_integer(n_jobs, "n_jobs")
    if jobs == -1:
        return None
    if jobs < 1:
        raise InputError(f"n_jobs: {jobs} given; use 1, 2, …, or -1 for every core")
    return jobs


def check_choice(value: Any, choices: tuple[str, ...], where: str) -> str:
    """Return `value` when it is one of `choices`; raises InputError."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{where}: {value!r} is unknown; choose {' | '.join(choices)}")
    return value


def check_flag(value: Any, where: str) -> None:
    """Raise InputError unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{where}: {value!r} is neither True nor False")


def as_random_state(random_state: Any = None) -> np.random.Generator:
    """Return a Generator of None, an integer >= 0, a SeedSequence, Generator or RandomState.

    A Generator is returned as it is and so advances; an integer gives the same stream each time.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if random_state is None or isinstance(random_state, np.random.SeedSequence):
        return np.random.default_rng(random_state)
    return np.random.default_rng(as_integer(random_state, "random_state", low=0))
