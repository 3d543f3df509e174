"""Ctrl-C: the first unwinds, a second one ends the process at once, whatever runs.

Python acts on a signal between two of its own instructions only, so that neither would be heard
inside a compiled loop or a call of LAPACK, which last up to minutes. The system does not wait: the
handler is installed for one signal only (System V's semantics), and the next one finds the default,
which ends the process. Files stay intact: whatever is written comes to its place whole, by rename.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal

_IGNORE = 1  # SIG_IGN


def end_at_second_interrupt() -> None:
    """Let a second SIGINT end this process at once; the first raises KeyboardInterrupt as ever.

    Has no effect where SIGINT is ignored (nohup) or handled by others, in another thread than the
    main one, and where the C library does not have `sysv_signal`: there both wait for Python.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError, ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ValueError in another thread
        library = ctypes.CDLL(None)
        once, always = library.sysv_signal, library.signal
        for function in (once, always):
            function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
        once(signal.SIGINT, always(signal.SIGINT, _IGNORE))  # Python's own handler, in C
