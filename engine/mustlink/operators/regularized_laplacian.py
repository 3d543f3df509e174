"""The Laplacian with regularised degrees: what hangs by one edge is no longer a cheap cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.permuted_matrix import scaled
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.operators.null_space import NullSpace


@dataclass(frozen=True, eq=False)
class RegularizedLaplacian(NormalizedLaplacian):
    """L̄_τ = I − T^-½WT^-½, T = D + τd̄I with d̄ the mean degree, τ > 0; its null space is empty.

    A set A of nodes costs (cut(A) + τd̄|A|)/(vol(A) + τd̄|A|): small ones cost nearly 1 however few
    edges they hang by, large ones hardly notice. `root_degree` is T^½, `ground` is τd̄, times what
    a node stands for. Isolated nodes stay out. Source: Amini, Chen, Bickel & Levina 2013; Qin &
    Rohe 2013; Zhang & Rohe 2018.
    """

    @classmethod
    def of_plain(cls, plain: NormalizedLaplacian, tau: float) -> RegularizedLaplacian:
        """From L̄ of the same graph; shares the indices of its S."""
        copies, degree = plain.copies, plain.root_degree**2
        ground = copies * (tau * plain.volume / copies.sum())
        S = plain.S
        values = scaled(S, np.sqrt(degree / (degree + ground)))
        return cls(
            sp.csr_matrix((values, S.indices, S.indptr), shape=S.shape),
            np.sqrt(degree + ground),
            plain.nodes,
            plain.n_nodes,
            NullSpace.empty(plain.size),
            plain.weights,
            ground=ground,
        )

    @property
    def excess(self) -> Block | None:
        """None: what rounding adds makes no eigenvalue negative that is at least τd̄/(d + τd̄)."""
        return None

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Row sums of W, (m,)."""
        found: NDArray[np.float64] = self.root_degree**2 - self.grounding
        return found
