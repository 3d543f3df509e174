"""From a result file to facts, a page and pictures."""

from __future__ import annotations

from typing import Any

from mustlink.errors import InputError
from mustlink_io import pictures
from mustlink_io.formats.photographs import load_image
from mustlink_io.hdf5 import writing
from mustlink_io.report import drawn, facts, page


def make(
    path: str,
    output: str | None = None,
    *,
    folder: str | None = None,
    image: str | None = None,
    page_wanted: bool = True,
) -> dict[str, Any]:
    """Write the page of a result, by default beside it, and its pictures; returns the facts.

    With `page_wanted` false a page is written only where `output` says. The facts name what was
    `written`. Raises InputError before anything is written.
    """
    result = facts.read(path)
    target = output or (page.beside(path) if page_wanted else None)
    if target is not None:
        page.check_ending(target)
        writing.check_output(target, [path])
    if image is not None and target is None and folder is None:
        raise InputError("--image: nothing is drawn without a page; give -o or --pictures, too")
    written: list[str] = []
    if target is not None or folder is not None:
        pictures.require_matplotlib()
        given = None if image is None else load_image(image, "--image")
        figures = drawn.draw(result, given)
        html = None if target is None else page.render(result, figures)
        if folder is not None:
            written += drawn.save(figures, folder)
        if target is not None and html is not None:
            page.write(target, html)
            written.insert(0, target)
    return {**result.facts, "written": written}
