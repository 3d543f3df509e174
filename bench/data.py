"""Data of the measurements: generated sets, real ones of the data folder, and side information."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import runner

K, SHEETS, DIMENSION, BLOCK = 10, 10, 32, 65_536
NETWORKS = ("amazon_photo", "coauthor_phy", "polblogs", "email_eu_core", "sbm_graphchallenge_20000")

# ---------------------------------------------------------------- points


def write_points(path: str, n: int, seed: int, dimension: int = DIMENSION) -> dict[str, Any]:
    """Points (n, dimension) on 10 curved 4-dimensional sheets, and their sheet, in row blocks.

    Sheet c: x = uA + ½(1 - cos 3uC)B + noise with u uniform in a 4-dimensional cube. Rows are in
    random order.
    """
    import h5py

    from mustlink_io.hdf5 import schema, writing

    rng = np.random.default_rng(seed)
    shapes = ((4, dimension), (8, dimension), (4, 8))
    sheets = [tuple(rng.normal(size=shape) for shape in shapes) for _ in range(SHEETS)]
    y = rng.permutation(np.arange(n) % SHEETS)
    with writing.atomic(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["mustlink-format"] = schema.FORMAT
        points = file.create_dataset(
            "points", (n, dimension), dtype="f4", chunks=(min(n, BLOCK // 8), dimension)
        )
        file["labels"] = y
        for start in range(0, n, BLOCK):
            part = y[start : start + BLOCK]
            rows = np.empty((len(part), dimension), dtype=np.float32)
            for c, (A, B, C) in enumerate(sheets):
                m = int((part == c).sum())
                u = rng.random((m, 4)) - 0.5
                noise = 0.05 * rng.normal(size=(m, dimension))
                rows[part == c] = u @ A + 0.5 * (1 - np.cos(3 * u @ C)) @ B + noise
            points[start : start + len(part)] = rows
    return {}


def write_mixture(path: str, n: int, dimension: int) -> dict[str, Any]:
    """Points of 50 round clusters that fill all their dimensions: as hard for neighbours as any."""
    import h5py

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, dimension))
    with h5py.File(path, "w") as file:
        points = file.create_dataset("points", (n, dimension), dtype="f4")
        for start in range(0, n, BLOCK):
            m = min(BLOCK, n - start)
            noise = 0.5 * rng.normal(size=(m, dimension))
            points[start : start + m] = centres[rng.integers(50, size=m)] + noise
    return {}


def sheets(out: Path, n: int, dimension: int = DIMENSION) -> Path:
    """File of points on sheets, written unless it is there."""
    path = out / f"sheets-{n}x{dimension}.h5"
    if not path.exists():
        runner.say(f"writing {n:,} points")
        runner.call("data:write_points", path=path, n=n, seed=0, dimension=dimension)
    return path


def graph_of(points: Path) -> Path:
    """File of the neighbour graph of points, by `mustlink graph`, made unless it is there."""
    target = points.with_name(f"{points.stem}-graph.h5")
    if not target.exists():
        runner.say("mustlink graph")
        found = runner.command("graph", f"{points}:/points", "-o", target)
        runner.say(f"{found['n_edges']:,} edges, recall {found['info'].get('recall'):.4f}")
    return target


def labels(path: str | Path) -> Any:
    """The dataset /labels of a file."""
    import h5py

    with h5py.File(path) as file:
        return file["labels"][()]


def read_graph(path: str | Path) -> Any:
    """The graph in a file of the shell as a CSR matrix; nothing of mustlink reads it."""
    import h5py

    with h5py.File(path) as file:
        graph = file["graph"]
        parts = tuple(graph[name][()] for name in ("data", "indices", "indptr"))
        return sp.csr_matrix(parts, shape=tuple(graph.attrs["shape"]))


def satellite_like() -> tuple[Any, Any]:
    """6,435 points, 36 coordinates: 9 pixels of 4 bands, six soils of uneven sizes that overlap."""
    rng = np.random.default_rng(0)
    sizes = (1533, 703, 1358, 626, 707, 1508)  # of Statlog's, as published
    y = np.repeat(np.arange(6), sizes)
    band = rng.normal(size=(6, 4)) * 12.0
    band[3] = band[2] + rng.normal(size=4) * 4.0  # grey soils: damp ones lie between
    band[5] = band[3] + rng.normal(size=4) * 4.0
    field = rng.normal(size=(y.size, 1, 4)) * 3.0  # pixels of one place are alike
    return (band[y][:, None] + field + rng.normal(size=(y.size, 9, 4)) * 3.0).reshape(-1, 36), y


def points(name: str, most: int | None = None) -> tuple[Any, Any] | None:
    """Points and classes of a set; `most` rows by chance. None where the file is absent."""
    if name == "satellite-like":
        return satellite_like()
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    path = runner.data_file(f"{'points' if name == 'mnist' else 'uci'}/{name}.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        X, y = archive["X"], archive["y"].astype(np.int64)
        whole = archive["complete"] if "complete" in archive else np.ones(y.size, bool)
    X, y = X[whole].reshape(int(whole.sum()), -1), y[whole]
    if most is not None and most < y.size:
        some = np.sort(np.random.default_rng(0).choice(y.size, most, replace=False))
        X, y = X[some], y[some]
    return X.astype(np.float32), y


def network(path: str | Path | None) -> tuple[Any, Any] | None:
    """Adjacency (n, n), CSR, and classes (n,), -1 unknown, of an npz or a name of the folder."""
    if isinstance(path, str) and not path.endswith(".npz"):
        path = runner.data_file(f"graphs/{path}.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        parts = (archive["data"], archive["indices"], archive["indptr"])
        W = sp.csr_matrix(parts, shape=tuple(archive["shape"]))
        return W, archive["y"].astype(np.int64) if "y" in archive.files else None


def load(name: str, neighbors: int = 15) -> tuple[Any, Any] | None:
    """Graph and classes of a set; of `NAME-10000` so many rows. None without its file."""
    import mustlink as ml

    if name in NETWORKS:
        found = network(name)
        return None if found is None else (ml.Graph.from_affinity(found[0].astype(float)), found[1])
    base, _, most = name.rpartition("-")
    found = points(base, int(most)) if most.isdigit() else points(name)
    return None if found is None else (ml.knn_graph(found[0], neighbors, random_state=0), found[1])


# ---------------------------------------------------------------- networks


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


LARGE = {
    "dcsbm_1000000": Planted(1_000_000, 20, 10, 0.3, seed=1),
    "sbm_50000": Planted(50_000, 44, 40, 0.2, seed=2),
}


def planted(model: Planted) -> tuple[Any, Any]:
    """Symmetric 0/1 adjacency (n, n), CSR, and blocks (n,), from ends of edges tied at random.

    Nodes have their degrees but for what loops and repeated edges take away. O(edges) memory.
    """
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
    core = len(blocks)
    parent = np.arange(n, dtype=np.int32)
    parent[core:] = (rng.random(n - core) * np.arange(core, n)).astype(np.int32)
    edges = np.column_stack([np.arange(core, n, dtype=np.int32), parent[core:]])
    while parent.max() >= core:
        parent = parent[parent]
    return edges, blocks[parent]


# ---------------------------------------------------------------- pictures


def grabcut(source: str | Path, name: str, scribbles: str) -> tuple[Any, Any, Any]:
    """Image, strokes (1 foreground, 0 ground, -1 none), truth (128 unsure) of a photograph."""
    import h5py

    with h5py.File(source) as file:
        image, truth, painted = (file[name][key][()] for key in ("image", "gt", scribbles))
    return image, np.where(painted > 0, painted.astype(np.int64) % 2, -1), truth


def bsds(source: str | Path, name: str) -> tuple[Any, list[Any]]:
    """Image (h, w, 3) and people's segmentations (h, w) of a photograph of BSDS500."""
    import io

    import h5py
    from PIL import Image

    with h5py.File(source) as file:
        image = Image.open(io.BytesIO(file[name]["jpeg"][()].tobytes())).convert("RGB")
        return np.array(image), list(file[name]["seg"][()])


