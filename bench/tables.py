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

from common import _result, call, child, command, parser, record, say, table, timed

METHODS = ("csp", "fast-ge", "sssc", "gfhf", "llgc", "poisson")
PROPAGATORS = ("gfhf", "llgc", "poisson")


def peers(path: str, standardize: bool) -> dict[str, Any]:
    """ARI and seconds of classifiers on the labelled rows and of k-means from their means."""
    import h5py
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.metrics import adjusted_rand_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    with h5py.File(path) as file:
        X, y, truth = (file[name][()] for name in ("points", "labels", "truth"))
    if standardize:
        X = StandardScaler().fit_transform(X)
    given = y >= 0
    centres = np.array([X[y == c].mean(axis=0) for c in np.unique(y[given])])
    ways = {
        "1-NN": lambda: KNeighborsClassifier(1).fit(X[given], y[given]).predict(X),
        "extra trees": lambda: (
            ExtraTreesClassifier(random_state=0).fit(X[given], y[given]).predict(X)
        ),
        "seeded k-means": lambda: KMeans(len(centres), init=centres, n_init=1).fit_predict(X),
    }
    found = {}
    for name, way in ways.items():
        labels, seconds = timed(way)
        found[name] = {"ari": adjusted_rand_score(truth, labels), "seconds": seconds}
    return found


def suggested(path: Path) -> list[str]:
    """The words of the command that `suggest` prints for a table with labels."""
    k = _classes(path)
    asked = ["suggest", f"{path}:/points", "-k", str(k), "--labels", f"{path}:/labels", "--json"]
    found = json.loads(child(["-m", "mustlink_io", *asked]).stdout)
    words = shlex.split(found["command"])[1:]
    at = words.index("-o") if "-o" in words else len(words)
    return words[:at] + words[at + 2 :]


def _classes(path: Path) -> int:
    import h5py
    import numpy as np

    with h5py.File(path) as file:
        return int(np.unique(file["truth"][()]).size)


def attempt(path: Path, words: list[str], out: Path, memory: str | None) -> dict[str, Any]:
    """One run to its end, and its score; what it said where it failed."""
    limit = ["--memory", memory] if memory else []
    done = child(
        ["-m", "mustlink_io", *words, *limit, "-o", str(out), "--fresh", "--quiet", "--json"]
    )
    if done.code:
        said = done.stderr.strip().splitlines()
        return {
            "seconds": done.seconds,
            "rss": done.peak_bytes,
            "said": said[-1] if said else "",
            "code": done.code,
        }
    found = _result(done, " ".join(words))
    score = command("score", out, "--truth", f"{path}:/truth")
    out.unlink()
    planned = found.get("planned_peak_bytes")
    ari = score["truth"]["ari"]
    return {
        "seconds": done.seconds,
        "rss": done.peak_bytes,
        "planned": planned,
        "ari": ari,
        "doubts": found.get("warnings", []),
    }


def words_of(path: Path, method: str, options: list[str]) -> list[str]:
    verb = ["propagate"] if method in PROPAGATORS else ["cluster", "-k", str(_classes(path))]
    return [
        verb[0],
        f"{path}:/points",
        *verb[1:],
        "-m",
        method,
        "--labels",
        f"{path}:/labels",
        *options,
    ]


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("tables", nargs="+", type=Path)
    options.add_argument("--options", nargs="*", default=[], help="NAME=--option of one table")
    options.add_argument("--budgets", nargs="+", default=["1GB", "2GB"])
    options.add_argument("--methods", nargs="+", default=list(METHODS))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    more = dict(one.split("=", 1) for one in given.options)
    figures: dict[str, Any] = {}
    for path in given.tables:
        extra = shlex.split(more.get(path.stem, ""))
        beside = call("tables:peers", path=path, standardize="--standardize" in extra)
        runs = {("suggested", None): suggested(path)}
        runs |= {(m, b): words_of(path, m, extra) for m in given.methods for b in given.budgets}
        rows = [
            [name, None, one["seconds"], None, None, one["ari"], ""]
            for name, one in beside.items()
            if isinstance(one, dict)
        ]
        for (name, memory), words in runs.items():
            say(" ".join(words) + (f" --memory {memory}" if memory else ""))
            one = attempt(path, words, given.out / "table.h5", memory)
            figures.setdefault(path.stem, {})[f"{name} {memory or ''}".strip()] = one
            planned = one.get("planned")
            rows.append(
                [
                    name,
                    memory,
                    one["seconds"],
                    one["rss"] / 1e9,
                    planned and planned / 1e9,
                    one.get("ari"),
                    one.get("said", ""),
                ]
            )
            say(str(rows[-1]))
        figures[path.stem]["peers"] = {
            name: one for name, one in beside.items() if isinstance(one, dict)
        }
        table(path.stem, ["run", "budget", "s", "peak GB", "planned GB", "ARI", "said"], rows)
    record("tables", figures)


if __name__ == "__main__":
    main()
