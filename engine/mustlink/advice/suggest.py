"""`suggest`: a profile of the data and the side information, and the method for such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mustlink.advice.baseline import Baseline, baseline
from mustlink.advice.observations import (
    DEFAULT_CLUSTERS,
    Coordinates,
    Count,
    DataProfile,
    Floats,
    Known,
    are_counts,
    count_of_graph,
    data_warnings,
    is_square,
    kind_of_graph,
    look_at_graph,
    look_at_points,
    readable,
    row_numbers,
    sampled_rows,
    take,
)
from mustlink.advice.stability import Comparison, choose_metric, look_at_side
from mustlink.constraints import Constraints
from mustlink.context.method_cost import FitInput, Size, home_for
from mustlink.context.neighbor_cost import SYMMETRIC, knn_plan
from mustlink.core.check import as_integer, as_random_state, check_n_clusters
from mustlink.core.names import estimator_of
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.resources import AUTO, automatic_memory, named_memory, size_text
from mustlink.errors import InputError
from mustlink.estimators.fit_input import known_of
from mustlink.graph import Graph
from mustlink.graph.forms import unwrapped
from mustlink.kernels.threads import threads
from mustlink.neighbors import knn_graph
from mustlink.preprocessing.fitted import PreparedRows, without
from mustlink.preprocessing.fitted import prepared as prepare
from mustlink.preprocessing.mixed import points_of_table
from mustlink.preprocessing.request import Preparation, column_title, listed
from mustlink.selection.cluster_count import enough_pairs

_NEIGHBORS = 15
CHOOSES, SPREADS = "Auto", "GFHF"


def suggest(
    X: Any,
    y: Any = None,
    constraints: Constraints | None = None,
    *,
    n_clusters: int | None = None,
    graph: Any = None,
    memory: int | str | None = AUTO,
    feature_names: Sequence[str] | None = None,
    random_state: Any = None,
    observer: Observer | Recorder | None = None,
    prepared: bool = False,
) -> Suggestion:
    """Look at data and side information and name a method, parameters and the reasons.

    `X` are points (n, d), also rows that are read by blocks, a square sparse affinity, or a Graph;
    `graph` a Graph of these points, which is used instead of one of a sample. `y` (n,) labels,
    numbers with -1 for unknown or names of classes, `constraints` as of the clusterers. Without
    `n_clusters` K is the number of classes among the labels, else counted as clusterers do with
    n_clusters="auto". `memory`, as "2GB", goes into the parameters and is compared with the need of
    the method; "auto", the default of the estimators as well, is what there is. `feature_names`
    (d,) of the columns are for reasons, by default those of a data frame. A data frame with words,
    dates or empty cells is made points as a fit makes them; points that are `prepared` stay as they
    are.

    Of more than some thousand points a sample is taken: the same `random_state` (None: 0) gives the
    same suggestion. Labels are held out of fits to a sample, see `baseline`; there is no fit to all
    data. Raises InputError. Cost: at most a few seconds for a million points, O(n + nnz) for
    graphs; to count the clusters of a network takes ten seconds or more.
    """
    recorder = recorded(observer)
    recorder.estimator = "suggest"
    rng = as_random_state(0 if random_state is None else random_state)
    named = named_memory(memory)
    allowed = automatic_memory() if named is None else named
    changes: tuple[str, ...] = ()
    X = unwrapped(X)
    is_graph = isinstance(X, Graph) or is_square(X)
    if is_graph and graph is not None:
        raise InputError("graph: X is a graph itself; leave graph out, or give points as X")
    with threads(None):
        if is_graph:
            with recorder.stage("checking the graph"):
                data = X if isinstance(X, Graph) else Graph.from_affinity(X)
            known = known_of(data.n_nodes, y, constraints)
            seen = _seen_graph(data, known, n_clusters, rng, recorder)
        else:
            names = getattr(X, "columns", ()) if feature_names is None else feature_names
            table = points_of_table(X)
            if table is not None:
                X, fitted = table
                names, prepared = [fitted.columns[at].name for at in fitted.sources], True
            points, missing = readable(X)
            known = known_of(int(points.shape[0]), y, constraints)
            columns = tuple(str(name) for name in names)
            seen, changes, points = _seen_points(
                points, columns, known, n_clusters, graph, rng, recorder, prepared=prepared
            )
            changes = changes if table is None else fitted.notes
            if missing:
                steps = replace(seen.preparation, impute="mean")
                seen = replace(seen, preparation=steps)
                changes = ("cells without a value are filled with means", *changes)
    given = allowed.limit
    seen = replace(seen, memory=None if named is None else given)
    method, reason, alternatives = _chosen(seen)
    parameters: dict[str, Any] = {}
    if method != SPREADS:
        count = seen.count
        parameters = {"n_clusters": "auto" if count.source == "later" else count.k}
    if seen.kind != "points":
        parameters = {**parameters, "affinity": "precomputed"}
    elif seen.metric != "euclidean":
        parameters = {**parameters, "metric": seen.metric}
    if named is not None:
        parameters = {**parameters, "memory": memory}
    peak, least = _needed_bytes(seen, method, parameters)
    short: tuple[str, ...] = ()
    if given is not None and least > given:
        short = (
            f"memory: {allowed.words}, but the method needs at least {size_text(least, up=True)}",
        )
    reasons = [reason, *_count_reason(seen, parameters)]
    reasons += [seen.metric_reason] if seen.metric_reason else []
    reasons += changes
    suggestion = Suggestion(
        method=method,
        parameters=parameters,
        reasons=tuple(reasons),
        alternatives=alternatives,
        warnings=(*short, *data_warnings(seen)),
        peak_bytes=peak,
        seen=seen,
    )
    if is_graph or known.kind != "labels" or known.classes.size < 2:
        return suggestion
    with threads(None), recorder.stage("labels held out"):
        equal = seen.known.least == seen.known.most
        ours = estimator_of(SPREADS)(class_mass="equal" if equal else True, metric=seen.metric)
        found = baseline(points, known.labels, ours, random_state=rng)
    worse = () if found is None or found.doubt is None else (found.doubt,)
    return replace(suggestion, baseline=found, warnings=(*worse, *suggestion.warnings))


def _kind(method: str) -> Any:
    """The class of a method, or the one that chooses among them."""
    if method != CHOOSES:
        return estimator_of(method)
    from mustlink.advice.auto import Auto

    return Auto


def _chosen(seen: DataProfile) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """The method, why, and others with when to take them: `Auto` where it can compare some.

    Strokes on pictures: mean IoU of five GrabCut photographs .643 by GFHF, .570 by LLGC.
    """
    known = seen.known
    if known.kind == "none":
        reason = (
            f"nothing is known beside the {seen.n:,} nodes: the graph alone decides, by its "
            "normalised cut"
        )
        return "NCut", reason, (("CSP", "as soon as a few labels or pairs are known"),)
    if seen.kind == "pixels" and known.kind == "labels" and known.classes == seen.count.k >= 2:
        reason = (
            f"the nodes are pixels, {known.labelled:,} of them labelled: strokes are held, and "
            "spread until they meet along the edges of the picture; StrokeCut on the picture "
            "itself (mustlink cut) also knows their colours"
        )
        careless = ("LLGC", "strokes are not drawn with care: it may overrule them")
        return SPREADS, reason, (careless, ("CSP", "many sets of strokes are tried (refit)"))
    if known.kind not in ("labels", "pairs", "mixed") or seen.kind == "pixels":
        reason = (
            f"labels, pairs or a second graph, about {known.nodes:,} nodes and {seen.count.k} "
            "clusters: one problem takes all of them"
        )
        return "CSP", reason, (("SSSC", "a weight for what is known (gamma) is to be set by hand"),)
    reason = (
        f"of {known.nodes:,} nodes something is known: a few methods are tried without a part of "
        "it, and the one that predicts that part best is fitted"
    )
    quick = ("CSP", "no trials; something may be wrong, or changes often (refit)")
    if known.kind == "labels":
        return CHOOSES, reason, ((SPREADS, "no trials; labels are certain"), quick)
    return CHOOSES, reason, (("SRCP", "no trials; a pair for every other node, or more"), quick)


def _seen_points(
    points: Any,
    columns: tuple[str, ...],
    known: Constraints,
    n_clusters: int | None,
    graph: Any,
    rng: np.random.Generator,
    recorder: Recorder,
    *,
    prepared: bool,
) -> tuple[DataProfile, tuple[str, ...], Any]:
    """The profile, the reasons to prepare columns, and the prepared points."""
    n, d = (int(size) for size in points.shape)
    if columns and len(columns) != d:
        raise InputError(f"feature_names: {len(columns)} given for {d} columns; give one a column")
    with recorder.stage("looking at the points"):
        rows = sampled_rows(points, rng)
        X = take(points, rows)
        stay = prepared or graph is not None
        numbers = () if stay else row_numbers(X, n)
        coordinates = look_at_points(without(X, numbers))
    with recorder.stage("looking at the side information"):
        comparison = Comparison(known, rng)
        side = replace(look_at_side(known), repeated=comparison.repeated(points))
        steps, changes = choose_columns(X, coordinates, columns, numbers)
        if stay:
            steps, changes = Preparation(), ()
        if not steps.is_nothing:
            fitted = prepare(X, steps).fitted
            points, X = PreparedRows(points, fitted, None), fitted.transform(X)
        metric, why, agreement = choose_metric(points, coordinates, comparison)
        side = replace(side, agreement=agreement, compared=comparison.size)
    seed = int(rng.integers(2**31 - 1))
    if graph is not None:
        own = graph if isinstance(graph, Graph) else Graph.from_affinity(graph)
        if own.n_nodes != n:
            raise InputError(
                f"graph: {own.n_nodes} nodes for {n} points; give that of these points"
            )
    elif n < 2:
        raise InputError("points: one point given; there is nothing to cluster")
    else:
        with recorder.stage("neighbours in the sample"):
            own = knn_graph(
                X, min(_NEIGHBORS, len(X) - 1), metric=metric, connect=False, random_state=seed
            )
    with recorder.stage("looking at the graph"):
        links = look_at_graph(own)
    count = _count(n, n_clusters, side, own, seed, recorder)
    seen = DataProfile("points", n, d, len(rows), metric, why, coordinates, links, side, count)
    return replace(seen, preparation=steps, columns=columns), changes, points


def _seen_graph(
    data: Graph,
    known: Constraints,
    n_clusters: int | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> DataProfile:
    n = data.n_nodes
    seed = int(rng.integers(2**31))  # as clusterers draw theirs first: they count the same
    with recorder.stage("looking at the graph"):
        links = look_at_graph(data)
        kind = kind_of_graph(data)
    with recorder.stage("looking at the side information"):
        side = look_at_side(known)
    count = _count(n, n_clusters, side, data, seed, recorder)
    return DataProfile(kind, n, 0, n, "euclidean", "", None, links, side, count)


def _count(
    n: int, given: int | None, side: Known, graph: Graph, seed: int, recorder: Recorder
) -> Count:
    """K of the input, of the classes, or of the spectrum."""
    if given is not None:
        return Count(check_n_clusters(as_integer(given, "n_clusters", 2), n), "given")
    if side.classes >= 2:
        return Count(side.classes, "labels")
    if enough_pairs(side.must, side.cannot):
        return Count(DEFAULT_CLUSTERS, "later")
    with recorder.stage("spectrum"):
        return count_of_graph(graph, seed)


def _needed_bytes(seen: DataProfile, method: str, parameters: dict[str, Any]) -> tuple[int, int]:
    """Bytes at the peak of a fit without a limit, and the least that works.

    Counted as `mustlink plan` does, by `GraphEstimator.cost`.
    """
    estimator = _kind(method)(**parameters)
    n, cost = seen.n, estimator.cost(seen.count.k)
    if seen.kind != "points":
        size = Size(n, 2 * seen.links.edges)
        least = home_for(None, cost, FitInput(n, size.nnz)).least
        return cost.of_given().peak(size, single=False, usual=True), least
    k = min(estimator.n_neighbors, max(n - 1, 1))
    size, given = Size(n, int(SYMMETRIC * n * k)), FitInput(n, 0, seen.d, k, n)
    free = knn_plan(n, seen.d, k, None, held=given.points)
    solving = given.points + cost.peak(size, single=False, usual=True)
    return max(free.peak_bytes, solving), home_for(None, cost, given).least


def _count_reason(seen: DataProfile, parameters: dict[str, Any]) -> list[str]:
    """The source of K, if it is a parameter that was not given."""
    count = seen.count
    if "n_clusters" not in parameters or count.source in ("given", "default", "later"):
        return []
    if count.source == "labels":
        return [f"labels are of {count.k} classes: n_clusters={count.k}"]
    of = "" if seen.kind != "points" else f" in the graph of {seen.sampled:,} points"
    return [f"{count.reason}{of}: n_clusters={count.k}"]


# --- The suggestion: a method with parameters, reasons, alternatives and warnings


@dataclass(frozen=True)
class Suggestion:
    """A method (class name) and parameters for it, with the reasons as plain sentences.

    `alternatives` are pairs of a method and when to take it instead, `warnings` what a person
    should look at first, `peak_bytes` about the memory at the peak of a fit, `seen` the profile of
    the data, `baseline` the comparison with rivals on labels held out, None where they are too few.
    """

    method: str
    parameters: Mapping[str, Any]
    reasons: tuple[str, ...]
    alternatives: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    peak_bytes: int
    seen: DataProfile = field(repr=False)
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        """Make the parameters read-only."""
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def preparation(self) -> Preparation:
        """Steps for the columns of the points before the fit."""
        return self.seen.preparation

    def estimator(self) -> Any:
        """A new estimator with these parameters, not fitted.

        With steps for the columns, a pipeline of scikit-learn that takes them first.
        """
        made = _kind(self.method)(**self.parameters)
        steps = transformers(self.preparation)
        return make_pipeline(*steps, made) if steps else made

    def __str__(self) -> str:
        """The method with its parameters, reasons and warnings."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        reasons = [f"because {reason}" for reason in self.reasons]
        warnings = [f"warning: {warning}" for warning in self.warnings]
        return "\n".join([f"{self.method}({values})", *reasons, *warnings])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "preparation": self.preparation.to_dict(),
            "reasons": list(self.reasons),
            "alternatives": [{"method": name, "when": when} for name, when in self.alternatives],
            "warnings": list(self.warnings),
            "peak_bytes": self.peak_bytes,
            "seen": self.seen.to_dict(),
            "baseline": None if self.baseline is None else self.baseline.to_dict(),
        }


