"""A million points on ten curved sheets: HDF5 file to HDF5 labels, peers, constraints, growth.

    python bench/million.py                      the whole pipeline by the command line
    python bench/million.py --peers              embedding against scikit-learn's amg
    python bench/million.py --constraints        NCut against CSP with planted side information
    python bench/million.py --refit              100 more pairs on a fitted graph
    python bench/million.py --growth             10^4 to n: table and plot
    python bench/million.py --all --n 20000      everything, small

Points and graph are kept in the output folder and used again; --fresh makes them anew.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import common

K, SHEETS, DIMENSION, BLOCK = 10, 10, 32, 65_536
WARM = 150  # side of the grid: past the size up to which the engine solves to 1e-8
GRAPH_STAGES = ("kNN graph", "weights", "components")
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)


# ---------------------------------------------------------------- jobs (each in its own child)


def write_points(path: str, n: int, seed: int, dimension: int = DIMENSION) -> dict[str, Any]:
    """Points (n, dimension) on 10 curved 4-dimensional sheets, and their sheet, in row blocks.

    Sheet c: x = uA + ½(1 - cos 3uC)B + noise with u uniform in a 4-dimensional cube. Rows are in
    random order.
    """
    import h5py
    import numpy as np

    from mustlink_io.hdf5 import schema, writing

    rng = np.random.default_rng(seed)
    shapes = ((4, dimension), (8, dimension), (4, 8))
    sheets = [tuple(rng.normal(size=shape) for shape in shapes) for _ in range(SHEETS)]
    y = rng.permutation(np.arange(n) % SHEETS)
    with writing.atomic(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["mustlink-format"] = schema.FORMAT
        points = file.create_dataset(
            "points", (n, dimension), dtype="f4", chunks=(min(n, BLOCK // 8), dimension)
        )
        file["labels"] = y
        for start in range(0, n, BLOCK):
            part = y[start : start + BLOCK]
            rows = np.empty((len(part), dimension), dtype=np.float32)
            for c, (A, B, C) in enumerate(sheets):
                m = int((part == c).sum())
                u = rng.random((m, 4)) - 0.5
                noise = 0.05 * rng.normal(size=(m, dimension))
                rows[part == c] = u @ A + 0.5 * (1 - np.cos(3 * u @ C)) @ B + noise
            points[start : start + len(part)] = rows
    return {"bytes": Path(path).stat().st_size}


def graph_to_npz(source: str, target: str) -> dict[str, Any]:
    """Keep the graph in scipy's own format: the peer needs nothing of mustlink to read it."""
    import scipy.sparse as sp

    from mustlink_io import formats

    matrix = formats.load(source, "graph").value
    sp.save_npz(target, matrix, compressed=False)
    return {"n": matrix.shape[0], "nnz": int(matrix.nnz), "dtype": str(matrix.dtype)}


def _warm_graph() -> Any:
    """A small grid: one fit on it loads libraries and compiled kernels before the clock runs."""
    import scipy.sparse as sp

    line = sp.diags([1.0, 1.0], [-1, 1], shape=(WARM, WARM))
    eye = sp.identity(WARM)
    return sp.csr_matrix(sp.kron(line, eye) + sp.kron(eye, line))


def _warm_csp(options: dict[str, Any]) -> None:
    """One constrained fit on the small grid, for the same reason."""
    import numpy as np

    import mustlink as ml

    side = np.arange(WARM * WARM) % WARM < WARM // 2
    pairs, belief = common.random_pairs(side, 200, np.random.default_rng(0))
    known = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=WARM * WARM)
    ml.CSP(**options).fit(_warm_graph(), constraints=known)


def _judged(W: Any, embedding: Any, truth_file: str | None, n_clusters: int) -> dict[str, Any]:
    """Residual of the span, computed here for both sides, and ARI after the same k-means."""
    import numpy as np
    import scipy.sparse as sp

    degrees = np.asarray(W.sum(axis=1)).ravel()
    root = np.sqrt(np.maximum(degrees, np.finfo(float).tiny))
    S = sp.diags(1 / root) @ W @ sp.diags(1 / root)
    V, _ = np.linalg.qr(np.asarray(embedding, dtype=np.float64) * root[:, None])
    LV = V - S @ V
    values, turn = np.linalg.eigh(V.T @ LV)
    residuals = np.linalg.norm(LV @ turn - (V @ turn) * values, axis=0)
    found: dict[str, Any] = {"values": values, "residual": float(residuals.max())}
    if truth_file is not None:
        from sklearn.cluster import k_means
        from sklearn.metrics import adjusted_rand_score

        from mustlink_io import formats

        truth = formats.load_labels(truth_file)
        _, labels, _ = k_means(embedding, n_clusters, n_init=10, random_state=0)
        found["ari"] = float(adjusted_rand_score(truth, labels))
    return found


