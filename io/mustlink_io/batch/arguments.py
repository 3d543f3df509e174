"""Jobs as the command line would have them: checked by its own options before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch.jobs_file import (
    COMMANDS,
    FILES,
    TRUTH,
    JobsFile,
    JobSpec,
    Scalar,
    Where,
    did_you_mean,
    one_spelling,
)
from mustlink_io.hdf5 import store, writing
from mustlink_io.jobs.cluster import ClusterJob
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.propagate import PropagateJob

Commands = Mapping[str, click.Command]

FRESH = "--fresh"
WAYS = ("memory", "threads", "resume")  # what was done within other limits still counts
# Jobs never write their inputs, are what workers run, and are one process each.
_BATCH_GIVES = {"help", "json", "quiet", "fresh", "in-place", "workers", "scheduler", "ranks"}
_SHORT = {"n_clusters": "k", "method": "method", "output": "output"}  # options without a long name
_NOT_OF_JOBS = ("quiet", "as_json", "workers", "scheduler", "ranks")
_KINDS: dict[str, type[Job]] = {"cluster": ClusterJob, "propagate": PropagateJob}


@dataclass(frozen=True)
class Ready:
    """A job that was checked; `job` is what its plan is made from, `truth` a file of labels."""

    spec: JobSpec
    job: Job
    command: click.Command
    truth: str | None = None

    @property
    def method(self) -> str | None:
        """Method, by default that of the command; a graph has none."""
        return self.job.method if self.spec.command in _KINDS else None

    @property
    def output(self) -> Path:
        """File to write."""
        return Path(self.job.output)

    @property
    def inputs(self) -> list[Path]:
        """Files that are read, each once."""
        return list(dict.fromkeys(formats.parse(text).path for text in self.job.inputs.values()))


def keys(command: click.Command) -> dict[str, click.Parameter]:
    """Return what a jobs file may say for a command, by its name there."""
    found: dict[str, click.Parameter] = {}
    for parameter in command.params:
        name = str(parameter.name)
        long = [opt for opt in parameter.opts if opt.startswith("--")]
        key = long[0].removeprefix("--") if long else _SHORT.get(name, name)
        if key not in _BATCH_GIVES:
            found[key] = parameter
    return found


def argument_list(
    spec: JobSpec,
    where: Where,
    command: click.Command,
    limits: Mapping[str, int],
    fresh: bool = False,
) -> list[str]:
    """Return the words after `mustlink` that run a job; `limits` are its memory and threads.

    The child's progress goes to the job's log, so it is not quiet. It goes on from whatever a run
    that was killed left behind, unless it is to be `fresh`.
    """
    known = keys(command)
    values = {**spec.values, **{key: value for key, value in limits.items() if key in known}}
    words = [str(command.name)]
    for key, value in values.items():
        if key not in ("data", "output"):
            is_file = _is_file(key, known[key], value)
            words += _option(known[key], where.path(str(value)) if is_file else value)
    if fresh and any(FRESH in parameter.opts for parameter in command.params):
        words.append(FRESH)
    output, data = (where.path(str(spec.values[key])) for key in ("output", "data"))
    return [*words, "--json", "-o", output, "--", data]


def _is_file(key: str, parameter: click.Parameter, value: Scalar) -> bool:
    """Whether a value names a file: a belief may be a number, `prior` of a clusterer is a word."""
    number = key == "belief" and isinstance(value, int | float) and not isinstance(value, bool)
    return key in FILES and not number and not isinstance(parameter.type, click.Choice)


def _option(parameter: click.Parameter, value: Scalar) -> list[str]:
    """An option with its value as the command line has them; raises InputError."""
    names = [opt for opt in parameter.opts if opt.startswith("--")] or parameter.opts
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{value!r} given; it is true or false")
        off = parameter.secondary_opts
        return names[:1] if value else off[:1]
    usual = getattr(parameter, "flag_value", None)  # of an option whose value may be left out
    if isinstance(value, bool) and isinstance(usual, str):
        return [f"{names[0]}={usual}"] if value else []
    if isinstance(value, bool):
        raise InputError(f"{str(value).lower()} given; it takes a value")
    text = repr(value) if isinstance(value, float) else str(value)
    return [f"{names[0]}={text}"] if names[0].startswith("--") else [names[0], text]


def check_keys(file: JobsFile, where: Where, commands: Commands) -> None:
    """Raise InputError for a key of `[defaults]` that no command has, or of a job that its has not.

    This comes first: a key that is misspelt is told, not that the right one is missing.
    """
    known = {"command", TRUTH, *(key for name in COMMANDS for key in keys(commands[name]))}
    for key in file.defaults:
        if key.replace("_", "-") not in known:
            raise where.wrong(None, f"[defaults]: {key}", f"unknown{_meant(key, known, commands)}")
    command = file.defaults.get("command", COMMANDS[0])
    if command not in COMMANDS:
        raise where.wrong(None, "[defaults]: command", f"{command!r} is none of {COMMANDS}")
    for entry in file.job:
        name = entry.command or command
        own = {*keys(commands[name]), TRUTH}
        for key in one_spelling(entry.__pydantic_extra__, where, entry.name):
            if key not in own:
                known_here = keys(commands[name])
                raise where.wrong(entry.name, key, _unknown(name, key, known_here, commands))


def fits(commands: Commands, command: str, values: Mapping[str, Scalar], key: str) -> bool:
    """Whether a value of `[defaults]` says something to a job of this command and method."""
    known = keys(commands[command])
    if key not in known:
        return False
    if command not in _KINDS:
        return True
    kind = _KINDS[command]
    given = {name.replace("-", "_"): value for name, value in values.items()}
    method = kind.methods.get(str(values.get("method") or kind.usual(given)["method"]))
    if method is None:
        return True  # an error that the command line tells better
    if key in ("labels", "constraints"):
        return key in method.takes
    if command == "cluster" and key in ("soft-labels", "belief"):
        return "constraints" in method.takes and "soft-labels" in values
    if command == "propagate" and key in ("prior", "belief"):
        return "prior" in method.takes and "prior" in values
    name = str(known[key].name)
    own = {name for one in kind.methods.values() for name in one.options}
    return name not in own or name in method.options


def check(spec: JobSpec, where: Where, commands: Commands) -> Ready:
    """Check the options and files of one job; raises InputError that names file, job and key."""
    command = commands[spec.command]
    known = keys(command)
    for key, value in spec.values.items():
        try:
            if _is_file(key, known[key], value) and not (isinstance(value, str) and value):
                raise InputError(f"{value!r} is not the name of a file")
            _option(known[key], value)
        except InputError as error:
            raise where.wrong(spec.name, key, str(error)) from error
    params = _parse(argument_list(spec, where, command, {}), spec, where, command)
    job = _job(spec.command, params)
    try:
        job.check()
    except InputError as error:
        # begins with the option, written as on the command line
        raise where.wrong(spec.name, None, str(error).removeprefix("--")) from error
    truth = None if spec.truth is None else where.path(spec.truth)
    ready = Ready(spec, job, command, truth)
    _check_files(ready, where)
    return ready


def _unknown(
    command: str, key: str, known: Mapping[str, click.Parameter], commands: Commands
) -> str:
    others = [name for name in COMMANDS if key in keys(commands[name])]
    if others:
        return f"no option of command {command}; it belongs to {', '.join(others)}"
    return "unknown" + _meant(key, {"name", "command", *known}, commands)


def _meant(key: str, known: set[str], commands: Commands) -> str:
    """The key that was meant, or all there are; the engine's names lead to the options."""
    name = key.replace("-", "_")
    for command in commands.values():
        for option, parameter in keys(command).items():
            if parameter.name == name and option in known:
                return f"; did you mean {option}?"
    return did_you_mean(key.replace("_", "-"), known)


