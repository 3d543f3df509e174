"""How long a user waits for nothing: imports, --help, the first and the second small fit.

    python bench/startup.py           imports, --help, a small fit
    python bench/startup.py --demo    `mustlink demo`, the first time and again

Every figure but the second fit is of a process of its own, the median of five. "cold" is with an
empty cache of compiled kernels, as after installing; "warm" is any later process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import common

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
    "import mustlink": ["-c", "import mustlink"],
    "from mustlink import CSP": ["-c", "from mustlink import CSP"],
    "import sklearn.base": ["-c", "import sklearn.base"],
    "import sklearn.cluster": ["-c", "import sklearn.cluster"],
    "mustlink --help": ["-m", "mustlink", "--help"],
    "mustlink cluster --help": ["-m", "mustlink", "cluster", "--help"],
    "python -c pass": ["-c", "pass"],
}


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT
    )
    return time.perf_counter() - started


def fits(method: str, cache: str) -> list[float]:
    """Seconds of two fits in a process, with kernels kept in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", FIT, method],
        check=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT | {"NUMBA_CACHE_DIR": cache},
    )
    return [float(line) for line in done.stdout.split()]


def small_fits(method: str) -> dict[str, float]:
    """The first fit ever, the first of a later process, and the second."""
    with tempfile.TemporaryDirectory() as cache:
        cold = fits(method, cache)
        warm = [fits(method, cache) for _ in range(5)]
    first, second = (statistics.median(run[i] for run in warm) for i in (0, 1))
    print(f"{method} on digits (1,797 points{', 50 labels' if method == 'CSP' else ''}):")
    print(f"  first fit, cold              {cold[0]:6.2f} s")
    print(f"  first fit, warm              {first:6.2f} s")
    print(f"  second fit, same process     {second:6.2f} s")
    return {"first_ever_seconds": cold[0], "first_seconds": first, "second_seconds": second}


def demo() -> None:
    """`mustlink demo` with an empty cache of compiled kernels, and again."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"NUMBA_CACHE_DIR": f"{folder}/cache"}
        words = ["-m", "mustlink_io", "demo", "-o", f"{folder}/out", "--quiet"]
        runs = [common.child(words, environment) for _ in range(2)]
    if any(run.code for run in runs):
        sys.exit(runs[-1].stderr)
    first, again = (run.seconds for run in runs)
    print(f"mustlink demo: the first time {first:.1f} s, then {again:.1f} s")
    common.record("demo", {"first_seconds": first, "seconds": again})


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--demo", action="store_true", help="only `mustlink demo`")
    if parser.parse_args().demo:
        demo()
        return
    waited = {}
    for name, arguments in COMMANDS.items():
        waited[name] = statistics.median(seconds(arguments) for _ in range(5))
        print(f"{name:<28} {waited[name]:6.2f} s")
    plain, constrained = small_fits("NCut"), small_fits("CSP")
    figures = {
        "import_seconds": waited["import mustlink"],
        "help_seconds": waited["mustlink --help"],
        "csp_import_seconds": waited["from mustlink import CSP"],
        "sklearn_import_seconds": waited["import sklearn.cluster"],
        "sklearn_base_import_seconds": waited["import sklearn.base"],
        **constrained,
        "NCut": plain,
    }
    common.record("startup", figures)


if __name__ == "__main__":
    main()
