"""What a clusterer doubts, and what its report tells: constraints, sizes, components, cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.discretize.cuts import few_nodes
from mustlink.discretize.satisfaction import kept_by_kind, satisfaction
from mustlink.eigen.smooth_subspace import EigenSolution
from mustlink.selection.held_out import NONE, SelectedModel

Ints = NDArray[np.int64]
# Shares of constraints kept below which a warning is due: on average, and of one kind.
_LOW, _BROKEN = 0.7, 0.5
_CHANCE = 0.55  # on average, where 0.5 is what trivial answers keep
_GIANT = 0.95  # share of the nodes in one cluster that a person should look at
_MUCH = 0.5  # share of the nodes of a component that is worth to be clustered by itself
# Share of λ_{K+1} − λ_1: a single cloud in 20 dimensions has gaps of 0.003 to 0.024, the digits
# 0.13 at K = 10 and 0.03 at 15, separate blobs 0.8 and more at the right K. With τ of 0.3 and 1
# random graphs have 0.011 at most, 14 block models 0.15 to 0.7 at the right K, 0.02 at most beyond.
_TINY_GAP = 0.025


# ---------------------------------------------------------------- constraints


def note_contradictions(known: Constraints, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other."""
    against = known.as_given.contradictions()
    if against:
        noun = "contradictions" if len(against) > 1 else "contradiction"
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        named = "; ".join(str(one) for one in against[:3])
        cancel = any(one.reason == "both signs" for one in against)
        opposite = "; opposite beliefs in one pair cancel" if cancel else ""
        recorder.warn(
            f"{len(against)} {noun} in the constraints, kept as soft{opposite}: {named}{more}"
        )


def warn_of_lost(lost: int, recorder: Recorder) -> None:
    """Tell of so many constrained nodes without an edge."""
    if lost:
        nodes = "node has" if lost == 1 else "nodes have"
        recorder.warn(f"{lost} constrained {nodes} no edge: their constraints cannot act")


def warn_if_broken(
    labels: Ints, known: Constraints, recorder: Recorder, instead: str = "another method"
) -> dict[str, float] | None:
    """Shares of the constraints that are kept, None without any; a warning where they are few.

    `labels` are of the rows that the constraints were given of.
    """
    if known.is_empty:
        return None
    given = known.as_given
    doubt = broken_constraints(labels, given)
    if doubt is not None:
        recorder.warn(
            f"only {doubt}: the graph says otherwise, or they contradict each other; try {instead}"
        )
    return satisfaction(labels, given)


def broken_constraints(labels: Ints, known: Constraints) -> str | None:
    """Which shares of the constraints, weighted by belief, are kept, where that says little.

    One of the kinds is mostly broken, both on average are below 70 %, or a trivial answer keeps
    about as much: of both kinds half on average, of one kind what clusters of these sizes keep at
    random.
    """
    kinds = kept_by_kind(labels, known)
    kept = {
        f"{kind}-links": row["weight_kept"] / row["weight"]
        for kind, row in kinds.items()
        if row["weight"] > 0
    }
    if not kept:
        return None
    balanced, least = sum(kept.values()) / len(kept), min(kept.values())
    first, *rest = (
        f"{kept[name]:.0%} of the {name}" for name in sorted(kept, key=kept.__getitem__)
    )
    text = f"{first} are kept" + "".join(f", and {other}" for other in rest)
    if len(kept) == 2 and balanced < _CHANCE:
        return f"{text}; one cluster of all nodes, or random ones, keep as much on average"
    if len(kept) == 1:
        clustered = labels[labels >= 0]
        sizes = np.bincount(clustered) / max(clustered.size, 1)
        together = float(sizes @ sizes)
        by_chance = together if "must-links" in kept else 1.0 - together
        if balanced < 1 and balanced <= by_chance:
            return f"{text}; random clusters of these sizes keep {by_chance:.0%}"
    return text if balanced < _LOW or least < _BROKEN else None


# ---------------------------------------------------------------- sizes and components


def below_classes(k: int, n_classes: int) -> str | None:
    """Why K clusters cannot be the classes of the labels, where these are more."""
    if k >= n_classes:
        return None
    return (
        f"n_clusters: {k} is below the {n_classes} classes of the labels, so that each cluster "
        f"joins several of them or leaves some out; ask for {n_classes} (-k {n_classes}, or auto)"
    )


def note_alone(count: int, done: str, recorder: Recorder) -> None:
    """Tell what was done with so many nodes without an edge."""
    noun = "node has" if count == 1 else "nodes have"
    recorder.note(f"{count} {noun} no edge and cannot be clustered: {done}")


def warn_of_sizes(
    sizes: NDArray[Any],
    k: int,
    recorder: Recorder,
    *,
    informed: bool = True,
    regularized: bool = False,
) -> None:
    """Warn of a cluster with nearly all of the nodes, of crumbs, and of clusters without any.

    `sizes` (k,) count a node as often as it stands for rows. The advice is what the method at hand
    takes: constraints if `informed`, more on the degrees if it can be `regularized` further.
    """
    largest = sizes.max() / sizes.sum()
    if largest > _GIANT and k > 1:
        recorder.warn(
            f"one cluster holds {largest:.1%} of the nodes, the others are small groups on its "
            "rim or apart from it; look before relying on it"
        )
    count = np.count_nonzero(sizes)
    crumbs = few_nodes(sizes, k)
    if largest <= _GIANT and 2 * np.count_nonzero(crumbs) > k:
        recorder.warn(
            f"{np.count_nonzero(crumbs)} of {k} clusters are crumbs, {sizes[crumbs].sum():,.0f} of "
            f"{sizes.sum():,.0f} nodes together: groups that hang on the rest by few edges; ask "
            "for fewer clusters"
            + (", or add more to the degrees: regularization=1" if regularized else "")
        )
    if count < k:
        recorder.warn(
            f"only {count} of {k} clusters have nodes: the vectors tell no more groups apart; ask "
            f"for fewer clusters{' or give more constraints' if informed else ''}"
        )


