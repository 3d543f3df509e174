"""Labels of nodes, and priors with a degree of belief.

A prior is another source's distribution over the classes for every node: outputs of a classifier,
scores of cell types, colours of a photograph. It adds Σ_i u_i ‖f_i − p_i‖² over the nodes without a
label to the energy of a method, as if each of them had an edge of weight u_i to a node of its own
with the fixed value p_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import TOGETHER
from mustlink.core.check import EQUAL_ROWS, check_two_classes, labels_of_nodes, numeric_array
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.operators.laplacian import Block

_SUM = 1e-6  # by which a distribution may miss 1
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nodes = NDArray[np.integer[Any]]


def check_prior(method: str, minimises: bool, prior: Any, belief: Any) -> None:
    """Raise InputError for a prior that a method cannot use, and for a belief without a prior."""
    if prior is None and belief is not None:
        raise InputError("belief: no prior that it is a belief in; give prior (n, K) as well")
    if prior is not None and not minimises:
        raise InputError(
            f"prior: {method} minimises nothing that it could be added to; use GFHF or LLGC"
        )


@dataclass(frozen=True, eq=False)
class GivenPrior:
    """The input of `fit`: distributions (n, K) over `classes` (K,), and beliefs (n,)."""

    values: Block
    belief: Floats
    classes: NDArray[Any]

    @classmethod
    def of(cls, prior: Any, belief: Any, classes: NDArray[Any]) -> GivenPrior | None:
        """A prior that a fit has checked, None without one."""
        if prior is None:
            return None
        values = np.asarray(prior, dtype=np.float64)
        u = np.asarray(1.0 if belief is None else belief, dtype=np.float64)
        return cls(values, np.broadcast_to(u, len(values)), classes)

    def over(self, classes: NDArray[Any], n: int) -> tuple[Block, Floats]:
        """The same for n rows, of which the last may be new, over other classes (c,).

        A new class has share 0; the share of a class that is gone is taken from the belief, and the
        others' are scaled to sum 1.
        """
        at = {one: column for column, one in enumerate(self.classes.tolist())}
        values, belief = np.zeros((n, classes.size)), np.zeros(n)
        m = len(self.values)
        for column, one in enumerate(classes.tolist()):
            if one in at:
                values[:m, column] = self.values[:, at[one]]
        belief[:m] = self.belief
        if set(at) <= set(classes.tolist()):
            return values, belief
        left = values.sum(axis=1)
        return np.divide(values, left[:, None], out=values, where=left[:, None] > 0), belief * left


@dataclass(frozen=True, eq=False)
class Prior:
    """Distributions (m, K) over the classes, and how much each is believed, (m,) >= 0."""

    values: Block
    belief: Floats

    @classmethod
    def of_rows(cls, prior: Any, belief: Any, n: int, n_classes: int) -> Prior:
        """Checked input, (n, K) and (n,) or a number, 1 if left out; raises InputError."""
        P = np.asarray(numeric_array(prior, "prior"), dtype=np.float64)
        if P.shape != (n, n_classes):
            raise InputError(
                f"prior: shape {P.shape} for {n} nodes whose labels have {n_classes} classes; give "
                "a row for each node, a column for each class in the order of their numbers"
            )
        u = np.asarray(numeric_array(1.0 if belief is None else belief, "belief"), dtype=np.float64)
        u = np.full(n, float(u)) if u.ndim == 0 else u
        if u.shape != (n,):
            raise InputError(f"belief: shape {u.shape} for {n} nodes; give a number, or one a node")
        if not (np.isfinite(u) & (u >= 0)).all():
            raise InputError("belief: it must be finite and 0 or more; 0 where nothing is known")
        wrong = (u > 0) & ~((P >= 0).all(axis=1) & (np.abs(P.sum(axis=1) - 1.0) <= _SUM))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"prior: row {row} is no distribution over the classes; let its entries be 0 or "
                "more with sum 1, or its belief 0"
            )
        return cls(np.where(u[:, None] > 0, P, 0.0), u)

    def without(self, known: NDArray[np.bool_]) -> Prior:
        """The same without belief for nodes that are `known` (n,): they have a label."""
        return Prior(self.values, np.where(known, 0.0, self.belief))

    def of_nodes(self, rows: Nodes, weights: Floats, n_nodes: int) -> Prior:
        """The prior of the nodes (m,) that rows belong to; `weights` (n,) are those of the rows.

        The beliefs of the rows of a node add up, and the node has their mean.
        """
        u = self.belief * weights
        total: Floats = np.bincount(rows, u, n_nodes).astype(np.float64)
        sums = [np.bincount(rows, u * p, n_nodes) for p in self.values.T]
        return Prior(np.column_stack(sums) / np.where(total > 0, total, 1.0)[:, None], total)

    def joined(self, Y: Block, weight: Floats | None, scale: Floats | None) -> tuple[Block, Floats]:
        """Targets and weights of w(g − y)² + u(g/s − p)² as one square, `scale` s of g = sf."""
        w = np.zeros(self.belief.size) if weight is None else weight
        s = np.ones(self.belief.size) if scale is None else scale
        u = self.belief / s**2
        total = w + u
        share = np.divide(u, total, out=np.zeros_like(u), where=u > 0)[:, None]
        return (1.0 - share) * Y + share * (s[:, None] * self.values), total


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Labels of rows (n,), of nodes (m,), and how many copies of a node have its label.

    `counts` (m,) and `node_of` (n,), the node of every row, are None where every row is a node.
    `prior` is one of nodes.
    """

    rows: Ints
    nodes: Ints
    counts: Floats | None = None
    prior: Prior | None = None
    node_of: Nodes | None = None

    @classmethod
    def of(
        cls,
        labels: Ints,
        n_nodes: int,
        node_of: Nodes | None,
        weights: Floats | None,
        recorder: Recorder,
        prior: Any = None,
        belief: Any = None,
        kind: str = EQUAL_ROWS,
    ) -> LabelSet:
        """The labels of nodes by those (n,) of their rows; warns of contradictions.

        `node_of` (n,) is the node of every row, None for rows in the order of the nodes, `weights`
        (n,) are those of rows, None where every row is a node. `prior` and `belief` are as in
        `Prior.of_rows`; `kind` as in `labels_of_nodes`.
        """
        found = cls(labels, labels)
        if node_of is not None or weights is not None:
            node_of = np.arange(n_nodes) if node_of is None else node_of
            weights = np.ones(labels.size) if weights is None else weights
            nodes, warning = labels_of_nodes(labels, node_of, weights, n_nodes, kind)
            if warning:
                recorder.warn(warning)
            check_two_classes(nodes, "y")
            agree = (labels >= 0) & (labels == nodes[node_of])
            counts = np.bincount(node_of[agree], weights[agree], n_nodes).astype(np.float64)
            found = cls(labels, nodes, counts, node_of=node_of)
        if prior is None:
            return found
        checked = Prior.of_rows(prior, belief, labels.size, found.classes.size)
        if node_of is not None and weights is not None:
            checked = checked.of_nodes(node_of, weights, n_nodes)
        return replace(found, prior=checked)

    @property
    def classes(self) -> Ints:
        """Classes (K,) of which a node has the label."""
        return np.unique(self.nodes[self.nodes >= 0])

    @property
    def of_rows(self) -> Ints:
        """Labels (n,) of rows by their nodes."""
        return self.nodes if self.node_of is None else self.nodes[self.node_of]

    @property
    def all(self) -> tuple[Floats | Ints | None, ...]:
        """What results depend on."""
        prior = () if self.prior is None else (self.prior.values, self.prior.belief)
        return self.nodes, self.counts, *prior

    def without(self, held: Ints) -> LabelSet:
        """The same without the labels of the nodes `held`."""
        nodes = self.nodes.copy()
        nodes[held] = -1
        return replace(self, nodes=nodes)

    def statements(self, work: Any) -> LabelSet:
        """The same without the labels of nodes that repeat others, see `statements`; a note."""
        found = replace(self, nodes=statements(work, self.nodes))
        note_repeated(self.of_rows, found.of_rows, work.recorder)
        return found