# --- Columns of different units, found by their values, and the steps that make them comparable

_UNLIKE = 10.0  # times the median of the other columns: standard deviation, and range
_OF_ONE_KIND = 0.95  # rank correlation of falling deviations, as principal components have them


def choose_columns(
    X: Floats, c: Coordinates, names: Sequence[str] = (), numbers: Sequence[int] = ()
) -> tuple[Preparation, tuple[str, ...]]:
    """Steps for the columns of a sample X (m, d), and the reasons.

    Columns of different units are standardised. The columns `numbers` hold row numbers and are left
    out. `names` of the columns are for the reasons.
    """
    steps, reasons = Preparation(drop=tuple(numbers)), list[str]()
    if numbers:
        titles, verb = column_title(numbers[0], names), "only numbers the rows and is"
        if len(numbers) > 1:
            titles, verb = f"columns {listed(numbers, names)}", "only number the rows and are"
        reasons.append(f"{titles}: {verb} left out")
    if not are_counts(c, X.shape[1]) and has_unlike_columns(without(X, numbers)):
        steps = Preparation(drop=steps.drop, standardize="standard")
        reasons.append(
            f"{column_title(c.largest, names)} makes up {c.dominance:.0%} of all variance, its "
            f"standard deviation is {c.spread:,.0f} times the median one: columns are divided by "
            "their standard deviations"
        )
    return steps, tuple(reasons)


