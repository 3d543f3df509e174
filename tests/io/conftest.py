"""What several files of tests of the shell share."""

from __future__ import annotations

import pytest

from mustlink_io.commands.cli import run


@pytest.fixture
def told(folder, monkeypatch, capsys):
    """Run a command in the folder; its exit code and what it said."""
    monkeypatch.chdir(folder)

    def call(line):
        capsys.readouterr()
        code = run(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
