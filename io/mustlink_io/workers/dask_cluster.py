"""A Dask client while it is needed: of a scheduler that runs, or of workers begun for it.

Dask schedules, sends, and does a task again whose worker was lost; nothing of that is done here.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from mustlink.core.resources import return_large_blocks
from mustlink.errors import InputError
from mustlink_io.system import needed

LOCAL = "local"  # in place of an address: workers begun here
_ANSWER = "10s"  # in which a scheduler answers


@contextlib.contextmanager
def client_of(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """Yield a `distributed.Client`: of the scheduler, or of so many single-threaded processes,
    which end with it.

    Raises InputError where Dask is not installed or the scheduler does not answer.
    """
    option = "--workers" if scheduler in (None, LOCAL) else "--scheduler"
    dask, distributed = (needed(name, option, "dask") for name in ("dask", "distributed"))
    with contextlib.ExitStack() as closing:
        closing.enter_context(_silent())
        if scheduler in (None, LOCAL):
            folder = closing.enter_context(
                tempfile.TemporaryDirectory(prefix="mustlink-", ignore_cleanup_errors=True)
            )
            closing.enter_context(dask.config.set({"distributed.worker.daemon": False}))
            with _without_ctrl_c():
                cluster = closing.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers or 1,
                        threads_per_worker=1,
                        dashboard_address="127.0.0.1:0",
                        memory_limit=0,  # jobs have budgets of their own
                        local_directory=folder,
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = closing.enter_context(distributed.Client(cluster))
            client.run(return_large_blocks)  # where Dask gives every freed page back at once
            yield client
            return
        try:
            client = closing.enter_context(distributed.Client(scheduler, timeout=_ANSWER))
        except (OSError, ValueError, TypeError) as error:
            words = " ".join(str(error).split())
            raise InputError(
                f"--scheduler {scheduler}: no answer ({words or type(error).__name__}); start one "
                "by: dask scheduler, and give its address as tcp://HOST:PORT"
            ) from error
        if not client.nthreads():
            raise InputError(
                f"--scheduler {scheduler}: has no workers; start some by: dask worker {scheduler}"
            )
        yield client


def threads_of(client: Any) -> int:
    """Tasks that the workers of a client can do at the same time."""
    return max(1, sum(client.nthreads().values()))


@contextlib.contextmanager
def executor_of(workers: int | None, scheduler: str | None) -> Iterator[Executor | None]:
    """Yield an executor of these workers, None without either; raises InputError."""
    if workers is None and scheduler is None:
        yield None
        return
    with client_of(workers, scheduler) as client:
        yield client.get_executor(pure=False)


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """What begins in here ignores Ctrl-C, which is for this process: it ends its workers."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What Dask logs of lost workers and broken lines is its own affair: errors are raised."""
    loggers = logging.root.manager.loggerDict
    known = [name for name in loggers if name.split(".")[0] in ("distributed", "tornado")]
    before = {logging.getLogger(name): logging.getLogger(name).level for name in known}
    for logger in before:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
