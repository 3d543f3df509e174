"""MF + FM = 2μY on a kNN graph: ours, block Krylov subspaces with solves, and pyMOR's `lradi`.

    python bench/lyapunov.py [--n 100000] [--pairs 20] [--mu 0.2 0.01] [--tol 1e-6]
    python bench/lyapunov.py --direct          one sparse factorisation, pyMOR's default, as well

Residuals are measured by `mustlink.lyapunov.equation.residual` for every solver. pyMOR (no part of
mustlink: put it on PYTHONPATH, with diskcache) takes no indefinite right side: Y is split into its
positive and negative parts. Its direct solver fills in, so that it is given our block conjugate
gradients for its shifted systems, and its own iterative solver. Its tolerances are those with which
it just reaches the residual asked for.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import common
import million

# Name, function of this file, options; those of pyMOR are skipped where it is missing.
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mustlink", "ours", {}),
    ("mustlink, two passes", "ours", {"blocks": 12}),
    ("block extended Krylov", "galerkin", {"poles": "extended"}),
    ("block rational Krylov, Zolotarev's poles", "galerkin", {"poles": "optimal"}),
    ("pyMOR lradi, block CG", "pymor", {"shifts": "projection_shifts"}),
    ("pyMOR lradi, block CG, Wachspress", "pymor", {"shifts": "wachspress_shifts"}),
    ("pyMOR lradi, its LGMRES", "pymor", {"shifts": "projection_shifts", "solver": "lgmres"}),
)

PATIENCE = 6.0  # seconds within which a measurement is repeated
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of BLAS, as in a fit


def load(graph: str, labels: str, pairs: int, mu: float, seed: int) -> Any:
    """The problem: random pairs, +1 within and -1 across sheets."""
    import numpy as np
    import scipy.sparse as sp

    from mustlink.graph.graph import Graph
    from mustlink.lyapunov.equation import LyapunovProblem
    from mustlink.lyapunov.sources import Sources
    from mustlink.operators.laplacian import normalized_laplacian
    from mustlink_io import formats

    y = formats.load_labels(f"{labels}:/labels")
    laplacian = normalized_laplacian(Graph(sp.load_npz(graph)))
    drawn, belief = common.random_pairs(y, pairs, np.random.default_rng(seed))
    nodes, ends = np.unique(laplacian.positions[drawn], return_inverse=True)
    i, j = ends.reshape(drawn.shape).T
    half = sp.csr_matrix((belief, (i, j)), shape=(nodes.size, nodes.size))
    place = (np.ones(nodes.size), (nodes, np.arange(nodes.size)))
    B = sp.csc_matrix(place, shape=(laplacian.size, nodes.size))
    return LyapunovProblem(laplacian, mu, Sources(B, sp.csr_matrix(half + half.T)))


def measured(solve: Any, task: dict[str, Any]) -> dict[str, Any]:
    """`solve(problem)` -> (field, facts), with its seconds, memory and measured residual.

    A small problem of the same kind first, to load libraries and kernels, then the real one.
    """
    import numpy as np
    import scipy.sparse as sp

    from mustlink.lyapunov.equation import LyapunovProblem, residual
    from mustlink.lyapunov.sources import Sources
    from mustlink.operators.laplacian import NormalizedLaplacian

    n = 3000
    ring = sp.diags([np.ones(n - k) for k in range(1, 10)], list(range(1, 10)), format="csr")
    small = Sources(
        sp.csc_matrix((np.ones(40), (np.arange(40) * 70, np.arange(40))), shape=(n, 40)),
        sp.csr_matrix(sp.kron(sp.eye(20), [[0.0, 1.0], [1.0, 0.0]])),
    )
    warm = LyapunovProblem(NormalizedLaplacian.of_weights(ring + ring.T), task["mu"], small)
    residual(warm, solve(warm)[0])
    problem = load(**task)
    before = common.own_peak_bytes()
    (field, facts), seconds = common.timed(solve, problem)
    peak, spent = common.own_peak_bytes(), seconds
    while spent < PATIENCE:  # the best of some runs, on a machine that is not idle
        _, again = common.timed(solve, problem)
        seconds, spent = min(seconds, again), spent + again
    left = residual(problem, field, probes=256)
    return {
        **facts,
        "seconds": seconds,
        "columns": sum(theta.size for _, theta in field.terms),
        "peak_bytes": peak,
        "extra_bytes": peak - before,
        "residual": left,
    }


def ours(tol: float, blocks: int = 0, **task: Any) -> dict[str, Any]:
    """The global Krylov solver, in the memory of that many blocks when asked to."""
    from mustlink.lyapunov.krylov import solve_krylov

    def solve(problem: Any) -> Any:
        memory = 8 * problem.size * problem.sources.count * blocks or None
        field, conv = solve_krylov(problem, tol=tol, memory=memory)
        return field, {"steps": conv.iterations, "claimed": float(conv.residuals.max())}

    return measured(solve, task)


def galerkin(poles: str, tol: float, **task: Any) -> dict[str, Any]:
    """Galerkin on block subspaces: alternately M and M⁻¹ (Simoncini 2007), or (M + p)⁻¹."""
    import numpy as np
    import scipy.special as special

    from mustlink.kernels.blocks import combination, combine, gram, gram_of
    from mustlink.linear.cg import block_cg
    from mustlink.lyapunov.fields import LowRankField
    from mustlink.lyapunov.sources import parts

    def solve(problem: Any) -> Any:
        (part,) = parts(problem.sources, 1 << 30)
        X = np.zeros((problem.size, part.values.size))
        X[part.nodes] = part.vectors
        mu, V, MV, T, new = problem.mu, [], [], np.zeros((0, 0)), X
        count = int(np.ceil(np.log(4 / tol) * np.log(4 * (mu + 2) / mu) / np.pi**2))
        k2 = 1 - (mu / (mu + 2)) ** 2  # Wachspress: p_j = b·dn((2j - 1)K/2J), k² = 1 - (a/b)²
        at = special.ellipk(k2) * (np.arange(count) + 0.5) / count
        shifts = [0.0] if poles == "extended" else list((mu + 2) * special.ellipj(at, k2)[2])
        for step in range(60):
            for _ in range(2):  # twice is enough
                if V:
                    new = new - combination(V, gram_of(V, [new]))
                values, turn = np.linalg.eigh(gram(new, new))
                kept = values > 1e-12 * values[-1]
                new = combine(new, turn[:, kept] / np.sqrt(values[kept]))
            V, MV = [*V, new], [*MV, problem.apply(new)]
            column = gram_of(V, MV[-1:])
            old = T.shape[0]
            T = np.block([[T, column[:old]], [column[:old].T, column[old:]]])
            w, Q = np.linalg.eigh((T + T.T) / 2)
            start = part.values.size
            C = gram(V[0], X)
            rhs = np.zeros_like(T)
            rhs[:start, :start] = problem.weight * (C * part.values) @ C.T
            theta = Q @ ((Q.T @ rhs @ Q) / (w[:, None] + w)) @ Q.T
            inner = gram_of(MV, MV) - T @ T  # of MV − VT
            left = np.sqrt(2 * max(float(np.sum(theta * (inner @ theta))), 0.0))
            if left <= tol * problem.weight * part.norm:
                break
            p = shifts[step % len(shifts)]
            source = V[-1] if poles == "extended" else X
            new, _ = block_cg(lambda Z, p=p: problem.apply(Z) + p * Z, source, tol=0.1 * tol)
            if poles == "extended":
                new = np.hstack([MV[-1], new])
        values, turn = np.linalg.eigh(theta)
        Z = combination(V, turn)
        return LowRankField(((Z, values),), problem.size), {"steps": step}

    return measured(solve, task)


def pymor(shifts: str, tol: float, solver: str = "cg", **task: Any) -> dict[str, Any]:
    """Both halves of Y by pyMOR's low-rank ADI."""
    import numpy as np
    import scipy.sparse as sp
    from pymor.bindings.scipy import ScipyLGMRESSolver
    from pymor.core.logger import set_log_levels
    from pymor.operators.numpy import NumpyMatrixOperator
    from pymor.solvers.interface import Solver
    from pymor.solvers.matrix_equations.adi import ADILyapunovSolver
    from pymor.solvers.matrix_equations.equations import LyapunovEquation

    from mustlink.kernels.spmm import spmm
    from mustlink.linear.cg import block_cg
    from mustlink.lyapunov.fields import LowRankField
    from mustlink.lyapunov.sources import parts

    set_log_levels({"pymor": "ERROR"})

    class BlockCG(Solver):
        """Our conjugate gradients on all columns at once; operators are negative definite."""

        def _solve(self, operator: Any, V: Any, mu: Any, initial_guess: Any) -> Any:
            matrix = operator.assemble(mu).matrix.tocsr()
            rhs = -np.ascontiguousarray(V.to_numpy())
            X, _ = block_cg(lambda Z: -spmm(matrix, Z), rhs, tol=tol)
            return operator.source.from_numpy(X), {}

    inner = BlockCG() if solver == "cg" else ScipyLGMRESSolver(tol=tol)
    close = 0.1 if shifts == "wachspress_shifts" else 0.9
    # A spectrum known to lie in [μ, μ + 2] needs few Ritz values, and the shifts no more digits.
    few = {"wachspress_large_ritz_num": 10, "wachspress_small_ritz_num": 8, "wachspress_tol": tol}

    def solve(problem: Any) -> Any:
        (part,) = parts(problem.sources, 1 << 30)
        M = sp.identity(problem.size) * (1.0 + problem.mu) - problem.laplacian.S
        A, terms = NumpyMatrixOperator(-sp.csr_matrix(M), solver=inner), []
        adi = ADILyapunovSolver(close * tol, adi_shifts=shifts, shifted_system_solver=inner, **few)
        for sign in (1.0, -1.0):
            half = np.sign(part.values) == sign
            B = np.zeros((problem.size, int(half.sum())))
            B[part.nodes] = part.vectors[:, half] * np.sqrt(
                problem.weight * np.abs(part.values[half])
            )
            Z = LyapunovEquation(A, None, A.source.from_numpy(B)).solve_lr(adi).to_numpy()
            terms.append((Z, np.full(Z.shape[1], sign)))
        columns = sum(theta.size for _, theta in terms)
        return LowRankField(tuple(terms), problem.size), {"steps": columns // part.values.size}

    return measured(solve, task)


def direct(**task: Any) -> dict[str, Any]:
    """One sparse LU factorisation of M; pyMOR's default makes one for every shift."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    problem = load(**task)
    M = sp.csc_matrix(sp.identity(problem.size) * (1.0 + problem.mu) - problem.laplacian.S)
    before = common.own_peak_bytes()
    found, seconds = common.timed(lambda: splu(M, permc_spec="MMD_AT_PLUS_A"))
    extra = common.own_peak_bytes() - before
    return {"seconds": seconds, "entries": int(found.nnz), "extra_bytes": extra}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--mu", type=float, nargs="+", default=[0.2, 0.01])
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="functions: ours, galerkin, pymor")
    parser.add_argument("--direct", action="store_true")
    asked = parser.parse_args()
    points = million.points_file(asked.out, asked.n, asked.seed, False)
    files = {"graph": str(million.graph_file(points, False)), "labels": str(points)}
    there = importlib.util.find_spec("pymor") is not None
    if not there:
        print("skipped pyMOR: not on PYTHONPATH")
    records: list[dict[str, Any]] = []
    for mu in asked.mu:
        task = {**files, "pairs": asked.pairs, "mu": mu, "seed": asked.seed}
        rows, fastest = [], None
        for name, function, options in CASES:
            is_wanted = not asked.only or function in asked.only
            if not is_wanted or (function == "pymor" and not there):
                continue
            common.say(f"{name}, mu = {mu}")
            found = common.call(
                f"lyapunov:{function}", ONE_THREAD, tol=asked.tol, **options, **task
            )
            fastest = fastest or found
            records.append({"name": name, "mu": mu, **found})
            common.write_json(asked.out, f"lyapunov-{asked.n}", records)
            rows.append(
                (
                    name,
                    found["seconds"],
                    found["seconds"] / fastest["seconds"],
                    common.gigabytes(found["extra_bytes"]),
                    found["extra_bytes"] / max(fastest["extra_bytes"], 1),
                    f"{found['residual']:.1e}",
                    found["steps"],
                    found["columns"],
                )
            )
        common.table(
            f"{asked.n:,} nodes, {asked.pairs} pairs, mu = {mu}, residual {asked.tol:g}",
            ("solver", "s", "ratio", "memory on top", "ratio", "residual", "steps", "columns"),
            rows,
        )
    if there and not asked.only:
        found = {r["name"]: r for r in records if r["mu"] == asked.mu[0]}
        lradi, lgmres = found["pyMOR lradi, block CG"], found["pyMOR lradi, its LGMRES"]
        figures = {
            "nodes": asked.n,
            "pairs": asked.pairs,
            "seconds": found["mustlink"]["seconds"],
            "peak_gb": found["mustlink"]["extra_bytes"] / 1e9,
            "two_pass_peak_gb": found["mustlink, two passes"]["extra_bytes"] / 1e9,
            "lradi_seconds": lradi["seconds"],
            "lradi_peak_gb": lradi["extra_bytes"] / 1e9,
            "lgmres_seconds": lgmres["seconds"],
        }
        common.record("lyapunov", figures)
    if asked.direct:
        print(common.call("lyapunov:direct", **{**task, "mu": asked.mu[0]}))


if __name__ == "__main__":
    main()
