"""Pictures of millions of rows on a map: Datashader counts them by pixels, and shades these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ranges = tuple[tuple[float, float], tuple[float, float]]
COLOURINGS = ("cluster", "confidence", "doubt")
_FAINT = 120  # of 255: how opaque a pixel of a single row is
_FEW = (100_000, 20_000, 2_000)  # rows that are seen, below which each is drawn larger by a pixel
_NONE = "#b8bec4"


class MapPicture:
    """Rows at coordinates (n, 2), ready to be drawn; holds 8 bytes a row, and 4 for colours."""

    def __init__(self, where: NDArray[np.float32]) -> None:
        import pandas as pd

        self._frame = pd.DataFrame({"x": where[:, 0], "y": where[:, 1]})

    def by_group(self, codes: NDArray[np.integer[Any]], colours: Sequence[str]) -> None:
        """Colour rows (n,) by their group, a place among `colours`, or -1."""
        import pandas as pd

        # The last is for rows in no group.
        count = len(colours)
        filled = np.where(codes < 0, count, codes)
        self._frame["c"] = pd.Categorical.from_codes(filled, categories=range(count + 1))
        self._key = [*colours, _NONE]
        self._of_groups = True

    def by_value(self, values: NDArray[Any], colours: Sequence[str]) -> None:
        """Colour rows (n,) by values from 0 to 1, between colours at equal distances."""
        self._frame["c"] = np.asarray(values, dtype=np.float32)
        self._key = list(colours)
        self._of_groups = False

    def drawn(self, ranges: Ranges, width: int, height: int) -> NDArray[np.uint8]:
        """The picture (height, width, 4), its lowest row first; of groups the one of most rows.

        A pixel has the mean colour of its rows.
        """
        import datashader as ds
        import datashader.transfer_functions as tf

        canvas = ds.Canvas(width, height, *ranges)
        if self._of_groups:
            found = canvas.points(self._frame, "x", "y", ds.count_cat("c"))
            counts = found.sum(dim=found.dims[-1])
            picture = tf.shade(found, color_key=self._key, how="eq_hist", min_alpha=_FAINT)
        else:
            counts = canvas.points(self._frame, "x", "y", ds.count())
            found = canvas.points(self._frame, "x", "y", ds.mean("c"))
            picture = tf.shade(found, cmap=self._key, how="linear", span=(0.0, 1.0))
        seen = int(np.asarray(counts).sum())
        larger = sum(seen < few for few in _FEW)
        if larger:
            picture = tf.spread(picture, px=larger)
        return np.asarray(picture.to_numpy(), dtype=np.uint32).view(np.uint8).reshape(
            height, width, 4
        )  # fmt: skip
