"""Files that lie, loop, swell or crash their reader: always one line, never a wrong number."""

import ast
import json
import math
import os
import resource
import subprocess
import sys
import threading
import zipfile
import zlib
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.commands import cli
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import sandbox, size_checks, store, writing
from mustlink_io.jobs import info

ROOT = Path(__file__).parents[2]
POINTS = np.arange(40.0).reshape(10, 4)


def refused(path, words, read=formats.load):
    """The one printable line that `read` ends in."""
    with pytest.raises(InputError, match=words) as caught:
        read(str(path))
    assert str(caught.value).isprintable()
    return str(caught.value)


def h5(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return path


# ---------------------------------------------------------------- values that are not there


def lying_chunk(path, raw, compression="gzip", mask=0, **options):
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "points", (1000, 4), "f4", chunks=(1000, 4), compression=compression, **options
        )
        data.id.write_direct_chunk((0, 0), raw, filter_mask=mask)
    return path


NOISE = np.random.default_rng(0).bytes(16000)


@pytest.mark.parametrize(
    "raw",
    [
        zlib.compress(NOISE[:100]),  # the library would copy 16,000 bytes out of 100
        zlib.compress(NOISE[:-1]),
        zlib.compress(NOISE + b"x"),
        zlib.compress(bytes(2**26), 9),  # 64 MB out of 65 kB
        zlib.compress(NOISE)[:-5],
        zlib.compress(NOISE)[:-4] + b"summ",
        b"nothing of the kind",
    ],
)
def test_chunks_of_gzip_hold_what_was_declared(tmp_path, raw):
    refused(lying_chunk(tmp_path / "x.h5", raw), r"chunk at \(0, 0\) is damaged")


@pytest.mark.parametrize("raw", [b"\x02abc", b"\xff\xff\xff" * 300, bytes(20), b"\x1f"])
def test_chunks_of_lzf_hold_what_was_declared(tmp_path, raw):
    refused(lying_chunk(tmp_path / "x.h5", raw, "lzf"), r"chunk at \(0, 0\) is damaged")


def test_plain_chunks_hold_what_was_declared(tmp_path):
    refused(lying_chunk(tmp_path / "x.h5", NOISE[:100], None), r"chunk at \(0, 0\) is damaged")
    path = lying_chunk(tmp_path / "y.h5", NOISE[:100], None, fletcher32=True)
    refused(path, r"chunk at \(0, 0\) is damaged")
    skipped = lying_chunk(tmp_path / "z.h5", NOISE[:100], "gzip", mask=1)  # says: not compressed
    refused(skipped, r"chunk at \(0, 0\) is damaged")


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_honest_chunks_are_read(tmp_path, compression, shuffle, checksum, libver):
    values = np.random.default_rng(1).normal(size=(57, 5)).round(1).astype("f4")
    values[20:40] = 0
    with h5py.File(tmp_path / "x.h5", "w", libver=libver, userblock_size=512) as file:
        file.create_dataset(
            "points", data=values, chunks=(10, 3), maxshape=(None, 5),
            compression=compression, shuffle=shuffle, fletcher32=checksum,
        )  # fmt: skip
        file["points"].resize(50, axis=0)
    assert (formats.load(str(tmp_path / "x.h5")).value == values[:50]).all()


def test_lzf_streams_are_counted_as_the_library_expands_them(tmp_path):
    rng = np.random.default_rng(2)
    for kind in range(30):
        values = rng.integers(0, 1 + 2 ** rng.integers(8), 3000).astype("u1")
        values[: rng.integers(3000)] = 7
        with h5py.File(tmp_path / f"{kind}.h5", "w") as file:
            file.create_dataset("x", data=values, chunks=values.shape, compression="lzf")
            mask, raw = file["x"].id.read_direct_chunk((0,))
        if mask == 0:  # it was compressed
            assert size_checks.expanded(raw, 3000) == 3000
            assert size_checks.expanded(raw, 2000) == 2001
            assert size_checks.expanded(raw[:-1], 3000) != 3000


