"""Is what `mustlink suggest` names any good? Its regret against the other methods, data set by set.

    python bench/suggest.py [--draws 2] [--only digits moons] [--kinds none pairs] [--out FOLDER]

Every method is fitted with its defaults to the neighbour graph of Euclidean distances, and to
that of cosines where these are suggested. Regret is the best adjusted Rand index of all methods
minus that of the method suggested; beside it the regret of always taking CSP (NCut where nothing
is known). What was fitted is kept in FOLDER/suggest-scores.json, so that changed rules are judged
at once. Real data comes from the data folder; what is not there is left out.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import common

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


def _digits() -> Case:
    from sklearn.datasets import load_digits

    return Case(*load_digits(return_X_y=True))


def _blobs() -> Case:
    from sklearn.datasets import make_blobs

    X, y = make_blobs(2000, 8, centers=8, cluster_std=3.2, random_state=0)
    return Case(X, y)


def _halves() -> Case:
    from sklearn.datasets import make_blobs

    X, y = make_blobs(2000, 8, centers=10, cluster_std=1.5, random_state=1)
    return Case(X, y // 2)  # clusters that the graph does not show


def _moons() -> Case:
    from sklearn.datasets import make_moons

    return Case(*make_moons(1200, noise=0.12, random_state=0))


def _circles() -> Case:
    from sklearn.datasets import make_circles

    return Case(*make_circles(1200, noise=0.09, factor=0.5, random_state=0))


def _scaled(name: str) -> Callable[[], Case]:
    def load() -> Case:
        from sklearn import datasets
        from sklearn.preprocessing import StandardScaler

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return Case(StandardScaler().fit_transform(X), y)

    return load


def _points(name: str, most: int | None = None) -> Callable[[], Case | None]:
    def load() -> Case | None:
        path = common.data_file(f"{name}.npz")
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as archive:
            X, y = archive["X"], np.asarray(archive["y"], dtype=np.int64)
            whole = archive["complete"] if "complete" in archive else np.ones(y.size, bool)
        X, y = X[whole], y[whole]
        if most is not None and most < y.size:
            some = np.random.default_rng(0).choice(y.size, most, replace=False)
            X, y = X[some], y[some]
        return Case(X.astype(np.float32), y)

    return load


def _news(dense: bool) -> Callable[[], Case | None]:
    def load() -> Case | None:
        path = common.data_file("text/20news_bydate.npz")
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as z:
            parts = [z[name] for name in ("data", "indices", "indptr")]
            counts, y = z["count_data"], np.asarray(z["y"], dtype=np.int64)
            shape = tuple(z["shape"])
        chosen = np.flatnonzero(np.isin(y, [0, 7, 9, 14, 17]))
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
        path = common.data_file(f"graphs/{name}.npz")
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as z:
            A = sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
            y = np.asarray(z["y"], dtype=np.int64)
        small = np.bincount(y[y >= 0]) < 25
        return Case(A.astype(float), np.where((y >= 0) & ~small[y], y, -1))

    return load


def _photo(name: str) -> Callable[[], Case | None]:
    def load() -> Case | None:
        import h5py

        import mustlink as ml

        path = common.data_file("images/grabcut_a.h5")
        if path is None:
            return None
        with h5py.File(path) as file:
            image, truth, strokes = (
                file[name][key][::3, ::3] for key in ("image", "gt", "scribbles1")
            )
        y = np.where(truth.ravel() == 128, -1, (truth.ravel() > 128).astype(np.int64))
        known = np.where(strokes > 0, strokes.astype(np.int64) % 2, -1).ravel()
        return Case(ml.image_graph(image, 2, n_similar=8), y, known)

    return load


DATA: dict[str, Callable[[], Case | None]] = {
    "moons": _moons,
    "circles": _circles,
    "blobs": _blobs,
    "merged blobs": _halves,
    "digits": _digits,
    "wine": _scaled("wine"),
    "WDBC": _scaled("breast_cancer"),
    "ionosphere": _points("uci/ionosphere"),
    "dermatology": _points("uci/dermatology"),
    "USPS": _points("uci/usps", 2000),
    "MNIST": _points("points/mnist", 2500),
    "letters": _points("uci/letter", 2500),
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
    def make(case: Case, rng: Any) -> Any:
        import mustlink as ml

        known = np.flatnonzero(case.y >= 0)
        pairs, belief = common.random_pairs(
            case.y[known], max(10, round(share * known.size)), rng, wrong
        )
        return ml.Constraints.from_pairs(known[pairs], belief, n_nodes=case.y.size)

    return make


def _labels(each: int, wrong: float = 0.0) -> Callable[[Case, Any], Any]:
    def make(case: Case, rng: Any) -> Any:
        given = np.full(case.y.size, -1, dtype=np.int64)
        for c in np.unique(case.y[case.y >= 0]):
            own = np.flatnonzero(case.y == c)
            given[rng.choice(own, min(each, own.size // 2), replace=False)] = c
        at = np.flatnonzero(given >= 0)
        for i in rng.choice(at, round(wrong * at.size), replace=False):
            given[i] = (given[i] + 1 + rng.integers(case.k - 1)) % case.k
        return given

    return make


def _share(share: float) -> Callable[[Case, Any], Any]:
    def make(case: Case, rng: Any) -> Any:
        one = _labels(1)(case, rng)
        more = (rng.random(case.y.size) < share) & (case.y >= 0)
        return np.where(more, case.y, one)

    return make


KINDS: dict[str, Callable[[Case, Any], Any]] = {
    "none": lambda case, rng: None,
    "1 label": _labels(1),
    "5 labels": _labels(5),
    "20 labels": _labels(20),
    "20 labels, 15 % wrong": _labels(20, 0.15),
    "3 % labelled": _share(0.03),
    "n/20 pairs": _pairs(0.05),
    "n/5 pairs": _pairs(0.2),
    "n/2 pairs": _pairs(0.5),
    "n/2 pairs, 10 % wrong": _pairs(0.5, 0.1),
    "2n pairs": _pairs(2.0),
}

# ---------------------------------------------------------------- fits


def fitted(case: Case, graph: Any, side: Any, method: str, params: dict[str, Any]) -> float:
    """ARI of one method on a graph; its labels of -1 count as a cluster of their own."""
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml

    one = getattr(ml, method)
    if "n_clusters" in one.__init__.__annotations__ and method != "CSCGFHF":
        params = {"n_clusters": case.k, **params}
    est = one(**{**params, "affinity": "precomputed", "random_state": 0})
    if method in FROM_LABELS:
        est.fit(graph, side)
    elif side is None or method == "NCut":
        est.fit(graph)
    else:
        known = side if not isinstance(side, np.ndarray) else ml.Constraints.from_labels(side)
        est.fit(graph, constraints=known)
    known = case.y >= 0
    return float(adjusted_rand_score(case.y[known], est.labels_[known]))


def candidates(case: Case, side: Any) -> list[tuple[str, dict[str, Any]]]:
    """Methods that can take the side information, with parameters."""
    if side is None:
        return [("NCut", {})]
    found: list[tuple[str, dict[str, Any]]] = [("NCut", {})]
    found += [
        (m, {}) for m in CLUSTERERS if not (m in ("SRCP", "E2CP") and isinstance(side, np.ndarray))
    ]
    if isinstance(side, np.ndarray):
        sizes = np.bincount(side[side >= 0])
        equal = sizes[sizes > 0].min() == sizes.max()
        mass: Any = "equal" if equal else True
        found += [(m, {"class_mass": mass} if m in MASSES else {}) for m in FROM_LABELS]
    if case.strokes is not None:
        found.append(("FastGE", {"subspace": "exact"}))
    return found


# ---------------------------------------------------------------- judging


class Scores:
    """What was fitted before, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        self.graphs: dict[str, Any] = {}

    def of(self, where: tuple[Any, ...], case: Case, side: Any, method: str, params: Any) -> float:
        """ARI of a method; `where` is the name of the data, the metric, the kind, and the draw."""
        key = "|".join([*map(str, where), method, json.dumps(params, sort_keys=True)])
        if key not in self._known:
            self._known[key] = fitted(case, self._graph(case, *where[:2]), side, method, params)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._known, indent=0))
        return self._known[key]

    def _graph(self, case: Case, name: str, metric: str) -> Any:
        import mustlink as ml

        key = f"{name}|{metric}"
        if key not in self.graphs:
            self.graphs.clear()
            if isinstance(case.data, np.ndarray):
                found = ml.knn_graph(case.data, metric=metric, random_state=0)
            else:
                found = (
                    case.data
                    if isinstance(case.data, ml.Graph)
                    else ml.Graph.from_affinity(case.data)
                )
            self.graphs[key] = found
        return self.graphs[key]


