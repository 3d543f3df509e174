"""Whether representatives or all points make the graph, where both fit: decided by evidence.

A graph of all points, and two draws of representatives, are made and tried.

    labels            representatives where they predict labels held out better, by two standard
                      errors: a propagator by itself, for clusterers GFHF does
    pairs             representatives where normalised cuts, which have not seen them, of both draws
                      agree with them better than that of all points
    nothing known     representatives where the normalised cuts of the two draws agree with each
                      other, and clearly less with that of all points: what two draws see alike is
                      in the points

Otherwise all points. On seven tables and seven made sets (`bench/representatives.py`) the margin
below is exceeded where representatives are better, and nowhere else. Gaps among the eigenvalues
tell less: behind the K-th they are .68 for two noisy bananas that a graph of all points cuts in the
wrong place, and .07 for handwritten digits that it cuts right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.fit_plan import A_CLUSTER, USUAL, representatives_for
from mustlink.context.method_cost import FitInput, home_for
from mustlink.core.observe import Recorder, Unheard, parse_duration
from mustlink.core.resources import automatic_memory, named_memory, size_text
from mustlink.estimators.fit_input import input_of
from mustlink.graph import Graph

Ints = NDArray[np.int64]
_OF_GRAPHS = ("affinity", "n_neighbors", "metric", "weights", "random_state", "n_jobs", "memory")
_TIMES = 4  # points of a representative, from which they may be better
_ALIKE, _APART = 0.7, 0.15  # ARI of two draws at least, and by how much less with all points
_BETTER, _ENOUGH = 0.05, 15  # agreement with what is known, and how much that is at least
_ERRORS = 2.0  # standard errors of the difference
_ROW = 100  # bytes of a point for shares and labels of two draws
_SEEN = 20_000  # rows whose clusters are compared
_FOLDS = 3  # of labels, in turn held out
STAGE = "choosing representatives or all points"


@dataclass(frozen=True)
class Verdict:
    """Whether representatives make the graph, and why."""

    represented: bool
    why: str


def candidates(
    estimator: Any, kind: Any, p: int, seed: int, clusters: int | None = None
) -> list[Any]:
    """Estimators of a class, of all points and of two draws of p, that make the graphs of one.

    Unfitted. With all of its parameters, or with those of the graph where `clusters` are to be
    found.
    """
    own = kind._get_param_names() if clusters is None else _OF_GRAPHS
    how = {key: value for key, value in estimator.get_params().items() if key in own}
    if clusters is not None:
        how["n_clusters"] = clusters
    if not isinstance(estimator.random_state, int):
        how["random_state"] = seed
    made = [kind(**{**how, "representatives": None}), kind(**{**how, "representatives": p})]
    made.append(kind(**{**how, "representatives": p, "random_state": seed + 1}))
    return [one.keep_in(None).allow(estimator._allowed) for one in made]


def why_not(estimator: Any, data: FitInput | None, recorder: Recorder, clusters: int) -> str:
    """Why nothing is tried, "" where it is: few points, other input, too little room or time."""
    if data is None or not data.d or data.searched:
        return "not dense points with Euclidean or cosine distances"
    if data.n < _TIMES * representatives_of(clusters):
        return f"{data.n:,} points are few"
    if recorder.deadline.is_set:
        return "a time limit leaves none to try representatives"
    limit = estimator._budget
    if limit is None:
        return ""
    room = limit - _ROW * data.n
    if home_for(room, estimator.cost(), data).name != "memory":
        return f"{size_text(limit)} leave no room to try representatives beside it"
    return ""


def automatic_representatives(estimator: Any, X: Any) -> tuple[int | None, str]:
    """How many "auto" takes for X, and why."""
    found = input_of(X, None, estimator.affinity, estimator.n_neighbors, estimator.metric)
    if found is None or found[0].searched:
        return None, "not dense points with Euclidean or cosine distances"
    limit = (named_memory(estimator.memory) or estimator._allowed or automatic_memory()).limit
    clusters = getattr(estimator, "n_clusters", None)
    k = clusters if isinstance(clusters, int) else 0
    seconds = math.inf if estimator.time_limit is None else parse_duration(estimator.time_limit)
    return representatives_for(limit, seconds, estimator.cost(), found[0], k)


def representatives_of(clusters: int) -> int:
    """How many are tried."""
    return max(USUAL, A_CLUSTER * clusters)


def of_clusters(fitted: Sequence[Any], known: Constraints, seed: int) -> Verdict:
    """By pairs, or by two draws that agree."""
    found = _agreement(fitted, known)
    if found is not None:
        scores, what = found
        least = min(scores[1:])
        better = least > scores[0] + _BETTER
        why = f"agreement with {what} {scores[0]:.2f} by all points, {least:.2f} and more by draws"
        return Verdict(better, why)
    n = fitted[0].labels_.size
    rows = np.arange(n)
    if n > _SEEN:
        rows = np.sort(np.random.default_rng(seed).choice(n, _SEEN, replace=False))
    whole, *draws = (one.labels_[rows] for one in fitted)
    alike = _ari(*draws)
    with_all = max(_ari(one, whole) for one in draws)
    is_better = alike >= _ALIKE and alike - with_all >= _APART
    why = f"clusters of two draws of representatives agree by {alike:.2f} with each other, by "
    return Verdict(is_better, f"{why}{with_all:.2f} with those of all points")


def of_labels(
    made: Sequence[Any],
    inputs: Sequence[Any],
    labels: Any,
    folds: Sequence[Ints],
    recorder: Recorder | None,
) -> Verdict:
    """By labels (n,) held out by three folds, of propagators; they are fitted to an input each."""
    right: list[NDArray[np.float64]] = []
    for one, X in zip(made, inputs, strict=True):
        found = []
        for number, fold in enumerate(folds[:_FOLDS]):
            some = labels.copy()
            some[fold] = -1
            if number:
                one.refit(some, observer=recorder)
            else:
                one.fit(X, some, observer=recorder)
            found.append(one.labels_[fold] == labels[fold])
        right.append(np.concatenate(found).astype(np.float64))
    gain = np.mean(right[1:], axis=0) - right[0]
    error = float(gain.std() / np.sqrt(gain.size))
    better = gain.size >= _ENOUGH and float(gain.mean()) > max(_ERRORS * error, 1e-9)
    shares = [float(one.mean()) for one in right]
    rate = float(np.mean(shares[1:]))
    return Verdict(
        better, f"{shares[0]:.1%} of {gain.size} held-out labels right by all points, {rate:.1%} by"
        " representatives",
    )  # fmt: skip


def graph_by_evidence(
    estimator: Any,
    X: Any,
    data: FitInput | None,
    recorder: Recorder,
    clusters: int,
    verdict: Callable[[int, Recorder], tuple[Sequence[Any], Verdict]],
) -> Graph | None:
    """The graph of points X, chosen among fits that `verdict(p, recorder)` tried; with a note.

    None where nothing is tried, or memory or time leave no choice: the usual way makes it then.
    """
    if estimator.representatives != "auto" or estimator._n_representatives(X) is not None:
        return None
    no = why_not(estimator, data, recorder, clusters)
    if no:
        estimator._represented = X, None, no
        return None
    p = representatives_of(clusters)
    quiet = Recorder(Unheard(), recorder.deadline)
    quiet.budget = recorder.budget
    with recorder.stage(STAGE):
        made, found = verdict(p, quiet)
    graph: Graph = made[1 if found.represented else 0].graph_
    took = f"{graph.n_nodes:,} stand for all points" if found.represented else "all points"
    recorder.note(f"representatives: {took}: {found.why}")
    return graph


def _agreement(fitted: Sequence[Any], known: Constraints) -> tuple[list[float], str] | None:
    """How far clusters agree with pairs, mean of both rates; None where there are too few."""
    pairs, belief = known.merged
    must = belief > 0
    if min(np.count_nonzero(must), np.count_nonzero(belief < 0)) < _ENOUGH:
        return None
    scores = []
    for one in fitted:
        own = one.labels_[pairs]
        same = own[:, 0] == own[:, 1]
        scores.append(float(same[must].mean() + (~same[belief < 0]).mean()) / 2)
    return scores, f"{belief.size:,} pairs"


def _ari(one: NDArray[Any], other: NDArray[Any]) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(one, other))
