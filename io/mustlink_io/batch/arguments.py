"""Jobs as the command line would have them: checked by its own options before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
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
from mustlink_io.formats import tables
from mustlink_io.hdf5 import store, writing
from mustlink_io.jobs.fits import ClusterJob, PropagateJob
from mustlink_io.jobs.job import Job

Commands = Mapping[str, click.Command]

FRESH = "--fresh"
# Jobs never write their inputs, are what workers run, and are one process each.
_OF_THE_BATCH = {"help", "json", "quiet", "fresh", "in-place", "workers", "scheduler", "ranks"}
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
    def inputs(self) -> dict[str, Path]:
        """Files that are read, by role."""
        return {role: formats.parse(text).path for role, text in self.job.inputs.items()}


def keys(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command by their keys in a jobs file."""
    found: dict[str, click.Parameter] = {}
    for parameter in command.params:
        name = str(parameter.name)
        long = [opt for opt in parameter.opts if opt.startswith("--")]
        key = long[0].removeprefix("--") if long else _SHORT.get(name, name)
        if key not in _OF_THE_BATCH:
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

    The child is not quiet, as its progress goes to the job's log. Unless `fresh`, it goes on from
    the stages that an earlier run left.
    """
    known = keys(command)
    values = {**spec.values, **{key: value for key, value in limits.items() if key in known}}
    words = [str(command.name)]
    for key, value in values.items():
        if key not in ("data", "output"):
            is_file = _is_file(key, known[key], value)
            words += _option(known[key], where.path(str(value), key) if is_file else value)
    if fresh and any(FRESH in parameter.opts for parameter in command.params):
        words.append(FRESH)
    output, data = (where.path(str(spec.values[key])) for key in ("output", "data"))
    return [*words, "--json", "-o", output, "--", data]


def _is_file(key: str, parameter: click.Parameter, value: Scalar) -> bool:
    """Whether a value names a file: a belief may be a number, `prior` of a clusterer is a word."""
    number = key == "belief" and isinstance(value, int | float) and not isinstance(value, bool)
    return key in FILES and not number and not isinstance(parameter.type, click.Choice)


def _option(parameter: click.Parameter, value: Scalar) -> list[str]:
    names = [opt for opt in parameter.opts if opt.startswith("--")] or parameter.opts
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{value!r} is the value; it must be true or false")
        return names[:1] if value else parameter.secondary_opts[:1]
    usual = getattr(parameter, "flag_value", None)  # of an option whose value may be left out
    if isinstance(value, bool) and isinstance(usual, str):
        return [f"{names[0]}={usual}"] if value else []
    if isinstance(value, bool):
        raise InputError(f"{str(value).lower()} is no value of it; give one")
    text = repr(value) if isinstance(value, float) else str(value)
    return [f"{names[0]}={text}"] if names[0].startswith("--") else [names[0], text]


def check_keys(file: JobsFile, where: Where, commands: Commands) -> None:
    """Raise InputError for a key of `[defaults]` that no command has, or of a job that its has not.

    This comes first: otherwise a misspelt key would be reported as the missing right one.
    """
    own = {name: {*keys(commands[name]), TRUTH, "name", "command"} for name in COMMANDS}
    known = set().union(*own.values())
    for key in file.defaults:
        if key.replace("_", "-") not in known:
            raise where.wrong(None, f"[defaults]: {key}", f"unknown{did_you_mean(key, known)}")
    usual = file.defaults.get("command", COMMANDS[0])
    if usual not in COMMANDS:
        raise where.wrong(None, "[defaults]: command", f"{usual!r} is none of {COMMANDS}")
    for entry in file.job:
        command = entry.command or usual
        for key in one_spelling(entry.__pydantic_extra__, where, entry.name):
            if key in own[command]:
                continue
            others = [name for name in COMMANDS if key in own[name]]
            words = f"unknown{did_you_mean(key, own[command])}"
            if others:
                words = f"no option of command {command}; it belongs to {', '.join(others)}"
            raise where.wrong(entry.name, key, words)


def fits(commands: Commands, command: str, values: Mapping[str, Scalar], key: str) -> bool:
    """Whether a job of this command and method can take a value of `[defaults]`."""
    known = keys(commands[command])
    if key not in known:
        return False
    if command not in _KINDS:
        return True
    kind = _KINDS[command]
    own = {name.replace("-", "_"): value for name, value in values.items()}
    method = kind.methods.get(str(values.get("method") or kind.usual(own)["method"]))
    if method is None:
        return True  # the command line has the better error
    if key in ("labels", "constraints"):
        return key in method.takes
    if command == "cluster" and key in ("soft-labels", "belief"):
        return "constraints" in method.takes and "soft-labels" in values
    if command == "propagate" and key in ("prior", "belief"):
        return "prior" in method.takes and "prior" in values
    name = str(known[key].name)
    of_methods = {option for one in kind.methods.values() for option in one.options}
    return name not in of_methods or name in method.options


def check(spec: JobSpec, where: Where, commands: Commands) -> Ready:
    """Check the options and files of one job; raises InputError that names file, job and key."""
    command = commands[spec.command]
    known = keys(command)
    for key, value in spec.values.items():
        with where.about(spec.name, key):
            if _is_file(key, known[key], value) and not (isinstance(value, str) and value):
                raise InputError(f"{value!r} is not the name of a file")
            _option(known[key], value)
    with where.about(spec.name, None):  # what the command line says begins with the option
        found = _parse(spec, where, command)
        own = {name: value for name, value in found.items() if name not in _NOT_OF_JOBS}
        if spec.command == "graph":  # the cut of it stands in: a plan of a little more than is done
            own |= {"method": "ncut", "n_clusters": 2}
        job = _KINDS.get(spec.command, ClusterJob).of(own)
        job.check()
    truth = None if spec.truth is None else where.path(spec.truth)
    ready = Ready(spec, job, command, truth)
    true = {} if truth is None else {TRUTH: formats.parse(truth).path}
    for role, path in {**ready.inputs, **true}.items():
        with where.about(spec.name, role):
            is_folder = job.text is not None or bool(tables.parquet_files(path))
            store.check_readable(path, folder=role == "data" and is_folder)
    if ready.output.parent.is_dir():  # else it is made when the job begins
        with where.about(spec.name, "output"):
            writing.check_output(ready.output, ready.inputs.values())
    return ready


def _parse(spec: JobSpec, where: Where, command: click.Command) -> dict[str, Any]:
    arguments = argument_list(spec, where, command, {})[1:]
    try:
        with command.make_context(str(command.name), arguments) as context:
            return dict(context.params)
    except click.UsageError as error:
        param = getattr(error, "param", None)
        key = next(
            (key for key, one in keys(command).items() if param and one.name == param.name), None
        )
        missing = isinstance(error, click.MissingParameter)
        words = "is missing" if missing else error.message.rstrip(".")
        raise InputError(f"{key}: {words}" if key else words) from error