def judged(name: str, case: Case, kind: str, draw: int, scores: Scores) -> dict[str, Any]:
    """ARI of the suggestion, of the best method, and of CSP with its defaults."""
    import mustlink as ml

    side = case.strokes if kind == "strokes" else KINDS[kind](case, np.random.default_rng(draw))
    given = {"y": side} if isinstance(side, np.ndarray) else {"constraints": side}
    told, seconds = common.timed(ml.suggest, case.data, n_clusters=case.k, **given)
    metric = told.seen.metric
    own = {
        key: value
        for key, value in told.parameters.items()
        if key not in ("n_clusters", "metric", "affinity")
    }
    found = {}
    for way in dict.fromkeys(("euclidean", metric)):
        where = (name, way, kind, draw)
        for method, params in candidates(case, side):
            title = method + (" exact" if params.get("subspace") else "")
            title += ", cosine" if way == "cosine" else ""
            found[title] = scores.of(where, case, side, method, params)
    mine = scores.of((name, metric, kind, draw), case, side, told.method, own)
    best = max(found, key=lambda method: found[method])
    usual = found["NCut" if side is None else "CSP"]
    top = max(found[best], mine)
    return {
        "data": name,
        "kind": kind,
        "suggested": told.method + (", cosine" if metric == "cosine" else ""),
        "rule": told.rule,
        "ari": mine,
        "best": "the suggestion" if mine >= found[best] else best,
        "best_ari": top,
        "regret": top - mine,
        "usual_regret": top - usual,
        "seconds": seconds,
    }


