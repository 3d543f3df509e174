"""The HDF5 format: what is written is read back, and what cannot be trusted is refused."""

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.formats import points as points_
from mustlink_io.hdf5 import schema, store, writing
from mustlink_io.jobs import info


def some_graph(n=12, seed=0):
    upper = sp.random(n, n, 0.3, random_state=seed, format="csr")
    return sp.csr_matrix(upper + upper.T)


def leftovers(folder):
    return [p.name for p in Path(folder).iterdir() if p.name.endswith(".tmp")]


def test_every_part_survives_a_round_trip(tmp_path):
    graph, path = some_graph(), tmp_path / "all.h5"
    points = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    content = {
        "/points": points,
        **matrices.graph_content(graph, {"kind": "knn", "recall": 0.99}),
        "/labels": np.arange(12) - 1,
        "/constraints/pairs": [[0, 1], [2, 3]],
        "/constraints/belief": [1, -0.5],
        "/embedding": np.ones((12, 2)),
        "/eigenvalues": [0.0, 0.5],
        "/stages/name": ["kNN graph", "naïve"],
        "/stages/seconds": [1.5, 2],
        "/stages/peak_bytes": [10, 20],
        "/report": json.dumps({"notes": ["ü"]}),
        "/@parameters": "{}",
    }
    writing.write(path, content)
    assert (formats.load(f"{path}:points").value == points).all()
    assert abs(formats.load(f"{path}:/graph").value - graph).max() == 0
    assert formats.load(str(path)).kind == "points"
    assert formats.load(str(path), want="graph").kind == "graph"
    assert formats.load_classes(str(path), 12).codes.tolist() == list(range(-1, 11))
    pairs, belief = formats.load_pairs(str(path))
    assert pairs.tolist() == [[0, 1], [2, 3]]
    assert belief.tolist() == [1, -0.5]
    with store.open_h5(path) as file:
        assert file.attrs["mustlink-format"] == schema.FORMAT
        assert store.text(file["/stages/name"][1]) == "naïve"
        assert json.loads(store.text(file["/report"][()])) == {"notes": ["ü"]}
        assert file["/labels"].dtype == np.int64
        assert file["graph"].attrs["encoding-type"] == "csr_matrix"
    assert not leftovers(tmp_path)


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 10**6), st.booleans())
def test_any_csr_survives_a_round_trip(tmp_path_factory, n, density, seed, single):
    graph = sp.random(n, n, density, random_state=seed, format="csr")
    graph = graph.astype(np.float32 if single else np.float64)
    path = tmp_path_factory.mktemp("csr") / "g.h5"
    writing.write(path, matrices.graph_content(graph))
    back = formats.load(str(path)).value
    assert back.shape == graph.shape
    assert back.dtype == graph.dtype
    assert (back != graph).nnz == 0


