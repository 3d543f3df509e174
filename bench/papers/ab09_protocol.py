"""How AB09 §6 measures: sets, methods, five folds, parameters by cross-validation.

A reproduction of a figure is made of `Setting`s: `tasks_of` and `by_setting`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import data
from .running import Found, Task

LABELLED = 30
NEIGHBOURS = 10
LARGE = ("USPS", "Letter", "Dif1000", "Sam1000")  # a fifth of the draws
_EASY = ("alt.atheism", "rec.sport.baseball", "sci.space")
_HARD = ("comp.graphics", "comp.os.ms-windows.misc", "comp.windows.x")
_MIDDLE = ("talk.politics.guns", "talk.politics.mideast", "talk.politics.misc")
SETS: dict[str, Callable[[], data.Points | None]] = {
    "Ionosphere": data.ionosphere,
    "Hepatitis": data.hepatitis_filled,
    "Cancer": data.wdbc,
    "Pima": data.pima,
    "Wine": data.wine,
    "USPS": data.usps,
    "Letter": data.letter,
    "Dif100": lambda: data.newsgroups("Dif100", _EASY, 100),
    "Dif1000": lambda: data.newsgroups("Dif1000", _EASY, 1000),
    "Sam100": lambda: data.newsgroups("Sam100", _HARD, 100),
    "Sam1000": lambda: data.newsgroups("Sam1000", _HARD, 1000),
    "Sim100": lambda: data.newsgroups("Sim100", _MIDDLE, 100),
}
OTHER = {"Cancer, original": data.wisconsin, "Wine(2)": data.wine_2_3}
UCI = tuple(SETS)[:7]
TEXT = tuple(SETS)[7:]


@dataclass(frozen=True)
class Method:
    """A method as the paper names it, and the values that cross-validation chooses from."""

    estimator: str
    parameter: str = ""
    values: tuple[Any, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)


METHODS = {
    "GWEM": Method("GWEM", "n_steps", (2, 4, 8), {"variant": "em"}),  # as published, not §3.5.2
    "GF": Method("GFHF", fixed={"class_mass": False}),
    "LGC": Method("LLGC", "alpha", (0.5, 0.9, 0.99)),
    "LNP": Method("LNP", "alpha", (0.5, 0.9, 0.99)),
    "TIKREG": Method("TikReg", "gamma", (0.0003, 0.003, 0.03)),  # times 30 labels: 0.01 to 1
    "CK": Method("ClusterKernel", "n_components", (2, 4, 8, 16)),
    "LTSALP": Method("LTSALP", "n_components", (1, 2, 4)),
}
BESIDE = {  # not in the figure
    **{f"m = {m}": Method("GWEM", "n_steps", (m,), {"variant": "em"}) for m in (1, 2, 4, 8, 16)},
    "fixed point, m = 4": Method("GWEM", "n_steps", (4,)),
    "GF, class mass": Method("GFHF", fixed={"class_mass": True}),
}
_C = {"orthogonal": True}
ALPHAS = (0.01, 1.0, 100.0)
EMBEDDING = {  # §6.2; D − W with f ⟂ 1, as eq. 33 has it, is TIKREG: its γ is 1/(30 α)
    "LELP": Method("LELP"),
    "LELPC": Method("LELP", "alpha", ALPHAS, _C),
    "LLELP": Method("LLELP"),
    "LLELPC": Method("LLELP", "alpha", ALPHAS, _C),
    "LTSALP": Method("LTSALP"),
    "LTSALPC": Method("LTSALP", "alpha", ALPHAS, _C),
    "LELPC, eq. 33": Method("TikReg", "gamma", (1.0, 0.03, 0.0003)),
}
EVERY_ALPHA = {
    **{f"LELPC, α = {a:g}": Method("LELP", "alpha", (a,), _C) for a in (1e-4, 1e-2, 1, 1e2, 1e4)},
    **{f"eq. 33, γ = {g:g}": Method("TikReg", "gamma", (g,)) for g in (10, 1, 0.1, 0.01, 0.0001)},
}
_BY_NAME = {**METHODS, **BESIDE, **EMBEDDING, **EVERY_ALPHA}
# ---------------------------------------------------------------- protocol


@dataclass(frozen=True)
class Setting:
    """A set, its graph, the number of labelled points, and methods by name."""

    name: str
    standardised: bool = False
    weights: str = "gaussian"
    labelled: int = LABELLED
    methods: tuple[str, ...] = tuple(METHODS)


Folds = dict[str, list[tuple[float, Any]]]  # per method: (error in %, value chosen) of every fold


@functools.lru_cache(maxsize=2)
def prepared(name: str, standardised: bool, weights: str) -> tuple[data.Points, Any] | None:
    """A set and its graph; every process makes them once."""
    import mustlink as ml

    points = {**SETS, **OTHER}[name]()
    if points is None:
        return None
    points = points.standardised() if standardised else points
    metric = "cosine" if name in TEXT else "euclidean"
    graph = ml.knn_graph(points.X, NEIGHBOURS, metric=metric, weights=weights, random_state=0)
    return points, graph


def splits(y: Any, labelled: int, draw: int) -> Iterator[tuple[Any, Any]]:
    """Labelled points and test points of the five folds of one draw."""
    import numpy as np

    rng = np.random.default_rng([draw, labelled])
    order = rng.permutation(y.size)
    for test in np.array_split(order, 5):
        pool = np.setdiff1d(order, test)
        chosen = rng.choice(pool, labelled, replace=False)
        while np.unique(y[chosen]).size < y.max() + 1:
            chosen = rng.choice(pool, labelled, replace=False)
        yield chosen, test


def predicted(method: Method, value: Any, points: data.Points, graph: Any, shown: Any) -> Any:
    """Labels (n,) from those of the points `shown`."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import mustlink as ml

    given = np.full(points.y.size, -1, dtype=np.int64)
    given[shown] = points.y[shown]
    more = {method.parameter: value} if method.parameter else {}
    if method.estimator == "ClusterKernel":
        more["classifier"] = LogisticRegression()
    est = getattr(ml, method.estimator)(n_neighbors=NEIGHBOURS, **method.fixed, **more)
    return est.fit(points.X, given, graph=graph).labels_


