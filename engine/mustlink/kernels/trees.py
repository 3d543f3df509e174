"""Extra trees on few labelled rows, and the chances they give to many (Geurts et al. 2006).

The trees of scikit-learn's `ExtraTreesClassifier`, split by split and bit by bit: its generator,
its order of draws, its sums. It takes a millisecond and more of Python a tree, and 200 trees of a
hundred rows are a matter of milliseconds altogether; nor is it imported for them.

A node draws √d columns that are not constant among its rows, a threshold between least and largest
value of each, and takes the one that leaves the least impurity Σ n_side (1 − Σ_c p_c²).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, in_threads, kernel

_WORD, _LARGEST = 0xFFFFFFFF, 0x7FFFFFFF
_CONSTANT = np.float32(1e-7)  # columns whose values differ by no more are constant
_PURE = float(np.finfo(np.float64).eps)


class Trees(NamedTuple):
    """T trees on m rows, whose classes are `codes` (m,).

    `nodes` (T, 2m − 1, 2) are column and right child of a node, the left child is the next node; of
    a leaf −1 − start and end of its rows in `samples` (T, m), end −1 where all have one class.
    `threshold` (T, 2m − 1): values up to it go left.
    """

    nodes: NDArray[np.int32]
    threshold: NDArray[np.float64]
    samples: NDArray[np.int32]
    codes: NDArray[np.int32]

    def chances(self, X: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
        """Mean over the trees of the shares of the classes in the leaf of every row, (n, K)."""
        P = np.zeros((len(X), n_classes))
        _add_shares(np.ascontiguousarray(X, dtype=np.float32), *self, P)
        P /= len(self.nodes)
        return P


def grown(X: NDArray[Any], codes: NDArray[Any], n_trees: int, seed: int) -> Trees:
    """Trees on rows X (m, d) of classes `codes` (m,) from 0. Cost about O(T m √d log m)."""
    X, codes = np.ascontiguousarray(X, dtype=np.float32), codes.astype(np.int32)
    (m, d), k = X.shape, int(codes.max()) + 1
    made = Trees(
        np.empty((n_trees, 2 * m - 1, 2), dtype=np.int32),
        np.empty((n_trees, 2 * m - 1)),
        np.tile(np.arange(m, dtype=np.int32), (n_trees, 1)),
        codes,
    )
    rng = np.random.RandomState(seed)
    seeds = [int(rng.randint(_LARGEST)) for _ in range(n_trees)]

    def grow(tree: int) -> None:
        start = int(np.random.RandomState(seeds[tree]).randint(0, _LARGEST))
        columns = np.tile(np.arange(d), (2, 1))
        waiting, impure = np.empty((m + 1, 4), dtype=np.int64), np.empty(m + 1)
        nodes, threshold, samples = (one[tree] for one in made[:3])
        most = max(1, int(np.sqrt(d)))
        _grow(X, codes, start, most, nodes, threshold, samples, columns, waiting, impure,
              np.empty((2, k)), np.empty(5))  # fmt: skip

    in_threads(grow, range(n_trees))
    return made


@helper()
def _drawn(state: int) -> int:
    """The next state of scikit-learn's generator of 31 bits (Marsaglia 2003)."""
    state ^= (state << 13) & _WORD
    state ^= state >> 17
    return state ^ ((state << 5) & _WORD)


