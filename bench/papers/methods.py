"""Methods as the papers name them, fits, and what is measured of a fit. Public API only."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.runner import timed

Score = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A method as a paper names it: an estimator of mustlink and its parameters.

    `derived(graph, constraints, k)` gives parameters that depend on the data. `later`: not the
    first K vectors are clustered but those after the first, which is constant, on the sphere.
    """

    name: str
    estimator: str
    options: Mapping[str, Any] = field(default_factory=dict)
    derived: Callable[..., Mapping[str, Any]] | None = None
    later: bool = False

    def make(self, k: int, **more: Any) -> Any:
        """The estimator for k clusters of a given graph."""
        import mustlink as ml

        kind = getattr(ml, self.estimator)
        given = {"affinity": "precomputed", "random_state": 0, **self.options, **more}
        return kind(n_clusters=k, **given)

    def missing(self) -> str | None:
        """Why there is no such estimator in this build, or None."""
        import mustlink as ml

        if not hasattr(ml, self.estimator):
            return f"{self.name}: mustlink has no {self.estimator}"
        try:
            self.make(2)
        except TypeError as error:
            return f"{self.name}: {error}"
        return None


def available(methods: Iterable[Method]) -> list[Method]:
    """The methods that this build has; the others are named on stdout and skipped."""
    found = []
    for method in methods:
        reason = method.missing()
        if reason is None:
            found.append(method)
        else:
            print(f"skipped {reason}")
    return found


def flexible_rule(graph: Any, constraints: Any, k: int) -> dict[str, Any]:
    """WHC11 §2.2.3: θ = λ_max(Q̄) vol (0.5 + 0.4 m/n²), as the fraction of λ_{K−1} that CSP takes.

    WHC11 takes K vectors where K > 2, and finds no solution for this θ: Q̄ must have K eigenvalues
    above θ, else InfeasibleError. (`beta="paper"`, WD14 eq. 19, is the same number times λ_{K−1}.)
    """
    import numpy as np

    from mustlink.errors import InfeasibleError

    signs = by_sign(graph, constraints, k)
    if constraints is None or constraints.is_empty:
        return signs
    root = 1 / np.sqrt(graph.degrees)
    spectrum = np.linalg.eigvalsh(root[:, None] * constraints.to_dense() * root)[::-1]
    wanted = spectrum[0] * (0.5 + 0.4 * constraints.n_constraints / graph.n_nodes**2)
    above = int((spectrum > wanted).sum())
    if k > 2 and above < k:
        raise InfeasibleError(f"at most {above} feasible vectors for the {k} that WHC11 takes")
    unit = spectrum[k - 2] if spectrum[k - 2] > 0 else spectrum[0]
    return {"beta": float(wanted / unit), **signs}


def by_sign(graph: Any, constraints: Any, k: int) -> dict[str, Any]:
    """Two clusters are the signs of one vector (WD14 §6.1, WHC11 §3.4): k-means is for K > 2."""
    return {"assign": "sign"} if k == 2 else {}


def top_vectors(graph: Any, constraints: Any, k: int) -> dict[str, Any]:
    """WHC11 §2.2.3: K vectors where K > 2, and else the sign of one."""
    return by_sign(graph, constraints, k) or {"n_vectors": k}


_EXACT = {"subspace": "exact"}
_SEARCHED = {**_EXACT, "balanced": True}
SC = Method("SC", "NCut", {"variant": "ng"})
SL = Method("SL", "SpectralLearning", {**_EXACT, "normalized": False})
SL_LATER = Method("SL, constant vector left out", SL.estimator, SL.options, later=True)
SL_BAR = Method("SL-L̄", "SpectralLearning", {**_EXACT, "normalized": True})
FCSC = Method("FCSC", "CSP", {**_EXACT, "beta": "paper", "assign": "kmeans"}, flexible_rule)
FCSC_THETA = Method(
    "FCSC-θ", "CSP", {**_SEARCHED, "beta": "search", "assign": "kmeans"}, top_vectors
)
FCSC_SP = Method("FCSC-θSP", "CSP", {**_SEARCHED, "beta": "search", "assign": "sphere"})
FCSC_2SP = Method(
    "FCSC-θ2SP", "CSP", {**_SEARCHED, "beta": "wide", "assign": "sphere"}, top_vectors
)
# The range as printed, whose upper end is next to 0, with K − 1 vectors.
FCSC_2SP_PRINTED = Method(
    "FCSC-θ2SP, printed", "CSP", {**_SEARCHED, "beta": "wide-printed", "assign": "sphere"}
)
SSSC = Method("SSSC", "SSSC", {**_EXACT, "gamma": "search"}, by_sign)
WHC11 = (SC, SL, SL_LATER, SL_BAR, FCSC, FCSC_THETA, FCSC_SP, FCSC_2SP, SSSC)
VECTORS = (
    "Two clusters are the sign of one vector. For more, the paper takes K; its rows come out with "
    "K for FCSC, FCSC-θ, SL, SL-L̄ and SSSC, with K − 1 for FCSC-θSP, and with K, or as many as are "
    "feasible, for FCSC-θ2SP: 100 values of θ within (−100 max|λ|, λ_max)·vol, ends left out."
)

