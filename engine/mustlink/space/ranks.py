"""The ranks of an MPI job, and what they tell one another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.space.verbs import Ints

Array = NDArray[Any]


class Ranks:
    """The ranks of an MPI communicator of mpi4py, and what they tell one another."""

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator
        self.count: int = communicator.Get_size()
        self.own: int = communicator.Get_rank()

    def added(self, values: Array) -> Array:
        """Σ over ranks, entry by entry; the order matters to rounding alone."""
        values = np.ascontiguousarray(values)
        found = np.empty_like(values)
        self.communicator.Allreduce(values, found)
        return found

    def joined(self, rows: Array) -> Array:
        """The rows of all ranks one after the other, the same on all."""
        rows = np.ascontiguousarray(rows)
        counts = np.array(self.communicator.allgather(len(rows)))
        found = np.empty((int(counts.sum()), *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Allgatherv(
            [rows, len(rows), kind], [found, counts, _before(counts), kind]
        )
        kind.Free()
        return found

    def sent(self, rows: Array, counts: Ints) -> Array:
        """What others sent here of their `rows`: to rank p the next counts[p] of them."""
        rows, counts = np.ascontiguousarray(rows), np.asarray(counts, dtype=np.int64)
        coming = np.array(self.communicator.alltoall(counts.tolist()), dtype=np.int64)
        found = np.empty((int(coming.sum()), *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Alltoallv(
            [rows, counts, _before(counts), kind], [found, coming, _before(coming), kind]
        )
        kind.Free()
        return found

    def gathered(self, rows: Array) -> Array | None:
        """As `joined`, on rank 0 alone; None elsewhere."""
        rows = np.ascontiguousarray(rows)
        counts = np.array(self.communicator.allgather(len(rows)))
        here = self.own == 0
        found = np.empty((int(counts.sum()) if here else 0, *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Gatherv(
            [rows, len(rows), kind], [found, counts, _before(counts), kind] if here else None
        )
        kind.Free()
        return found if here else None

    def fetched(self, forest: Any, X: Array, size: int) -> Array:
        """The rows (size, …) of others that one of PETSc's star forests brings here."""
        from mpi4py import MPI

        X = np.ascontiguousarray(X)
        found = np.empty((size, *X.shape[1:]), dtype=X.dtype)
        if 0 in X.shape[1:]:
            return found
        kind = _row_type(X)
        forest.bcastBegin(kind, X, found, MPI.REPLACE)
        forest.bcastEnd(kind, X, found, MPI.REPLACE)
        kind.Free()
        return found

    def told(self, value: Any) -> Any:
        """What rank 0 has, on all; arrays go faster in `told_array`."""
        return self.communicator.bcast(value)

    def told_array(self, values: Array | None, size: int) -> Array:
        """The `size` numbers of four bytes, int32, that rank 0 has, on all."""
        found = np.empty(size, dtype=np.int32) if values is None else values
        self.communicator.Bcast(found)
        return found


def _before(counts: Ints) -> Ints:
    """Where the part of every rank begins."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


def _row_type(rows: Array) -> Any:
    """The type of a row: so many bytes."""
    from mpi4py import MPI

    width = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.itemsize
    return MPI.BYTE.Create_contiguous(width).Commit()
