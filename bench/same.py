"""Does a change leave the answers as they were? Sixty fits by two versions, compared.

    python bench/same.py HEAD~20 .                   two commits or folders
    python bench/same.py v0.1.0 . --python PYTHON    an interpreter that has the dependencies
    python bench/same.py HEAD~20 . --only CSP tiny   cases with one of these words in their names

Each version runs in a process and an environment of its own: a virtual environment made from its
own pyproject.toml, or `--python` with the version's sources before all else. A commit is checked
out below the output folder; what a clean commit answered is kept there and not computed again.

The same are: labels, every one; eigenvalues to 1e-8 of the largest; errors, word for word.
Embeddings (columns up to their sign, to 1e-6 of the largest entry) and label distributions (to
1e-6) are compared as well and named where they differ, but only labels and eigenvalues decide.
Exit code 1 if a case differs that is not listed in EXPLAINED with a reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common

CASES = common.BENCH / "same_cases.py"
EIGENVALUES, EMBEDDINGS = 1e-8, 1e-6

# Words that all occur in a case's name: why its answer may change from fc48b3a on. A file of the
# same form (JSON) can be given by --explained.
_START = "starts are keyed by node number; this basis is only converged to the tolerance asked for"
_NUMBERS = "the same partition, clusters numbered otherwise: " + _START
EXPLAINED: dict[str, str] = {
    "CSP digits refit=pairs": _START,
    "CSP parts tol=1e-07": _START,
    "SSSC digits labels": _START,
    "SSKK digits pairs": _NUMBERS,
    "SSKK blocks labels": _NUMBERS,
}


# ---------------------------------------------------------------- two versions


@dataclass(frozen=True)
class Version:
    """A folder of sources, its commit (clean: nothing but that), the interpreter that runs it."""

    name: str
    folder: Path
    python: Path
    commit: str
    clean: bool


def git(*words: str, where: Path = common.ROOT) -> str:
    """What git says, or "" where it refuses."""
    done = subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def version(name: str, out: Path, python: Path | None) -> Version:
    """A folder as it is, or a commit checked out below `out`."""
    folder = Path(name).resolve()
    if not (folder / "engine").is_dir():
        commit = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if not commit:
            sys.exit(f"{name}: neither a folder with engine/ nor a commit of this repository")
        folder = out / "sources" / commit[:12]
        if not folder.exists() and not _checkout(commit, folder):
            sys.exit(f"{name}: git could not check it out to {folder}")
    commit = git("rev-parse", "HEAD", where=folder)
    changed = git("status", "--porcelain", "--", "engine", where=folder)
    own = python if python is not None else _environment(folder, out)
    return Version(name, folder, own, commit, bool(commit) and not changed)


def _checkout(commit: str, folder: Path) -> bool:
    """Sources of a commit as plain files with a clone's history."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", common.ROOT, folder]
    steps = (clone, ["git", "-C", folder, "checkout", "--quiet", "--detach", commit])
    return all(subprocess.run(step, check=False).returncode == 0 for step in steps)


