"""Many correct labels of one class, drawn round with a lasso: do they harm the other classes?

    python bench/lasso.py [--sets digits optdigits usps mnist] [--n 1800] [--labels 200]
                          [--methods Auto LLGC CSP] [--record]

Three labels a class are known; then the points of one class that are nearest to one of its points
are labelled, too. A trial is a set and a class: the adjusted Rand index over the rows that have no
label then, before and after.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import defaults
import render
import runner

SETS = ("digits", "optdigits", "usps", "mnist")
METHODS = ("Auto", "LLGC", "CSP")
_FEW = 3  # labels a class at first
_HARM = 0.01  # of the adjusted Rand index, that is no chance


def lasso(X: NDArray[Any], y: NDArray[Any], one: int, m: int, seed: int) -> NDArray[Any]:
    """The m rows of a class that are nearest to one of its rows."""
    own = np.flatnonzero(y == one)
    middle = X[np.random.default_rng(seed).choice(own)]
    return own[np.argsort(np.square(X[own] - middle).sum(axis=1))[:m]]


def trials(name: str, n: int, m: int, methods: list[str]) -> list[dict[str, Any]]:
    """Every class of a set, by every method."""
    import mustlink as ml

    case = defaults.SETS[name][1]()
    if case is None:
        return []
    rng = np.random.default_rng(0)
    some = np.sort(rng.permutation(len(case.y))[:n])
    X, y = np.asarray(case.data, dtype=np.float64)[some], case.y[some]
    few = np.full(y.size, -1)
    for one in np.unique(y):
        few[rng.choice(np.flatnonzero(y == one), _FEW, replace=False)] = one
    found = []
    for method in methods:
        before = getattr(ml, method)(random_state=0).fit(X, few)
        start = np.asarray(before.labels_)
        for one in np.unique(y).tolist():
            rows = lasso(X, y, one, m, one)
            known = few.copy()
            known[rows] = one
            runner.say(f"{name}, class {one}, {method}")
            after = np.asarray(before.refit(known).labels_)
            open_ = known < 0
            ari = [adjusted_rand_score(y[open_], labels[open_]) for labels in (start, after)]
            sizes = [np.bincount(labels[labels >= 0], minlength=10) for labels in (start, after)]
            others = np.unique(y) != one
            halved = int(np.count_nonzero(2 * sizes[1][:10][others] < sizes[0][:10][others]))
            found.append(
                {"set": name, "class": one, "method": method, "labels": int(rows.size),
                 "before": ari[0], "after": ari[1], "halved": halved}
            )  # fmt: skip
    return found


def summary(some: list[dict[str, Any]]) -> dict[str, float]:
    """What the trials of a set by a method lost."""
    lost = np.array([one["before"] - one["after"] for one in some])
    return {
        "before": some[0]["before"],
        "after, mean": float(np.mean([one["after"] for one in some])),
        "worst loss": float(lost.max()),
        "trials": lost.size,
        "harmed": int(np.count_nonzero(lost > _HARM)),
        "halved": sum(one["halved"] for one in some),
    }


def main() -> None:
    args = runner.options(__doc__, sets=list(SETS), n=1800, labels=200, methods=list(METHODS))
    warnings.simplefilter("ignore")
    figures = {}
    for name in args.sets:
        rows = trials(name, args.n, args.labels, args.methods)
        for method in args.methods if rows else ():
            some = [one for one in rows if one["method"] == method]
            figures[f"{name}, {method}"] = summary(some)
    render.records("A lasso of correct labels", figures)
    runner.record("lasso", figures)


if __name__ == "__main__":
    main()
