"""MNIST and its like: every method on one graph, by what is known; means over draws.

    python bench/mnist.py                        CSP by its defaults, by labels and by pairs
    python bench/mnist.py --methods              every constrained method
    python bench/mnist.py --pairs                SRCP and E2CP beside CSP and SSSC, optdigits, too
    python bench/mnist.py --propagate            1 to 5 labels a class: propagators beside peers
    python bench/mnist.py --methods --draws 1 --only CSP SSSC

All fits of a table get the same graph and the same draws. Peers that are not installed are left
out with a line. Needs the data folder.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import data
import fits
import peers
import render
import runner

FEW = ("1 labels", "5 labels", "20 labels")
SETTINGS = (*FEW, "300 pairs", "5000 pairs")
BY_PAIRS = ("500 pairs", "2000 pairs", "10000 pairs")
RATES = tuple(f"{n} labels" for n in range(1, 6))
SPREAD = (
    "CSCGFHF", "GFHF", "GFHF, class mass", "LLGC", "LLGC, class mass", "TikReg", "NCutPropagation",
    "GreenFunction", "Poisson", "LELPC", "GWEM", "ClusterKernel", "LNP", "LLELP", "LTSALP",
)  # fmt: skip
TOLD = ("CSCGFHF", "GFHF, class mass", "LLGC, class mass", "Poisson", "LELPC")  # in docs


def compare(
    name: str, methods: list[str], settings: list[str], draws: int, accuracy: bool = False
) -> dict[str, Any]:
    """Mean ARI, or accuracy, and seconds of methods and peers on a set, by setting."""
    import numpy as np

    loaded = data.load(name)
    points = data.points(name)
    if loaded is None or points is None:
        return {}
    (graph, y), X = loaded, points[0]
    k, found = int(y.max()) + 1, {}
    for method in methods:
        for setting in settings:
            scores, seconds = [], []
            for seed in range(draws):
                known = data.draw(y, setting, seed)
                if method in peers.OF_LABELS:
                    call, args = peers.OF_LABELS[method], (graph.affinity, known.labels)
                    labels, time = runner.timed(call, *args)
                else:
                    points_ = X if fits.METHODS[method].points else None
                    est = fits.make(method, k)
                    est, time = runner.timed(fits.fit, est, graph, known, points_)
                    labels = est.labels_
                if accuracy and method == "CSCGFHF":
                    labels = fits.named(labels, known.labels)
                score = float(np.mean(labels == y)) if accuracy else fits.ari(y, labels)
                scores.append(score)
                seconds.append(time)
            one = {"score": statistics.mean(scores), "seconds": statistics.mean(seconds)}
            found.setdefault(method, {})[setting] = one
            runner.say(f"{name}, {method}, {setting}: {one['score']:.4f}, {one['seconds']:.1f} s")
    return found


def table(title: str, found: dict[str, Any]) -> None:
    rows = {
        method: {s: f"{one['score']:.4f} ({one['seconds']:.1f} s)" for s, one in by.items()}
        for method, by in found.items()
    }
    render.records(title, rows)


def scores(found: dict[str, Any], scale: float = 1.0) -> dict[str, list[float]]:
    """By method the score of every setting."""
    return {m: [scale * one["score"] for one in by.values()] for m, by in found.items()}


def defaults(args: argparse.Namespace) -> None:
    draws, settings = args.draws or 5, [*FEW, "300 pairs", "1000 pairs", "5000 pairs"]
    ncut = runner.call("mnist:compare", name="mnist", methods=["NCut"], settings=["none"], draws=1)
    task = {"name": "mnist", "methods": ["CSP"], "settings": settings, "draws": draws}
    found = runner.call("mnist:compare", **task)
    if "CSP" not in found:
        return
    table(f"MNIST, ARI of {draws} draws", {"CSP": found["CSP"]})
    by = {s.split()[0]: one["score"] for s, one in found["CSP"].items()}
    parts = {"labels": dict(list(by.items())[:3]), "pairs": dict(list(by.items())[3:])}
    plain = ncut["NCut"]["none"]["score"]
    runner.record("mnist", {"draws": draws, "ncut": plain, **parts})


def methods(args: argparse.Namespace) -> None:
    draws, names = args.draws or 3, args.only or list(fits.CONSTRAINED)
    found = compare("mnist", names, list(SETTINGS), draws)
    table(f"MNIST, ARI (seconds), {draws} draws", found)
    if found:
        heads = [
            s.replace("labels", "labels a class").replace("1 labels", "1 label") for s in SETTINGS
        ]
        runner.record("mnist_methods", {"columns": heads, "rows": scores(found)})


def pairs(args: argparse.Namespace) -> None:
    draws, names = args.draws or 2, args.only or ["NCut", "SRCP", "E2CP", "CSP", "SSSC"]
    both = [compare(name, names, list(BY_PAIRS), draws) for name in ("optdigits", "mnist")]
    for found in both:
        table(f"ARI (seconds), {draws} draws", found)
    if all(both):
        rows = {m: [*scores(both[0])[m], *scores(both[1])[m]] for m in names}
        last = BY_PAIRS[-1]
        seconds = {m: [one[m][last]["seconds"] for one in both] for m in names if m != "NCut"}
        runner.record("mnist_pairs", {"rows": rows, "seconds": seconds})


def propagate(args: argparse.Namespace) -> None:
    draws, names = args.draws or 10, args.only or [*SPREAD, *peers.installed(peers.OF_LABELS)]
    found = {}
    for name in names:  # in processes of their own: peaks
        task = {"name": "mnist", "methods": [name], "settings": list(RATES), "draws": draws}
        one = runner.call("mnist:compare", **task, accuracy=True)
        found |= {name: one[name]} if name in one else {}
    table(f"MNIST, accuracy (seconds), {draws} draws", found)
    told = [m for m in (*TOLD, *peers.OF_LABELS) if m in found and m != "graphlearning Laplace"]
    if found and not args.only:
        rows = scores({m: found[m] for m in told}, 100.0)
        runner.record("mnist_propagate", {"draws": draws, "rows": rows})


def main() -> None:
    flags = {"methods": False, "pairs": False, "propagate": False}
    args = runner.options(__doc__, draws=0, only=[], **flags)
    parts = {"methods": methods, "pairs": pairs, "propagate": propagate}
    chosen = [part for name, part in parts.items() if vars(args)[name]]
    for part in chosen or [defaults]:
        part(args)


if __name__ == "__main__":
    main()
