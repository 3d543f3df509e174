"""The one door from the engine to its page: `mustlink.ui`.

The page is `mustlink_io`'s, which is imported when it is asked for and not before.
"""

from __future__ import annotations

from typing import Any


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
