"""Every input format, and what is said of those that cannot be used."""

import pickle
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.jobs.on_disk import shape_of

POINTS = np.arange(12.0).reshape(6, 2)


def dense(text, **options):
    found = formats.load(str(text), **options)
    return found.kind, found.value if found.kind == "points" else found.value.toarray()


def ring(n=5):
    eye = np.eye(n)
    return sp.csr_matrix(np.roll(eye, 1, 0) + np.roll(eye, -1, 0))


def test_points_from_every_format(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "only.npz", whatever=POINTS)
    np.savez(tmp_path / "x.npz", X=POINTS, y=np.zeros(6))
    np.savez(tmp_path / "other.npz", first=POINTS, second=POINTS + 1)
    (tmp_path / "plain.csv").write_text("".join(f"{a},{b}\n" for a, b in POINTS))
    (tmp_path / "head.csv").write_text(
        "# note\nheight;width\n" + "\n".join(f"{a};{b}" for a, b in POINTS)
    )
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = POINTS.astype(np.int16)
    scipy.io.mmwrite(tmp_path / "dense.mtx", POINTS)
    names = ["a.npy", "only.npz", "x.npz", "other.npz:first", "plain.csv", "head.csv", "x.h5"]
    for name in [*names, "x.h5:X", "x.h5:/X", "dense.mtx"]:
        kind, value = dense(tmp_path / name)
        assert kind == "points", name
        assert value.dtype == np.float32
        assert (value == POINTS).all(), name


def test_graphs_from_every_format(tmp_path):
    graph = ring()
    for kind in ("csr", "csc", "coo"):
        sp.save_npz(tmp_path / f"{kind}.npz", graph.asformat(kind))
    np.savez(
        tmp_path / "plain.npz",
        data=graph.data, indices=graph.indices, indptr=graph.indptr, shape=graph.shape,
        y=np.zeros(5, int),
    )  # fmt: skip
    scipy.io.mmwrite(tmp_path / "s.mtx", sp.coo_matrix(graph), symmetry="symmetric")
    (tmp_path / "e.edges").write_text("# a ring\n0 1\n1 2\n2 3\n3 4\n4 0\n0 4\n")
    for name in ["csr.npz", "csc.npz", "coo.npz", "plain.npz", "s.mtx", "e.edges"]:
        kind, value = dense(tmp_path / name)
        assert kind == "graph", name
        assert (value == graph.toarray()).all(), name
    np.save(tmp_path / "square.npy", graph.toarray())
    assert dense(tmp_path / "square.npy")[0] == "points"
    assert dense(tmp_path / "square.npy", want="graph")[0] == "graph"
    assert dense(tmp_path / "csr.npz", want="points")[0] == "points"
    np.save(tmp_path / "a.npy", POINTS)
    with pytest.raises(InputError, match=r"shape \(6, 2\), but an affinity matrix is square"):
        formats.load(str(tmp_path / "a.npy"), want="graph")


@pytest.mark.parametrize("size", [1e308, 1e200, 1e-200, 5e-324])
def test_weights_of_any_size_are_a_graph(tmp_path, size):
    sp.save_npz(tmp_path / "g.npz", ring() * size)
    graph = ml.Graph.from_affinity(formats.load(str(tmp_path / "g.npz")).value)
    expected = np.ldexp((ring() * size).toarray(), graph.info["scaled"])
    assert 1 <= expected.max() < 2
    assert (graph.affinity.toarray() == expected).all()


def test_edges_are_symmetrised_by_the_largest_weight(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_text("% other comment\n0\t1\t2\n1\t0\t5\n2\t2\t1\n0\t1\t3\n4\t2\t0.5\n")
    found = formats.load(str(path)).value.toarray()
    expected = np.zeros((5, 5))
    expected[0, 1] = expected[1, 0] = 5
    expected[2, 2] = 1
    expected[2, 4] = expected[4, 2] = 0.5
    assert (found == expected).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("0 1 2 3\n", "4 columns"),
        ("# nothing\n", "empty"),
        ("", "empty"),
    ],
)
def test_bad_edge_lists(tmp_path, words, message):
    path = tmp_path / "g.edges"
    path.write_text(words)
    with pytest.raises(InputError, match=message):
        formats.load(str(path))


