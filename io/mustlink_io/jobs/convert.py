"""`mustlink convert`: points, graphs and results from one format to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.core.resources import AUTO, PROGRAM, allowed_memory, named_memory, size_text
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import anndata, matrices, networks, results, writers
from mustlink_io.formats.edges import EdgeLines, lines_of, names_of
from mustlink_io.formats.photographs import save_label_picture
from mustlink_io.formats.tables import NodeNames
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.file_names import FORMS, USUAL
from mustlink_io.hdf5.graphs import write_rows
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.work_folder import remove_leftovers

_NODE = 40  # bytes a node: how many edges each has, where its rows begin, which number it is
_READ = 20  # times the bytes of a text: its edges while they are read and made a graph
_LINES = 200 * 10**6  # bytes of a block of lines that is read


def convert_rows(place: formats.Place, output: str, memory: int) -> tuple[int, int, list[str]]:
    """Write `/graph` of edges in text within `memory`; returns nodes, entries, notes.

    The file is read twice: edges are counted, and dealt out to rows by way of a temporary file in
    the folder of the output, 24 bytes an edge. Raises InputError.
    """
    from mustlink.graph.row_buckets import RowBuckets

    found = lines_of(place)
    _check(memory, found.n or 0)  # before a long file is read
    counts = _counted(found, memory)
    _check(memory, max(counts.size, found.n or 0))
    notes: list[str] = []
    known = None if found.shift is not None else names_of(np.flatnonzero(counts), found.forced)[0]
    if known is None:
        first = found.shift or 0
        number = np.arange(-first, counts.size - first, dtype=np.int32)
        counts = counts[first:]
        n = counts.size if found.n is None else found.n
        counts = np.concatenate([counts, np.zeros(n - counts.size, dtype=np.int64)])
    else:
        number = np.full(counts.size, -1, dtype=np.int32)
        number[known] = np.arange(known.size, dtype=np.int32)
        counts = counts[known]
        notes.append(f"{place}: numbers are names of its {known.size} nodes; they are in /names")
    buckets = RowBuckets(counts, Path(output).resolve().parent)
    for ends, weights in found.checked_blocks():
        i, j = number[ends[:, 0]], number[ends[:, 1]]
        values = weights.astype(np.float32)
        buckets.add(i, j, values)
        if found.both:
            turn = i != j
            buckets.add(j[turn], i[turn], values[turn])
    info = {"kind": "precomputed"}
    done = write_rows(output, counts.size, buckets.rows(largest=found.largest), info, known)
    return counts.size, done, notes


def _check(memory: int, nodes: int) -> None:
    from mustlink.graph.row_buckets import MEMORY

    least = PROGRAM + MEMORY + _LINES + _NODE * nodes
    if least > memory:
        what = f"edges of {nodes} nodes need" if nodes else "edges by blocks need"
        raise InputError(
            f"--memory: {size_text(memory)} given, but {what} at least "
            f"{size_text(least, up=True)}; a small file is read whole without --memory"
        )


def _counted(found: EdgeLines, memory: int) -> NDArray[np.int64]:
    """Entries of every number from 0 on; raises InputError where there are too many numbers."""
    counts = np.zeros(1, dtype=np.int64)
    for ends, _ in found.checked_blocks():
        if not len(ends):
            continue
        highest = int(ends.max())
        if highest * _NODE > memory:
            raise InputError(
                f"{found.where}: a node numbered {highest}; up to that number nodes "
                f"need {size_text(PROGRAM + highest * _NODE, up=True)}, but --memory is "
                f"{size_text(memory)}"
            )
        if highest >= counts.size:
            counts = np.concatenate([counts, np.zeros(highest + 1 - counts.size, dtype=np.int64)])
        counts += np.bincount(ends[:, 0], minlength=counts.size)
        if found.both:
            turn = ends[:, 0] != ends[:, 1]
            counts += np.bincount(ends[turn, 1], minlength=counts.size)
    if not counts.any():
        raise InputError(f"{found.where}: no edge in it; nothing to cluster")
    return counts


TABLES = ("csv", "parquet")
PICTURES = ("png", "tif")
_ANSWERS = ("embedding", "membership", "label_distributions", "confidence")  # a row a node
Written = tuple[str, list[int], list[str]]  # what it is, its shape, notes


def write_labels(
    place: formats.Place,
    output: str,
    form: str,
    notes: Sequence[str] = (),
    of_clusters: NDArray[Any] | None = None,
) -> Written:
    """Labels of a result with what is known of its nodes, or labels alone; raises InputError.

    `of_clusters` names the class of every cluster, where it is kept apart from the labels. Labels
    of pixels are (h, w) in what holds arrays.
    """
    _refuse_copies(place, output, form)
    if form not in (*writers.LABELS, *PICTURES):
        able = ", ".join(USUAL[name] for name in writers.LABELS if name not in ("h5", "edges"))
        raise InputError(
            f"{output}: {form} cannot hold labels; write {able} or .txt, of a picture .png or .tif"
        )
    content: dict[str, Any]
    if results.is_result(place):
        content = results.read(place)
    else:
        found = formats.load_classes(str(place))
        content = {"/labels": found.codes}
        if found.classes is not None:
            content |= {"/classes": range(len(found.classes)), "/class_names": found.classes}
        elif of_clusters is not None:
            content["/class_names"] = of_clusters
        names = results.node_names(str(place))
        if names is not None and len(names) == len(found.codes):
            content["/names"] = names.texts
    notes, labels = list(notes), content["/labels"]
    pixels = results.about(str(place)).pixels
    if form in TABLES:
        writers.table_file(output, form, results.columns(content, str(place)))
        return "labels", [len(labels)], notes
    if pixels is not None and form != "h5":
        labels = labels.reshape(pixels)
    if form in PICTURES:
        if pixels is None:
            raise InputError(f"{output}: {place} is no result of a picture; write .csv or .npy")
        note = save_label_picture(labels, output)
        notes += [] if note is None else [note]
    else:
        writers.labels_file(output, labels, form)
    if len(content) > 1:
        notes.append(f"{output}: holds labels alone; .csv and .parquet have names, too")
    return "labels", list(labels.shape), notes


def write_answer(place: formats.Place, output: str, form: str) -> Written | None:
    """An answer of a result in all its digits, (n, …), or (h, w, …) of pixels; raises InputError.

    A table has the names of nodes, where they have some, and of the classes that columns are. None
    for a format of points, which an answer can be, too.
    """
    name = (place.part or "").strip("/")
    if form not in (*TABLES, "npy", "npz") and name != "confidence":
        return None
    _refuse_copies(place, output, form)
    content = results.read(formats.Place(place.path))
    if f"/{name}" not in content:
        raise InputError(f"{place}: no /{name} in it; it has {', '.join(sorted(content))}")
    values = np.asarray(content[f"/{name}"])
    if form in TABLES:
        titles = _titles(name, values, content)
        columns = dict(zip(titles, values.reshape(len(values), -1).T, strict=True))
        nodes = {"node": content["/names"]} if "/names" in content else {}
        writers.table_file(output, form, nodes | columns)
        return name, list(values.shape), []
    if form not in ("npy", "npz"):
        raise InputError(f"{output}: {form} cannot hold {name}; write .csv, .parquet, .npy or .npz")
    pixels = results.about(str(place.path)).pixels
    if pixels is not None:
        values = values.reshape(*pixels, *values.shape[1:])
    writers.arrays_file(output, form, **{name: values})
    return name, list(values.shape), []


def _titles(name: str, values: NDArray[Any], content: dict[str, Any]) -> list[str]:
    """Titles of columns: names of classes, numbers of clusters, x0, x1 and so on of coordinates."""
    wide = 1 if values.ndim == 1 else values.shape[1]
    if name == "confidence":
        return [name]
    if name == "embedding":
        return [f"x{at}" for at in range(wide)]
    if name == "membership":
        return [f"cluster {at}" for at in range(wide)]
    known = content.get("/class_names", content.get("/classes", range(wide)))
    return [str(one) for one in known]


def _refuse_copies(place: formats.Place, output: str, form: str) -> None:
    """Raise InputError for formats that take a result only beside the data it is of."""
    for named, noun, into in (("h5ad", "AnnData", "DATA"), ("graphml", "GraphML", "GRAPH")):
        if form == named:
            raise InputError(
                f"{output}: a result goes into a copy of the {noun} file it is of: "
                f"mustlink convert {place} --into {into}.{named} -o {output}"
            )


_NOTHING = Preparation()
_INTO = {".h5ad": "AnnData", ".graphml": "GraphML"}


def convert(
    source: str,
    output: str,
    form: str | None,
    steps: Preparation = _NOTHING,
    memory: int | str | None = AUTO,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write what is in `source` to `output`, in `form` or as its ending says; raises InputError.

    A file that is there is replaced with `overwrite`, or if it is HDF5 that mustlink wrote.
    With `memory` edges in a text file become a graph in HDF5 without being in memory together; with
    "auto" where these could need more than there is.

    `steps` prepare columns of points; without them empty cells become NaN. A result, which holds
    labels and no data, becomes a table of its nodes, or its labels alone, of pixels (h, w).
    """
    place = formats.parse(source)
    store.check_readable(place.path)
    ending = Path(output).suffix.lower()
    if form is None and ending not in FORMS:
        raise InputError(
            f"{output}: unknown ending {ending!r}; writable are {', '.join(FORMS)}, or give --to"
        )
    form = form or FORMS[ending]
    target = writing.check_output(output, [place.path], None)
    _refuse_there(output, overwrite)
    with locked(output):
        remove_leftovers(target)
        written = None
        named, limit = named_memory(memory), None
        if named is not None:
            limit = named.limit
        elif steps.is_nothing:
            limit = _short(place, form)
        if limit is not None:
            if not steps.is_nothing:
                raise InputError(f"{place}: --memory is for edges, which have no columns")
            if form != "h5":
                raise InputError(
                    f"--memory: edges go into HDF5, not {form}; leave it out, or write .h5"
                )
            n, entries, notes = convert_rows(place, output, limit)
            notes.append(f"{output}: {entries:,} weights, two an edge, in single precision")
            return _outcome(str(place), output, "graph", form, [n, n], notes)
        part = (place.part or "").strip("/")
        is_column = place.suffix == anndata.ENDING and part.startswith("obs/")
        is_labels = place.suffix in formats.HDF5 and (part in ("labels", "y") or is_column)
        if results.is_result(place) or is_labels:
            if not steps.is_nothing:
                raise InputError(f"{place}: holds labels, which have no columns to prepare")
            written = write_labels(place, output, form)
        elif form in TABLES and results.in_anndata(place):
            place = formats.Place(place.path, f"/obs/{anndata.KEY}")
            note = f"{place}: is written, the result in it; for other parts name them"
            classes = results.classes_in_anndata(formats.Place(place.path))
            written = write_labels(place, output, form, [note], classes)
        elif steps.is_nothing and part in _ANSWERS and results.is_result(formats.Place(place.path)):
            written = write_answer(place, output, form)
        if written is None:
            return _data(source, output, form, steps)
        kind, shape, notes = written
        return _outcome(str(place), output, kind, form, shape, notes)


