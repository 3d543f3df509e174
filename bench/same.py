"""Does a change leave the answers as they were? Sixty fits and thirty jobs by two versions.

    python bench/same.py HEAD~20 .                   two commits or folders
    python bench/same.py v0.1.0 . --python PYTHON    an interpreter that has the dependencies
    python bench/same.py HEAD~20 . --only CSP tiny   cases with one of these words in their names
    python bench/same.py HEAD~20 . --parts memory disk ranks     jobs in these homes alone

Each version runs in a process and an environment of its own: a virtual environment made from its
own pyproject.toml, or `--python` with the version's sources before all else. A commit is checked
out below the output folder; what a clean commit answered is kept there and not computed again.

The same are: labels, every one; eigenvalues to 1e-8 of the largest; errors, word for word.
Embeddings (columns up to their sign, to 1e-6 of the largest entry) and label distributions (to
1e-6) are compared as well and named where they differ, but only labels and eigenvalues decide.
The same partition whose clusters, not classes, have other numbers is counted apart.

The jobs are of the shell: the same in memory, on disk and on two ranks, where MPI and PETSc are
(`make test-scale` makes an environment that has them, which is then used for all three). A job
that was refused there and now runs is no difference. Homes of the second version are compared
with each other, too: the same are partitions and classes, and every field of the choices and of
the satisfaction, figures to 1 %.
Exit code 1 if a case differs, or homes do, that is not in EXPLAINED with a reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import render
import runner

CASES, JOBS = runner.BENCH / "same_cases.py", runner.BENCH / "same_homes.py"
FITS, HOMES = "fits", ("memory", "disk", "ranks")
SCALE = runner.ROOT / ".venv-scale" / "bin" / "python"
EIGENVALUES, EMBEDDINGS, FIGURES = 1e-8, 1e-6, 0.01
OWN = {"choices.ranks"}  # which says where it ran
RUNS_NOW, RENUMBERED = "runs now", "numbered otherwise"

# Words that all occur in a case's name: why its answer may change from fc48b3a on. A file of the
# same form (JSON) can be given by --explained.
_START = "starts are keyed by node number; this basis is only converged to the tolerance asked for"
_DRAWN = "samples and starts of k-means are drawn by numbers of nodes, the same in every home"
_ZERO = "rows of vectors that are only what the solver leaves of 0 have no direction any more"
_REFINED = "the block model that refines labels is written by sums, the same in every home"
_TOLERANCE = "the solver on disk ends within its tolerance, a little elsewhere"
_SPAN = "the span of smooth vectors is converged to 1e-2 by each home's solver: border nodes differ"
_OF_HOMES = {  # of one version
    "points": "few points are compared all with all; beyond memory their cells are searched",
    "halves": "only memory tries a cut where most constraints are kept; a note says so",
    "csp blocks pairs": _SPAN,
    "nearest": _SPAN,
}
EXPLAINED: dict[str, str] = {
    **{f"memory {home} {words}": _OF_HOMES[words] for home in HOMES[1:] for words in _OF_HOMES},
    "NCut digits": "how vectors become clusters is chosen by what these tell about edges",
    "NCut picture": _DRAWN,
    "NCut parts": _ZERO,
    "ncut parts": _ZERO,
    "SpectralLearning blobs contradictory": _DRAWN + ", by which another of two equals is chosen",
    "SRCP digits contradictory": _DRAWN,
    "LLGC nearest": _REFINED,
    "llgc blocks": _REFINED,
    "disk ncut blocks": _TOLERANCE,
    "disk csp parts": _TOLERANCE,
    "ncut points": _DRAWN,
    "srcp nearest": _DRAWN,
    "CSP digits refit=pairs": _START,
    "CSP parts tol=1e-07": _START,
    "SSSC digits labels": "eq. 11's weights are not tried beside equal ones: ARI .840 for .844",
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


def git(*words: str, where: Path = runner.ROOT) -> str:
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
    changed = git("status", "--porcelain", "--", "engine", "io", where=folder)
    own = python if python is not None else _environment(folder, out)
    return Version(name, folder, own, commit, bool(commit) and not changed)


def _checkout(commit: str, folder: Path) -> bool:
    """Sources of a commit as plain files with a clone's history."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", runner.ROOT, folder]
    steps = (clone, ["git", "-C", folder, "checkout", "--quiet", "--detach", commit])
    return all(subprocess.run(step, check=False).returncode == 0 for step in steps)