def _parse(
    words: Sequence[str], spec: JobSpec, where: Where, command: click.Command
) -> dict[str, Any]:
    """Let the command line read a job; its complaints become errors of the file."""
    names = {parameter.name: key for key, parameter in keys(command).items()}
    try:
        with command.make_context(str(command.name), list(words[1:])) as context:
            return dict(context.params)
    except click.MissingParameter as error:
        key = names.get(error.param.name) if error.param else None
        raise where.wrong(spec.name, key, "is missing") from error
    except click.BadParameter as error:
        key = names.get(error.param.name) if error.param else None
        raise where.wrong(spec.name, key, error.message.rstrip(".")) from error
    except click.UsageError as error:
        raise where.wrong(spec.name, None, error.message.rstrip(".")) from error
    except InputError as error:  # of a callback, which begins with the option's name
        raise where.wrong(spec.name, None, str(error)) from error


def _job(command: str, params: Mapping[str, Any]) -> Job:
    """The job that the command makes of its parameters.

    For `graph`, the cut of its graph stands in: the plan is that of a little more than is done.
    """
    given = {name: value for name, value in params.items() if name not in _NOT_OF_JOBS}
    if command == "graph":
        given |= {"method": "ncut", "n_clusters": 2}
    return _KINDS.get(command, ClusterJob).of(given)


def _check_files(ready: Ready, where: Where) -> None:
    """Raise InputError for a missing input, or an output that cannot be written."""
    read = dict(ready.job.inputs)
    if ready.truth is not None:
        read[TRUTH] = ready.truth
    for role, text in read.items():
        try:
            store.check_readable(formats.parse(text).path)
        except InputError as error:
            raise where.wrong(ready.spec.name, role, str(error)) from error
    folder = ready.output.parent
    try:
        if folder.is_dir():
            writing.check_output(ready.output, ready.inputs)
            return
        while not folder.exists():
            folder = folder.parent
        writing.check_output(folder / f".{ready.output.name[:100]}")  # made when the job starts
    except InputError as error:
        raise where.wrong(ready.spec.name, "output", str(error)) from error
