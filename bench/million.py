"""A million points on ten curved sheets: HDF5 file to HDF5 labels, peers, every method.

    python bench/million.py                      the whole pipeline by the command line
    python bench/million.py --peers              embedding against scikit-learn's amg, alternating
    python bench/million.py --constraints        NCut and CSP with labels, pairs, wrong pairs
    python bench/million.py --refit              100 more pairs on a fitted graph
    python bench/million.py --methods            every constrained method
    python bench/million.py --propagate          every propagator, 400 labels
    python bench/million.py --pairs              SRCP, E2CP, CSP with 100 to 10,000 pairs
    python bench/million.py --asked              ten questions to a person, and a refit
    python bench/million.py --peers --n 20000    small

Points and graph stay in the output folder and are used again. But for the pipeline every fit starts
from the matrix, in a process of its own, after a small fit that loads libraries and kernels. What
is to be found are the sheets merged in pairs: five clusters that the graph does not show.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import data
import fits
import render
import runner

GRAPH_STAGES = ("kNN graph", "weights", "components")
LABELS, PAIRS = "80 labels", (100, 1_000, 10_000)  # of each of five classes
COLUMNS = ("seconds", "fit_seconds", "peak_bytes", "ari", "accuracy", "kept")
IN_SUBSPACE = (
    "CSP",
    "SSSC",
    "SSSC, γ = 0.1",
    "SpectralLearning",
    "SL-L̄",
    "ConstrainedAP",
    "FastGE",
)
SPREAD = (
    "NCut", "GFHF", "GFHF, class mass", "LLGC", "TikReg", "NCutPropagation", "GreenFunction",
    "Poisson", "LELPC", "GWEM", "GWEM, fixed point", "ClusterKernel", "LNP", "LNP, minimiser",
    "LLELP", "LLELPC", "LTSALP", "LTSALPC", "CSCGFHF",
)  # fmt: skip

# ---------------------------------------------------------------- embedding beside scikit-learn


def _judged(W: Any, embedding: Any, source: str) -> dict[str, Any]:
    """Residual of the span, computed here for both sides, and ARI after the same k-means."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.cluster import k_means

    degrees = np.asarray(W.sum(axis=1)).ravel()
    root = np.sqrt(np.maximum(degrees, np.finfo(float).tiny))
    S = sp.diags(1 / root) @ W @ sp.diags(1 / root)
    V, _ = np.linalg.qr(np.asarray(embedding, dtype=np.float64) * root[:, None])
    LV = V - S @ V
    values, turn = np.linalg.eigh(V.T @ LV)
    residuals = np.linalg.norm(LV @ turn - (V @ turn) * values, axis=0)
    labels = k_means(embedding, data.K, n_init=10, random_state=0)[1]
    return {"residual": float(residuals.max()), "ari": fits.ari(data.labels(source), labels)}


def embed_ours(graph: str, source: str, tol: float | None) -> dict[str, Any]:
    """NCut from the affinity to its eigenvectors."""
    more = {} if tol is None else {"tol": tol}
    W = data.read_graph(graph)
    fits.warm("NCut", labels=False, **more)
    est, total, cpu = runner.cpu_timed(fits.make("NCut", data.K, **more).fit, W)
    peak, seconds = runner.own_peak_bytes(), runner.vector_seconds(total, est.report_.to_dict())
    found = {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak}
    return {**found, **_judged(W, est.embedding_, source)}


