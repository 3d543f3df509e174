"""pynndescent's loops for Euclidean distances, compiled once a machine instead of once a process.

pynndescent hands the distance to its loops as an argument, and a function that takes a function
cannot be kept on disk: each process would compile for half a minute before its first neighbour.
Here the distance is a part of the loop: named through its module, as numba holds a function named
by itself to be an address of this process.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple
from zlib import crc32

import numba as nb
from pynndescent import distances, kernels, pynndescent_, utils

_EUCLIDEAN = kernels.KERNEL_SQEUCLIDEAN


class Loops(NamedTuple):
    """What a descent calls, in its order."""

    compare_leaves: Callable[..., None]
    fill_randomly: Callable[..., None]
    candidates: Callable[..., Any]
    compare: Callable[..., int]
    sort: Callable[..., Any]


def _compiled(of: int) -> Loops:
    """The loops; `of`, the library's version, is a part of what they are kept under on disk."""

    @nb.njit(cache=True)
    def compare_leaves(points, heap, leaves, shares):  # type: ignore[no-untyped-def]
        of  # noqa: B018
        pynndescent_.init_rp_tree(
            points, distances.squared_euclidean, heap, leaves, n_threads=shares
        )

    @nb.njit(cache=True)
    def fill_randomly(k, points, heap, state):  # type: ignore[no-untyped-def]
        of  # noqa: B018
        pynndescent_.init_random(k, points, heap, distances.squared_euclidean, state)

    @nb.njit(cache=True)
    def candidates(heap, most, state, shares, lists):  # type: ignore[no-untyped-def]
        of  # noqa: B018
        return utils.build_candidates_owner(heap, most, state, shares, *lists)

    @nb.njit(cache=True)
    def compare(points, heap, new, old, blocks, size, shares, updates):  # type: ignore[no-untyped-def]
        of  # noqa: B018
        found, counts, ordered, offsets = updates
        return pynndescent_.process_candidates(
            points, distances.squared_euclidean, heap, new, old, blocks, size, shares,
            found, counts, ordered, offsets, _EUCLIDEAN,
        )  # fmt: skip

    @nb.njit(cache=True)
    def sort(indices, distances):  # type: ignore[no-untyped-def]
        of  # noqa: B018
        return utils.deheap_sort(indices, distances)

    return Loops(compare_leaves, fill_randomly, candidates, compare, sort)


LOOPS = _compiled(crc32(version("pynndescent").encode()))