def _environment(folder: Path, out: Path) -> Path:
    """A virtual environment with the version's own dependencies; made once for a list of them."""
    stated = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    needed = sorted(stated["project"]["dependencies"])
    home = out / "environments" / hashlib.sha256("\n".join(needed).encode()).hexdigest()[:12]
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        runner.say(f"making an environment for {folder}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        quiet = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([python, *quiet, *needed], check=True)
        (home / "ready").touch()
    return python


def outcomes(
    one: Version, part: str, out: Path, only: list[str], seed: int
) -> tuple[dict[str, Any], Any]:
    """Run the cases of a part with a version, or read what its clean commit answered before."""
    import numpy as np

    folder, every = (_folder(one, part, out, names, seed) for names in (only, []))
    if not one.clean:
        shutil.rmtree(folder, ignore_errors=True)
    elif (every / "outcomes.json").exists():
        folder = every
    if not (folder / "outcomes.json").exists():
        runner.say(f"{one.name}: {one.folder}, commit {one.commit[:7]}, {part}")
        sources = os.pathsep.join(str(one.folder / root) for root in ("engine", "io"))
        words = ["--seed", str(seed)] + (["--only", *only] if only else [])
        env = {**os.environ, "PYTHONPATH": sources}
        if part == FITS:
            if subprocess.run([one.python, CASES, folder, *words], env=env, check=False).returncode:
                sys.exit(f"{one.name}: the cases could not be run")
        else:
            _do_jobs(one, part, folder, words, env, only)
    arrays = dict(np.load(folder / "arrays.npz"))
    return json.loads((folder / "outcomes.json").read_text()), arrays


def _do_jobs(
    one: Version, home: str, folder: Path, words: list[str], env: dict[str, str], only: list[str]
) -> None:
    """Run the jobs of a home; one that ends the process, or all ranks, has that for an error."""
    import numpy as np

    import same_homes

    command, more = _beginning(home)
    command += [str(one.python), str(JOBS), str(folder), "--home", home, *words]
    folder.mkdir(parents=True, exist_ok=True)
    left = {job.name: job for job in same_homes.asked(only)}
    while left:
        (folder / same_homes.RUNNING).unlink(missing_ok=True)
        with subprocess.Popen(command, env=env | more, stderr=subprocess.PIPE, text=True) as going:
            lines = []
            for line in going.stderr or ():
                sys.stderr.write(line)
                lines.append(line.strip())
        left = {n: job for n, job in left.items() if n not in same_homes.collect(folder)[0]}
        if left:
            if not (folder / same_homes.RUNNING).exists():
                sys.exit(f"{one.name}: the jobs could not be run, {home}")
            name = (folder / same_homes.RUNNING).read_text()
            said = [line for line in lines if line and line[0] not in "#-"]
            why = said[-1] if said else f"exit code {going.returncode}"
            same_homes.keep(folder, left.pop(name), {"seconds": 0.0, "error": f"ended: {why}"}, {})
    found, arrays = same_homes.collect(folder)
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "outcomes.json").write_text(json.dumps(found, indent=1) + "\n")


def _beginning(home: str) -> tuple[list[str], dict[str, str]]:
    """What stands before the interpreter, and the environment that it needs."""
    if home != "ranks":
        return [], {}
    import same_homes

    command = ["mpiexec", "-n", str(same_homes.RANKS)]
    said = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=False)
    if "OpenRTE" in said.stdout or "Open MPI" in said.stdout:
        command += ["-q", "--bind-to", "none", "--oversubscribe"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return command, {"OMPI_MCA_mpi_yield_when_idle": "1", **threads, **root}


def no_ranks(python: Path) -> str:
    """Why an interpreter cannot run ranks here; "" where it can."""
    if shutil.which("mpiexec") is None:
        return "no mpiexec on the PATH"
    test = [python, "-c", "import mpi4py, petsc4py"]
    if not python.exists() or subprocess.run(test, capture_output=True, check=False).returncode:
        return f"{python} has no mpi4py and petsc4py; make test-scale makes one that has"
    return ""


def _folder(one: Version, part: str, out: Path, only: list[str], seed: int) -> Path:
    """Where the answers of a version to some cases are kept."""
    texts = [CASES.read_text()] + ([JOBS.read_text(), part] if part != FITS else [])
    key = json.dumps([*texts, str(one.python), sorted(only), seed])
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
    if old.get("refused") and "error" not in new:
        return {**found, "verdict": RUNS_NOW}
    if old.get("error") != new.get("error"):
        wrong.append(f"error: {old.get('error', 'none')} -> {new.get('error', 'none')}")
    else:
        wrong += _arrays(name, one[1], two[1], found)
    for key in ("choices", "satisfaction", "adjustment", "notes", "warnings"):
        if _without_seconds(old.get(key)) != _without_seconds(new.get(key)):
            found.setdefault("also", []).append(key)
    if set(wrong) == {RENUMBERED}:
        wrong = [RENUMBERED]
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
            apart = labels_apart(a.ravel(), b.ravel(), named=f"{name}/distributions" in old)
            of = f"{found[kind]} labels{' of refit' * (kind == 'refit')}: "
            wrong.append(of + apart if apart else RENUMBERED)
        elif kind == "eigenvalues" and found[kind] > EIGENVALUES:
            wrong.append(f"eigenvalues {found[kind]:.1e}")
        elif kind in ("embedding", "distributions") and found[kind] > EMBEDDINGS:
            found.setdefault("also", []).append(f"{kind} {found[kind]:.1e}")
    return wrong


def _without_seconds(value: Any) -> str:
    """Text of choices and notes with numbers to three digits: the last ones are noise."""
    text = json.dumps(value, sort_keys=True)
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3g}", text)


