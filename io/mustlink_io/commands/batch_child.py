"""A job of a batch: the `mustlink` command, in a process that dies with the batch.

`python -m mustlink_io.commands.batch_child PARENT cluster ...`, PARENT being the number of the
batch's process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from mustlink_io.commands.cli import main

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "/proc/self/oom_score_adj"


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; Linux only.

    Elsewhere the lock that was inherited tells the next batch that this process still works.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we could ask
        os.kill(os.getpid(), signal.SIGKILL)


def _go_first() -> None:
    """Short of memory, the system shall end a job rather than the batch or a session."""
    with contextlib.suppress(OSError), open(_OOM_SCORE, "w") as file:
        file.write("500")


if __name__ == "__main__":
    _die_with(int(sys.argv[1]))
    _go_first()
    main(sys.argv[2:])
