"""The hierarchy of a fit: the clusters at K, constraints at every level, numbers that stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, is_monotonic, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import planted_graph
from mustlink.discretize.merge_tree import cut_tree, merge_tree
from mustlink.errors import InputError

seeds = st.integers(0, 2**31 - 1)


def random_case(seed, L, n_groups):
    rng = np.random.default_rng(seed)
    links = rng.random((L, L)) * (rng.random((L, L)) < 0.6)
    groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, L - n_groups)) * 2
    Q = rng.integers(-1, 2, (L, L)) * (rng.random((L, L)) < 0.2)
    return links + links.T, groups, (Q + Q.T).astype(float), rng.integers(1, 9, L).astype(float)


def slow_tree(links, groups, Q):
    """Every merge by looking at all pairs of sets of leaves."""
    sets = [(i, frozenset([i])) for i in range(groups.size)]
    out, height = [], 0.0
    while len(sets) > 1:
        best = None
        for x in range(len(sets)):
            for y in range(x + 1, len(sets)):
                a, b = (sorted(sets[z][1]) for z in (x, y))
                across = links[np.ix_(a, b)].sum()
                own = [links[np.ix_(z, z)].sum() for z in (a, b)]
                ncut = sum(across / (w + across) if across else 0.0 for w in own)
                told = -np.sign(Q[np.ix_(a, b)].sum())
                key = (groups[a[0]] != groups[b[0]], told, 1 - ncut / 2)
                if best is None or key[:2] < best[0][:2] or (
                    key[:2] == best[0][:2] and key[2] < best[0][2] - 1e-12
                ):  # fmt: skip
                    best = key, x, y
        key, x, y = best
        height = max(height, key[2])
        merged = sets[x][1] | sets[y][1]
        out.append([*sorted((sets[x][0], sets[y][0])), height, len(merged)])
        sets = [one for z, one in enumerate(sets) if z not in (x, y)]
        sets.append((groups.size + len(out) - 1, merged))
    return np.array(out, dtype=float).reshape(-1, 4)


@given(st.integers(1, 9), st.integers(1, 4), seeds)
@settings(max_examples=60, deadline=None)
def test_a_tree_is_that_of_its_slow_twin(L, n_groups, seed):
    n_groups = min(L, n_groups)
    links, groups, Q, sizes = random_case(seed, L, n_groups)
    found = merge_tree(links, groups, Q)
    np.testing.assert_allclose(found[:, 2], slow_tree(links, groups, Q)[:, 2], atol=1e-9)
    if L > 1:
        assert is_valid_linkage(found)
        assert is_monotonic(found)
    cuts = [cut_tree(found, k, groups, sizes, 100) for k in range(1, L + 1)]
    assert np.array_equal(cuts[n_groups - 1], groups)
    assert np.array_equal(np.sort(cuts[-1])[-(L - n_groups) or L :], 100 + np.arange(L - n_groups))
    for k, numbers in enumerate(cuts, 1):
        assert np.unique(numbers).size == k
        if k > 1:  # one cluster of those before was cut
            pairs = {tuple(p) for p in np.column_stack([cuts[k - 2], numbers]).tolist()}
            assert len(pairs) == k
            if k <= n_groups:
                assert set(numbers) <= set(groups)


def test_cuts_are_those_of_scipy_where_heights_differ():
    links, _, _, sizes = random_case(3, 9, 1)
    nobody = np.zeros(9, int)
    tree = merge_tree(links, nobody, np.zeros((9, 9)))
    told = 0
    for k in range(1, 10):
        if k > 1 and k < 9 and tree[9 - k, 2] == tree[8 - k, 2]:
            continue  # scipy cuts between heights
        own, other = cut_tree(tree, k, nobody, sizes, 1), fcluster(tree, k, "maxclust")
        if np.unique(other).size == k:
            assert len(set(zip(own.tolist(), other.tolist(), strict=True))) == k
            told += 1
    assert told > 5


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", [ml.NCut, ml.CSP, ml.SSKK, ml.SRCP, ml.CSCGFHF])
def test_a_fit_is_its_hierarchy_cut_at_k(method, tmp_path):
    W, y = planted_graph(np.random.default_rng(0), 200, 4, 0.5, 0.05)
    known = np.where(np.arange(200) % 5 == 0, y, -1)
    est = method(4, affinity="precomputed", random_state=0).fit(W, known)
    Z, leaves = est.hierarchy_, est.hierarchy_leaves_
    assert is_valid_linkage(Z)
    assert leaves.shape == (200,)
    assert leaves.max() == len(Z)
    assert np.array_equal(est.cut_hierarchy(4), est.labels_)
    assert np.array_equal(np.unique(est.cut_hierarchy(2)).size, 2)
    more = est.cut_hierarchy(6)
    assert set(np.unique(more)) == {0, 1, 2, 3, 4, 5}
    for c in range(4):  # the larger part keeps the number
        parts = np.bincount(more[est.labels_ == c], minlength=6)
        assert parts[c] == parts.max()
    with pytest.raises(InputError, match="leaves; fit with n_clusters=500"):
        est.cut_hierarchy(500)
    assert np.array_equal(est.hierarchy_, Z)
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    assert back._hierarchy is not None
    assert np.array_equal(back.hierarchy_, Z)
    assert np.array_equal(back.cut_hierarchy(6), more)
    est.refit(known)
    assert np.array_equal(est.cut_hierarchy(4), est.labels_)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", range(4))
def test_constraints_are_kept_at_each_level(seed):
    """What is merged first without them is apart with cannot-links, and what is not is together."""
    W, y = planted_graph(np.random.default_rng(seed), 240, 6, 0.5, 0.06)
    nodes = [np.flatnonzero(y == c) for c in range(6)]
    how = {"gamma": 0.05, "affinity": "precomputed", "random_state": 0}

    def levels(pairs):
        """Which clusters the six groups are in, of five clusters and of two."""
        est = ml.SSSC(6, **how).fit(W, constraints=pairs)
        assert adjusted_rand_score(est.labels_, y) > 0.9  # what was told decides no cluster
        first = [np.bincount(est.labels_[some]).argmax() for some in nodes]
        rows = [np.flatnonzero(est.labels_ == c)[0] for c in first]
        return est.cut_hierarchy(5)[rows], est.cut_hierarchy(2)[rows]

    five, two = levels(None)
    a, b = np.flatnonzero(five == np.bincount(five).argmax())
    c, d = [group for group in range(6) if group not in (a, b)][:2]
    assert two[a] == two[b]
    assert five[c] != five[d]
    told = [np.column_stack([nodes[g][:20], nodes[h][:20]]) for g, h in ((a, b), (c, d))]
    belief = np.repeat([-0.05, 0.05], 20)
    five, two = levels(ml.Constraints.from_pairs(np.vstack(told), belief, n_nodes=240))
    assert two[a] != two[b]
    assert five[c] == five[d]


def test_equal_rows_and_nodes_without_an_edge():
    X = np.random.default_rng(0).normal(size=(90, 2))
    X[60:] = X[:30]
    est = ml.NCut(3, random_state=0).fit(X)
    leaves = est.hierarchy_leaves_
    assert np.array_equal(leaves[60:], leaves[:30])
    W, _ = planted_graph(np.random.default_rng(0), 60, 2)
    W = W.tolil()
    W[5], W[:, 5] = 0, 0
    est = ml.NCut(2, affinity="precomputed", random_state=0).fit(W.tocsr())
    assert est.hierarchy_leaves_[5] == est.cut_hierarchy(3)[5] == -1
    one = ml.NCut(1, affinity="precomputed", random_state=0).fit(W.tocsr())
    assert set(one.cut_hierarchy(1)) == {0, -1}