CSP_TIGHT = Method("CSP, tight β", "CSP", {**_EXACT, "beta": "tight", "assign": "sign"})
# WD14 §7.3 wants one feasible vector, "the one that best conforms to Q". So does any β from a
# certain value up to λmax(Q̄): CSP_TIGHT takes the least, this one nearly the greatest.
CSP_GREAT = Method("CSP, β = 0.99", "CSP", {**CSP_TIGHT.options, "beta": 0.99})
SSKK = Method("SSKK", "SSKK")
BASELINE = Method("baseline", "NCut", {"variant": "luxburg"})
WD14 = (CSP_GREAT, CSP_TIGHT, SL, SSKK, BASELINE)

NCUT = Method("NCut", "NCut", {"variant": "luxburg"})
SSKK_2005 = Method("SSKK 2005", "SSKK", {"volume": "graph", "init": "neighborhoods"})
AP = Method("AP", "ConstrainedAP", _EXACT)
AP_AFFINITY = Method("AP, affinity", "ConstrainedAP", {**_EXACT, "prior": "affinity"})
SRCP = Method("SRCP", "SRCP")
_PRINTED = {"variant": "luxburg", "normalize": False, "new_edges": "all"}
SRCP_PRINTED = Method("SRCP as printed", "SRCP", _PRINTED)
SRCP_SCALED = Method("SRCP, F / max", "SRCP", {"variant": "luxburg", "power": 1.0})
E2CP = Method("E2CP", "E2CP")
FLI11 = (NCUT, SL, SSKK, SSKK_2005, AP, AP_AFFINITY, E2CP, SRCP_PRINTED, SRCP_SCALED, SRCP)


# ---------------------------------------------------------------- fits


def fitted(method: Method, graph: Any, k: int, constraints: Any = None) -> tuple[Any, Score]:
    """Labels of one fit, None if it ended with an error that mustlink names; seconds or error.

    The unconstrained methods get no constraints.
    """
    from mustlink.errors import MustlinkError

    given = {} if method.estimator == "NCut" else {"constraints": constraints}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            more = {} if method.derived is None else method.derived(graph, constraints, k)
            count = k + method.later
            est, seconds = timed(lambda: method.make(count, **more).fit(graph, **given))
        except MustlinkError as error:
            return None, {"error": str(error)}
    labels = of_later_vectors(est.embedding_, k) if method.later else est.labels_
    return labels, {"seconds": seconds}


def of_later_vectors(vectors: Any, k: int) -> Any:
    """k-means, 10 starts, on the unit sphere, of all vectors (n, k + 1) but the first."""
    import numpy as np
    from sklearn.cluster import KMeans

    rows = vectors[:, 1:]
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.maximum(size, 1e-300)
    return KMeans(k, n_init=10, random_state=0).fit_predict(rows)


def score(graph: Any, labels: Any, y: Any, constraints: Any = None) -> Score:
    """Rand index, ARI, MNCut (mean over clusters), shares of the constraints kept.

    `smallest` is the size of the smallest cluster, `total` the mean of the shares of must-links and
    of cannot-links, as in WHC11, `kept` the share of all pairs, as in WD14.
    """
    from sklearn.metrics import adjusted_rand_score, rand_score

    from mustlink.discretize.cuts import mncut
    from mustlink.discretize.satisfaction import satisfaction

    found: Score = {
        "smallest": int(min(Counter(labels.tolist()).values())),
        "ari": float(adjusted_rand_score(y, labels)),
        "rand": float(rand_score(y, labels)),
        # WHC11 defines a sum (eq. 2) and speaks of an average; its figures are averages
        "mncut": mncut(graph, labels) / len(set(labels.tolist())),
    }
    if constraints is not None and not constraints.is_empty:
        kept = satisfaction(labels, constraints)
        found |= {"must": kept["must_kept"], "cannot": kept["cannot_kept"], "kept": kept["kept"]}
        found["total"] = (kept["must_kept"] + kept["cannot_kept"]) / 2
    return found


def measured(method: Method, graph: Any, k: int, y: Any, constraints: Any = None) -> Score:
    """Scores of one fit, or its error."""
    labels, about = fitted(method, graph, k, constraints)
    return about if labels is None else {**about, **score(graph, labels, y, constraints)}


def all_measured(
    wanted: Iterable[Method], graph: Any, k: int, y: Any, constraints: Any = None
) -> dict[str, Score]:
    """Scores by name of all methods that this build has."""
    there = [m for m in wanted if m.missing() is None]
    return {m.name: measured(m, graph, k, y, constraints) for m in there}
