"""Labels and pairs that are asked for, beside random ones: ARI and accuracy by number of answers.

    python bench/active.py [--draws 10] [--only optdigits usps] [--strategies auto margin]
    python bench/active.py --pairs              CSP by pairs, 300 asked beside 1,000 at random
    python bench/active.py --method GFHF        in the place of Poisson, classes of equal shares
    python bench/active.py --wrong 0.05         with so many wrong answers
    python bench/active.py --peers-python VENV/bin/python   graphlearning's on the same graph

Labels: the method begins with one random label a class, the same for every strategy, and is
refitted after every ten answers. The rule that "auto" is was chosen on optdigits, usps, letter,
amazon_photo and 10,000 of MNIST, two to five draws each; the other sets only judge. Runs go to
bench/out/active.jsonl, from which the next call goes on. Needs the data folder.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import common

LABELS, PAIRS, BATCH = 200, 1000, 10
ASKED_PAIRS, PAIR_BATCH = 300, 20
CHOSE = ("optdigits", "usps", "letter", "amazon_photo", "mnist")
SETS = (*CHOSE, "satellite-like", "mfeat_fourier", "coauthor_phy")
NETWORKS = ("amazon_photo", "coauthor_phy")
TOLD = (0, 10, 20, 40, 60, 100, 200)
STRATEGIES = ("random", "auto", "v-optimal", "variance-in-doubt", "coverage", "margin")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Poisson": ("Poisson", {}),
    "GFHF": ("GFHF", {"class_mass": "equal"}),
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
        path = common.data_file("points/mnist.npz" if name == "mnist" else f"uci/{name}.npz")
        if path is None:
            return None
        found = np.load(path)
        X, y = found["X"].astype(np.float32), found["y"]
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
    est = ml.CSP(k, affinity="precomputed", random_state=0).fit(graph)
    found = [scored(est.labels_, y)]
    ends, belief = np.empty((0, 2), np.int64), np.empty(0)
    usual = strategy == "random"
    for _ in range(PAIRS // 100 if usual else ASKED_PAIRS // PAIR_BATCH):
        if usual:
            asked = common.random_pairs(y, 100, rng)[0]
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


def summary(runs: list[dict[str, Any]], kind: str, wrong: float) -> None:
    """A row a set and strategy: medians, the worst difference to random, answers for random's."""
    step = {True: 100, False: PAIR_BATCH} if kind == "pairs" else {True: BATCH, False: BATCH}
    goal = PAIRS if kind == "pairs" else 100
    columns = TOLD if kind == "labels" else (0, 100, 200, 300, 1000)
    for at, measure in enumerate(("ARI", "accuracy")):
        rows = []
        for name in dict.fromkeys(run["set"] for run in runs):
            curves: dict[str, list[list[float]]] = {}
            for run in runs:
                if run["set"] == name:
                    curves.setdefault(run["strategy"], []).append([v[at] for v in run["curve"]])
            middle = {
                s: [statistics.median(v) for v in zip(*c, strict=True)] for s, c in curves.items()
            }
            if "random" not in middle:
                continue
            usual = middle["random"]
            wanted = usual[goal // step[True]]
            for strategy, found in middle.items():
                width = step[strategy == "random"]
                shared = set(steps(found, width)) & set(steps(usual, step[True]))
                worst = min(found[n // width] - usual[n // step[True]] for n in shared)
                first = next((i * width for i, v in enumerate(found) if v >= wanted), None)
                reached = {n: f"{v:.3f}" for n, v in zip(steps(found, width), found, strict=True)}
                told = [reached.get(n, "") for n in columns]
                rows.append([name, strategy, len(curves[strategy]), *told, f"{worst:+.3f}", first])
        heads = [str(n) for n in columns]
        title = f"{measure} by {kind} asked, {wrong:.0%} of the answers wrong"
        last = ["worst against random", f"random's at {goal} after"]
        common.table(title, ["set", "strategy", "draws", *heads, *last], rows)


def steps(curve: list[float], width: int) -> range:
    """Answers at every point of a curve."""
    return range(0, len(curve) * width, width)


def main() -> int:
    parser = common.parser(__doc__ or "")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--strategies", nargs="*")
    parser.add_argument("--method", default="Poisson", choices=METHODS)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--peers-python")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    kind = "pairs" if args.pairs else "labels"
    usual = ("random", "auto", "expected-change") if args.pairs else STRATEGIES
    wanted = list(args.strategies or usual)
    if args.peers_python:
        wanted += [f"graphlearning {name}" for name in PEERS]
    kept = args.out / "active.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for name in args.only:
        loaded = load(name)
        if loaded is None:
            continue
        for draw in range(args.draws):
            for strategy in wanted:
                key = {"set": name, "kind": kind, "strategy": strategy, "draw": draw}
                key |= {"wrong": args.wrong, "method": "CSP" if args.pairs else args.method}
                if any(all(run[k] == v for k, v in key.items()) for run in runs):
                    continue
                common.say(f"{name}, {strategy}, draw {draw}")
                rest = draw, args.wrong
                if strategy.startswith("graphlearning"):
                    curve = by_peer(args.peers_python, *loaded, strategy.split()[1], *rest)
                elif args.pairs:
                    curve = by_pairs(*loaded, strategy, *rest)
                else:
                    curve = by_labels(*loaded, strategy, *rest, args.method)
                if curve is not None:
                    runs.append({**key, "curve": curve})
                    with kept.open("a") as file:
                        file.write(json.dumps(runs[-1]) + "\n")
    same = {"kind": kind, "wrong": args.wrong, "method": "CSP" if args.pairs else args.method}
    some = [run for run in runs if all(run[k] == v for k, v in same.items())]
    summary([run for run in some if run["draw"] < args.draws], kind, args.wrong)
    return 0


if __name__ == "__main__":
    sys.exit(main())
