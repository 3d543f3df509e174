"""Frozen records of what was computed and how well: one convention for every solver and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import StageRecord


@dataclass(frozen=True)
class Convergence:
    """How an iteration ended: `residuals` are relative, one per wanted pair or column."""

    solver: str
    reason: str
    iterations: int
    residuals: NDArray[np.float64]
    tolerance: float

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Which pairs reached the tolerance."""
        return self.residuals <= self.tolerance

    @property
    def status(self) -> str:
        """One line: what happened and, where something is missing, what to do."""
        missed = np.flatnonzero(~self.converged)
        if missed.size == 0:
            return f"{self.solver}: all pairs below {self.tolerance:.2g} in {self.iterations} steps"
        named = ", ".join(f"{i} ({self.residuals[i]:.1e})" for i in missed[:10])
        return (
            f"{self.solver}: pairs {named}{' …' if missed.size > 10 else ''} above "
            f"{self.tolerance:.2g} after {self.iterations} steps; raise max_iter or tol"
        )


@dataclass(frozen=True)
class EigenResult:
    """Eigenpairs, values (k,) and vectors (n, k), with their convergence.

    `beyond` estimates the eigenvalue after the last one from the far side (by a Ritz value, which
    need not have converged), so that a gap is never larger than it says; None where unknown.
    """

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    convergence: Convergence
    beyond: float | None = None


@dataclass(frozen=True)
class Report:
    """What a fit did: stages, choices and why, residuals, satisfaction of the constraints, notes.

    `warnings` are the notes that say why the result should not be trusted. `choices` maps a
    parameter to the value used and the reason; `satisfaction` is None without constraints.
    """

    method: str
    n_nodes: int
    n_clusters: int
    stages: tuple[StageRecord, ...]
    choices: Mapping[str, Any]
    convergence: Convergence | None
    satisfaction: Mapping[str, float] | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Wall seconds over all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """Largest resident size of the process at the end of any stage."""
        return max((stage.peak_bytes for stage in self.stages), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        conv = self.convergence
        return {
            "method": self.method,
            "n_nodes": self.n_nodes,
            "n_clusters": self.n_clusters,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "stages": [
                {"name": s.name, "seconds": s.seconds, "peak_bytes": s.peak_bytes}
                for s in self.stages
            ],
            "choices": {key: _plain(value) for key, value in self.choices.items()},
            "convergence": None
            if conv is None
            else {
                "solver": conv.solver,
                "reason": conv.reason,
                "iterations": conv.iterations,
                "tolerance": conv.tolerance,
                "residuals": conv.residuals.tolist(),
                "status": conv.status,
            },
            "satisfaction": None if self.satisfaction is None else _plain(self.satisfaction),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            **{key: _plain(value) for key, value in self.extra.items()},
        }


def _plain(value: Any) -> Any:
    """Numpy scalars, arrays and mappings as plain Python."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
