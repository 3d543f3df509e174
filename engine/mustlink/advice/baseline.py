"""Does the graph help? Labels held out, answered by a method and by three that know no graph.

1-NN answers with the class of the nearest labelled point, seeded k-means starts at the means of the
classes (Basu, Banerjee & Mooney 2002), extra trees see the labelled points only (Geurts, Ernst &
Wehenkel 2006). All are asked on a sample of the points, so that the cost is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, RobustScaler, StandardScaler

from mustlink.advice.agreement import Comparison
from mustlink.advice.observations import (
    RUN,
    Coordinates,
    Floats,
    are_counts,
    is_square,
    readable,
    take,
)
from mustlink.advice.sampled_method import Ours
from mustlink.check import as_random_state
from mustlink.cost.method_cost import sample_rows
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.threads import threads
from mustlink.labels import as_labels, encoded
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.preparation.fitted import Fitted, prepared
from mustlink.preparation.request import Preparation, column_title, listed
from mustlink.preparation.survey import spans_orders, without
from mustlink.rounding.assign import dealt, seeded_kmeans

Ints = NDArray[np.int64]

_LABELS = 600  # that are looked at
_FOLDS = 3
_LEAST = 6  # labels held out, below which nothing is said
_TREES = 50
_CHANCE = 0.05  # of a doubt where there is none, over the three rivals together
# Where seeded k-means will do: labels held out, its share of them, and what it may be behind.
_TELLING, _ROUND, _AS_GOOD = 20, 0.9, 0.01
_ALL_KNOWN = 0.5  # share of the sample's points above which the labels leave nothing to learn from

NEAREST, SEEDED, TREES = "1-NN", "seeded k-means", "extra trees"
_LINES = {
    NEAREST: (
        "from sklearn.neighbors import KNeighborsClassifier",
        "answer = KNeighborsClassifier(1).fit(X[y >= 0], y[y >= 0]).predict(X)",
    ),
    SEEDED: (
        "from sklearn.cluster import KMeans",
        "answer = KMeans(K, init=[X[y == c].mean(0) for c in range(K)], n_init=1).fit_predict(X)",
    ),
    TREES: (
        "from sklearn.ensemble import ExtraTreesClassifier",
        "answer = ExtraTreesClassifier(500).fit(X[y >= 0], y[y >= 0]).predict(X)",
    ),
}


@dataclass(frozen=True)
class Baseline:
    """How many of `held_out` labels are answered rightly, by whom, on `sampled` points.

    `method` was fitted to the neighbour graph of the sample, `right` maps it (as "ours") and its
    rivals to shares; "ours" is missing where it could not be fitted. `chance` is the probability
    that a rival no better than ours is right so much more often where they differ (sign test).
    `single` classes have one label, which is never held out. `better` names the rival that is
    better beyond chance, `doubt` says it in words; `lines` are two of Python, see `instead`.
    """

    method: str
    held_out: int
    sampled: int
    single: int
    right: Mapping[str, float]
    chance: Mapping[str, float]
    better: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why the graph should not be relied on, where a rival is better beyond chance."""
        if self.better is None:
            return None
        rival, ours = self.right[self.better], self.right["ours"]
        advice = {
            SEEDED: 'clusters are round, start from the labels (init="labels")',
            NEAREST: "near points are of one class, a classifier will do",
            TREES: "distances hide the classes, prepare the columns or use a classifier",
        }[self.better]
        return (
            f"{self.better} on the points: {rival:.0%} of {self.held_out} held-out labels right, "
            f"{self.method} on the graph: {ours:.0%} (on a sample of {self.sampled:,} points; so "
            f"much by chance in {_percent(self.chance[self.better])} of cases): {advice}"
        )

    @property
    def instead(self) -> str | None:
        """The rival that is better, or seeded k-means where clusters are so round that it does.

        That is the quickest by far, and taken for as good within a percent, from 90 % on.
        """
        seeded, ours = self.right[SEEDED], self.right.get("ours", 0.0)
        does = self.held_out >= _TELLING and seeded >= max(_ROUND, ours - _AS_GOOD)
        return self.better or (SEEDED if does else None)

    @property
    def lines(self) -> tuple[str, ...]:
        """Python that answers as `instead` does."""
        return () if self.instead is None else _LINES[self.instead]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        told = {"doubt": self.doubt, "instead": self.instead, "lines": list(self.lines)}
        return {**asdict(self), **told}