def test_a_chunk_that_is_missing_or_elsewhere(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("points", (20, 4), "f4", chunks=(10, 4))
        data[:10] = 1
    refused(tmp_path / "x.h5", "1 of 2 chunks were written")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        data = file["points"]
        data[10:] = 1
        at = data.id.get_chunk_info(1).byte_offset
    whole = (tmp_path / "x.h5").read_bytes()
    key = whole.find(at.to_bytes(8, "little"))
    beyond = whole[:key] + (2**40).to_bytes(8, "little") + whole[key + 8 :]
    (tmp_path / "x.h5").write_bytes(beyond)
    refused(tmp_path / "x.h5", "beyond the end of the file|truncated or damaged")


@pytest.mark.parametrize("shape", [(10**9, 1000), (2**61, 8), (2**32, 2**31)])
@pytest.mark.parametrize("chunks", [None, (1000, 4)])
def test_shapes_that_were_only_declared(tmp_path, shape, chunks):
    # 2^61 x 8 overflows 64 bits: counted in them, the size would be zero
    with h5py.File(tmp_path / "x.h5", "w") as file:
        try:
            file.create_dataset("points", shape, "f4", chunks=chunks)
        except (OSError, ValueError, RuntimeError):
            pytest.skip("the library does not write this")
    refused(tmp_path / "x.h5", "never written|of .* chunks")


def test_honest_bombs_are_refused_where_they_do_not_fit(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        options = {"chunks": (2**20, 4), "compression": "gzip"}
        file.create_dataset("points", data=np.zeros((2**20, 4), "f4"), **options)
        file.create_dataset("labels", data=np.zeros(2**22, "i4"), compression="gzip")
        wide = {"chunks": (2**20, 4), "maxshape": (None, 4), "compression": "gzip"}
        file.create_dataset("few", data=np.zeros((10, 4), "f4"), **wide)  # one chunk of 16 MB
    assert (tmp_path / "x.h5").stat().st_size < 100_000
    monkeypatch.setattr(size_checks, "most_memory", lambda: 2**23)
    refused(tmp_path / "x.h5", "0.0168 GB of values are declared, but there are 0.00839 GB")
    refused(f"{tmp_path}/x.h5:few", r"\(one chunk\): 0.0168 GB")
    refused(f"{tmp_path}/x.h5", "0.0168 GB of values", formats.load_classes)


@pytest.mark.thorough
def test_a_bomb_in_a_chunk_takes_no_memory_here(tmp_path):
    packer = zlib.compressobj(9)
    raw = b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()  # 1 GB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(lying_chunk(tmp_path / "x.h5", raw), "is damaged")
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert children - before < 200_000


def test_room_is_what_a_limit_leaves():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    free = size_checks.most_memory()
    resource.setrlimit(resource.RLIMIT_AS, (2**43, hard))
    try:
        assert size_checks.most_memory() == min(free, 2**43)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    size_checks.check_fits(10, "x")
    with pytest.raises(InputError, match="of memory"):
        size_checks.check_fits(2**60, "x")


# ---------------------------------------------------------------- filters and types


@pytest.mark.parametrize(
    ("options", "name"),
    [({"compression": "szip"}, "szip"), ({"scaleoffset": 2}, "scaleoffset")],
)
def test_filters_whose_chunks_cannot_be_checked(tmp_path, options, name):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        try:
            file.create_dataset("points", data=POINTS, **options)
        except ValueError:
            pytest.skip("not in this HDF5 library")
    assert "h5repack" in refused(tmp_path / "x.h5", f"filter . \\({name}")


def test_an_unknown_filter(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((10, 4))
        properties.set_filter(32_123, h5py.h5z.FLAG_OPTIONAL, (1, 2))
        space = h5py.h5s.create_simple((10, 4))
        data = h5py.h5d.create(file.id, b"points", h5py.h5t.IEEE_F32LE, space, properties)
        data.write_direct_chunk((0, 0), bytes(160))
    refused(tmp_path / "x.h5", r"filter 32123 \(without a name\)")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "g", "i1", ">i2", "u8", "?", "f8"])
def test_numbers_of_every_kind_are_points(tmp_path, dtype):
    values = (POINTS % 2).astype(dtype)
    found = formats.load(str(h5(tmp_path / "x.h5", points=values))).value
    assert found.dtype == np.float32
    assert (found == values.astype("f4")).all()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "dtype",
    [
        "c8", "S5", h5py.string_dtype(), np.dtype([("a", "f4")]), np.dtype("(2,)f4"),
        h5py.vlen_dtype(np.dtype("f4")), h5py.ref_dtype, h5py.opaque_dtype(np.dtype("M8[s]")),
    ],
)  # fmt: skip
def test_other_types_are_no_points_labels_or_weights(tmp_path, dtype):
    plain = dtype in ("c8", "S5")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, shape in (("points", (3, 2)), ("labels", (3,)), ("graph/data", (3,))):
            file.create_dataset(name, shape, dtype, data=np.ones(shape, dtype) if plain else None)
        file["graph"].attrs["shape"] = (3, 3)
        file["graph/indices"], file["graph/indptr"] = [0, 1, 2], [0, 1, 2, 3]
    for part, read in (("", formats.load), ("", formats.load_classes), (":graph", formats.load)):
        refused(f"{tmp_path}/x.h5{part}", "type|text|dimension|never written", read)


