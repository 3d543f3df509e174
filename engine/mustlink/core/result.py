"""Frozen records of what was computed and how well: one convention for every solver and method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder, StageRecord

TOLERANCE, MAX_ITER = "tolerance", "max_iter"
STAGNATED, TIME_LIMIT = "stagnated", "time limit"
_REMEDIES = {  # what to do, by why an iteration ended
    MAX_ITER: "; raise max_iter or tol",
    STAGNATED: " that no longer lower the residual; give a tol that can be reached, or look at the "
    "graph's weights",
    TIME_LIMIT: ", when the time was up; give more time, or raise tol",
}

SINGLE_TOL = 1e-6  # a residual that single precision reaches; rounding alone makes some 1e-7
_WIDTH = 100  # characters of a line of a report that is printed
_STAGES, _WARNINGS = 4, 4  # that are told there


@dataclass(frozen=True)
class Convergence:
    """How an iteration ended: `residuals` are relative, one per wanted pair or column.

    `reason`: "tolerance", "max_iter", "stagnated" (the residual no longer fell), "time limit", or
    "direct" where nothing was iterated.
    """

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
            return f"{self.solver}: residuals below {self.tolerance:.2g} in {self.iterations} steps"
        named = ", ".join(f"{i} ({self.residuals[i]:.1e})" for i in missed[:10])
        remedy = _REMEDIES.get(self.reason, _REMEDIES[MAX_ITER])
        return (
            f"{self.solver}: residuals {named}{' …' if missed.size > 10 else ''} above "
            f"{self.tolerance:.2g} after {self.iterations} steps{remedy}"
        )


def tell_unconverged(recorder: Recorder, convergence: Convergence, *, single: bool) -> None:
    """Warn of residuals above the tolerance; a time limit is reported where it ended the iteration.

    Vectors in `single` precision are not made for every tolerance.
    """
    if convergence.converged.all() or convergence.reason == TIME_LIMIT:
        return
    message = convergence.status
    if single and convergence.tolerance < SINGLE_TOL:
        message += (
            f", or give more memory: single precision, all that fits, reaches about "
            f"{SINGLE_TOL:.0e}"
        )
    recorder.warn(message)


def tell_end(recorder: Recorder, convergence: Convergence, *, single: bool = False) -> None:
    """Report how an iteration ended where more steps would not have helped.

    Who uses the vectors reports what a few more steps would have reached.
    """
    if convergence.reason == TIME_LIMIT:
        recorder.skip_for_time(convergence.status)
    elif convergence.reason == STAGNATED:
        tell_unconverged(recorder, convergence, single=single)


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


@dataclass(frozen=True, repr=False)
class Report:
    """What a fit did: stages, choices and why, residuals, satisfaction of the constraints, notes.

    `warnings` are those of the notes that say why the result should not be trusted; `to_dict` has
    both apart. `choices` maps a parameter to its value and the reason; `satisfaction` is None
    without constraints, `n_clusters` 0 for coordinates. Its repr is a summary on one screen.
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

    def __repr__(self) -> str:
        """At most 25 lines of 100 characters; everything is in `to_dict`."""
        return "\n".join(_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        conv = self.convergence
        return {
            "method": self.method,
            "n_nodes": self.n_nodes,
            "n_clusters": self.n_clusters,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "stages": [asdict(stage) for stage in self.stages],
            "choices": _plain(self.choices),
            "convergence": conv and _plain({**asdict(conv), "status": conv.status}),
            "satisfaction": _plain(self.satisfaction),
            "notes": [note for note in self.notes if note not in self.warnings],
            "warnings": list(self.warnings),
            **_plain(self.extra),
        }


def held_out_right(right: NDArray[np.bool_]) -> dict[str, Any]:
    """How many labels held out of the fit were answered `right` (m,), for `Report.extra`."""
    return {"of": "labels", "share": float(right.mean()), "n": int(right.size)}


def held_out_satisfaction(share: float) -> dict[str, Any]:
    """The share of constraints held out of the fit that is kept, for `Report.extra`."""
    return {"of": "constraints", "share": share}


def network_in_words(found: Mapping[str, Any]) -> str:
    """The scores of `mustlink.discretize.network_scores` in one line."""
    text = f"modularity {found['modularity']:.3f}, {found['coverage']:.1%} of the edges inside"
    if found["worst_conductance"] is None:
        return text
    worst = f"{found['worst_conductance']:.3f} (cluster {found['worst_cluster']})"
    return f"{text}, worst conductance {worst}"


def ncut_in_words(found: Mapping[str, Any]) -> str:
    """A normalised cut and the least there can be if above 0, see `discretize.cuts.least_cut`."""
    text = f"{found['found']:.4g}"
    if found["added"]:
        text += f" with {found['added']:g} of the mean degree added to degrees"
    if not found["least"]:
        return text
    return f"{text}; none into {found['clusters']} clusters is below {found['least']:.4g}"


def satisfaction_text(kept: Mapping[str, float]) -> str:
    """Constraints kept: on average where there are both kinds, then kind by kind."""
    kinds = (("must", "must-links"), ("cannot", "cannot-links"))
    parts = [
        f"{kept[f'{kind}_kept']:.1%} of {int(kept[f'n_{kind}']):,} {name}"
        for kind, name in kinds
        if kept[f"n_{kind}"]
    ]
    on_average = f"{kept['balanced']:.1%} on average: " if len(parts) == 2 else ""
    left = int(kept.get("n_unclustered", 0))
    apart = f"{left:,} more are of nodes in no cluster" if left else ""
    return "; ".join(filter(None, [on_average + ", ".join(parts), apart]))


def feasible_in_words(
    vectors: Mapping[str, Any] | None, cuts: Mapping[str, Any] | None = None
) -> str:
    """How many of the vectors wanted there are, and which of all feasible cuts."""
    if not vectors:
        return ""
    text = "{found} of {wanted} vectors".format_map(vectors)
    if not cuts or not len(cuts["alpha"]):
        return text
    known = len(cuts["alpha"])
    others = f"the cheapest of {known:,} {'' if cuts['complete'] else 'leading '}feasible cuts"
    if known == vectors["found"] and cuts["complete"]:
        others = "no other is feasible"
    return f"{text}, {others}"


def _lines(report: Report) -> list[str]:
    """A report on one screen."""
    choices = dict(report.choices)
    why = choices.pop("why", None)
    chosen = [f"{k} {_short(v)}" for k, v in choices.items() if not isinstance(v, Mapping)]
    took: dict[str, float] = {}
    for one in report.stages:
        took[one.name] = took.get(one.name, 0.0) + one.seconds
    slowest = sorted(took.items(), key=lambda one: -one[1])[:_STAGES]
    kept, extra = report.satisfaction, report.extra
    network, ncut = extra.get("network"), extra.get("ncut")
    warned = report.warnings[:_WARNINGS]
    left = len(report.warnings) - len(warned)
    rows = [
        ("chosen", ", ".join(chosen)),
        ("why", str(why or "")),
        ("constraints kept", satisfaction_text(kept) if kept else ""),
        ("network", network_in_words(network) if network else ""),
        ("normalised cut", ncut_in_words(ncut) if ncut else ""),
        ("feasible", feasible_in_words(extra.get("feasible"), extra.get("cuts"))),
        ("convergence", report.convergence.status if report.convergence else ""),
        ("longest stages", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest)),
        *(("warning", warning) for warning in warned),
        ("warnings", f"{left} more in .warnings" if left else ""),
        ("notes", f"{len(report.notes) - len(report.warnings)} in .notes" if report.notes else ""),
    ]
    clusters = f"K = {report.n_clusters}, " if report.n_clusters else ""
    head = (
        f"{report.method}: {report.n_nodes:,} nodes, {clusters}"
        f"{report.seconds:.1f} s, at most {report.peak_bytes / 1e6:,.0f} MB"
    )
    lines = [head]
    how: Any = {"subsequent_indent": " " * 20, "max_lines": 2, "placeholder": " …"}
    for name, words in rows:
        if words:
            lines += wrap(words, _WIDTH, initial_indent=f"  {name:<18}", **how)
    return lines


