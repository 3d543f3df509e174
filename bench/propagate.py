"""Every label propagation method on the million-point file: seconds, memory, accuracy.

    python bench/propagate.py [--out FOLDER] [--n 1000000] [--only GFHF Poisson]

Asked for are the five pairs of sheets that the graph does not show as clusters, with 400 labels.
Each fit runs in a process of its own, from the graph on, after one small fit that loads libraries
and kernels. NCut's ten eigenvectors are the yardstick for CSC+GFHF.
"""

from __future__ import annotations

from typing import Any

import common
import million

# Name, estimator, options, whether it looks at the points.
CASES: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("NCut", "NCut", {}, False),
    ("GFHF", "GFHF", {}, False),
    ("GFHF, class mass", "GFHF", {"class_mass": "equal"}, False),
    ("LLGC(0.99)", "LLGC", {}, False),
    ("TikReg", "TikReg", {}, False),
    ("NCutPropagation", "NCutPropagation", {}, False),
    ("GreenFunction", "GreenFunction", {}, False),
    ("Poisson", "Poisson", {}, False),
    ("LELPC", "LELP", {"orthogonal": True}, False),
    ("GWEM", "GWEM", {}, False),
    ("GWEM, fixed point", "GWEM", {"variant": "fixed-point"}, False),
    ("ClusterKernel", "ClusterKernel", {}, False),
    ("LNP", "LNP", {}, True),
    ("LNP, minimiser", "LNP", {"variant": "minimizer"}, True),
    ("LLELP", "LLELP", {}, True),
    ("LLELPC", "LLELP", {"orthogonal": True}, True),
    ("LTSALP", "LTSALP", {}, True),
    ("LTSALPC", "LTSALP", {"orthogonal": True}, True),
    ("CSC+GFHF", "CSCGFHF", {}, False),
)
WARM = 40  # side of the grid of the small fit


def fit(
    graph: str, source: str, estimator: str, options: dict[str, Any], on_points: bool, seed: int
) -> dict[str, Any]:
    """One method on the merged sheets."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    target = formats.load_labels(f"{source}:/labels") // 2
    n, k = len(target), int(target.max()) + 1
    given = np.full(n, -1, dtype=np.int64)
    some = np.random.default_rng(seed).choice(n, size=min(400, n // 10), replace=False)
    given[some] = target[some]

    clusters = estimator in ("NCut", "CSCGFHF")

    def make(k: int) -> Any:
        own = {"n_clusters": k} if clusters else {"solver": "cg"} if k == 2 and eigen_free else {}
        return getattr(ml, estimator)(**own, affinity=affinity, random_state=0, **options)

    affinity = "knn" if on_points else "precomputed"
    eigen_free = estimator not in ("ClusterKernel",)
    _warm(make(2), on_points)
    W = sp.load_npz(graph)
    X = formats.load(f"{source}:/points").value if on_points else None
    before = common.own_peak_bytes()
    data: tuple[Any, ...] = (X, given, W) if on_points else (W, given)
    est, total = common.timed(make(k).fit, *data)
    report = est.report_.to_dict()
    labels = np.asarray(est.labels_)
    return {
        "seconds": common.vector_seconds(total, report) if clusters else total,
        "fit_seconds": total,
        "accuracy": None if clusters else float(np.mean(labels == target)),
        "ari": float(adjusted_rand_score(target, labels)),
        "choices": report["choices"],
        "convergence": report["convergence"],
        "stages": common.stage_table(report),
        "notes": report["notes"],
        "peak_bytes": common.own_peak_bytes(),
        "peak_before": before,
        "n": n,
    }


def _warm(estimator: Any, on_points: bool) -> None:
    """A fit on a small grid: libraries and kernels are loaded and compiled."""
    import numpy as np

    import mustlink as ml

    X = np.stack(np.meshgrid(np.arange(WARM), np.arange(WARM)), axis=-1).reshape(-1, 2) * 1.0
    X += 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    y = np.full(len(X), -1)
    y[[0, WARM - 1, len(X) - 1]] = [0, 1, 1]
    graph = ml.knn_graph(X, 8, random_state=0)
    if on_points:
        estimator.fit(X, y, graph)
    else:
        estimator.fit(graph, y)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of estimators")
    asked = parser.parse_args()
    points = million.points_file(asked.out, asked.n, asked.seed, False)
    graph = million.graph_file(points, False)
    records: list[dict[str, Any]] = []
    rows = []
    for name, estimator, options, on_points in CASES:
        if asked.only and estimator not in asked.only:
            continue
        common.say(name)
        found = common.call(
            "propagate:fit",
            graph=str(graph),
            source=str(points),
            estimator=estimator,
            options=options,
            on_points=on_points,
            seed=asked.seed,
        )
        records.append({"name": name, **found})
        common.write_json(asked.out, f"propagate-{asked.n}", records)
        steps = (found["convergence"] or {}).get("iterations")
        accuracy = found["accuracy"]
        rows.append(
            (
                name,
                found["seconds"],
                steps,
                common.gigabytes(found["peak_bytes"]),
                None if accuracy is None else f"{accuracy:.4f}",
                f"{found['ari']:.4f}",
            )
        )
    common.table(
        f"{asked.n:,} points, 5 of 10 sheets, 400 labels",
        ("method", "seconds from the graph", "steps", "peak memory", "accuracy", "ARI"),
        rows,
    )
    if not asked.only:
        common.record("propagate", figures({one["name"]: one for one in records}))


def figures(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Seconds of four methods, their largest peak and least accuracy; CSC+GFHF and NCut."""
    four = {"LLGC": found["LLGC(0.99)"]}
    four |= {name: found[name] for name in ("GFHF", "TikReg", "Poisson")}
    clusterer = found["CSC+GFHF"]
    return {
        **{name: {"seconds": one["seconds"]} for name, one in four.items()},
        "peak_gb": max(one["peak_bytes"] for one in four.values()) / 1e9,
        "accuracy": min(one["accuracy"] for one in four.values()),
        "CSCGFHF": {
            "seconds": clusterer["seconds"],
            "peak_gb": clusterer["peak_bytes"] / 1e9,
            "ari": clusterer["ari"],
        },
        "NCut": {"seconds": found["NCut"]["seconds"]},
    }


if __name__ == "__main__":
    main()
