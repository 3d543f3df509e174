"""Where the engine calls `mustlink_io`: `est.save(path)`, `mustlink.load(path)`, `mustlink.ui`.

Files and pages are there; it is imported when one of these is called and not before.
What a saved estimator consists of is decided in `persistence`.
"""

from __future__ import annotations

from typing import Any


def save(estimator: Any, path: Any, *, data: bool = True) -> None:
    """Write a fitted estimator to an HDF5 file, with its `data` or without."""
    from mustlink_io.jobs.models import save_model

    save_model(estimator, path, data=data)


def load(path: Any, data: Any = None) -> Any:
    """The fitted estimator in a file that `save`, `mustlink cluster` or `propagate` wrote.

    It answers as the one that was saved: `labels_`, `predict`, `refit` and `add` are the same bit
    by bit. Where labels of the shell had names, classes of a propagator are these, and
    `cluster_names_` tells what is in clusters. `data` are the points (n, d), or of a graph that was
    fitted the Graph or its matrix, where the file has their digest only, with columns as they were
    before the shell prepared them. Raises InputError for what is no such file, is damaged,
    or for data that are not those of the fit.
    """
    from mustlink_io.jobs.models import load_called

    return load_called(path, data)


def ui(data: Any, *, coordinates: Any = None, show: Any = None, output: Any = None) -> Any:
    """A page on which a person answers and the clusters follow: shown in a notebook, or served.

    `data` is a fitted estimator that takes labels or constraints, which is refitted to the answers;
    a picture (h, w, 3) of uint8, to be cut along strokes; or the name of a file, as
    `mustlink ui` takes it. `coordinates` (n, 2) are where the nodes are on the map, found from the
    embedding if left out; `show` what a question shows of a node: texts (n,), rows (n, d) or
    pictures (n, h, w) or (n, h, w, 3); `output` where `save` writes.

    Returns a page: as the last line of a notebook's cell it shows itself, `page.serve()` opens a
    browser on 127.0.0.1, `page.session` has answers and history. Needs the extra `ui`. Raises
    InputError. Cost of an answer: a `refit`, and less than 1 s for the map of 10⁶ nodes.
    """
    from mustlink_io.ui.opening import page_of

    return page_of(data, coordinates=coordinates, show=show, output=output)
