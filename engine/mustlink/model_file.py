"""The one door from the engine to files: `est.save(path)` and `mustlink.load(path)`.

Files are `mustlink_io`'s, which is imported when one is asked for and not before. What is in them
is decided in `persistence`.
"""

from __future__ import annotations

from typing import Any


def save(estimator: Any, path: Any, *, data: bool = True) -> None:
    """See `GraphEstimator.save`."""
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
