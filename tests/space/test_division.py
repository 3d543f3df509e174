"""Rows divided among ranks: pieces follow from the rows alone, and so do sums, bit by bit."""

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink.space.division import Division


@pytest.mark.parametrize("size", [2, 23, 24, 100, 50_000, 1_000_003, 3_000_000_000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 24])
def test_every_row_has_one_owner(size, ranks):
    if ranks > size:
        with pytest.raises(InputError, match="ask for at most"):
            Division(size, ranks)
        return
    division = Division(size, ranks)
    pieces, bounds = division.pieces, division.bounds
    assert np.array_equal(pieces, Division(size).pieces)
    assert (np.diff(pieces) > 0).all()
    assert (np.diff(bounds) > 0).all()
    assert (bounds[0], bounds[-1]) == (pieces[0], pieces[-1]) == (0, size)
    rows = np.unique(np.concatenate([bounds[:-1], bounds[1:] - 1, pieces[:-1]]))
    owner = division.owner(rows)
    assert ((bounds[owner] <= rows) & (rows < bounds[owner + 1])).all()
    assert np.diff(bounds).max() <= 2.2 * size / ranks + 1


def summed(size, ranks, values):
    """As ranks do it: each fills in what it knows, and everyone adds up."""
    every = np.zeros((len(Division(size, ranks).nodes), values.shape[1]))
    for rank in range(ranks):
        division = Division(size, ranks)
        for at in division.own_nodes(rank):
            every[at] = division.below(at, values.__getitem__)
    return Division(size, ranks).total(every)


@pytest.mark.parametrize("size", [2, 3, 17, 24, 10**7])
def test_sums_are_the_same_for_any_number_of_ranks(size):
    n_pieces = Division(size).n_pieces
    values = np.random.default_rng(size).standard_normal((n_pieces, 4)) * 10.0 ** np.arange(4)
    one = summed(size, 1, values)
    np.testing.assert_allclose(one, values.sum(axis=0), rtol=1e-12)
    for ranks in range(2, min(n_pieces, 30) + 1):
        assert np.array_equal(summed(size, ranks, values), one)


@pytest.mark.parametrize("size", [1, 7, 24, 900, 70_000])
def test_a_coarser_grid_has_as_many_pieces(size):
    for ranks in (1, 3, 24):
        fine = Division(10**5, ranks)
        coarse = fine.coarser(size)
        assert coarse.n_pieces == fine.n_pieces
        assert np.array_equal(coarse.pieces, Division(10**5).coarser(size).pieces)
        assert (np.diff(coarse.bounds) >= 0).all()
        assert (coarse.bounds[0], coarse.bounds[-1]) == (0, size)
