"""Serve a page of points for the tests: `python served.py N FOLDER PORT [SHIFT]`.

It tells its address. The classes of the labels are those of the clusters, and SHIFT.

Questions are the nodes 0, 7, 14, …: who chooses them is tested elsewhere.
"""

import sys
from pathlib import Path

import numpy as np

import mustlink as ml
from mustlink_io.formats.shown import of_texts
from mustlink_io.ui import opening
from mustlink_io.ui.journal import Journal
from mustlink_io.ui.node_session import NodeSession

NAMES = ("oak", "elm", "ash", "fir")


def points(n):
    """Four clusters of n points in the plane, round (±4, ±4), and which each is of."""
    truth = np.arange(n) % 4
    centres = np.array([[-4, 4], [4, 4], [-4, -4], [4, -4]])
    X = centres[truth] + np.random.default_rng(0).normal(size=(n, 2))
    return X.astype(np.float32), truth


def every_seventh(estimator, n, kind, strategy, avoid):
    told = estimator.constraints_.labels
    known = np.zeros(len(estimator.labels_), bool) if told is None else told >= 0
    known[avoid] = True
    return np.flatnonzero(~known)[::7][:n]


def main(n, folder, port, shift=0):
    X, truth = points(n)
    saved = folder / "out.h5"
    if saved.exists():
        est = ml.load(saved)
    else:
        y = np.where(np.arange(n) < 8, (truth + shift) % 4, -1)
        method = ml.SRCP if shift else ml.CSP  # SRCP numbers clusters by itself
        est = method(n_clusters=4, random_state=0).fit(X, y)
    session = NodeSession(est, Journal.beside(folder / "out.h5", est), every_seventh)
    show = of_texts([f"a leaf of <{NAMES[one]}>" for one in truth]) if n < 100_000 else None
    opening.page_of_session(session, show=show, output=saved).serve(
        port, opened=False, tell=lambda words: print(words, flush=True)
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
