"""The small valid files that `fuzz.py` mutates, and what is asked of each."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import scipy.io
import scipy.sparse as sp

N, K = 48, 3
INFO = ("info", "--json")


@dataclass(frozen=True)
class Case:
    """A file, and command lines to be run beside it; FILE stands for its name in them."""

    path: Path
    commands: tuple[tuple[str, ...], ...]


def _data(name, *, plain=True):
    """Command lines for a file of points or a graph."""
    end = ("-o", "out.h5", "--quiet", "--json")
    found = [
        ("info", name, "--json"),
        ("cluster", name, "-k", str(K), *end),
        ("cluster", name, "-k", str(K), "--labels", "good.csv", "-m", "csp", *end),
        ("propagate", name, "--labels", "good.csv", "-m", "gfhf", *end),
        ("graph", name, *end),
    ]
    return tuple([*found, ("info", name)] if plain else found)


def _labels(name):
    end = ("-o", "out.h5", "--quiet", "--json")
    return (
        ("score", name, "--json"),
        ("score", "good.h5", "--truth", name, "--json"),
        ("cluster", "good.h5", "-k", str(K), "--labels", name, *end),
        ("propagate", "good.h5", "--labels", name, "-m", "gfhf", *end),
    )


def _pairs(name):
    end = ("-o", "out.h5", "--quiet", "--json")
    return (
        ("score", "good.h5", "--constraints", name, "--json"),
        ("cluster", "good.h5", "-k", str(K), "--constraints", name, *end),
    )


def make(folder: Path) -> list[Case]:
    """Write the corpus, a handful of points in three groups in every format; returns its cases."""
    from mustlink.neighbors import knn_graph
    from mustlink_io.formats import matrices
    from mustlink_io.hdf5 import writing

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    y = np.arange(N) % K
    X = (rng.normal(size=(N, 3)) + 6 * np.eye(3)[y]).astype(np.float32)
    graph = knn_graph(X, n_neighbors=6, random_state=0).affinity.tocsr()
    few = np.where(rng.random(N) < 0.3, y, -1)
    pairs = rng.integers(0, N, (12, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    side = {"/labels": few, "/constraints/pairs": pairs, "/constraints/belief": belief}

    writing.write(folder / "good.h5", {"/points": X, "/labels": y})
    (folder / "good.csv").write_text("".join(f"{label}\n" for label in few))
    writing.write(folder / "contiguous.h5", {"/points": X, **side})
    writing.write(folder / "graph.h5", {**matrices.graph_content(graph, {"kind": "knn"}), **side})
    for name, options in (("chunked", {}), ("latest", {"libver": "latest"})):
        with h5py.File(folder / f"{name}.h5", "w", **options) as file:
            _chunked(file, X, few, graph, pairs, belief)
    _anndata(folder / "cells.h5ad", X, graph)
    side_file = str(_csv(folder, pairs, belief))
    _quietly(
        ["cluster", str(folder / "good.h5"), "-k", str(K), "--constraints", side_file,
         "-o", str(folder / "result.h5"), "--quiet", "--json"]
    )  # fmt: skip
    np.save(folder / "points.npy", X)
    np.save(folder / "labels.npy", few)
    np.savez_compressed(folder / "points.npz", X=X, y=few)
    np.savez(folder / "stored.npz", X=X, y=few)
    sp.save_npz(folder / "graph.npz", graph)
    scipy.io.mmwrite(folder / "graph.mtx", sp.coo_matrix(graph), symmetry="symmetric")
    scipy.io.mmwrite(folder / "dense.mtx", X)
    np.savetxt(folder / "points.csv", X, delimiter=",", fmt="%.6g", header="a,b,c", comments="")
    edges = sp.coo_matrix(sp.triu(graph))
    np.savetxt(
        folder / "graph.edges", np.c_[edges.row, edges.col, edges.data], fmt=("%d", "%d", "%g")
    )
    known = np.flatnonzero(few >= 0)
    (folder / "few.csv").write_text(
        "node,label\n" + "".join(f"{node},{few[node]}\n" for node in known)
    )
    names = {
        "contiguous.h5": (*_data("contiguous.h5"), *_labels("contiguous.h5"),
                          *_pairs("contiguous.h5")),
        "chunked.h5": (*_data("chunked.h5"), *_labels("chunked.h5"), *_pairs("chunked.h5"),
                       *_data("chunked.h5:graph")),
        "latest.h5": (*_data("latest.h5"), *_labels("latest.h5"), *_pairs("latest.h5"),
                      *_data("latest.h5:graph")),
        "graph.h5": (*_data("graph.h5"), *_labels("graph.h5"),
                     ("score", "good.h5", "--graph", "graph.h5", "--json")),
        "result.h5": (("info", "result.h5"), ("info", "result.h5", "--json"),
                      *_labels("result.h5")),
        "cells.h5ad": (*_data("cells.h5ad"), *_data("cells.h5ad:obsp/connectivities"),
                       *_data("cells.h5ad:obsm/X_pca", plain=False)),
        "points.npy": _data("points.npy"),
        "labels.npy": _labels("labels.npy"),
        "points.npz": (*_data("points.npz"), *_labels("points.npz")),
        "stored.npz": (*_data("stored.npz"), *_labels("stored.npz")),
        "graph.npz": _data("graph.npz"),
        "graph.mtx": _data("graph.mtx"),
        "dense.mtx": _data("dense.mtx"),
        "points.csv": _data("points.csv"),
        "graph.edges": _data("graph.edges"),
        "few.csv": _labels("few.csv")[1:],
        "pairs.csv": _pairs("pairs.csv"),
    }  # fmt: skip
    # HDF5 is what the fuzzer is about: those files come up four times as often
    return [
        Case(folder / name, commands)
        for name, commands in names.items()
        for _ in range(4 if ".h5" in name else 1)
    ]


def _quietly(command):
    """Run a command line in this process, which has its kernels compiled from then on."""
    from mustlink_io.commands import cli

    with contextlib.redirect_stdout(io.StringIO()):
        code = cli.run(command)
    if code:
        raise SystemExit(f"{command}: exit code {code}")


def _csv(folder, pairs, belief):
    lines = [f"{i},{j},{w:g}\n" for (i, j), w in zip(pairs, belief, strict=True)]
    path = folder / "pairs.csv"
    path.write_text("i,j,belief\n" + "".join(lines))
    return path


def _chunked(file, X, labels, graph, pairs, belief):
    """Chunks of every kind: gzip, shuffle, checksum, lzf, none, resizable."""
    file.create_dataset(
        "X", data=X, chunks=(10, 2), compression="gzip", shuffle=True, fletcher32=True
    )
    file.create_dataset("y", data=labels, chunks=(7,), maxshape=(None,), compression="lzf")
    group = file.create_group("graph")
    group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", graph.shape
    group.create_dataset("data", data=graph.data, chunks=(50,), compression="gzip")
    group.create_dataset("indices", data=graph.indices, chunks=(50,), shuffle=True)
    group.create_dataset("indptr", data=graph.indptr, chunks=(N + 1,))
    file.create_dataset("constraints/pairs", data=pairs, chunks=(5, 2), maxshape=(None, 2))
    file.create_dataset("constraints/belief", data=belief, chunks=(5,), fletcher32=True)


def _anndata(path, X, graph):
    with h5py.File(path, "w") as file:
        for name, matrix in (("X", sp.csr_matrix(X)), ("obsp/connectivities", graph)):
            group = file.create_group(name)
            group.attrs["encoding-type"], group.attrs["encoding-version"] = "csr_matrix", "0.1.0"
            group.attrs["shape"] = matrix.shape
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(matrix, part), compression="gzip")
        file["obsm/X_pca"] = X[:, :2]
        file["obs/kind"] = [f"cell {i}" for i in range(N)]
        file["obs"].attrs["column-order"] = ["kind"]


def warm_up(corpus: list[Case], folder: Path) -> dict:
    """Run every command on the valid files; returns their results, which must all be readable."""
    import fuzz

    expected = {}
    for case in {case.path: case for case in corpus}.values():
        for command in case.commands:
            folder.mkdir()
            for path in case.path.parent.iterdir():
                if path.name.startswith("good.") or path == case.path:
                    (folder / path.name).symlink_to(path)
            status, _, _ = fuzz.run_elsewhere(command, folder)
            found = result(folder, (folder / ".out").read_text())
            if status or isinstance(found, str):
                raise SystemExit(f"{command}: {status} {found} {(folder / '.err').read_text()}")
            expected[case.path.name, command] = found
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    return expected


def result(folder: Path, out: str):
    """What a run came to, to be compared; a text when it cannot be read back."""
    path = folder / "out.h5"
    if not path.exists():
        return ("said", out) if out.strip() else "no output"
    try:
        answer = json.loads(out)
        with h5py.File(path) as file:
            read = {name: file[name][()] for name in ("labels", "graph/indptr") if name in file}
            n = {"labels": 0, "graph/indptr": 1}
            for name, values in read.items():
                if len(values) - n[name] != answer["n_nodes"] or values.min() < -1:
                    return f"{name} in the output do not fit"
            if not read:
                return "neither labels nor a graph in the output"
            return ("wrote", *(values.tobytes() for values in read.values()))
    except (OSError, ValueError, KeyError) as error:
        return f"output not readable: {error}"
