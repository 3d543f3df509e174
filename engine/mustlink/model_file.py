"""The one door from the engine to files: `est.save(path)` and `mustlink.load(path)`.

Files are `mustlink_io`'s, which is imported when one is asked for and not before. What is in them
is decided in `persistence`.
"""

from __future__ import annotations

from typing import Any, Self


class InFiles:
    """What can be saved and loaded."""

    def save(self, path: Any, *, data: bool = True) -> None:
        """Write the fitted estimator into an HDF5 file, from which `mustlink.load` makes it again.

        It is what `mustlink cluster -o` writes: labels, embedding and report, and the model, by
        which the estimator that is loaded answers, is refitted and extended as this one, bit by
        bit: parameters, what was told, graph, smooth vectors and points. The last three are most of
        the file: 10⁶ nodes with 15 neighbours are 250 MB, each smooth vector is 4 to 8 MB.
        Without `data` the file has digests of points and graph, which `load` is then to be given.
        Raises InputError for parameters that hold code, such as a classifier.
        """
        from mustlink_io.jobs.models import save_model

        save_model(self, path, data=data)

    def prepared_by(self, preparation: Any) -> Self:
        """Say how the fitted points were prepared: new ones are given as those were before that.

        `preparation` is a `mustlink.preparation.fitted.Fitted`; None: not at all. It is no
        parameter either, and the next `fit` forgets it.
        """
        self._preparation = preparation
        return self

    def _as_fitted(self, X: Any) -> Any:
        """New points prepared as the fitted ones were, as files are read; raises InputError."""
        how = getattr(self, "_preparation", None)
        return X if how is None else how.transform(X).astype("float32")


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
