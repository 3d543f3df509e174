"""Grids and templates: one `[[job]]` becomes a job for every combination of its lists."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch.spec import Entry, JobsFile, Scalar, Where
from mustlink_io.batch.templates import FILES, check_name, fields, fill, split

Values = dict[str, Scalar]
Fits = Callable[[str, Mapping[str, Scalar], str], bool]  # (command, values, key of [defaults])

MOST = 10_000  # jobs of one file
TRUTH = "truth"  # a key that is no option: it is for the table of the batch
TEMPLATES = (*FILES[1:], TRUTH)  # beside name and output
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class JobSpec:
    """One job: its options as written in the file, without lists and templates.

    `values` has `data`, `output` and option names of the command line without their dashes, `truth`
    is a file of true labels for the table of the batch.
    """

    name: str
    command: str
    values: Mapping[str, Scalar]
    truth: str | None = None


def expand(file: JobsFile, where: Where, fits: Fits) -> list[JobSpec]:
    """Return all jobs in the order of the file; within a `[[job]]` the last list varies
    fastest, and lists of `[defaults]` are behind its own.

    A value of `[defaults]` is given to the jobs that `fits` says can take it. Raises InputError
    for names and outputs that are not unique, templates that cannot be filled, globs that match
    nothing.
    """
    jobs: list[JobSpec] = []
    defaults = one_spelling(file.defaults, where, None)
    command = str(defaults.pop("command", "cluster"))
    if "name" in defaults:
        raise where.wrong(None, "[defaults]: name", "belongs to a job; every job has its own")
    for entry in file.job:
        jobs += _entry(entry, entry.command or command, defaults, where, fits)
        if len(jobs) > MOST:
            raise where.wrong(entry.name, None, f"with it there are more than {MOST:,} jobs")
    _check_unique(jobs, where)
    return jobs


def one_spelling(given: Mapping[str, Any], where: Where, job: str | None) -> dict[str, Any]:
    """Return the keys with dashes, as on the command line; underscores mean the same."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        if name in found:
            raise where.wrong(job, name, "given twice, with a dash and with an underscore")
        found[name] = value
    return found


def _entry(
    entry: Entry, command: str, defaults: Mapping[str, Any], where: Where, fits: Fits
) -> list[JobSpec]:
    own = one_spelling(entry.__pydantic_extra__, where, entry.name)
    merged = {**own, **{key: value for key, value in defaults.items() if key not in own}}
    if "data" not in merged:
        raise where.wrong(entry.name, "data", "is missing; give a file, or a list of files")
    if isinstance(merged.get("output"), list):
        raise where.wrong(entry.name, "output", "is a list; give one template, as out/{name}.h5")
    lists = {key: value if isinstance(value, list) else [value] for key, value in merged.items()}
    lists["data"] = [match for text in lists["data"] for match in _glob(text, entry.name, where)]
    size = 1
    for values in lists.values():
        size *= len(values)
    if size > MOST:
        raise where.wrong(entry.name, None, f"its lists make {size:,} jobs; at most {MOST:,}")
    found: dict[str, Values] = {}
    for combination in itertools.product(*lists.values()):
        given = dict(zip(lists, combination, strict=True))
        whole = {k: _for_data(v, k, given["data"], entry.name, where) for k, v in given.items()}
        kept = {*own, TRUTH}
        point = {k: v for k, v in whole.items() if k in kept or fits(command, whole, k)}
        found.setdefault(repr(point), point)  # equal once defaults that do not fit are left out
    points = list(found.values())
    varying = [
        key
        for key, values in lists.items()
        if len(values) > 1 and len({repr(point.get(key)) for point in points}) > 1
    ]
    jobs = [_fill(entry.name, command, point, varying, where) for point in points]
    _check_globs(lists, merged["data"], jobs, where)
    return jobs


def _for_data(value: Any, key: str, data: Any, job: str, where: Where) -> Scalar:
    """A value, or that of a data set in a table by the names of their files without ending."""
    if not isinstance(value, Mapping):
        found: Scalar = value
        return found
    name = PurePath(split(str(data))[0]).stem
    if name not in value:
        listed = ", ".join(value)
        raise where.wrong(job, key, f"its table has no value for {name}; there are {listed}")
    chosen: Scalar = value[name]
    return chosen


