"""What a method is asked to solve wherever the rows of its nodes are, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import Recorder
from mustlink.operators.protocol import Laplacian
from mustlink.result import Convergence
from mustlink.space import Block, Small, Space, Vector

Array = NDArray[Any]
_BELOW = 1e-2  # times the tolerance: values this small are noise of the solver


class AnyTask(Protocol):
    """Labels on nodes that are at home (`Task`), on disk or on ranks (`RowTask`).

    A method that asks for nothing else, and works by the verbs of its space, runs on all of them.
    """

    @property
    def laplacian(self) -> Laplacian:
        """L̄."""

    @property
    def space(self) -> Space:
        """Where blocks live."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What is known of the graph."""

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages and notes."""

    @property
    def n_classes(self) -> int:
        """Number K of classes."""

    @property
    def prior(self) -> Any:
        """What is believed of nodes without a label, None for nothing."""

    @property
    def Y(self) -> Block:
        """One-hot labels (m, K), zero rows where none is known."""

    @property
    def labelled(self) -> Any:
        """Nodes with a label, as `minimise` takes them."""

    @property
    def labels_held(self) -> Vector:
        """How many copies of every node have a label, (m,)."""

    @property
    def without_label(self) -> Vector:
        """How many copies of every node have none, (m,)."""

    @property
    def copies(self) -> Vector:
        """How many every node stands for, (m,)."""

    @property
    def n_copies(self) -> float:
        """How many all nodes stand for."""

    @property
    def class_counts(self) -> Small:
        """Labels of every class, (K,)."""

    @property
    def labels_in_parts(self) -> Small:
        """Labels of every class in every component, (c, K)."""

    def by_root(self, X: Block) -> Block:
        """D^-½X."""

    def centred(self, F: Block) -> Block:
        """F less its mean over the copies of every component."""

    def energy(self, *, normalized: bool = False, factor: float = 1.0) -> Any:
        """γ(D − W), or γL̄."""

    def minimise(
        self,
        energy: Any,
        Y: Block | None = None,
        *,
        clamped: Any = None,
        weight: Vector | None = None,
        balance: Vector | None = None,
        scale: Vector | None = None,
    ) -> tuple[Block, Convergence]:
        """`glp.propagate` for targets Y, the labels if left out."""

    def potential(self, B: Block) -> tuple[Block, Convergence]:
        """L̄⁺B of charges B (m, b)."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A method's values (m, K), how they were found, and what the method chose."""

    scores: Block
    convergence: Convergence | None
    choices: dict[str, Any] = field(default_factory=dict)

    @property
    def noise(self) -> float:
        """Share of the largest values below which others are the solver's; 0 if it is direct."""
        if self.convergence is None or self.convergence.reason == "direct":
            return 0.0
        return _BELOW * self.convergence.tolerance


def over(X: Array, root: Array) -> Array:
    """Rows of X (m, b) divided by `root` (m,), 0 where that is 0."""
    by = root[:, None]
    return np.divide(X, by, out=np.zeros(X.shape), where=by > 0)
