"""FAST-GE on photographs with click points: our solver against LOBPCG on the published pencil.

    python bench/fast_ge.py                      150 x 200 up to 800 x 1280 pixels
    python bench/fast_ge.py --only camel-150 elephant --cap 60
    python bench/fast_ge.py --no-rivals

Rivals solve −L_H x = σ(L_G + μL_H + 11ᵀ/n)x, μ = 1e-3, as FAST-GE-2.0 does, by scipy's LOBPCG (the
algorithm and the author of the MATLAB file used there): two columns, random start, without
preconditioner, and with pyamg's smoothed aggregation of L_G, strength and null space set as suits
these graphs best. All are judged by what the authors report for the first vector,
‖L_G x − λL_H x‖ / (‖L_G x‖ + λ‖L_H x‖), computed here from matrices of its own.
Needs the data folder, and pillow.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common

# name: (image, height it is shrunk to); the first has the size of the authors' smallest picture
CASES = {
    "camel-150": ("camel", 150),
    "elephant": ("elephant", None),
    "crab": ("crab", None),
    "camel": ("camel", None),
    "daisy-400": ("daisy", 400),
    "daisy": ("daisy", None),
}
TOL = 1e-4
MU = 1e-3
FACTOR_BELOW = 300_000  # pixels up to which a sparse factorisation checks the eigenvalue
WARM = 30  # steps that tell a rival's seconds per step


def picture(name: str, source: str) -> tuple[Any, Any, int]:
    """Image (h, w, 3), labels (h, w) of the click points (-1 elsewhere), number of classes."""
    import numpy as np
    from PIL import Image

    height = CASES[name][1]
    with np.load(source, allow_pickle=False) as archive:
        image, k = archive["image"], int(archive["n_classes"])
        points = [np.rint(archive[f"pts{c}"]).astype(int) - 1 for c in range(k)]
    full = np.array(image.shape[:2])
    if height is not None:
        width = 200 if height == 150 else round(height * full[1] / full[0])
        image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))
    shape = np.array(image.shape[:2])
    labels = np.full(shape, -1, dtype=np.int64)
    for c, at in enumerate(points):
        y, x = (at[:, ::-1] * shape // full).T
        labels[y, x] = c
    return image, labels, k


@dataclass(frozen=True)
class Matrices:
    """L_G and L_H in nodes' own scale, written out pair by pair: nothing shared with the engine."""

    LG: Any
    LC: Any
    degrees: Any

    def LH(self, X: Any) -> Any:
        """(L_CL + L_K/n)X, K_ij = d_i d_j/vol."""
        d = self.degrees
        demand = d[:, None] * (X - (d @ X) / d.sum())
        return self.LC @ X + demand / d.size

    def metric(self, X: Any) -> Any:
        """(L_G + μL_H + 11ᵀ/n)X."""
        return self.LG @ X + MU * self.LH(X) + X.mean(axis=0)

    def quotient(self, X: Any) -> Any:
        """XᵀL_GX / XᵀL_HX, column by column."""
        return (X * (self.LG @ X)).sum(axis=0) / (X * self.LH(X)).sum(axis=0)

    def accuracy(self, X: Any) -> Any:
        """‖L_G x − λL_H x‖ / (‖L_G x‖ + λ‖L_H x‖), λ the quotient."""
        import numpy as np

        lam, G, H = self.quotient(X), self.LG @ X, self.LH(X)
        size = np.linalg.norm(G, axis=0) + lam * np.linalg.norm(H, axis=0)
        return np.linalg.norm(G - H * lam, axis=0) / size


def matrices(W: Any, labels: Any) -> Matrices:
    """All pairs of clicks, weighted d_i d_j/(d_min d_max)."""
    import numpy as np
    import scipy.sparse as sp

    n = W.shape[0]
    d = np.asarray(W.sum(axis=1)).ravel()
    known = np.flatnonzero(labels >= 0)
    same = labels[known][:, None] == labels[known]
    weight = np.outer(d[known], d[known]) / (d.min() * d.max())
    np.fill_diagonal(weight, 0.0)
    E = sp.csr_array((np.ones(known.size), (known, np.arange(known.size))), shape=(n, known.size))

    def laplacian(A: Any) -> Any:
        return sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A)

    must = E @ sp.csr_array(np.where(same, weight, 0.0)) @ E.T
    cannot = E @ sp.csr_array(np.where(same, 0.0, weight)) @ E.T
    return Matrices(laplacian(sp.csr_array(W) + must), laplacian(cannot), d)


