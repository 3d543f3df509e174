"""Constraint propagation on the million-point file: SRCP from pairs to clusters, and its growth.

    python bench/pairs.py [--out FOLDER] [--n 1000000] [--draws 1]
    python bench/pairs.py --growth            cost per pair, 10^4 to n nodes

Each fit runs in a process of its own, from the graph on, after one small fit that loads libraries
and kernels. NCut, without pairs, is the yardstick. The second question asks for the five pairs of
sheets that the graph does not show as clusters.
"""

from __future__ import annotations

import argparse
from typing import Any

import common
import million

PAIRS = (100, 1_000, 10_000)
WARM = 50  # side of the grid of the small fit: past the size that LAPACK solves
SPREADING = ("constraint propagation",)


def fit(
    graph: str, source: str, estimator: str, options: dict[str, Any], pairs: int, merged: bool,
    seed: int,
) -> dict[str, Any]:  # fmt: skip
    """One method with so many pairs on the sheets, or on pairs of sheets."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    target = formats.load_labels(f"{source}:/labels")
    target = target // 2 if merged else target
    n, k = len(target), int(target.max()) + 1
    ends, belief = common.random_pairs(target, pairs, np.random.default_rng(seed))
    known = ml.Constraints.from_pairs(ends, belief=belief, n_nodes=n)

    def make(k: int) -> Any:
        return getattr(ml, estimator)(k, affinity="precomputed", random_state=0, **options)

    _warm(make(2))
    W = sp.load_npz(graph)
    before = common.own_peak_bytes()
    est, total = common.timed(make(k).fit, W, constraints=known)
    report = est.report_.to_dict()
    stages = common.stage_table(report)
    return {
        "seconds": total,
        "propagation": sum(stages.get(name, 0.0) for name in SPREADING),
        "ari": float(adjusted_rand_score(target, est.labels_)),
        "kept": report["satisfaction"]["kept"],
        "choices": report["choices"],
        "adjustment": report.get("adjustment"),
        "stages": stages,
        "notes": report["notes"],
        "peak_bytes": common.own_peak_bytes(),
        "peak_before": before,
        "n": n,
    }


def _warm(estimator: Any) -> None:
    """A fit on a small grid: libraries and kernels are loaded and compiled."""
    import numpy as np

    import mustlink as ml

    X = np.stack(np.meshgrid(np.arange(WARM), np.arange(WARM)), axis=-1).reshape(-1, 2) * 1.0
    X += 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    pairs = ml.Constraints.from_pairs([[0, 1], [5, WARM * WARM - 1]], [1, -1], n_nodes=len(X))
    estimator.fit(ml.knn_graph(X, 8, random_state=0), constraints=pairs)


def measured(asked: argparse.Namespace, n: int, **case: Any) -> dict[str, Any]:
    """One fit in a child."""
    points = million.points_file(asked.out, n, asked.seed, False)
    graph = million.graph_file(points, False)
    given = {"options": {}, "merged": False, "seed": asked.seed, **case}
    common.say(f"{n:,} nodes, {given['estimator']}, {given['pairs']:,} pairs")
    return common.call("pairs:fit", graph=str(graph), source=str(points), **given)


def clusters(asked: argparse.Namespace) -> None:
    """Seconds, memory and quality at full size."""
    records: list[dict[str, Any]] = []
    for merged in (False, True):
        rows = []
        cases: list[tuple[str, int, dict[str, Any]]] = [("NCut", PAIRS[-1], {})]
        cases += [("SRCP", pairs, {}) for pairs in PAIRS]
        cases += [("SRCP", PAIRS[-1], {"tol": 1e-4}), ("E2CP", PAIRS[-1], {})]
        cases += [("CSP", pairs, {}) for pairs in PAIRS if merged]
        for estimator, pairs, options in cases:
            case = {"estimator": estimator, "pairs": pairs, "merged": merged, "options": options}
            found = measured(asked, asked.n, **case)
            records.append({**case, **found})
            common.write_json(asked.out, f"pairs-{asked.n}", records)
            rows.append(
                (
                    ", ".join([estimator, *(f"{k} = {v:g}" for k, v in options.items())]),
                    None if estimator == "NCut" else f"{pairs:,}",
                    found["propagation"] or None,
                    found["seconds"],
                    common.gigabytes(found["peak_bytes"]),
                    f"{found['ari']:.4f}",
                    f"{found['kept']:.2%}",
                )
            )
        common.table(
            f"{asked.n:,} points, {5 if merged else 10} {'pairs of ' if merged else ''}sheets",
            ("method", "pairs", "propagation, s", "from the graph, s", "peak", "ARI", "kept"),
            rows,
        )
    common.record("pairs", figures([r for r in records if r["merged"] and not r["options"]]))


def figures(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the sheets merged in pairs: SRCP and CSP by number of pairs, NCut without."""
    mine = {name: [r for r in records if r["estimator"] == name] for name in ("SRCP", "CSP")}
    plain = next(r for r in records if r["estimator"] == "NCut")
    return {
        "SRCP": [
            {
                "pairs": r["pairs"],
                "seconds": r["seconds"],
                "spread_seconds": r["propagation"],
                "ari": r["ari"],
            }
            for r in mine["SRCP"]
        ],
        "SRCP_peak_gb": max(r["peak_bytes"] for r in mine["SRCP"]) / 1e9,
        "NCut": {"seconds": plain["seconds"], "ari": plain["ari"]},
        "CSP": [r["seconds"] for r in mine["CSP"]],
        "CSP_peak_gb": max(r["peak_bytes"] for r in mine["CSP"]) / 1e9,
    }


def growth(asked: argparse.Namespace) -> None:
    """What a pair costs as the graph grows."""
    rows, records = [], []
    for n in [size for size in million.GROWTH if size <= asked.n]:
        times = {}
        for pairs in (100, 3_000):
            options = {"solver": "diffusion"}
            found = measured(asked, n, estimator="SRCP", pairs=pairs, options=options)
            times[pairs] = found["propagation"]
            records.append({"pairs": pairs, **found})
        each = (times[3_000] - times[100]) / 2_900
        reach = found["choices"]["reach"]
        rows.append((f"{n:,}", times[100], times[3_000], f"{1e3 * each:.2f}", f"{reach:.0f}"))
    common.write_json(asked.out, "pairs-growth", records)
    common.table(
        "Propagation, seconds; what one more pair costs",
        ("nodes", "100 pairs", "3,000 pairs", "ms a pair", "nodes a source reaches"),
        rows,
    )


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth", action="store_true", help="only what a pair costs")
    asked = parser.parse_args()
    (growth if asked.growth else clusters)(asked)


if __name__ == "__main__":
    main()
