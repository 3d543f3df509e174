"""Ctrl-C typed at a terminal, once and twice: how a run ends, and what is left on disk."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
CTRL_C = b"\x03"
# The shell with a fit that tells that it runs, and that it is interrupted, before it ends.
SHELL = """
import sys, time
from collections import deque
from itertools import repeat
import mustlink
from mustlink_io.commands.cli import main

def fit(*_, **__):
    try:
        print("fitting", flush=True)
        while True:  # a signal just before one long sleep would not end it
            time.sleep(0.01)
    except KeyboardInterrupt:
        print("unwinding", flush=True)
        {then}
        raise

mustlink.NCut.fit = fit
main(sys.argv[1:])
"""
FOR_EVER = "deque(repeat(0), maxlen=0)"  # never comes back to Python, as a compiled loop


class Terminal:
    """A process whose terminal we hold the other end of."""

    def __init__(self, command, folder):
        paths = [str(ROOT / "engine"), str(ROOT / "io"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TERM": "xterm"}
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests may run where it is ignored
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, *command], environment)
        self.said, self.code = "", None

    def type(self, keys):
        os.write(self.end, keys)

    def listen(self, seconds, until=lambda: False):
        """Read what is said until the process has ended, or something is true."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and not until():
            try:
                if select.select([self.end], [], [], 0.05)[0]:
                    self.said += os.read(self.end, 4096).decode(errors="replace")
            except OSError:  # EIO: nobody holds the other end
                _, status = os.waitpid(self.pid, 0)
                self.code = os.waitstatus_to_exitcode(status)
                return

    def close(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.end)


@pytest.fixture
def run(tmp_path):
    """Start a clustering that ends as told, with an output that is there already."""
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(40, 2)))
    (tmp_path / "out.h5").write_bytes(b"\x89HDF precious")
    line = "cluster points.npy -k 2 -m ncut -o out.h5"
    started = []

    def start(then):
        started.append(Terminal(["-c", SHELL.format(then=then), *line.split()], tmp_path))
        one = started[0]
        one.listen(60, until=lambda: "fitting" in one.said)
        assert "fitting" in one.said, one.said
        return one

    yield start
    for one in started:
        one.close()
    assert (tmp_path / "out.h5").read_bytes() == b"\x89HDF precious"
    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock")
    assert names == ["out.h5", "points.npy"]  # a lock that nobody holds locks nothing


@pytest.mark.thorough
def test_the_first_interrupt_ends_with_one_line(run):
    terminal = run("pass")
    terminal.type(CTRL_C)
    terminal.listen(30)
    assert terminal.code == 130
    assert "Traceback" not in terminal.said
    assert terminal.said.rstrip().splitlines()[-1].endswith("mustlink: interrupted")
    assert terminal.said.count("interrupted") == 1


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="System V's handlers")
def test_the_second_interrupt_ends_at_once(run):
    terminal = run(FOR_EVER)
    terminal.type(CTRL_C)
    terminal.listen(30, until=lambda: "unwinding" in terminal.said)
    assert "unwinding" in terminal.said
    assert terminal.code is None
    terminal.type(CTRL_C)
    terminal.listen(10)
    assert terminal.code == -signal.SIGINT  # what a shell calls 130
    assert "Traceback" not in terminal.said
    hidden, shown = terminal.said.count("\x1b[?25l"), terminal.said.count("\x1b[?25h")
    assert shown >= hidden  # the cursor


DROPPED = """
import ctypes, sys, time
from mustlink_io.commands.cli import keep_interrupts
keep_interrupts()

@ctypes.CFUNCTYPE(None)
def callback():
    raise KeyboardInterrupt

try:
    callback()
    for _ in range(3000):
        time.sleep(0.01)
except KeyboardInterrupt:
    sys.exit(7)
"""
WAITING = """
import sys, threading
from mustlink_io.commands.cli import end_within
end_within(0.2, 130)
threading.Thread(target=threading.Event().wait).start()
sys.exit(130)
"""

UNEXPECTED = """
import threading
from mustlink_io.commands import cli
cli._GRACE = 0.5

def fails(*_):
    threading.Thread(target=threading.Event().wait).start()
    {}

cli.run = fails
cli.main([])
"""


@pytest.mark.parametrize(
    ("what", "code", "last"),
    [
        ("raise ZeroDivisionError('of nobody')", 1, b"ZeroDivisionError: of nobody"),
        ("cli._terminate()", 143, b""),
        ("return 1", 1, b""),
    ],
)
def test_what_nobody_expected_ends_with_its_own_code_though_a_thread_waits(what, code, last):
    """An error is told, is no signal, and ends."""
    paths = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "io")])
    done = subprocess.run(
        [sys.executable, "-c", UNEXPECTED.format(what)],
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=50,
        capture_output=True,
    )
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (code, [last] if last else [])


@pytest.mark.parametrize(("program", "code"), [(DROPPED, 7), (WAITING, 130)])
def test_an_interrupt_is_neither_dropped_nor_waits_for_ever(program, code):
    paths = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "io")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env=environment,
        timeout=50,
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # not as in a background
    )
    assert (done.returncode, done.stderr) == (code, b"")
