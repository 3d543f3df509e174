"""How sure and how often right: expected calibration error with 20 labels a class.

    python bench/calibration.py [--draws 5] [--only CSP LLGC] [--sets optdigits usps] [--each 20]

Clusterers by `confidence_`, a cluster's class being that of most labels in it; propagators by the
largest entry of `membership_`, and beside it by that of `label_distributions_`, which nothing
calibrates. Nodes without a given label are counted. Needs the data folder, but for digits.
"""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import data
import fits
import render
import runner

METHODS = ("CSP", "SSSC", "LLGC", "GFHF", "Poisson")
SETS = (
    "digits", "optdigits", "usps", "mfeat_fourier", "letter", "mnist-10000", "coauthor_phy",
    "amazon_photo",
)  # fmt: skip


def measure(graph: Any, y: Any, method: str, each: int, draw: int) -> tuple[float, float | None]:
    """Calibration error of one fit, of propagators also of the shares that nothing calibrates."""
    import numpy as np

    from mustlink.discretize.memberships import Reliability

    known = data.draw(y, f"{each} labels", draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nodes without an edge or a label in reach
        est = fits.fit(fits.make(method, int(np.unique(y[y >= 0]).size)), graph, known)
    labels, plain = est.labels_, None
    if hasattr(est, "label_distributions_"):
        sure, plain = (P.max(axis=1) for P in (est.membership_, est.label_distributions_))
    else:
        labels, sure = fits.named(est.labels_, known.labels), est.confidence_
    asked = (known.labels < 0) & (y >= 0) & (labels >= 0)
    right = (labels == y)[asked]
    error = Reliability.of(sure[asked], right).error
    return error, None if plain is None else Reliability.of(plain[asked], right).error


def main() -> None:
    args = runner.options(__doc__, draws=5, each=20, only=METHODS, sets=SETS)
    rows: dict[str, dict[str, Any]] = {}
    for name in args.sets:
        loaded = data.load(name)
        if loaded is None:
            continue
        for method in args.only:
            runs = [measure(*loaded, method, args.each, draw) for draw in range(args.draws)]
            error = round(statistics.fmean(one[0] for one in runs), 4)
            plain = [one[1] for one in runs if one[1] is not None]
            mean = [error, round(statistics.fmean(plain), 4) if plain else None]
            rows.setdefault(name, {})[method] = mean
            runner.say(f"{name}, {method}: {mean}")
    shown = {n: {m: f"{e} ({p})" if p else e for m, (e, p) in by.items()} for n, by in rows.items()}
    render.records("Expected calibration error (of label_distributions_)", shown)
    if set(args.only) == set(METHODS) and set(rows) == set(SETS):
        runner.record("calibration", {"draws": args.draws, "each": args.each, "rows": rows})


if __name__ == "__main__":
    main()
