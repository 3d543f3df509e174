"""Results into other formats: labels as tables, arrays and pictures, and the other answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import annotate, frames, results, writers
from mustlink_io.formats.label_pictures import save_label_picture
from mustlink_io.hdf5.file_names import USUAL

TABLES = ("csv", "parquet")
PICTURES = ("png", "tif")
_ANSWERS = ("embedding", "membership", "label_distributions", "confidence")  # a row a node
Written = tuple[str, list[int], list[str]]  # what it is, its shape, notes


def is_labels(place: formats.Place) -> bool:
    """Whether a place is the labels of a file, or a column of obs in AnnData."""
    part = (place.part or "").strip("/")
    return place.suffix in formats.HDF5 and (
        part in ("labels", "y") or (place.suffix == annotate.ENDING and part.startswith("obs/"))
    )


def is_answer(place: formats.Place) -> bool:
    """Whether a place is an answer in a result beside the labels."""
    named = (place.part or "").strip("/") in _ANSWERS
    return named and results.is_result(formats.Place(place.path))


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
    pixels = results.picture_shape(str(place))
    if form in TABLES:
        _write_table(output, form, results.columns(content, str(place)))
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
        _write_table(output, form, nodes | columns)
        return name, list(values.shape), []
    if form not in ("npy", "npz"):
        raise InputError(f"{output}: {form} cannot hold {name}; write .csv, .parquet, .npy or .npz")
    pixels = results.picture_shape(str(place.path))
    if pixels is not None:
        values = values.reshape(*pixels, *values.shape[1:])
    writers.array_file(output, name, values, form)
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


def _write_table(output: str, form: str, columns: dict[str, Any]) -> None:
    (writers.table_csv if form == "csv" else frames.write_parquet)(output, columns)


def _refuse_copies(place: formats.Place, output: str, form: str) -> None:
    """Raise InputError for formats that take a result only beside the data it is of."""
    for named, noun, into in (("h5ad", "AnnData", "DATA"), ("graphml", "GraphML", "GRAPH")):
        if form == named:
            raise InputError(
                f"{output}: a result goes into a copy of the {noun} file it is of: "
                f"mustlink convert {place} --into {into}.{named} -o {output}"
            )
