"""The methods that `mustlink cluster -m` knows: one row each, read by command line and jobs."""

from __future__ import annotations

from dataclasses import dataclass

COMMON_OPTIONS = frozenset(
    {"affinity", "n_neighbors", "metric", "weights", "max_iter", "isolated", "random_state"}
)
_EIGEN = frozenset({"solver", "tol"})
_CONSTRAINED = _EIGEN | {"subspace", "assign"}


@dataclass(frozen=True)
class Method:
    """An estimator of the engine, whether it takes side information, and options of its own."""

    estimator: str
    summary: str
    side_information: bool
    options: frozenset[str] = frozenset()


def _constrained(estimator: str, summary: str, *own: str) -> Method:
    return Method(estimator, summary, side_information=True, options=_CONSTRAINED | set(own))


METHODS: dict[str, Method] = {
    "ncut": Method(
        "NCut",
        "normalised cut, without side information",
        side_information=False,
        options=_EIGEN | {"variant"},
    ),
    "csp": _constrained(
        "CSP", "constrained spectral clustering (Wang, Qian, Davidson)", "beta", "balanced"
    ),
    "sssc": _constrained("SSSC", "penalised Laplacian (Wacquet et al.)", "gamma"),
    "sl": _constrained(
        "SpectralLearning", "weights overwritten (Kamvar, Klein, Manning)", "normalized"
    ),
    "ap": _constrained(
        "ConstrainedAP", "Gaussian process on the graph (Lu, Carreira-Perpiñán)", "noise"
    ),
    "fast-ge": _constrained("FastGE", "pencil of two Laplacians (Cucuringu et al.)", "mu"),
    "sskk": Method(
        "SSKK",
        "kernel k-means with penalties (Kulis et al.)",
        side_information=True,
        options=frozenset({"init", "penalty", "volume", "sigma"}),
    ),
}

_FLAGS = {"n_neighbors": "--neighbors", "random_state": "--seed"}


def flag(parameter: str) -> str:
    """Return what a user types for a parameter of the engine."""
    return _FLAGS.get(parameter, "--" + parameter.replace("_", "-"))