def test_the_writer_obeys_the_table(tmp_path):
    with pytest.raises(InputError, match=r"/labels: shape \(3,\).*n = 4"):
        writing.write(tmp_path / "a.h5", {"/points": np.ones((4, 2)), "/labels": [0, 1, 2]})
    with pytest.raises(InputError, match=r"/constraints/pairs: shape \(2, 3\)"):
        writing.write(tmp_path / "a.h5", {"/constraints/pairs": np.ones((2, 3), int)})
    with pytest.raises(InputError, match=r"/points: values of type complex128"):
        writing.write(tmp_path / "a.h5", {"/points": np.ones((2, 3), complex)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "out.h5"
    path.write_bytes(b"old")

    def interrupted():
        with writing.atomic(path) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert path.read_bytes() == b"old"
    assert not leftovers(tmp_path)


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.h5"
    path.write_bytes(b"old")

    def full():
        with writing.atomic(path):
            raise OSError(28, os.strerror(28))

    with pytest.raises(InputError, match=r"out.h5: was not written: No space"):
        full()
    assert path.read_bytes() == b"old"
    assert not leftovers(tmp_path)


def test_writing_through_a_link_keeps_the_link_and_the_permissions(tmp_path):
    real, link = tmp_path / "real.h5", tmp_path / "link.h5"
    real.write_bytes(b"")
    real.chmod(0o640)
    link.symlink_to(real)
    with writing.atomic(link) as temporary:
        temporary.write_bytes(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_outputs_that_cannot_be_written_are_found_early(tmp_path):
    source = tmp_path / "in.h5"
    source.write_bytes(b"x")
    (tmp_path / "same.h5").symlink_to(source)
    with pytest.raises(InputError, match=r"cannot be written: Not a directory"):
        writing.check_output(source / "below.h5")
    with pytest.raises(InputError, match=r"cannot be written: no folder .*/no; make it first"):
        writing.check_output(tmp_path / "no/where.h5")
    with pytest.raises(InputError, match=r"is a directory"):
        writing.check_output(tmp_path)
    with pytest.raises(InputError, match=r"is the input itself"):
        writing.check_output(tmp_path / "same.h5", [source])
    assert writing.check_output(tmp_path / "fine.h5", [source]) == tmp_path / "fine.h5"
    assert not leftovers(tmp_path)
    assert not (tmp_path / "fine.h5").exists()


def test_devices_and_pipes_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(InputError, match=r"is a device or pipe"):
            writing.check_output(path)
        with pytest.raises(InputError, match=r"is a device or pipe"):
            writing.write(path, {"/labels": [0, 1]})


def test_missing_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "x.h5"
    with pytest.raises(InputError, match=r"x.h5: no such file"):
        formats.load(str(path))
    writing.write(path, {"/points": np.ones((2000, 4), np.float32)})
    whole = path.read_bytes()
    for size in (0, 7, 500, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"not an HDF5 file, truncated or damaged"):
            formats.load(str(path))
    with pytest.raises(InputError, match=r"is a directory"):
        formats.load(str(tmp_path))


def test_a_damaged_compressed_chunk_is_one_error(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        data = np.random.default_rng(0).normal(size=(500, 8))
        file.create_dataset("points", data=data, chunks=(100, 8), compression="gzip")
        at = file["points"].id.get_chunk_info(2).byte_offset
    whole = bytearray(path.read_bytes())
    whole[at : at + 50] = bytes(50)
    path.write_bytes(bytes(whole))
    with pytest.raises(InputError, match=r"chunk at \(200, 0\) is damaged"):
        formats.load(str(path))


@pytest.mark.thorough
def test_files_with_flipped_bytes_end_in_a_result_or_one_error(tmp_path):
    # without text of variable length: its heap, damaged, can hang the HDF5 library itself
    path, rng = tmp_path / "x.h5", np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=rng.normal(size=(50, 4)), chunks=(10, 4), compression="gzip")
        file["labels"] = np.arange(50)
        group = file.create_group("graph")
        group.attrs["shape"] = (12, 12)
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(some_graph(), part)
    whole = path.read_bytes()
    used = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8))
    errors = []
    for _ in range(30):
        broken = bytearray(whole)
        for at in rng.choice(used, 2):
            broken[at] = rng.integers(256)
        path.write_bytes(bytes(broken))
        for read in (
            lambda: formats.load(f"{path}:X"),
            lambda: formats.load(f"{path}:graph"),
            lambda: formats.load_classes(str(path), 50).codes,
            lambda: info.describe(str(path)),
        ):
            try:
                read()
            except InputError as error:
                errors.append(str(error))
    assert 5 < len(errors) < 115
    assert [words for words in errors if "x.h5" not in words or "\n" in words] == []


def test_nothing_leads_out_of_the_file(tmp_path):
    secret, path = tmp_path / "secret.h5", tmp_path / "x.h5"
    writing.write(secret, {"/points": np.ones((4, 2))})
    with h5py.File(path, "w") as file:
        file["points"] = h5py.ExternalLink(str(secret), "/points")
        file["X"] = h5py.SoftLink("/points")
        file["good"] = h5py.SoftLink("/there/real")
        file["there/real"] = np.ones((3, 2))
        file["a"] = h5py.SoftLink("/b")
        file["b"] = h5py.SoftLink("/a")
        layout = h5py.VirtualLayout((4, 2), "f8")
        layout[:] = h5py.VirtualSource(str(secret), "points", (4, 2))
        file.create_virtual_dataset("virtual", layout)
        raw = tmp_path / "raw.bin"
        raw.write_bytes(bytes(64))
        file.create_dataset("outside", (4, 2), "f8", external=[(str(raw), 0, 64)])
    for name, words in [
        ("points", "an external link"),
        ("X", "an external link"),
        ("a", "round in a circle"),
        ("virtual", "a virtual dataset"),
        ("outside", "stored in another file"),
    ]:
        with pytest.raises(InputError, match=words):
            formats.load(f"{path}:{name}")
    assert formats.load(f"{path}:good").value.shape == (3, 2)


def test_sizes_that_were_only_declared_are_not_allocated(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("points", (10**9, 1000), "f4")
        file.create_dataset("X", (10**9, 1000), "f4", chunks=(1000, 1000), compression="gzip")
        file.create_dataset("null", data=h5py.Empty("f4"))
    with pytest.raises(InputError, match=r"never written"):
        formats.load(f"{path}:points")
    with pytest.raises(InputError, match=r"0 of 1000000 chunks"):
        formats.load(f"{path}:X")
    with pytest.raises(InputError, match=r"null"):
        formats.load(f"{path}:null")


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["mustlink-format"] = schema.FORMAT + 1
    with pytest.raises(InputError, match=r"update mustlink"):
        formats.load(str(path))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("indptr", [0, 2, 1, 3], "non-decreasing"),
        ("indptr", [1, 2, 2, 3], "should start with 0"),
        ("indptr", [0, 1, 2, 4], "Last value of index pointer"),
        ("indptr", [0, 3], "index pointer size 2 should be 4"),
        ("indices", [0, 3, 1], "indices must be < 3"),
        ("indices", [0, -1, 1], "indices must be >= 0"),
        ("indices", [0.0, 1.0, 1.0], "integers"),
        ("data", [1.0, 2.0], "indices and data should have the same size"),
        ("data", [[1.0, 2.0, 3.0]], "one dimension"),
    ],
)
def test_csr_arrays_are_checked_before_use(tmp_path, name, value, words):
    arrays = {"data": [1.0, 2.0, 2.0], "indices": [0, 2, 1], "indptr": [0, 1, 2, 3], name: value}
    path = tmp_path / "g.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("graph")
        group.attrs["shape"] = (3, 3)
        for key, array in arrays.items():
            group[key] = np.asarray(array)
    with pytest.raises(InputError, match=words):
        formats.load(str(path))