def selected(method: Method, points: data.Points, graph: Any, labelled: Any, seed: int) -> Any:
    """The value with the fewest errors on labelled points held out in five parts."""
    import numpy as np

    if len(method.values) < 2:
        return method.values[0] if method.values else None
    order = np.random.default_rng(seed).permutation(labelled)
    order = order[np.argsort(points.y[order], kind="stable")]  # every class in all parts
    wrong = np.zeros(len(method.values))
    for part in range(5):
        held = order[part::5]
        rest = np.setdiff1d(order, held)
        if np.unique(points.y[rest]).size < 2:
            continue
        for i, value in enumerate(method.values):
            found = predicted(method, value, points, graph, rest)
            wrong[i] += np.sum(found[held] != points.y[held])
    return method.values[int(wrong.argmin())]


def one_draw(setting: Setting, draw: int) -> Folds:
    """Errors on the fifth fold, and chosen values, for every fold and method."""
    import numpy as np

    found: Folds = {name: [] for name in setting.methods}
    both = prepared(setting.name, setting.standardised, setting.weights)
    if both is None:
        return found
    points, graph = both
    for labelled, test in splits(points.y, setting.labelled, draw):
        for name in setting.methods:
            method = _BY_NAME[name]
            value = selected(method, points, graph, labelled, draw)
            labels = predicted(method, value, points, graph, labelled)
            error = 100 * float(np.mean(labels[test] != points.y[test]))
            found[name].append((error, value))
    return found


def tasks_of(settings: Iterable[Setting], draws: int) -> list[Task]:
    """A draw each; of large sets a fifth."""
    return [
        Task(one_draw, (one, draw), 60.0 if one.name in LARGE else 5.0)
        for one in settings
        for draw in range(max(1, draws // 5 if one.name in LARGE else draws))
    ]


def by_setting(results: Found) -> dict[Setting, Folds]:
    """All folds of all draws of the sets that are there."""
    found: dict[Setting, Folds] = {}
    for (one, _), got in results[one_draw]:
        folds = found.setdefault(one, {name: [] for name in one.methods})
        for name, more in got.items():
            folds[name] += more
    return {one: got for one, got in found.items() if any(got.values())}
