"""What a result tells of its run: one model, written and read back, in a file and as JSON."""

import json

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io.hdf5 import result, store, writing
from mustlink_io.hdf5.result import Input, Result, ResultGraph, ResultReport, ResultStage
from mustlink_io.hdf5.writing import to_json

SPREAD = {"least": 1.0, "median": 2, "mean": 2.5, "most": 4, "p99": 3.9}
GRAPH = {
    "n_nodes": 4,
    "n_edges": 5,
    "neighbours": SPREAD,
    "degree": SPREAD,
    "histogram": {"edges": [1, 2, 5], "counts": [1, 3]},
    "isolated": 0,
    "n_components": 1,
    "largest_components": [4],
    "info": {"kind": "knn", "recall": 1.0, "method": "brute"},
}
TOLD = {
    "method": "CSP",
    "n_nodes": 4,
    "n_clusters": 2,
    "notes": ["a remark"],
    "warnings": [],
    "graph": GRAPH,
    "satisfaction": {"must_kept": 0.5, "n_must": 2, "cannot_kept": 1.0, "n_cannot": 0},
    "constraints": {"kind": "labels", "strays": [{"node": 1, "class": 1, "cluster": 0, "home": 1}]},
    "convergence": {"solver": "dense", "status": "dense: done", "residuals": [0.0, None]},
    "gap_of_tomorrow": [1, {"a": None}],
}


def made(told=None):
    return Result(
        report=ResultReport.of(TOLD if told is None else told),
        stages=[ResultStage(name="reading", seconds=0.5, peak_bytes=10)],
        parameters={"method": "csp", "beta": np.float64(0.5), "shares": np.ones(2)},
        versions={"mustlink": "1"},
        inputs=[Input(role="data", name="x.h5", bytes=3, sha256="ab")],
        eigenvalues=[0.0, 0.25],
    )


def test_what_is_written_is_read_back(tmp_path):
    writing.write(tmp_path / "x.h5", {"/labels": [0, 1, 1, 0], **made().content()})
    with store.open_h5(tmp_path / "x.h5") as file:
        back = result.read(file, "x.h5")
    assert back.report == ResultReport.of(TOLD)
    assert back.report.plain() == TOLD  # what the model does not know included
    assert (back.stages, back.inputs) == (made().stages, made().inputs)
    assert back.parameters == {"method": "csp", "beta": 0.5, "shares": [1, 1]}
    assert (back.seconds, back.peak_bytes) == (0.5, 10)
    assert set(back.plain()) == {"report", "stages", "parameters", "versions", "inputs"}


def test_the_json_of_a_run_is_the_report_and_what_stands_beside_it():
    told = json.loads(to_json(made().finished("late", output="o.h5", seconds=3).flat()))
    beside = {"stages", "parameters", "versions", "inputs", "output", "eigenvalues"}
    assert set(told) == {*TOLD, *beside, "seconds"}
    assert told["notes"] == ["a remark", "late"]
    assert ResultReport.model_validate(told).graph == ResultGraph.model_validate(GRAPH)


def test_a_run_says_which_part_it_could_not_record():
    report = ResultReport.of({**TOLD, "graph": {**GRAPH, "n_edges": -1}})
    assert report.graph is None
    assert report.notes == ["a remark", "report: its graph could not be recorded"]
    assert ResultReport.of(TOLD).notes == ["a remark"]


def test_an_older_or_empty_file_tells_what_it_has(tmp_path):
    writing.write(tmp_path / "x.h5", {"/labels": [0, 1]})
    writing.write(tmp_path / "y.h5", {"/labels": [0, 1], "/report": '{"method": "CSP"}'})
    with store.open_h5(tmp_path / "x.h5") as file:
        assert result.read(file, "x.h5") is None
    with store.open_h5(tmp_path / "y.h5") as file:
        found = result.read(file, "y.h5")
    assert found.plain() == {"report": {"method": "CSP"}}
    assert (found.stages, found.report.graph, found.report.notes) == ([], None, [])


@pytest.mark.parametrize(
    "damage",
    [
        {"notes": "none"},
        {"notes": [3]},
        {"satisfaction": [0.5]},
        {"satisfaction": {"n_must": 2}},
        {"satisfaction": {"n_must": 2, "must_kept": True}},
        {"labels_kept": 0.5},
    ],
)
def test_what_every_reader_counts_on_is_refused_if_it_is_not_so(tmp_path, damage):
    text = json.dumps({**TOLD, **damage})
    writing.write(tmp_path / "x.h5", {"/labels": [0, 1], "/report": text})
    with (
        store.open_h5(tmp_path / "x.h5") as file,
        pytest.raises(InputError, match="damaged: its report are not"),
    ):
        result.read(file, "x.h5")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("graph", 3),
        ("graph", {**GRAPH, "histogram": {"edges": [1, 1, 5], "counts": [1, 3]}}),
        ("spectrum", {"values": []}),
        ("spectrum", {"values": [float("nan")]}),
        ("clusters", {"names": [0], "sizes": [1], "conductance": [2], "volume_share": [1]}),
        ("next_eigenvalue", 10**400),
        ("n_nodes", -1),
        ("choices", "none"),
        ("constraints", {"kind": "pairs", "must": {"n": 1, "kept": 2, "weight": 1}}),
    ],
)
def test_any_other_part_that_is_not_of_its_form_is_none(name, value):
    report = ResultReport.model_validate({**TOLD, name: value})
    assert getattr(report, name) is None
    assert report.method == "CSP"