def baseline(X: Any, y: Any, estimator: Any, *, random_state: Any = None) -> Baseline | None:
    """Compare an estimator of labels with answers that know no graph, on labels held out.

    Every label of points X (n, d), also rows read by blocks, is held out once, in three stratified
    parts; `y` (n,) has -1 for unknown. The estimator, fitted or not, is cloned and fitted to the
    neighbour graph of a sample of 1,500 points (30 a class, at most 6,000) with the labelled ones,
    at most 600; what it chose before (subspace, parameter) is kept. A cluster answers with the
    class of most labels in it. None for graphs, and where fewer than six labels can be held out.
    The same `random_state` (None: 0) gives the same. Raises InputError. Cost: three such fits.
    """
    if isinstance(X, Graph) or is_square(X):
        return None
    points, _ = readable(X)
    labels = as_labels(encoded(y, "y")[0], int(points.shape[0]))
    rng = as_random_state(0 if random_state is None else random_state)
    rows, known = _sample(labels, is_rows(points), rng)
    if known.size == 0:
        return None
    classes, codes = np.unique(labels[known], return_inverse=True)
    fold = dealt(codes, rng, _FOLDS)
    held = int(np.count_nonzero(fold >= 0))
    if classes.size < 2 or held < _LEAST or known.size > _ALL_KNOWN * rows.size:
        return None
    S = take(points, rows).astype(np.float64)
    y_sample = np.full(rows.size, -1, dtype=np.int64)
    y_sample[np.searchsorted(rows, known)] = codes
    fold_of = np.full(rows.size, -1, dtype=np.int64)
    fold_of[np.searchsorted(rows, known)] = fold
    seed = int(rng.integers(2**31 - 1))
    right = _judged(S, y_sample, fold_of, Ours(estimator, S, classes.size, seed), seed)
    return _compared(_name(estimator), right, rows.size, codes)


def _name(estimator: Any) -> str:
    return type(estimator).__name__


