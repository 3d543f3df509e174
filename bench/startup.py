"""How long a user waits for nothing: imports, --help, the first and the second small fit.

    python bench/startup.py           imports, --help, a small fit
    python bench/startup.py --demo    `mustlink demo`, the first time and again

Every figure but the second fit is of a process of its own, the median of five. The first fit ever
is with an empty cache of compiled kernels, as after installing; the first is any later process's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import render
import runner

FIT = """
import sys, time
import mustlink as ml
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
y[50:] = -1
given = (X, y) if sys.argv[1] == "CSP" else (X,)
for _ in range(2):
    started = time.perf_counter()
    getattr(ml, sys.argv[1])(n_clusters=10, random_state=0).fit(*given)
    print(time.perf_counter() - started)
"""
# Python writes its own compiled files, as it does for a user.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
COMMANDS = {
    "import_seconds": ["-c", "import mustlink"],
    "csp_import_seconds": ["-c", "from mustlink import CSP"],
    "sklearn_base_import_seconds": ["-c", "import sklearn.base"],
    "sklearn_import_seconds": ["-c", "import sklearn.cluster"],
    "help_seconds": ["-m", "mustlink", "--help"],
}


def run(arguments: list[str], **more: str) -> tuple[str, float]:
    """Output and seconds of a process."""
    started = time.perf_counter()
    words, env = [sys.executable, *arguments], {**ENVIRONMENT, **more}
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, env=env, text=True)
    return done.stdout, time.perf_counter() - started


def small_fits(method: str) -> dict[str, float]:
    """The first fit ever, the first of a later process, and the second."""
    with tempfile.TemporaryDirectory() as cache:
        made = [run(["-c", FIT, method], NUMBA_CACHE_DIR=cache)[0].split() for _ in range(6)]
    first, second = (statistics.median(float(one[i]) for one in made[1:]) for i in (0, 1))
    cold = float(made[0][0])
    return {"first_ever_seconds": cold, "first_seconds": first, "second_seconds": second}


def demo() -> None:
    """`mustlink demo` with an empty cache of compiled kernels, and again."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "mustlink_io", "demo", "-o", f"{folder}/out", "--quiet"]
        first, again = (run(words, NUMBA_CACHE_DIR=f"{folder}/cache")[1] for _ in range(2))
    print(f"mustlink demo: the first time {first:.1f} s, then {again:.1f} s")
    runner.record("demo", {"first_seconds": first, "seconds": again})


def main() -> None:
    if runner.options(__doc__, demo=False).demo:
        demo()
        return
    figures = {
        name: statistics.median(run(words)[1] for _ in range(5)) for name, words in COMMANDS.items()
    }
    plain, constrained = small_fits("NCut"), small_fits("CSP")
    render.records("Seconds", {"process": figures, "NCut": plain, "CSP": constrained})
    runner.record("startup", {**figures, **constrained, "NCut": plain})


if __name__ == "__main__":
    main()