# --- Labels that say something new, and those that repeat what their neighbours say
#
# A person who draws round a group labels 200 neighbours at once: that is one statement, and not
# 200. Where other classes have three labels each, 200 sources of one class take their nodes.

_FAR_MORE = 2.0  # times the labels of the other classes, by their median
_REPEATED = 0.5  # mean company from which a class was drawn round, twice that of the others
_ALONE = 0.02  # company below which a label is none of those that were drawn round
_MOST = 0.25  # of all nodes: nobody draws round so many
_DIGITS = 3  # of company: homes sum in other orders, and must decide alike


def statements(work: Any, labels: Ints) -> Ints:
    """Labels (n,) of nodes, -1 unknown, without repeated ones of classes that have far more.

    The company of a node i with label c is Σ_j w_ij [y_j = c]/d_i over the other nodes. A class
    with a mean of at least 1/2, that has more than twice the median number m of labels of the
    classes with less than half of its own, keeps m of them: first those in hardly any company,
    which were not drawn round, then those in most, which are in the middle; and one in every
    component. Labels here and there stay, also where they are a third of all nodes and most have
    neighbours among each other, those of a quarter of all nodes, and all where every class was
    drawn round. The same in every home. Cost: nothing where classes have about as many labels, else
    a product with a column a class.
    """
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    if classes.size < 2 or counts.max() <= _FAR_MORE * counts.min():
        return labels
    codes = np.where(labels >= 0, np.searchsorted(classes, labels), -1)
    nodes, company, component = _company(work, codes, classes.size)
    own = codes[nodes]
    counts = np.bincount(own, minlength=classes.size)
    mean = np.bincount(own, company, classes.size) / np.maximum(counts, 1)
    found, rng = labels, np.random.default_rng(0)
    for c in np.flatnonzero(mean >= _REPEATED):
        others = counts[2.0 * mean < mean[c]]
        usual = int(np.ceil(np.median(others))) if others.size else counts[c]
        if counts[c] <= _FAR_MORE * usual or counts[c] >= _MOST * labels.size:
            continue
        rows = rng.permutation(np.flatnonzero(own == c))
        order = np.where(company[rows] < _ALONE, -np.inf, -company[rows])
        rows = rows[np.argsort(order, kind="stable")]
        kept = np.union1d(np.arange(usual), np.unique(component[rows], return_index=True)[1])
        found = found.copy() if found is labels else found
        found[nodes[np.delete(rows, kept)]] = -1
    return found


