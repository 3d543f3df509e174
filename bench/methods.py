"""Every constrained method on the million-point file: seconds, memory, quality.

    python bench/methods.py [--out FOLDER] [--n 1000000] [--only CSP SSSC] [--exact]

The graph shows ten sheets; asked for are the five pairs of sheets that it does not show, with 400
labels or 10,000 pairs. Each fit runs in a process of its own, from the matrix on, after one small
fit that loads libraries and kernels. NCut is the yardstick.
"""

from __future__ import annotations

from typing import Any

import common
import million

CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("NCut", "NCut", {}),
    ("CSP", "CSP", {}),
    ("SSSC", "SSSC", {}),
    ("SSSC, γ = 0.1", "SSSC", {"gamma": 0.1}),
    ("SL", "SpectralLearning", {}),
    ("SL-L̄", "SpectralLearning", {"normalized": True}),
    ("AP", "ConstrainedAP", {}),
    ("FastGE", "FastGE", {}),
    ("SSKK", "SSKK", {}),
)
EXACT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("CSP exact, β = 0.1", "CSP", {"beta": 0.1, "subspace": "exact"}),
    ("SSSC exact, γ = 0.1", "SSSC", {"gamma": 0.1, "subspace": "exact"}),
    ("SL exact", "SpectralLearning", {"subspace": "exact"}),
    ("SL-L̄ exact", "SpectralLearning", {"normalized": True, "subspace": "exact"}),
    ("AP exact, noise 0.3", "ConstrainedAP", {"noise": 0.3, "subspace": "exact"}),
    ("FastGE exact", "FastGE", {"subspace": "exact"}),
)


def fit(
    graph: str, truth: str, estimator: str, options: dict[str, Any], side: str, seed: int
) -> dict[str, Any]:
    """One method on the merged sheets."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    W = sp.load_npz(graph)
    target = formats.load_labels(truth) // 2
    n, k = len(target), int(target.max()) + 1
    rng = np.random.default_rng(seed)
    make = getattr(ml, estimator)
    base = {"affinity": "precomputed", "random_state": 0}
    known, small = _given(target, side, rng)
    make(2, **base, **options).fit(million._warm_graph(), constraints=small)
    before = common.own_peak_bytes()
    est, total = common.timed(make(k, **base, **options).fit, W, constraints=known)
    report = est.report_.to_dict()
    return {
        "seconds": common.vector_seconds(total, report),
        "fit_seconds": total,
        "ari": float(adjusted_rand_score(target, est.labels_)),
        "satisfaction": report["satisfaction"],
        "choices": report["choices"],
        "convergence": report["convergence"],
        "stages": common.stage_table(report),
        "notes": report["notes"],
        "peak_bytes": common.own_peak_bytes(),
        "peak_before": before,
        "n": n,
    }


def _given(target: Any, side: str, rng: Any) -> tuple[Any, Any]:
    """The constraints, and a few on the grid of the warm-up."""
    import numpy as np

    import mustlink as ml

    grid = np.arange(million.WARM**2) % million.WARM < million.WARM // 2
    pairs, belief = common.random_pairs(grid, 200, np.random.default_rng(0))
    small = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=grid.size)
    n = len(target)
    if side == "labels":
        given = np.full(n, -1, dtype=np.int64)
        some = rng.choice(n, size=min(400, n // 10), replace=False)
        given[some] = target[some]
        return ml.Constraints.from_labels(given), small
    pairs, belief = common.random_pairs(target, min(10_000, n // 2), rng)
    return ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=n), small


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of estimators")
    parser.add_argument("--sides", nargs="*", default=["labels", "pairs"])
    parser.add_argument("--exact", action="store_true", help="the full problems as well")
    asked = parser.parse_args()
    points = million.points_file(asked.out, asked.n, asked.seed, False)
    graph = million.graph_file(points, False)
    records: list[dict[str, Any]] = []
    for side in asked.sides:
        rows = []
        yardstick = None
        for name, estimator, options in CASES + (EXACT if asked.exact else ()):
            if asked.only and estimator not in asked.only and estimator != "NCut":
                continue
            common.say(f"{side}: {name}")
            found = common.call(
                "methods:fit",
                graph=str(graph),
                truth=f"{points}:/labels",
                estimator=estimator,
                options=options,
                side=side,
                seed=asked.seed,
            )
            records.append({"side": side, "name": name, **found})
            common.write_json(asked.out, f"methods-{asked.n}", records)
            yardstick = yardstick or found["seconds"]
            kept = (found["satisfaction"] or {}).get("kept")
            rows.append(
                (
                    name,
                    found["seconds"],
                    f"{found['seconds'] / yardstick:.2f} x",
                    found["fit_seconds"],
                    common.gigabytes(found["peak_bytes"]),
                    f"{found['ari']:.4f}",
                    None if kept is None else f"{kept:.2%}",
                    str(found["choices"].get("subspace", "")),
                )
            )
        common.table(
            f"{asked.n:,} points, 5 of 10 sheets, {side}",
            (
                "method", "to the vectors, s", "against NCut", "with clusters, s", "peak memory",
                "ARI", "constraints kept", "subspace",
            ),
            rows,
        )  # fmt: skip
    if not asked.only:
        common.record("methods", figures(records))


def figures(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Least and most seconds of the methods within the subspace, NCut and SSKK apart."""
    named = {name: [r for r in records if r["name"] == name] for name in ("NCut", "SSKK")}
    usual = {name for name, _, _ in CASES} - named.keys()
    rest = [r for r in records if r["name"] in usual]
    return {
        "least_seconds": min(r["seconds"] for r in rest),
        "most_seconds": max(r["seconds"] for r in rest),
        "ncut_least_seconds": min(r["seconds"] for r in named["NCut"]),
        "ncut_most_seconds": max(r["seconds"] for r in named["NCut"]),
        "peak_gb": max(r["peak_bytes"] for r in rest) / 1e9,
        "ari": min(r["ari"] for r in rest),
        "sskk_seconds": max(r["seconds"] for r in named["SSKK"]),
        "sskk_ari": min(r["ari"] for r in named["SSKK"]),
    }


if __name__ == "__main__":
    main()
