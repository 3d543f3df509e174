"""How long a user waits for nothing: imports, --help, the first and the second small fit.

    python bench/startup.py

Every figure but the second fit is of a process of its own, the median of five. "cold" is with an
empty cache of compiled kernels, as after installing; "warm" is any later process.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FIT = """
import time
began = time.perf_counter()
import mustlink as ml
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
y[50:] = -1
for _ in range(2):
    started = time.perf_counter()
    ml.CSP(n_clusters=10, random_state=0).fit(X, y)
    print(time.perf_counter() - started)
"""
COMMANDS = {
    "import mustlink": ["-c", "import mustlink"],
    "from mustlink import CSP": ["-c", "from mustlink import CSP"],
    "import sklearn.cluster": ["-c", "import sklearn.cluster"],
    "mustlink --help": ["-m", "mustlink", "--help"],
    "mustlink cluster --help": ["-m", "mustlink", "cluster", "--help"],
    "python -c pass": ["-c", "pass"],
}


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def fits(cache: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", FIT],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    for name, arguments in COMMANDS.items():
        times = [seconds(arguments) for _ in range(5)]
        print(f"{name:<28} {statistics.median(times):6.2f} s")
    cache = tempfile.mkdtemp()
    try:
        cold = fits(cache)
        warm = [fits(cache) for _ in range(5)]
    finally:
        shutil.rmtree(cache)
    first, second = (statistics.median(run[i] for run in warm) for i in (0, 1))
    print("CSP on digits (1,797 points, 50 labels):")
    print(f"  first fit, cold              {cold[0]:6.2f} s")
    print(f"  first fit, warm              {first:6.2f} s")
    print(f"  second fit, same process     {second:6.2f} s")


if __name__ == "__main__":
    main()