def guesses(cases: dict[str, Case]) -> None:
    """The number of clusters that is told when nobody says it."""
    import mustlink as ml

    rows = []
    for name, case in cases.items():
        count = ml.suggest(case.data).seen.count
        rows.append((name, case.k, count.k, count.gap))
    common.table("Number of clusters, not given", ("data", "classes", "told", "gap"), rows)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(DATA), default=list(DATA))
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    asked = parser.parse_args()
    scores = Scores(asked.out / "suggest-scores.json")
    rows, cases = [], {}
    for name in asked.only:
        case = DATA[name]()
        if case is None:
            continue
        cases[name] = case
        kinds = asked.kinds if case.strokes is None else ["strokes"]
        for kind in kinds:
            for draw in range(1 if kind in ("none", "strokes") else asked.draws):
                rows.append(judged(name, case, kind, draw, scores))
        common.say(f"{name}: done")
    report(rows)
    guesses(cases)
    common.write_json(asked.out, "suggest", rows)
    figures = {
        "sets": len(cases),
        "fits": len(rows),
        "regret": statistics.mean(row["regret"] for row in rows),
        "always_csp": statistics.mean(row["usual_regret"] for row in rows),
    }
    common.record("suggest", figures)


def report(rows: list[dict[str, Any]]) -> None:
    """Every fit, then means by kind and by rule."""
    columns = ("data", "kind", "suggested", "ari", "best", "best_ari", "regret", "usual_regret")
    common.table("Suggestions", columns, [[row[c] for c in columns] for row in rows])
    for by in ("kind", "data", "rule"):
        names = list(dict.fromkeys(row[by] for row in rows))
        means = []
        for name in [*names, "all"]:
            some = [row for row in rows if name in (row[by], "all")]
            means.append(
                (
                    name,
                    len(some),
                    statistics.mean(row["regret"] for row in some),
                    statistics.mean(row["usual_regret"] for row in some),
                    max(row["regret"] for row in some),
                )
            )
        common.table(f"Mean regret by {by}", (by, "fits", "suggested", "CSP, NCut", "worst"), means)
    slowest = max(rows, key=lambda row: row["seconds"])
    print(f"\nSlowest suggestion: {slowest['seconds']:.1f} s, {slowest['data']}, {slowest['kind']}")


if __name__ == "__main__":
    main()
