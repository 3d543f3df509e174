"""Sixty small fits: every estimator, every kind of data, and what each of them answered.

Only names of the public interface are used, so that one text runs on any version. A version is
run by `python bench/same_cases.py FOLDER` with that version on PYTHONPATH: outcomes.json and
arrays.npz are written there. `bench/same.py` does this for two versions and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

# Residual asked for where the default for subspaces, 1e-2, would leave the eigenvalues to the
# random start; the other cases have their defaults, and their labels must be the same.
TIGHT = 1e-7


@dataclass(frozen=True)
class Case:
    """One fit: estimator, kind and data, what is known, options; whether it is fitted again."""

    estimator: str
    kind: str
    data: str
    known: str = "labels"
    options: tuple[tuple[str, Any], ...] = ()
    refit: str = ""

    @property
    def name(self) -> str:
        """Estimator, data, side information and options in one word."""
        words = [self.estimator, self.data, self.known]
        words += [f"{key}={value}" for key, value in self.options]
        return " ".join(words + ([f"refit={self.refit}"] if self.refit else []))


def case(estimator: str, kind: str, data: str, known: str = "labels", **options: Any) -> Case:
    """A row of the table below."""
    refit = options.pop("refit", "")
    return Case(estimator, kind, data, known, tuple(options.items()), refit)


CASES: tuple[Case, ...] = (
    # clusterers: the smooth subspace and the full problem, LAPACK and iterations
    case("NCut", "points", "digits", "nothing"),
    case("NCut", "points", "blobs", "nothing", variant="ng"),
    case("NCut", "graph", "blocks", "nothing"),
    case("NCut", "picture", "picture", "nothing"),
    case("NCut", "components", "parts", "nothing"),
    case("NCut", "tiny", "six", "nothing", variant="shi-malik"),
    case("CSP", "points", "digits", refit="pairs"),
    case("CSP", "points", "blobs", "pairs", tol=TIGHT),
    case("CSP", "graph", "nearest", subspace=24),
    case("CSP", "graph", "blocks", subspace="exact", beta=0.5),
    case("CSP", "graph", "nearest", "second graph"),
    case("CSP", "picture", "picture", tol=TIGHT),
    case("CSP", "components", "parts", tol=TIGHT),
    case("CSP", "contradictory", "blobs", "contradictory"),
    case("CSP", "tiny", "six", subspace="exact"),
    case("SSSC", "points", "digits"),
    case("SSSC", "graph", "nearest", "pairs", refit="labels", tol=TIGHT),
    case("SSSC", "contradictory", "blobs", "contradictory", tol=TIGHT),
    case("SSSC", "tiny", "dozen", "pairs", subspace="exact"),
    case("SpectralLearning", "points", "moons", "pairs", subspace="exact"),
    case("SpectralLearning", "graph", "nearest", tol=TIGHT),
    case("SpectralLearning", "contradictory", "blobs", "contradictory", tol=TIGHT),
    case("ConstrainedAP", "points", "moons", "pairs"),
    case("ConstrainedAP", "contradictory", "moons", "contradictory", noise=0.1),
    case("FastGE", "picture", "picture", subspace="exact"),
    case("FastGE", "points", "digits", tol=TIGHT),
    case("FastGE", "components", "parts", "pairs", tol=TIGHT),
    case("SSKK", "points", "digits", "pairs"),
    case("SSKK", "graph", "blocks"),
    case("SSKK", "contradictory", "moons", "contradictory"),
    case("SRCP", "points", "digits", "pairs", refit="labels"),
    case("SRCP", "points", "blobs", "pairs"),
    case("SRCP", "graph", "blocks", "pairs", solver="krylov"),
    case("SRCP", "contradictory", "digits", "contradictory"),
    case("E2CP", "points", "moons", "pairs"),
    case("E2CP", "graph", "nearest", "pairs"),
    case("E2CP", "tiny", "dozen", "pairs"),
    case("CSCGFHF", "points", "digits"),
    case("CSCGFHF", "graph", "nearest"),
    case("CSCGFHF", "components", "parts"),
    # propagators: dense and iterative solves
    case("GFHF", "points", "moons"),
    case("GFHF", "picture", "picture"),
    case("GFHF", "components", "parts", class_mass="equal"),
    case("LLGC", "graph", "nearest"),
    case("LLGC", "tiny", "six"),
    case("TikReg", "points", "digits"),
    case("TikReg", "components", "parts"),
    case("LNP", "points", "blobs"),
    case("LNP", "points", "moons", variant="minimizer"),
    case("ClusterKernel", "graph", "blocks"),
    case("GWEM", "points", "digits"),
    case("GWEM", "graph", "nearest", variant="fixed-point"),
    case("LELP", "points", "digits"),
    case("LELP", "graph", "nearest", orthogonal=True),
    case("LLELP", "points", "moons"),
    case("LTSALP", "points", "moons", orthogonal=True),
    case("NCutPropagation", "picture", "picture"),
    case("GreenFunction", "graph", "blocks"),
    case("Poisson", "graph", "nearest"),
    case("Poisson", "tiny", "dozen"),
)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Data:
    """Points or a graph, the classes (n,), and how `fit` is told."""

    given: Any
    truth: Any
    affinity: str


def _points(truth: Any, X: Any) -> Data:
    return Data(np.ascontiguousarray(X, dtype=np.float64), truth, "knn")


def digits() -> Data:
    """1,797 handwritten digits of 64 coordinates."""
    from sklearn.datasets import load_digits

    X, truth = load_digits(return_X_y=True)
    return _points(truth, X)


def blobs() -> Data:
    """6,000 points of six clusters that touch, of unequal size, in 8 dimensions."""
    rng = np.random.default_rng(5)
    truth = np.repeat(np.arange(6), (400, 600, 800, 1000, 1400, 1800))
    centres = 1.8 * rng.standard_normal((6, 8))
    return _points(truth, centres[truth] + rng.standard_normal((6000, 8)))


def moons() -> Data:
    """800 points on two arcs."""
    rng = np.random.default_rng(6)
    angle = np.pi * rng.random(800)
    truth = np.repeat((0, 1), 400)
    sign = 1 - 2 * truth
    X = np.column_stack([np.cos(angle) * sign + truth, np.sin(angle) * sign + 0.5 * truth])
    return _points(truth, X + 0.12 * rng.standard_normal(X.shape))


def dozen() -> Data:
    """Twelve points, three clusters, farther apart than neighbours reach."""
    rng = np.random.default_rng(7)
    truth = np.repeat(np.arange(3), 4)
    return _points(truth, 2.0 * np.eye(3)[truth] + 0.3 * rng.standard_normal((12, 3)))


def nearest() -> Data:
    """The 10 nearest neighbours of the blobs, edges of weight 1, a graph given by the caller."""
    from sklearn.neighbors import kneighbors_graph

    found = blobs()
    A = kneighbors_graph(found.given, 10, include_self=False)
    return Data(sp.csr_matrix(A.maximum(A.T)), found.truth, "precomputed")


def _random_blocks(rng: Any, sizes: Sequence[int], degree: float, mixing: float) -> Any:
    """Adjacency of a stochastic block model: mean degree, and its share between the blocks."""
    block = np.repeat(np.arange(len(sizes)), sizes)
    n = block.size
    starts = np.r_[0, np.cumsum(sizes)]
    m = int(n * degree / 2)
    i = rng.integers(n, size=m)
    inside = starts[block[i]] + (rng.random(m) * np.asarray(sizes)[block[i]]).astype(np.int64)
    j = np.where(rng.random(m) < mixing, rng.integers(n, size=m), inside)
    weight = 0.5 + rng.random(m)
    keep = i != j
    A = sp.coo_matrix((weight[keep], (i[keep], j[keep])), shape=(n, n)).tocsr()
    return sp.csr_matrix(A + A.T), block


def blocks() -> Data:
    """Four random blocks of 3,000 nodes, mean degree 24, a fifth of it between them."""
    A, truth = _random_blocks(np.random.default_rng(8), (900, 800, 700, 600), 24, 0.2)
    return Data(A, truth, "precomputed")


PARTS = ((500, 400), (350, 300), (300, 250))


def parts() -> Data:
    """Three parts that no edge joins, of two blocks each, three pairs of nodes and a lone one."""
    rng = np.random.default_rng(9)
    found = [_random_blocks(rng, pair, 20, 0.1)[0] for pair in PARTS]
    edge = sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    A = sp.block_diag([*found, edge, edge, edge, sp.csr_matrix((1, 1))], format="csr")
    truth = np.repeat(np.arange(6), np.ravel(PARTS))
    return Data(sp.csr_matrix(A), np.r_[truth, np.zeros(7, dtype=np.int64)], "precomputed")


def picture() -> Data:
    """60 × 80 pixels: a disc and a bar on a ground that brightens, with noise."""
    rng = np.random.default_rng(10)
    row, column = np.mgrid[0:60, 0:80]
    truth = np.where((row - 25) ** 2 + (column - 25) ** 2 < 15**2, 1, 0)
    truth[42:54, 40:75] = 2
    colour = np.array([[0.3, 0.35, 0.5], [0.7, 0.4, 0.3], [0.4, 0.6, 0.3]])[truth]
    image = colour + 0.15 * (column / 80)[..., None] + 0.08 * rng.standard_normal((60, 80, 3))
    return Data(np.clip(image, 0, 1), truth.ravel(), "picture")


def six() -> Data:
    """The graph of WD14 §4.4."""
    A = np.zeros((6, 6))
    for i, j in ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)):
        A[i, j] = A[j, i] = 1
    return Data(sp.csr_matrix(A), np.repeat((0, 1), 3), "precomputed")


@cache
def data(name: str) -> Data:
    """The data set of that name."""
    makers = (digits, blobs, moons, dozen, nearest, blocks, parts, picture, six)
    return {maker.__name__: maker for maker in makers}[name]()


def digest(name: str) -> str:
    """SHA-256 of a data set, to be sure that both versions saw the same."""
    given = data(name).given
    arrays = (given.data, given.indices, given.indptr) if sp.issparse(given) else (given,)
    joined = hashlib.sha256()
    for array in (*arrays, data(name).truth):
        joined.update(np.ascontiguousarray(array).tobytes())
    return joined.hexdigest()[:16]


# ---------------------------------------------------------------- side information


def some_labels(truth: Any) -> Any:
    """A few labels of every class, -1 elsewhere."""
    rng = np.random.default_rng(11)
    y = np.full(truth.size, -1, dtype=np.int64)
    for c in np.unique(truth):
        members = np.flatnonzero(truth == c)
        some = rng.choice(members, size=min(max(1, members.size // 40), 20), replace=False)
        y[some] = c
    return y


def some_pairs(truth: Any, wrong: float) -> tuple[Any, Any]:
    """Random pairs with beliefs of different strength, a share of them wrong; and a third side.

    With `wrong` > 0 some triangles are added: i with j, j with k, but i not with k.
    """
    n = truth.size
    rng = np.random.default_rng(12)
    m = min(4 * n, max(6, n // 10))
    i = rng.integers(n, size=m)
    j = (i + 1 + rng.integers(n - 1, size=m)) % n
    sign = np.where(truth[i] == truth[j], 1.0, -1.0)
    sign[rng.random(m) < wrong] *= -1
    pairs, belief = np.column_stack([i, j]), sign * np.where(rng.random(m) < 0.5, 1.0, 0.5)
    if wrong:
        a, b, c = rng.choice(n, size=(3, 5), replace=False)
        sides = [np.column_stack(ends) for ends in ((a, b), (b, c), (a, c))]
        pairs = np.vstack([pairs, *sides])
        belief = np.r_[belief, np.ones(10), -np.ones(5)]
    return pairs, belief


def told(known: str, truth: Any) -> dict[str, Any]:
    """What is known, as arguments of `fit`."""
    import mustlink as ml

    if known == "nothing":
        return {}
    if known == "labels":
        return {"y": some_labels(truth)}
    if known == "second graph":
        rng = np.random.default_rng(13)
        i = rng.integers(truth.size, size=2 * truth.size)
        j = rng.integers(truth.size, size=i.size)
        agree = (truth[i] == truth[j]) & (i != j)
        A = sp.coo_matrix((np.ones(agree.sum()), (i[agree], j[agree])), shape=(truth.size,) * 2)
        return {"constraints": ml.Constraints.from_graph(sp.csr_matrix(A + A.T))}
    pairs, belief = some_pairs(truth, 0.1 if known == "contradictory" else 0.0)
    return {"constraints": ml.Constraints.from_pairs(pairs, belief, n_nodes=truth.size)}


# ---------------------------------------------------------------- fits


def answer(case: Case, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a fit says, as plain values, and its arrays."""
    import mustlink as ml

    found = data(case.data)
    given, affinity = found.given, found.affinity
    if affinity == "picture":
        given, affinity = ml.image_graph(given, n_similar=0), "precomputed"
    options: dict[str, Any] = dict(case.options)
    if hasattr(getattr(ml, case.estimator)(), "n_clusters"):
        options["n_clusters"] = int(found.truth.max()) + 1
    if case.data == "dozen":
        options["n_neighbors"] = 4
    est = getattr(ml, case.estimator)(affinity=affinity, random_state=seed, **options)
    known = told(case.known, found.truth)
    est.fit(given, **known)
    arrays = {
        "labels": est.labels_,
        "eigenvalues": getattr(est, "eigenvalues_", None),
        "embedding": getattr(est, "embedding_", None),
        "distributions": getattr(est, "label_distributions_", None),
    }
    report = est.report_.to_dict()
    if case.refit:
        est.refit(**told(case.refit, found.truth))
        arrays["refit"] = est.labels_
    kept = {key: report[key] for key in ("choices", "notes", "warnings")}
    return kept, {key: np.asarray(a) for key, a in arrays.items() if a is not None}


def run(folder: Path, only: Sequence[str], seed: int) -> None:
    """Fit every case whose name has one of the words; an error is an outcome, too."""
    outcomes: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for case in CASES:
        if only and not any(word in case.name for word in only):
            continue
        started = time.perf_counter()
        kept: dict[str, Any] = {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kept, found = answer(case, seed)
            arrays.update({f"{case.name}/{key}": value for key, value in found.items()})
        except Exception as error:  # the comparison tells
            kept = {"error": f"{type(error).__name__}: {error}"}
        seconds = time.perf_counter() - started
        outcomes[case.name] = {"seconds": seconds, "data": digest(case.data), **kept}
        print(f"# {seconds:6.1f} s  {case.name}  {kept.get('error', '')}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "outcomes.json").write_text(json.dumps(outcomes, indent=1, default=str) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of cases")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    run(args.folder, args.only, args.seed)


if __name__ == "__main__":
    main()