def _company(work: Any, codes: Ints, k: int) -> tuple[Ints, Floats, Ints]:
    """Nodes (m,) with an edge and one of k classes, their company (m,) and components (m,)."""
    space, laplacian = work.space, work.laplacian
    root, own = laplacian.root_degree, work.to_working_order(codes)
    nodes = np.flatnonzero(codes >= 0)
    at = np.asarray(work.positions(nodes), dtype=np.int64)

    def of(v: Any) -> Any:
        return space.take(space.column(v), np.maximum(at, 0))[:, 0]

    there = (at >= 0) & (of(root) > 0)
    nodes, at = nodes[there], at[there]
    share = np.zeros(nodes.size)
    for first in range(0, k, TOGETHER):
        some = np.arange(first, min(first + TOGETHER, k))

        def indicator(c: Any, root: Any, some: Ints = some) -> Any:
            return (c[:, None] == some) * root[:, None]

        away = space.take(laplacian.apply(space.rowwise(indicator, own, root)), at)
        mine = np.flatnonzero(np.isin(codes[nodes], some))
        share[mine] = away[mine, codes[nodes[mine]] - first]
    company = np.round(of(laplacian.diagonal) - share / of(root), _DIGITS)
    return nodes, company, of(laplacian.null.component).astype(np.int64)


def statements_of_rows(work: Any, labels: Ints, node_of: Any) -> Ints:
    """The same for labels (n,) of rows, by their nodes (n,): copies of a node are one statement.

    `node_of` is None where every row is a node.
    """
    if node_of is None:
        return statements(work, labels)
    node_of, known = node_of[:], labels >= 0  # it may be on disk
    nodes = np.full(work.n_nodes, -1, dtype=np.int64)
    nodes[node_of[known]] = labels[known]
    found = statements(work, nodes)
    return labels if found is nodes else np.where(found[node_of] >= 0, labels, -1)


SPREAD = "they are answered as they are, and not spread"


def note_repeated(known: Ints, said: Ints, recorder: Recorder, what: str = SPREAD) -> None:
    """Say how many of the labels `known` (n,) are not in `said` (n,), and `what` that means."""
    if count := np.count_nonzero(known != said):
        recorder.note(
            f"labels: {count} are beside others of their class, which has far more than the rest: "
            f"{what}"
        )
