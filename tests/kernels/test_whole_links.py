"""Links between aggregates as whole numbers against a dense product."""

import numpy as np
import pytest
import scipy.sparse as sp

from mustlink.kernels.aggregated_matrix import whole_links

UNIT = 2.0**40


@pytest.mark.parametrize("seed", range(6))
def test_own_rows_against_dense(seed):
    rng = np.random.default_rng(seed)
    held, beside, count = [(1, 0, 1), (30, 0, 4), (30, 12, 9), (200, 50, 60)][seed % 4]
    A = sp.random_array((held, held + beside), density=0.2, rng=rng, format="csr")
    group = rng.integers(0, count, held + beside).astype(np.int32)
    if seed > 3:
        group[rng.random(group.size) < 0.3] = -1
    weight = rng.random(held + beside)
    found, links = whole_links(sp.csr_matrix(A), group, weight, UNIT)
    assert np.array_equal(found, np.unique(group[:held][group[:held] >= 0]))
    P = np.zeros((held + beside, int(group.max(initial=-1)) + 1))
    P[group >= 0, group[group >= 0]] = 1.0
    terms = np.rint(weight[:held, None] * weight * A.toarray() * UNIT)
    expected = (P[:held].T @ terms @ P)[found]
    expected[np.arange(found.size), found] = 1
    assert np.array_equal(links.toarray(), expected)


def test_any_division_of_the_rows_adds_up_to_the_same():
    rng = np.random.default_rng(3)
    A = sp.csr_matrix(sp.random_array((90, 90), density=0.1, rng=rng))
    group, weight = rng.integers(0, 11, 90).astype(np.int32), rng.random(90)
    whole, total = whole_links(A, group, weight, UNIT)[1].toarray(), np.zeros((11, 11))
    for rows in np.split(np.arange(90), [20, 55]):
        order = np.concatenate([rows, np.setdiff1d(np.arange(90), rows)])
        found, links = whole_links(A[rows][:, order], group[order], weight[order], UNIT)
        total[found] += links.toarray()[:, :11]
    off = ~np.eye(11, dtype=bool)
    assert np.array_equal(total[off], whole[off])
