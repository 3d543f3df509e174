"""How far is the default answer from the best one? `Auto` beside every method, ours and theirs.

    python bench/defaults.py [--quick] [--draws 3] [--only glass moons] [--kinds none "3 labels"]
                             [--methods Auto CSP] [--out FOLDER] [--record]

A cell is a data set and how much is known of it. In it every method has an adjusted Rand index,
over the rows that have no label, of labels as a mean of draws of them, and a loss against the best
of all methods in the cell. Thirteen sets and eight made networks choose: defaults and priors of
`Auto` were learned on them. The others judge. What was fitted is kept in FOLDER/defaults.jsonl.
Real data comes from the data folder; what is not there is left out. `--quick`: sets of at most
1,100 rows, one draw, four kinds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import data
import data_sets
import fits
import peers
import render
import runner
from data_sets import Case

CHOOSES, JUDGES = "chooses", "judges"
_LARGE = 20_000  # nodes of a network
QUICK_ROWS, QUICK_KINDS = 1100, ("none", "3 labels", "n/2 pairs", "both")


# ---------------------------------------------------------------- sets


def _table(name: str, most: int | None = None, *, scaled: bool = False) -> Any:
    """A set of the data folder, columns scaled where they have different units."""

    def load() -> Case | None:
        case = data_sets._points(name, most)()
        if case is None or not scaled:
            return case
        from sklearn.preprocessing import StandardScaler

        return Case(StandardScaler().fit_transform(case.data), case.y)

    return load


def _unequal() -> Case:
    """Two broad clusters in 10 dimensions, 20 to 80."""
    rng = np.random.default_rng(0)
    y = (np.arange(1500) >= 300).astype(np.int64)
    X = rng.normal(size=(1500, 10)) + 2.2 * np.eye(2, 10)[y]
    return Case(X, y)


# Nodes, classes, mean degree, share of random edges, unequal sizes, uneven degrees.
NETWORKS = (
    (800, 2, 6, 0.35, False, False),
    (1500, 4, 8, 0.35, True, False),
    (2500, 8, 12, 0.4, False, True),
    (1200, 3, 5, 0.25, True, True),
    (3000, 12, 15, 0.45, True, False),
    (600, 5, 7, 0.3, False, True),
    (2000, 2, 20, 0.42, True, True),
    (1000, 6, 4, 0.15, False, False),
)


def _made_network(number: int) -> Callable[[], Case]:
    """A block model with parameters of the table."""

    def load() -> Case:
        n, k, degree, random, unequal, uneven = NETWORKS[number]
        rng = np.random.default_rng(number)
        p = 2.0 ** -np.arange(k) if unequal else np.ones(k)
        p = np.maximum(p / p.sum(), 0.5 / k)
        y = rng.choice(k, n, p=p / p.sum())
        often = rng.pareto(2.5, n) + 0.3 if uneven else np.ones(n)
        m = n * degree // 2
        i, j = rng.choice(n, (2, m), p=often / often.sum())
        inside = rng.random(m) >= random
        for c in range(k):
            own, some = np.flatnonzero(y == c), np.flatnonzero(inside & (y[i] == c))
            j[some] = rng.choice(own, some.size, p=often[own] / often[own].sum())
        W = sp.csr_matrix((np.ones(m), (i, j)), (n, n))
        W = W + W.T
        W.setdiag(0)
        W.eliminate_zeros()
        W.data[:] = 1
        return Case(W, y)

    return load


def _some_news(groups: tuple[int, ...]) -> Callable[[], Case | None]:
    return data_sets._news(True, groups)


SETS: dict[str, tuple[str, Callable[[], Case | None]]] = {
    "glass": (CHOOSES, _table("glass", scaled=True)),
    "ionosphere": (CHOOSES, _table("ionosphere")),
    "hepatitis": (CHOOSES, _table("hepatitis", scaled=True)),
    "wine": (CHOOSES, data_sets._scaled("load_wine")),
    "digits": (CHOOSES, data_sets._made("load_digits", return_X_y=True)),
    "mfeat_fourier": (CHOOSES, _table("mfeat_fourier")),
    "letter": (CHOOSES, _table("letter", 2500)),
    "news, 5 groups": (CHOOSES, _some_news((0, 7, 9, 14, 17))),
    "moons": (CHOOSES, data_sets._made("make_moons", 1200, noise=0.12, random_state=0)),
    "20 to 80": (CHOOSES, _unequal),
    "polblogs": (CHOOSES, data_sets._graph("polblogs")),
    "amazon_photo": (CHOOSES, data_sets._graph("amazon_photo")),
    "coauthor_phy": (CHOOSES, data_sets._graph("coauthor_phy")),
    **{f"network {i}": (CHOOSES, _made_network(i)) for i in range(len(NETWORKS))},
    "iris": (JUDGES, data_sets._made("load_iris", return_X_y=True)),
    "dermatology": (JUDGES, _table("dermatology", scaled=True)),
    "pima": (JUDGES, _table("pima", scaled=True)),
    "zoo": (JUDGES, _table("zoo")),
    "Wisconsin": (JUDGES, _table("breast_cancer_wisconsin_original")),
    "WDBC": (JUDGES, data_sets._scaled("load_breast_cancer")),
    "optdigits": (JUDGES, _table("optdigits", 3000)),
    "usps": (JUDGES, _table("usps", 3000)),
    "mnist": (JUDGES, _table("mnist", 6000)),
    "news, 4 groups": (JUDGES, _some_news((2, 10, 12, 16))),
    "satellite-like": (JUDGES, _table("satellite-like", 3000)),
    "circles": (JUDGES, data_sets._made("make_circles", 1200, noise=0.09, factor=0.5,
                                      random_state=0)),
    "merged blobs": (JUDGES, data_sets.DATA["merged blobs"]),
    "blocks": (JUDGES, data_sets._blocks),
    "email": (JUDGES, data_sets._graph("email_eu_core")),
    "sbm": (JUDGES, data_sets._graph("sbm_graphchallenge_20000")),
}  # fmt: skip

# ---------------------------------------------------------------- what is known


def _both(case: Case, seed: int) -> data.Known:
    """Three labels a class and pairs of a fifth of the rows."""
    pairs = data_sets._pairs(0.2)(case, seed)
    return replace(pairs, labels=data_sets._labels(3)(case, seed).labels)


KINDS: dict[str, Callable[[Case, Any], data.Known]] = {
    "none": lambda case, seed: data.Known(),
    "1 label": data_sets._labels(1),
    "3 labels": data_sets._labels(3),
    "10 labels": data_sets._labels(10),
    "30 labels": data_sets._labels(30),
    "n/10 pairs": data_sets._pairs(0.1),
    "n/2 pairs": data_sets._pairs(0.5),
    "2n pairs": data_sets._pairs(2.0),
    "n/2 pairs, 5 % wrong": data_sets._pairs(0.5, 0.05),
    "both": _both,
}


def group_of(kind: str) -> str:
    """labels, pairs, both or none."""
    return next((f"{word}s" for word in ("label", "pair") if word in kind), kind)


# ---------------------------------------------------------------- methods

PAIRED = ("CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE", "SSKK", "SRCP")
LABELLED = ("GFHF", "LLGC", "Poisson", "CSP", "FastGE", "CSCGFHF")


def ours(case: Case, known: data.Known) -> list[str]:
    """Our methods for what is known; `SRCP` takes too long on the largest networks."""
    if known.nothing:
        return ["NCut"]
    found = ["NCut", *(LABELLED if known.pairs is None else PAIRED)]
    if sp.issparse(case.data) and case.y.size >= _LARGE:
        found = [name for name in found if name != "SRCP"]
    return found


def auto(case: Case, known: data.Known) -> Any:
    """What is taken where nobody chooses, fitted to the points or the network."""
    import mustlink as ml

    affinity = "knn" if isinstance(case.data, np.ndarray) else "precomputed"
    est = ml.Auto(case.k, affinity=affinity, random_state=0)
    if known.pairs is None:
        return est.fit(case.data, known.labels)
    return est.fit(case.data, constraints=known.constraints(case.y.size))


def theirs(case: Case, known: data.Known) -> dict[str, Callable[[], Any]]:
    """Their methods, each a call that gives labels."""
    found: dict[str, Callable[[], Any]] = {}
    points = isinstance(case.data, np.ndarray)
    if known.labels is not None:
        table = peers.OF_LABELLED_POINTS if points else peers.LABELS_OF_NETWORKS
        found = {name: partial(table[name], case.data, known.labels) for name in _there(table)}
    return found


def blind(case: Case) -> dict[str, Callable[[], Any]]:
    """Their methods that nothing can be said to."""
    if isinstance(case.data, np.ndarray):
        return {name: partial(way, case.data, case.k) for name, way in peers.OF_POINTS.items()}
    table = peers.OF_NETWORKS
    return {name: partial(table[name], case.data, case.k, 0) for name in _there(table)}


_LEFT_OUT: set[str] = set()


def _there(table: Iterable[str]) -> list[str]:
    new = [name for name in table if name not in _LEFT_OUT]
    found = peers.installed(new)
    _LEFT_OUT.update(set(new) - set(found))
    return found


class Fits:
    """What was fitted before, kept in a file; the graph and the blind answers of the last set."""

    def __init__(self, out: Any) -> None:
        self._cache = runner.RunCache(out / "defaults.jsonl")
        self._known = {self._key(run): run for run in self._cache.runs}
        self._graph: tuple[str, Any] = ("", None)
        self._answers: dict[tuple[str, str], Any] = {}

    @staticmethod
    def _key(run: dict[str, Any]) -> tuple[Any, ...]:
        return run["set"], run["kind"], run["draw"], run["method"]

    def of(self, name: str, case: Case, kind: str, draw: int, method: str, call: Any) -> Any:
        """ARI and seconds of a method in a cell; of one that failed the reason."""
        one = {"set": name, "kind": kind, "draw": draw, "method": method}
        if self._key(one) not in self._known:
            try:
                answer, seconds, cpu = runner.cpu_timed(call)
                known = KINDS[kind](case, draw)
                rows = np.ones(case.y.size, bool) if known.labels is None else known.labels < 0
                ari = fits.ari(case.y[rows], np.asarray(answer)[rows])
                found = {"ari": ari, "seconds": seconds, "cpu": cpu}
            except Exception as error:
                found = {"ari": None, "why": f"{type(error).__name__}: {error}"[:200]}
            self._cache.add({**one, **found})
            self._known[self._key(one)] = {**one, **found}
        return self._known[self._key(one)]

    def once(self, name: str, method: str, call: Callable[[], Any]) -> Callable[[], Any]:
        """A call whose answer does not depend on what is known: made once a set."""

        def answer() -> Any:
            if (name, method) not in self._answers:
                self._answers = {key: one for key, one in self._answers.items() if key[0] == name}
                self._answers[name, method] = call()
            return self._answers[name, method]

        return answer

    def graph_of(self, name: str, case: Case) -> Any:
        """Neighbour graph of points, or the network as a graph."""
        import mustlink as ml

        if self._graph[0] != name:
            points = isinstance(case.data, np.ndarray)
            made = ml.knn_graph(case.data, random_state=0) if points else case.data
            self._graph = name, made if points else ml.Graph.from_affinity(made)
        return self._graph[1]


def draw_of(
    name: str, case: Case, kind: str, draw: int, fitted: Fits, only: list[str]
) -> dict[str, dict[str, Any]]:
    """Every method's ARI and seconds in a draw; blind ones are fitted once a set."""
    known = KINDS[kind](case, draw)

    def ours_by(method: str) -> Callable[[], Any]:
        return lambda: (
            fits.fit(fits.make(method, case.k), fitted.graph_of(name, case), known).labels_
        )

    calls = {"Auto": lambda: auto(case, known).labels_}
    calls |= {method: ours_by(method) for method in ours(case, known)} | theirs(case, known)
    alone = {"NCut": ours_by("NCut"), **blind(case)}
    calls |= {method: fitted.once(name, method, call) for method, call in alone.items()}
    return {
        method: fitted.of(name, case, kind, draw, method, call)
        for method, call in calls.items()
        if not only or method in only
    }


