"""`mustlink plan --ranks`: the memory of one rank, by stages, or why not, in a line."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from mustlink.context.method_cost import rank_stages
from mustlink_io.formats.matrices import graph_content
from mustlink_io.hdf5 import writing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("plans")
    ring = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[-1, 1, -499, 499], shape=(500, 500))
    writing.write(found / "graph.h5", graph_content(sp.csr_matrix(ring)))
    np.save(found / "points.npy", np.random.default_rng(0).random((60, 2)))
    return found


def test_stages_of_a_rank(told):
    code, out, _ = told("plan graph.h5 -k 3 -m csp --labels few.npy --ranks 2 --json")
    assert code == 0
    plan = json.loads(out)
    assert [stage["name"] for stage in plan["stages"]][1:4] == [
        "reading rows",
        "multigrid set-up",
        "eigenvectors",
    ]
    assert plan["peak_bytes"] == plan["least_memory"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["gfhf", "llgc", "poisson", "tik-reg"])
def test_labels_that_spread(told, method):
    line = f"plan graph.h5 --for propagate -m {method} --labels few.npy --json --ranks"
    plans = [json.loads(told(f"{line} {ranks}")[1]) for ranks in (1, 4)]
    for one in plans:
        assert [stage["name"] for stage in one["stages"]][1::2] == ["reading rows", "propagating"]
        assert one["seconds_are"] == "at least"
    assert plans[1]["peak_bytes"] < plans[0]["peak_bytes"]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("graph.h5 --for propagate -m gwem --labels few.npy --ranks 2", "-m gwem: does not run"),
        ("graph.h5 --for propagate --labels few.npy --ranks 2 --memory 1GB", "--memory: does not"),
        ("points.npy -k 3 -m ncut --ranks 2", "--ranks takes a graph"),
        ("graph.h5 -k 3 -m ncut --ranks 25", "ask for at most 24 ranks"),
        ("graph.h5 -k 3 -m sskk --labels few.npy --ranks 2", "-m sskk: does not run on ranks"),
        ("graph.h5 -k auto -m ncut --ranks 2", "-k auto: does not run on ranks"),
    ],
)
def test_what_cannot_be_planned_is_told_in_a_line(told, line, said):
    code, out, err = told(f"plan {line}")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_ranks_share_what_grows_with_weights_and_vectors():
    def stages(columns, ranks):
        return rank_stages(10**7, 3 * 10**8, columns, ranks, item=4, k=10)

    one, four, wide = stages(12, 1), stages(12, 4), stages(24, 4)
    for stage in ("reading rows", "multigrid set-up", "eigenvectors"):
        assert four[stage] < 0.5 * one[stage]
    assert wide["eigenvectors"] > four["eigenvectors"]
    assert wide["reading rows"] == four["reading rows"]
