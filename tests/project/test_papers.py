"""`make papers`: what is done is kept, verdicts follow from numbers, every table is stamped."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.papers import running
from bench.papers.__main__ import SECTIONS
from bench.papers.page import page, section
from bench.papers.reporting import (
    BETTER,
    DIFFERS,
    SAME,
    Report,
    Statement,
    Table,
    by_numbers,
    by_statements,
    statements,
)
from bench.papers.running import Task, run


def squared(folder, value):
    """A task that leaves a trace, and fails where the folder says so."""
    if (Path(folder) / f"bad {value}").exists():
        raise ValueError(f"no {value}")
    with (Path(folder) / "calls").open("a") as calls:
        calls.write(f"{value}\n")
    return value**2


def calls(folder):
    return [int(line) for line in (folder / "calls").read_text().split()]


def test_what_is_done_is_kept_and_longest_tasks_come_first(tmp_path):
    tasks = [Task(squared, (str(tmp_path), v), seconds=s) for v, s in ((1, 2), (2, 9), (3, 4))]
    (tmp_path / "bad 3").touch()
    with pytest.raises(SystemExit, match=r"1 of 3 tasks failed(.|\n)*ValueError: no 3"):
        run(tasks, 1, tmp_path / "kept")
    assert calls(tmp_path) == [2, 1]  # one task's error does not stop the others
    (tmp_path / "bad 3").unlink()
    assert [result for result, _ in run(tasks, 1, tmp_path / "kept")] == [1, 4, 9]
    assert calls(tmp_path) == [2, 1, 3]
    assert [result for result, _ in run(tasks[::-1], 1, tmp_path / "kept")] == [9, 4, 1]
    assert calls(tmp_path) == [2, 1, 3]
    run(tasks[:1], 1, tmp_path / "another commit")
    assert calls(tmp_path) == [2, 1, 3, 1]


def test_a_changed_tree_has_a_folder_of_its_own_and_says_so(monkeypatch, tmp_path):
    for top in ("engine", "io", "bench"):
        (tmp_path / top).mkdir()
    monkeypatch.setattr(running, "ROOT", tmp_path)
    monkeypatch.setattr(running, "commit", lambda: "abc1234")
    label, clean = running.sources()
    assert (label, clean.name) == ("abc1234", "abc1234")
    monkeypatch.setattr(running, "commit", lambda: "abc1234-changed")
    folders = {clean}
    for text in ("x = 1", "x = 2"):
        (tmp_path / "engine" / "a.py").write_text(text)
        label, folder = running.sources()
        assert label == "abc1234+changes"
        folders.add(folder)
    assert len(folders) == 3


@pytest.mark.parametrize(
    ("ours", "larger", "verdict"),
    [
        ([0.50] * 10, True, SAME),
        ([0.50] * 9 + [0.10], True, SAME),
        ([0.50] * 8 + [0.10] * 2, True, DIFFERS),
        ([0.50] * 8 + [0.90] * 2, True, BETTER),
        ([0.50] * 18 + [0.90, 0.10, 0.10], True, DIFFERS),
        ([0.50] * 8 + [0.90] * 2, False, DIFFERS),
        ([0.50] * 8 + [0.10] * 2, False, BETTER),
        ([0.50] * 8 + [None] * 2, True, DIFFERS),
        ([0.50] * 8 + [None] * 2, False, DIFFERS),
        ([], True, DIFFERS),
    ],
)
def test_verdicts_of_numbers(ours, larger, verdict):
    cells = [*((0.5, value) for value in ours), (None, 0.7)]  # a dash in the paper says nothing
    found = by_numbers("Table 1", cells, 0.03, "Because 3.", larger)
    assert found.verdict == verdict
    assert ("Because 3." in found.why) == (verdict != SAME)


def test_verdicts_of_statements():
    held, open_ = Statement("a", "1", True), Statement("b", "–", None)
    beaten, failed = Statement("c", "2", False, better=True), Statement("d", "3", False)
    assert by_statements("Fig. 1", [held, open_], "Because.").verdict == SAME
    assert by_statements("Fig. 1", [held, beaten], "Because.").verdict == BETTER
    assert by_statements("Fig. 1", [beaten, failed], "Because.").verdict == DIFFERS
    assert by_statements("Fig. 1", [open_], "Because.").verdict == DIFFERS
    assert by_statements("Fig. 1", [held, failed], "Because.").why == (
        "1 of 2 statements hold, not “d”. Because."
    )


def test_every_table_names_its_commit_and_draws():
    module = SimpleNamespace(__doc__="A figure.\n\nAbout it.\n", DRAWS=20, PAPER_DRAWS=100)
    tables = [
        Table("plain", ("a", "b"), [("x", 0.5)]),
        Table("fixed", ("a",), [("y",)], 0),
        Table("whole", ("a",), [("y",)], 100),
        Table("mixed", ("a",), [("y",)], "20; 1 at 0 %"),
        statements("says", [Statement("s", "o", False, better=True)], 1),
    ]
    verdict = by_numbers("Fig. 1", [(0.5, 0.5)], 0.01)
    made = section(module, 20, Report([*tables, "A note."], [verdict]), 90.0)
    text = page([made], "abc1234", "today")
    for stamp in (
        "### plain\n\n*Commit abc1234, 20 draws (the paper: 100).*",
        "### fixed\n\n*Commit abc1234, nothing random.*",
        "### whole\n\n*Commit abc1234, 100 draws.*",
        "### mixed\n\n*Commit abc1234, draws: 20; 1 at 0 %.*",
        "### says\n\n*Commit abc1234, 1 draw (the paper: 100).*",
    ):
        assert stamp in text
    assert text.index("| Fig. 1") < text.index("## A figure") < text.index("### plain")
    assert "does not, ours is better" in text


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_declare_distinct_tasks(name, monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTLINK_DATA", str(tmp_path))  # no data: what is left is still right
    module = import_module(f"bench.papers.{name}")
    for draws in (1, 3):
        tasks = module.tasks(draws)
        assert len({(task.function, task.args) for task in tasks}) == len(tasks)
        assert all(task.seconds > 0 for task in tasks)
