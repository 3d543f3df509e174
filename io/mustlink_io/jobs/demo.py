"""`mustlink demo`: what `mustlink cut` makes of a photograph and strokes, and one picture of it.

WD14 §7.1 had to shrink images to 48 x 32 pixels; here all 427 x 640 = 273,280 are labelled. The
photograph ships inside scikit-learn, the strokes, painted on a layer above it, with this package.
"""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from mustlink.cost.process_memory import peak_bytes
from mustlink.errors import InputError
from mustlink.observe import Observer
from mustlink_io import pictures
from mustlink_io.formats.photographs import load_cut_out, load_image, load_strokes
from mustlink_io.hdf5.writing import atomic, check_output
from mustlink_io.jobs.cut import cut

PHOTOGRAPH = resources.files("sklearn.datasets") / "images" / "china.jpg"
STROKES = resources.files("mustlink_io") / "data" / "china_strokes.png"


def run(out_dir: str, observer: Observer | None = None) -> dict[str, Any]:
    """Write photograph and strokes, cut the one along the other, draw both; returns plain values.

    Strokes that are in the folder already stay, so that one can paint on them and run it again.
    """
    pictures.require_matplotlib()
    out = Path(out_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {out_dir}: cannot be made a folder ({error.strerror})") from error
    photograph, strokes = out / "china.jpg", out / "strokes.png"
    output, shown = out / "cut.png", out / "china.png"
    _put(PHOTOGRAPH.read_bytes(), photograph)
    if not strokes.exists():
        _put(STROKES.read_bytes(), strokes)
    check_output(shown)
    words = (str(photograph), str(strokes), str(output))
    told = cut(*words, observer=observer)
    _draw(photograph, strokes, told, shown)
    return {
        **told,
        "image": "china.jpg of scikit-learn",
        "command": shlex.join(("mustlink", "cut", words[0], "--strokes", words[1], "-o", words[2])),
        "picture": str(shown),
        "peak_bytes": peak_bytes(),
    }


def _put(content: bytes, path: Path) -> None:
    check_output(path)
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def _draw(photograph: Path, strokes: Path, told: dict[str, Any], target: Path) -> None:
    """Strokes, outline and the first cut-out that is no ground, side by side."""
    image = load_image(photograph, "photograph")
    first = next(one for one in told["classes"] if not one["is_ground"])
    figure = pictures.side_by_side(
        (
            pictures.painted(image, *load_strokes(strokes, "strokes")),
            load_image(told["outline"], "outline"),
            load_cut_out(first["cut_out"], "cut-out"),
        ),
        ("a few strokes", "the cut along them", "one part, cut out"),
    )
    pictures.save(figure, target)
