"""What a rank of an MPI job holds of a graph that is divided among ranks: bytes at every stage."""

from __future__ import annotations

from dataclasses import dataclass

_STARTED = 175 * 10**6  # bytes of Python, MPI and PETSc
_LOADED = 290 * 10**6  # with all kernels
_EVERYONE = 20  # bytes of a node on every rank: the order, and the way back
_DEALT = 40  # of a weight while rows go to their ranks
_HELD = 16  # of a weight afterwards: in double and in single precision, with one set of columns
_LINKS = 0.4  # of the weights, between aggregates: 0.1 on sheets, 0.7 in clouds of 32 dimensions
_LINK = 12  # of a link between aggregates
_MADE = 28, 40  # likewise while they are made: of one rank, and where others send some
_SPREAD = 14  # blocks of a propagation, as wide as there are classes, in double precision
_GROUNDED = 30  # of a weight, where labelled nodes are left out: of the rest there is a copy
_BLOCKS = 11  # of a step of LOBPCG, as wide as there are vectors


@dataclass(frozen=True)
class RankCost:
    """A rank's part of n nodes, nnz stored weights and so many vectors of `item` bytes a number."""

    n: int
    nnz: int
    columns: int
    ranks: int
    item: int = 4

    @property
    def _links(self) -> float:
        return _LINKS * self.nnz / self.ranks

    @property
    def started(self) -> int:
        """Before any data."""
        return _STARTED

    @property
    def reading(self) -> int:
        """While rows are read and dealt out."""
        return int(_STARTED + _EVERYONE * self.n + _DEALT * self.nnz / self.ranks)

    @property
    def _at_rest(self) -> float:
        return _LOADED + _EVERYONE * self.n + _HELD * self.nnz / self.ranks

    @property
    def set_up(self) -> int:
        """While coarse grids are made."""
        return int(self._at_rest + _MADE[self.ranks > 1] * self._links)

    @property
    def solving(self) -> int:
        """While eigenvectors are found."""
        blocks = _BLOCKS * self.columns * self.item * self.n / self.ranks
        return int(self._at_rest + _LINK * self._links + blocks)

    def propagating(self, *, grounded: bool) -> int:
        """While labels of as many classes as columns spread; `grounded`: nodes are left out."""
        blocks = 8 * _SPREAD * self.columns * self.n / self.ranks
        copy = _GROUNDED * self.nnz / self.ranks if grounded else 0
        return int(self._at_rest + _LINK * self._links + copy + blocks)

    def answer(self, k: int) -> int:
        """While rank 0 has k columns of the embedding and labels of all nodes, in both orders."""
        return int(self._at_rest + _LINK * self._links + 8 * self.n * (2 * k + 4))
