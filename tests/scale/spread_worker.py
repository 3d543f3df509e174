"""What every rank of `test_spreading` does: `mpiexec … spread_worker.py OUT`."""

import sys
import warnings

import numpy as np
from graphs import graphs
from spreading import BELIEVED, ROUND, WAYS, drawn_round, labels, prior, spread_by

from mustlink.eigen.rank_work import RankWork, world
from mustlink.propagation.propagator import fit_at

warnings.simplefilter("ignore")
ranks, found = world(), {}
for name, W in graphs():
    work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
    for way in sorted(ROUND):
        made = fit_at(spread_by(way), work, drawn_round(W, name))
        if made is not None:
            found[f"{name} {way} round"] = made.labels_
    for way in WAYS:
        for believed in (None, prior(W)) if way in BELIEVED else (None,):
            made = fit_at(spread_by(way), work, labels(W, name), *(believed or ()))
            if made is not None:
                key = f"{name} {way}" + (" believed" if believed else "")
                found[f"{key} P"] = made.label_distributions_
                found[f"{key} labels"] = made.labels_
                found[f"{key} alpha"] = made.report_.choices.get("alpha", 0.0)
                found[f"{key} reached"] = made.report_.convergence.converged.all()
if ranks.own == 0:
    np.savez(sys.argv[1], **found)
