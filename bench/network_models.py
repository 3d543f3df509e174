"""Generated networks: degree-corrected block models with power-law degrees, as npz files.

    python bench/network_models.py FOLDER [--only NAME ...]

Three groups, a folder each: `large` are those of which seconds are asked, `choose` those on which
rules may be chosen, `judge` those on which they are judged and by which nothing is chosen.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common


@dataclass(frozen=True)
class Planted:
    """n nodes in k blocks.

    Degrees have the density d^-degree_exponent. A share `mixing` of the ends of edges is tied
    without regard to blocks. Blocks are equal, or their sizes have the density s^-size_exponent.
    A share `hung` of the nodes makes random trees that hang on the others, as in real networks.
    """

    n: int
    k: int
    mean_degree: float
    mixing: float
    degree_exponent: float = 2.5
    size_exponent: float | None = None
    hung: float = 0.0
    seed: int = 0


MODELS: dict[str, dict[str, Planted]] = {
    "large": {
        "dcsbm_1000000": Planted(1_000_000, 20, 10, 0.3, seed=1),
        "sbm_50000": Planted(50_000, 44, 40, 0.2, seed=2),
    },
    "choose": {
        "planted_even": Planted(8_000, 8, 12, 0.3, seed=11),
        "planted_uneven": Planted(12_000, 15, 10, 0.3, size_exponent=2.0, seed=12),
        "planted_hung": Planted(10_000, 6, 8, 0.3, degree_exponent=2.3, hung=0.3, seed=13),
        "planted_sparse": Planted(10_000, 4, 4, 0.25, seed=14),
    },
    "judge": {
        "planted_easy": Planted(10_000, 10, 10, 0.2, degree_exponent=3.0, seed=21),
        "planted_hard": Planted(15_000, 12, 12, 0.55, degree_exponent=2.2, seed=22),
        "planted_thin": Planted(20_000, 5, 5, 0.3, degree_exponent=2.6, seed=23),
        "planted_dense": Planted(5_000, 20, 40, 0.6, degree_exponent=3.5, seed=24),
        "planted_unequal": Planted(20_000, 25, 9, 0.35, 2.4, size_exponent=1.8, seed=25),
        "planted_trees": Planted(20_000, 7, 9, 0.35, 2.2, hung=0.4, seed=26),
        "planted_many": Planted(30_000, 200, 14, 0.35, seed=27),
        "planted_two": Planted(6_000, 2, 6, 0.4, 2.2, size_exponent=3.0, hung=0.2, seed=28),
    },
}


def planted(model: Planted) -> tuple[Any, Any]:
    """Symmetric 0/1 adjacency (n, n), CSR, and blocks (n,), from ends of edges tied at random.

    Nodes have their degrees but for what loops and repeated edges take away. O(edges) memory.
    """
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(model.seed)
    core = round(model.n * (1 - model.hung))
    sizes = np.ones(model.k)
    if model.size_exponent is not None:
        sizes = _power_law(rng, model.k, model.size_exponent, largest=30.0)
    blocks = rng.choice(model.k, size=core, p=sizes / sizes.sum()).astype(np.int16)

    weight = _power_law(rng, core, model.degree_exponent, largest=core**0.5)
    wanted = weight * (model.mean_degree / weight.mean())
    degrees = np.maximum(1, np.floor(wanted + rng.random(core)).astype(np.int64))
    ends = np.repeat(np.arange(core, dtype=np.int32), degrees)
    rng.shuffle(ends)
    anywhere = rng.random(len(ends)) < model.mixing
    within = ends[~anywhere]
    within = within[np.argsort(blocks[within], kind="stable")]
    pairs = [_tied(ends[anywhere]), _tied(within)]
    if model.hung:
        tree, blocks = _hang(rng, blocks, model.n)
        pairs.append(tree)
    i, j = np.concatenate(pairs).T
    number = rng.permutation(model.n).astype(np.int32)  # or the order would tell the blocks
    W = sp.coo_matrix((np.ones(len(i), np.float32), (number[i], number[j])), (model.n,) * 2).tocsr()
    W.setdiag(0)
    W = (W + W.T).tocsr()
    W.eliminate_zeros()
    W.data[:] = 1
    y = np.empty(model.n, dtype=np.int64)
    y[number] = blocks
    return W, y


def _power_law(rng: Any, n: int, exponent: float, largest: float) -> Any:
    """n numbers in [1, largest] of density x^-exponent, by inversion."""
    a = 1 - exponent
    return (1 - rng.random(n) * (1 - largest**a)) ** (1 / a)


def _tied(ends: Any) -> Any:
    """Neighbours in the list become edges (m, 2); an odd last end stays free."""
    return ends[: len(ends) // 2 * 2].reshape(-1, 2)


def _hang(rng: Any, blocks: Any, n: int) -> tuple[Any, Any]:
    """Edges of nodes that hang on one node before them each, and blocks of all n nodes."""
    import numpy as np

    core = len(blocks)
    parent = np.arange(n, dtype=np.int32)
    parent[core:] = (rng.random(n - core) * np.arange(core, n)).astype(np.int32)
    edges = np.column_stack([np.arange(core, n, dtype=np.int32), parent[core:]])
    while parent.max() >= core:
        parent = parent[parent]
    return edges, blocks[parent]


def write(path: Path, W: Any, y: Any) -> None:
    """An npz of the form of `graphs/NAME.npz` of the data folder."""
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    shape = np.array(W.shape)
    np.savez_compressed(path, data=W.data, indices=W.indices, indptr=W.indptr, shape=shape, y=y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    names = [name for group in MODELS.values() for name in group]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    asked = parser.parse_args()
    for group, models in MODELS.items():
        for name in models.keys() & set(asked.only):
            common.say(f"{group}/{name}: {models[name]}")
            write(asked.folder / group / f"{name}.npz", *planted(models[name]))


if __name__ == "__main__":
    main()