def _short(value: Any) -> str:
    """A value; of a value and its reason both."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], str):
        return f"{_short(value[0])} ({value[1]})" if value[1] else _short(value[0])
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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


# --- The end of an iteration that misses its tolerance and no longer progresses


class Stagnation:
    """Residuals of an iteration, one a column, and which of them have stopped falling.

    A column has stagnated when its least residual has not fallen to `factor` of its value within
    the last `window` steps. Krylov methods may pause for many steps and fall again, so that the
    window is wide: solvers document their window and the longest pause that was measured.
    """

    def __init__(self, columns: int, window: int, factor: float = 0.9) -> None:
        self.window, self.factor = window, factor
        self.best = np.full(columns, np.inf)
        self.best_step = np.zeros(columns, dtype=np.int64)
        self._mark = np.full(columns, np.inf)  # what the residual must fall below
        self._since = np.zeros(columns, dtype=np.int64)
        self._step = -1

    def update(self, residuals: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Take the residuals (columns,) after one more step; True where they have stagnated."""
        self._step += 1
        better = residuals < self.best  # never of NaN
        self.best[better] = residuals[better]
        self.best_step[better] = self._step
        falls = self.best <= self._mark
        self._since = np.where(falls, 0, self._since + 1)
        self._mark[falls] = self.factor * self.best[falls]
        return self.stagnated

    @property
    def stagnated(self) -> NDArray[np.bool_]:
        """Which columns have not progressed for a window."""
        return self._since >= self.window

    @property
    def worst(self) -> float:
        """The largest of the least residuals: it never grows."""
        return float(self.best.max(initial=0.0))