def reason(name: str, explained: dict[str, str]) -> str:
    """Why a case may differ: the first entry whose words all occur in its name."""
    for words, why in explained.items():
        if all(word in name.split() for word in words.split()):
            return why
    return ""


# ---------------------------------------------------------------- homes beside each other


def between(job: Any, here: tuple[Any, Any], there: tuple[Any, Any]) -> tuple[str, list[str]]:
    """How the answer in another home differs from that in memory, and what else does.

    "same", "left out" where that home refuses the job, or what differs.
    """
    mine, other = (said[job.name] for said, _ in (here, there))
    if "error" in mine or "error" in other:
        if mine.get("error") == other.get("error"):
            return "same", []
        told = other.get("error", "none")
        return ("left out" if other.get("refused") else f"error: {told}"), [told]
    labels = [arrays[f"{job.name}/labels"] for _, arrays in (here, there)]
    wrong = [labels_apart(*labels, named=job.verb == "propagate")]
    for key in ("choices", "satisfaction"):
        wrong += fields_apart(key, mine.get(key), other.get(key))
    also = fields_apart("adjustment", mine.get("adjustment"), other.get("adjustment"))
    also += [key for key in ("notes", "warnings") if _words(mine[key]) != _words(other[key])]
    return "; ".join(filter(None, wrong)) or "same", also


def labels_apart(here: Any, there: Any, named: bool) -> str:
    """ "" for the same partition, `named` for the same labels, else how they differ."""
    from sklearn.metrics import adjusted_rand_score

    if here.shape != there.shape:
        return f"{here.size} and {there.size} labels"
    ari = adjusted_rand_score(here, there)
    alone = int(((here < 0) != (there < 0)).sum())
    moved = int((here != there).sum()) if named else 0
    if ari == 1.0 and not alone and not moved:
        return ""
    count = f", {moved} labels" if named else ""
    return f"ARI {ari:.4f}{count}{f', {alone} unassigned differ' if alone else ''}"


def fields_apart(name: str, here: Any, there: Any) -> list[str]:
    """Fields that differ, by their path: figures by more than 1 %, words, what is missing."""
    if isinstance(here, dict) and isinstance(there, dict):
        found = []
        for key in sorted(here.keys() | there.keys()):
            if f"{name}.{key}" not in OWN:
                found += fields_apart(f"{name}.{key}", here.get(key), there.get(key))
        return found
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = enumerate(zip(here, there, strict=True))
        return [each for at, two in pairs for each in fields_apart(f"{name}[{at}]", *two)]
    if isinstance(here, str) and isinstance(there, str):
        texts = [_NUMBER.sub("#", text) for text in (here, there)]
        numbers = [[float(one) for one in _NUMBER.findall(text)] for text in (here, there)]
        alike = texts[0] == texts[1] and all(map(_near, *numbers))
    elif isinstance(here, int | float) and isinstance(there, int | float):
        alike = _near(here, there)
    else:
        alike = here == there
    return [] if alike else [f"{name}: {_short(here)} | {_short(there)}"]


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= FIGURES * max(abs(one), abs(other))


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 90 else f"{text[:87]}..."


def _words(lines: list[str]) -> set[str]:
    """What is said, without figures, and without that of memory."""
    return {_NUMBER.sub("#", line) for line in lines if not line.startswith("memory: ")}


