"""The `mustlink` command: its verbs, exit codes, and where words go.

Results go to stdout, progress to stderr. Bad input is one line and exit code 2, Ctrl-C is 130; a
second Ctrl-C ends at once.
Heavy modules are imported inside the commands, so that `--help` answers at once, but for commands
that fit: their options are made from the engine.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from mustlink.core.resources import return_large_blocks
from mustlink.errors import InputError, MustlinkError
from mustlink_io.commands.answers import answer, ask, ui
from mustlink_io.commands.batch import batch
from mustlink_io.commands.convert import convert, graph
from mustlink_io.commands.cut import cut
from mustlink_io.commands.demo import demo
from mustlink_io.commands.fits import cluster, plan, propagate
from mustlink_io.commands.info import clean, info
from mustlink_io.commands.judge import report, score, suggest
from mustlink_io.commands.warm import warm

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


def keep_interrupts() -> None:
    """Raise KeyboardInterrupt again where it was raised in a callback of C, which drops it."""
    before = sys.unraisablehook

    def hook(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            # Not in this function: a `Timer` would wait in it until its thread has begun.
            _thread.start_new_thread(_interrupt_soon, ())
        else:
            before(what)

    sys.unraisablehook = hook


def _interrupt_soon() -> None:
    time.sleep(_SOON)
    _thread.interrupt_main()


def end_within(seconds: float, code: int) -> None:
    """End the process with this code at the latest then: a thread may wait for what never comes.

    So it is where an interrupt came while an executor began a thread, which is not woken then. What
    is still to be written to the terminal is lost: say it before.
    """
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()


_SOON, _GRACE = 0.05, 10.0  # seconds
FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
_SETTINGS = {"help_option_names": ["-h", "--help"]}
_FILES = ("graph", "labels", "constraints")  # what is wrong is in them, not in their option


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminate)
    end_at_second_interrupt()
    keep_interrupts()
    return_large_blocks()
    code = FAILED  # what Python itself says of an exception that nobody expected
    try:
        # Until here the processor had nothing else to do: starting Python and importing this.
        code = run(arguments, time.perf_counter() - time.process_time())
    except SystemExit:
        code = TERMINATED
        raise
    finally:
        if code in (FAILED, INTERRUPTED, TERMINATED):
            end_within(_GRACE, code)
    gc.freeze()  # what ends with the process anyway is not looked through for cycles: .4 s
    sys.exit(code)


def _terminate(*_: Any) -> NoReturn:
    """Unwind, so that temporary files go."""
    raise SystemExit(TERMINATED)


def run(arguments: Sequence[str] | None = None, began: float | None = None) -> int:
    """Run the command line; returns the exit code.

    `began` is when the process did, by `time.perf_counter`: a time limit counts from there.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return cli.main(args=given, prog_name="mustlink", standalone_mode=False, obj=began) or 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "mustlink"
        return _complain(f"{error.format_message().rstrip('.')}; see {command} --help")
    except click.ClickException as error:
        return _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("mustlink: interrupted\n")
        return INTERRUPTED
    except InputError as error:
        return _complain(_by_option(str(error), given))
    except MustlinkError as error:
        return _complain(str(error), FAILED)
    except OSError as error:
        return _complain(str(error))
    except MemoryError:
        return _complain("out of memory")


def _by_option(words: str, given: Sequence[str]) -> str:
    """The engine's `n_neighbors: …` as `--neighbors: …`, where the command has that option."""
    name, colon, rest = words.partition(": ")
    command = cli.commands.get(given[0]) if given else None
    if command is None or name in _FILES:
        return words
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name == name:
            return max(parameter.opts, key=len) + colon + rest
    return words


def _complain(words: str, code: int = BAD_INPUT) -> int:
    line = "".join(c if c.isprintable() else "?" for c in " ".join(words.split()))
    sys.stderr.write(f"mustlink: {line}\n")
    return code


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        import mustlink

        click.echo(f"mustlink {getattr(mustlink, '__version__', 'unknown')}")
        context.exit()


@click.group(invoke_without_command=True, context_settings=_SETTINGS)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version.",
)  # fmt: skip
@click.pass_context
def cli(context: click.Context) -> None:
    """Cluster very large graphs with side information.

    Points or a graph in; labels of a few nodes, must-link and cannot-link pairs, or a second
    graph beside them; clusters out, or the class of every node.

    \b
      mustlink demo                                     100,000 points, with and without labels
      mustlink info data.h5                             what is in a file
      mustlink suggest data.h5 --labels few.csv         which method, and why
      mustlink plan data.h5 -k 10 --memory 4GB          time and memory, told before
      mustlink cluster data.h5 -k 10 -o out.h5          points or graph to clusters
      mustlink cluster data.h5:/points -k 10 --labels few.csv -o out.h5
      mustlink propagate data.h5 --labels few.csv -o out.h5   a few labels to all nodes
      mustlink cut photo.png --strokes strokes.png -o cut.png   a photograph, along your strokes
      mustlink batch jobs.toml --workers 2              many jobs, one after another or at once
      mustlink ui photo.png                             a page to paint on, and see the cut follow
      mustlink ask out.h5 -o ask.csv                    questions whose answers help most
      mustlink answer out.h5 ask.csv                    and the result with the answers
      mustlink report out.h5                            a page about a result, with pictures
      mustlink score out.h5 --truth data.h5:/labels     how good they are
      mustlink convert out.h5 labels.csv                to other formats, and into .h5ad
      mustlink warm                                     everything compiled, for an image

    Data: FILE.h5 or FILE.h5:DATASET, .h5ad, .npy, .npz, .mtx, .csv, .parquet,
    .metis, .graphml, .svmlight, or an edge list (.edges, .txt, .tsv) with lines "i j [weight]".
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (
    cluster, propagate, cut, ui, ask, answer, plan, batch, convert, report, suggest, graph, info,
    clean, score, demo, warm,
):  # fmt: skip
    command.context_settings = _SETTINGS  # also where it is parsed by itself, as jobs are
    cli.add_command(command)