@helper()
def _split(
    X: Any, codes: Any, state: int, most: int, samples: Any, start: int, end: int,
    columns: Any, known: int, total: Any, left: Any, best: Any,
) -> Any:  # fmt: skip
    """Fill `best` with the best of some random splits of a node: column, −1 without any, cut,
    rows on the left, impurities of left and right. Returns the state and the number of columns that
    are constant here, of which `known` were above.
    """
    features, constant, n = columns[0], columns[1], float(end - start)
    constants, found, drawn, visited, rest = known, 0, 0, 0, X.shape[1]
    gain, best[0] = -np.inf, -1.0
    while rest > constants and (visited < most or visited <= found + drawn):
        visited += 1
        state = _drawn(state)
        at = drawn + (state & _LARGEST) % (rest - found - drawn)
        if at < known:
            features[drawn], features[at] = features[at], features[drawn]
            drawn += 1
            continue
        at += found
        f = features[at]
        least = largest = X[samples[start], f]
        for q in range(start + 1, end):
            least, largest = min(least, X[samples[q], f]), max(largest, X[samples[q], f])
        if largest <= least + _CONSTANT:
            features[at], features[constants] = features[constants], f
            found, constants = found + 1, constants + 1
            continue
        rest -= 1
        features[rest], features[at] = features[at], features[rest]
        state = _drawn(state)
        low, high = float(least), float(largest)
        value = (high - low) * float(state & _LARGEST) / float(_LARGEST) + low
        if value == high:
            value = low
        left[:] = 0.0
        for q in range(start, end):
            left[codes[samples[q]]] += 1.0 if X[samples[q], f] <= value else 0.0
        n_left, of_left, of_right = 0.0, 0.0, 0.0
        for c in range(total.size):
            n_left += left[c]
            of_left += left[c] * left[c]
            of_right += (total[c] - left[c]) * (total[c] - left[c])
        n_right = n - n_left
        if n_left < 1.0 or n_right < 1.0:
            continue
        of_left = 1.0 - of_left / (n_left * n_left)
        of_right = 1.0 - of_right / (n_right * n_right)
        if -n_right * of_right - n_left * of_left > gain:
            gain = -n_right * of_right - n_left * of_left
            best[0], best[1], best[2], best[3], best[4] = f, value, n_left, of_left, of_right
    for at in range(known):
        features[at] = constant[at]
    for at in range(known, constants):
        constant[at] = features[at]
    return state, constants


@kernel()
def _grow(
    X: Any, codes: Any, state: int, most: int, nodes: Any, threshold: Any, samples: Any,
    columns: Any, waiting: Any, impure: Any, sums: Any, best: Any,
) -> None:  # fmt: skip
    """One tree. `columns` (2, d) are in order of their draws, and those found constant above.

    `waiting` (m + 1, 4) are start, end, number of constant columns and parent of nodes to come,
    `impure` (m + 1,) their impurities; `sums` (2, K) labels of a node, and of its left side; for
    `best` (5,) see `_split`.
    """
    total, m = sums[0], X.shape[0]
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = 0, m, 0, -1
    size, count = 1, 0
    while size > 0:
        size -= 1
        start, end, known, parent = (
            waiting[size, 0], waiting[size, 1], waiting[size, 2], waiting[size, 3]
        )  # fmt: skip
        n, impurity, squares = float(end - start), impure[size], 0.0
        total[:] = 0.0
        for q in range(start, end):
            total[codes[samples[q]]] += 1.0
        for c in range(total.size):
            squares += total[c] * total[c]
        if count == 0:
            impurity = 1.0 - squares / (n * n)
        if parent >= 0:
            nodes[parent, 1] = count
        is_leaf = is_pure = end - start < 2 or impurity <= _PURE
        if not is_leaf:
            state, known = _split(
                X, codes, state, most, samples, start, end, columns, known, total, sums[1], best
            )
            lost = impurity - (n - best[2]) / n * best[4] - best[2] / n * best[3]
            is_leaf = best[0] < 0.0 or n / float(m) * lost + _PURE < 0.0
        if is_leaf:
            nodes[count, 0], nodes[count, 1] = -1 - start, -1 if is_pure else end
            count += 1
            continue
        column, cut, first, last = int(best[0]), best[1], start, end
        while first < last:
            if X[samples[first], column] <= cut:
                first += 1
            else:
                last -= 1
                samples[first], samples[last] = samples[last], samples[first]
        nodes[count, 0], threshold[count] = column, cut
        for side in range(2):  # the left one is taken first
            waiting[size, 0] = first if side == 0 else start
            waiting[size, 1] = end if side == 0 else first
            waiting[size, 2], waiting[size, 3] = known, count if side == 0 else -1
            impure[size] = best[4 - side]
            size += 1
        count += 1


@kernel()
def _add_shares(X: Any, nodes: Any, threshold: Any, samples: Any, codes: Any, P: Any) -> None:
    """P += shares of the classes in the leaf of every row of X, tree after tree."""
    for tree in range(nodes.shape[0]):
        for i in range(X.shape[0]):
            node = 0
            while nodes[tree, node, 0] >= 0:
                goes_left = X[i, nodes[tree, node, 0]] <= threshold[tree, node]
                node = node + 1 if goes_left else nodes[tree, node, 1]
            start, end = -1 - nodes[tree, node, 0], nodes[tree, node, 1]
            if end < 0:
                P[i, codes[samples[tree, start]]] += 1.0
                continue
            for c in range(P.shape[1]):
                count = 0.0
                for q in range(start, end):
                    count += 1.0 if codes[samples[tree, q]] == c else 0.0
                P[i, c] += count / float(end - start)
