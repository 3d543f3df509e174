"""MF + FM = 2μY on a kNN graph: ours beside pyMOR's `lradi`.

    python bench/lyapunov.py [--n 100000] [--pairs 20] [--mu 0.2] [--tol 1e-6]

Residuals are measured by `mustlink.lyapunov.fields.residual` for every solver. pyMOR (no part of
mustlink: put it on PYTHONPATH, with diskcache) takes no indefinite right side: Y is split into its
positive and negative parts. Its direct solver fills in, so that it is given our block conjugate
gradients for its shifted systems, and its own iterative solver. Its tolerances are those with which
it just reaches the residual asked for.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import data
import render
import runner

# Name: function of this file, options; those of pyMOR are skipped where it is missing.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mustlink": ("ours", {}),
    "mustlink, two passes": ("ours", {"blocks": 12}),
    "pyMOR lradi, block CG": ("pymor", {}),
    "pyMOR lradi, its LGMRES": ("pymor", {"solver": "lgmres"}),
}
PATIENCE = 6.0  # seconds within which a measurement is repeated
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of BLAS, as in a fit


def load(graph: str, source: str, pairs: int, mu: float) -> Any:
    """The problem: random pairs, +1 within and -1 across sheets."""
    import numpy as np
    import scipy.sparse as sp

    from mustlink.graph.graph import Graph
    from mustlink.lyapunov.fields import LyapunovProblem
    from mustlink.lyapunov.sources import Sources
    from mustlink.operators.laplacian import normalized_laplacian

    laplacian = normalized_laplacian(Graph(data.read_graph(graph)))
    known = data.draw(data.labels(source), f"{pairs} pairs", 0)
    nodes, ends = np.unique(laplacian.positions[known.pairs], return_inverse=True)
    i, j = ends.reshape(known.pairs.shape).T
    half = sp.csr_matrix((known.belief, (i, j)), shape=(nodes.size, nodes.size))
    place = (np.ones(nodes.size), (nodes, np.arange(nodes.size)))
    B = sp.csc_matrix(place, shape=(laplacian.size, nodes.size))
    return LyapunovProblem(laplacian, mu, Sources(B, sp.csr_matrix(half + half.T)))


def measured(solve: Any, task: dict[str, Any]) -> dict[str, Any]:
    """`solve(problem)` -> (field, facts), with its seconds, memory and measured residual.

    A small problem of the same kind first, to load libraries and kernels, then the real one.
    """
    import numpy as np
    import scipy.sparse as sp

    from mustlink.lyapunov.fields import LyapunovProblem, residual
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
    before = runner.own_peak_bytes()
    (field, facts), seconds = runner.timed(solve, problem)
    peak, spent = runner.own_peak_bytes(), seconds
    while spent < PATIENCE:  # the best of some runs, on a machine that is not idle
        _, again = runner.timed(solve, problem)
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
    from mustlink.lyapunov.fields import LowRankField
    from mustlink.lyapunov.krylov import convergence, solve_batches

    def solve(problem: Any) -> Any:
        memory = 8 * problem.size * problem.sources.count * blocks or None
        batches = list(solve_batches(problem, tol=tol, memory=memory))
        field = LowRankField(tuple(t for b in batches for t in b.field.terms), problem.size)
        conv = convergence(problem, batches, tol)
        return field, {"steps": conv.iterations, "claimed": float(conv.residuals.max())}

    return measured(solve, task)


def pymor(tol: float, solver: str = "cg", **task: Any) -> dict[str, Any]:
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

    def solve(problem: Any) -> Any:
        (part,) = parts(problem.sources, 1 << 30)
        M = sp.identity(problem.size) * (1.0 + problem.mu) - problem.laplacian.S
        A, terms = NumpyMatrixOperator(-sp.csr_matrix(M), solver=inner), []
        how = {"adi_shifts": "projection_shifts", "shifted_system_solver": inner}
        adi = ADILyapunovSolver(0.9 * tol, **how)
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


def main() -> None:
    args = runner.options(__doc__, n=100_000, pairs=20, mu=0.2, tol=1e-6)
    points = data.sheets(args.out, args.n)
    task = {"graph": data.graph_of(points), "source": points, "pairs": args.pairs, "mu": args.mu}
    there = importlib.util.find_spec("pymor") is not None
    found = {}
    for name, (function, more) in CASES.items():
        if function == "pymor" and not there:
            print(f"skipped {name}: pyMOR is not on PYTHONPATH")
            continue
        runner.say(name)
        call = f"lyapunov:{function}"
        found[name] = runner.call(call, ONE_THREAD, tol=args.tol, **more, **task)
    columns = ("seconds", "extra_bytes", "residual", "steps", "columns")
    render.records(f"{args.n:,} nodes, {args.pairs} pairs, mu = {args.mu}", found, columns)
    if there:
        mine, two, lradi, lgmres = found.values()
        figures = {
            "nodes": args.n,
            "pairs": args.pairs,
            "seconds": mine["seconds"],
            "peak_gb": mine["extra_bytes"] / 1e9,
            "two_pass_peak_gb": two["extra_bytes"] / 1e9,
            "lradi_seconds": lradi["seconds"],
            "lradi_peak_gb": lradi["extra_bytes"] / 1e9,
            "lgmres_seconds": lgmres["seconds"],
        }
        runner.record("lyapunov", figures)


if __name__ == "__main__":
    main()