def _glob(text: Scalar, job: str, where: Where) -> list[str]:
    """Files a pattern such as `in/*.h5:/points` matches, sorted; a plain name is itself."""
    if not isinstance(text, str) or not text:
        raise where.wrong(job, "data", f"{text!r} is not the name of a file")
    place = formats.parse(where.path(text))
    if place.path.exists() or not _WILD.search(text):
        return [text]
    pattern, part = split(text)
    found = sorted(glob.glob(pattern, root_dir=where.folder, recursive=True))
    found = [name for name in found if os.path.isfile(where.folder / name)]
    if not found:
        raise where.wrong(job, "data", f"{text}: no file matches")
    return [name + (f":{part}" if part is not None else "") for name in found]


def _fill(name: str, command: str, values: Values, varying: Sequence[str], where: Where) -> JobSpec:
    """The job of one combination, its templates filled."""
    values = dict(values)
    key = "data"
    try:
        known = {**fields(values), "file": split(str(values["data"]))[0]}
        for key in TEMPLATES:
            if isinstance(values.get(key), str):
                values[key] = fill(str(values[key]), known)
        key, known = "name", fields(values)
        if "{" in name or "}" in name:
            full = fill(name, known)
        else:
            full = "-".join([name, *(known[at] for at in varying if at in known)])
        check_name(full)
        key = "output"
        if key not in values:
            raise InputError("is missing; give one, such as out/{name}.h5")
        if not isinstance(values[key], str) or not values[key]:
            raise InputError(f"{values[key]!r} is not the name of a file")
        values[key] = fill(str(values[key]), {**known, "name": full})
    except InputError as error:
        raise where.wrong(name, key, str(error)) from error
    truth = values.pop(TRUTH, None)
    return JobSpec(full, command, values, None if truth is None else str(truth))


# ---------------------------------------------------------------- what must not be


def _check_unique(jobs: Sequence[JobSpec], where: Where) -> None:
    names: dict[str, JobSpec] = {}
    outputs: dict[str, JobSpec] = {}
    for job in jobs:
        other = names.setdefault(job.name.casefold(), job)
        if other is not job:
            raise where.wrong(
                job.name, "name", "two jobs are called so; put what differs between them into "
                "name, such as {folder}-{data} or {dataset}"
            )  # fmt: skip
        output = os.path.realpath(where.path(str(job.values["output"])))
        other = outputs.setdefault(output, job)
        if other is not job:
            raise where.wrong(
                job.name, "output", f'{job.values["output"]} is written by job "{other.name}" '
                "too; put what differs between them into output, such as out/{name}.h5"
            )  # fmt: skip
    for job in jobs:
        for key in FILES:
            if not isinstance(job.values.get(key), str):
                continue
            path = os.path.realpath(where.path(split(str(job.values[key]))[0]))
            if path in outputs:
                raise where.wrong(
                    job.name, key, f'{job.values[key]} is the output of job "{outputs[path].name}"'
                    "; jobs do not wait for each other: write it elsewhere, or in a batch before"
                )  # fmt: skip


def _check_globs(
    lists: Mapping[str, Sequence[Scalar]],
    data: object,
    jobs: Sequence[JobSpec],
    where: Where,
) -> None:
    """An output that a pattern of the data matches would be data of the next run."""
    given = data if isinstance(data, list) else [data]
    patterns = [split(str(text))[0] for text in given if text not in lists["data"]]
    for job, pattern in itertools.product(jobs, patterns):
        output = os.path.normpath(str(job.values["output"]))
        if _matches(PurePath(output).parts, PurePath(os.path.normpath(pattern)).parts):
            raise where.wrong(
                job.name,
                "output",
                f"{output} matches the data {pattern} and would be taken for data by the next "
                "run; give outputs a folder of their own",
            )


def _matches(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether glob would find the path; `**` stands for any folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[at:], pattern[1:]) for at in range(len(path) + 1))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(
        path[1:], pattern[1:]
    )  # fmt: skip