def _refuse_there(output: str, overwrite: bool) -> None:
    """Raise InputError for a file that would be lost, unless HDF5 says that mustlink wrote it."""
    path = Path(output)  # after check_output, which refuses the HDF5 of others
    known = path.suffix.lower() != anndata.ENDING and h5py.is_hdf5(path)
    there = path.exists() and (not path.is_file() or path.stat().st_size > 0)
    if there and not known and not overwrite:
        raise InputError(
            f"{output}: is there already; give another name to write to, or --overwrite to replace "
            "it"
        )


def _short(place: formats.Place, form: str) -> int | None:
    """The memory that there is for edges in a text, where they could need more, read whole.

    None where that is enough, and for a text that may be anything but edges of numbered nodes.
    """
    if form != "h5" or place.suffix not in (".edges", ".mtx"):
        return None
    try:
        lines_of(place)
    except InputError:
        return None
    needed = PROGRAM + _READ * place.path.stat().st_size
    least = PROGRAM + _LINES
    return allowed_memory(AUTO, lambda _: needed, lambda _: least).limit


def _data(source: str, output: str, form: str, steps: Preparation) -> dict[str, Any]:
    data = formats.load(source, steps=steps, gaps=True)
    known: tuple[str, ...] = writers.GRAPH
    write: Any = writers.write_graph
    noun = "a graph"
    if data.kind == "points":
        known, write, noun = writers.POINTS, writers.write_points, "points"
    if form not in known:
        able = ", ".join(USUAL[name] for name in known)
        raise InputError(
            f"{output}: {form} cannot hold {noun}, which {data.place} is; write {able}"
        )
    labels = _known_labels(data)
    notes, more, warnings = list(data.notes), {}, list(data.warnings)
    names = data.names
    if data.weights is not None and form == "h5":
        more = {"weights": data.weights, "rows": data.rows}
    elif data.weights is not None:
        rows = "" if data.rows is None else f", which were {data.n_rows} rows"
        warnings.append(
            f"{output}: has no place for how often nodes count: {data.value.shape[0]} nodes{rows}, "
            "now count alike; .h5 has"
        )
        if names is not None and data.rows is not None:  # of equal rows that of the first
            first = np.unique(data.rows, return_index=True)[1]
            names = NodeNames(names.texts[first], names.where)
    if labels is not None and form in writers.WITH_LABELS and (form, data.kind) != ("npz", "graph"):
        more["labels"] = labels
    elif labels is not None:
        notes.append(f"{output}: has no place for the labels in {data.place.path}; .h5 has")
    notes += write(output, form, data.value, names, **more)
    if data.was_double:
        notes.append(f"{output}: float64 became float32, about 7 digits of every value")
    shape = list(data.value.shape)
    return _outcome(str(data.place), output, data.kind, form, shape, notes, warnings)


