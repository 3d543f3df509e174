"""Two Dask workers for all tests of this folder, and two of which one is lost."""

import os
import signal
import threading
import time

import pytest

from mustlink_io.workers import dask_cluster


@pytest.fixture(scope="session")
def client():
    """Two processes of one thread each."""
    pytest.importorskip("distributed")
    with dask_cluster.client_of(2, None) as client:
        yield client


@pytest.fixture
def doomed():
    """Two processes of their own, and how to kill one of them after so many seconds."""
    pytest.importorskip("distributed")
    threads = []
    with dask_cluster.client_of(2, None) as client:

        def kill_one(seconds):
            pid = min(client.run(os.getpid).values())

            def kill():
                time.sleep(seconds)
                os.kill(pid, signal.SIGKILL)

            threads.append(threading.Thread(target=kill))
            threads[-1].start()

        yield client, kill_one
        for thread in threads:
            thread.join()
