"""`mustlink convert`: points, graphs and results from one format to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preparation.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import annotate, arrays, networks, results, writers
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.file_names import FORMS, USUAL
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.work_folder import remove_leftovers
from mustlink_io.jobs.convert_results import (
    TABLES,
    is_answer,
    is_labels,
    write_answer,
    write_labels,
)
from mustlink_io.jobs.convert_rows import convert_rows

_NOTHING = Preparation()
_INTO = {".h5ad": "AnnData", ".graphml": "GraphML"}


def convert(
    source: str,
    output: str,
    form: str | None,
    steps: Preparation = _NOTHING,
    memory: int | None = None,
) -> dict[str, Any]:
    """Write what is in `source` to `output`, in `form` or as its ending says; raises InputError.

    With `memory` edges in a text file become a graph in HDF5 without being in memory together.

    `steps` prepare columns of points; without them empty cells become NaN. A result, which holds
    labels and no data, becomes a table of its nodes, or its labels alone, of pixels (h, w).
    """
    place = formats.parse(source)
    store.check_readable(place.path)
    form = form or _form(output)
    target = store.check_output(output, [place.path])
    with locked(output):
        remove_leftovers(target)
        written = None
        if memory is not None:
            if not steps.is_nothing:
                raise InputError(f"{place}: --memory is for edges, which have no columns")
            return _by_rows(place, output, form, memory)
        if results.is_result(place) or is_labels(place):
            if not steps.is_nothing:
                raise InputError(f"{place}: holds labels, which have no columns to prepare")
            written = write_labels(place, output, form)
        elif form in TABLES and results.in_anndata(place):
            place = formats.Place(place.path, f"/obs/{annotate.KEY}")
            note = f"{place}: is written, the result in it; for other parts name them"
            classes = results.classes_in_anndata(formats.Place(place.path))
            written = write_labels(place, output, form, [note], classes)
        elif steps.is_nothing and is_answer(place):
            written = write_answer(place, output, form)
        if written is None:
            return _data(source, output, form, steps)
        kind, shape, notes = written
        return _told(str(place), output, kind, form, shape, notes)


def _by_rows(place: formats.Place, output: str, form: str, memory: int) -> dict[str, Any]:
    """Edges in text to HDF5 by blocks of lines."""
    if form != "h5":
        raise InputError(f"--memory: edges go into HDF5, not {form}; leave it out, or write .h5")
    n, entries, notes = convert_rows(place, output, memory)
    notes.append(f"{output}: {entries:,} weights, two an edge, in single precision")
    return _told(str(place), output, "graph", form, [n, n], notes)


def _form(output: str) -> str:
    ending = Path(output).suffix.lower()
    if ending not in FORMS:
        raise InputError(
            f"{output}: unknown ending {ending!r}; writable are {', '.join(FORMS)}, or give --to"
        )
    return FORMS[ending]


def _data(source: str, output: str, form: str, steps: Preparation) -> dict[str, Any]:
    """Points or a graph."""
    data = formats.load(source, steps=steps, gaps=True)
    known = writers.POINTS if data.kind == "points" else writers.GRAPH
    if form not in known:
        able = ", ".join(USUAL[name] for name in known)
        noun = "points" if data.kind == "points" else "a graph"
        raise InputError(
            f"{output}: {form} cannot hold {noun}, which {data.place} is; write {able}"
        )
    labels = _known_labels(data)
    notes, more, warnings = list(data.notes), {}, list(data.doubts)
    names = data.names
    if data.weights is not None and form == "h5":
        more = {"weights": data.weights, "rows": data.rows}
    elif data.weights is not None:
        warnings.append(_what_is_lost(data, output))
        names = _names_of_nodes(data)
    if labels is not None and form in writers.WITH_LABELS and (form, data.kind) != ("npz", "graph"):
        more["labels"] = labels
    elif labels is not None:
        notes.append(f"{output}: has no place for the labels in {data.place.path}; .h5 has")
    notes += known[form](output, data.value, names, **more)
    if data.kind == "points" and _is_double(data.place):
        notes.append(f"{output}: float64 became float32, about 7 digits of every value")
    shape = list(data.value.shape)
    return _told(str(data.place), output, data.kind, form, shape, notes, warnings)


def _what_is_lost(data: formats.Data, output: str) -> str:
    """Words on a graph whose nodes stand for several in a format that takes all nodes alike."""
    rows = "" if data.rows is None else f", which were {data.n_rows} rows"
    return (
        f"{output}: has no place for how often nodes count: {data.value.shape[0]} nodes{rows}, now "
        "count alike; .h5 has"
    )


def _names_of_nodes(data: formats.Data) -> NodeNames | None:
    """Names of nodes: of equal rows that of the first."""
    if data.names is None or data.rows is None:
        return data.names
    first = np.unique(data.rows, return_index=True)[1]
    return NodeNames(data.names.texts[first], data.names.where)


def _known_labels(data: formats.Data) -> NDArray[np.int64] | None:
    """Labels that the file of the data has beside them, under a usual name and one a row."""
    path, n = data.place.path, data.n_rows
    found: str | None = None
    if data.place.suffix == ".npz":
        with arrays.open_npz(path) as archive:
            names = [name for name in ("labels", "y") if name in archive]
            found = next((name for name in names if archive.declares(name)[0] == (n,)), None)
    elif data.place.suffix in formats.HDF5 and data.place.suffix != annotate.ENDING:
        with store.open_h5(path) as file:
            for name in formats.LABEL_NAMES:
                item = store.find(file, name)
                if found is None and getattr(item, "shape", None) == (n,):
                    found = name
    return None if found is None else formats.load_classes(f"{path}:{found}", n).codes


def _is_double(place: formats.Place) -> bool:
    """Whether the file declares points in double precision."""
    if place.suffix == ".npy":
        return arrays.load_npy(place.path).dtype == np.float64
    if place.suffix == ".npz":
        with arrays.open_npz(place.path) as archive:
            usual = [place.part] if place.part else ["points", "X", *archive]
            name = next((name for name in usual if name in archive), None)
            return name is not None and archive.declares(name)[1] == np.float64
    if place.suffix in formats.HDF5 and place.part:
        with store.open_h5(place.path) as file:
            item = store.find(file, place.part)
            return getattr(item, "dtype", None) == np.float64
    return False


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
    goal = writing.check_output(output, [place.path])
    with locked(output):
        remove_leftovers(goal)
        content = results.read(place)
        if data.suffix == annotate.ENDING:
            notes = annotate.annotate(annotate.Target(data.path, output, key, overwrite), content)
        else:
            columns = _attributes(content, str(place), key)
            names = results.node_names(source)
            notes = networks.annotate_graphml(
                data.path, output, columns, names, overwrite=overwrite
            )
    shape = [len(content["/labels"])]
    form = FORMS[data.suffix]
    return {**_told(source, output, "labels", form, shape, notes), "into": into, "key": key}


def _attributes(content: dict[str, Any], where: str, key: str) -> dict[str, Any]:
    """What nodes of a graph are given: KEY is the cluster or class, KEY_class, KEY_confidence."""
    columns = results.columns(content, where)
    main = "cluster" if "cluster" in columns else "class"
    kept = {name: columns[name] for name in ("cluster", "class", "confidence") if name in columns}
    return {key if name == main else f"{key}_{name}": kept[name] for name in kept}


def _told(
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
