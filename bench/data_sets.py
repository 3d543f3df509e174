"""Data sets of many kinds, and what is known of them, for `defaults.py` and `nothing_known.py`.

Real data comes from the data folder; what is not there is None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import data
import runner


@dataclass(frozen=True)
class Case:
    """Points (n, d) or a graph, and the classes, -1 where nobody knows."""

    data: Any
    y: Any

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(np.unique(self.y[self.y >= 0]).size)


# ---------------------------------------------------------------- data


def _made(make: str, *args: Any, merged: int = 1, **options: Any) -> Callable[[], Case]:
    """A set of scikit-learn; classes merged in pairs are clusters that the graph does not show."""

    def load() -> Case:
        from sklearn import datasets

        X, y = getattr(datasets, make)(*args, **options)
        return Case(X, y // merged)

    return load


def _scaled(make: str) -> Callable[[], Case]:
    def load() -> Case:
        from sklearn.preprocessing import StandardScaler

        case = _made(make, return_X_y=True)()
        return Case(StandardScaler().fit_transform(case.data), case.y)

    return load


def _points(name: str, most: int | None = None) -> Callable[[], Case | None]:
    def load() -> Case | None:
        loaded = data.points(name, most)
        return None if loaded is None else Case(*loaded)

    return load


def _news(dense: bool, groups: tuple[int, ...] = (0, 7, 9, 14, 17)) -> Callable[[], Case | None]:
    def load() -> Case | None:
        path = runner.data_file("text/20news_bydate.npz")
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as z:
            parts = [z[name] for name in ("data", "indices", "indptr")]
            counts, y = z["count_data"], np.asarray(z["y"], dtype=np.int64)
            shape = tuple(z["shape"])
        chosen = np.flatnonzero(np.isin(y, groups))
        chosen = np.random.default_rng(0).choice(chosen, 2000, replace=False)
        own = np.unique(y[chosen], return_inverse=True)[1]
        if dense:
            from sklearn.decomposition import TruncatedSVD

            T = sp.csr_matrix(tuple(parts), shape=shape)[chosen]
            return Case(TruncatedSVD(60, random_state=0).fit_transform(T), own)
        C = sp.csr_matrix((counts, parts[1], parts[2]), shape=shape)[chosen]
        used = np.argsort(-np.asarray((C > 0).sum(axis=0)).ravel(), kind="stable")[100:1600]
        X = C[:, used].toarray().astype(np.float32)
        there = X.any(axis=1)
        return Case(X[there], own[there])

    return load


def _blocks() -> Case:
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, 6, 1800))
    p = np.where(y[:, None] == y, 0.022, 0.006)
    A = np.triu(rng.random(p.shape) < p, 1)
    return Case(sp.csr_matrix((A | A.T).astype(float)), y)


def _graph(name: str) -> Callable[[], Case | None]:
    def load() -> Case | None:
        loaded = data.network(name)
        if loaded is None:
            return None
        W, y = loaded
        small = np.bincount(y[y >= 0]) < 25
        return Case(W.astype(float), np.where((y >= 0) & ~small[y], y, -1))

    return load


DATA: dict[str, Callable[[], Case | None]] = {
    "moons": _made("make_moons", 1200, noise=0.12, random_state=0),
    "circles": _made("make_circles", 1200, noise=0.09, factor=0.5, random_state=0),
    "blobs": _made("make_blobs", 2000, 8, centers=8, cluster_std=3.2, random_state=0),
    "merged blobs": _made(
        "make_blobs", 2000, 8, centers=10, cluster_std=1.5, random_state=1, merged=2
    ),
    "digits": _made("load_digits", return_X_y=True),
    "wine": _scaled("load_wine"),
    "WDBC": _scaled("load_breast_cancer"),
    "ionosphere": _points("ionosphere"),
    "dermatology": _points("dermatology"),
    "USPS": _points("usps", 2000),
    "MNIST": _points("mnist", 2500),
    "letters": _points("letter", 2500),
    "news, 60 dimensions": _news(True),
    "news, words": _news(False),
    "blocks": _blocks,
    "polblogs": _graph("polblogs"),
    "email": _graph("email_eu_core"),
    "amazon": _graph("amazon_photo"),
}

# ---------------------------------------------------------------- side information


def _pairs(share: float, wrong: float = 0.0) -> Callable[[Case, Any], Any]:
    def make(case: Case, seed: int) -> data.Known:
        amount = max(10, round(share * (case.y >= 0).sum()))
        return data.draw(case.y, f"{amount} pairs", seed, wrong)

    return make


def _labels(each: int, wrong: float = 0.0, share: float = 0.0) -> Callable[[Case, Any], Any]:
    """`each` labels a class, of which some are wrong, or a share of all rows beside them."""

    def make(case: Case, seed: int) -> data.Known:
        rng = np.random.default_rng(seed)
        given = data.labels_per_class(case.y, each, rng)
        at = np.flatnonzero(given >= 0)
        for i in rng.choice(at, round(wrong * at.size), replace=False):
            given[i] = (given[i] + 1 + rng.integers(case.k - 1)) % case.k
        more = (rng.random(case.y.size) < share) & (case.y >= 0)
        return data.Known(labels=np.where(more, case.y, given))

    return make
