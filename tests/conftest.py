"""Settings of the whole suite."""

import os

import pytest
from hypothesis import settings

# The same examples in every run of continuous integration; new ones on a developer's machine.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.fixture
def few_runs(monkeypatch):
    """Held-out constraints and starting centres with 2 runs of k-means in place of 12."""
    from mustlink.selection import held_out

    monkeypatch.setattr(held_out, "_RUNS", 2)


@pytest.fixture
def mustlink(data, monkeypatch, capsys):
    """Run the command in the folder of the module's `data`: (exit code, stdout, stderr)."""
    from mustlink_io.commands import cli

    monkeypatch.chdir(data)

    def run(line):
        capsys.readouterr()
        code = cli.run(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
