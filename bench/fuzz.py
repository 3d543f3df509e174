"""Thousands of damaged and hostile files, each given to the command line as a user would.

    python bench/fuzz.py --mutations 5000       a table, and failures by seed
    python bench/fuzz.py --seed 17              one of them again, with what was said
    python bench/fuzz.py --seed 17 --keep DIR   and its files

A seed chooses a file of a small corpus, what to do to it, and a command. Every run must end in a
result that can be read back, or in exit code 2 with one line on stderr and nothing left behind;
each is a fork of one process that has everything imported, in a folder of its own, with limits on
memory and time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # forks of a process with threads cannot use them
os.environ["NUMBA_THREADING_LAYER"] = "workqueue"  # GNU OpenMP ends forks of a process that used it

import numpy as np  # noqa: E402

import fuzz_corpus  # noqa: E402
import fuzz_mutations  # noqa: E402
import runner  # noqa: E402  (finds the sources of a clone)

MEMORY = 2**30  # bytes of address space that a run may take beside what the imports take
SECONDS = 60.0
FINE = ("same result", "other result", "clear error")


@dataclass(frozen=True)
class Outcome:
    """How one run ended; `verdict` is one of FINE or begins with FAILURE."""

    seed: int
    file: str
    mutation: str
    command: str
    verdict: str
    seconds: float
    peak_bytes: int
    said: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, nargs="*", help="these seeds only, told in full")
    parser.add_argument("--fast", action="store_true", help="no comparison with valid files")
    parser.add_argument("--keep", type=Path, help="folder that keeps the mutated files")
    parser.add_argument("--out", type=Path, default=runner.OUT / "fuzz.json")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs")
    options = parser.parse_args()
    seeds = options.seed or range(options.first, options.first + options.mutations)
    memory = Path("/dev/shm")  # there, waiting for a disk to sync takes no time
    at = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="mustlink-fuzz-", dir=at))
    began = time.monotonic()
    try:
        corpus = fuzz_corpus.make(folder / "corpus")
        expected = {} if options.fast else fuzz_corpus.warm_up(corpus, folder / "warm")
        outcomes = []
        for seed in seeds:
            outcomes.append(one(seed, corpus, expected, folder / f"run-{seed}", options.keep))
            if options.seed:
                print(json.dumps(asdict(outcomes[-1]), indent=1))
            elif outcomes[-1].verdict not in FINE:
                print(
                    f"seed {seed}: {outcomes[-1].verdict}: {outcomes[-1].mutation}", file=sys.stderr
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failed = [one for one in outcomes if one.verdict not in FINE]
    if not options.seed:
        print(table(outcomes))
        seconds = time.monotonic() - began
        most = max(one.peak_bytes for one in outcomes)
        slow = max(outcomes, key=lambda one: one.seconds)
        print(
            f"\n{len(outcomes)} mutations, {len(failed)} failures, {seconds:.0f} s; largest "
            f"resident size {most / 1e6:.0f} MB, slowest {slow.seconds:.1f} s (seed {slow.seed})"
        )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({"seeds": [seeds[0], seeds[-1]], "failures": [asdict(o) for o in failed]})
        )
        verdicts = Counter(one.verdict for one in outcomes)
        figures = {"files": len(outcomes), "errors": verdicts["clear error"]}
        figures["results"] = verdicts["same result"] + verdicts["other result"]
        runner.record("fuzz", {**figures, "crashes": len(failed)})
    return 1 if failed else 0


def one(seed, corpus, expected, folder, keep) -> Outcome:
    """Make the mutation of a seed, run its command, and judge."""
    rng = np.random.default_rng([20, seed])
    case = corpus[rng.integers(len(corpus))]
    command = case.commands[rng.integers(len(case.commands))]
    folder.mkdir()
    path = folder / case.path.name
    mutation = fuzz_mutations.mutate(rng, case.path, path, [one.path for one in corpus])
    for other in corpus[0].path.parent.glob("good.*"):
        (folder / other.name).symlink_to(other)
    before = {entry.name for entry in folder.iterdir()}
    given = path.read_bytes()
    status, seconds, usage = run_elsewhere(command, folder)
    out, err = (
        (folder / f".{name}").read_text(errors="backslashreplace") for name in ("out", "err")
    )
    after = {entry.name for entry in folder.iterdir()} - before - {".out", ".err"}
    verdict = judge(status, out, err, after, folder, expected.get((case.path.name, command)))
    if path.read_bytes() != given:
        verdict = "FAILURE: input changed"
    if keep is not None:
        shutil.copytree(folder, keep / folder.name, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder)
    words = " ".join(command)
    peak = usage.ru_maxrss * 1024
    return Outcome(seed, case.path.name, mutation, words, verdict, seconds, peak, err[-2000:])


def run_elsewhere(command, folder):
    """Run the command line in a fork with limits: (wait status or None, seconds, usage)."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _live(command, folder)
    descriptor = os.pidfd_open(child)
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    hung = not ready.poll(SECONDS * 1000)
    os.close(descriptor)
    if hung:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return (None if hung else status), time.monotonic() - began, usage


def _live(command, folder):
    """The child's life: never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        for stream, name in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        from mustlink_io.commands import cli

        code = cli.run(list(command))
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as leaving:
        code = leaving.code or 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        code = 98
    finally:
        os._exit(code)


def judge(status, out, err, after, folder, expected) -> str:
    """One of FINE, or what is wrong."""
    if status is None:
        return "FAILURE: hang"
    if os.WIFSIGNALED(status):
        return f"FAILURE: {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    if "Traceback" in err or code == 98:
        return "FAILURE: traceback"
    if code == 2:
        if not err.startswith("mustlink: ") or err.count("\n") != 1:
            return "FAILURE: not one line"
        if len(err) > 600 or not err[:-1].isprintable():
            return "FAILURE: not a line to read"
        if "out of memory" in err:
            return "FAILURE: out of memory"
        return f"FAILURE: left {sorted(after)}" if after else "clear error"
    if code != 0:
        return f"FAILURE: exit code {code}"
    if "Warning" in err:
        return "FAILURE: warning"
    if after - {"out.h5"}:
        return f"FAILURE: left {sorted(after)}"
    found = fuzz_corpus.result(folder, out)
    if isinstance(found, str):
        return f"FAILURE: {found}"
    return "same result" if found == expected else "other result"


def table(outcomes) -> str:
    """Markdown: a row per file of the corpus, a column per verdict."""
    counts = defaultdict(Counter)
    for one_ in outcomes:
        counts[one_.file][one_.verdict if one_.verdict in FINE else "FAILURE"] += 1
    total = sum(counts.values(), Counter())
    columns = [*FINE, "FAILURE"]
    rows = [f"| file | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, count in [*sorted(counts.items()), ("all", total)]:
        rows.append(f"| {name} | " + " | ".join(str(count[c]) for c in columns) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
