"""The drawing of the rooms, docs/architecture.svg, from the import contracts of pyproject.toml.

python bench/architecture.py --record    counts the lines of every room and draws
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path

import runner

PICTURE = runner.ROOT / "docs" / "architecture.svg"
HOMES = {"mustlink": runner.ROOT / "engine", "mustlink_io": runner.ROOT / "io"}
SENTENCES = {  # what the middle column says beside the room that does it
    "graph": "Points become a graph,",
    "operators": "the graph becomes operators,",
    "eigen": "operators are solved,",
    "discretize": "solutions become labels;",
    "clusterers": "a method reads like its paper.",
}
LEFT, WIDTH, HEIGHT, STEP = 230, 410, 26, 36


def layers(package: str) -> list[list[str]]:
    """Rooms of a package from above to below, those of one layer side by side."""
    stated = tomllib.loads((runner.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in stated["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [package]:
            rows = [row.replace(":", "|").split("|") for row in contract["layers"]]
            return [[room.strip(" ()") for room in row] for row in rows]
    raise LookupError(f"{package}: no contract of layers in pyproject.toml")


def holds(package: str, room: str) -> str:
    """First line of the docstring of a room."""
    home = HOMES[package] / package
    path = home / room / "__init__.py" if (home / room).is_dir() else home / f"{room}.py"
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return told.split("\n", 1)[0].replace("|", "\\|")


def rooms() -> list[tuple[str, list[tuple[str, str]]]]:
    """For `bench/text/rooms.md`: packages, and in each the rooms with what they hold."""
    return [
        (package, [(room, holds(package, room)) for row in layers(package) for room in row])
        for package in HOMES
    ]


def counted() -> dict[str, dict[str, tuple[int, int]]]:
    """Files and lines of every room, by package."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for package, home in HOMES.items():
        for row in layers(package):
            for room in row:
                path = home / package / room
                files = sorted(path.rglob("*.py")) or [path.with_suffix(".py")]
                lines = sum(len(one.read_text(encoding="utf-8").splitlines()) for one in files)
                found.setdefault(package, {})[room] = len(files), lines
    return found


def drawn() -> str:
    """The picture: a box a room, a row a layer; whatever is above may import what is below.

    With the hundreds of lines of every room as they were counted last.
    """
    counts = runner.results().get("architecture", {}).get("figures", {})
    engine, io = layers("mustlink"), layers("mustlink_io")
    height = 70 + STEP * len(engine)
    right = LEFT + WIDTH + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 280} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{right + 280}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(LEFT + WIDTH / 2, 26, "engine/mustlink", "middle", "bold"),
        _text(right + 130, 26, "io/mustlink_io", "middle", "bold"),
    ]
    for at, row in enumerate(engine):
        y = 44 + STEP * at
        parts += _boxes(row, LEFT, WIDTH, y, "#d5efec", counts.get("mustlink", {}))
        said = " ".join(SENTENCES[room] for room in row if room in SENTENCES)
        parts.append(_text(LEFT - 14, y + 18, said, "end", "normal"))
    for at, row in enumerate(io):
        parts += _boxes(row, right, 260, 44 + STEP * at, "#e8e4f3", counts.get("mustlink_io", {}))
    below = 44 + STEP * len(io)
    lines = ("files and terminals live next door:", "io imports the engine,", "never the reverse")
    for at, line in enumerate(lines):
        parts.append(_text(right + 130, below + 22 + 18 * at, line, "middle", "normal"))
    parts.append(_text(LEFT + WIDTH / 2, height - 8, "imports point down only", "middle", "normal"))
    return "\n".join([*(part for part in parts if part), "</svg>", ""])


def _boxes(
    row: list[str], x: float, width: float, y: float, colour: str, counts: dict[str, list[int]]
) -> list[str]:
    each = (width - 8 * (len(row) - 1)) / len(row)
    found = []
    for at, room in enumerate(row):
        left = x + at * (each + 8)
        found.append(
            f'<rect x="{left:.0f}" y="{y}" width="{each:.0f}" height="{HEIGHT}" rx="4" '
            f'fill="{colour}" stroke="#555555"/>'
        )
        count = f" {counts[room][1] / 1000:.1f} k" if room in counts else ""
        found.append(_text(left + each / 2, y + 18, room + count, "middle", "normal"))
    return found


def _text(x: float, y: float, words: str, anchor: str, weight: str) -> str:
    if not words:
        return ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#222222">{escape(words)}</text>'
    )


def main() -> None:
    runner.record("architecture", counted())
    Path(PICTURE).write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
