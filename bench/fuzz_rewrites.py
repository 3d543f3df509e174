"""What `fuzz.py` changes through h5py, which keeps a file well-formed: hostile, not broken."""

from __future__ import annotations

import zlib

import h5py
import numpy as np


def rewrite(rng, path) -> str:
    """Change what the file says by the library itself, which keeps it well-formed."""
    change = _CHANGES[rng.integers(len(_CHANGES))]
    try:
        with h5py.File(path, "r+") as file:
            names = []
            file.visititems(lambda name, item: names.append(name))
            datasets = [name for name in names if isinstance(file[name], h5py.Dataset)]
            groups = ["/"] + [name for name in names if isinstance(file[name], h5py.Group)]
            name = str(rng.choice(groups if change in _OF_GROUPS else datasets))
            return f"{change.__name__[1:]} {name}: {change(rng, file, name)}"
    except Exception as error:  # not everything can be done to everything
        return f"{change.__name__[1:]}: not possible ({str(error)[:60]})"


def _values(rng, file, name):
    """A few numbers are replaced by others that matter."""
    data = file[name]
    if data.dtype.kind not in "fiu" or not data.size:
        return "no numbers"
    values = data[()].ravel()
    where = rng.integers(values.size, size=int(rng.choice([1, 2, 10])))
    some = [-1, -2, 0, 1, 2, 47, 48, 49, 2**31, 2**40, -(2**40)]
    if data.dtype.kind == "f":
        some = [0, -1, np.nan, np.inf, -np.inf, 1e-320, 1e30, 3e38, 1e300, -0.0]
    with np.errstate(all="ignore"):
        new = np.asarray(
            rng.choice(some, size=where.size), dtype=float if data.dtype.kind == "f" else object
        )
        values[where] = new.astype(data.dtype) if data.dtype.kind == "f" else [
            int(v) % 2 ** (8 * data.dtype.itemsize - 1) if v >= 0 else -1 for v in new
        ]  # fmt: skip
    data[...] = values.reshape(data.shape)
    return f"{new.tolist()} at {where.tolist()}"


def _weights(rng, file, name):
    """All the values, or two that are equal, by a factor: a symmetric matrix stays one."""
    data = file[name]
    if data.dtype.kind != "f" or not data.size:
        return "no weights"
    values, factor = data[()], 10.0 ** float(rng.choice([-310, -200, -40, -10, 10, 40, 200, 308]))
    some = values == rng.choice(values.ravel()) if rng.random() < 0.5 else values == values
    with np.errstate(all="ignore"):
        values[some] *= factor
    data[...] = values
    return f"{int(some.sum())} times {factor:g}"


def _type(rng, file, name):
    """The same values, or none, as another type."""
    values = file[name][()]
    del file[name]
    kinds = "f2 >f4 >f8 g i1 u1 >i8 u8 ? c8 S5 text compound enum vlen ref opaque array bits odd"
    kind = str(rng.choice(kinds.split()))
    shape = np.shape(values)
    if kind in ("compound", "enum", "vlen", "ref", "opaque", "array"):
        dtype = {
            "compound": np.dtype([("a", "f4"), ("b", "i4")]),
            "enum": h5py.enum_dtype({"A": 0, "B": 1}, "i4"),
            "vlen": h5py.vlen_dtype(np.dtype("f4")),
            "ref": h5py.ref_dtype,
            "opaque": h5py.opaque_dtype(np.dtype("M8[s]")),
            "array": np.dtype("(3,)f4"),
        }[kind]
        file.create_dataset(name, shape, dtype)
    elif kind in ("bits", "odd"):
        tid = h5py.h5t.STD_B64LE.copy() if kind == "bits" else h5py.h5t.IEEE_F32LE.copy()
        if kind == "odd":
            tid.set_fields(31, 15 + int(rng.integers(8)), 8, 0, 15)
        parent = file.require_group(name.rpartition("/")[0] or "/")
        h5py.h5d.create(
            parent.id, name.rpartition("/")[2].encode(), tid, h5py.h5s.create_simple(shape)
        )
    elif kind == "text":
        file.create_dataset(name, data=[f"word {i}" for i in range(max(1, int(np.prod(shape))))])
    else:
        with np.errstate(all="ignore"):
            file.create_dataset(name, data=np.asarray(values).astype(kind))
    return kind


def _shape(rng, file, name):
    """The values in another shape."""
    values = np.asarray(file[name][()])
    del file[name]
    shapes = [values.reshape(-1), values.reshape(-1, 1), values.reshape(1, -1), values[..., None],
              values[:0], values[:-1], values.ravel()[0], np.concatenate([values, values]),
              values.T, values.reshape((1,) * 20 + values.shape)]  # fmt: skip
    new = shapes[rng.integers(len(shapes))]
    file[name] = new
    return str(new.shape)


def _filters(rng, file, name):
    """The values through other filters."""
    values = np.asarray(file[name][()])
    del file[name]
    choice = [
        {"compression": "szip"}, {"scaleoffset": 3}, {"compression": "lzf", "shuffle": True},
        {"compression": "gzip", "compression_opts": 9, "fletcher32": True}, {"fletcher32": True},
        {"shuffle": True}, {"chunks": True, "maxshape": (None,) * values.ndim},
        {"chunks": (1000,) * values.ndim, "maxshape": (None,) * values.ndim, "compression": "gzip"},
    ][rng.integers(8)]  # fmt: skip
    file.create_dataset(name, data=values, **choice)
    return str(choice)


