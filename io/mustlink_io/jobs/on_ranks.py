"""Jobs on ranks of MPI: how they begin, what does not run there, every rank's part."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mustlink.core.observe import Observer, Recorder, Unheard
from mustlink.core.resources import cores, peak_bytes
from mustlink.eigen.work import RANKS
from mustlink.errors import InputError
from mustlink.space.division import Division
from mustlink_io import formats
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.graphs import RowSlices, row_slices
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.result import Input, Result
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.fits import ClusterJob
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.on_disk import left_out
from mustlink_io.jobs.run import result_of
from mustlink_io.jobs.side_information import labels_of
from mustlink_io.system import user

_STARTED = "MUSTLINK_RANKS"  # set for the ranks that were started here
# What launchers tell their processes: Open MPI, PMIx (srun too), MPICH and Intel's, MVAPICH.
_MARKS = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", _STARTED)
_NEEDED = ("mpi4py", "petsc4py")
# Open MPI gives rank 0 a terminal of its own: without this a file would get its codes and lines.
_PLAIN = {"TERM": "dumb", "COLUMNS": "160", "LINES": "25"}


def is_rank() -> bool:
    """Whether this process was started as a rank of an MPI job."""
    return any(mark in os.environ for mark in _MARKS)


def launch(ranks: int, arguments: Sequence[str]) -> int:
    """Run `mustlink` with these arguments on so many ranks; returns the exit code.

    A rank writes what is wrong with the input, exit code 2. Where a rank dies all are ended, and
    this says so, exit code 1. Raises InputError where they cannot be started.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"--ranks: {' and '.join(missing)} not installed in this Python; see docs/scale.md, or "
            "leave out --ranks"
        )
    command = [*launcher(ranks), sys.executable, "-m", "mustlink_io", *arguments]
    environ = environment(ranks)
    if not sys.stdout.isatty():
        environ |= _PLAIN
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environ) as job:
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
    output = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    options = ["-n", str(ranks)]
    if "OpenRTE" in output.stdout or "Open MPI" in output.stdout:
        # Quiet: what mpiexec writes about a rank that ended would hide its own line.
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
    if _has_avx512():
        # OpenBLAS's own small products there round a row by how many rows are beside it.
        usual["OPENBLAS_CORETYPE"] = "Haswell"
    if user() == 0:
        usual |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**usual, **os.environ, _STARTED: str(ranks)}