def has_unlike_columns(X: Floats) -> bool:
    """Whether few columns are nearly all of the distances by their unit alone.

    The largest standard deviation and range are 10 times the median ones of the other columns, and
    the variance is in at most half of the columns, (Σv)²/Σv² ≤ d/2. Not so of principal components
    (uncorrelated, falling), nor of shares of a whole.
    """
    spread, extent = X.std(axis=0, dtype=np.float64), np.ptp(X, axis=0).astype(np.float64)
    varies = spread > 0
    s, e = spread[varies], extent[varies]
    if s.size < 2:
        return False
    far = all(np.max(x) >= _UNLIKE * np.median(np.sort(x)[:-1]) for x in (s, e))
    v = s**2
    few = v.sum() ** 2 <= np.square(v).sum() * max(s.size / 2, 1.0001)
    total = X.sum(axis=1, dtype=np.float64)
    are_shares = X.min() >= 0 and total.min() > 0 and np.ptp(total) <= 1e-3 * total.mean()
    return bool(far and few and not _are_components(X[:, varies], s) and not are_shares)


def _are_components(X: Floats, spread: NDArray[np.float64]) -> bool:
    d = spread.size
    if d < 5:
        return False
    ranks = np.empty(d)
    ranks[np.argsort(-spread)] = np.arange(d)
    falls = np.corrcoef(ranks, np.arange(d))[0, 1] >= _OF_ONE_KIND
    apart = np.abs(np.corrcoef(X, rowvar=False, dtype=np.float64) - np.eye(d)).mean() < 0.1
    return bool(falls and apart)


def transformers(steps: Preparation) -> list[Any]:
    """scikit-learn's transformers for the steps, in order."""
    found: list[Any] = []
    if steps.impute:
        found.append(SimpleImputer(strategy=steps.impute))
    if steps.drop:
        dropped = [("drop", "drop", list(steps.drop))]
        found.append(ColumnTransformer(dropped, remainder="passthrough"))
    if steps.standardize:
        found.append(StandardScaler())
    return found
