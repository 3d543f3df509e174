"""What every rank of `test_same_choices` does: `mpiexec … homes_worker.py OUT`."""

import pickle
import sys
import warnings
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))
from sklearn.base import clone

from homes import GRAPHS, METHODS, ON_RANKS, SPREADING, TOLD, graph, told
from mustlink.on_ranks.constrained import constrained_cut
from mustlink.on_ranks.cut import answer, normalized_cut
from mustlink.on_ranks.propagation import propagate
from mustlink.on_ranks.work import RankWork, world

warnings.simplefilter("ignore")
ranks, found = world(), {}
for name in GRAPHS:
    W, y, k = graph(name)
    for variant in ("luxburg", "ng"):
        work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
        seed = 1749  # any
        cut, chosen = normalized_cut(work, k, variant=variant, seed=seed)
        said = answer(work, cut, k, "NCut", None, chosen)
        if said is not None:
            found[name, variant] = said[0], said[2]
    for how in TOLD if name in ON_RANKS else ():
        known = told(y, k, how)
        for method, made in METHODS.items():
            work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
            est = made(k, affinity="precomputed", random_state=0)
            cut, chosen = constrained_cut(work, est, known, k)
            said = answer(work, cut, k, method, known, chosen)
            if said is not None:
                found[name, method, how] = said[0], said[2]
    for method, plain in SPREADING.items():
        labels = told(y, k, "labels").labels
        work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
        est = clone(plain).set_params(affinity="precomputed", random_state=0)
        made = propagate(work, est, labels, {"kind": "precomputed"}, W.nnz)
        if made is not None:
            found[name, method] = made.labels_, made.report_
if ranks.own == 0:
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))