def embed_ours(graph: str, n_clusters: int, tol: float | None, truth: str | None) -> dict[str, Any]:
    """NCut from the affinity to its eigenvectors."""
    import scipy.sparse as sp

    import mustlink as ml

    W = sp.load_npz(graph)
    options = {} if tol is None else {"tol": tol}

    def estimator() -> Any:
        return ml.NCut(n_clusters=n_clusters, affinity="precomputed", random_state=0, **options)

    estimator().fit(_warm_graph())
    est, total, cpu = common.cpu_timed(estimator().fit, W)
    peak = common.own_peak_bytes()
    report = est.report_.to_dict()
    found = {
        "seconds": common.vector_seconds(total, report),
        "fit_seconds": total,
        "cpu_seconds": cpu,
        "peak_bytes": peak,
        "stages": common.stage_table(report),
        "choices": report["choices"],
        "convergence": report["convergence"],
    }
    if truth is not None:
        from sklearn.metrics import adjusted_rand_score

        from mustlink_io import formats

        labels_ari = adjusted_rand_score(formats.load_labels(truth), est.labels_)
        found["ari_labels"] = float(labels_ari)
    return {**found, **_judged(W, est.embedding_, truth, n_clusters)}


def embed_peer(graph: str, n_clusters: int, tol: float | None, truth: str | None) -> dict[str, Any]:
    """What SpectralClustering(eigen_solver="amg", affinity="precomputed") calls for its maps."""
    import warnings

    import scipy.sparse as sp
    from sklearn.manifold import spectral_embedding

    W = sp.load_npz(graph)

    def embed(affinity: Any) -> Any:
        return spectral_embedding(
            affinity,
            n_components=n_clusters,
            eigen_solver="amg",
            random_state=0,
            eigen_tol="auto" if tol is None else tol,
            drop_first=False,
        )

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        embed(_warm_graph())
        heard.clear()
        embedding, seconds, cpu = common.cpu_timed(embed, W)
    peak = common.own_peak_bytes()
    words = sorted({" ".join(str(w.message).split())[:120] for w in heard})
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_bytes": peak,
        "warnings": words,
        **_judged(W, embedding, truth, n_clusters),
    }


def planted(graph: str, truth: str, seed: int, n_given: int, n_labels: int) -> dict[str, Any]:
    """NCut(5) and CSP(5) against the sheets merged in pairs; every fit starts from the matrix."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    W = sp.load_npz(graph)
    target = formats.load_labels(truth) // 2
    k = int(target.max()) + 1
    rng = np.random.default_rng(seed)
    n = len(target)
    given = np.full(n, -1, dtype=np.int64)
    some = rng.choice(n, size=n_labels, replace=False)
    given[some] = target[some]
    sides = {"none": None, f"{n_labels:,} labels": ml.Constraints.from_labels(given)}
    for wrong in (0.0, 0.05):
        pairs, belief = common.random_pairs(target, n_given, rng, wrong)
        name = f"{n_given:,} pairs, {wrong:.0%} wrong"
        sides[name] = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=n)
    options = {"n_clusters": k, "affinity": "precomputed", "random_state": 0}
    ml.NCut(**options).fit(_warm_graph())
    _warm_csp(options)
    rows = []
    for name, constraints in sides.items():
        if constraints is None:
            est, total = common.timed(ml.NCut(**options).fit, W)
        else:
            est, total = common.timed(ml.CSP(**options).fit, W, constraints=constraints)
        report = est.report_.to_dict()
        rows.append(
            {
                "side": name,
                "seconds": common.vector_seconds(total, report),
                "fit_seconds": total,
                "ari": float(adjusted_rand_score(target, est.labels_)),
                "satisfaction": report["satisfaction"],
                "choices": report["choices"],
                "convergence": report["convergence"],
                "stages": common.stage_table(report),
                "notes": report["notes"],
            }
        )
        del est
    return {"rows": rows}


def refit(graph: str, truth: str, seed: int, n_given: int, n_more: int) -> dict[str, Any]:
    """First fit with pairs, then the same graph with a few more."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    W = sp.load_npz(graph)
    target = formats.load_labels(truth) // 2
    k = int(target.max()) + 1
    rng = np.random.default_rng(seed)
    n = len(target)
    options = {"n_clusters": k, "affinity": "precomputed", "random_state": 0}
    _warm_csp(options)
    pairs, belief = common.random_pairs(target, n_given + n_more, rng)
    old = ml.Constraints.from_pairs(pairs[:n_given], belief=belief[:n_given], n_nodes=n)
    more = ml.Constraints.from_pairs(pairs[n_given:], belief=belief[n_given:], n_nodes=n)
    est, first = common.timed(ml.CSP(**options).fit, W, constraints=old)
    before, first_report = np.array(est.labels_), est.report_.to_dict()
    _, again = common.timed(est.refit, constraints=old + more)
    after, report = est.labels_, est.report_.to_dict()
    known = (before >= 0) & (after >= 0)
    counts = np.bincount(before[known] * k + after[known], minlength=k * k).reshape(k, k)
    kept = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return {
        "first_seconds": first,
        "refit_seconds": again,
        "ratio": again / first,
        "ari_first": float(adjusted_rand_score(target, before)),
        "ari_refit": float(adjusted_rand_score(target, after)),
        "changed_here": float(1 - kept / n),
        "changed_said": {key: v for key, v in report.items() if "chang" in key.lower()},
        "notes": report["notes"],
        "choices": report["choices"],
        "first_stages": common.stage_table(first_report),
        "refit_stages": common.stage_table(report),
    }


