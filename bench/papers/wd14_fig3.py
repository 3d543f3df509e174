"""WD14 §4.4 and Fig. 3: six nodes, two triangles joined by an edge; β drags node 4 over.

The figure shows u*; the values here are those of the formulas, computed to full precision with
dense algebra on the paper's own matrices.
"""

from __future__ import annotations

from typing import Any

from . import reporting
from .reporting import Report, Statement, Table, by_numbers, by_statements
from .running import Found, Task

DRAWS = 1
EDGES = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5))
LARGEST = 2.6667  # λmax(Q̄)
VOLUME = 14.0
U = {
    1: (0.138987, (1.491, 1.491, 1.206, 0.438, -0.205, -0.205)),
    2: (0.586383, (1.336, 1.336, 1.004, 0.405, -0.915, -0.915)),
}


def tasks(draws: int) -> list[Task]:
    """One: nothing is random."""
    del draws
    return [Task(both)]


def both() -> dict[str | int, Any]:
    """Clusters of the plain cut; eigenvalues, vectors and clusters for β = vol and 2 vol."""
    import numpy as np
    from scipy.sparse import csr_matrix

    import mustlink as ml

    A = np.zeros((6, 6))
    for i, j in EDGES:
        A[i, j] = A[j, i] = 1.0
    y = np.array([0, 0, 0, 0, 1, 1])
    # the paper's Q has ones on its diagonal: labels on all nodes
    known = ml.Constraints.from_matrix(np.where(y[:, None] == y, 1.0, -1.0))
    plain = ml.NCut(2, affinity="precomputed", random_state=0).fit(csr_matrix(A)).labels_
    found: dict[str | int, Any] = {"plain": plain.tolist()}
    for factor in U:
        est = ml.CSP(
            2, affinity="precomputed", beta=factor / (8 / 3), subspace="exact", assign="sign",
            random_state=0,
        ).fit(csr_matrix(A), constraints=known)  # fmt: skip
        u = est.embedding_[:, 0] * np.sign(est.embedding_[0, 0])
        cuts = est.report_.extra["cuts"]
        alpha = [float(value) for value in cuts["alpha"]]
        found[factor] = (float(est.eigenvalues_[0]), u.tolist(), est.labels_.tolist(), alpha)
    return found


def report(draws: int, found: Found) -> Report:
    """Numbers beside the paper's, then its statements."""
    del draws
    ((_, ours),) = found[both]
    rows, cells, four, labels, alphas = [], [], [], [], []
    for factor, (value, vector) in U.items():
        ours_value, u, clusters, alpha = ours[factor]
        cells += [(value, ours_value), *zip(vector, u, strict=True)]
        name = "β = vol" if factor == 1 else f"β = {factor} vol"
        rows.append((name, "λ", f"{value:.6f}", f"{ours_value:.6f}",
                     f"{ours_value - value:+.1e}"))  # fmt: skip
        for node in range(6):
            rows.append((name, f"u*, node {node + 1}", f"{vector[node]:.3f}", f"{u[node]:.3f}",
                         f"{u[node] - vector[node]:+.1e}"))  # fmt: skip
        four.append((u[3] - u[4]) / (u[0] - u[4]))
        labels.append(clusters)
        alphas.append((factor * VOLUME, alpha))
    table = Table("WD14 Fig. 3", ("β", "", "paper", "ours", "difference"), rows, 0)
    cut = {frozenset(i + 1 for i, c in enumerate(ours["plain"]) if c == k) for k in (0, 1)}
    together = all(
        len(set(found[:4])) == 1 and found[4] == found[5] != found[0] for found in labels
    )
    says = [
        Statement(
            "without constraints {1,2,3} and {4,5,6}",
            " and ".join(str(sorted(part)) for part in sorted(cut, key=min)),
            cut == {frozenset({1, 2, 3}), frozenset({4, 5, 6})},
        ),
        Statement(
            "with constraints {1,2,3,4} and {5,6}",
            "at both β" if together else "not at both β",
            together,
        ),
        Statement(
            "node 4 moves towards {1,2,3} as β grows",
            f"its place between nodes 5 (0) and 1 (1): {four[0]:.3f}, then {four[1]:.3f}",
            four[1] > four[0],
        ),
        Statement(
            "β < α ≤ λmax·vol for every feasible cut (Lemma 1, §4.3)",
            "; ".join(
                f"β {beta:g}, α {', '.join(f'{a:.3f}' for a in alpha)}" for beta, alpha in alphas
            )
            + f"; λmax·vol {LARGEST * VOLUME:.3f}",
            all(beta < a <= (LARGEST + 1e-4) * VOLUME for beta, alpha in alphas for a in alpha),
        ),
    ]
    verdicts = [by_numbers("WD14 Fig. 3", cells, 1e-3), by_statements("WD14 §4.4", says)]
    return Report([table, reporting.statements("WD14 §4.4", says, 0)], verdicts)
