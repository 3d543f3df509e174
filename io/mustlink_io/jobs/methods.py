"""The methods behind `-m`: one row each, read by the command line and by the jobs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mustlink.core.state import unbound
from mustlink.preprocessing.request import Preparation

if TYPE_CHECKING:
    from mustlink_io.formats.datasets import Want

GRAPH_OPTIONS = frozenset({"affinity", "n_neighbors", "metric", "weights", "representatives"})
KINDS = ("must", "cannot", "labels", "graph")  # of constraints, that weigh differently
EQUAL, SMOOTHED = "equal", "smoothed"  # class shares by name
_LIMITS = frozenset({"n_clusters", "n_jobs", "memory", "time_limit", "classifier", "answers"})
_LIMITS |= {"preprocessing"}


def keeps_sparse(params: Mapping[str, Any]) -> bool:
    """Whether options of a graph are for sparse rows, too."""
    from mustlink.neighbors.sparse_points import SPARSE

    dense = params.get("affinity") == "rbf"
    return not dense and params.get("metric", "auto") in ("auto", *SPARSE)


@dataclass(frozen=True)
class Method:
    """An estimator of the engine; `reads` is what files are read as, whatever they look like.

    `takes_only` is its side information where that is not labels and constraints of a clusterer, or
    labels and a prior of a propagator, which all need labels; `unused` are parameters that do
    nothing in it.
    """

    estimator: str
    summary: str
    takes_only: tuple[str, ...] | None = None
    needs_labels: bool = False
    reads: Want | None = None
    unused: tuple[str, ...] = ()

    @property
    def kind(self) -> Any:
        """The class of the engine."""
        import mustlink

        return getattr(mustlink, self.estimator)

    @property
    def spreads(self) -> bool:
        """Whether it is a propagator."""
        return hasattr(self.kind, "_minimises")

    @cached_property
    def takes(self) -> frozenset[str]:
        """Side information, of labels, constraints and prior."""
        usual = ("labels", "prior" if self.spreads else "constraints")
        return frozenset(usual if self.takes_only is None else self.takes_only)

    @cached_property
    def needs(self) -> frozenset[str]:
        """What it cannot do without, of labels and points."""
        points = {"points"} if self.spreads and self.kind._needs_points else set()
        return frozenset(points | ({"labels"} if self.spreads or self.needs_labels else set()))

    @cached_property
    def options(self) -> frozenset[str]:
        """Its options: parameters of the estimator, and shares where it has sizes of classes."""
        found = set(inspect.signature(self.kind).parameters) - _LIMITS - set(self.unused)
        if "class_mass" in found and (not self.spreads or unbound(self.kind)._scales_classes):
            found.add("class_shares")
        if self.spreads and not unbound(self.kind)._are_masses:
            found.discard("class_mass")
        return frozenset(found)


METHODS: dict[str, Method] = {
    "ncut": Method("NCut", "normalised cut, without side information", takes_only=()),
    "csp": Method("CSP", "constrained spectral clustering (Wang, Qian, Davidson)"),
    "disim": Method(
        "DISIM",
        "directed graphs by singular vectors (Rohe, Qin, Yu)",
        ("labels",),
        reads="directed",
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
        takes_only=("labels",),
        needs_labels=True,
    ),
    "auto": Method("Auto", "of a few methods the one that predicts best what is held out"),
}
PROPAGATORS: dict[str, Method] = {
    "poisson": Method(
        "Poisson", "labels as charges, for few labels (Calder et al.)", takes_only=("labels",)
    ),
    "gfhf": Method(
        "GFHF", "harmonic values, labels stay as they are (Zhu et al.); try --class-mass"
    ),
    "llgc": Method("LLGC", "labels may be corrected (Zhou et al.); the default for graphs"),
    "tik-reg": Method("TikReg", "balanced smooth regression (Belkin et al.)"),
    "ncut": Method("NCutPropagation", "normalised cut near the labels"),
    "green": Method("GreenFunction", "Green's function (Ding et al.)", takes_only=("labels",)),
    "lelp": Method("LELP", "Laplacian eigenmaps"),
    "gwem": Method("GWEM", "walks of some steps (Szummer, Jaakkola)"),
    "cluster-kernel": Method(
        "ClusterKernel",
        "classifier on eigenvectors (Chapelle et al.)",
        takes_only=("labels",),
        unused=("solver", "tol", "max_iter"),
    ),
    "lnp": Method("LNP", "local linear fits (Wang, Zhang)"),
    "llelp": Method("LLELP", "locally linear embedding"),
    "ltsalp": Method("LTSALP", "tangent spaces"),
    "auto": Method(
        "Auto", "the one that predicts best the labels held out", ("labels", "prior"), True
    ),
}


PREPARING = ("standardize", "one_hot", "impute", "drop_missing", "drop")


def steps_of(options: dict[str, Any]) -> Preparation:
    """Take the options that prepare columns out of those of a command; raises InputError."""
    steps = {name: options.pop(name) for name in PREPARING if name in options}
    return Preparation(**{name: value for name, value in steps.items() if value})


_FLAGS = {
    "weights": "--edge-weights",
    "n_neighbors": "--neighbors",
    "random_state": "--seed",
    "graph_weights": "--view-weights",
    "n_steps": "--steps",
    "n_components": "--components",
    "n_clusters": "-k",
    "method": "-m",
}


def flag(parameter: str) -> str:
    """Return what a user types for a parameter of the engine."""
    return _FLAGS.get(parameter, "--" + parameter.replace("_", "-"))


def opposite(flag: str) -> str:
    """Return what switches a flag off."""
    return "--unbalanced" if flag == "--balanced" else flag.replace("--", "--no-", 1)