def draw_growth(path: str, nodes: list[int], seconds: Any, peak: Any) -> dict[str, Any]:
    """Draw the plot of growth in a child, so that this process stays small."""
    import plots
    from mustlink_io import pictures

    pictures.save(plots.scaling(nodes, seconds, peak), path)
    return {}


# ---------------------------------------------------------------- parts


def points_file(out: Path, n: int, seed: int, fresh: bool) -> Path:
    """Points of this n, written unless they are there."""
    path = out / f"sheets-{n}-{seed}.h5"
    if fresh or not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        common.say(f"writing {n:,} points")
        common.call("million:write_points", path=str(path), n=n, seed=seed)
    return path


def graph_file(points: Path, fresh: bool) -> Path:
    """Graph of the points, by `mustlink graph`, as .npz; made unless it is there."""
    target = points.with_suffix(".graph.npz")
    if fresh or not target.exists():
        source = points.with_suffix(".graph.h5")
        common.say("mustlink graph")
        found = common.command("graph", f"{points}:/points", "-o", source)
        print(
            f"\ngraph: {found['n_nodes']:,} nodes, {found['n_edges']:,} edges, "
            f"{found['info'].get('components_before')} components before bridging, recall "
            f"{found['info'].get('recall'):.4f}, {found['seconds']:.1f} s"
        )
        common.call("million:graph_to_npz", source=str(source), target=str(target))
    return target


def pipeline(points: Path) -> dict[str, Any]:
    """HDF5 points to HDF5 labels by the command line."""
    labels = points.with_suffix(".labels.h5")
    common.say("mustlink cluster")
    found = common.command("cluster", f"{points}:/points", "-k", K, "-m", "ncut", "-o", labels)
    truth = common.command("score", labels, "--truth", f"{points}:/labels")["truth"]
    return {**found, "truth": truth}


def part_pipeline(points: Path, out: Path, n: int) -> None:
    found = pipeline(points)
    rows: list[tuple[Any, ...]] = [(name, s, None) for name, s in common.stage_table(found).items()]
    rows.append(("all stages", found["seconds"], None))
    rows.append(
        ("process from start to exit", found["wall_seconds"], common.gigabytes(found["rss_bytes"]))
    )
    common.table(
        f"HDF5 to labels, {n:,} points, K = {K}", ("stage", "seconds", "peak memory"), rows
    )
    status = (found.get("convergence") or {}).get("status")
    print(f"\nARI {found['truth']['ari']:.5f}; {status}")
    common.write_json(out, f"pipeline-{n}", found)
    stages = common.stage_table(found)
    searching = sum(s for name, s in stages.items() if name in GRAPH_STAGES)
    figures = {"seconds": found["seconds"], "peak_gb": found["rss_bytes"] / 1e9}
    figures |= {"ari": found["truth"]["ari"], "graph_seconds": searching}
    common.record("million_pipeline", figures)