def ours(name: str, source: str, out: str) -> dict[str, Any]:
    """`ml.FastGE` from graph to labels, its accuracy, and a picture beside NCut's."""
    import numpy as np

    import mustlink as ml
    from mustlink_io import pictures

    image, labels, k = picture(name, source)
    shape, y = labels.shape, labels.ravel()
    base = {"n_clusters": k, "affinity": "precomputed", "random_state": 0}
    _warm(base, image)
    graph, graph_seconds = common.timed(ml.image_graph, image, 2, n_similar=0)
    known = ml.Constraints.from_labels(y)
    make = ml.FastGE(**base, subspace="exact", solver="lobpcg", tol=TOL, mu=MU)
    est, seconds, cpu = common.cpu_timed(lambda: make.fit(graph, constraints=known))
    peak = common.own_peak_bytes()
    own = matrices(graph.affinity, y)
    X = est.embedding_
    report = est.report_.to_dict()
    before = ml.NCut(**base).fit(graph)
    figure = pictures.segmentation(
        image,
        _drawn(labels),
        before.labels_.reshape(shape),
        est.labels_.reshape(shape),
        titles=("click points", "without them (NCut)", "with them (FAST-GE)"),
    )
    pictures.save(figure, Path(out) / f"fast-ge-{name}.png")
    return {
        "pixels": int(y.size),
        "clicks": int((y >= 0).sum()),
        "graph_seconds": graph_seconds,
        "seconds": seconds,
        "cpu": cpu,
        "steps": report["convergence"]["iterations"],
        "status": report["convergence"]["status"],
        "sigma": est.eigenvalues_,
        "lambda": own.quotient(X),
        "accuracy": own.accuracy(X),
        "length": float(
            np.linalg.norm(own.LH(X[:, :1])) / np.sqrt((X * own.metric(X))[:, 0].sum())
        ),
        "kept": (report["satisfaction"] or {}).get("kept"),
        "sizes": np.bincount(est.labels_[est.labels_ >= 0], minlength=k),
        "stages": common.stage_table(report),
        "notes": report["notes"],
        "peak_bytes": peak,
    }


def _warm(base: dict[str, Any], image: Any) -> None:
    """A fit on a corner of the picture, so that loading libraries and kernels is not measured."""
    import numpy as np

    import mustlink as ml

    corner = np.ascontiguousarray(image[:60, :60])
    y = np.full(corner.shape[:2], -1)
    for c in range(base["n_clusters"]):
        y[5::20, 5 + 25 * c] = c
    ml.FastGE(**base, subspace="exact", solver="lobpcg").fit(
        ml.image_graph(corner, 2, n_similar=0), constraints=ml.Constraints.from_labels(y.ravel())
    )


def _drawn(labels: Any) -> Any:
    """Clicks as discs that can be seen."""
    import numpy as np

    h, w = labels.shape
    size = 1 + max(h, w) // 250
    found = np.full_like(labels, -1)
    Y, X = np.ogrid[:h, :w]
    for y, x in np.argwhere(labels >= 0):
        found[(Y - y) ** 2 + (X - x) ** 2 <= size * size] = labels[y, x]
    return found


