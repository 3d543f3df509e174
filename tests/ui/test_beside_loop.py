"""Answers that count at once, and what threads do meanwhile: fits, the choice of questions."""

import asyncio
import threading

import numpy as np
import pytest
from test_node_session import EACH, answering, journal

from mustlink.errors import InputError
from mustlink_io.ui import node_session, refits
from mustlink_io.ui.journal import Answer
from mustlink_io.ui.node_session import BATCH
from mustlink_io.ui.refits import in_thread

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def threads(monkeypatch):
    """What was begun in threads, in order; it is done when a test says so."""
    begun = []
    monkeypatch.setattr(node_session, "in_thread", lambda work, done: begun.append((work, done)))
    return begun


def end(threads, count=None):
    """Let so many end, one after another, also those that are begun by then."""
    while threads and count != 0:
        work, done = threads.pop(0)
        try:
            found = work()
        except Exception as error:
            found = error
        done(found)
        count = None if count is None else count - 1


def beside(kind, path=None):
    session, truth = answering(kind, path)
    session.beside_loop = True
    return session, truth


def test_what_the_first_refit_needs_is_prepared_once(threads, monkeypatch):
    session, _ = answering("poisson")
    asked, first = [], session.labels
    monkeypatch.setattr(refits, "smooth_vectors", lambda view, seed: asked.append((view, seed)))
    for _ in range(2):  # tabs
        session.go_beside_loop()
    end(threads)
    assert len(asked) == 1
    assert asked[0][0].graph is session.estimator.graph_
    assert asked[0][1] == session.estimator._used_seed
    session.ask()
    assert len(session.waiting) == BATCH
    assert session.labels is first


def test_vectors_that_a_fit_has_stay(threads, monkeypatch):
    session, _ = answering("csp")
    monkeypatch.setattr(refits, "smooth_vectors", lambda *_: pytest.fail("made anew"))
    session.go_beside_loop()
    end(threads)


@pytest.mark.parametrize("kind", EACH)
def test_one_fit_goes_on_and_the_next_takes_all_that_came_meanwhile(kind, threads, tmp_path):
    (session, truth), (plain, _) = beside(kind, tmp_path), answering(kind)
    first = session.labels
    for count, node in enumerate(range(100, 106), 1):
        session.choose([node], int(truth[node]))
        assert len(journal(tmp_path, 600).read()) == count
    assert len(threads) == 1
    assert session.labels is first
    assert session.is_fitting
    plain.choose([100], int(truth[100]))
    end(threads, 1)
    np.testing.assert_array_equal(session.labels, plain.labels)
    plain.take([Answer("label", np.array([one]), int(truth[one])) for one in range(101, 106)])
    end(threads)
    np.testing.assert_array_equal(session.labels, plain.labels)
    assert not session.is_fitting
    assert len(session.history) == 3
    for left in range(5, -1, -1):
        assert session.undo()
        assert len(session.answers) == left
    end(threads)
    np.testing.assert_array_equal(session.labels, first)


def test_what_is_undone_while_it_is_fitted_is_not_shown(threads):
    session, truth = beside("poisson")
    first = session.labels
    session.choose([100], int(truth[100]))
    assert session.undo()
    end(threads)
    assert session.labels is first
    assert session.redo()
    assert session.labels is not first  # its fit is at hand
    assert not threads or not session.is_fitting


def test_of_answers_that_cannot_be_fitted_together_those_that_can_alone_count(
    threads, tmp_path, monkeypatch
):
    session, truth = beside("csp", tmp_path)
    refit = type(session.estimator).refit

    def refused(self, constraints):
        if constraints.labels[101] >= 0:
            raise InputError("not this one")
        return refit(self, constraints=constraints)

    monkeypatch.setattr(type(session.estimator), "refit", refused)
    for node in (100, 101, 102):
        session.choose([node], int(truth[node]))
    end(threads)
    for held in (session.answers, journal(tmp_path, 600).read()):
        assert [one.nodes.tolist() for one in held] == [[100], [102]]
    assert "does not count: not this one" in session.history[-1].words
    known = session.estimator.constraints_.labels
    assert (known[100] >= 0) & (known[101] < 0) & (known[102] >= 0)


def test_what_fails_by_no_answer_takes_back_all_that_is_not_fitted(threads, tmp_path, monkeypatch):
    session, truth = beside("csp", tmp_path)
    session.choose([100], int(truth[100]))
    session.choose([103], int(truth[103]))  # while that is fitted
    end(threads, 1)

    def dying(*_, **__):
        raise ZeroDivisionError("no more")

    monkeypatch.setattr(type(session.estimator), "refit", dying)
    session.choose([101], int(truth[101]))
    session.choose([102], int(truth[102]))
    end(threads)
    for held in (session.answers, journal(tmp_path, 600).read()):
        assert [one.nodes.tolist() for one in held] == [[100]]
    assert session.estimator.constraints_.labels[100] == truth[100]


@pytest.mark.parametrize("kind", EACH)
def test_the_next_questions_are_chosen_while_others_are_answered_as_if_they_were(kind, threads):
    session, truth = beside(kind)
    session.prepare()
    expected = np.asarray(session.questions(2 * BATCH)).tolist()
    end(threads)
    session.ask()
    assert session.waiting == expected[:BATCH]  # at hand
    asked = set()
    for _ in range(4):
        assert len(set(session.waiting) - asked) == BATCH
        asked |= set(session.waiting)
        for node in session.waiting:
            session.choose([node], int(truth[node]))
        assert not session.waiting
        session.ask()
        end(threads)


def test_questions_that_were_chosen_before_others_were_shown_are_not_asked(threads):
    session, truth = beside("poisson")
    session.prepare()
    end(threads)
    session.prepare()  # of the fit as it is, once more
    session.ask()
    for node in session.waiting:
        session.choose([node], int(truth[node]))
    end(threads)
    session.ask()
    assert len(session.waiting) == BATCH


def test_questions_that_cannot_be_chosen_are_told(threads):
    session, _ = beside("poisson")

    def refused(*_, **__):
        raise InputError("nothing can be asked")

    session._ask = refused
    session.ask()
    end(threads)
    assert session.history[-1].words == "nothing can be asked"
    assert not session.asks


def test_a_thread_tells_the_loop_what_it_found_or_what_went_wrong():
    told = []

    def work():
        told.append(threading.get_ident())
        return 7

    def fail():
        raise ZeroDivisionError

    async def main():
        ready = asyncio.Event()

        def done(found):
            told.append((threading.get_ident(), found))
            ready.set()

        for each in (work, fail):
            in_thread(each, done)
            await ready.wait()
            ready.clear()

    asyncio.run(main())
    here = threading.get_ident()
    assert told[0] != here
    assert told[1] == (here, 7)
    assert told[2][0] == here
    assert isinstance(told[2][1], ZeroDivisionError)