def part_peers(graph: Path, points: Path, out: Path, n: int, alternations: int) -> None:
    records: list[dict[str, Any]] = []
    for tol in (None, 1e-4):
        for turn in range(alternations):
            for side in ("ours", "peer"):
                common.say(f"{side}, tolerance {tol or 'default'}, {turn + 1} of {alternations}")
                found = common.call(
                    f"million:embed_{side}",
                    graph=str(graph),
                    n_clusters=K,
                    tol=tol,
                    # the same vectors every time: judged once
                    truth=f"{points}:/labels" if turn == 0 else None,
                )
                records.append({"side": side, "tol": tol, "turn": turn, **found})
                common.write_json(out, f"peers-{n}", records)
    rows, figures = [], {}
    for tol in (None, 1e-4):
        seconds, peaks = {}, {}
        for side, name in (("ours", "mustlink"), ("peer", "scikit-learn amg")):
            mine = [r for r in records if r["side"] == side and r["tol"] == tol]
            seconds[side] = [r["seconds"] for r in mine]
            peaks[side] = max(r["peak_bytes"] for r in mine)
            rows.append(
                (
                    f"{tol or 'default'}",
                    name,
                    statistics.median(seconds[side]),
                    " ".join(f"{s:.1f}" for s in seconds[side]),
                    statistics.median(r["cpu_seconds"] for r in mine),
                    common.gigabytes(peaks[side]),
                    f"{mine[0]['ari']:.5f}",
                    f"{mine[0]['residual']:.1e}",
                )
            )
        each = [p / o for o, p in zip(seconds["ours"], seconds["peer"], strict=True)]
        scored = [r for r in records if r["tol"] == tol and "ari" in r]
        mine, theirs = (next(r for r in scored if r["side"] == who) for who in ("ours", "peer"))
        figures["tight" if tol else "default"] = {
            "seconds": statistics.median(seconds["ours"]),
            "peak_gb": peaks["ours"] / 1e9,
            "ari": mine["ari"],
            "peer_seconds": statistics.median(seconds["peer"]),
            "peer_ari": theirs["ari"],
            "peer_peak_gb": peaks["peer"] / 1e9,
            "ratio": round(statistics.median(each), 1),
        }
        rows.append(
            (
                f"{tol or 'default'}",
                "peer / ours",
                f"{statistics.median(each):.2f} x",
                " ".join(f"{r:.2f}" for r in each),
                None,
                f"{peaks['peer'] / peaks['ours']:.2f} x",
                None,
                None,
            )
        )
    common.table(
        f"Affinity to {K} eigenvectors, {n:,} nodes, {alternations} alternations",
        (
            "tolerance", "side", "median s", "each", "CPU s", "peak memory", "ARI, same k-means",
            "residual",
        ),
        rows,
    )  # fmt: skip
    common.record("million_peers", figures)
    own = next(r["ari_labels"] for r in records if "ari_labels" in r)
    print(f"\nARI of NCut's own labels: {own:.5f}")
    for words in sorted({w for r in records for w in r.get("warnings", ())}):
        print(f"scikit-learn warned: {words}")


