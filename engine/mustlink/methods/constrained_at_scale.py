"""A constrained method with its parameters on a graph that is on disk or on ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustlink.at_scale.constrained import USUAL, Asked, Found, constrained
from mustlink.at_scale.smooth_vectors import SmoothVectors
from mustlink.constraints import Constraints
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.eigen.sharpness import default_tolerance
from mustlink.eigen.solver import BASIS_TOL
from mustlink.eigen.work import Work
from mustlink.errors import AtHomeOnlyError, InputError
from mustlink.methods.constraint_doubts import note_contradictions, warn_of_lost
from mustlink.methods.cuts_in_words import doubt_feasible
from mustlink.selection.constrained_fit import SHARP_BELOW
from mustlink.selection.held_out_choice import Choice

DISK, RANKS = "on disk", "on ranks"


def check_at_scale(estimator: Any, where: str) -> None:
    """Raise InputError for a method, or an option of it, that runs at home alone."""
    name = type(estimator).__name__
    if not estimator._runs_at_scale:
        raise InputError(f"{name}: does not run {where}; choose CSP, SSSC, FastGE or ConstrainedAP")
    estimator._check()
    alone = {
        "subspace": estimator.subspace == "exact",
        "assign": estimator.assign == "split",
        "init": estimator.init == "labels",
        "solver": estimator.solver not in ("auto", "lobpcg"),
        "isolated": estimator.isolated != "drop",
        "refine": estimator.refine,
        **estimator._home_alone(),
    }
    refuse_at_home_only(estimator, alone, where)


def refuse_at_home_only(estimator: Any, alone: Mapping[str, bool], where: str) -> None:
    """Raise AtHomeOnlyError for the first parameter that is `alone`, if any."""
    for name in (name for name, is_so in alone.items() if is_so):
        value = getattr(estimator, name)
        why = ": no preconditioner of graph and constraints in one is made there"
        words = f"{name}: {value!r} does not run {where}{why if value == 'exact' else ''}"
        raise AtHomeOnlyError(f"{words}; leave it out", name)


def widest(estimator: Any, k: int) -> int:
    """Smooth vectors at most."""
    return USUAL * k if isinstance(estimator.subspace, str) else int(estimator.subspace)


def vectors_of(estimator: Any, work: Work, seed: int) -> SmoothVectors:
    """The smooth vectors of a work, as sharp as at home; none is computed yet."""
    tol, n = estimator.tol, work.n_nodes - work.isolated
    auto = isinstance(estimator.subspace, str)
    if tol is None and n <= (DENSE_BELOW if auto else SHARP_BELOW):
        tol = default_tolerance(n, single=work.laplacian.dtype.itemsize < 8)
    return SmoothVectors(work, BASIS_TOL if tol is None else tol, seed)


def fitted(
    estimator: Any,
    known: Constraints,
    k: int,
    vectors: SmoothVectors,
    seed: int,
    where: str,
    fixed: Choice | None = None,
) -> Found:
    """K clusters of the graph that the vectors are of, `where` it is; raises InputError."""
    recorder, subspace = vectors.work.recorder, estimator.subspace
    note_contradictions(known, recorder)
    warn_of_lost(int((vectors.work.places(known.nodes) < 0).sum()), recorder)
    if known.classes.size > k:
        recorder.note(f"{known.classes.size} classes among the labels, but {k} clusters asked")
    asked = Asked(
        estimator._formulation,
        k,
        known,
        subspace if isinstance(subspace, str) else int(subspace),
        estimator.assign,
        estimator.init,
        seed,
        estimator.regularization,
        where,
    )
    found = constrained(asked, vectors, fixed)
    if found.solution.note:
        recorder.note(found.solution.note)
    doubt_feasible(found.solution, recorder)
    return found
