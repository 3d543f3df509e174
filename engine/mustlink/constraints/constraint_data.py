"""Side information as it was given, checked: pairs, labels, a graph or a matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from mustlink.constraints.closure import Contradiction, find_contradictions
from mustlink.constraints.label_groups import SoftLabels
from mustlink.constraints.pairs import (
    Floats,
    Ints,
    merge_pairs,
    upper_entries,
)
from mustlink.errors import InputError


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstraintData:
    """Side information on n nodes; absent parts are None, or have no rows.

    `pairs` (m, 2) int64 and `belief` (m,) with repetitions, `labels` (n,) int64 with -1 for
    unknown, `soft` (n, n) CSR, symmetric, a second graph or a matrix as `soft_kind` says.
    `label_weights` are the beliefs in two labels that agree and in two that do not.
    `soft_labels` are distributions over classes, of nodes without a label.
    """

    n_nodes: int
    pairs: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    belief: Floats = field(default_factory=lambda: np.empty(0))
    labels: Ints | None = None
    soft: sp.csr_matrix | None = None
    soft_kind: str = "matrix"
    label_weights: tuple[float, float] = (1.0, 1.0)
    soft_labels: SoftLabels | None = None

    def __post_init__(self) -> None:
        """Replace empty parts by None."""
        weigh, labels, soft_labels = any(self.label_weights), self.labels, self.soft_labels
        if labels is None or not (weigh and (labels >= 0).any()):
            object.__setattr__(self, "labels", None)
        if soft_labels is not None and self.labels is not None:
            soft_labels = soft_labels.only(self.labels < 0)
        if soft_labels is not None and not (weigh and soft_labels.known.any()):
            soft_labels = None
        object.__setattr__(self, "soft_labels", soft_labels)
        if self.labels is None and soft_labels is None:
            object.__setattr__(self, "label_weights", (1.0, 1.0))
        if self.soft is not None and self.soft.nnz == 0:
            object.__setattr__(self, "soft", None)

    @property
    def kind(self) -> str:
        """The kind, "pairs", "labels", "soft labels", "graph", "matrix"; "mixed" or "none"."""
        parts = {
            "pairs": self.pairs.size > 0,
            "labels": self.labels is not None,
            "soft labels": self.soft_labels is not None,
            self.soft_kind: self.soft is not None,
        }
        kinds = [name for name, present in parts.items() if present]
        return "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"

    @cached_property
    def merged(self) -> tuple[Ints, Floats]:
        """Distinct unordered pairs (k, 2), i < j, and their mean beliefs (k,)."""
        return merge_pairs(self.pairs, self.belief, self.n_nodes)[:2]

    @cached_property
    def shares(self) -> SoftLabels | None:
        """Labels and soft labels as one distribution a node; None without soft ones."""
        return None if self.soft_labels is None else self.soft_labels.with_labels(self.labels)

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes in a pair, with a label, or with an entry of `soft`."""
        parts = [self.pairs.ravel()]
        if self.labels is not None:
            parts.append(np.flatnonzero(self.labels >= 0))
        if self.soft_labels is not None:
            parts.append(np.flatnonzero(self.soft_labels.known))
        if self.soft is not None:
            parts.append(np.flatnonzero(np.diff(self.soft.indptr)))
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def counts(self) -> dict[str, int]:
        """Numbers of must-links, cannot-links, undecided pairs (mean belief 0), nodes, labels.

        Of soft labels they are expected numbers, rounded.
        """
        mean = self.merged[1]
        must, cannot = int((mean > 0).sum()), int((mean < 0).sum())
        undecided, labelled, within = mean.size - must - cannot, 0, 0
        if self.shares is not None:
            labelled = int(self.shares.known.sum())
            within = round(self.shares.pairs_expected()[0])
        elif self.labels is not None:
            sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)[1]
            labelled, within = int(sizes.sum()), int((sizes * (sizes - 1) // 2).sum())
        must += within if self.label_weights[0] else 0
        cannot += labelled * (labelled - 1) // 2 - within if self.label_weights[1] else 0
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
        """Pairs and labels that cannot all hold, by sign; repeated pairs can. Cost O(m log m)."""
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

    @property
    def statements(self) -> ConstraintData:
        """The input alone, without Q."""
        return ConstraintData(
            **{one.name: getattr(self, one.name) for one in fields(ConstraintData)}
        )