def test_types_that_numpy_does_not_have(tmp_path):
    odd = h5py.h5t.IEEE_F32LE.copy()
    odd.set_fields(31, 20, 8, 0, 20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple((3, 2))
        for name, tid in (("odd", odd), ("time", h5py.h5t.UNIX_D32LE), ("bits", h5py.h5t.STD_B8LE)):
            h5py.h5d.create(file.id, name.encode(), tid, space).write(
                h5py.h5s.ALL, h5py.h5s.ALL, np.zeros((3, 2), "u1"), tid
            ) if name == "bits" else h5py.h5d.create(file.id, name.encode(), tid, space)
        file["named"] = np.dtype("f4")
    refused(f"{tmp_path}/x.h5:odd", "a format of their own")
    refused(f"{tmp_path}/x.h5:time", "of a type that is not read")
    refused(f"{tmp_path}/x.h5:bits", "a format of their own")
    refused(f"{tmp_path}/x.h5:named", "a named type")
    assert [one["path"] for one in info.describe(f"{tmp_path}/x.h5:named").entries]


def test_numbers_that_do_not_fit_in_64_bits_with_a_sign(tmp_path):
    huge = np.array([0, 1, 2**64 - 1], "u8")  # would be -1: "unknown"
    path = h5(tmp_path / "x.h5", labels=huge)
    refused(path, "label 2 is 18446744073709551615, too large", formats.load_classes)
    np.save(tmp_path / "x.npy", huge)
    refused(tmp_path / "x.npy", "label 2 is 18446744073709551615", formats.load_classes)
    with h5py.File(tmp_path / "p.h5", "w") as file:
        file["constraints/pairs"] = np.array([[0, 2**63]], "u8")
        file["constraints/belief"] = [1.0]
    refused(tmp_path / "p.h5", "pair 0 is 9223372036854775808", formats.load_pairs)


@pytest.mark.parametrize("shape", [(), (10,), (0, 4), (4, 0), (1,) * 32])
def test_points_of_strange_shapes(tmp_path, shape):
    refused(h5(tmp_path / "x.h5", points=np.zeros(shape)), "dimensions|holds no points")


# ---------------------------------------------------------------- sparse matrices


def csr_file(path, shape=(3, 3), **change):
    parts = {"data": [1.0, 2.0, 2.0], "indices": [0, 2, 1], "indptr": [0, 1, 2, 3], **change}
    with h5py.File(path, "w") as file:
        for name, values in parts.items():
            file[f"graph/{name}"] = values
        file["graph"].attrs["shape"] = shape
    return path


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": np.array([0, 2, 2**64 - 1], "u8")}, "is no matrix of shape"),
        ({"indptr": np.array([0, 1, 2**63, 3], "u8")}, "is no matrix of shape"),
        ({"indptr": np.array([0, 1, 2**40, 3])}, "is no matrix of shape"),
        ({"indptr": np.array([-1, 1, 2, 3])}, "is no matrix of shape"),
        ({"indptr": [0, 1, 2, 2]}, "indptr ends with 2, but data has 3 values"),
        ({"data": np.array([b"a", b"b", b"c"])}, "wanted is one dimension of numbers"),
        ({"data": [1j, 2, 2]}, "wanted is one dimension of numbers"),
        ({"indices": [[0, 2, 1]]}, "wanted is one dimension of integers"),
        ({"shape": (4, 3)}, "is no matrix of shape"),
        ({"shape": (2**62, 2**62)}, "is no matrix of shape"),
        ({"shape": (-4, 3)}, "is no matrix of shape"),
        ({"shape": (3, -3)}, "is no matrix of shape"),
        ({"shape": (3, 1)}, "is no matrix of shape"),
        ({"shape": (3.0, 3.0)}, "two integers"),
        ({"shape": "3 x 3"}, "two integers"),
        ({"shape": (3, 3, 3)}, "two integers"),
        ({"shape": h5py.Empty("i8")}, "two integers"),
        ({"shape": (3, 2**50)}, "GB of values are declared"),
    ],
)
def test_sparse_matrices_that_lie(tmp_path, change, words):
    refused(csr_file(tmp_path / "g.h5", **change), words)


