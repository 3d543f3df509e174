"""Is what `mustlink suggest` names any good? Its regret against the other methods, data set by set.

    python bench/suggest.py [--draws 2] [--only digits moons] [--kinds none pairs] [--out FOLDER]

Every method is fitted with its defaults to the neighbour graph of Euclidean distances, and to
that of cosines where these are suggested. Regret is the best adjusted Rand index of all methods
minus that of the method suggested; beside it the regret of always taking CSP (NCut where nothing
is known). What was fitted is kept in FOLDER/suggest.jsonl, so that changed rules are judged at
once. Real data comes from the data folder; what is not there is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import data
import fits
import render
import runner

CLUSTERERS = ("CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE", "SSKK", "SRCP")
FROM_LABELS = ("Poisson", "GFHF", "LLGC", "CSCGFHF")
MASSES = ("GFHF", "LLGC")  # with class_mass="equal" where labels are equally many a class


@dataclass(frozen=True)
class Case:
    """Points (n, d) or a graph, and the classes, -1 where nobody knows."""

    data: Any
    y: Any
    strokes: Any = None

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


def _photo(name: str) -> Callable[[], Case | None]:
    def load() -> Case | None:
        import mustlink as ml

        path = runner.data_file("images/grabcut_a.h5")
        if path is None:
            return None
        image, strokes, truth = (one[::3, ::3] for one in data.grabcut(path, name, "scribbles1"))
        y = np.where(truth.ravel() == 128, -1, (truth.ravel() > 128).astype(np.int64))
        return Case(ml.image_graph(image, 2, n_similar=8), y, strokes.ravel())

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
    "photo 24077": _photo("24077"),
    "photo 208001": _photo("208001"),
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


KINDS: dict[str, Callable[[Case, Any], Any]] = {
    "none": lambda case, seed: data.Known(),
    "1 label": _labels(1),
    "5 labels": _labels(5),
    "20 labels": _labels(20),
    "20 labels, 15 % wrong": _labels(20, 0.15),
    "3 % labelled": _labels(1, share=0.03),
    "n/20 pairs": _pairs(0.05),
    "n/5 pairs": _pairs(0.2),
    "n/2 pairs": _pairs(0.5),
    "n/2 pairs, 10 % wrong": _pairs(0.5, 0.1),
    "2n pairs": _pairs(2.0),
}

# ---------------------------------------------------------------- fits


def fitted(case: Case, graph: Any, side: data.Known, method: str, params: dict[str, Any]) -> float:
    """ARI of one method on a graph; its labels of -1 count as a cluster of their own."""
    return fits.ari(case.y, fits.fit(fits.make(method, case.k, **params), graph, side).labels_)


def candidates(case: Case, side: data.Known) -> list[tuple[str, dict[str, Any]]]:
    """Methods that can take the side information, with parameters."""
    found: list[tuple[str, dict[str, Any]]] = [("NCut", {})]
    if side.nothing:
        return found
    found += [(m, {}) for m in CLUSTERERS if m != "SRCP" or side.labels is None]
    if side.labels is not None:
        sizes = np.bincount(side.labels[side.labels >= 0])
        mass: Any = "equal" if sizes[sizes > 0].min() == sizes.max() else True
        found += [(m, {"class_mass": mass} if m in MASSES else {}) for m in FROM_LABELS]
    if case.strokes is not None:
        found.append(("FastGE", {"subspace": "exact"}))
    return found


# ---------------------------------------------------------------- judging


class Scores:
    """What was fitted before, kept in a file, and the graph that was used last."""

    def __init__(self, out: Path) -> None:
        self._cache = runner.RunCache(out / "suggest.jsonl")
        self._graph: tuple[str, Any] = ("", None)

    def of(self, where: str, case: Case, side: Any, method: str, params: Any) -> float:
        """ARI of a method; `where` is the name of the data, the metric, the kind, and the draw."""
        one = {"where": where, "method": method, "params": params}
        if not self._cache.find(**one):
            name, metric = where.split("|")[:2]
            found = fitted(case, self._graph_of(case, name, metric), side, method, params)
            self._cache.add({**one, "ari": found})
        return float(self._cache.find(**one)[0]["ari"])

    def _graph_of(self, case: Case, name: str, metric: str) -> Any:
        import mustlink as ml

        if self._graph[0] != f"{name}|{metric}":
            made = case.data
            if isinstance(made, np.ndarray):
                made = ml.knn_graph(made, metric=metric, random_state=0)
            elif not isinstance(made, ml.Graph):
                made = ml.Graph.from_affinity(made)
            self._graph = f"{name}|{metric}", made
        return self._graph[1]


def judged(name: str, case: Case, kind: str, draw: int, scores: Scores) -> dict[str, Any]:
    """ARI of the suggestion, of the best method, and of CSP with its defaults."""
    import mustlink as ml

    side = data.Known(labels=case.strokes) if kind == "strokes" else KINDS[kind](case, draw)
    given: dict[str, Any] = {"y": side.labels}
    if side.pairs is not None:
        given = {"constraints": side.constraints(case.y.size)}
    suggestion = ml.suggest(case.data, n_clusters=case.k, **given)
    metric = suggestion.seen.metric
    own = {
        key: value
        for key, value in suggestion.parameters.items()
        if key not in ("n_clusters", "metric", "affinity")
    }
    found = {}
    for way in dict.fromkeys(("euclidean", metric)):
        where = f"{name}|{way}|{kind}|{draw}"
        for method, params in candidates(case, side):
            title = method + (" exact" if params.get("subspace") else "")
            title += ", cosine" if way == "cosine" else ""
            found[title] = scores.of(where, case, side, method, params)
    mine = scores.of(f"{name}|{metric}|{kind}|{draw}", case, side, suggestion.method, own)
    best = max(found, key=lambda method: found[method])
    usual = found["NCut" if side.nothing else "CSP"]
    top = max(found[best], mine)
    return {
        "data": name,
        "kind": kind,
        "suggested": suggestion.method + (", cosine" if metric == "cosine" else ""),
        "rule": suggestion.rule,
        "ari": mine,
        "best": "the suggestion" if mine >= found[best] else best,
        "best_ari": top,
        "regret": top - mine,
        "usual_regret": top - usual,
    }


def main() -> None:
    args = runner.options(__doc__, draws=1, only=list(DATA), kinds=list(KINDS))
    scores = Scores(args.out)
    rows, cases = [], {}
    for name in args.only:
        case = DATA[name]()
        if case is None:
            continue
        cases[name] = case
        kinds = args.kinds if case.strokes is None else ["strokes"]
        for kind in kinds:
            for draw in range(1 if kind in ("none", "strokes") else args.draws):
                rows.append(judged(name, case, kind, draw, scores))
        runner.say(f"{name}: done")
    report(rows)
    figures = {
        "sets": len(cases),
        "fits": len(rows),
        "regret": statistics.mean(row["regret"] for row in rows),
        "always_csp": statistics.mean(row["usual_regret"] for row in rows),
    }
    runner.record("suggest", figures)


def report(rows: list[dict[str, Any]]) -> None:
    """Every fit, then means by kind, by data and by rule."""
    render.records("Suggestions", dict(enumerate(rows)))
    for by in ("kind", "data", "rule"):
        found = {}
        for name in [*dict.fromkeys(row[by] for row in rows), "all"]:
            some = [row for row in rows if name in (row[by], "all")]
            found[name] = {
                "fits": len(some),
                "suggested": statistics.mean(row["regret"] for row in some),
                "CSP, NCut": statistics.mean(row["usual_regret"] for row in some),
                "worst": max(row["regret"] for row in some),
            }
        render.records(f"Mean regret by {by}", found)


if __name__ == "__main__":
    main()