def _known_labels(data: formats.InputData) -> NDArray[np.int64] | None:
    """Labels that the file of the data has beside them, under a usual name and one a row."""
    path, n = data.place.path, data.n_rows
    found: str | None = None
    if data.place.suffix == ".npz":
        with matrices.open_npz(path) as archive:
            names = [name for name in ("labels", "y") if name in archive]
            found = next((name for name in names if archive.declares(name)[0] == (n,)), None)
    elif data.place.suffix in formats.HDF5 and data.place.suffix != anndata.ENDING:
        with store.open_h5(path) as file:
            for name in formats.LABEL_NAMES:
                item = store.find(file, name)
                if found is None and getattr(item, "shape", None) == (n,):
                    found = name
    return None if found is None else formats.load_classes(f"{path}:{found}", n).codes


def convert_into(
    source: str, into: str, output: str, *, key: str, overwrite: bool
) -> dict[str, Any]:
    """Put a result into a copy of an AnnData or GraphML file, which may take the file's own name.

    Raises InputError.
    """
    place, data = formats.parse(source), formats.parse(into)
    for one in (place, data):
        store.check_readable(one.path)
    if data.suffix not in _INTO:
        raise InputError(f"--into {into}: results go into AnnData or GraphML: .h5ad, .graphml")
    if formats.parse(output).suffix != data.suffix:
        noun = _INTO[data.suffix]
        raise InputError(f"{output}: a copy of {into} is {noun}, too; call it {data.suffix}")
    if not results.is_result(place):
        raise InputError(f"{source}: no result; give the output of mustlink cluster or propagate")
    goal = writing.check_output(output, [place.path], None)
    if not (goal.exists() and goal.samefile(data.path)):
        _refuse_there(output, overwrite)
    with locked(output):
        remove_leftovers(goal)
        content = results.read(place)
        if data.suffix == anndata.ENDING:
            notes = anndata.annotate(anndata.Target(data.path, output, key, overwrite), content)
        else:
            columns = results.columns(content, str(place))
            main = "cluster" if "cluster" in columns else "class"
            attributes = {
                key if name == main else f"{key}_{name}": columns[name]
                for name in ("cluster", "class", "confidence")
                if name in columns
            }
            names = results.node_names(source)
            notes = networks.annotate_graphml(
                data.path, output, attributes, names, overwrite=overwrite
            )
    shape = [len(content["/labels"])]
    form = FORMS[data.suffix]
    return {**_outcome(source, output, "labels", form, shape, notes), "into": into, "key": key}


def _outcome(
    source: str,
    output: str,
    kind: str,
    form: str,
    shape: list[int],
    notes: list[str],
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "source": source,
        "output": output,
        "kind": kind,
        "to": form,
        "shape": shape,
        "bytes": Path(output).stat().st_size,
        "notes": notes,
        "warnings": list(warnings),
    }
