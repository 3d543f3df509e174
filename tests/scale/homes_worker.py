"""What every rank of `test_same_choices` does: `mpiexec … homes_worker.py OUT`."""

import pickle
import sys
import warnings
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))
from homes import GRAPHS, graph
from mustlink.on_ranks.cut import answer, normalized_cut
from mustlink.on_ranks.work import RankWork, world

warnings.simplefilter("ignore")
ranks, found = world(), {}
for name in GRAPHS:
    W, _, k = graph(name)
    for variant in ("luxburg", "ng"):
        work = RankWork.of(lambda a, b, W=W: W[a:b], W.shape[0], ranks)
        seed = 1749  # any
        cut, chosen = normalized_cut(work, k, variant=variant, seed=seed)
        told = answer(work, cut, k, "NCut", None, chosen)
        if told is not None:
            found[name, variant] = told[0], told[2]
if ranks.own == 0:
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))
