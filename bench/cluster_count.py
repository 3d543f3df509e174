"""How many clusters `n_clusters="auto"` finds: sets with clear clusters, with none, and by pairs.

    python bench/cluster_count.py [--draws 5] [--pairs 300]

Generated sets are drawn anew for every draw, real ones are what they are; networks are counted as
networks. Of data in one piece a doubt is the right answer. The last table asks random pairs, of
classes that the graph alone does not show. Needs the data folder for some of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import data
import render
import runner

_POINTS = 1_500


def clear() -> dict[str, tuple[int, Callable[[Any], Any]]]:
    """Name, K and graph by a generator of twelve sets; None where the data are not there."""
    import numpy as np
    from sklearn import datasets

    def clouds(k: int, d: int, far: float, sizes: Any = None) -> Callable[[Any], Any]:
        def made(rng: Any) -> Any:
            y = rng.choice(k, _POINTS, p=sizes)
            return graph_of((rng.normal(size=(k, d)) * far)[y] + rng.normal(size=(_POINTS, d)))

        return made

    def moons(rng: Any) -> Any:
        return graph_of(datasets.make_moons(_POINTS, noise=0.05, random_state=seed(rng))[0])

    def rings(rng: Any) -> Any:
        angle, radius = rng.uniform(0, 2 * np.pi, _POINTS), 1.0 + np.arange(_POINTS) % 3
        circle = np.c_[np.cos(angle), np.sin(angle)]
        return graph_of(radius[:, None] * circle + 0.05 * rng.normal(size=circle.shape))

    def scaled(load: Callable[[], Any]) -> Callable[[Any], Any]:
        X = load().data
        return lambda _: graph_of((X - X.mean(axis=0)) / X.std(axis=0))

    unequal = np.array([1, 2, 4, 8, 12, 20]) / 47
    return {
        "3 clouds in 5 dimensions": (3, clouds(3, 5, 5.0)),
        "6 clouds, sizes 1 to 20": (6, clouds(6, 10, 4.0, unequal)),
        "15 clouds in 20 dimensions": (15, clouds(15, 20, 2.0)),
        "2 moons": (2, moons),
        "3 rings": (3, rings),
        "block model, 4": (4, lambda rng: blocks(rng, 4)),
        "block model, 16": (16, lambda rng: blocks(rng, 16)),
        "iris": (3, lambda _: graph_of(datasets.load_iris().data)),
        "wine": (3, scaled(datasets.load_wine)),
        "breast cancer": (2, scaled(datasets.load_breast_cancer)),
        "graph challenge, 32 blocks": (32, lambda _: graph("sbm_graphchallenge_20000")),
        "political blogs": (2, lambda _: graph("polblogs")),
    }


def one_piece() -> dict[str, Callable[[Any], Any]]:
    """Sets without clusters."""
    import numpy as np
    from sklearn import datasets

    def ring(rng: Any) -> Any:
        angle = rng.uniform(0, 2 * np.pi, _POINTS)
        return np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.normal(size=(_POINTS, 2))

    def sphere(rng: Any) -> Any:
        X = rng.normal(size=(_POINTS, 3))
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    made: dict[str, Callable[[Any], Any]] = {
        "uniform square": lambda rng: rng.random((_POINTS, 2)),
        "uniform rectangle 5 : 1": lambda rng: rng.random((_POINTS, 2)) * [5, 1],
        "uniform cube in 5 dimensions": lambda rng: rng.random((_POINTS, 5)),
        "cloud in 2 dimensions": lambda rng: rng.normal(size=(_POINTS, 2)),
        "cloud in 10 dimensions": lambda rng: rng.normal(size=(_POINTS, 10)),
        "long cloud": lambda rng: rng.normal(size=(_POINTS, 3)) * [8, 1, 1],
        "heavy tails": lambda rng: rng.standard_t(3, size=(_POINTS, 3)),
        "ring": ring,
        "sphere": sphere,
        "swiss roll": lambda rng: datasets.make_swiss_roll(_POINTS, random_state=seed(rng))[0],
    }
    found: dict[str, Callable[[Any], Any]] = {
        name: (lambda rng, draw=draw: graph_of(draw(rng))) for name, draw in made.items()
    }
    return {**found, "random network": lambda rng: blocks(rng, 1)}


def graph_of(X: Any) -> Any:
    """The neighbour graph of points."""
    import mustlink as ml

    return ml.knn_graph(X, 15, random_state=0)


def seed(rng: Any) -> int:
    """A seed for others' generators."""
    return int(rng.integers(2**31))