def rival(name: str, source: str, amg: bool, level: float, cap: float) -> dict[str, Any]:
    """scipy's LOBPCG on the published pencil, until `level` or for about `cap` seconds.

    Set-up of the preconditioner counts. The step limit follows from the seconds of a few steps,
    since scipy can only be stopped by steps.
    """
    import numpy as np
    from scipy.sparse.linalg import LinearOperator, lobpcg

    import mustlink as ml

    image, labels, _ = picture(name, source)
    own = matrices(ml.image_graph(image, 2, n_similar=0).affinity, labels.ravel())
    n = own.degrees.size

    def operator(f: Any) -> Any:
        return LinearOperator((n, n), matvec=lambda x: f(x.reshape(n, 1)), matmat=f, dtype=float)

    left, right = operator(lambda X: -own.LH(X)), operator(own.metric)
    M, setup, setup_cpu = common.cpu_timed(_pyamg, own.LG) if amg else (None, 0.0, 0.0)
    start = np.random.default_rng(0).random((n, 2))

    def run(steps: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "not reaching the requested tolerance": counted below
            return lobpcg(
                left,
                start.copy(),
                B=right,
                M=M,
                tol=level,
                maxiter=steps,
                largest=False,
                retResidualNormsHistory=True,
            )

    _, first = common.timed(run, WARM)
    steps = max(WARM, int(WARM * cap / max(first, 1e-9)))
    (_, X, history), seconds, cpu = common.cpu_timed(run, steps)
    order = np.argsort(own.quotient(X))
    X = X[:, order]
    return {
        "seconds": setup + seconds,
        "cpu": setup_cpu + cpu,
        "steps": len(history),
        "lambda": own.quotient(X),
        "accuracy": own.accuracy(X),
        "peak_bytes": common.own_peak_bytes(),
    }


def _pyamg(LG: Any) -> Any:
    """A V-cycle on the complement of the constant vector, which pyamg by itself would blow up."""
    import numpy as np
    import pyamg
    import scipy.sparse as sp
    from scipy.sparse.linalg import LinearOperator

    n = LG.shape[0]
    solver: Any = pyamg.smoothed_aggregation_solver(
        sp.csr_matrix(LG), B=np.ones((n, 1)), strength=("symmetric", {"theta": 0.05})
    )
    cycle = solver.aspreconditioner()

    def apply(R: Any) -> Any:
        mean = R.mean(axis=0)
        Y = np.column_stack([cycle @ column for column in (R - mean).T])
        return Y - Y.mean(axis=0) + mean

    return LinearOperator((n, n), matvec=lambda x: apply(x.reshape(n, 1)), matmat=apply)


def factored(name: str, source: str) -> dict[str, Any]:
    """λ₁ by ARPACK around a sparse factorisation of L_G, to rounding."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    import mustlink as ml

    image, labels, _ = picture(name, source)
    own = matrices(ml.image_graph(image, 2, n_similar=0).affinity, labels.ravel())
    n = own.degrees.size
    corner = sp.csr_array(([1.0], ([0], [0])), shape=(n, n))
    lu = splu(sp.csc_matrix(own.LG + corner))

    def inverse(b: Any) -> Any:
        b = b.ravel()
        x = lu.solve(b - b.mean())
        return x - x.mean() + b.mean()  # of L_G + 11ᵀ/n

    def operator(f: Any) -> Any:
        return LinearOperator((n, n), matvec=f, dtype=float)

    found = eigsh(
        operator(lambda x: own.LH(x.reshape(n, 1)).ravel()),
        k=1,
        M=operator(lambda x: own.LG @ x.ravel() + x.mean()),
        Minv=operator(inverse),
        which="LA",
        tol=1e-12,
        v0=np.random.default_rng(0).standard_normal(n),
        return_eigenvectors=False,
    )
    return {"lambda": float(1.0 / found[0])}


def measure(name: str, source: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Ours, the check and the rivals on one picture, each in a process of its own."""
    given = {"name": name, "source": str(source)}
    common.say(f"{name}: ours")
    mine = common.call("fast_ge:ours", **given, out=str(args.out))
    found: dict[str, Any] = {"ours": mine}
    if mine["pixels"] <= FACTOR_BELOW:
        common.say(f"{name}: factorisation")
        found["exact"] = common.call("fast_ge:factored", **given)["lambda"]
    if args.rivals:
        # Residuals of the published pencil that mean accuracy TOL in the original one:
        # −L_Hx − σMx = (L_Gx − λL_Hx)/(λ + μ), here for x of length 1 in M.
        lam = mine["lambda"][0]
        level = TOL * 2 * lam * mine["length"] / (lam + MU)
        for kind, amg in (("plain", False), ("pyamg", True)):
            common.say(f"{name}: {kind}, at most about {args.cap:g} s")
            found[kind] = common.call("fast_ge:rival", **given, amg=amg, level=level, cap=args.cap)
    return found


def ended(found: dict[str, Any], cap: float) -> str:
    """How a solver ended, judged by the first vector."""
    if found["accuracy"][0] <= 2 * TOL:
        return "reached"
    return "capped" if found["seconds"] > cap / 3 else "short"


def rows(name: str, found: dict[str, Any], cap: float) -> list[tuple[Any, ...]]:
    """Lines of the table of speed: one for each solver."""
    mine = found["ours"]
    lines = []
    for kind in ("ours", "plain", "pyamg"):
        if kind not in found:
            continue
        it, how = found[kind], ended(found[kind], cap)
        ratio = f"{it['seconds'] / mine['seconds']:.3g}, {it['cpu'] / mine['cpu']:.3g}"
        lines.append(
            (
                *((name, mine["pixels"], mine["clicks"]) if kind == "ours" else ("", "", "")),
                kind,
                it["seconds"],
                it["cpu"],
                it["steps"],
                f"{it['accuracy'][0]:.0e}",
                how,
                ratio if how == "reached" else f"> {ratio}",
            )
        )
    return lines


def values(name: str, found: dict[str, Any]) -> tuple[Any, ...]:
    """One line of the table of eigenvalues."""
    mine, exact = found["ours"], found.get("exact")
    lam = mine["lambda"][0]
    others = [found.get(kind) for kind in ("plain", "pyamg")]
    return (
        name,
        f"{mine['sigma'][0]:.6f}",
        f"{lam:.9e}",
        None if exact is None else f"{exact:.9e}",
        None if exact is None else f"{abs(lam / exact - 1):.0e}",
        *(None if other is None else f"{other['lambda'][0]:.3e}" for other in others),
        f"{mine['kept']:.3f}",
        " + ".join(f"{s:,}" for s in mine["sizes"]),
    )


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--cap", type=float, default=180, help="seconds given to a rival")
    parser.add_argument("--no-rivals", dest="rivals", action="store_false")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in args.only:
        source = common.data_file(f"images/{CASES[name][0]}.npz")
        if source is None:
            continue
        results[name] = measure(name, source, args)
        common.write_json(args.out, "fast-ge", results)
    if not results:
        return 0
    head = ("picture", "pixels", "clicks", "solver", "seconds", "CPU s", "steps")
    common.table(
        f"FAST-GE, graph to labels, the first vector to {TOL:g}",
        (*head, "accuracy", "ended", "times ours (wall, CPU)"),
        [line for name, found in results.items() for line in rows(name, found, args.cap)],
    )
    print(
        f"\nplain, pyamg: scipy's LOBPCG on the published pencil, μ = {MU:g}, without and with "
        f"pyamg's cycle, without the assignment.\ncapped: at the step that {args.cap:g} s allow; "
        "short: its own rule or rounding ended it before."
    )
    checks = ("σ", "λ ours", "λ factored", "error", "λ plain", "λ pyamg")
    common.table(
        "Smallest eigenvalue λ = −1/σ − μ; sizes of the clusters",
        ("picture", *checks, "kept", "sizes"),
        [values(name, found) for name, found in results.items()],
    )
    first = results.get("camel-150", {})
    if {"plain", "pyamg"} <= first.keys():
        mine, plain = first["ours"], first["plain"]
        figures = {key: mine[key] for key in ("pixels", "clicks", "seconds", "steps")}
        figures |= {"plain_seconds": plain["seconds"], "plain_steps": plain["steps"]}
        common.record("fast_ge", {**figures, "amg_seconds": first["pyamg"]["seconds"]})
    for name, found in results.items():
        print(f"\n{name}: {found['ours']['status']}; picture fast-ge-{name}.png")
        for note in found["ours"]["notes"]:
            print(f"  note: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
