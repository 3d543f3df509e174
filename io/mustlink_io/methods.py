"""The methods that `mustlink cluster -m` knows: one row each, read by command line and jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """An estimator of the engine, whether it takes side information, and options of its own."""

    estimator: str
    summary: str
    side_information: bool
    options: frozenset[str] = frozenset()


METHODS: dict[str, Method] = {
    "ncut": Method(
        "NCut",
        "normalised cut, without side information",
        side_information=False,
        options=frozenset({"variant"}),
    ),
    "csp": Method(
        "CSP",
        "constrained spectral clustering (Wang, Qian, Davidson)",
        side_information=True,
        options=frozenset({"beta", "subspace", "assign"}),
    ),
}

COMMON_OPTIONS = frozenset(
    {
        "affinity",
        "n_neighbors",
        "metric",
        "weights",
        "solver",
        "tol",
        "max_iter",
        "isolated",
        "random_state",
    }
)
_FLAGS = {"n_neighbors": "--neighbors", "random_state": "--seed"}


def flag(parameter: str) -> str:
    """Return what a user types for a parameter of the engine."""
    return _FLAGS.get(parameter, "--" + parameter.replace("_", "-"))