def warn_of_components(components: NDArray[Any], labels: Ints, recorder: Recorder) -> None:
    """Warn where clusters (n,) are whole `components` (n,): they can be had without clustering."""
    linked = labels >= 0
    component, labels = components[linked], labels[linked]
    if np.unique(labels).size < 2:
        return
    of_component = np.empty(int(component.max()) + 1, dtype=np.int64)
    of_component[component] = labels
    if not (of_component[component] == labels).all():
        return
    more = ""
    linked_components = np.unique(component)
    heaps = np.bincount(of_component[linked_components])
    heap, share = int(heaps.argmax()), np.bincount(component).max() / component.size
    if heaps[heap] > 1:
        together = np.count_nonzero(labels == heap) / labels.size
        more += (
            f"; cluster {heap} is a heap of {heaps[heap]:,} components with {together:.1%} of the "
            f"nodes, which nothing joins: there are {linked_components.size:,} components, each of "
            "which may be one cluster"
        )
    if share > _MUCH:
        more += f"; the largest has {share:.1%} of the nodes, cluster it by itself"
    recorder.warn(
        "all clusters are whole components of the graph: no edge is cut, and nothing within a "
        f"component is told apart{more}; ask for more clusters to cut components, too"
    )


def warn_of_gap(cut: Any, recorder: Recorder, *, informed: bool = False) -> None:
    """Warn where λ_{K+1} of a cut is so near to λ_K that the K vectors might be others as well.

    A change E of L̄ turns their span by an angle of up to ‖E‖ / (λ_{K+1} − λ_K) (Davis & Kahan).
    The share is of λ_{K+1} − λ_1, as λ_1 = 0 only where nothing is added to the degrees.
    """
    k, first, last = cut.values.size, float(cut.values[0]), float(cut.values[-1])
    if cut.beyond is not None and cut.beyond - last < _TINY_GAP * (cut.beyond - first):
        recorder.warn(
            f"the gap after eigenvalue {k} is tiny ({last:.4g}, then {cut.beyond:.4g}): the graph "
            f"hardly tells {k} clusters from {k + 1}; try other numbers"
            + (", or give more constraints" if informed else ', or n_clusters="auto"')
        )


def note_components(count: int, k: int, recorder: Recorder) -> None:
    """Say what becomes of `count` components in k clusters, where there are several."""
    if count > 1:
        recorder.note(
            f"the graph has {count} connected components beside isolated nodes; their exact "
            "null vectors are "
            + (
                f"part of the {k} eigenvectors"
                if count <= k
                else f"more than the {k} clusters: those beyond the largest are put together"
            )
        )


# ---------------------------------------------------------------- feasible cuts


def report_of_cuts(solution: EigenSolution) -> dict[str, Any]:
    """Entries of the report: how many vectors of those wanted there are, and every feasible cut.

    Nothing for a method that has as many as it wants.
    """
    if solution.wanted is None:
        return {}
    found = {"found": int(solution.values.size), "wanted": solution.wanted}
    cuts = solution.cuts
    if cuts is None:
        return {"feasible": found}
    columns = {
        "beta": cuts.beta,
        "volume": cuts.volume,
        "cost": cuts.cost,
        "alpha": cuts.alpha,
        "eigenvalues": cuts.values,
        "used": [at < cuts.used for at in range(cuts.cost.size)],
        "complete": cuts.complete,
        "unconstrained": {"cost": cuts.plain[:, 0], "alpha": cuts.plain[:, 1]},
    }
    return {"feasible": found, "cuts": columns}


def warn_of_missing_vectors(solution: EigenSolution, recorder: Recorder) -> None:
    """Tell of vectors that are missing; half of them or more make K clusters doubtful."""
    found, wanted = solution.values.size, solution.wanted or 0
    if found >= wanted:
        return
    if 2 * found > wanted:
        recorder.note(f"only {found} of {wanted} vectors feasible; a smaller beta gives more")
    else:
        recorder.warn(
            f"only {found} of {wanted} vectors feasible, too few to tell all clusters apart; a "
            "smaller beta, or a larger subspace, gives more"
        )


def report_of_choices(
    parameter: str | None, choice: SelectedModel, solution: EigenSolution
) -> dict[str, Any]:
    """What was chosen, for a report; `parameter` is the name of the method's own."""
    own = {} if parameter is None else {parameter: solution.parameter}
    return {
        "subspace": "exact" if choice.p is None or choice.reason == NONE else choice.p,
        **own,
        "unit": solution.unit,
        "regularization": [choice.tau, choice.about_tau],
        "assign": choice.way,
        "why": choice.reason,
        "solver": solution.convergence.solver,
    }
