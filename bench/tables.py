"""Whole tables through the shell: every method at two budgets, beside what a person would take.

    python bench/tables.py skin.h5 connections.h5 --options connections=--standardize

A table is an HDF5 file with /points, /labels (-1 unknown) and /truth. Beside each method: the
command that `mustlink suggest` prints, and 1-NN, extra trees and seeded k-means on the same labels.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import fits
import peers
import render
import runner

CLUSTERERS, PROPAGATORS = ("csp", "fast-ge", "sssc"), ("gfhf", "llgc", "poisson")


def beside(path: str, standardize: bool) -> dict[str, Any]:
    """ARI and seconds of classifiers on the labelled rows and of k-means from their means."""
    import h5py
    from sklearn.preprocessing import StandardScaler

    with h5py.File(path) as file:
        X, y, truth = (file[name][()] for name in ("points", "labels", "truth"))
    if standardize:
        X = StandardScaler().fit_transform(X)
    found = {}
    for name, way in peers.OF_TABLES.items():
        labels, seconds = runner.timed(way, X, y)
        found[name] = {"ari": fits.ari(truth, labels), "seconds": seconds}
    return {"peers": found, "classes": len(set(truth.tolist()))}


def suggested(path: Path, k: int) -> list[str]:
    """The words of the command that `suggest` prints for a table with labels."""
    words = ["suggest", f"{path}:/points", "-k", str(k), "--labels", f"{path}:/labels", "--json"]
    found = json.loads(runner.child(["-m", "mustlink_io", *words]).stdout)
    words = shlex.split(found["command"])[1:]
    at = words.index("-o") if "-o" in words else len(words)
    return words[:at] + words[at + 2 :]


def attempt(path: Path, words: list[str], out: Path, memory: str | None) -> dict[str, Any]:
    """One run to its end, and its score; its error where it failed."""
    limit = ["--memory", memory] if memory else []
    line = ["-m", "mustlink_io", *words, *limit, "-o", str(out), "--fresh", "--quiet", "--json"]
    done = runner.child(line)
    figures = {"seconds": done.seconds, "rss": done.peak_bytes}
    if done.code:
        return {**figures, "said": done.stderr.strip().rpartition("\n")[2], "code": done.code}
    found = runner.result(done, " ".join(words))
    score = runner.command("score", out, "--truth", f"{path}:/truth")
    out.unlink()
    return {**figures, "planned": found.get("planned_peak_bytes"), "ari": score["truth"]["ari"]}


def main() -> None:
    lists: dict[str, Any] = {"tables_": [], "options": [], "budgets": ["1GB", "2GB"]}
    args = runner.options(__doc__, methods=[*CLUSTERERS, *PROPAGATORS], **lists)
    more = dict(one.split("=", 1) for one in args.options)
    figures: dict[str, Any] = {}
    for path in map(Path, args.tables_):
        extra = shlex.split(more.get(path.stem, ""))
        known = runner.call("tables:beside", path=path, standardize="--standardize" in extra)
        k = known["classes"]
        runs: dict[str, Any] = {"suggested": (suggested(path, k), None)}
        for method in args.methods:
            verb = ["propagate"] if method in PROPAGATORS else ["cluster", "-k", str(k)]
            words = [verb[0], f"{path}:/points", *verb[1:], "-m", method]
            words += ["--labels", f"{path}:/labels", *extra]
            runs |= {f"{method} {budget}": (words, budget) for budget in args.budgets}
        found = figures[path.stem] = {}
        for name, (words, budget) in runs.items():
            runner.say(" ".join(words) + (f" --memory {budget}" if budget else ""))
            found[name] = attempt(path, words, args.out / "table.h5", budget)
        columns = ("seconds", "rss", "planned", "ari", "said")
        render.records(path.stem, {**known["peers"], **found}, columns)
        found["peers"] = known["peers"]
    runner.record("tables", figures)


if __name__ == "__main__":
    main()
