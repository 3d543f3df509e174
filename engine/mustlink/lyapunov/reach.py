"""Where sources spread to, by the verbs of a space: nodes may be at home, on disk or on ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.lyapunov.diffusion import Diffusion, sizes_of
from mustlink.lyapunov.sources import Sources
from mustlink.space import Block

_SLACK = 1.0 - 1e-3  # of a threshold: products may be in single precision

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def starts_of(parts: list[Sources], root: Floats) -> Floats:
    """Σ_a |b_a|/s_a over the sources of every part, (t, p); `root` (t,) is D^½ at their rows."""
    found = [np.asarray(abs(Y.B) @ (1.0 / np.maximum(sizes_of(Y, root), 1e-300))) for Y in parts]
    return np.column_stack(found)


def reached(diffusion: Diffusion, places: Ints, starts: Floats) -> Block:
    """1 where a source of a part can be above the thresholds, else 0, (m, p) in single precision.

    S has no negative entry: what is spread from the sum of the |b_a|, each of size 1, is at every
    node and after every step at least as large as from any of them, and so is what a threshold
    leaves of it. The regions are those of the sources and hardly more, where these lie apart.
    Cost: a product with S of p columns for every step that anything is left after.
    """
    laplacian = diffusion.problem.laplacian
    space, root = laplacian.space, laplacian.root_degree
    x = space.zeros(starts.shape[1], laplacian.dtype)
    space.add_rows(x, places, starts.astype(x.dtype))
    seen = space.rowwise(_there, x)
    for threshold in diffusion.plan.thresholds[1:]:
        x = laplacian.recurrence(x, [(1.0, 0.0, 0.0)])
        x = space.rowwise(_above(float(threshold) * _SLACK), x, root)
        if not space.peaks(x).any():
            break
        seen = space.rowwise(_either, seen, x)
    return seen


def _there(x: Any) -> Any:
    return (x > 0).astype(np.float32)


def _either(seen: Any, x: Any) -> Any:
    return np.where(x > 0, np.float32(1.0), seen)


def _above(threshold: float) -> Any:
    def cut(x: Any, root: Floats) -> Any:
        return np.where(x >= threshold * root[:, None], x, 0.0).astype(x.dtype)

    return cut