def _sample(labels: Ints, by_runs: bool, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Rows that are looked at, and those of them whose label is; both ascending.

    `by_runs`: short runs of neighbouring rows, which a file reads sooner.
    """
    known = np.flatnonzero(labels >= 0)
    if known.size > _LABELS:
        known = np.sort(rng.choice(known, _LABELS, replace=False))
    classes = np.unique(labels[known]).size
    some = sample_rows(labels.size, classes)
    if by_runs and labels.size > RUN * some:
        starts = rng.choice(labels.size // RUN, some // RUN, replace=False) * RUN
        others = (starts[:, None] + np.arange(RUN)).ravel()
    else:
        others = rng.choice(labels.size, some, replace=False)
    others = others[labels[others] < 0]  # labels beyond those looked at are not used unseen
    return np.union1d(others, known).astype(np.int64), known


def _judged(S: Floats, y: Ints, fold: Ints, ours: Ours, seed: int) -> dict[str, NDArray[np.bool_]]:
    """Whether every held-out label is answered rightly, by whom."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neighbors import KNeighborsClassifier

    found: dict[str, list[NDArray[np.bool_]]] = {}
    with threads(1):
        for part in range(_FOLDS):
            held = np.flatnonzero(fold == part)
            train = np.where(fold == part, -1, y)
            own = np.flatnonzero(train >= 0)
            answers = {
                "ours": ours.answer(train, held),
                NEAREST: KNeighborsClassifier(1).fit(S[own], train[own]).predict(S[held]),
                SEEDED: seeded_kmeans(S, train, int(y.max()) + 1, seed)[held],
                TREES: ExtraTreesClassifier(_TREES, random_state=seed)
                .fit(S[own], train[own])
                .predict(S[held]),
            }
            for name, answer in answers.items():
                if answer is not None:
                    found.setdefault(name, []).append(answer == y[held])
    # Of a fit that fails for some of the parts only nothing is comparable.
    whole = {name: parts for name, parts in found.items() if len(parts) == _FOLDS}
    return {name: np.concatenate(parts) for name, parts in whole.items()}


def _compared(
    method: str, right: Mapping[str, NDArray[np.bool_]], sampled: int, codes: Ints
) -> Baseline:
    from scipy.stats import binomtest

    shares = {name: float(kept.mean()) for name, kept in right.items()}
    held = next(iter(right.values())).size
    chance = {}
    if "ours" in right:
        for name, kept in right.items():
            more = int(np.count_nonzero(kept & ~right["ours"]))
            less = int(np.count_nonzero(right["ours"] & ~kept))
            if name != "ours":
                test = binomtest(more, more + less, alternative="greater") if more + less else None
                chance[name] = 1.0 if test is None else float(test.pvalue)
    sure = [name for name, p in chance.items() if p < _CHANCE / len(chance)]
    best = max(sure, key=shares.__getitem__, default=None)
    single = int(np.count_nonzero(np.bincount(codes) == 1))
    return Baseline(method, held, sampled, single, shares, chance, best)


def _percent(p: float) -> str:
    return f"{p:.1%}" if p >= 1e-3 else "less than 0.1%"


# --- What to do to columns of different units before distances are taken: by labels, else by
# scale


_UNLIKE = 10.0  # times the median of the other columns: standard deviation, and range
_ENOUGH = 30  # labelled nodes or pairs
_BETTER = 0.05  # agreement that columns of one scale must gain to be changed
_CODES_BETTER = 0.02
_FEW_VALUES = 100  # of a column that may be codes
_FEW_CODES = 10
_SMOOTH = 3.0  # times the largest frequency: all steps between frequencies of neighbouring counts
_MOST_TRIALS = 20
NOT_CHANGED: tuple[Preparation, Fitted | None, tuple[str, ...]] = (Preparation(), None, ())
_OF_ONE_KIND = 0.95  # rank correlation of falling deviations, as principal components have them


def choose_columns(
    points: Any,
    X: Floats,
    c: Coordinates,
    comparison: Comparison,
    names: Sequence[str] = (),
    numbers: Sequence[int] = (),
) -> tuple[Preparation, Fitted | None, tuple[str, ...]]:
    """Steps for the columns, fitted to the sample X (m, d), and the reasons; nothing if d = 1.

    Where labels or pairs are known the nearest of them decides (`Comparison`), with a prior for
    columns that are alike to stay and for others to be standardised; else the scales alone.
    `names` of the columns are for the reasons; the columns `numbers` only number the rows and are
    left out in any case.
    """
    nothing = Preparation(drop=tuple(numbers))
    why = _number_reason(numbers, names)
    left_alone = NOT_CHANGED if not numbers else (nothing, prepared(X, nothing).fitted, tuple(why))
    if X.shape[1] - len(numbers) < 2 or are_counts(c, X.shape[1]):
        return left_alone
    X = without(X, numbers)
    unlike = has_unlike_columns(X)
    trial = _Trial(X, comparison.rows(points), comparison)
    plain = trial.agreement(nothing)
    standard = replace(nothing, standardize="standard")
    if plain is None or comparison.size < _ENOUGH:
        if not unlike:
            return left_alone
        logged = tuple(int(at) for at in spans_orders(X))
        steps = replace(standard, log=logged)
        reasons = [*why, _scale_reason(c, names), *_log_reason(steps, names)]
        return steps, prepared(X, steps).fitted, tuple(reasons)
    noise = np.sqrt(max(plain * (1 - plain), 0.01) / comparison.size)
    margin = -2 * noise if unlike else max(_BETTER, 3 * noise)
    logged = tuple(int(at) for at in spans_orders(X))
    candidates = [replace(standard, log=logged), standard] if logged else [standard]
    told = [trial.agreement(one) for one in candidates]
    changes = max(told) >= plain + margin
    first = int(np.argmax(told))  # of equals that with logarithms
    steps, best = (candidates[first], told[first]) if changes else (nothing, plain)
    steps, best = _with_codes(trial, X, steps, best, noise)
    if steps == nothing:
        return left_alone
    what = "labels" if comparison.by_labels else "pairs"
    nearest = f"the nearest of {comparison.size} {what} compared agrees in {best:.0%} so"
    reasons = [*why, *([_scale_reason(c, names)] if unlike and changes else [])]
    if best >= plain:
        reasons.append(f"{nearest}, in {plain:.0%} with the columns as they are")
    else:
        reasons.append(
            f"{nearest} and in {plain:.0%} with the columns as they are, which so few labels do "
            "not tell apart: units decide"
        )
    reasons += [*_log_reason(steps, names), *_code_reason(steps, names)]
    return steps, prepared(X, steps).fitted, tuple(reasons)


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
    far = _ratio(s) >= _UNLIKE and _ratio(e) >= _UNLIKE
    v = s**2
    few = v.sum() ** 2 <= np.square(v).sum() * max(s.size / 2, 1.0001)
    return bool(far and few and not _are_components(X[:, varies], s) and not _are_shares(X))


class _Trial:
    """Agreement of what is known with distances after some steps, fitted to the sample."""

    def __init__(self, X: Floats, known: Floats | None, comparison: Comparison) -> None:
        self._X, self._known, self._comparison = X, known, comparison

    def agreement(self, steps: Preparation) -> Any:
        """None where too little is known."""
        if self._known is None:
            return None
        rows = self._known
        if not steps.is_nothing:
            try:
                rows = prepared(self._X, steps).fitted.transform(rows)
            except InputError:  # a value below 0 outside the sample: these steps are none
                return -1.0
        return self._comparison.of_rows(rows, "euclidean")


def _with_codes(
    trial: _Trial, X: Floats, steps: Preparation, best: float, noise: float
) -> tuple[Preparation, float]:
    """One-hot columns of those whole numbers that, one after another, raise the agreement."""
    for at in _codes(X)[:_MOST_TRIALS]:
        if at in steps.log:
            continue
        more = replace(steps, one_hot=(*steps.one_hot, at))
        told = trial.agreement(more)
        if told is not None and told >= best + max(_CODES_BETTER, noise):
            steps, best = more, told
    return steps, best


def _codes(X: Floats) -> list[int]:
    """Columns of 3 to 100 whole numbers, each 20 times on average or more, that are no counts."""
    found = []
    for at in range(X.shape[1]):
        values, times = np.unique(X[:, at], return_counts=True)
        few = 3 <= values.size <= min(_FEW_VALUES, X.shape[0] // 20)
        if few and bool(np.all(values == np.rint(values))) and not _is_ordered(times):
            found.append(at)
    return found


def _is_ordered(times: NDArray[np.int64]) -> bool:
    """Whether values from the least to the largest are as frequent as counts are.

    Their frequencies rise to a peak and fall, so that all steps together are twice the peak; of
    codes, numbered as it happened, they jump. Of few values that cannot be told.
    """
    steps = np.abs(np.diff(times, prepend=0, append=0)).sum()
    return bool(times.size > _FEW_CODES and steps <= _SMOOTH * times.max())


def _ratio(sizes: NDArray[np.float64]) -> float:
    """The largest size by the median of the others."""
    order = np.sort(sizes)
    return float(order[-1] / np.median(order[:-1]))


def _are_components(X: Floats, spread: NDArray[np.float64]) -> bool:
    d = spread.size
    if d < 5:
        return False
    ranks = np.empty(d)
    ranks[np.argsort(-spread)] = np.arange(d)
    falls = np.corrcoef(ranks, np.arange(d))[0, 1] >= _OF_ONE_KIND
    apart = np.abs(np.corrcoef(X, rowvar=False, dtype=np.float64) - np.eye(d)).mean() < 0.1
    return bool(falls and apart)


def _are_shares(X: Floats) -> bool:
    total = X.sum(axis=1, dtype=np.float64)
    return bool(X.min() >= 0 and total.min() > 0 and np.ptp(total) <= 1e-3 * total.mean())


def _number_reason(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    if not numbers:
        return []
    what = "only numbers the rows and is" if len(numbers) == 1 else "only number the rows and are"
    return [f"{_columns(tuple(numbers), names)}: {what} left out"]


def _scale_reason(c: Coordinates, names: Sequence[str]) -> str:
    return (
        f"{column_title(c.largest, names)} makes up {c.dominance:.0%} of all variance, its "
        f"standard deviation is {c.spread:,.0f} times the median one: columns are divided by their "
        "standard deviations"
    )


def _log_reason(steps: Preparation, names: Sequence[str]) -> list[str]:
    if not steps.log:
        return []
    return [f"{_columns(steps.log, names)}: values over orders of magnitude, log(1 + x)"]


def _columns(numbers: tuple[Any, ...], names: Sequence[str]) -> str:
    if len(numbers) == 1:
        return column_title(numbers[0], names)
    return f"columns {listed(numbers, names)}"


def _code_reason(steps: Preparation, names: Sequence[str]) -> list[str]:
    if not steps.one_hot:
        return []
    told = _columns(steps.one_hot, names)
    return [f"{told}: codes as it seems, a column of 0 and 1 for every value agrees better"]


# --- A preparation of columns as scikit-learn's transformers, made or written down


_SCALERS = {"standard": StandardScaler, "robust": RobustScaler}


def transformers(steps: Preparation) -> list[Any]:
    """Transformers in the order of the steps, not fitted; columns are numbers."""
    found: list[Any] = []
    if steps.impute:
        found.append(SimpleImputer(strategy=steps.impute))
    columns: list[tuple[Any, list[str | int]]] = []
    if steps.drop:
        columns.append(("drop", list(steps.drop)))
    if steps.log:
        columns.append((FunctionTransformer(np.log1p), list(steps.log)))
    if steps.one_hot:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns.append((encoder, list(steps.one_hot)))
    if columns:
        found.append(make_column_transformer(*columns, remainder="passthrough"))
    if steps.standardize:
        found.append(_SCALERS[steps.standardize]())
    return found


def transformer_code(steps: Preparation) -> list[str]:
    """What is written in Python for each of the `transformers`."""
    found = []
    if steps.impute:
        found.append(f"SimpleImputer(strategy={steps.impute!r})")
    columns = []
    if steps.drop:
        columns.append(f'("drop", {list(steps.drop)})')
    if steps.log:
        columns.append(f"(FunctionTransformer(np.log1p), {list(steps.log)})")
    if steps.one_hot:
        encoder = 'OneHotEncoder(handle_unknown="ignore", sparse_output=False)'
        columns.append(f"({encoder}, {list(steps.one_hot)})")
    if columns:
        found.append(f'make_column_transformer({", ".join(columns)}, remainder="passthrough")')
    if steps.standardize:
        found.append(f"{_SCALERS[steps.standardize].__name__}()")
    return found


def imports(steps: Preparation) -> list[str]:
    """The imports that the code needs."""
    named = ["FunctionTransformer"] if steps.log else []
    named += ["OneHotEncoder"] if steps.one_hot else []
    named += [_SCALERS[steps.standardize].__name__] if steps.standardize else []
    found = ["import mustlink as ml"] + (["import numpy as np"] if steps.log else [])
    if steps.log or steps.one_hot or steps.drop:
        found.append("from sklearn.compose import make_column_transformer")
    if steps.impute:
        found.append("from sklearn.impute import SimpleImputer")
    if not steps.is_nothing:
        found.append("from sklearn.pipeline import make_pipeline")
    if named:
        found.append(f"from sklearn.preprocessing import {', '.join(named)}")
    return found
