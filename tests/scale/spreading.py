"""Ways to spread labels and labels to be spread, the same in the test and on every rank."""

import numpy as np

import mustlink as ml

WAYS = {
    "poisson": (ml.Poisson, {}),
    "poisson of rows": (ml.Poisson, {"center": "rows", "class_mass": "equal"}),
    "tikreg": (ml.TikReg, {}),
    "gfhf": (ml.GFHF, {}),
    "gfhf of masses": (ml.GFHF, {"class_mass": True}),
    "llgc": (ml.LLGC, {}),
    "refined": (ml.GFHF, {"refine": True}),
    "llgc far": (ml.LLGC, {"alpha": 0.999, "refine": False}),
    "ncut": (ml.NCutPropagation, {}),
    "green": (ml.GreenFunction, {}),
    "green normalised": (ml.GreenFunction, {"normalized": True}),
    "lelpc": (ml.LELP, {"orthogonal": True}),
}
ROUND = {"gfhf", "llgc", "tikreg"}  # also with a class that was drawn round
BELIEVED = {"gfhf", "llgc", "ncut", "lelpc"}  # also with a prior


def labels(W, name):
    """Labels (n,) of a twentieth of the nodes, of three classes; where parts are many, of a few."""
    n, rng = W.shape[0], np.random.default_rng(8)
    y = np.where(rng.random(n) < 0.05, rng.integers(0, 3, n), -1)
    y[:3] = [0, 1, 2]
    y[np.flatnonzero(np.diff(W.indptr) == 0)[:2]] = 1  # without an edge
    return y


def drawn_round(W, name):
    """The same, and all nodes within three steps of a node are of class 0."""
    y, near = labels(W, name), np.zeros(W.shape[0])
    near[np.diff(W.indptr).argmax()] = 1.0
    for _ in range(3):
        near += W @ near
    return np.where(near > 0, 0, np.where(np.arange(y.size) % 3, -1, y))


def prior(W):
    """Distributions over three classes, and how much they are believed."""
    n, rng = W.shape[0], np.random.default_rng(9)
    return rng.dirichlet(np.ones(3), n), np.where(rng.random(n) < 0.2, rng.random(n), 0.0)


def spread_by(way):
    """The propagator."""
    method, how = WAYS[way]
    return method(affinity="precomputed", random_state=0, tol=1e-10, **how)
