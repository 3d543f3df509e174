"""The papers' tables and figures again, into RESULTS.md: `python -m bench.papers [--only NAME …]`.

Stopped and started again it goes on where it was. A part (`--only`, `--draws`) is not the file of
the repository and goes to `bench/out/papers/RESULTS.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.runner import OUT, data_folder, machine, say

from .page import Section, page, section
from .running import Found, Task, run, sources

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
SECTIONS = (
    "wd14_fig3",
    "wd14_fig4",
    "wd14_fig5_6",
    "wd14_fig7",
    "wd14_fig8",
    "wd14_fig9_10",
    "wd14_fig11",
    "whc11_table1",
    "whc11_table3",
    "whc11_fig3",
    "pccc",
    "ab09_fig2",
    "ab09_fig3",
    "wd12_fig4_5",
    "fli11_fig2",
    "fli11_sparse",
    "unseen",
)


def measured(names: Sequence[str], given: int | None, jobs: int, folder: Path) -> list[Section]:
    """All tasks of all sections in one pool, then their reports."""
    modules: list[Any] = [import_module(f"bench.papers.{name}") for name in names]
    draws = [module.DRAWS if given is None else given for module in modules]
    asked: list[list[Task]] = [m.tasks(d) for m, d in zip(modules, draws, strict=True)]
    results = iter(run([task for tasks in asked for task in tasks], jobs, folder))
    made = []
    for module, n, tasks in zip(modules, draws, asked, strict=True):
        found, seconds = Found(), 0.0
        for task in tasks:
            result, spent = next(results)
            found[task.function].append((task.args, result))
            seconds += spent
        made.append(section(module, n, module.report(n, found), seconds))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME",
                        help=f"of {', '.join(SECTIONS)}")  # fmt: skip
    parser.add_argument("--draws", type=int, help="of every section, for a quick try")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, help="default: bench/papers/RESULTS.md for a whole run")
    args = parser.parse_args()
    part = args.only is not None or args.draws is not None
    out = args.out or (OUT / "papers" / "RESULTS.md" if part else RESULTS)
    if out == RESULTS and not data_folder().is_dir():
        parser.error(
            f"no data in {data_folder()}: set MUSTLINK_DATA, the file is written whole only"
        )
    commit, folder = sources()
    out.parent.mkdir(parents=True, exist_ok=True)
    say(f"commit {commit}; what is done is kept in {folder}")
    made = measured(args.only or SECTIONS, args.draws, args.jobs, folder)
    about = machine()
    versions = ", ".join(f"{key} {about[key]}" for key in ("python", "numpy", "scipy"))
    seconds = sum(one.seconds for one in made)
    told = f"{time.strftime('%Y-%m-%d')}, {versions}, {seconds / 60:,.0f} min of CPU"
    out.write_text(page(made, commit, told), encoding="utf-8")
    say(f"written: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
