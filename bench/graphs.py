"""NCut on real and planted graphs that are not kind: components, heavy tails, isolated nodes.

    python bench/graphs.py
    python bench/graphs.py --only prone_dblp sbm_graphchallenge_20000
    python bench/graphs.py --tol 1e-6

Each by `mustlink cluster` in a process of its own, from the matrix file. Needs the data folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import common

# clusters asked for: the number of classes where that is small
GRAPHS = {
    "com_dblp": 10,
    "prone_dblp": 60,
    "notredame_actors_bipartite": 10,
    "LFR_N100000_ad5_mc50_mu0.3": 10,
    "sbm_graphchallenge_20000": 32,
}


def describe(path: str, found: str | None) -> dict[str, Any]:
    """Size and components of the graph, counted here, and how well found labels match its own."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    from mustlink_io import formats
    from mustlink_io.jobs import score

    with np.load(path, allow_pickle=False) as archive:
        parts = (archive["data"], archive["indices"], archive["indptr"])
        W = sp.csr_matrix(parts, shape=tuple(archive["shape"]))
        y = archive["y"] if "y" in archive.files else None
    result: dict[str, Any] = {
        "nodes": W.shape[0],
        "edges": int(W.nnz) // 2,
        "components": int(connected_components(W, directed=False)[0]),
        "isolated": int((np.diff(W.indptr) == 0).sum()),
        "classes": None if y is None else int(np.unique(y[y >= 0]).size),
    }
    if found is not None:
        labels = formats.load_labels(found)
        result["sizes"] = np.sort(np.bincount(labels[labels >= 0]))[::-1]
        if y is not None:
            result["truth"] = score.agreement(labels, y)
    return result


def run(name: str, k: int, tol: float | None, out: Path) -> dict[str, Any] | None:
    """One graph to the end; None without the data."""
    source = common.data_file(f"graphs/{name}.npz")
    if source is None:
        return None
    target = out / f"{name}.labels.h5"
    out.mkdir(parents=True, exist_ok=True)
    common.say(f"{name}, K = {k}")
    options = [] if tol is None else ["--tol", tol]
    try:
        job = ("cluster", source, "-k", k, "-m", "ncut", *options, "-o", target)
        found = common.command(*job)
    except common.ChildError as error:
        about = common.call("graphs:describe", path=str(source), found=None)
        return {"name": name, "k": k, "error": str(error), "about": about}
    about = common.call("graphs:describe", path=str(source), found=str(target))
    return {"name": name, "k": k, "about": about, **found}


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("-k", type=int, help="clusters; default by graph")
    parser.add_argument("--tol", type=float)
    args = parser.parse_args()
    results = []
    for name in args.only:
        found = run(name, args.k or GRAPHS[name], args.tol, args.out)
        if found is not None:
            results.append(found)
            common.write_json(args.out, "graphs", results)
    if not results:
        return 0
    rows = []
    for r in results:
        about, convergence = r["about"], r.get("convergence") or {}
        truth = about.get("truth") or {}
        residuals = convergence.get("residuals") or []
        rows.append(
            (
                r["name"],
                about["nodes"],
                about["edges"],
                about["components"],
                about["isolated"],
                r["k"],
                r.get("seconds"),
                f"{r['rss_bytes'] / 1e6:.0f} MB" if "rss_bytes" in r else None,
                f"{max(residuals):.1e}" if residuals else None,
                f"{truth['nmi']:.3f}" if truth else None,
                f"{truth['ari']:.3f}" if truth else None,
            )
        )
    common.table(
        "NCut to the end",
        (
            "graph", "nodes", "edges", "components", "isolated", "K", "seconds", "peak memory",
            "largest residual", "NMI", "ARI",
        ),
        rows,
    )  # fmt: skip
    for r in results:
        print(f"\n{r['name']}: ", end="")
        if "error" in r:
            print(f"FAILED: {r['error']}")
            continue
        print((r.get("convergence") or {}).get("status") or "no status")
        print(f"  sizes {r['about']['sizes'][:12]}; unassigned {r['unassigned']:,}")
        for note in r["notes"]:
            print(f"  note: {note}")
    return 1 if any("error" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