def test_repeated_and_unsorted_columns_mean_their_sum(tmp_path):
    parts = {"data": [1.0, 2.0, 3.0, 2.0], "indices": [2, 1, 1, 0], "indptr": [0, 3, 3, 4]}
    found = formats.load(str(csr_file(tmp_path / "g.h5", **parts))).value
    assert (found.toarray() == [[0, 5, 1], [0, 0, 0], [2, 0, 0]]).all()


# ---------------------------------------------------------------- links, cycles, names


def test_groups_that_contain_themselves(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in "abcdef":  # entered again and again, that would be 6^16 groups
            file[name] = file["/"]
        file["deep/points"] = POINTS
        file["deep/above"] = file["/"]
    entries = info.describe(str(tmp_path / "x.h5")).entries
    assert [entry["path"] for entry in entries] == ["/deep/points"]
    refused(tmp_path / "x.h5", "it has /.*points")
    assert formats.load(f"{tmp_path}/x.h5:a/b/deep/above/deep/points").value.shape == (10, 4)


def test_names_cannot_write_to_the_terminal(tmp_path, capsys):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in (b"line\nbreak", b"\x1b[31mred", b"caf\xe9", "\u202egnp".encode()):
            file.create_dataset(name, data=[1])
        file["words"] = ["\x1b[2J"]
        file.attrs["mustlink-version"] = "\x1b[2J"
    path = str(tmp_path / "x.h5")
    refused(path, "none of /points")
    refused(f"{path}:words", "labels are text", formats.load_classes)
    for options in ([], ["--json"]):
        assert cli.run(["info", path, *options]) == 0
        assert "\x1b" not in capsys.readouterr().out
    entries = info.describe(path).entries
    assert "/\\x1b[31mred" in [entry["path"] for entry in entries]


def test_a_file_that_is_being_written(tmp_path):
    path = tmp_path / "x.h5"
    code = (
        "import h5py, sys; f = h5py.File(sys.argv[1], 'w'); f['points'] = [[1.0]]; f.flush();"
        "print('ready', flush=True); sys.stdin.read()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    writer.stdout.readline()
    refused(path, "is being written by another program")
    writer.communicate()
    assert formats.load(str(path)).value.shape == (1, 1)


@pytest.mark.thorough
def test_a_file_cut_short_anywhere(tmp_path):
    writing.write(tmp_path / "whole.h5", {"/labels": np.arange(30)})
    whole = (tmp_path / "whole.h5").read_bytes()
    path = tmp_path / "x.h5"
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        refused(path, "x.h5", formats.load_classes)


def test_what_is_read_is_a_file(tmp_path):
    (tmp_path / "loop.h5").symlink_to("loop.h5")
    for name in ("x.h5", "x.npy", "x.npz", "x.mtx"):  # to open a pipe is to wait for its writer
        os.mkfifo(tmp_path / name)
        refused(tmp_path / name, "is a device or pipe")
    refused(tmp_path / "loop.h5", "no such file|cannot be read")
    refused(tmp_path / ("a" * 300 + ".h5"), "cannot be read: File name too long")


# ---------------------------------------------------------------- reports


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "report",
    [
        "[", "[]", "nul", "[" * 100_000, '{"notes": 3}', '{"notes": [1]}', '{"satisfaction": 3}',
        '{"satisfaction": {"n_must": 3}}', '{"satisfaction": {"n_must": 1e999, "must_kept": 1}}',
        '{"labels_kept": 1}',
    ],
)  # fmt: skip
def test_reports_that_nobody_wrote(tmp_path, report):
    writing.write(tmp_path / "x.h5", {"/labels": [0, 1], "/report": report})
    refused(tmp_path / "x.h5", "damaged", info.describe)


def test_texts_of_a_report_are_told_as_they_are_but_for_what_steers_a_terminal(tmp_path):
    notes = ["no\xa0break, na\u00efve, \u4e2d", "\x1b[31mred", "\ud800"]
    report = {"notes": notes, "odd \x07": 1}
    for text in (json.dumps(report), json.dumps({"notes": notes[:1]}, ensure_ascii=False)):
        writing.write(tmp_path / "x.h5", {"/labels": [0, 1], "/report": text})
        found = info.describe(str(tmp_path / "x.h5")).plain()["report"]
        assert found["notes"][0] == "no\\xa0break, na\u00efve, \u4e2d"
        assert all(note.isprintable() for note in found["notes"])
        assert all(key.isprintable() for key in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("parameters", "[1]"), ("versions", "3"), ("inputs", "{}"), ("inputs", '[{"role": "data"}]')],
)
def test_records_that_nobody_wrote(tmp_path, name, value):
    writing.write(tmp_path / "x.h5", {"/labels": [0, 1], f"/@{name}": value})
    refused(tmp_path / "x.h5", f"its {name} are not", info.describe)


