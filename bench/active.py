"""Labels and pairs that are asked for, beside random ones: ARI by number of answers.

    python bench/active.py [--draws 10] [--only optdigits usps] [--strategies auto random]
    python bench/active.py --pairs              CSP by pairs, 300 asked beside 1,000 at random
    python bench/active.py --method Auto        in the place of Poisson
    python bench/active.py --wrong 0.05         with so many wrong answers

Labels: the method begins with one random label a class, the same for every strategy, and is
refitted after every ten answers. Where graphlearning is installed, its strategies ask and answer on
the same graph, three draws each. The rule that "auto" is was chosen on optdigits, usps, letter,
amazon_photo and 10,000 of MNIST, two to five draws each; the other sets only judge. Every run is a
line of out/active.jsonl, and the next call goes on from there. Needs the data folder.
"""

from __future__ import annotations

import importlib.util
import statistics
import warnings
from typing import Any

import data
import fits
import peers
import render
import runner

LABELS, PAIRS, BATCH = 200, 1000, 10
ASKED_PAIRS, PAIR_BATCH, RANDOM_PAIRS = 300, 20, 100
SETS = (
    "optdigits", "usps", "letter", "amazon_photo", "mnist", "satellite-like", "mfeat_fourier",
    "coauthor_phy",
)  # fmt: skip
PAIR_SETS = ("optdigits", "usps", "satellite-like", "mnist-10000")
FEW = 3  # draws of what takes long
STRATEGIES = ("random", "auto")
PEERS = ("unc_sampling", "var_opt", "model_change_var_opt")
TOLD = {"labels": (0, 10, 20, 40, 60, 100, 200), "pairs": (0, 100, 200, 300, 500, 1000)}
GOAL = {"labels": 100, "pairs": 1000}  # random answers that asked ones shall be as good as


def answers(y: Any, asked: Any, wrong: float, rng: Any) -> Any:
    """Classes of the rows asked, a share of them wrong; -1, "don't know", where there is none."""
    import numpy as np

    found, classes = y[asked].copy(), np.unique(y[y >= 0])
    slips = (rng.random(len(asked)) < wrong) & (found >= 0)
    found[slips] = rng.choice(classes, slips.sum())
    return found


