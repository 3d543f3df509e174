"""Same seed, same labels: twice, and with 1 and 2 threads, by the command line.

    python bench/determinism.py                   20,000 points, NCut and CSP from points
    python bench/determinism.py --n 5000 --methods csp

Threads are limited by --threads in one run and by the environment (NUMBA_NUM_THREADS,
OMP_NUM_THREADS and OPENBLAS_NUM_THREADS) in another. Exit code 1 if any label differs.
"""

from __future__ import annotations

import sys

import common
import million

VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RUNS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "first": ((), 2),
    "again": ((), 2),
    "--threads 1": (("--threads", "1"), None),
    "1 thread by environment": ((), 1),
}


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--methods", nargs="+", choices=("ncut", "csp"), default=["ncut", "csp"])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    points = million.points_file(args.out, args.n, 0, fresh=False)

    import numpy as np

    from mustlink_io import formats

    y = formats.load_labels(f"{points}:/labels")
    side = points.with_suffix(".pairs.csv")
    rng = np.random.default_rng(0)
    common.write_pairs(side, *common.random_pairs(y // 2, args.n // 20, rng))
    different, rows = 0, []
    for method in args.methods:
        k, given = (10, ()) if method == "ncut" else (5, ("--constraints", side))
        first = None
        for name, (options, threads) in RUNS.items():
            env = {} if threads is None else dict.fromkeys(VARIABLES, str(threads))
            target = args.out / f"determinism-{method}.h5"
            common.say(f"{method}, {name}")
            job = ("cluster", f"{points}:/points", "-k", k, "-m", method, *given, *options)
            found = common.command(*job, "--seed", args.seed, "-o", target, env=env)
            labels = formats.load_labels(str(target))
            first = labels if first is None else first
            changed = int((labels != first).sum())
            different += changed
            rows.append((method, name, found["wall_seconds"], changed))
    common.table(
        f"Same seed, {args.n:,} points: labels that differ from the first run",
        ("method", "run", "process, s", "different labels"),
        rows,
    )
    print("\n" + ("all labels the same" if different == 0 else "LABELS DIFFER"))
    common.write_json(args.out, "determinism", rows)
    return 0 if different == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