# ---------------------------------------------------------------- numpy's files and text


def npy(header, body=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@pytest.mark.parametrize(
    "raw",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2)}", bytes(64)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 9)}"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2)}", bytes(64)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}", bytes(31)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", bytes(64)),
        npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (4,)}", bytes(64)),
        npy("{'descr': '<x9', 'fortran_order': False, 'shape': (4,)}", bytes(64)),
        npy("(" * 5000), npy("{" * 90), npy("__import__('os').abort()"), npy("'\\N{oops}'"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), 'more': 1}", bytes(32)),
        b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\xff", b"\x93NUM", b"",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_npy_headers_that_lie(tmp_path, raw):
    (tmp_path / "x.npy").write_bytes(raw)
    refused(tmp_path / "x.npy", "x.npy: ")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", raw)
    refused(tmp_path / "x.npz", "x.npz")
    refused(tmp_path / "x.npz", "x.npz", info.describe)


def test_archives_that_lie(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.zeros((10**6, 4)))
    monkeypatch.setattr(size_checks, "most_memory", lambda: 10**7)
    refused(path, "0.032 GB of values are declared")
    monkeypatch.undo()
    whole = bytearray(path.read_bytes())
    at = whole.rfind(b"PK\x01\x02")
    for size in (2**20, 2**32 - 2, 0):  # the directory says another size
        whole[at + 24 : at + 28] = size.to_bytes(4, "little")
        path.write_bytes(bytes(whole))
        refused(path, "declares 32000000 bytes|cannot be read")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X.npy", b"x")
    refused(path, "compressed in a way that numpy does not write")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points", b"no array at all")
    refused(path, "it has none")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [10**12, 10**12]}, {"shape": [1.5, 2]}, {"shape": [np.inf, 2]},
        {"shape": ["a", "b"]}, {"shape": 3}, {"row": [0.0, 1.0]}, {"row": [0, 9]},
        {"col": [-1, 0]}, {"data": ["a", "b"]}, {"data": [1.0]}, {"format": "dia"},
        {"format": [1, 2, 3]},
    ],
)  # fmt: skip
def test_triplets_that_lie(tmp_path, change):
    parts = {"row": [0, 1], "col": [1, 0], "data": [1.0, 1.0], "shape": [3, 3], "format": "coo"}
    np.savez(tmp_path / "x.npz", **{**parts, **change})
    refused(tmp_path / "x.npz", "x.npz")


