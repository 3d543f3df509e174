"""The methods behind `-m`: one row each, read by the command line and by the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustlink.preprocessing.request import Preparation

if TYPE_CHECKING:
    from mustlink_io.formats.data import Want

GRAPH_OPTIONS = frozenset({"affinity", "n_neighbors", "metric", "weights"})
COMMON_OPTIONS = GRAPH_OPTIONS | {"max_iter", "isolated", "random_state", "graph_weights"}
PROPAGATION_OPTIONS = GRAPH_OPTIONS | {"random_state", "graph_weights"}
KINDS = ("must", "cannot", "labels", "graph")  # of constraints, that weigh differently
EQUAL, SMOOTHED = "equal", "smoothed"  # class shares by name
_LIMITS = frozenset({"n_clusters", "n_jobs", "memory", "time_limit", "classifier"})
_NOTHING: frozenset[str] = frozenset()
_LABELS = frozenset({"labels"})
_ANY_SIDE = frozenset({"labels", "constraints"})
_PRIOR = frozenset({"labels", "prior"})
_POINTS = frozenset({"labels", "points"})


@dataclass(frozen=True)
class Method:
    """An estimator of the engine: side information that it takes, and what it needs.

    `takes` is a part of {labels, constraints, prior}, `needs` of {labels, points}; `reads` is what
    files are read as, whatever they look like. `unused` are parameters that do nothing in it,
    `shares` says that class shares are for it though it has no class masses.
    """

    estimator: str
    summary: str
    takes: frozenset[str] = _ANY_SIDE
    needs: frozenset[str] = _NOTHING
    reads: Want | None = None
    unused: frozenset[str] = _NOTHING
    shares: bool = False

    @property
    def options(self) -> frozenset[str]:
        """Its options: parameters of the estimator, and shares where it has masses of classes."""
        import mustlink

        made = getattr(mustlink, self.estimator, None)
        if made is None:
            return _NOTHING
        found = set(made._get_param_names()) - _LIMITS - self.unused
        if hasattr(made, "_are_masses") and not made()._are_masses():
            found.discard("class_mass")
        if "class_mass" in found or self.shares:
            found.add("class_shares")
        return frozenset(found)

    def runs_in(self, home: str) -> bool:
        """Whether it runs on "disk" or on "ranks"."""
        import mustlink

        return home in getattr(mustlink, self.estimator).homes


METHODS: dict[str, Method] = {
    "ncut": Method("NCut", "normalised cut, without side information", takes=_NOTHING),
    "csp": Method("CSP", "constrained spectral clustering (Wang, Qian, Davidson)"),
    "disim": Method(
        "DISIM", "directed graphs by singular vectors (Rohe, Qin, Yu)", reads="directed"
    ),
    "sssc": Method("SSSC", "penalised Laplacian (Wacquet et al.)"),
    "sl": Method("SpectralLearning", "weights overwritten (Kamvar, Klein, Manning)"),
    "ap": Method("ConstrainedAP", "Gaussian process on the graph (Lu, Carreira-Perpiñán)"),
    "fast-ge": Method("FastGE", "pencil of two Laplacians (Cucuringu et al.)"),
    "srcp": Method("SRCP", "pairs spread by a Lyapunov equation (Fu, Lu et al.)"),
    "e2cp": Method("E2CP", "pairs spread by rows, then columns (Lu, Ip)"),
    "sskk": Method("SSKK", "kernel k-means with penalties (Kulis et al.)"),
    "csc-gfhf": Method(
        "CSCGFHF",
        "similarity of propagated labels (Wang, Qian, Davidson 2012), labels only",
        takes=_LABELS,
        needs=_LABELS,
    ),
}
SPREADING = ("srcp", "e2cp")


def at_scale(method: str) -> frozenset[str]:
    """Options of a clusterer where nodes are on disk or on ranks; not with every value."""
    taken = METHODS[method].options - (COMMON_OPTIONS - {"max_iter", "random_state"})
    if method in SPREADING:
        return taken
    return taken - ({"init"} if method == "ncut" else set())


PROPAGATORS: dict[str, Method] = {
    "poisson": Method(
        "Poisson",
        "labels as charges, for few labels (Calder et al.)",
        takes=_LABELS,
        needs=_LABELS,
        shares=True,
    ),
    "gfhf": Method(
        "GFHF",
        "harmonic values, labels kept as given (Zhu et al.); try --class-mass",
        _PRIOR,
        _LABELS,
    ),
    "llgc": Method(
        "LLGC", "labels may be corrected (Zhou et al.); the default for graphs", _PRIOR, _LABELS
    ),
    "tik-reg": Method("TikReg", "balanced smooth regression (Belkin et al.)", _PRIOR, _LABELS),
    "ncut": Method("NCutPropagation", "normalised cut near the labels", _PRIOR, _LABELS),
    "green": Method("GreenFunction", "Green's function (Ding et al.)", _LABELS, _LABELS),
    "lelp": Method("LELP", "Laplacian eigenmaps", _PRIOR, _LABELS),
    "gwem": Method("GWEM", "walks of some steps (Szummer, Jaakkola)", _PRIOR, _LABELS),
    "cluster-kernel": Method(
        "ClusterKernel",
        "classifier on eigenvectors (Chapelle et al.)",
        _LABELS,
        _LABELS,
        unused=frozenset({"solver", "tol", "max_iter"}),
    ),
    "lnp": Method("LNP", "local linear fits (Wang, Zhang)", _PRIOR, _POINTS),
    "llelp": Method("LLELP", "locally linear embedding", _PRIOR, _POINTS),
    "ltsalp": Method("LTSALP", "tangent spaces", _PRIOR, _POINTS),
}


def running_in(home: str, methods: Mapping[str, Method]) -> list[str]:
    """Names of the methods that run on "disk" or on "ranks"."""
    return [name for name, one in methods.items() if one.runs_in(home)]


PREPARING = ("standardize", "one_hot", "impute", "drop_missing", "drop")


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