def test_bad_tables(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n1,2\n3,\n")
    with pytest.raises(InputError, match=r"1 row has missing .* row 1, column 'b'; .*--impute"):
        formats.load(str(path), steps=Preparation(standardize="standard"))
    path.write_text("1,2\n3,4,5\n")
    with pytest.raises(
        InputError, match=r"line 2, '3,4,5': has 3 columns, but the first line has 2"
    ):
        formats.load(str(path))
    path.write_text("a,b\n")
    with pytest.raises(InputError, match=r"no values below"):
        formats.load(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"not a text file"):
        formats.load(str(path))
    path.write_text("1,2\nnan,4\n")
    with pytest.raises(InputError, match=r"1 row has missing values .* row 1, column 0;"):
        formats.load(str(path), steps=Preparation(standardize="standard"))


@pytest.mark.parametrize("header", ["customer_id,a,b", "a,customer_id,b", "customer_id,a,b,c"])
def test_a_column_of_text_among_coordinates_is_named(tmp_path, header):
    path = tmp_path / "p.csv"
    cells = ["c_0" if name == "customer_id" else "0.5" for name in header.split(",")]
    path.write_text(f"{header}\n{','.join(cells)}\n")
    with pytest.raises(
        InputError, match=r"p.csv: column 'customer_id' is text, .* name it by --id"
    ):
        formats.load(str(path), steps=Preparation(standardize="standard"))
    with pytest.raises(InputError, match=r"p.csv: no column says anything .*customer_id: text"):
        formats.load(str(path))


@pytest.mark.parametrize(
    ("header", "doubted"),
    [
        ("id,a,b", "id"),
        ("a,b,Customer_ID", "Customer_ID"),
        ("a,index,b", None),  # numbers that recur number no rows
        ("a,b,Label", "Label"),
        ("target,a,b", "target"),
        ("a,b,y", "y"),
        ("x,z,y", None),
        ("a,b,width", None),
        ("node,a,b", None),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_coordinate_that_numbers_or_labels_rows_is_doubted(tmp_path, header, doubted, ending):
    columns = dict(zip(header.split(","), [[10, 12, 11], [7, 7, 9], [3, 1, 2]], strict=True))
    path = tmp_path / f"p.{ending}"
    frame = pd.DataFrame(columns)
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    found = formats.load(str(path))
    assert found.kind == "points"
    if doubted is None:
        assert found.warnings == ()
    else:
        (doubt,) = found.warnings
        assert f"column {doubted!r} is taken as a coordinate" in doubt
        assert "leave it out" in doubt


def test_nothing_is_ever_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    objects = np.empty(1, dtype=object)
    objects[0] = Trap()
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=objects)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Trap()))
    for name in ("a.npy", "a.npz", "b.npy", "b.npz"):
        with pytest.raises(InputError, match=r"cannot be read|Python objects"):
            formats.load(str(tmp_path / name))
        with pytest.raises(InputError):
            formats.load_classes(str(tmp_path / name))


def test_damaged_archives_and_unknown_endings(tmp_path):
    np.savez(tmp_path / "x.npz", X=POINTS)
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:-30])
    np.save(tmp_path / "x.npy", POINTS)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 1\n5 5 1\n")
    (tmp_path / "x.xlsx").write_text("?")
    for name in ("x.npz", "x.npy", "x.mtx"):
        with pytest.raises(InputError, match=name):
            formats.load(str(tmp_path / name))
    with pytest.raises(InputError, match=r"unknown ending '.xlsx'; readable are"):
        formats.load(str(tmp_path / "x.xlsx"))


