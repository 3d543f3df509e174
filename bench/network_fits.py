"""Fits of one method to a network in a process of its own, and how an answer is scored."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import common
import network_models
from network_methods import METHODS, Known, Setting, draw


def read(path: str) -> tuple[Any, Any]:
    """Adjacency (n, n), CSR, and classes (n,), -1 unknown, or None where the file has none."""
    import numpy as np
    import scipy.sparse as sp

    with np.load(path, allow_pickle=False) as archive:
        parts = (archive["data"], archive["indices"], archive["indptr"])
        W = sp.csr_matrix(parts, shape=tuple(archive["shape"]))
        return W, archive["y"] if "y" in archive.files else None


def about(path: str) -> dict[str, Any]:
    """Size of a network and of its classes."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    W, y = read(path)
    sizes = np.zeros(0) if y is None else np.bincount(y[y >= 0])
    return {
        "nodes": W.shape[0],
        "edges": W.nnz // 2,
        "components": connected_components(W, directed=False)[0],
        "isolated": (np.diff(W.indptr) == 0).sum(),
        "classes": (sizes > 0).sum(),
        "largest": sizes.max() / sizes.sum() if len(sizes) else None,
    }


def fits(
    path: str,
    cells: list[tuple[dict[str, str], list[int]]],
    k: int,
    truth: bool,
    limit: int,
    out: str,
) -> dict[str, Any]:
    """Cells of one setting and their draws, a line of `out` each; SIGPROF ends a slow fit."""
    import numpy as np

    commit = common.commit()
    W, y = read(path)
    y = np.full(W.shape[0], -1) if y is None else y
    for cell, draws in cells:
        method = next(m for m in METHODS if m.name == cell["method"])
        setting = Setting.parse(cell["setting"].removesuffix(" labels"))
        small = network_models.planted(network_models.Planted(600, 3, 8, 0.1))
        signal.setitimer(signal.ITIMER_PROF, limit)
        method.fit(draw(*small, 3, setting, 0), 0, **method.options)  # compiles, loads
        for seed in draws:
            known = draw(W, y, k, setting, seed)
            signal.setitimer(signal.ITIMER_PROF, limit)
            fit = partial(method.fit, known, seed, **method.options)
            (labels, more), seconds, cpu = common.cpu_timed(fit)
            signal.setitimer(signal.ITIMER_PROF, 0)
            line = {
                **cell, "draw": seed, "k": k, "commit": commit,
                "seconds": seconds, "cpu_seconds": cpu,
                "peak_bytes": common.own_peak_bytes() if len(cells) == 1 else None,
                **scores(known, np.asarray(labels), truth), **more,
            }  # fmt: skip
            with Path(out).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, default=common.plain) + "\n")
    return {}


def scores(known: Known, labels: Any, truth: bool) -> dict[str, Any]:
    """Sizes and modularity over all nodes; ARI and NMI where the class is known and not given."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    sizes = np.sort(np.bincount(labels[labels >= 0]))[::-1]
    found = {
        "clusters": (sizes > 0).sum(),
        "unassigned": (labels < 0).sum(),
        "largest": sizes[0] / len(labels),
        "sizes": sizes[:8],
        "modularity": modularity(known.W, labels),
    }
    if truth:
        asked = known.y >= 0 if known.labels is None else (known.y >= 0) & (known.labels < 0)
        y, mine = known.y[asked], labels[asked]
        found["ari"] = adjusted_rand_score(y, mine)
        found["nmi"] = normalized_mutual_info_score(y, mine)
    return found


def modularity(W: Any, labels: Any) -> float:
    """Σ_c (w_c / 2m - (d_c / 2m)²), w_c twice the weight inside c, d_c its degrees."""
    import numpy as np

    own = np.where(labels < 0, labels.max() + 1 + np.arange(len(labels)), labels)
    degrees = np.asarray(W.sum(axis=1, dtype=float)).ravel()
    row = np.repeat(own, np.diff(W.indptr))
    inside = W.data[row == own[W.indices]].sum(dtype=float)
    return float(inside / degrees.sum() - ((np.bincount(own, degrees) / degrees.sum()) ** 2).sum())