def blocks(rng: Any, k: int, n: int = 2_000, inside: float = 12.0, across: float = 3.0) -> Any:
    """A block model of k equal blocks, of about so many edges a node."""
    import numpy as np
    import scipy.sparse as sp

    import mustlink as ml

    y = np.arange(n) % k
    ends = [rng.choice(np.flatnonzero(y == c), (int(inside * n / k / 2), 2)) for c in range(k)]
    ends = np.concatenate([*ends, rng.integers(n, size=(int(across * n / 2), 2))])
    ends = ends[ends[:, 0] != ends[:, 1]]
    A = sp.csr_matrix((np.ones(len(ends)), ends.T), shape=(n, n))
    return ml.Graph.from_affinity(((A + A.T) > 0).astype(float))


def graph(name: str) -> Any:
    """A network of the data folder, or None."""
    loaded = data.load(name)
    return None if loaded is None else loaded[0]


def counted(graph: Any, known: Any = None) -> tuple[int, str]:
    """K, and how sure: clear, moderate, no clear number, or the like."""
    from mustlink.context.stage_cache import Workspace
    from mustlink.selection.cluster_count import count_clusters

    found = count_clusters(Workspace(graph), 0, known)
    if found.doubt is None:
        return found.k, "clear"
    words = ("no clear number", "moderate", "no clusters at all", "counts differ")
    return found.k, next((word for word in words if word in found.doubt), "a doubt")


def by_pairs(m: int, draws: int) -> list[tuple[Any, ...]]:
    """K of real sets without and with m random pairs."""
    import numpy as np

    import mustlink as ml

    rows = []
    for name in ("digits", "optdigits", "usps", "mnist-10000", "mfeat_fourier"):
        loaded = data.load(name)
        if loaded is None:
            continue
        made, y = loaded
        found = []
        for draw in range(draws):
            known = data.draw(y, f"{m} pairs", draw)
            ends = known.pairs if made.rows is None else made.rows[known.pairs]
            apart = ends[:, 0] != ends[:, 1]
            pairs = ends[apart], known.belief[apart]
            found.append(counted(made, ml.Constraints.from_pairs(*pairs, n_nodes=made.n_nodes))[0])
        rows.append((name, int(np.unique(y).size), counted(made)[0], _numbers(found)))
        runner.say(f"{name}: {found}")
    return rows


def main() -> None:
    args = runner.options(__doc__, draws=5, pairs=300)
    import numpy as np

    rows, right = [], {}
    for name, (k, make) in clear().items():
        found = [counted(make(np.random.default_rng(draw))) for draw in _draws(make, args.draws)]
        near = sum(abs(one - k) <= 1 for one, _ in found)
        right[name] = near == len(found)
        rows.append((name, k, _numbers([one for one, _ in found]), _words(found)))
        runner.say(f"{name}: {found}")
    render.table("Clear clusters", ("set", "clusters", "found", "told"), rows)
    none, told = [], {}
    for name, make in one_piece().items():
        found = [counted(make(np.random.default_rng(draw))) for draw in range(args.draws)]
        told[name] = all(word != "clear" for _, word in found)
        none.append((name, _numbers([one for one, _ in found]), _words(found)))
    render.table("One piece", ("set", "found", "told"), none)
    pairs = by_pairs(args.pairs, args.draws)
    heads = ("set", "classes", "by the graph", f"by {args.pairs} pairs")
    render.table("What people mean", heads, pairs)
    print(f"\nright or within one in all draws: {sum(right.values())} of {len(right)}")
    print(f"one piece, never called clear: {sum(told.values())} of {len(told)}")
    figures = {"counted": rows, "one_piece": none, "pairs": pairs, "draws": args.draws}
    runner.record("cluster_count", {**figures, "right": right, "told": told, "m": args.pairs})


def _draws(make: Callable[[Any], Any], draws: int) -> range:
    """All draws of a set that is generated, one of a set that is not there to be drawn."""
    import numpy as np

    first, second = (make(np.random.default_rng(draw)) for draw in range(2))
    if first is None:
        return range(0)
    same = (first.affinity != second.affinity).nnz == 0 if first.n_nodes == second.n_nodes else 0
    return range(1 if same else draws)


def _numbers(found: list[int]) -> str:
    return ", ".join(f"{k}" for k in found)


def _words(found: list[tuple[int, str]]) -> str:
    words = [word for _, word in found]
    return ", ".join(f"{word} ({words.count(word)})" for word in dict.fromkeys(words))


if __name__ == "__main__":
    main()
