"""Run all reproductions and write RESULTS.md: `python -m bench.papers [--full] [--only NAME ...]`.

Without `--full` the slow ones make fewer draws than the papers, as many as a quarter of an hour
on two cores allows; every table says how many. With `--only` the other sections stay as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.common import machine, say

from .common import Options

OUT = Path(__file__).resolve().parent / "RESULTS.md"
# module: draws of the paper, for --full
SCRIPTS = {
    "wd14_fig3": 1,
    "wd14_fig7": 50,
    "wd14_fig8": 20,
    "wd14_fig9_10": 100,
    "whc11_table1": 20,
    "whc11_table3": 10,
    "whc11_fig3": 10,
    "pccc": 5,
    "ab09_fig3": 10,
    "wd12_fig4_5": 100,
    "fli11_fig2": 20,
    "fli11_sparse": 20,
}
HEAD = """# The papers' tables and figures, again

Written by `make papers` (`python -m bench.papers`, `--full` for as many draws as the papers made).
Cells like `0.880 / 0.901 / +0.021` are the paper's value, ours, and the difference. Where a paper
shows a curve only, its statements are checked. What the papers leave open (kernel widths,
positions, noise) is chosen in each script's docstring.
"""


def section(name: str, draws: int | None, jobs: int) -> tuple[str, float]:
    """Text of one reproduction under its title, and its seconds."""
    module = import_module(f"bench.papers.{name}")
    say(f"{name} ({draws if draws is not None else module.DRAWS} draws)")
    started = time.perf_counter()
    text = module.run(Options(draws, jobs))
    seconds = time.perf_counter() - started
    intro = (module.__doc__ or "").split("\n\n")
    about = [p for p in intro[1:] if not p.strip().startswith("python -m")]
    parts = [f"## {title(module)}", *about, *(t.strip() for t in text)]
    return "\n\n".join(part.strip() for part in parts if part.strip()), seconds


def title(module: Any) -> str:
    """Heading of a script's section: the first paragraph of its docstring."""
    return " ".join((module.__doc__ or "").split("\n\n")[0].split()).rstrip(".")


def sections(text: str) -> dict[str, str]:
    """Sections of a result file by heading."""
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="as many draws as the papers")
    parser.add_argument("--draws", type=int, help="of every script")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    kept = sections(args.out.read_text()) if args.out.exists() else {}
    about = machine()
    versions = ", ".join(f"{key} {about[key]}" for key in ("python", "numpy", "scipy"))
    for name in args.only:
        draws = args.draws if args.draws is not None else SCRIPTS[name] if args.full else None
        text, seconds = section(name, draws, args.jobs)
        say(f"{name}: {seconds:.0f} s")
        foot = f"*{seconds:.0f} s by {args.jobs} processes on {about['cores']} cores; {versions}.*"
        kept |= sections(f"{text}\n\n{foot}\n")
        order = [title(import_module(f"bench.papers.{one}")) for one in SCRIPTS]
        parts = [f"## {one}\n{kept[one].rstrip()}" for one in order if one in kept]
        args.out.write_text("\n\n".join([HEAD.strip(), *parts]) + "\n")
    say(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
