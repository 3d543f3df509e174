"""`mustlink warm`: every kernel is compiled before it is needed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import JSON, QUIET
from mustlink_io.terminal.console import clock, emit, facts, observing, stdout_console


@click.command(short_help="Compile everything beforehand, for images and batch nodes.")
@click.argument("estimators", nargs=-1, metavar="[ESTIMATOR]...")
@QUIET
@JSON
def warm(estimators: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """Compile the kernels of all commands, or of some ESTIMATORs, into the cache on disk.

    A kernel is compiled at its first use, and kept for all later runs: beside the program where
    that can be written, else in the user's folder of caches, or where NUMBA_CACHE_DIR says. What is
    kept beside the program, or there, is used by users who cannot write it, too. Kernels are for
    one kind of processor; NUMBA_CPU_NAME=generic makes slower ones for all.

    \b
      mustlink warm
      mustlink warm NCut CSP
      NUMBA_CACHE_DIR=/opt/kernels mustlink warm --quiet
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # said below
        from mustlink.context import compilation
        from mustlink.kernels.threads import cache_folder

    folder = cache_folder()
    if folder is None:
        raise InputError(
            "cache: no folder for compiled kernels can be written, neither beside the program nor "
            "in the user's caches; set NUMBA_CACHE_DIR to one that can"
        )
    for name in estimators:
        if name not in compilation.known():
            known = ", ".join(compilation.known())
            raise InputError(f"estimators: {name!r} is not known; choose of {known}")
    kernels = compilation.kernels_of(*estimators)
    started = time.perf_counter()
    with observing(quiet) as observer:
        compiled = compilation.compile_kernels(kernels, observer)
    result = {
        "kernels": len(kernels),
        "compiled": compiled,
        "seconds": time.perf_counter() - started,
        "folder": folder,
        "processor": compilation.processor(),
    }
    emit(result, as_json, _show)


def _show(result: Mapping[str, Any]) -> None:
    kept = result["kernels"] - result["compiled"]
    rows = [
        ("kernels", f"{result['kernels']}, {kept} of them were there"),
        ("time", clock(result["seconds"])),
        ("folder", result["folder"]),
        ("processor", result["processor"]),
    ]
    facts(stdout_console(), rows)