@pytest.mark.parametrize(
    "words",
    [
        "coordinate real general\n3 3 1000000000000\n1 1 1\n",
        "coordinate real general\n1000000000000 1000000000000 1\n1 1 1\n",
        "array real general\n1000000 1000000\n1\n",
        "coordinate real general\n-3 3 1\n1 1 1\n",
        "coordinate real general\n3 3\n",
        "coordinate real general\n3 3 1\n1 1 1 1 1\n9 9 9\n",
        "coordinate real general\n99999999999999999999999 3 1\n1 1 1\n",
        "coordinate complex general\n1 1 1\n1 1 1 1\n",
        "array real general\n2 2\n1\n2\x00\n3\n4\n",
    ],
)
def test_matrix_market_files_that_lie(tmp_path, words):
    (tmp_path / "x.mtx").write_text(f"%%MatrixMarket matrix {words}")
    refused(tmp_path / "x.mtx", "x.mtx: ")


def test_text_tables_that_lie(tmp_path):
    (tmp_path / "p.csv").write_text("i,j,belief\n0,1\n")
    refused(
        tmp_path / "p.csv",
        "line 2, '0,1': has 2 columns, but the first line has 3",
        formats.load_pairs,
    )
    (tmp_path / "x.csv").write_text("1,2\n3,\x1b[31m\n")
    by_hand = partial(formats.load, steps=Preparation(standardize="standard"))
    refused(tmp_path / "x.csv", "column '1' is text", by_hand)
    assert all(note.isprintable() for note in formats.load(f"{tmp_path}/x.csv").notes)
    (tmp_path / "x.csv").write_text("\x1b[31m,b\n1,x\n3,\n4,\n")
    assert all(note.isprintable() for note in formats.load(f"{tmp_path}/x.csv").notes)
    (tmp_path / "x.csv").write_bytes(b"1,2\n" + b"\xff" * 100)
    refused(tmp_path / "x.csv", "x.csv")
    (tmp_path / "x.csv").write_text("1,2\n" + "9" * 10_000 + "x,4\n")
    assert len(refused(tmp_path / "x.csv", "x.csv", by_hand)) < 600


