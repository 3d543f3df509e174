"""`bench/same.py` sees what differs between versions and between homes."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import same
import same_homes

LABELS = np.array([0, 0, 1, 1, 2, -1])
JOB = same_homes.JOBS[0]


def said(labels=LABELS, **more):
    """What a version or a home answered to one job."""
    usual = {"seconds": 1.0, "data": "d", "choices": {"tau": 0.1}, "notes": [], "warnings": []}
    return {JOB.name: {**usual, **more}}, {f"{JOB.name}/labels": labels}


def refused():
    """A job that does not run there."""
    return {JOB.name: {"seconds": 0.1, "data": "d", "error": "no", "refused": True}}, {}


def test_versions_differ_by_labels_and_errors():
    assert same.compare(JOB.name, said(), said())["verdict"] == "same"
    verdict = same.compare(JOB.name, said(), said(LABELS[::-1]))["verdict"]
    assert verdict.startswith("4 labels: ARI ")
    otherwise = np.where(LABELS >= 0, 2 - LABELS, -1)
    renumbered = same.compare(JOB.name, said(), said(otherwise))["verdict"]
    assert renumbered == same.RENUMBERED
    assert "error: none -> no" in same.compare(JOB.name, said(), refused())["verdict"]
    assert same.compare(JOB.name, refused(), said())["verdict"] == same.RUNS_NOW
    assert same.compare(JOB.name, said(), said(notes=["a"]))["also"] == ["notes"]


def test_homes_differ_by_partitions_and_choices():
    numbered_otherwise = np.where(LABELS >= 0, 2 - LABELS, -1)
    assert same.between(JOB, said(), said(numbered_otherwise))[0] == "same"
    assert same.labels_apart(LABELS, numbered_otherwise, named=True) == "ARI 1.0000, 3 labels"
    alone = np.where(np.arange(6) == 4, -1, LABELS)
    assert "ARI" in same.between(JOB, said(), said(alone))[0]
    assert same.between(JOB, said(), said(choices={"tau": 0.1001, "ranks": 2}))[0] == "same"
    verdict, _ = same.between(JOB, said(), said(choices={"tau": 0.2}))
    assert verdict == "choices.tau: 0.1 | 0.2"
    assert same.between(JOB, said(), refused())[0] == "left out"
    assert same.between(JOB, refused(), refused()) == ("same", [])


@pytest.mark.parametrize(
    ("here", "there", "count"),
    [
        ({"why": "keeps 99.6% of 14"}, {"why": "keeps 99.5% of 14"}, 0),
        ({"why": "keeps 99.6% of 14"}, {"why": "keeps 99.6% of 13"}, 1),
        ({"a": [0.0, "one"]}, {"a": [0.0, "two"]}, 1),
        ({"a": [0.0, "one"]}, {"a": [0.0]}, 1),
        ({"a": {"b": 1, "c": None}}, {"a": {"b": 2}}, 1),
        ({"refine": True}, {"refine": False}, 1),
        ({"beta": float("nan")}, {"beta": 1.0}, 1),
    ],
)
def test_fields_differ_by_words_and_figures(here, there, count):
    assert len(same.fields_apart("choices", here, there)) == count


def test_jobs_have_names_of_their_own():
    names = [job.name for job in same_homes.JOBS]
    assert len(set(names)) == len(names) >= 20
