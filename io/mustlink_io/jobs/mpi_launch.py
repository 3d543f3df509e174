"""Starting the ranks of an MPI job, and telling in one line how it ended where it did not go well.

A scheduler may have started them instead (srun, mpiexec in a job script): then there is nothing to
start. Nothing of MPI is loaded here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from mustlink.errors import InputError
from mustlink_io.system import user

_STARTED = "MUSTLINK_RANKS"  # set for the ranks that were started here
# What launchers tell their processes: Open MPI, PMIx (srun too), MPICH and Intel's, MVAPICH.
_MARKS = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", _STARTED)
_NEEDED = ("mpi4py", "petsc4py")
# Open MPI gives rank 0 a terminal of its own: without this a file would get its codes and lines.
_PLAIN = {"TERM": "dumb", "COLUMNS": "160", "LINES": "25"}


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process was started as a rank of an MPI job."""
    return any(mark in environment for mark in _MARKS)


def launch(ranks: int, arguments: Sequence[str], threads: int | None = None) -> int:
    """Run `mustlink` with these arguments on so many ranks; returns the exit code.

    What is wrong with the input is told by a rank, exit code 2. Where a rank dies all are ended,
    and that is told here, exit code 1. Raises InputError where they cannot be started.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"--ranks: {' and '.join(missing)} not installed in this Python; see docs/scale.md, or "
            "leave out --ranks"
        )
    command = [*launcher(ranks), sys.executable, "-m", "mustlink_io", *arguments]
    said = environment(ranks)
    if not sys.stdout.isatty():
        said |= _PLAIN
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=said) as job:
        try:
            code = job.wait()
        except BaseException:  # Ctrl-C reaches mpiexec, too; SIGTERM does not
            job.terminate()
            job.wait()
            raise
    if code in (0, 2):
        return code
    sys.stderr.write(f"mustlink: {_ending(code)}; nothing was written, start it again\n")
    return 1


def launcher(ranks: int) -> list[str]:
    """`mpiexec` with its options; raises InputError where there is none."""
    found = shutil.which("mpiexec")
    if found is None:
        raise InputError("--ranks: no mpiexec on the PATH; install Open MPI, see docs/scale.md")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    options = ["-n", str(ranks)]
    if "OpenRTE" in said.stdout or "Open MPI" in said.stdout:
        # Quiet: what mpiexec writes about a rank that ended would hide what that said itself.
        # Unbound: two ranks bound to one busy core were measured to take seven times as long.
        options += ["-q", "--bind-to", "none", "--oversubscribe"]
    return [found, *options]


def environment(ranks: int) -> dict[str, str]:
    """That of the ranks: those who wait sleep, libraries use one thread, root may."""
    usual = {
        _STARTED: str(ranks),
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if user() == 0:
        usual |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**usual, **os.environ, _STARTED: str(ranks)}


def _ending(code: int) -> str:
    """How the ranks ended, in words."""
    number = code - 128 if code > 128 else -code
    if number in {one.value for one in signal.Signals}:
        name = signal.Signals(number).name
        return f"a rank was ended by {name}, and all others with it"
    return f"a rank ended with exit code {code}, and all others with it"