def part_constraints(graph: Path, points: Path, out: Path, n: int, seed: int) -> None:
    common.say("constraints")
    found = common.call(
        "million:planted",
        graph=str(graph),
        truth=f"{points}:/labels",
        seed=seed,
        n_given=min(10_000, n // 2),
        n_labels=min(400, n // 10),
    )
    base = found["rows"][0]
    rows = []
    for row in found["rows"]:
        kept = (row["satisfaction"] or {}).get("kept")
        rows.append(
            (
                row["side"],
                row["seconds"],
                row["seconds"] / base["seconds"],
                row["fit_seconds"],
                f"{row['ari']:.4f}",
                f"{row['ari'] - base['ari']:+.4f}",
                None if kept is None else f"{kept:.4f}",
            )
        )
    common.table(
        f"Sheets merged in pairs, {n:,} nodes, 5 clusters: NCut, then CSP",
        (
            "side information",
            "to the vectors, s",
            "times NCut",
            "whole fit, s",
            "ARI",
            "gain",
            "constraints kept",
        ),
        rows,
    )
    for row in found["rows"]:
        print(f"\n{row['side']}: {row['choices']}; stages {_rounded(row['stages'])}")
    print(f"\npeak memory {common.gigabytes(found['rss_bytes'])}")
    common.write_json(out, f"constraints-{n}", found)
    names = ("none", "labels", "pairs", "wrong_pairs")
    told = [{"seconds": row["seconds"], "ari": row["ari"]} for row in found["rows"]]
    common.record("million_constraints", dict(zip(names, told, strict=True)))


def part_refit(graph: Path, points: Path, out: Path, n: int, seed: int) -> None:
    common.say("refit")
    found = common.call(
        "million:refit",
        graph=str(graph),
        truth=f"{points}:/labels",
        seed=seed,
        n_given=min(10_000, n // 2),
        n_more=100,
    )
    common.table(
        f"Refit with 100 more pairs, {n:,} nodes",
        ("first fit, s", "refit, s", "share", "ARI before", "ARI after", "labels changed"),
        [
            (
                found["first_seconds"],
                found["refit_seconds"],
                f"{found['ratio']:.1%}",
                f"{found['ari_first']:.4f}",
                f"{found['ari_refit']:.4f}",
                f"{found['changed_here']:.4%}",
            )
        ],
    )
    print(f"\nthe report says: {found['changed_said']}; notes: {found['notes']}")
    print(f"stages of the refit: {_rounded(found['refit_stages'])}")
    common.write_json(out, f"refit-{n}", found)
    kept = ("first_seconds", "refit_seconds", "ari_first", "ari_refit")
    common.record("million_refit", {key: found[key] for key in kept})


def part_growth(out: Path, largest: int, seed: int, fresh: bool) -> None:
    sizes = [n for n in GROWTH if n <= largest] or [largest]
    runs = []
    for n in sizes:
        common.say(f"growth: {n:,}")
        runs.append(pipeline(points_file(out, n, seed, fresh)))
    stages = [common.stage_table(run) for run in runs]
    names = list(dict.fromkeys(name for found in stages for name in found))
    nan = float("nan")
    worth = [s for s in names if max(found.get(s, 0.0) for found in stages) >= 0.5]
    seconds = {s: [found.get(s, nan) for found in stages] for s in worth}
    seconds["all stages"] = [run["seconds"] for run in runs]
    peak = [run["rss_bytes"] for run in runs]
    rows = [
        (
            n,
            *(seconds[s][at] if seconds[s][at] == seconds[s][at] else None for s in seconds),
            common.gigabytes(peak[at]),
            f"{runs[at]['truth']['ari']:.4f}",
        )
        for at, n in enumerate(sizes)
    ]
    common.table(
        f"Growth, HDF5 to labels, K = {K}, seconds (stages of at least 0.5 s)",
        ("points", *seconds, "peak memory", "ARI"),
        rows,
    )
    picture = out / "growth.png"
    common.call(
        "million:draw_growth",
        path=str(picture),
        nodes=sizes,
        seconds=seconds,
        peak={"whole process": peak},
    )
    print(f"\nplot: {picture.name} in the output folder")
    common.write_json(out, "growth", runs)
    plain = {s: [None if v != v else v for v in values] for s, values in seconds.items()}
    common.record("million_growth", {"nodes": sizes, "seconds": plain, "peak_bytes": peak})


def _rounded(stages: dict[str, float]) -> dict[str, float]:
    return {name: round(s, 2) for name, s in stages.items()}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="make points and graph anew")
    for part in ("pipeline", "peers", "constraints", "refit", "growth", "all"):
        parser.add_argument(f"--{part}", action="store_true")
    args = parser.parse_args()
    asked = {p for p in ("pipeline", "peers", "constraints", "refit", "growth") if vars(args)[p]}
    if args.all:
        asked = {"pipeline", "peers", "constraints", "refit", "growth"}
    asked = asked or {"pipeline"}
    common.say(f"machine: {common.machine()}")
    points = graph = None
    if asked - {"growth"}:
        points = points_file(args.out, args.n, args.seed, args.fresh)
    if "pipeline" in asked:
        part_pipeline(points, args.out, args.n)
    if asked & {"peers", "constraints", "refit"}:
        graph = graph_file(points, args.fresh)
    if "peers" in asked:
        part_peers(graph, points, args.out, args.n, args.alternations)
    if "constraints" in asked:
        part_constraints(graph, points, args.out, args.n, args.seed)
    if "refit" in asked:
        part_refit(graph, points, args.out, args.n, args.seed)
    if "growth" in asked:
        part_growth(args.out, args.n, args.seed, args.fresh)


if __name__ == "__main__":
    main()