def embed_peer(graph: str, source: str, tol: float | None) -> dict[str, Any]:
    """What SpectralClustering(eigen_solver="amg", affinity="precomputed") calls for its maps."""
    from sklearn.manifold import spectral_embedding

    embed = partial(
        spectral_embedding, n_components=data.K, eigen_solver="amg", random_state=0,
        eigen_tol="auto" if tol is None else tol, drop_first=False,
    )  # fmt: skip
    W = data.read_graph(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embed(fits.warm_graph())
        embedding, seconds, cpu = runner.cpu_timed(embed, W)
    found = {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": runner.own_peak_bytes()}
    return {**found, **_judged(W, embedding, source)}


def peers(graph: Path, points: Path, args: argparse.Namespace) -> None:
    rows: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    for name, tol in (("default", None), ("tight", 1e-4)):
        runs: dict[str, list[Any]] = {"ours": [], "peer": []}
        for turn in range(args.alternations):
            for side, found in runs.items():
                runner.say(f"{side}, tolerance {name}, {turn + 1} of {args.alternations}")
                files = {"graph": graph, "source": points}
                found.append(runner.call(f"million:embed_{side}", **files, tol=tol))
        ours, theirs = runs.values()
        median = {
            side: {key: statistics.median(one[key] for one in found)
                   for key in ("seconds", "cpu_seconds", "peak_bytes", "ari", "residual")}
            for side, found in runs.items()
        }  # fmt: skip
        rows |= {f"{name}, {side}": one for side, one in median.items()}
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(ours, theirs, strict=True)]
        figures[name] = {
            "seconds": median["ours"]["seconds"],
            "peak_gb": median["ours"]["peak_bytes"] / 1e9,
            "ari": ours[0]["ari"],
            "peer_seconds": median["peer"]["seconds"],
            "peer_ari": theirs[0]["ari"],
            "peer_peak_gb": median["peer"]["peak_bytes"] / 1e9,
            "ratio": round(statistics.median(ratios), 1),
        }
    render.records(f"Affinity to {data.K} eigenvectors, {args.n:,} nodes, medians", rows)
    runner.record("million_peers", figures)


# ---------------------------------------------------------------- one method after the other


def fitted(title: str, graph: Path, points: Path, cases: dict[str, Any]) -> dict[str, Any]:
    """Fits of cases, (method, setting, more arguments), each in a process of its own; a table."""
    found = {}
    for name, (method, setting, more) in cases.items():
        runner.say(f"{name}, {setting}")
        found[name] = runner.call(
            "fits:measured", name=method, graph=graph, source=points, setting=setting, **more
        )
    render.records(title, found, COLUMNS)
    return found


def constraints(graph: Path, points: Path, args: argparse.Namespace) -> None:
    pairs = f"{min(10_000, args.n // 2)} pairs"
    cases = {
        "none": ("NCut", "none", {}),
        "labels": ("CSP", LABELS, {}),
        "pairs": ("CSP", pairs, {}),
        "wrong_pairs": ("CSP", pairs, {"wrong": 0.05}),
    }
    found = fitted(f"NCut, then CSP, {args.n:,} nodes", graph, points, cases)
    figures = {name: {key: one[key] for key in ("seconds", "ari")} for name, one in found.items()}
    runner.record("million_constraints", figures)


def methods(graph: Path, points: Path, args: argparse.Namespace) -> None:
    settings = (LABELS, f"{min(10_000, args.n // 2)} pairs")
    every = [(m, s) for s in settings for m in ("NCut", *IN_SUBSPACE, "SSKK")]
    cases = {f"{m}, {s}": (m, s, {}) for m, s in every}
    found = fitted(f"Constrained methods, {args.n:,} nodes", graph, points, cases)
    ncut, sskk, rest = ([found[f"{m}, {s}"] for s in settings for m in which]
                        for which in (("NCut",), ("SSKK",), IN_SUBSPACE))  # fmt: skip
    figures = {
        "least_seconds": min(r["seconds"] for r in rest),
        "most_seconds": max(r["seconds"] for r in rest),
        "ncut_least_seconds": min(r["seconds"] for r in ncut),
        "ncut_most_seconds": max(r["seconds"] for r in ncut),
        "peak_gb": max(r["peak_bytes"] for r in rest) / 1e9,
        "ari": min(r["ari"] for r in rest),
        "sskk_seconds": max(r["seconds"] for r in sskk),
        "sskk_ari": min(r["ari"] for r in sskk),
    }
    runner.record("methods", figures)


def propagate(graph: Path, points: Path, args: argparse.Namespace) -> None:
    cases = {name: (name, LABELS, {}) for name in SPREAD}
    found = fitted(f"400 labels, {args.n:,} nodes", graph, points, cases)
    four = {name: found[name] for name in ("LLGC", "GFHF", "TikReg", "Poisson")}
    figures: dict[str, Any] = {name: {"seconds": one["seconds"]} for name, one in four.items()}
    figures["peak_gb"] = max(one["peak_bytes"] for one in four.values()) / 1e9
    figures["accuracy"] = min(one["accuracy"] for one in four.values())
    csc = found["CSCGFHF"]
    told = {"seconds": csc["seconds"], "peak_gb": csc["peak_bytes"] / 1e9, "ari": csc["ari"]}
    figures |= {"CSCGFHF": told, "NCut": {"seconds": found["NCut"]["seconds"]}}
    runner.record("propagate", figures)


def pairs(graph: Path, points: Path, args: argparse.Namespace) -> None:
    cases: dict[str, Any] = {"NCut": ("NCut", "none", {})}
    cases |= {f"{m}, {p:,}": (m, f"{p} pairs", {}) for m in ("SRCP", "CSP") for p in PAIRS}
    cases["E2CP, 10,000"] = ("E2CP", "10000 pairs", {})
    found = fitted(f"Pairs, {args.n:,} nodes", graph, points, cases)
    srcp, csp = ([found[f"{m}, {p:,}"] for p in PAIRS] for m in ("SRCP", "CSP"))
    figures = {
        "SRCP": [
            {
                "pairs": p,
                "seconds": one["fit_seconds"],
                "spread_seconds": one["stages"].get("constraint propagation", 0.0),
                "ari": one["ari"],
            }
            for p, one in zip(PAIRS, srcp, strict=True)
        ],
        "SRCP_peak_gb": max(one["peak_bytes"] for one in srcp) / 1e9,
        "NCut": {"seconds": found["NCut"]["fit_seconds"], "ari": found["NCut"]["ari"]},
        "CSP": [one["fit_seconds"] for one in csp],
        "CSP_peak_gb": max(one["peak_bytes"] for one in csp) / 1e9,
    }
    runner.record("pairs", figures)


def refitted(graph: str, source: str, given: int, more: int) -> dict[str, Any]:
    """First fit with pairs, then the same graph with a few more."""
    y, W = data.labels(source) // 2, data.read_graph(graph)
    known = data.draw(y, f"{given + more} pairs", 0)
    old = data.Known(pairs=known.pairs[:given], belief=known.belief[:given])
    fits.warm("CSP", labels=False)
    est, first = runner.timed(fits.fit, fits.make("CSP", int(y.max()) + 1), W, old)
    before = fits.ari(y, est.labels_)
    _, again = runner.timed(est.refit, constraints=known.constraints(len(y)))
    found = {"first_seconds": first, "refit_seconds": again}
    return {**found, "ari_first": before, "ari_refit": fits.ari(y, est.labels_)}


def refit(graph: Path, points: Path, args: argparse.Namespace) -> None:
    given = {"graph": graph, "source": points, "given": min(10_000, args.n // 2), "more": 100}
    found = runner.call("million:refitted", **given)
    kept = ("first_seconds", "refit_seconds", "ari_first", "ari_refit")
    figures = {key: found[key] for key in kept}
    render.records(f"100 more pairs, {args.n:,} nodes", {"CSP": figures})
    runner.record("million_refit", figures)


# ---------------------------------------------------------------- the shell


def pipeline(points: Path, args: argparse.Namespace) -> None:
    labels = points.with_suffix(".labels.h5")
    runner.say("mustlink cluster")
    job = ("cluster", f"{points}:/points", "-k", data.K, "-m", "ncut", "-o", labels)
    found = runner.command(*job, "--fresh")
    ari = runner.command("score", labels, "--truth", f"{points}:/labels")["truth"]["ari"]
    stages = runner.stage_table(found)
    rows = {name: {"seconds": s} for name, s in stages.items()}
    rows["process"] = {"seconds": found["wall_seconds"]}
    render.records(f"HDF5 to labels, {args.n:,} points, ARI {ari:.5f}", rows)
    figures = {"seconds": found["seconds"], "peak_gb": found["rss_bytes"] / 1e9}
    searching = sum(s for name, s in stages.items() if name in GRAPH_STAGES)
    runner.record("million_pipeline", {**figures, "ari": ari, "graph_seconds": searching})


# ---------------------------------------------------------------- questions


def asked(n: int, threads: int) -> dict[str, Any]:
    """Seconds of a fit, ten questions and a refit: wall and CPU, first and again."""
    import numpy as np

    import mustlink as ml

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    X = (rng.normal(size=(10, 8))[y] * 2.0 + rng.normal(size=(n, 8))).astype(np.float32)
    graph = ml.knn_graph(X, n_neighbors=15, random_state=0, n_jobs=threads)
    given = data.labels_per_class(y, 10, rng)
    figures: dict[str, Any] = {}
    for method, kinds in (("CSP", ("labels", "pairs")), ("Poisson", ("labels",))):
        est = fits.make(method, 10, n_jobs=threads)
        found = figures[method] = {"fit": runner.cpu_timed(est.fit, graph, given)[1:]}
        for kind in kinds:
            ask = partial(ml.next_queries, est, 10, kind)
            found[kind] = [*runner.cpu_timed(ask)[1:], *runner.cpu_timed(ask)[1:]]
        answered, rows = given.copy(), ml.next_queries(est, 10)
        answered[rows] = y[rows]
        again = runner.cpu_timed(est.refit, given)[1:]
        found["refit"] = [*runner.cpu_timed(est.refit, answered)[1:], *again]
    return {"n": n, "threads": threads, "peak_gb": runner.own_peak_bytes() / 1e9, **figures}


def questions(args: argparse.Namespace) -> None:
    found = runner.call("million:asked", n=args.n, threads=args.threads)
    rows = [
        [method, what, *seconds[:2]]
        for method in ("CSP", "Poisson") for what, seconds in found[method].items()
    ]  # fmt: skip
    title = f"{args.n:,} nodes, {args.threads} threads, peak {found['peak_gb']:.2f} GB"
    render.table(title, ["method", "what", "seconds", "CPU seconds"], rows)
    runner.record("asked_million", {k: v for k, v in found.items() if "wall" not in k})


PARTS = {
    "peers": peers, "constraints": constraints, "refit": refit, "methods": methods,
    "propagate": propagate, "pairs": pairs,
}  # fmt: skip


def main() -> None:
    flags = dict.fromkeys(("pipeline", *PARTS, "asked"), False)
    args = runner.options(__doc__, n=1_000_000, alternations=3, threads=2, **flags)
    runner.say(f"machine: {runner.machine()}")
    chosen = [name for name in PARTS if vars(args)[name]]
    if args.pipeline or not (chosen or args.asked):
        pipeline(data.sheets(args.out, args.n), args)
    for name in chosen:
        points = data.sheets(args.out, args.n)
        PARTS[name](data.graph_of(points), points, args)
    if args.asked:
        questions(args)


if __name__ == "__main__":
    main()
