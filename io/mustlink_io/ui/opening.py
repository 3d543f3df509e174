"""What a person names, a picture, data, a result or an estimator, becomes a page."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mustlink as ml
from mustlink.core.observe import Observer, recorded
from mustlink.core.state import chosen
from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats.photographs import load_image
from mustlink_io.formats.points import columns_apart
from mustlink_io.formats.shown import Show, of_array, of_rows, shown
from mustlink_io.formats.texts import TABLES
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import HDF5, PICTURES, parse
from mustlink_io.hdf5.result import Input
from mustlink_io.hdf5.writing import check_output, to_json
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.points import fingerprint
from mustlink_io.jobs.side_information import labels_of
from mustlink_io.ui.journal import Journal
from mustlink_io.ui.map_view import checked_coordinates, flat
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.node_view import TableRows
from mustlink_io.ui.parts import Page, panel
from mustlink_io.ui.picture_view import PictureSession

_NO_STEPS = Preparation()


def page_of_picture(
    picture: str,
    strokes: str | None = None,
    output: str | None = None,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Page:
    """A page to paint on a picture file; raises InputError.

    Strokes are in `strokes`, photo-strokes.png if left out, labels saved as `output`,
    photo-cut.png if left out.
    """
    from mustlink_io.ui.picture_view import PictureView

    panel()
    path = Path(picture)
    painted = Path(strokes or path.with_name(f"{path.stem}-strokes.png"))
    target = Path(output or path.with_name(f"{path.stem}-cut.png"))
    if target.suffix.lower() != ".png":
        raise InputError(f"output: {target} does not end in .png, which labels need; change it")
    image = load_image(picture, picture)
    for each in (painted, target):
        check_output(each, (picture,), None)  # strokes are gone on with, the page asks first
    session = PictureSession(image, painted, random_state=random_state, n_jobs=n_jobs)
    return Page(session, lambda: PictureView(session, target), f"{path.name} – mustlink")


def is_picture(text: str) -> bool:
    """Whether it names a picture file."""
    return parse(text).suffix in PICTURES


def page_of_session(
    session: NodeSession,
    *,
    coordinates: Any = None,
    show: Show | None = None,
    columns: tuple[str, ...] = (),
    output: str | Path | None = None,
    title: str = "mustlink",
) -> Page:
    """A page with the map of a fitted estimator; raises InputError.

    Of points, without `show`, a question shows the row.
    """
    panel()
    from mustlink_io.ui.node_view import NodeView

    where = flat(session.estimator, coordinates)
    points = getattr(chosen(session.estimator), "_points", None)
    if show is None and isinstance(points, np.ndarray):
        show = of_rows(points, columns)
    return Page(session, lambda: NodeView(session, where, show, output), title, session.place)


def page_of_file(text: str, **how: Any) -> Page:
    """The page of a file, by what `session_of_file` takes; raises InputError."""
    panel()
    session, more = session_of_file(text, **how)
    return page_of_session(session, **more, title=f"{parse(text).path.name} – mustlink")


def session_of_file(
    text: str,
    *,
    output: str | None = None,
    n_clusters: int | str = "auto",
    labels: str | None = None,
    ids: str | None = None,
    map_of: str | None = None,
    show: str | None = None,
    steps: Preparation = _NO_STEPS,
    random_state: int = 0,
    n_jobs: int | None = None,
    observer: Observer | None = None,
) -> tuple[NodeSession, dict[str, Any]]:
    """The session of a page of a file, and what else `page_of_session` takes; raises InputError.

    Data are clustered by `Auto` first; a result file has its model. `steps` prepare columns.
    `map_of` names coordinates (n, 2), `show` a dataset, or a folder of pictures, with an entry for
    every row. Answers are in a file beside `output` until it is saved; an `output` that is there
    already is the start.
    """
    place = parse(text)
    store.check_readable(place.path)
    own = place.suffix in HDF5 and not place.part and has_model(place.path)
    target = Path(output or (place.path if own else place.path.with_suffix(".ui.h5")))
    if target != place.path:
        check_output(target, (place.path,))
    saved = place.path if own else target
    columns: tuple[str, ...] = ()
    apart = columns_apart(text, labels, None, ids)
    if own or (target.exists() and has_model(target)):
        estimator = ml.load(saved)
        beside = Carried.of(saved, int(estimator.labels_.size))
        if not own:
            data = formats.load(text, steps=steps, apart=apart)
            check_same(estimator, data.to_fit(text), f"{target}: its answers", text)
        made, where = _shown_and_map(show, map_of, beside)
    else:
        data = formats.load(text, steps=steps, apart=apart)
        recorder = recorded(observer)
        data.report(recorder)
        pixels = None if data.image is None else data.image.shape[:2]
        known = None if labels is None else labels_of(labels, data, pixels, text)
        if known is not None:
            known.report(recorder)
        y = None if known is None else known.codes
        if data.left_out:
            raise InputError(f"{text}: {data.left_out} rows have missing values; fill them first")
        beside = Carried.of_files(data, known, frozenset())
        made, where = _shown_and_map(show, map_of, beside)  # before a fit that may take minutes
        columns = data.columns if data.kind == "points" else ()
        if columns and data.fitted is not None:
            columns = tuple(columns[at] for at in data.fitted.sources)
        affinity = "knn" if data.kind == "points" else "precomputed"
        estimator = ml.Auto(
            n_clusters, affinity=affinity, random_state=random_state, n_jobs=n_jobs
        ).fit(data.to_fit(text), y, observer=observer)
        estimator.prepared_by(data.fitted)
        entries: dict[str, Any] = {} if data.image is None else {"/image": data.image}
        if data.fitted is not None:
            entries["/@preparation"] = to_json(data.fitted.to_dict())
        beside = replace(beside, entries=entries)
    journal = Journal.beside(target, estimator)
    beside = beside.then(shlex.join(["mustlink", "ui", text]))
    if made is None:
        made = _as_in_the_table(text, own, beside, ids, labels)
    where = flat(estimator, where)  # of what is fitted: it stays where it is after answers
    session = NodeSession(estimator, journal, beside=beside)
    return session, {"coordinates": where, "show": made, "columns": columns, "output": target}


def _as_in_the_table(
    text: str, own: bool, beside: Carried, ids: str | None, labels: str | None
) -> Show | None:
    """The cells of the rows, as their table has them; None where they are in none."""
    place = parse(text)
    if not own:
        if place.suffix not in TABLES:
            return None
        size, digest = place.path.stat().st_size, formats.sha256(place.path)
        inputs = (Input(role="data", name=text, bytes=size, sha256=digest),)
        given = {"--id": ids, "--labels": labels}
        words = [word for one in given.items() if one[1] is not None for word in one]
        command = shlex.join(["mustlink", "ui", text, *map(str, words)])
        beside = replace(beside, inputs=inputs, origin={"command": command})
    source = beside.source(place.path.parent)
    return TableRows(source) if source.columns else None


def _shown_and_map(show: str | None, map_of: str | None, of: Carried) -> tuple[Show | None, Any]:
    """What questions show, and coordinates (n, 2) of nodes; None for what is not named."""
    where = found = None
    if map_of is not None:
        where = checked_coordinates(formats.load(map_of, "points").value, of.n_rows)
        where = where if of.kept is None else where[of.kept]
    if show is not None:
        of_row = shown(show, of.n_rows)
        found = of_row if of.kept is None else lambda node: of_row(int(of.rows(node)))
    return found, where


def check_same(estimator: Any, data: Any, what: str, text: str) -> None:
    """Raise InputError unless an estimator was fitted to these points, or to this graph."""
    points: Any = chosen(estimator)._points
    W: Any = getattr(data, "affinity", data)
    is_graph: bool = sp.issparse(W)
    if is_graph:
        fitted = estimator.graph_.affinity
        same = W.shape == fitted.shape and np.array_equal(W.tocsr().indices, fitted.indices)
    else:
        same = points is not None and points.shape == W.shape
        same = same and fingerprint(np.asarray(points)) == fingerprint(W)
    if not same:
        raise InputError(f"{what} are on other data than {text}; move it away, or give another -o")


def has_model(path: Path) -> bool:
    """Whether an HDF5 file holds a fitted estimator."""
    with store.open_h5(path) as file:
        return store.find(file, "/model") is not None


def page_of(data: Any, *, coordinates: Any = None, show: Any = None, output: Any = None) -> Page:
    """A page of a fitted estimator, a picture, or the name of a file; see `mustlink.ui`."""
    if isinstance(data, str | Path):
        text = str(data)
        if coordinates is not None or show is not None:
            raise InputError("coordinates, show: of a file they are files; use mustlink ui")
        return page_of_picture(text, None, output) if is_picture(text) else page_of_file(
            text, output=output
        )  # fmt: skip
    if hasattr(data, "get_params"):
        n = int(getattr(data, "labels_", np.empty(0)).size)
        if not n:
            raise InputError(f"{type(data).__name__}: is not fitted; fit it first")
        made = None if show is None else of_array(np.asarray(show), n, "show")
        return page_of_session(NodeSession(data), coordinates=coordinates, show=made, output=output)
    image = np.asarray(data)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(
            f"data: {type(data).__name__} of shape {image.shape}; give a fitted estimator, a "
            "picture (h, w, 3) of uint8, or the name of a file"
        )
    panel()
    from mustlink_io.ui.picture_view import PictureView

    session = PictureSession(image)
    return Page(session, lambda: PictureView(session, output), "mustlink")