@pytest.mark.thorough
def test_nothing_here_unpickles_or_evaluates():
    bad = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    for path in [*ROOT.glob("engine/**/*.py"), *ROOT.glob("io/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name.split(".")[0] for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert node.value.value is False, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            assert not bad & set(names), path


# ---------------------------------------------------------------- the child that looks first


@pytest.mark.thorough
def test_whatever_happens_to_the_child_is_one_line(monkeypatch):
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)

    def spin():
        while True:
            pass

    def tell():
        raise InputError("x.h5: told by the child")

    for look, words in (
        (os.abort, r"x.h5: damaged: reading it crashes .*\(SIGABRT\)"),
        (spin, "reading it does not end"),
        (lambda: bytearray(2**40), "asks for more memory"),
        (lambda: os.kill(os.getpid(), 9), "was ended by the system"),
        (tell, "told by the child"),
    ):
        with pytest.raises(InputError, match=words):
            sandbox.examine("x.h5", look)
    sandbox.examine("x.h5", lambda: 1 / 0)  # the caller will meet it again
    sandbox.examine("x.h5", lambda: sandbox.examine("y.h5", lambda: None))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left


def _aborts(file):
    os.abort()


def _ends(file):
    os._exit(3)


def _fills(file):
    return bytearray(2**40)


def _refuses(file, words):
    raise InputError(f"{file} {words}")


def _is(file, pid, same):
    if (os.getpid() == pid) != same:
        raise InputError(f"{os.getpid()}")


def _spends(file, most):
    if resource.getrlimit(resource.RLIMIT_CPU)[0] > most:
        raise InputError("time given to one step is left to the next")
    sandbox.allow(100 * sandbox.RATE)


def test_one_child_goes_ahead_until_it_is_harmed(monkeypatch):
    ahead = sandbox.Forerunner("x.h5", lambda: "it")
    try:
        child = ahead._child
        with pytest.raises(InputError, match="it says so"):
            ahead.go_ahead("x.h5:a", _refuses, "says so")
        ahead.go_ahead("x.h5:a", math.sqrt, "met again by the caller")
        for _ in range(2):
            ahead.go_ahead("x.h5:a", _spends, sandbox.CPU_SECONDS + 1)
        ahead.go_ahead("x.h5:a", _is, child, True)
        for step, words in ((_aborts, r"crashes .*\(SIGABRT\)"), (_fills, "more memory")):
            with pytest.raises(InputError, match=f"x.h5:a: damaged: .*{words}"):
                ahead.go_ahead("x.h5:a", step)
            ahead.go_ahead("x.h5:b", _is, child, False)
            child = ahead._child
        monkeypatch.setitem(sys.modules, "loaded_since", sys)
        ahead.go_ahead("x.h5:b", _is, child, False)
        with pytest.raises(InputError, match="damaged: reading it ends the process"):
            ahead.go_ahead("x.h5:b", _ends)
    finally:
        ahead.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left


HELD = threading.Lock()


def _takes_a_lock(file):
    with HELD:
        raise InputError("had it")


@pytest.mark.thorough
def test_a_child_with_a_lock_of_another_thread_is_no_end_of_waiting(monkeypatch):
    monkeypatch.setattr(sandbox, "IDLE", 0.2)
    monkeypatch.setattr(sandbox, "_LOOK", 0.05)
    with HELD:
        ahead = sandbox.Forerunner("x.h5", lambda: "it")
        with pytest.raises(InputError, match=r"x\.h5:a: reading it stands still; is its"):
            ahead.go_ahead("x.h5:a", _takes_a_lock)
        ahead = sandbox.Forerunner("x.h5", lambda: "it")
    with pytest.raises(InputError, match="had it"):  # by a second child
        ahead.go_ahead("x.h5:a", _takes_a_lock)
    ahead.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left


def test_a_child_that_computes_is_waited_for(monkeypatch):
    monkeypatch.setattr(sandbox, "IDLE", 0.1)
    monkeypatch.setattr(sandbox, "_LOOK", 0.05)
    sandbox.examine("x.h5", lambda: sum(range(10**7)))


def test_a_file_that_is_open_needs_one_child(monkeypatch, tmp_path):
    path = tmp_path / "x.h5"
    writing.write(path, {"/points": POINTS, "/labels": np.arange(len(POINTS))})
    forks, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    with store.open_h5(path) as file:
        for name in ("/points", "/labels"):
            assert store.find(file, name) is not None
            store.dataset(file, name)
        assert store.contents(file)
        path.unlink()  # a new child reads the open file, not what has its name
        file.forerunner.close()
        assert store.find(file, "/nothing") is None
    assert len(forks) == 2
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_file_replaced_while_it_is_opened(monkeypatch, tmp_path):
    path, other = h5(tmp_path / "x.h5", points=POINTS), h5(tmp_path / "y.h5", points=POINTS)

    def replaced(*arguments):
        if other.exists():
            os.replace(other, path)
        return opened(*arguments)

    opened = store._File
    monkeypatch.setattr(store, "_File", replaced)
    with pytest.raises(InputError, match=r"x.h5: was replaced while it was opened; try again"):
        formats.load(str(path))


def test_no_child_can_be_started(monkeypatch, tmp_path):
    def refuse():
        raise OSError(11, os.strerror(11))

    path = h5(tmp_path / "x.h5", points=POINTS)
    monkeypatch.setattr(os, "fork", refuse)
    refused(path, "x.h5: no process can be started to look at it first: Resource temporarily")


def test_without_forks_files_are_read_all_the_same(monkeypatch, tmp_path):
    path = h5(tmp_path / "x.h5", points=POINTS)
    monkeypatch.delattr(os, "fork")
    assert (formats.load(str(path)).value == POINTS).all()


def test_the_child_has_time_for_what_is_declared(monkeypatch):
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)
    granted = []

    def work():
        sandbox.allow(10 * sandbox.RATE)
        granted.append(resource.getrlimit(resource.RLIMIT_CPU)[0])
        assert granted == [11]
        raise InputError("checked")

    with pytest.raises(InputError, match="checked"):
        sandbox.examine("x.h5", work)
    assert granted == []


