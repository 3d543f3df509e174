"""The roofline: how far sparse products, cycles and steps are from what the machine can do.

    python bench/roofline.py [--n 1000000] [--threads 1 2 4]

In one run, for every number of threads: the rate at which memory is copied (bytes read and
written), the rate of matrix products in both precisions, and then the parts of an embedding of the
graph of bench/million.py. Bytes and operations are counted from shapes, every array once for each
pass that needs it; the least possible time is the larger of bytes/copy rate and operations/product
rate. A product's block counts once, too, as if rows of neighbours were at hand when they are
gathered. Caches that hold a part make less than 1 possible. Threads that the machine gives to
others count as ours: look at the load that is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import common
import million

COLUMNS = 16  # of a product
K, GUARD = 10, 3  # an embedding's columns and those beside them
WIDTH = K + GUARD
COPIED = 1 << 28  # bytes: far more than any cache of a core
SQUARE = 2000  # side of the dense matrices
SOURCES, STEPS, DROPPED = 100, 12, 1e-4  # of the diffusion
REPEATS = 5


def best(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Least wall seconds of a call, after one that does not count."""
    function()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def rates(threads: int) -> dict[str, float]:
    """Bytes a second of a copy, operations a second of matrix products."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    source = np.ones(COPIED // 8)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        seconds = best(lambda: list(pool.map(lambda p: np.copyto(*p), parts)))
        found = {"copy": 2 * source.nbytes / seconds}
        for name in ("float32", "float64"):
            A = np.ones((SQUARE, SQUARE), dtype=name)
            seconds = best(lambda A=A: list(pool.map(lambda _: A @ A, range(threads))), 2)
            found[name] = 2 * SQUARE**3 * threads / seconds
    return found


# ---------------------------------------------------------------- what is counted


def matrix_bytes(S: Any, itemsize: int) -> int:
    """Values, columns and ends of rows."""
    return int(S.nnz * (itemsize + S.indices.itemsize) + S.indptr.nbytes)


def product_work(S: Any, itemsize: int, width: int) -> tuple[int, int]:
    """Bytes and operations of SX with X (n, width): the matrix, X and the result once."""
    return matrix_bytes(S, itemsize) + 2 * S.shape[0] * width * itemsize, 2 * S.nnz * width


def cycle_work(cycle: Any, width: int) -> tuple[int, int]:
    """A V-cycle: on every grid two products, and twelve passes over blocks.

    In: peaks (B), first step (2), residual (X, B and R), R again; up: X twice; last step (X, B, Y).
    """
    total, operations, visits = 0, 0, 1
    for grid in cycle.grids:
        size, item = grid.size, grid.dtype.itemsize
        if grid.way is None:
            total += visits * size * size * 8
            operations += visits * 2 * size * size * width
            break
        total += visits * (2 * matrix_bytes(grid.matrix, item) + 12 * size * width * item)
        operations += visits * (4 * grid.matrix.nnz + 12 * size) * width
        visits *= cycle.visits
    return total, operations


def step_work(S: Any, cycle: Any) -> tuple[int, int]:
    """A step of LOBPCG in single precision: the cycle, a product, and what is made of blocks.

    Blocks read or written: residuals 3, inner products of new directions and their images with all
    4, new X, P and their images 6 + 4.
    """
    n, w = S.shape[0], WIDTH
    parts = [cycle_work(cycle, w), product_work(S, 4, w)]
    total = sum(p[0] for p in parts) + 17 * n * w * 4
    small = 2 * 3 * w * w + 4 * 3 * w * w
    return total, sum(p[1] for p in parts) + 2 * n * small


def embedding_work(S: Any, hierarchy: Any, cycle: Any, steps: int) -> tuple[int, int]:
    """From the affinity to vectors: checks, order, Laplacian, grids, start, steps, the end.

    Passes over the matrix: two to check, one for the order, two to renumber, four for the links
    and the first coarse grid; four products for the start, two to begin, one in double at the end.
    """
    n, w = S.shape[0], WIDTH
    total, operations = 9 * matrix_bytes(S, 4), 4 * S.nnz
    total += 8 * sum(matrix_bytes(grid.matrix.local, 8) for grid in hierarchy.levels[1:])
    for item, times in ((4, 6), (8, 1)):
        one = product_work(S, item, w)
        total += times * (one[0] + 6 * n * w * item)
        operations += times * (one[1] + 2 * n * 4 * w * w)
    one = step_work(S, cycle)
    return total + steps * one[0], operations + steps * one[1]


def diffusion_work(S: Any, root: Any, nodes: Any) -> tuple[int, int]:
    """Edges that diffusions from these nodes walk along: column, value, and a number each way."""
    import numpy as np
    import scipy.sparse as sp

    edges = 0
    for node in nodes:
        x = sp.csr_matrix(([1.0], ([0], [node])), shape=(1, S.shape[0]))
        for _ in range(STEPS):
            x.data[np.abs(x.data) < DROPPED * root[x.indices] / root[node]] = 0.0
            x.eliminate_zeros()
            edges += int(np.diff(S.indptr)[x.indices].sum())
            x = sp.csr_matrix(x @ S)
    return edges * (S.indices.itemsize + S.data.itemsize + 16), 2 * edges


# ---------------------------------------------------------------- what is measured


def measured(graph: str, threads: list[int]) -> dict[str, Any]:
    """Rates, and seconds of every part with its bytes and operations, by number of threads."""
    import numba
    import numpy as np
    import scipy.sparse as sp

    import mustlink as ml
    from mustlink.discretize.assign import lloyd
    from mustlink.eigen.lobpcg import Lobpcg, lobpcg
    from mustlink.eigen.nested_iteration import nested_start
    from mustlink.kernels.threads import threads as limited
    from mustlink.linear.multigrid.hierarchy import build_hierarchy
    from mustlink.operators.laplacian import normalized_laplacian

    W = sp.load_npz(graph)
    options = {"affinity": "precomputed", "random_state": 0}
    ml.NCut(n_clusters=K, **options).fit(million._warm_graph())
    found: dict[str, Any] = {"nodes": W.shape[0], "entries": int(W.nnz), "threads": {}}
    exact = normalized_laplacian(ml.Graph.from_affinity(W))
    hierarchy = build_hierarchy(exact)
    rough, cycle = exact.in_single, hierarchy.cycle()
    S, space = rough.edges, rough.space
    X = space.copy(space.normals(COLUMNS, 0), np.float32)
    X64, part = X.astype(np.float64), np.ascontiguousarray(X[:, :WIDTH])
    start = nested_start(rough, hierarchy, WIDTH, 0)
    rng = np.random.default_rng(0)
    nodes = rng.choice(S.shape[0], SOURCES, replace=False)
    B = sp.csc_matrix((np.ones(SOURCES), (nodes, np.arange(SOURCES))), (S.shape[0], SOURCES))
    ones, dropped = np.ones((STEPS + 1, 1)), np.full(STEPS + 1, DROPPED)
    diffused = exact.local_diffusion(B, ones, dropped, (np.ones(1), DROPPED), np.float64)
    walked = diffusion_work(exact.edges, exact.root_degree, nodes)
    rows, moves = np.ascontiguousarray(X64[:, :K]), 21  # of k-means: all that may be taken

    def steps_of(count: int) -> float:
        how: dict[str, Any] = {"precondition": cycle, "project": rough.null.project}
        return best(lambda: lobpcg(rough.apply, start, Lobpcg(K, 1e-12, count), **how), 1)

    for count in threads:
        with limited(min(count, numba.config.NUMBA_NUM_THREADS)):
            rate = rates(count)
            parts: dict[str, tuple[float, tuple[int, int], str]] = {
                "product, single": (
                    best(lambda: rough.neighbours(X)), product_work(S, 4, COLUMNS), "float32",
                ),
                "product, double": (
                    best(lambda: exact.neighbours(X64)),
                    product_work(exact.edges, 8, COLUMNS), "float64",
                ),
                "cycle": (best(lambda: cycle(part)), cycle_work(cycle, WIDTH), "float32"),
                "LOBPCG step": ((steps_of(4) - steps_of(1)) / 3, step_work(S, cycle), "float32"),
                "k-means": (
                    best(lambda: lloyd(space, rows, rows[:K]), 1),
                    (moves * 2 * rows.nbytes, moves * 3 * K * rows.size), "float64",
                ),
                "diffusion source": (
                    best(lambda: diffused((0, SOURCES)), 1) / SOURCES,
                    (walked[0] // SOURCES, walked[1] // SOURCES), "float64",
                ),
            }  # fmt: skip
        for name, tol in (("embedding", None), ("embedding, 1e-4", 1e-4)):
            estimator = ml.NCut(n_clusters=K, tol=tol, n_jobs=count, **options)
            _, total = common.timed(estimator.fit, W)
            report = estimator.report_.to_dict()
            taken = report["convergence"]["iterations"]
            work = embedding_work(S, hierarchy, cycle, taken)
            parts[name] = common.vector_seconds(total, report), work, "float32"
        found["threads"][str(count)] = {"rates": rate, "parts": _told(parts, rate)}
    return found


def _told(parts: dict[str, Any], rate: dict[str, float]) -> dict[str, dict[str, float]]:
    """Seconds beside the least possible."""
    told = {}
    for name, (seconds, (moved, operations), kind) in parts.items():
        least = max(moved / rate["copy"], operations / rate[kind])
        told[name] = {"seconds": seconds, "gigabytes": moved / 1e9}
        told[name] |= {"gigaoperations": operations / 1e9, "least": least}
        told[name]["ratio"] = round(seconds / least, 2)
    return told


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4])
    args = parser.parse_args()
    common.say(f"machine: {common.machine()}")
    graph = million.graph_file(million.points_file(args.out, args.n, 0, False), False)
    found = common.call("roofline:measured", graph=str(graph), threads=args.threads)
    for count, one in found["threads"].items():
        rate = ", ".join(f"{name} {value / 1e9:.1f}" for name, value in one["rates"].items())
        common.table(
            f"{found['nodes']:,} nodes, {found['entries']:,} entries, {count} threads: "
            f"10⁹ bytes or operations a second: {rate}",
            ("part", "seconds", "GB", "10⁹ operations", "least possible, s", "times that"),
            [(name, *row.values()) for name, row in one["parts"].items()],
        )
    common.write_json(args.out, f"roofline-{args.n}", found)
    common.record("roofline", found)


if __name__ == "__main__":
    main()
