"""Labels and pairs that are asked for, beside random ones: ARI and accuracy by number of answers.

    python bench/active.py [--draws 10] [--only optdigits usps] [--strategies auto random]
    python bench/active.py --pairs              CSP by pairs, 300 asked beside 1,000 at random
    python bench/active.py --method GFHF        in the place of Poisson
    python bench/active.py --wrong 0.05         with so many wrong answers
    python bench/active.py --peers-python VENV/bin/python   graphlearning's on the same graph

Labels: the method begins with one random label a class, the same for every strategy, and is
refitted after every ten answers. graphlearning's strategies have three draws. The rule that "auto"
is was chosen on optdigits, usps, letter, amazon_photo and 10,000 of MNIST, two to five draws each;
the other sets only judge. Every run is added to bench/out/active.jsonl when it ends, and the next
call goes on from there; what is told and recorded are all runs of the kind, method and share of
wrong answers. Needs the data folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import active_told
import common

LABELS, PAIRS, BATCH = 200, 1000, 10
ASKED_PAIRS, PAIR_BATCH, RANDOM_PAIRS = 300, 20, 100
CHOSE = ("optdigits", "usps", "letter", "amazon_photo", "mnist")
SETS = (*CHOSE, "satellite-like", "mfeat_fourier", "coauthor_phy")
PAIR_SETS = ("optdigits", "usps", "satellite-like", "mnist-10000")
NETWORKS = ("amazon_photo", "coauthor_phy")
FEW = 3  # draws of what takes long
STRATEGIES = ("random", "auto")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Poisson": ("Poisson", {}),
    "Poisson-by-shares": ("Poisson", {"class_mass": False}),
    "GFHF": ("GFHF", {}),
}
PEERS = ("unc_sampling", "var_opt", "model_change_var_opt")


def load(name: str) -> tuple[Any, Any] | None:
    """A set's graph and classes, None where its file is absent."""
    import numpy as np

    import mustlink as ml

    if name == "satellite-like":
        X, y = satellite_like()
    elif name in NETWORKS:
        path = common.data_file(f"graphs/{name}.npz")
        if path is None:
            return None
        import scipy.sparse as sp

        found = np.load(path)
        parts = (found["data"], found["indices"], found["indptr"])
        return ml.Graph.from_affinity(sp.csr_matrix(parts, shape=found["shape"])), found["y"]
    else:
        of_mnist = name.startswith("mnist")
        path = common.data_file("points/mnist.npz" if of_mnist else f"uci/{name}.npz")
        if path is None:
            return None
        found = np.load(path)
        X, y = found["X"].astype(np.float32), found["y"]
        if name == "mnist-10000":
            some = np.sort(np.random.default_rng(0).choice(y.size, 10_000, replace=False))
            X, y = X[some], y[some]
    return ml.knn_graph(X, n_neighbors=15, random_state=0), y


def satellite_like() -> tuple[Any, Any]:
    """6,435 points, 36 coordinates: 9 pixels of 4 bands, six soils of uneven sizes that overlap."""
    import numpy as np

    rng = np.random.default_rng(0)
    sizes = (1533, 703, 1358, 626, 707, 1508)  # of Statlog's, as published
    y = np.repeat(np.arange(6), sizes)
    band = rng.normal(size=(6, 4)) * 12.0
    band[3] = band[2] + rng.normal(size=4) * 4.0  # grey soils: damp ones lie between
    band[5] = band[3] + rng.normal(size=4) * 4.0
    field = rng.normal(size=(y.size, 1, 4)) * 3.0  # pixels of one place are alike
    return (band[y][:, None] + field + rng.normal(size=(y.size, 9, 4)) * 3.0).reshape(-1, 36), y