def test_a_graph_group_must_say_what_it_is(tmp_path):
    path = tmp_path / "g.h5"
    writing.write(path, matrices.graph_content(some_graph()))
    with h5py.File(path, "r+") as file:
        file["graph"].attrs["encoding-type"] = "coo_matrix"
    with pytest.raises(InputError, match=r"encoding 'coo_matrix'"):
        formats.load(str(path))
    with h5py.File(path, "r+") as file:
        file["graph"].attrs["encoding-type"] = "csr_matrix"
        del file["graph"].attrs["shape"]
    with pytest.raises(InputError, match=r"attribute `shape`"):
        formats.load(str(path))


def test_points_come_in_blocks_of_whole_chunks(tmp_path):
    path = tmp_path / "x.h5"
    data = np.random.default_rng(0).normal(size=(1003, 7))
    with h5py.File(path, "w") as file:
        file.create_dataset("points", data=data, chunks=(64, 7), compression="gzip")
        blocks = list(points_.row_blocks(file["points"], block_bytes=150 * 7 * 8))
    assert [start for start, _ in blocks] == list(range(0, 1003, 128))
    assert (np.concatenate([block for _, block in blocks]) == data).all()
    seen = []
    points = points_.read_points(data, "here", seen.append)
    assert points.dtype == np.float32
    assert seen[-1] == 1


def test_rows_with_nan_or_infinity_are_named():
    data = np.ones((100, 3))
    data[3], data[50], data[99, 1] = np.nan, np.inf, 1e300
    with pytest.raises(InputError, match=r"f.h5: 3 rows with NaN, Inf .*\(rows 3, 50, 99,"):
        points_.read_points(data, "f.h5")
    data[:] = np.nan
    with pytest.raises(
        InputError, match=r"100 rows have missing values .* 3 columns, .* row 0, column 0"
    ):
        points_.read_points(data, "f.h5")


def test_checksum_by_blocks(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    seen = []
    digest = formats.sha256(path, seen.append, block_bytes=2)
    assert digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert seen == [2 / 3, 1]
