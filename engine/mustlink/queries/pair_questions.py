"""Which pairs to ask: by neighbourhoods, by what their answer would do, or at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mustlink.queries.expected_change import expected_error, turning
from mustlink.queries.neighbourhoods import Neighbourhoods
from mustlink.queries.situation import Situation
from mustlink.queries.walks import Walks

Ints = NDArray[np.int64]
PAIR_STRATEGIES = ("auto", "neighbourhoods", "expected-error", "expected-change", "random")
_POOL = 200  # nodes whose pairs are compared


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
    else:
        found = _of_pool(replace(situation, told=told), hoods, n, strategy, rng)
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


def _of_pool(
    situation: Situation,
    hoods: Neighbourhoods,
    n: int,
    strategy: str,
    rng: np.random.Generator,
) -> list[list[int]]:
    """The best pairs of nodes that are worth asking, each node in one question at most."""
    size = min(_POOL, situation.m)
    if strategy == "random":
        pool = rng.choice(situation.m, min(situation.m, max(_POOL, 4 * n)), replace=False)
    else:
        scores = Walks.of(situation).scores()
        pool = np.sort(np.argsort(-scores, kind="stable")[:size])
    first, second = np.triu_indices(pool.size, 1)
    pairs = np.column_stack([pool[first], pool[second]])
    if strategy == "random":
        worth = rng.random(len(pairs))
    else:
        worth = expected_error(situation, pairs)
        if strategy == "expected-change":
            worth = worth * turning(situation, pairs)
    used: set[int] = set()
    found: list[list[int]] = []
    for at in np.argsort(-worth, kind="stable"):
        i, j = int(pairs[at, 0]), int(pairs[at, 1])
        if used & {i, j} or hoods.follows(i, j):
            continue
        used |= {i, j}
        found.append([i, j])
        if len(found) == n:
            break
    return found
