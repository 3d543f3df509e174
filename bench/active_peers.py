"""graphlearning's questions on a graph in an npz, answered from it; run by `active.py`.

Prints the labels of all nodes after every batch. `python active_peers.py TASK.npz NAME 20 10`
"""

import json
import sys

import graphlearning as gl
import numpy as np
import scipy.sparse as sp

_VECTORS, _SLACK = 60, 0.1  # as many as ours


def main(path: str, name: str, batches: int, size: int) -> None:
    task = np.load(path)
    n = task["y"].size
    W = sp.csr_matrix((task["data"], task["indices"], task["indptr"]), shape=(n, n))
    model, start = gl.ssl.poisson(W, solver="gradient_descent"), np.flatnonzero(task["given"] >= 0)
    strategy = getattr(gl.active_learning, name)
    options = {}
    if name != "unc_sampling":
        values, V = gl.graph(W).eigen_decomp(normalization="normalized", k=_VECTORS)
        options = {"C": np.diag(1.0 / (values + _SLACK * values[9])), "V": V}
    learner = gl.active_learning.active_learner(
        model, strategy, start, task["given"][start], **options
    )
    found = [model.predict().tolist()]
    for _ in range(batches):
        asked = learner.select_queries(batch_size=size)
        learner.update(asked, task["said"][asked])
        found.append(model.predict().tolist())
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