@pytest.mark.thorough
def test_text_whose_heap_is_damaged_cannot_hang_us(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)
    path = tmp_path / "x.h5"
    writing.write(path, {"/labels": [0, 1], "/report": "{}", "/@parameters": "{}"})
    whole = path.read_bytes()
    heap = whole.find(b"GCOL")
    assert heap > 0
    told = []
    for at in range(heap + 8, heap + 64, 4):
        broken = bytearray(whole)
        broken[at : at + 4] = b"\xff\xff\xff\x7f" if at % 8 else bytes(4)
        path.write_bytes(bytes(broken))
        try:
            info.describe(str(path))
        except InputError as error:
            told.append(str(error))
    assert told
    assert all(words.isprintable() for words in told)


# ---------------------------------------------------------------- outputs


def test_links_as_outputs(tmp_path):
    real, link = tmp_path / "real.h5", tmp_path / "link.h5"
    link.symlink_to("real.h5")
    writing.write(link, {"/labels": [0, 1]})  # the target is made, or replaced; the link stays
    writing.write(link, {"/labels": [0, 1, 2]})
    assert link.is_symlink()
    assert formats.load_classes(str(real)).codes.tolist() == [0, 1, 2]
    os.link(real, tmp_path / "same.h5")
    with pytest.raises(InputError, match="is the input itself"):
        writing.check_output(tmp_path / "same.h5", [link])
    (tmp_path / "loop.h5").symlink_to("loop.h5")
    with pytest.raises(InputError, match=r"loop.h5: is a link that leads round in a circle"):
        writing.check_output(tmp_path / "loop.h5")
    (tmp_path / "nowhere.h5").symlink_to(tmp_path / "no" / "such.h5")
    with pytest.raises(InputError, match=r"cannot be written: no folder .*no; make it first"):
        writing.check_output(tmp_path / "nowhere.h5")
    with pytest.raises(InputError, match="cannot be written: File name too long"):
        writing.check_output(tmp_path / ("a" * 300))
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_planted_by_somebody_else_is_not_followed(tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "out.h5"
    precious.write_text("precious")
    link.symlink_to(precious)
    os.lchown(link, 12345, 12345)
    for write in (writing.check_output, lambda path: writing.write(path, {"/labels": [0]})):
        with pytest.raises(InputError, match="is a link that another user made"):
            write(link)
    assert precious.read_text() == "precious"


def test_matrices_of_the_writer_are_readable(tmp_path):
    graph = sp.random(30, 30, 0.2, random_state=0, format="csr")
    writing.write(tmp_path / "g.h5", matrices.graph_content(graph))
    assert (formats.load(str(tmp_path / "g.h5")).value != graph).nnz == 0
