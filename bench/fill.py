"""Figures in README, docs and their plots, filled from what the benchmarks measured.

    python bench/fill.py            write them
    python bench/fill.py --check    say which are not as measured; exit code 1

`bench/results.json` is what benchmarks write with --record. A text between

    <!-- filled: NAME -->   and   <!-- /filled -->

is `bench/text/NAME.md`, a Jinja template to which every entry of results.json is known by its name.
Plots carry a digest of their figures (`plots.py`). The drawing of the rooms and their list are made
of the import contracts and of docstrings.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import architecture
import plots
import runner

TEXT = runner.BENCH / "text"
BLOCK = re.compile(r"(<!-- filled: ([\w-]+) -->\n).*?(<!-- /filled -->)", re.DOTALL)


def pages() -> list[Path]:
    """Pages that may have figures."""
    return [runner.ROOT / "README.md", *sorted((runner.ROOT / "docs").rglob("*.md"))]


# ---------------------------------------------------------------- words


def seconds(value: float) -> str:
    """Two digits, whole numbers as they are, and the unit; minutes:seconds from five minutes on."""
    if value >= 300:
        return f"{value // 60:.0f}:{value % 60:02.0f}"
    if value >= 9.95 or isinstance(value, int):
        return f"{value:.0f} s"
    return f"{value:.1f} s" if value >= 1 else f"{value:.2g} s"


def gb(value: float) -> str:
    """Two digits and the unit, 10⁹ bytes."""
    digits = 0 if value >= 9.95 else 1 if value >= 1 else 2
    return f"{value:.{digits}f} GB"


def ari(value: float, digits: int = 3) -> str:
    """An index between 0 and 1: more digits where three would round to 1."""
    for more in range(digits, 6):
        if f"{value:.{more}f}" != f"{1:.{more}f}" or value == 1:
            return f"{value:.{more}f}"
    return f"{value:.{digits}f}"


def table(rows: dict[str, list[float]], digits: int = 3, **names: str) -> str:
    """Rows `| name | figures |`, the largest of every column in bold; `names` replace words."""
    top = [max(column) for column in zip(*rows.values(), strict=True)]
    lines = []
    for name, values in rows.items():
        cells = [f"{v:.{digits}f}" for v in values]
        marked = [f"**{c}**" if v == t else c for c, v, t in zip(cells, values, top, strict=True)]
        shown = names.get(name, f"`{name}`" if name.isalnum() else name)
        lines.append(f"| {shown} | " + " | ".join(marked) + " |")
    return "\n".join(lines)


def rendered(name: str, results: dict[str, Any]) -> str:
    """The text of a block."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEXT),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {"s": seconds, "gb": gb, "ari": ari}
    environment.globals |= {"command": lambda entry: f"`{results[entry]['command']}`"}
    environment.globals |= {"table": table, "entries": results, "rooms": architecture.rooms}
    figures = {entry: record["figures"] for entry, record in results.items()}
    return environment.get_template(f"{name}.md").render(figures).strip()


def filled(text: str, results: dict[str, Any]) -> str:
    """A page with its blocks as measured."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n{rendered(found[2], results)}\n\n{found[3]}"

    return BLOCK.sub(block, text)


def stale() -> list[Path]:
    """Pages and plots that are not as measured."""
    results = runner.results()
    found = [
        page
        for page in pages()
        if filled(text := page.read_text(encoding="utf-8"), results) != text
    ]
    found += plots.stale(results)
    if architecture.drawn() != architecture.PICTURE.read_text(encoding="utf-8"):
        found.append(architecture.PICTURE)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    results = runner.results()
    for path in stale():
        print(path.relative_to(runner.ROOT))
        if args.check:
            continue
        if path in plots.PLOTS:
            plots.draw(path, results)
        elif path == architecture.PICTURE:
            architecture.main()
        else:
            path.write_text(filled(path.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 1 if args.check and stale() else 0


if __name__ == "__main__":
    sys.exit(main())