def by_labels(
    graph: Any, y: Any, strategy: str, draw: int, wrong: float, method: str, points: Any
) -> Any:
    """ARI after 0, 10, … answers."""
    import numpy as np

    import mustlink as ml

    rng = np.random.default_rng(draw)
    given = data.labels_per_class(y, 1, rng)
    if strategy.startswith("graphlearning"):
        if graph.n_components > 1:
            return None  # its Poisson learning answers one class there
        first = graph.first_rows
        slips = answers(y, np.arange(y.size), wrong, rng)[first]
        task = graph.affinity, given[first], slips, strategy.split()[1], LABELS // BATCH, BATCH
        return [fits.ari(y, graph.spread(np.array(one))) for one in peers.questions(*task)]
    known = data.Known(labels=given)
    est = fits.fit(fits.make(method, np.unique(y[y >= 0]).size), graph, known, points)
    found, avoid = [fits.ari(y, est.labels_)], np.empty(0, np.int64)
    for _ in range(LABELS // BATCH):
        seed = int(rng.integers(2**31))
        asked = ml.next_queries(est, BATCH, strategy=strategy, avoid=avoid, random_state=seed)
        given = given.copy()
        given[asked] = answers(y, asked, wrong, rng)
        avoid = np.append(avoid, asked[given[asked] < 0])
        est.refit(given)
        found.append(fits.ari(y, est.labels_))
    return found


def by_pairs(graph: Any, y: Any, strategy: str, draw: int, wrong: float) -> Any:
    """ARI after 0, 20, … pairs; random ones in steps of 100 up to 1,000."""
    import numpy as np

    import mustlink as ml

    k, rng = np.unique(y[y >= 0]).size, np.random.default_rng(draw)
    est = fits.make("CSP", k, random_state=draw).fit(graph)
    found = [fits.ari(y, est.labels_)]
    ends, belief = np.empty((0, 2), np.int64), np.empty(0)
    usual = strategy == "random"
    for _ in range(PAIRS // RANDOM_PAIRS if usual else ASKED_PAIRS // PAIR_BATCH):
        if usual:
            asked = data.random_pairs(y, RANDOM_PAIRS, rng)[0]
        else:
            asked = ml.next_queries(est, PAIR_BATCH, kind="pairs", strategy=strategy)
        true = np.where(y[asked[:, 0]] == y[asked[:, 1]], 1.0, -1.0)
        true[rng.random(len(asked)) < wrong] *= -1.0
        ends, belief = np.concatenate([ends, asked]), np.concatenate([belief, true])
        known = ml.Constraints.from_pairs(ends, belief, n_nodes=y.size)
        est.refit(constraints=known if usual else known.closure())  # of random ones it is worse
        found.append(fits.ari(y, est.labels_))
    return found


def medians(runs: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """By set and strategy: draws, and medians over them at some numbers of answers.

    `worst` is the least that a median is above random's of the same draws, `after` how many answers
    bring what `GOAL` random ones do, None where they do not.
    """
    usual_width, width = (BATCH, BATCH) if kind == "labels" else (RANDOM_PAIRS, PAIR_BATCH)

    def curve(some: list[dict[str, Any]], width: int) -> dict[int, float]:
        points = zip(*(run["curve"] for run in some), strict=True)
        return {step * width: statistics.median(point) for step, point in enumerate(points)}

    sets: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run["set"] for run in runs):
        here = [run for run in runs if run["set"] == name]
        for strategy in dict.fromkeys(run["strategy"] for run in here):
            some = [run for run in here if run["strategy"] == strategy]
            draws = {run["draw"] for run in some}
            same = [r for r in here if r["strategy"] == "random" and r["draw"] in draws]
            usual = curve(same, usual_width)
            found = curve(some, usual_width if strategy == "random" else width)
            sets.setdefault(name, {})[strategy] = {
                "draws": len(some),
                "told": [None if n not in found else round(found[n], 4) for n in TOLD[kind]],
                "worst": round(min(found[n] - usual[n] for n in found if n in usual), 4),
                "after": next((n for n, v in found.items() if v >= usual[GOAL[kind]]), None),
            }
    return {"at": TOLD[kind], "goal": GOAL[kind], "sets": sets}


def main() -> None:
    lists: dict[str, Any] = {"only": [], "strategies": []}
    args = runner.options(__doc__, draws=10, method="Poisson", pairs=False, wrong=0.0, **lists)
    warnings.simplefilter("ignore")
    kind, method = ("pairs", "CSP") if args.pairs else ("labels", args.method)
    there = not args.pairs and importlib.util.find_spec("graphlearning") is not None
    wanted = args.strategies or [*STRATEGIES, *(f"graphlearning {p}" for p in PEERS if there)]
    same = {"kind": kind, "wrong": args.wrong, "method": method}
    cache = runner.RunCache(args.out / "active.jsonl")
    for name in args.only or (PAIR_SETS if args.pairs else SETS):
        loaded = None
        for draw in range(args.draws):
            for strategy in wanted:
                case = {"set": name, **same, "strategy": strategy, "draw": draw}
                if cache.find(**case) or (strategy not in STRATEGIES and draw >= FEW):
                    continue
                loaded = loaded or data.load(name)
                if loaded is None:
                    continue
                runner.say(f"{name}, {strategy}, draw {draw}")
                rest = (*loaded, strategy, draw, args.wrong)
                by_columns = fits.METHODS[method].points and name not in data.NETWORKS
                points = data.points(name)[0] if by_columns else None
                curve = by_pairs(*rest) if args.pairs else by_labels(*rest, method, points)
                if curve is not None:
                    cache.add({**case, "curve": curve})
    runs = [run for run in cache.find(**same) if run["draw"] < args.draws]
    figures = medians(runs, kind)
    rows = {
        f"{name}, {strategy}": {
            "draws": one["draws"], **dict(zip(map(str, TOLD[kind]), one["told"], strict=True)),
            "worst": one["worst"], "after": one["after"],
        }
        for name, by in figures["sets"].items() for strategy, one in by.items()
    }  # fmt: skip
    render.records(f"ARI, {kind} asked, {method}, {args.wrong:.0%} of the answers wrong", rows)
    name = f"asked_{kind}_{method.lower().replace('-', '_')}" + ("_wrong" if args.wrong else "")
    runner.record(name, {**same, **figures})


if __name__ == "__main__":
    main()
