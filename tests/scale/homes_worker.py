"""What every rank of `test_same_choices` does: `mpiexec … homes_worker.py OUT`."""

import pickle
import sys
import warnings
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))
from sklearn.base import clone

import mustlink as ml
from homes import (
    CONSTRAINED_ON_RANKS,
    CUT_ON_RANKS,
    METHODS,
    SPREAD_ON_RANKS,
    SPREADING,
    graph,
    told,
)
from mustlink.clusterers.clusterer import fit_at
from mustlink.eigen.rank_work import RankWork, world
from mustlink.propagation import propagator
from mustlink.selection import held_out

warnings.simplefilter("ignore")
held_out._RUNS = 2  # as in the tests' few_runs
ranks, found = world(), {}


def work_on(W):
    return RankWork.of(lambda a, b: W[a:b], W.shape[0], ranks)


for name, variant in CUT_ON_RANKS:
    W, _, k = graph(name)
    est = ml.NCut(k, affinity="precomputed", random_state=0, variant=variant)
    fit_at(est, work_on(W))
    found[name, variant] = est.labels_, est.report_
for name, method, how in CONSTRAINED_ON_RANKS:
    W, y, k = graph(name)
    est = METHODS[method](k, affinity="precomputed", random_state=0)
    fit_at(est, work_on(W), told(y, k, how))
    found[name, method, how] = est.labels_, est.report_
for name, method in SPREAD_ON_RANKS:
    W, y, k = graph(name)
    est = clone(SPREADING[method]).set_params(affinity="precomputed", random_state=0)
    made = propagator.fit_at(est, work_on(W), told(y, k, "labels").labels)
    if made is not None:
        found[name, method] = made.labels_, made.report_
if ranks.own == 0:
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))