def clicks(name: str, height: int | None = None) -> tuple[Any, Any, int] | None:
    """Image, labels (h, w) of its click points (-1 elsewhere) and number of classes.

    `height` shrinks the image; 150 gives 150 x 200, the size of FAST-GE's smallest picture.
    """
    from PIL import Image

    source = runner.data_file(f"images/{name}.npz")
    if source is None:
        return None
    with np.load(source, allow_pickle=False) as archive:
        image, k = archive["image"], int(archive["n_classes"])
        at = [np.rint(archive[f"pts{c}"]).astype(int) - 1 for c in range(k)]
    full = np.array(image.shape[:2])
    if height is not None:
        width = 200 if height == 150 else round(height * full[1] / full[0])
        image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))
    shape = np.array(image.shape[:2])
    found = np.full(shape, -1, dtype=np.int64)
    for c, places in enumerate(at):
        y, x = (places[:, ::-1] * shape // full).T
        found[y, x] = c
    return image, found, k


def names(source: str | Path) -> dict[str, Any]:
    """Names of the groups of an HDF5 file."""
    import h5py

    with h5py.File(source) as file:
        return {"names": sorted(file)}


# ---------------------------------------------------------------- side information


@dataclass(frozen=True)
class Known:
    """What a fit is told: labels (n,), pairs (m, 2) with beliefs (m,), both, or nothing."""

    labels: Any = None
    pairs: Any = None
    belief: Any = None

    @property
    def nothing(self) -> bool:
        return self.labels is None and self.pairs is None

    def constraints(self, n: int) -> Any:
        """As the constraints of an estimator."""
        import mustlink as ml

        found = ml.Constraints.none(n)
        if self.labels is not None:
            found = ml.Constraints.from_labels(self.labels)
        if self.pairs is None:
            return found
        return found + ml.Constraints.from_pairs(self.pairs, belief=self.belief, n_nodes=n)


def draw(y: Any, setting: str, seed: int, wrong: float = 0.0) -> Known:
    """Side information of a setting: `none`, `5 labels` a class, or `300 pairs`.

    Pairs are of nodes whose class is known; a share `wrong` of them has the wrong sign.
    """
    if setting == "none":
        return Known()
    amount, kind = setting.replace(",", "").split()
    rng = np.random.default_rng(seed)
    if kind.startswith("label"):
        return Known(labels=labels_per_class(y, int(amount), rng))
    nodes = np.flatnonzero(y >= 0)
    pairs, belief = random_pairs(y[nodes], int(amount), rng, wrong)
    return Known(pairs=nodes[pairs], belief=belief)


def random_pairs(y: Any, m: int, rng: Any, wrong: float = 0.0) -> tuple[Any, Any]:
    """Pairs (m, 2) of random distinct nodes, belief ±1 by the classes y, a share of them wrong."""
    n = len(y)
    i = rng.integers(n, size=m)
    j = (i + 1 + rng.integers(n - 1, size=m)) % n
    belief = np.where(y[i] == y[j], 1.0, -1.0)
    flipped = rng.choice(m, size=round(wrong * m), replace=False)
    belief[flipped] *= -1
    return np.column_stack([i, j]).astype(np.int64), belief


def labels_per_class(y: Any, each: int, rng: Any) -> Any:
    """Labels (n,), -1 but for `each` nodes of every class, at most half of it but at least one."""
    given = np.full(len(y), -1, dtype=np.int64)
    for c in np.unique(y[y >= 0]):
        nodes = np.flatnonzero(y == c)
        given[rng.choice(nodes, size=min(each, max(1, len(nodes) // 2)), replace=False)] = c
    return given


def write_pairs(path: Path, pairs: Any, belief: Any) -> None:
    """Write pairs as the CSV that the command line reads."""
    rows = (f"{i},{j},{b:g}\n" for (i, j), b in zip(pairs.tolist(), belief.tolist(), strict=True))
    path.write_text("i,j,belief\n" + "".join(rows))


def write_labels(path: Path, labels: Any) -> None:
    """Write labels, one a line, as the command line reads them."""
    path.write_text("".join(f"{c}\n" for c in labels.tolist()))
