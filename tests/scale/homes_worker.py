"""What every rank of `test_same_choices` does: `mpiexec … homes_worker.py OUT`."""

import pickle
import sys
import warnings
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))
from sklearn.base import clone

import mustlink as ml
from homes import GRAPHS, METHODS, ON_RANKS, SPREADING, TOLD, graph, told
from mustlink.clusterers.clusterer import fit_at
from mustlink.eigen.rank_work import RankWork, world
from mustlink.propagation import propagator

warnings.simplefilter("ignore")
ranks, found = world(), {}
for name in GRAPHS:
    W, y, k = graph(name)
    for variant in ("luxburg", "ng"):
        work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
        est = ml.NCut(k, affinity="precomputed", random_state=0, variant=variant)
        fit_at(est, work)
        found[name, variant] = est.labels_, est.report_
    for how in TOLD if name in ON_RANKS else ():
        known = told(y, k, how)
        for method, made in METHODS.items():
            work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
            est = made(k, affinity="precomputed", random_state=0)
            fit_at(est, work, known)
            found[name, method, how] = est.labels_, est.report_
    for method, plain in SPREADING.items():
        labels = told(y, k, "labels").labels
        work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
        est = clone(plain).set_params(affinity="precomputed", random_state=0)
        made = propagator.fit_at(est, work, labels)
        if made is not None:
            found[name, method] = made.labels_, made.report_
if ranks.own == 0:
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))