def cell(draws: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Means of ARI and seconds of every method that ran in all draws."""
    found = {}
    for method in draws[0]:
        runs = [one[method] for one in draws if method in one and one[method]["ari"] is not None]
        if len(runs) == len(draws):
            found[method] = {
                what: statistics.mean(run[what] for run in runs) for what in ("ari", "cpu")
            }
    return found


# ---------------------------------------------------------------- judging


def judged(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Loss of every method against the best of all."""
    best = max(run["ari"] for run in found.values())
    return {method: best - run["ari"] for method, run in found.items()}


def summary(cells: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For every method mean ARI, mean and worst loss, CPU seconds; those of most cells."""
    names = dict.fromkeys(method for one in cells for method in one["loss"])
    found = {}
    for method in names:
        mine = [one for one in cells if method in one["loss"]]
        if 2 * len(mine) < len(cells):
            continue
        found[method] = {
            "cells": len(mine),
            "ari": statistics.mean(one["runs"][method]["ari"] for one in mine),
            "loss": statistics.mean(one["loss"][method] for one in mine),
            "worst": max(one["loss"][method] for one in mine),
            "worst_in": max(mine, key=lambda one: one["loss"][method])["title"],
            "cpu": statistics.mean(one["runs"][method]["cpu"] for one in mine),
        }
    return dict(sorted(found.items(), key=lambda item: item[1]["loss"]))


def main() -> None:
    args = runner.options(
        __doc__, draws=3, only=list(SETS), kinds=list(KINDS), methods=[], quick=False
    )
    fitted, cells, sizes = Fits(args.out), [], {}
    for name in args.only:
        role, load = SETS[name]
        case = load()
        if case is None or (args.quick and case.y.size > QUICK_ROWS):
            continue
        sizes[name] = {"role": role, "rows": case.y.size, "classes": case.k}
        for kind in args.kinds if not args.quick else QUICK_KINDS:
            draws = range(args.draws if group_of(kind) == "labels" and not args.quick else 1)
            runs = cell([draw_of(name, case, kind, d, fitted, args.methods) for d in draws])
            if runs:
                entry = {"set": name, "role": role, "kind": kind, "group": group_of(kind)}
                entry |= {"title": f"{name}, {kind}", "runs": runs, "loss": judged(runs)}
                cells.append(entry)
        runner.say(f"{name}: done")
    report(cells)
    runner.record("defaults", {"sets": sizes, **figures(cells)})


def figures(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Summaries by what is known and by role, and by kind."""
    found: dict[str, Any] = {}
    for role in (CHOOSES, JUDGES):
        for group in dict.fromkeys(one["group"] for one in cells):
            some = [one for one in cells if (one["role"], one["group"]) == (role, group)]
            if some:
                below = below_the_cut(some)
                found[f"{group}, {role}"] = {
                    "cells": len(some),
                    "below_the_cut": below,
                    "methods": summary(some),
                }
    return found


def below_the_cut(cells: list[dict[str, Any]]) -> list[str]:
    """Cells in which something is known and `Auto` is below `NCut` by more than 0.02."""
    return [
        one["title"]
        for one in cells
        if one["group"] != "none"
        and "Auto" in one["loss"]
        and one["loss"]["Auto"] > one["loss"].get("NCut", 1.0) + 0.02
    ]


def report(cells: list[dict[str, Any]]) -> None:
    """Tables of every group and role."""
    for title, table in figures(cells).items():
        render.records(f"{title}: {table['cells']} cells", table["methods"])
        if table["below_the_cut"]:
            print(f"Auto below NCut by more than .02: {'; '.join(table['below_the_cut'])}")


if __name__ == "__main__":
    main()
