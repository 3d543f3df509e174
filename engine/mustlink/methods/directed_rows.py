"""What nodes of a directed graph have as who sends and as who receives, and clusters of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.rounding.assign import kmeans, transform
from mustlink.rounding.seeded import seeded_kmeans
from mustlink.space import LocalSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """What nodes have as who sends (n, r) and as who receives (n, r), and how often they count.

    `sends`, `receives` (n,) tell who has such an edge. `classes` (n,) are labels to start from, -1
    unknown, or None.
    """

    sending: Floats
    receiving: Floats
    sends: NDArray[np.bool_]
    receives: NDArray[np.bool_]
    counts: Floats | None
    classes: Ints | None = None

    @property
    def both(self) -> Floats:
        """Side by side, (n, 2r)."""
        return np.hstack([self.sending, self.receiving])

    def told(self, known: Constraints) -> Rows:
        """The same, starting from labels where there are some."""
        return replace(self, classes=known.labels)

    def who_send(self, k: int, seed: int) -> Ints:
        """Clusters (n,) of nodes that send alike; -1 for those that do not send."""
        return self._clusters(self.sending, self.sends, k, seed)

    def who_receive(self, k: int, seed: int) -> Ints:
        """Clusters (n,) of nodes that receive alike; -1 for those that do not receive."""
        return self._clusters(self.receiving, self.receives, k, seed)

    def clusters(self, k: int, seed: int) -> Ints:
        """Clusters (n,) of nodes that do both alike; -1 for those without an edge."""
        return self._clusters(self.both, self.sends | self.receives, k, seed)

    def _clusters(self, rows: Floats, there: NDArray[np.bool_], k: int, seed: int) -> Ints:
        """Steps 3 and 4 of DI-SIM."""
        found = np.full(len(rows), -1, dtype=np.int64)
        seen = transform(rows[there], "sphere")
        counts = None if self.counts is None else self.counts[there]
        k, given = min(k, len(seen)), None if self.classes is None else self.classes[there]
        if given is not None and 2 <= np.unique(given[given >= 0]).size <= k:
            found[there] = seeded_kmeans(seen, given, k, seed, counts)
        else:
            found[there] = kmeans(seen, k, seed, space=LocalSpace(len(seen), counts)).labels
        return found
