"""Pieces shared by threads: each is worked on once, wherever the call comes from."""

import multiprocessing
import sys

import pytest

from mustlink.kernels.threads import in_threads


def squares(count):
    found = [0] * count

    def task(k):
        found[k] += k * k

    in_threads(task, range(count))
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_each_piece_once(count):
    assert squares(count) == [k * k for k in range(count)]


def test_tasks_may_share_out_pieces_themselves():
    done = []
    in_threads(lambda k: in_threads(done.append, range(5 * k, 5 * k + 5)), range(60))
    assert sorted(done) == list(range(300))


def test_an_error_reaches_the_caller():
    def task(k):
        if k == 7:
            raise ValueError("seven")

    for _ in range(20):
        with pytest.raises(ValueError, match="seven"):
            in_threads(task, range(30))


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    squares(50)
    child = multiprocessing.get_context("fork").Process(target=squares, args=(50,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
