"""What several files of tests of the shell share."""

import pytest


@pytest.fixture
def told(folder, monkeypatch, shell):
    """`shell` in the module's `folder`."""
    monkeypatch.chdir(folder)
    return shell