def scored(labels: Any, y: Any) -> list[float]:
    """ARI and accuracy on nodes whose class is known."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    known = y >= 0
    right = float(np.mean(labels[known] == y[known]))
    return [float(adjusted_rand_score(y[known], labels[known])), right]


def begun(y: Any, draw: int) -> tuple[Any, Any]:
    """One random label a class, and the generator that answers."""
    import numpy as np

    rng = np.random.default_rng(draw)
    return common.labels_per_class(y, 1, rng), rng


def said(y: Any, asked: Any, wrong: float, rng: Any) -> Any:
    """Classes of the rows asked, a share of them wrong; -1, "don't know", where there is none."""
    import numpy as np

    found, classes = y[asked].copy(), np.unique(y[y >= 0])
    slips = (rng.random(len(asked)) < wrong) & (found >= 0)
    found[slips] = rng.choice(classes, slips.sum())
    return found


def by_labels(
    graph: Any, y: Any, strategy: str, draw: int, wrong: float, method: str = "Poisson"
) -> list[list[float]]:
    """ARI and accuracy after 0, 10, … answers; methods in `METHODS`."""
    import numpy as np

    import mustlink as ml

    given, rng = begun(y, draw)
    name, options = METHODS[method]
    est = getattr(ml, name)(affinity="precomputed", random_state=0, **options).fit(graph, given)
    found, avoid = [scored(est.labels_, y)], np.empty(0, np.int64)
    for _ in range(LABELS // BATCH):
        seed = int(rng.integers(2**31))
        asked = ml.next_queries(est, BATCH, strategy=strategy, avoid=avoid, random_state=seed)
        given = given.copy()
        given[asked] = said(y, asked, wrong, rng)
        avoid = np.append(avoid, asked[given[asked] < 0])
        est.refit(given)
        found.append(scored(est.labels_, y))
    return found


def by_pairs(graph: Any, y: Any, strategy: str, draw: int, wrong: float) -> list[list[float]]:
    """ARI and accuracy after 0, 20, … pairs; random ones in steps of 100 up to 1,000."""
    import numpy as np

    import mustlink as ml

    k, rng = np.unique(y[y >= 0]).size, np.random.default_rng(draw)
    est = ml.CSP(k, affinity="precomputed", random_state=draw).fit(graph)
    found = [scored(est.labels_, y)]
    ends, belief = np.empty((0, 2), np.int64), np.empty(0)
    usual = strategy == "random"
    for _ in range(PAIRS // RANDOM_PAIRS if usual else ASKED_PAIRS // PAIR_BATCH):
        if usual:
            asked = common.random_pairs(y, RANDOM_PAIRS, rng)[0]
        else:
            asked = ml.next_queries(est, PAIR_BATCH, kind="pairs", strategy=strategy)
        true = np.where(y[asked[:, 0]] == y[asked[:, 1]], 1.0, -1.0)
        true[rng.random(len(asked)) < wrong] *= -1.0
        ends, belief = np.concatenate([ends, asked]), np.concatenate([belief, true])
        known = ml.Constraints.from_pairs(ends, belief, n_nodes=y.size)
        est.refit(constraints=known if usual else known.closure())  # of random ones it is worse
        found.append(scored(est.labels_, y))
    return found


def by_peer(python: str, graph: Any, y: Any, strategy: str, draw: int, wrong: float) -> Any:
    """As `by_labels`, questions and answers by graphlearning in a process of its own."""
    import numpy as np

    if graph.n_components > 1:
        common.say("skipped: in a graph of several parts its Poisson learning answers one class")
        return None
    given, rng = begun(y, draw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        W = graph.affinity
        slips = said(y, np.arange(y.size), wrong, rng)
        np.savez(
            path, data=W.data, indices=W.indices, indptr=W.indptr, start=np.flatnonzero(given >= 0),
            y=y[graph.first_rows], said=slips[graph.first_rows], given=given[graph.first_rows],
        )  # fmt: skip
        here = str(common.BENCH / "active_peers.py")
        sizes = [str(LABELS // BATCH), str(BATCH)]
        done = subprocess.run(
            [python, here, str(path), strategy, *sizes], capture_output=True, text=True, check=False
        )
        if done.returncode:
            common.say(done.stderr[-300:])
            return None
        runs = json.loads(done.stdout.splitlines()[-1])
    return [scored(graph.spread(np.array(labels)), y) for labels in runs]


def main() -> int:
    parser = common.parser(__doc__ or "")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--strategies", nargs="*")
    parser.add_argument("--method", default="Poisson", choices=METHODS)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--peers-python")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    kind = "pairs" if args.pairs else "labels"
    peers = [f"graphlearning {name}" for name in PEERS] if args.peers_python else []
    wanted = args.strategies or [*STRATEGIES, *peers]
    sets = PAIR_SETS if args.pairs else SETS
    kept = args.out / "active.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    method = "CSP" if args.pairs else args.method
    same = {"kind": kind, "wrong": args.wrong, "method": method}
    runs = [run for run in runs if all(run[k] == v for k, v in same.items())]
    done = {(run["set"], run["strategy"], run["draw"]) for run in runs}
    for name in sets if args.only is None else args.only:
        left = [
            (strategy, draw)
            for draw in range(args.draws)
            for strategy in wanted
            if (strategy in STRATEGIES or draw < FEW) and (name, strategy, draw) not in done
        ]
        loaded = load(name) if left else None
        if loaded is None:
            continue
        for strategy, draw in left:
            common.say(f"{name}, {strategy}, draw {draw}")
            rest = draw, args.wrong
            if strategy.startswith("graphlearning"):
                curve = by_peer(args.peers_python, *loaded, strategy.split()[1], *rest)
            elif args.pairs:
                curve = by_pairs(*loaded, strategy, *rest)
            else:
                curve = by_labels(*loaded, strategy, *rest, method)
            if curve is not None:
                run = {"set": name, **same, "strategy": strategy, "draw": draw, "curve": curve}
                runs.append(run)
                with kept.open("a") as file:
                    file.write(json.dumps(run) + "\n")
    widths = (BATCH, BATCH) if kind == "labels" else (RANDOM_PAIRS, PAIR_BATCH)
    order = {each: at for at, each in enumerate((*sets, *wanted))}
    some = [run for run in runs if run["draw"] < args.draws]
    some.sort(key=lambda run: [order.get(run[k], len(order)) for k in ("set", "strategy")])
    figures = active_told.medians(some, kind, *widths)
    active_told.show(figures, f"{kind} asked, {method}, {args.wrong:.0%} of the answers wrong")
    name = f"asked_{kind}_{method.lower().replace('-', '_')}" + ("_wrong" if args.wrong else "")
    common.record(name, {**same, **active_told.ari(figures)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
