"""Memory of blocks that are done with serves blocks to come, inside its scope and not longer."""

import numpy as np
import pytest

from mustlink.kernels import buffer_pool as spare


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(spare, "_LEAST", 64)


def where(X):
    return X.__array_interface__["data"][0]


def test_a_block_leaves_its_memory_to_the_next_that_fits():
    with spare.reused():
        first = spare.empty((10, 4), np.float64)
        first[:] = 7.0
        place, view = where(first), first[:, :2]
        del first
        other = spare.empty((10, 4), np.float64)
        assert where(other) != place  # a view holds it
        assert np.all(view == 7.0)
        del view
        narrower = spare.empty((10, 3), np.float32)
        assert where(narrower) == place
        assert narrower.shape == (10, 3)
        assert narrower.dtype == np.float32
        assert narrower.flags.c_contiguous
        assert narrower.flags.writeable


def test_blocks_alive_are_apart():
    rng, alive = np.random.default_rng(0), {}
    with spare.reused():
        for step in range(300):
            if alive and rng.random() < 0.5:
                del alive[rng.choice(list(alive))]
            alive[step] = spare.empty((int(rng.integers(1, 40)), 5), np.float32)
            alive[step][:] = step
            assert all(np.all(block == number) for number, block in alive.items())
    assert all(np.all(block == number) for number, block in alive.items())  # it outlives the scope


def test_no_more_is_held_than_was_in_use():
    with spare.reused():
        small = [spare.empty((10, 2), np.float64) for _ in range(5)]
        del small
        pool = spare._now.get()
        assert len(pool.memory) == 5
        large = spare.empty((10, 3), np.float64)
        assert not pool.memory  # too small for it: given back first
        with spare.reused():  # of the outer one
            assert spare._now.get() is pool
        del large
        assert len(pool.memory) == 1
        kept = spare.empty((10, 3), np.float64)
    assert spare._now.get() is None
    del kept
    assert not pool.memory


def test_an_error_ends_it():
    with pytest.raises(ValueError, match="x"), spare.reused():
        raise ValueError("x")
    assert spare._now.get() is None
