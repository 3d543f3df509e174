"""The methods behind `-m`: one row each, read by the command line and by the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustlink.preparation.request import Preparation

if TYPE_CHECKING:
    from mustlink_io.formats.data import Want

GRAPH_OPTIONS = frozenset({"affinity", "n_neighbors", "metric", "weights"})
COMMON_OPTIONS = GRAPH_OPTIONS | {"max_iter", "isolated", "random_state", "graph_weights"}
PROPAGATION_OPTIONS = GRAPH_OPTIONS | {"random_state", "graph_weights"}
KINDS = ("must", "cannot", "labels", "graph")  # of constraints, that weigh differently
EQUAL, SMOOTHED = "equal", "smoothed"  # class shares by name
_NOTHING: frozenset[str] = frozenset()
_ANY_SIDE = frozenset({"labels", "constraints"})
_EIGEN = frozenset({"solver", "tol"})
_CONSTRAINED = _EIGEN | {"subspace", "assign", "init", "refine", "regularization"}
_SPREAD = _EIGEN | {
    "new_edges",
    "normalize",
    "power",
    "variant",
    "eigen_solver",
    "eigen_tol",
    "refine",
}
_SYSTEM = _EIGEN | {"max_iter"}
_MASS = frozenset({"class_mass", "class_shares"})


@dataclass(frozen=True)
class Method:
    """An estimator of the engine: options of its own, side information it takes, what it needs.

    `takes` is a part of {labels, constraints, prior}, `needs` one of {labels, points}; `reads` is
    what files are read as, whatever they look like.
    """

    estimator: str
    summary: str
    options: frozenset[str]
    takes: frozenset[str] = _ANY_SIDE
    needs: frozenset[str] = _NOTHING
    reads: Want | None = None


def _constrained(estimator: str, summary: str, *own: str) -> Method:
    return Method(estimator, summary, _CONSTRAINED | set(own))


METHODS: dict[str, Method] = {
    "ncut": Method(
        "NCut",
        "normalised cut, without side information",
        _EIGEN | {"variant", "init", "regularization", "refine"},
        takes=_NOTHING,
    ),
    "csp": _constrained(
        "CSP",
        "constrained spectral clustering (Wang, Qian, Davidson)",
        "beta",
        "balanced",
        "n_vectors",
    ),
    "disim": Method(
        "DISIM",
        "directed graphs by singular vectors (Rohe, Qin, Yu)",
        _EIGEN | {"regularization"},
        reads="directed",
    ),
    "sssc": _constrained(
        "SSSC",
        "penalised Laplacian (Wacquet et al.)",
        "gamma",
        "balanced",
        "must_weight",
        "cannot_weight",
    ),
    "sl": _constrained(
        "SpectralLearning", "weights overwritten (Kamvar, Klein, Manning)", "normalized"
    ),
    "ap": _constrained(
        "ConstrainedAP", "Gaussian process on the graph (Lu, Carreira-Perpiñán)", "noise", "prior"
    ),
    "fast-ge": _constrained("FastGE", "pencil of two Laplacians (Cucuringu et al.)", "mu"),
    "srcp": Method(
        "SRCP",
        "pairs spread by a Lyapunov equation (Fu, Lu et al.)",
        _SPREAD | {"mu"},
    ),
    "e2cp": Method("E2CP", "pairs spread by rows, then columns (Lu, Ip)", _SPREAD | {"alpha"}),
    "sskk": Method(
        "SSKK",
        "kernel k-means with penalties (Kulis et al.)",
        frozenset({"init", "penalty", "volume", "sigma", "refine"}),
    ),
    "csc-gfhf": Method(
        "CSCGFHF",
        "similarity of propagated labels (Wang, Qian, Davidson 2012), labels only",
        _EIGEN | _MASS | {"assign", "sigma", "kernel_tol", "max_rank"},
        takes=frozenset({"labels"}),
        needs=frozenset({"labels"}),
    ),
}

_ON_NODES = frozenset({"tol", "max_iter", "random_state", "solver", "regularization"})
_SMOOTH = _ON_NODES | {"subspace", "assign", "init"}
# Options of the clusterers that run where nodes are on disk or on ranks; not with every value.
AT_SCALE: dict[str, frozenset[str]] = {
    "ncut": _ON_NODES | {"variant"},
    "csp": _SMOOTH | {"beta", "balanced", "n_vectors"},
    "sssc": _SMOOTH | {"gamma", "balanced", "must_weight", "cannot_weight"},
    "fast-ge": _SMOOTH | {"mu"},
    "ap": _SMOOTH | {"noise", "prior"},
    "srcp": _SPREAD | {"mu", "max_iter", "random_state"},
    "e2cp": _SPREAD | {"alpha", "max_iter", "random_state"},
}
SPREADING = ("srcp", "e2cp")


def check_where(job: Any, home: str) -> None:
    """Raise InputError for what of a job does not run in a home, "disk" or "ranks"."""
    made(job)._check_home(home)


def _propagation(
    estimator: str, summary: str, *own: str, points: bool = False, prior: bool = True
) -> Method:
    needs = frozenset({"labels", "points"} if points else {"labels"})
    own_too = _SYSTEM | {"refine"} | set(own)
    takes = frozenset({"labels", "prior"} if prior else {"labels"})
    return Method(estimator, summary, own_too, takes, needs)


PROPAGATORS: dict[str, Method] = {
    "poisson": _propagation(
        "Poisson",
        "labels as charges, for few labels (Calder et al.)",
        "center",
        "class_shares",
        prior=False,
    ),
    "gfhf": _propagation(
        "GFHF", "harmonic values, labels kept as given (Zhu et al.); try --class-mass", *_MASS
    ),
    "llgc": _propagation(
        "LLGC", "labels may be corrected (Zhou et al.); the default for graphs", "alpha", *_MASS
    ),
    "tik-reg": _propagation("TikReg", "balanced smooth regression (Belkin et al.)", "gamma"),
    "ncut": _propagation("NCutPropagation", "normalised cut near the labels", "alpha"),
    "green": _propagation(
        "GreenFunction", "Green's function (Ding et al.)", "normalized", prior=False
    ),
    "lelp": _propagation("LELP", "Laplacian eigenmaps", "orthogonal", "alpha", *_MASS),
    "gwem": _propagation(
        "GWEM",
        "walks of some steps (Szummer, Jaakkola)",
        "n_steps",
        "variant",
        "em_steps",
        *_MASS,
    ),
    "cluster-kernel": Method(
        "ClusterKernel",
        "classifier on eigenvectors (Chapelle et al.)",
        frozenset({"n_components", "rows", "refine"}) | _MASS,
        takes=frozenset({"labels"}),
        needs=frozenset({"labels"}),
    ),
    "lnp": _propagation(
        "LNP", "local linear fits (Wang, Zhang)", "alpha", "variant", "reg", *_MASS, points=True
    ),
    "llelp": _propagation(
        "LLELP", "locally linear embedding", "reg", "orthogonal", "alpha", points=True
    ),
    "ltsalp": _propagation(
        "LTSALP", "tangent spaces", "n_components", "orthogonal", "alpha", points=True
    ),
}


def propagators_of(home: str) -> list[str]:
    """Methods of `PROPAGATORS` that run on "disk" or on "ranks"."""
    import mustlink

    made = {name: getattr(mustlink, one.estimator) for name, one in PROPAGATORS.items()}
    return [name for name, one in made.items() if home in one.homes]


PREPARING = ("standardize", "log", "one_hot", "impute", "drop_missing", "drop")


def steps_of(given: dict[str, Any]) -> Preparation:
    """Take the options that prepare columns out of those of a command; raises InputError."""
    asked = {name: given.pop(name) for name in PREPARING if name in given}
    return Preparation(**{name: value for name, value in asked.items() if value})


_FLAGS = {
    "weights": "--edge-weights",
    "n_neighbors": "--neighbors",
    "random_state": "--seed",
    "graph_weights": "--view-weights",
    "n_steps": "--steps",
    "n_components": "--components",
}


def flag(parameter: str) -> str:
    """Return what a user types for a parameter of the engine."""
    return _FLAGS.get(parameter, "--" + parameter.replace("_", "-"))


def made(job: Any) -> Any:
    """The clusterer of a job with its parameters, before anything is read."""
    import mustlink

    found: Any = getattr(mustlink, METHODS[job.method].estimator)
    return found(**job.parameters(None))
