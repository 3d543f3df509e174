"""Which pairs to ask: by neighbourhoods, by what their answer would do, or at random."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mustlink.queries.expected_change import expected_error, turning
from mustlink.queries.neighbourhoods import Neighbourhoods
from mustlink.queries.situation import Situation
from mustlink.queries.walks import Walks

Ints = NDArray[np.int64]
PAIR_STRATEGIES = ("auto", "neighbourhoods", "expected-error", "expected-change", "random")
_POOL = 200  # nodes whose pairs are compared
_LOOKED = 1_000_000  # pairs that are drawn, at most, where few are open


def pairs_to_ask(
    situation: Situation, n: int, strategy: str, avoid: Ints, rng: np.random.Generator
) -> Ints:
    """Pairs (q, 2) of rows, q <= n; none that follows from what is known, none in `avoid`."""
    ends = situation.at(avoid)
    hoods = Neighbourhoods.of(situation, ends[(ends >= 0).all(axis=1)])
    told = situation.told.copy()
    told[[node for group in hoods.groups for node in group]] = True
    if strategy in ("auto", "neighbourhoods"):
        found = _by_neighbourhoods(replace(situation, told=told), hoods, n)
    elif strategy == "random":
        found = _at_random(situation, hoods, n, rng)
    else:
        found = _of_pools(replace(situation, told=told), hoods, n, strategy)
    return situation.rows[np.array(found, dtype=np.int64).reshape(-1, 2)]


def _by_neighbourhoods(situation: Situation, hoods: Neighbourhoods, n: int) -> list[list[int]]:
    sure, begun = hoods.sorted_out()
    found = [[one, other] for one, other in hoods.second_opinions()[:n]]
    for group in begun:
        asked = hoods.question(group, sure)
        if asked is not None and len(found) < n:
            found.append([asked[1], asked[2]])
    open_, node = ~situation.told, -1
    worth = Walks.of(situation) if len(found) < n else None
    while worth is not None and len(found) < n and open_.any():
        if node >= 0:
            worth.answered(node)
        node = int(np.argmax(np.where(open_, worth.scores(), -np.inf)))
        open_[node] = False
        group = hoods.begin(node)
        asked = hoods.question(group, sure)
        if asked is None:  # the first of all, or all others are avoided
            sure += [group] if not sure else []
            continue
        found.append([asked[1], asked[2]])
        if not hoods.expect(group, asked[0]):
            sure.append(group)  # the likeliest is not its own, so none is
    return found


def _at_random(
    situation: Situation, hoods: Neighbourhoods, n: int, rng: np.random.Generator
) -> list[list[int]]:
    """Pairs that are not known, as likely each; a node again only after all others.

    Of nodes in a random order on a circle: neighbours first, then the next but one, and so on.
    """
    order, m = rng.permutation(situation.m), situation.m
    each = (
        (order[at], order[(at + step) % m])
        for step in range(1, m // 2 + 1)
        for side in (0, 1)
        for at in range(side, m if 2 * step < m else m // 2, 2)
    )
    open_ = ([int(i), int(j)] for i, j in islice(each, _LOOKED + n) if not hoods.follows(i, j))
    return list(islice(open_, n))


def _of_pools(
    situation: Situation, hoods: Neighbourhoods, n: int, strategy: str
) -> list[list[int]]:
    """The best pairs of the nodes most worth asking, then of the next ones; a node again after all.

    Nodes are compared with others of their pool only. Cost O(n) pools' rows.
    """
    order = np.argsort(-Walks.of(situation).scores(), kind="stable")
    pools = [np.sort(order[at : at + _POOL]) for at in range(0, situation.m, _POOL)]
    found: list[list[int]] = []
    before = -1
    while before < len(found) < n:  # a sweep asks no node twice
        before = len(found)
        for pool in pools:
            if len(found) < n:
                found += _best_of(situation, hoods, pool, strategy)[: n - len(found)]
                hoods.told |= {(i, j) for i, j in found[before:]}
    return found


def _best_of(
    situation: Situation, hoods: Neighbourhoods, pool: Ints, strategy: str
) -> list[list[int]]:
    """The best pairs of a pool (b,) that are not known, each node in one at most."""
    first, second = np.triu_indices(pool.size, 1)
    pairs = np.column_stack([pool[first], pool[second]])
    worth = expected_error(situation, pairs)
    if strategy == "expected-change":
        worth = worth * turning(situation, pairs)
    used: set[int] = set()
    found: list[list[int]] = []
    for at in np.argsort(-worth, kind="stable"):
        i, j = int(pairs[at, 0]), int(pairs[at, 1])
        if not (used & {i, j} or hoods.follows(i, j)):
            used |= {i, j}
            found.append([i, j])
    return found