def _has_avx512() -> bool:
    """Whether the processor has AVX-512, where the system tells."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def _ending(code: int) -> str:
    number = code - 128 if code > 128 else -code
    if number in {one.value for one in signal.Signals}:
        name = signal.Signals(number).name
        return f"a rank was ended by {name}, and all others with it"
    return f"a rank ended with exit code {code}, and all others with it"


Fit = Callable[[Any, Observer], "Result | None"]  # of ranks and an observer, on every rank
_LATER = 0.5  # seconds that others wait with their complaint: rank 0's is the same, mostly


def check(job: Job, ranks: int) -> Fit:
    """What a rank does; raises InputError for what does not run on so many ranks."""
    job = job.settled(is_graph=True)
    refuse(job)
    graph = graph_of(job, ranks)
    place, shape = formats.parse(job.data), (graph.n_nodes, graph.n_nodes)
    data = formats.InputData("graph", SimpleNamespace(shape=shape), place)
    labels = None if job.labels is None else labels_of(job.labels, data, None, job.data)
    side = job.read(data, labels, Recorder())
    if isinstance(job, ClusterJob) and side is None and job.method != "ncut":
        raise InputError(f"-m {job.method}: give --labels or --constraints, or choose -m ncut")
    beside = Carried.of_files(data, labels, job.extras)
    return partial(_fitted, job, graph, side, job.estimator(side), beside)


def refuse(job: Job) -> None:
    """Raise InputError for what does not run on ranks, whatever the graph."""
    job.check()
    limits = {
        "--memory": None if isinstance(job.memory, str) else job.memory,
        "--time": job.time_limit,
        "--resume": job.resume,
    }
    for word in (*left_out(job, RANKS), *(name for name, value in limits.items() if value)):
        other = ", or give a number" if word == "-k auto" else ""
        if word == f"-m {job.method}":
            able = [name for name, one in job.methods.items() if RANKS in one.kind.homes]
            other = f", or choose -m {', '.join(able)}"
        raise InputError(
            f"{word}: does not run on ranks; leave it out{other}, or leave out --ranks"
        )


def graph_of(job: Job, ranks: int) -> RowSlices:
    """The graph of a job by its header, to be divided among so many ranks; raises InputError."""
    place = formats.parse(job.data)
    if place.suffix not in (".h5", ".hdf5"):
        raise InputError(
            f"{job.data}: ranks read rows of a graph in HDF5; make one by: mustlink graph, or "
            "mustlink convert"
        )
    store.check_readable(place.path)
    writing.check_output(job.output, [place.path])
    graph = row_slices(place.path, place.part)
    Division(graph.n_nodes, ranks)
    return graph


@contextmanager
def all_or_none(ranks: int) -> Iterator[Any]:
    """The ranks of this job, all of which end where one fails: with one line, exit code 2 or 1.

    Raises InputError where another number than `ranks` was started.
    """
    from mustlink.eigen.rank_work import world

    found = world()
    try:
        if found.count != ranks:
            raise InputError(
                f"--ranks {ranks}: MPI started {found.count}; start as many, by the mpiexec of the "
                "MPI that mpi4py was built with"
            )
        yield found
    except BaseException as error:
        if found.own:
            time.sleep(_LATER + 0.01 * found.own)
        known = isinstance(error, InputError | OSError | MemoryError)
        if known:
            words = " ".join(str(error).split()) or "out of memory"
            sys.stderr.write(f"mustlink: {words}\n")
        elif not isinstance(error, KeyboardInterrupt | SystemExit):
            traceback.print_exc()
        sys.stderr.flush()
        found.communicator.Abort(2 if known else 1)


def run(job: Job, ranks_wanted: int, observer: Observer) -> Result | None:
    """The part of this rank; the result on rank 0, None on the others. Does not return on failure.

    The graph is read as it is: what readers do to one that is not fit for use, they do not do here.
    All ranks end before anybody goes on.
    """
    fit = check(job, ranks_wanted)
    with all_or_none(ranks_wanted) as ranks:
        from mustlink.kernels.threads import threads

        if ranks.own:
            observer = Unheard()  # all ranks have the same warnings: one writes them
        holding = nullcontext() if ranks.own else locked(job.output)
        with holding, threads(job.threads or max(1, cores() // ranks.count)):
            found = fit(ranks, observer)
        ranks.broadcast(None)  # nobody ends before the result is written
    return found


def _fitted(
    job: Job,
    graph: RowSlices,
    side: Any,
    estimator: Any,
    beside: Carried,
    ranks: Any,
    observer: Observer,
) -> Result | None:
    from mustlink.clusterers import clusterer
    from mustlink.eigen.rank_work import RankWork
    from mustlink.propagation import propagator

    info = {"kind": "precomputed", **graph.info}
    work = RankWork.of(graph.read, graph.n_nodes, ranks, observer, info)
    if isinstance(job, ClusterJob):
        clusterer.fit_at(estimator, work, side)
    else:
        propagator.fit_at(estimator, work, side.labels, *(side.believed or (None, None)))
    peaks = work.peaks()
    if ranks.own:
        return None
    report, recorder = estimator.report_, work.recorder
    choices = {**report.choices, "ranks": ranks.count}
    extra = {**report.extra, "peak_bytes_of_ranks": peaks}
    estimator.report_ = replace(report, choices=choices, extra=extra)
    content, outcome = beside.beside(estimator, *job.answers(estimator, side))
    path = formats.parse(job.data).path
    with recorder.stage("checksums") as advance:
        digest = formats.sha256(path, advance)
    inputs = [Input(role="data", name=job.data, bytes=path.stat().st_size, sha256=digest)]
    outcome |= {
        "command": f"{job.command} --ranks {ranks.count}",
        "data": {"kind": "graph", "shape": [graph.n_nodes, graph.n_nodes]},
        "notes": recorder.remarks,
        "warnings": list(recorder.warnings),
    }
    parameters = {"method": job.method, "ranks": ranks.count, **estimator.get_params()}
    result = result_of(estimator, outcome, content, recorder, parameters, inputs)
    with recorder.stage("writing"):
        writing.write(job.output, {**content, **result.content()})
    seconds = result.seconds + recorder.stages[-1].seconds
    return result.finished(output=job.output, seconds=seconds, peak_bytes=peak_bytes())