def test_a_missing_dataset_lists_what_is_there(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["table/height"] = np.ones(3)
        file["cube"] = np.ones((3, 3, 3))
        file["words"] = ["a", "b"]
    with pytest.raises(InputError, match=r"it has /cube, /table/height, /words"):
        formats.load(str(tmp_path / "x.h5"))
    with pytest.raises(InputError, match=r"x.h5:nope: no such dataset; the file has /cube"):
        formats.load(str(tmp_path / "x.h5:nope"))
    with pytest.raises(InputError, match=r"x.h5:cube: 3 dimensions of shape \(3, 3, 3\)"):
        formats.load(str(tmp_path / "x.h5:cube"))
    with pytest.raises(InputError, match=r"x.h5:table: a group"):
        formats.load(str(tmp_path / "x.h5:table"))
    with pytest.raises(InputError, match=r"1 dimensions"):
        formats.load(str(tmp_path / "x.h5:words"))
    np.savez(tmp_path / "x.npz", a=POINTS, b=POINTS)
    with pytest.raises(InputError, match=r"it has a, b"):
        formats.load(str(tmp_path / "x.npz"))
    with pytest.raises(InputError, match=r"the file has a, b"):
        formats.load(str(tmp_path / "x.npz:c"))


def test_anndata_files(tmp_path):
    cells = sp.random(30, 8, 0.4, random_state=0, format="csr", dtype=np.float32)
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        for name, matrix in (("X", cells), ("obsp/connectivities", ring(30))):
            group = file.create_group(name)
            group.attrs["encoding-type"] = "csr_matrix"
            group.attrs["encoding-version"] = "0.1.0"
            group.attrs["shape"] = matrix.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(matrix, part)
        file["obsm/X_pca"] = np.ones((30, 4))
    kind, value = dense(tmp_path / "cells.h5ad:X")
    assert kind == "points"
    assert (value == cells.toarray()).all()
    assert dense(tmp_path / "cells.h5ad")[1].shape == (30, 4)
    assert dense(tmp_path / "cells.h5ad:obsp/connectivities")[0] == "graph"
    shape = shape_of(str(tmp_path / "cells.h5ad"))
    assert (shape.n, shape.d) == (30, 4)


def test_labels_from_every_format(tmp_path):
    labels = np.array([0, -1, 2])
    np.save(tmp_path / "y.npy", labels)
    np.savez(tmp_path / "y.npz", y=labels, X=np.ones((3, 2)))
    (tmp_path / "y.txt").write_text("0\n-1\n2\n")
    (tmp_path / "y.csv").write_text("label\n0\n-1\n2\n")
    (tmp_path / "few.csv").write_text("node,label\n2,2\n0,0\n")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["labels"] = labels
        file["float"] = labels.astype(float)
    for name in ("y.npy", "y.npz", "y.npz:y", "y.txt", "y.csv", "few.csv", "y.h5", "y.h5:float"):
        found = formats.load_classes(str(tmp_path / name), 3).codes
        assert found.dtype == np.int64
        assert (found == labels).all(), name


def test_bad_labels(tmp_path):
    path = tmp_path / "y.txt"
    path.write_text("0\n1\n")
    with pytest.raises(InputError, match=r"2 labels, but the data has 3 nodes"):
        formats.load_classes(str(path), 3)
    path.write_text("0\n1.5\n")
    with pytest.raises(InputError, match=r"label 1 is 1.5, not a whole number"):
        formats.load_classes(str(path))
    path.write_text("0\n-2\n")
    with pytest.raises(InputError, match=r"label 1 is -2"):
        formats.load_classes(str(path))
    path.write_text("0,1\n")
    with pytest.raises(InputError, match=r"2 columns"):
        formats.load_classes(str(path))
    path.write_text("node,label\n5,0\n")
    with pytest.raises(InputError, match=r"row 0 names node 5"):
        formats.load_classes(str(path), 3)
    np.save(tmp_path / "y.npy", np.ones((3, 1)))
    with pytest.raises(InputError, match=r"shape \(3, 1\)"):
        formats.load_classes(str(tmp_path / "y.npy"), 4)
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["points"] = np.ones((3, 2))
    with pytest.raises(InputError, match=r"/labels: no such dataset; the file has /points"):
        formats.load_classes(str(tmp_path / "y.h5"))
    with pytest.raises(InputError, match=r"shape \(3, 2\), but \(n,\) is wanted"):
        formats.load_classes(str(tmp_path / "y.h5:points"))


def test_pairs(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("i,j,belief\n0,1,1\n2,3,-0.5\n")
    pairs, belief = formats.load_pairs(str(path))
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[0, 1], [2, 3]]
    assert belief.tolist() == [1, -0.5]
    for words, message in [
        ("0,1,1\n", "must be the header"),
        ("i,j\n0,1\n", "no column `belief`; write 1 for a must-link and -1"),
        ("i,j,belief\n0,1.5,1\n", "pair 0 is 1.5, not a whole number"),
        ("i,j,belief\n0,1,yes\n", "line 2: the belief 'yes' is not a number"),
    ]:
        path.write_text(words)
        with pytest.raises(InputError, match=message):
            formats.load_pairs(str(path))
    with h5py.File(tmp_path / "p.h5", "w") as file:
        file["side/pairs"] = np.array([[0, 1], [2, 3]], np.uint32)
        file["side/belief"] = np.array([1, -1])
        file["bad/pairs"] = np.ones((2, 3), int)
        file["bad/belief"] = np.ones(3)
        file["worse/pairs"] = np.ones((2, 2), int)
        file["worse/belief"] = np.ones(3)
    assert formats.load_pairs(str(tmp_path / "p.h5:side"))[1].tolist() == [1, -1]
    assert formats.load_pairs(str(tmp_path / "p.h5:side/pairs"))[0].dtype == np.int64
    with pytest.raises(InputError, match=r"shape \(2, 3\)"):
        formats.load_pairs(str(tmp_path / "p.h5:bad"))
    with pytest.raises(InputError, match=r"shape \(3,\), but \(m,\) is wanted with m = 2"):
        formats.load_pairs(str(tmp_path / "p.h5:worse"))


@pytest.mark.parametrize("first", [2**60 + 1, 2**64 - 9, -(2**60)])
def test_64_bit_identifiers_are_not_rounded(tmp_path, first):
    ids = [first + i for i in range(8)]
    edges = [(a, b) for a in ids[:4] for b in ids[:4] if a < b]
    edges += [(a + 4, b + 4) for a, b in edges] + [(ids[0], ids[7])]
    lines = "\n".join(f"{a},{b}" for a, b in edges)
    points = "\n".join(f"{one},{i}.5,{-i}" for i, one in enumerate(ids))
    (tmp_path / "x.csv").write_text(f"node,a,b\n{points}\n")
    loaded = formats.load(str(tmp_path / "x.csv"))
    assert loaded.names.texts.tolist() == [str(one) for one in ids]
    assert loaded.value[:, 0].tolist() == [i + 0.5 for i in range(8)]
    data = [loaded]
    if first > 0:
        (tmp_path / "e.csv").write_text(f"source,target\n{lines}\n")
        data += [formats.load(str(tmp_path / "e.csv"))] if first < 2**63 else []
    (tmp_path / "y.csv").write_text(f"node,label\n{ids[0]},0\n{ids[6]},1\n")
    (tmp_path / "w.csv").write_text("node,weight\n" + "".join(f"{i},{i % 5}\n" for i in ids))
    (tmp_path / "p.csv").write_text(f"i,j,belief\n{ids[0]},{ids[1]},1\n{ids[1]},{ids[6]},-1\n")
    for one in data:
        y = formats.load_classes(str(tmp_path / "y.csv"), 8, one.names).codes
        assert np.flatnonzero(y >= 0).tolist() == [0, 6]
        assert formats.load_pairs(str(tmp_path / "p.csv"), one.names)[0].tolist() == [
            [0, 1],
            [1, 6],
        ]
        w = formats.load_weights(str(tmp_path / "w.csv"), 8, one.names)
        assert w.tolist() == [i % 5 for i in ids]


def test_large_whole_numbers_are_coordinates_all_the_same(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("node,a,b\nA,9007199254740993,1\nB,18446744073709551617,2\n")
    assert formats.load(str(path)).value[:, 0].tolist() == [2.0**53, 2.0**64]
    path.write_text("node,a,b\nA,9007199254740993,1\nB,1e17,2\n")
    assert formats.load(str(path)).value.shape == (2, 2)


def test_labels_of_pixels(tmp_path):
    labels = np.array([[0, -1, 1], [-1, 2, 2]])
    np.save(tmp_path / "y.npy", labels)
    found = formats.load_classes(f"{tmp_path}/y.npy", 6)
    assert found.codes.tolist() == labels.ravel().tolist()
    assert "taken row by row" in found.notes[0]
    with pytest.raises(InputError, match=r"shape \(2, 3\), but the picture has 3 rows of 2"):
        formats.load_classes(f"{tmp_path}/y.npy", 6, pixels=(3, 2))
    with pytest.raises(InputError, match=r"shape \(2, 3\) of type"):
        formats.load_classes(f"{tmp_path}/y.npy", 7)


def test_a_colon_in_a_file_name(tmp_path):
    np.save(tmp_path / "a.npz:b.npy", POINTS)
    assert dense(tmp_path / "a.npz:b.npy")[0] == "points"
    assert formats.parse("a:b/c.h5:d/e") == formats.Place(Path("a:b/c.h5"), "d/e")
    assert formats.parse("c.H5").part is None