def _promise(rng, file, name):
    """A shape that was never written."""
    old = file[name]
    shape, dtype = old.shape, old.dtype
    del file[name]
    most = int(rng.choice([1, 10, 10**4, 10**9, 2**40]))
    shape = (
        tuple(size * most for size in shape)
        if rng.random() < 0.5
        else (shape[0] * most, *shape[1:])
    )
    chunks = tuple(min(size, 100) for size in shape) if rng.random() < 0.5 else None
    data = file.create_dataset(
        name, shape, dtype, chunks=chunks, compression="gzip" if chunks else None
    )
    if chunks and rng.random() < 0.5:
        data.id.write_direct_chunk((0,) * len(shape), zlib.compress(bytes(1000)))
    return f"{shape} in chunks of {chunks}"


def _lie(rng, file, name):
    """A compressed chunk that holds less or more than it should, or nothing at all."""
    values = np.asarray(file[name][()])
    del file[name]
    options = {"compression": str(rng.choice(["gzip", "lzf"])), "shuffle": bool(rng.integers(2))}
    chunks = tuple(max(1, size) for size in values.shape)
    data = file.create_dataset(name, data=values, chunks=chunks, **options)
    size = values.nbytes
    raw = [
        lambda: zlib.compress(bytes(max(0, size - 8))), lambda: zlib.compress(bytes(size + 8)),
        lambda: zlib.compress(bytes(10)), lambda: zlib.compress(bytes(2**26), 9), lambda: b"",
        lambda: b"\x02abc", lambda: rng.bytes(40), lambda: bytes(size), lambda: b"\xff" * 3000,
        lambda: zlib.compress(values.tobytes())[:-6],
        lambda: zlib.compress(values.tobytes()) + b"more",
    ][rng.integers(11)]()  # fmt: skip
    data.id.write_direct_chunk(
        (0,) * values.ndim, raw, filter_mask=int(rng.choice([0, 0, 0, 1, 2, 255]))
    )
    return f"{options}, {len(raw)} bytes: {raw[:8]!r}"


def _grow(rng, file, name):
    """A dataset resized without writing, where it can be."""
    data = file[name]
    if data.chunks is None or data.maxshape[0] is not None:
        return "not resizable"
    data.resize(int(rng.choice([0, 1, 10, 1000, 10**9])), axis=0)
    return str(data.shape)


def _attribute(rng, file, name):
    """An attribute that says something else."""
    group = file[name]
    keys = [*group.attrs, "shape", "encoding-type", "mustlink-format"]
    key = str(rng.choice(keys))
    values = [(48, 48), (48, 3), (0, 0), (-1, 48), (2**62, 2**62), (48, 2**40), (2**31, 2**31),
              (48.0, 48.0), 48, "48", b"\xff\xfe", "csc_matrix", h5py.Empty("f4"), np.nan, [[1, 2]],
              "x" * 60_000, np.array([1, 2], dtype="u8"), "{}", "[]", "null", "1", '{"notes": 3}',
              "[" * 3000, '{"satisfaction": {"n_must": "x"}}', "\x1b[31mred",
              np.array(["a", "b"], dtype=object)]  # fmt: skip
    value = values[rng.integers(len(values))]
    group.attrs[key] = value
    return f"{key} = {str(value)[:30]!r}"


def _link(rng, file, name):
    """A link instead of an object, or one more beside it."""
    kind = rng.choice(["cycle", "itself", "soft", "external", "root", "strange", "gone", "copy"])
    if name == "/":
        name = "more"
    if kind in ("soft", "external", "itself", "gone") and name in file:
        file.move(name, "moved")
    if kind == "cycle":
        file[f"{name}/again" if isinstance(file.get(name), h5py.Group) else "again"] = file["/"]
    elif kind == "itself":
        file[name] = h5py.SoftLink("/" + name)
    elif kind == "soft":
        file[name] = h5py.SoftLink("/moved")
    elif kind == "external":
        file[name] = h5py.ExternalLink("good.h5", "/points")
    elif kind == "root":
        file["X2"] = file[name] if name in file else file["/"]
    elif kind == "strange":
        for strange in ("line\nbreak", "\x1b[31m", "caf\udce9", "a" * 500, " ", "中" * 50):
            file["/"].create_dataset(strange.encode("utf-8", "surrogateescape"), data=1)
    elif kind == "copy":
        file.copy(file[name] if name in file else file["/good"], "copied")
    return str(kind)


def _virtual(rng, file, name):
    """Values that are somewhere else."""
    shape, dtype = file[name].shape, file[name].dtype
    del file[name]
    if rng.random() < 0.5:
        file.create_dataset(name, shape, dtype, external=[("good.h5", 0, h5py.h5f.UNLIMITED)])
        return "external storage"
    layout = h5py.VirtualLayout(shape, dtype)
    file.create_virtual_dataset(name, layout)
    return "virtual"


def _report(rng, file, name):
    """Another text where JSON is expected."""
    values = ['{"notes": [1]}', "[]", "{", "nul", '{"satisfaction": 3}', '{"labels_kept": 1}', "",
              '{"satisfaction": {"n_must": 1e999, "must_kept": 1}}', "[" * 100_000]  # fmt: skip
    value = values[rng.integers(len(values))]
    if "report" in file:
        del file["report"]
    file["report"] = value
    if "stages/seconds" in file:
        file["stages/seconds"][...] = float(rng.choice([np.nan, -1, 1e300]))
    return repr(value[:40])


_CHANGES = (_values, _values, _weights, _type, _type, _shape, _filters, _promise, _lie, _lie, _grow,
            _attribute, _attribute, _link, _link, _virtual, _report)  # fmt: skip
_OF_GROUPS = (_attribute, _link)