def compare_homes(found: dict[str, Any], explained: dict[str, str]) -> list[dict[str, Any]]:
    """Memory beside the other homes: a row for each job and home, printed as a table and a list."""
    import same_homes

    rows = []
    for job in same_homes.JOBS:
        for home in HOMES[1:]:
            if home in found and job.name in found[home][0]:
                verdict, also = between(job, found["memory"], found[home])
                differs = verdict not in ("same", "left out")
                why = reason(f"memory {home} {job.name}", explained) if differs else ""
                told = {"job": job.name, "home": home, "verdict": verdict, "also": also}
                rows.append({**told, "explained": why})
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        parts = row["verdict"].split("; ")
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        cells.setdefault(row["job"], {})[row["home"]] = parts[0].partition(":")[0] + more
    homes = [home for home in HOMES[1:] if home in found]
    render.table(
        "The other homes beside memory",
        ("job", *homes),
        [(name, *(of.get(home) for home in homes)) for name, of in cells.items()],
    )
    print()
    for row in rows:
        what = [row["verdict"]] if row["verdict"] != "same" else []
        if what or row["also"]:
            also = f" (also {'; '.join(row['also'])})" if row["also"] else ""
            why = f" [{row['explained']}]" if row["explained"] else ""
            print(f"* {row['job']}, memory | {row['home']}: {'; '.join(what)}{also}{why}")
    return rows


# ---------------------------------------------------------------- the whole


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row of the table."""
    seconds = f"{row['old_seconds']:.1f} → {row['new_seconds']:.1f}"
    also = ", ".join(row.get("also", []))
    return row["case"], row["verdict"], row["eigenvalues"], seconds, row["explained"], also


def compare_versions(
    title: str, part: str, one: tuple[Any, Any], two: tuple[Any, Any], explained: dict[str, str]
) -> list[dict[str, Any]]:
    """The cases of a part by two versions, printed as a table."""
    rows = [compare(name, one, two) for name in one[0] if name in two[0]]
    for row in rows:
        if part != FITS:
            row["case"] = f"{part} {row['case']}"
        differs = row["verdict"] not in ("same", RUNS_NOW, RENUMBERED)
        row["explained"] = reason(row["case"], explained) if differs else ""
    render.table(
        f"{title}, {part}: {len(rows)}",
        ("case", "differs", "eigenvalues by", "seconds", "explained", "also differ"),
        [_cells(row) for row in rows],
    )
    return rows


def told_of(rows: list[dict[str, Any]], what: str) -> int:
    """Print how many are the same; returns how many differ without an explanation."""
    apart = (RUNS_NOW, RENUMBERED, "left out")
    counts = {name: sum(row["verdict"] == name for row in rows) for name in apart}
    different = [r for r in rows if r["verdict"] not in ("same", *counts)]
    unexplained = [r for r in different if not r["explained"]]
    rest = "".join(f"{count} {name}, " for name, count in counts.items() if count)
    print(
        f"\n{what}: {len(rows) - len(different) - sum(counts.values())} of {len(rows)} the same, "
        f"{rest}{len(different)} differ, {len(unexplained)} of them without an explanation"
    )
    return len(unexplained)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="a commit, or a folder with engine/ and io/")
    parser.add_argument("new", nargs="?", default=str(runner.ROOT))
    parser.add_argument("--python", type=Path, help="interpreter for both versions")
    parser.add_argument("--ranks-python", type=Path, default=SCALE, help="one with MPI and PETSc")
    parser.add_argument("--parts", nargs="+", choices=(FITS, *HOMES), default=[FITS, *HOMES])
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of cases")
    parser.add_argument("--explained", type=Path, help="JSON: words of a case's name -> reason")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=runner.OUT / "same")
    args = parser.parse_args()
    explained = EXPLAINED if args.explained is None else json.loads(args.explained.read_text())
    out, parts = args.out.resolve(), list(args.parts)
    versions = [version(name, out, args.python) for name in (args.old, args.new)]
    jobs_by = versions
    lacking = [no_ranks(place) for place in (args.ranks_python, *(v.python for v in versions))]
    if not lacking[0]:
        jobs_by = [replace(one, python=args.ranks_python.absolute()) for one in versions]
    elif any(lacking[1:]) and "ranks" in parts:
        parts.remove("ranks")
        print(f"skipped ranks: {lacking[0]}")
    title = " and ".join(one.commit[:7] for one in versions)
    rows, homes = [], {}
    for part in parts:
        by = versions if part == FITS else jobs_by
        one, two = (outcomes(each, part, out, args.only, args.seed) for each in by)
        rows += compare_versions(title, part, one, two, explained)
        homes[part] = two
    beside = compare_homes(homes, explained) if "memory" in homes else []
    wrong = told_of(rows, "versions")
    wrong += told_of(beside, "homes") if beside else 0
    commits = [f"{v.commit[:12]}{'' if v.clean else ' with changes'}" for v in versions]
    told = {"old": commits[0], "new": commits[1], "cases": rows, "homes": beside}
    runner.write_json(args.out, "same", told)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