def _environment(folder: Path, out: Path) -> Path:
    """A virtual environment with the version's own dependencies; made once for a list of them."""
    stated = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    needed = sorted(stated["project"]["dependencies"])
    home = out / "environments" / hashlib.sha256("\n".join(needed).encode()).hexdigest()[:12]
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        common.say(f"making an environment for {folder}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        quiet = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([python, *quiet, *needed], check=True)
        (home / "ready").touch()
    return python


def outcomes(one: Version, out: Path, only: list[str], seed: int) -> tuple[dict[str, Any], Any]:
    """Run the cases with a version, or read what its clean commit answered before."""
    import numpy as np

    folder, every = (_folder(one, out, names, seed) for names in (only, []))
    if not one.clean:
        shutil.rmtree(folder, ignore_errors=True)
    elif (every / "outcomes.json").exists():
        folder = every
    if not (folder / "outcomes.json").exists():
        common.say(f"{one.name}: {one.folder}, commit {one.commit[:7]}")
        sources = os.pathsep.join(str(one.folder / root) for root in ("engine", "io"))
        words = [str(CASES), str(folder), "--seed", str(seed)] + (["--only", *only] if only else [])
        env = {**os.environ, "PYTHONPATH": sources}
        if subprocess.run([one.python, *words], env=env, check=False).returncode != 0:
            sys.exit(f"{one.name}: the cases could not be run")
    arrays = dict(np.load(folder / "arrays.npz"))
    return json.loads((folder / "outcomes.json").read_text()), arrays


def _folder(one: Version, out: Path, only: list[str], seed: int) -> Path:
    """Where the answers of a version to some cases are kept."""
    key = json.dumps([CASES.read_text(), str(one.python), sorted(only), seed])
    return out / "answers" / f"{one.commit[:12]}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


# ---------------------------------------------------------------- comparison


def labels_differ(old: Any, new: Any) -> int:
    """Number of nodes with another label; all of them where the numbers of nodes differ."""
    return int((old != new).sum()) if old.shape == new.shape else max(old.size, new.size)


def values_differ(old: Any, new: Any) -> float:
    """Largest difference of eigenvalues, relative to the largest eigenvalue."""
    import numpy as np

    if old.shape != new.shape:
        return float("inf")
    if not (np.isfinite(old) == np.isfinite(new)).all():
        return float("inf")
    finite = np.isfinite(old)
    top = np.abs(old[finite]).max(initial=0.0)
    return float(np.abs(old - new)[finite].max(initial=0.0) / (top or 1.0))


def columns_differ(old: Any, new: Any) -> float:
    """Largest difference of entries, columns up to their sign, relative to the largest entry."""
    import numpy as np

    if old.shape != new.shape:
        return float("inf")
    if not old.size:
        return 0.0
    sign = np.where(np.nansum(old * new, axis=0) < 0, -1.0, 1.0)
    top = np.nanmax(np.abs(old)) or 1.0
    return float(np.nanmax(np.abs(old - sign * new)) / top)


def compare(name: str, one: tuple[Any, Any], two: tuple[Any, Any]) -> dict[str, Any]:
    """How the answers to one case differ; `verdict` is "same" or what differs."""
    old, new = (said[name] for said, _ in (one, two))
    found: dict[str, Any] = {"case": name, "old_seconds": old["seconds"]}
    found |= {"new_seconds": new["seconds"], "labels": 0, "refit": 0, "eigenvalues": None}
    wrong = [] if old["data"] == new["data"] else ["data"]
    if old.get("error") != new.get("error"):
        wrong.append(f"error: {old.get('error', 'none')} -> {new.get('error', 'none')}")
    else:
        wrong += _arrays(name, one[1], two[1], found)
    for key in ("choices", "notes", "warnings"):
        if _without_seconds(old.get(key)) != _without_seconds(new.get(key)):
            found.setdefault("also", []).append(key)
    return {**found, "verdict": "; ".join(wrong) or "same"}


def _arrays(name: str, old: Any, new: Any, found: dict[str, Any]) -> list[str]:
    """Compare the arrays of a case; note every difference in `found`, return those that count."""
    wrong = []
    for kind in ("labels", "refit", "eigenvalues", "embedding", "distributions"):
        a, b = (arrays.get(f"{name}/{kind}") for arrays in (old, new))
        if a is None and b is None:
            continue
        if a is None or b is None:
            wrong.append(f"{kind} missing")
            continue
        measure = {"labels": labels_differ, "refit": labels_differ, "eigenvalues": values_differ}
        found[kind] = measure.get(kind, columns_differ)(a, b)
        if kind in ("labels", "refit") and found[kind]:
            wrong.append(f"{found[kind]} labels{' of refit' * (kind == 'refit')}")
        elif kind == "eigenvalues" and found[kind] > EIGENVALUES:
            wrong.append(f"eigenvalues {found[kind]:.1e}")
        elif kind in ("embedding", "distributions") and found[kind] > EMBEDDINGS:
            found.setdefault("also", []).append(f"{kind} {found[kind]:.1e}")
    return wrong


def _without_seconds(value: Any) -> str:
    """Text of choices and notes with numbers to three digits: the last ones are noise."""
    import re

    text = json.dumps(value, sort_keys=True)
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3g}", text)


def reason(name: str, explained: dict[str, str]) -> str:
    """Why a case may differ: the first entry whose words all occur in its name."""
    for words, why in explained.items():
        if all(word in name.split() for word in words.split()):
            return why
    return ""


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of the table."""
    seconds = f"{row['old_seconds']:.1f} → {row['new_seconds']:.1f}"
    also = ", ".join(row.get("also", []))
    return row["case"], row["verdict"], row["eigenvalues"], seconds, row["explained"], also


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="a commit, or a folder with engine/ and io/")
    parser.add_argument("new", nargs="?", default=str(common.ROOT))
    parser.add_argument("--python", type=Path, help="interpreter for both versions")
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of cases")
    parser.add_argument("--explained", type=Path, help="JSON: words of a case's name -> reason")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=common.OUT / "same")
    args = parser.parse_args()
    explained = EXPLAINED if args.explained is None else json.loads(args.explained.read_text())
    out = args.out.resolve()
    versions = [version(name, out, args.python) for name in (args.old, args.new)]
    one, two = (outcomes(v, out, args.only, args.seed) for v in versions)
    names = [name for name in one[0] if name in two[0]]
    rows = [compare(name, one, two) for name in names]
    for row in rows:
        row["explained"] = reason(row["case"], explained) if row["verdict"] != "same" else ""
    common.table(
        f"{versions[0].commit[:7]} and {versions[1].commit[:7]}: {len(rows)} fits",
        ("case", "differs", "eigenvalues by", "seconds", "explained", "also differ"),
        [_cells(row) for row in rows],
    )
    different = [r for r in rows if r["verdict"] != "same"]
    unexplained = [r for r in different if not r["explained"]]
    print(
        f"\n{len(rows) - len(different)} of {len(rows)} the same, {len(different)} differ, "
        f"{len(unexplained)} of them without an explanation"
    )
    commits = [f"{v.commit[:12]}{'' if v.clean else ' with changes'}" for v in versions]
    common.write_json(args.out, "same", {"old": commits[0], "new": commits[1], "cases": rows})
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
