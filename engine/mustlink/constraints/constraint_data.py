"""What was said of nodes, checked and kept as it was said: pairs, labels, a graph or a matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.constraints.closure import Contradiction, find_contradictions
from mustlink.constraints.label_groups import SoftLabels, merge_labels, split_labels
from mustlink.constraints.pairs import (
    Floats,
    Ints,
    check_nodes,
    merge_pairs,
    split_entries,
    split_pairs,
    upper_entries,
)
from mustlink.errors import InputError


def _no_pairs() -> Ints:
    return np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstraintData:
    """Statements on n nodes: what says nothing is None, or has no rows.

    `pairs` (m, 2) int64 and `belief` (m,) with repetitions, `labels` (n,) int64 with -1 for
    unknown, `soft` (n, n) CSR, symmetric, a second graph or a matrix as `soft_kind` says.
    `label_weights` are the beliefs in two labels that agree and in two that do not.
    `soft_labels` are distributions over classes; of nodes that have a label, too, the label counts.
    """

    n_nodes: int
    pairs: Ints = field(default_factory=_no_pairs)
    belief: Floats = field(default_factory=lambda: np.empty(0))
    labels: Ints | None = None
    soft: sp.csr_matrix | None = None
    soft_kind: str = "matrix"
    label_weights: tuple[float, float] = (1.0, 1.0)
    soft_labels: SoftLabels | None = None

    def __post_init__(self) -> None:
        """Labels of nobody and empty matrices say nothing."""
        weigh, labels, believed = any(self.label_weights), self.labels, self.soft_labels
        if labels is None or not (weigh and (labels >= 0).any()):
            object.__setattr__(self, "labels", None)
        if believed is not None and self.labels is not None:
            believed = believed.only(self.labels < 0)
        if believed is not None and not (weigh and believed.told.any()):
            believed = None
        object.__setattr__(self, "soft_labels", believed)
        if self.labels is None and believed is None:
            object.__setattr__(self, "label_weights", (1.0, 1.0))
        if self.soft is not None and self.soft.nnz == 0:
            object.__setattr__(self, "soft", None)

    @property
    def kind(self) -> str:
        """What is said, "pairs", "labels", "soft labels", "graph", "matrix"; "mixed" or "none"."""
        said = [("pairs", self.pairs.size > 0), ("labels", self.labels is not None)]
        said.append(("soft labels", self.soft_labels is not None))
        said.append((self.soft_kind, self.soft is not None))
        kinds = [name for name, present in said if present]
        return "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"

    @cached_property
    def merged(self) -> tuple[Ints, Floats]:
        """Distinct unordered pairs (k, 2), i < j, and their mean beliefs (k,)."""
        return merge_pairs(self.pairs, self.belief, self.n_nodes)[:2]

    @cached_property
    def shares(self) -> SoftLabels | None:
        """What soft and other labels together say, None without soft ones."""
        return None if self.soft_labels is None else self.soft_labels.with_labels(self.labels)

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes about which something was given."""
        parts = [self.pairs.ravel()]
        if self.labels is not None:
            parts.append(np.flatnonzero(self.labels >= 0))
        if self.soft_labels is not None:
            parts.append(np.flatnonzero(self.soft_labels.told))
        if self.soft is not None:
            parts.append(np.flatnonzero(np.diff(self.soft.indptr)))
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def counts(self) -> dict[str, int]:
        """Numbers of must-links, cannot-links, undecided pairs (mean belief 0), nodes, labels.

        Of soft labels they are what is expected, rounded.
        """
        mean = self.merged[1]
        must, cannot = int((mean > 0).sum()), int((mean < 0).sum())
        undecided, labelled = mean.size - must - cannot, 0
        if self.labels is not None or self.shares is not None:
            labelled, within, between = self._of_labels()
            must += within if self.label_weights[0] else 0
            cannot += between if self.label_weights[1] else 0
        if self.soft is not None:
            values = upper_entries(self.soft)[2]
            must, cannot = must + int((values > 0).sum()), cannot + int((values < 0).sum())
        return {
            "must": must,
            "cannot": cannot,
            "undecided": undecided,
            "nodes": self.nodes.size,
            "labelled": labelled,
        }

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Statements that cannot all hold, by sign; repeated pairs are none. Cost O(m log m)."""
        distinct, mean, row_of = merge_pairs(self.pairs, self.belief, self.n_nodes)
        return find_contradictions(self.pairs, self.belief, row_of, distinct, mean, self.labels)

    def check(self, *, strict: bool = False) -> tuple[Contradiction, ...]:
        """Return the contradictions; with `strict` raise InputError naming up to five pairs."""
        found = self.contradictions()
        if strict and found:
            named = "; ".join(str(one) for one in found[:5])
            more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
            noun = "contradiction" if len(found) == 1 else "contradictions"
            raise InputError(
                f"constraints: {len(found)} {noun}: {named}{more}; correct the pairs, or use "
                "strict=False to keep them as soft"
            )
        return found

    def _of_labels(self) -> tuple[int, int, int]:
        """How many nodes have labels, and how many pairs of them are of one class and of two."""
        if self.shares is not None:
            labelled = int(self.shares.told.sum())
            within = round(self.shares.pairs_expected()[0])
        else:
            assert self.labels is not None
            sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)[1]
            labelled, within = int(sizes.sum()), int((sizes * (sizes - 1) // 2).sum())
        return labelled, within, labelled * (labelled - 1) // 2 - within

    @property
    def statements(self) -> ConstraintData:
        """These alone, without what was made of them."""
        return ConstraintData(
            **{one.name: getattr(self, one.name) for one in fields(ConstraintData)}
        )

    def divided(
        self, fraction: float, rng: np.random.Generator
    ) -> tuple[ConstraintData, ConstraintData]:
        """All but about a `fraction`, and that, see `Constraints.split`."""
        if not 0 < fraction < 1:
            raise InputError(f"constraints: fraction is {fraction}; give a share between 0 and 1")
        kept: dict[str, Any] = {}
        held: dict[str, Any] = {
            name: getattr(self, name) for name in ("n_nodes", "soft_kind", "label_weights")
        }
        if self.pairs.size:
            out = split_pairs(self.pairs, self.belief, self.n_nodes, fraction, rng)
            kept.update(pairs=self.pairs[~out], belief=self.belief[~out])
            held.update(pairs=self.pairs[out], belief=self.belief[out])
        if self.labels is not None:
            out = split_labels(self.labels, fraction, rng)
            kept["labels"] = np.where(out, -1, self.labels)
            held["labels"] = np.where(out, self.labels, -1)
        if self.soft_labels is not None:
            told = np.flatnonzero(self.soft_labels.told)
            out = np.zeros(self.n_nodes, dtype=bool)
            out[rng.permutation(told)[: max(1, round(fraction * told.size))]] = True
            kept["soft_labels"] = self.soft_labels.only(~out)
            held["soft_labels"] = self.soft_labels.only(out)
        if self.soft is not None:
            kept["soft"], held["soft"] = split_entries(self.soft, fraction, rng)
        return replace(self.statements, **kept), ConstraintData(**held)

    def among(self, nodes: Any) -> ConstraintData:
        """What was said of some of the nodes, numbers or a mask, among themselves; InputError."""
        chosen, place = check_nodes(nodes, self.n_nodes)
        ends = place[self.pairs]
        inside = (ends >= 0).all(axis=1)
        return ConstraintData(
            n_nodes=chosen.size,
            pairs=ends[inside],
            belief=self.belief[inside],
            labels=None if self.labels is None else self.labels[chosen],
            soft=None if self.soft is None else self.soft[chosen][:, chosen].tocsr(),
            soft_kind=self.soft_kind,
            label_weights=self.label_weights,
            soft_labels=None if self.soft_labels is None else self.soft_labels.at(chosen),
        )

    def weighed(self, must: float, cannot: float, labels: float, graph: float) -> ConstraintData:
        """Every belief times the weights of its sign and its kind, see `Constraints.weighted`."""
        by = np.where(self.belief > 0, must, cannot)
        left, soft = by > 0, self.soft
        if soft is not None:
            soft = soft.copy()
            soft.data *= graph * np.where(soft.data > 0, must, cannot)
            soft.eliminate_zeros()
        within, between = self.label_weights
        return replace(
            self.statements,
            pairs=self.pairs[left],
            belief=(self.belief * by)[left],
            soft=soft,
            label_weights=(within * labels * must, between * labels * cannot),
        )

    def joined(self, other: ConstraintData) -> ConstraintData:
        """Both together: pairs and labels are merged, matrices are added."""
        labels, soft, weights = self.labels, self.soft, self.label_weights
        believed = self.soft_labels
        if other.labels is not None or other.soft_labels is not None:
            has_labels = labels is not None or believed is not None
            if has_labels and weights != other.label_weights:
                raise InputError(
                    f"constraints: labels of weights {weights} and {other.label_weights}; add "
                    "them, then weigh"
                )
            weights = other.label_weights
        if other.labels is not None:
            labels = other.labels if labels is None else merge_labels(labels, other.labels)
        if other.soft_labels is not None:
            more = other.soft_labels
            believed = more if believed is None else believed.joined(more)
        if other.soft is not None:
            soft = other.soft if soft is None else (soft + other.soft).tocsr()
        graphs = all(one.soft is None or one.soft_kind == "graph" for one in (self, other))
        return ConstraintData(
            n_nodes=self.n_nodes,
            pairs=np.concatenate([self.pairs, other.pairs]),
            belief=np.concatenate([self.belief, other.belief]),
            labels=labels,
            soft=soft,
            soft_kind="graph" if graphs else "matrix",
            label_weights=weights,
            soft_labels=believed,
        )
