"""What is remembered on disk, one folder a job, and what of it `--resume` may leave alone.

Every status is written whole (sync, rename): a killed batch leaves the old one or the new one. A
status says what was run (`key`), on which inputs, and which output came of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import mustlink
from mustlink.context.stage_cache import VERSION
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.batch.arguments import WAYS, Ready
from mustlink_io.batch.jobs_file import MARK, JobSpec
from mustlink_io.hdf5 import store, writing

STATUS, LOG, RESULT = "status.json", "log.txt", "result.json"
PART = RESULT + ".part"
FORMAT: Literal[1] = 1

Phase = Literal["running", "done", "failed", "interrupted"]


class Stamp(BaseModel):
    """A file as it was: equal size and time mean an equal file; else `sha256` decides."""

    model_config = ConfigDict(frozen=True)

    bytes: int
    mtime_ns: int
    sha256: str | None = None


class Status(BaseModel):
    """How the last attempt at a job went.

    `inputs` is by role. `planned` marks a failure of the plan: the job was not begun.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[1] = 1
    name: str
    phase: Phase
    key: str
    version: str = ""
    arguments: list[str]
    inputs: dict[str, Stamp]
    attempts: int = 0
    started: str
    started_ns: int
    seconds: float | None = None
    exit_code: int | None = None
    error: str | None = None
    planned: bool = False
    plan_bytes: int | None = None
    plan_seconds: float | None = None
    memory: int | None = None
    threads: int | None = None
    peak_bytes: int | None = None
    output: Stamp | None = None


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def key(spec: JobSpec) -> str:
    """Return the digest of what a job asks for, whatever its limits."""
    values = {name: value for name, value in spec.values.items() if name not in WAYS}
    text = json.dumps([spec.command, values], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def version() -> str:
    """What made a result: this version, and that of the results of its stages."""
    return f"{mustlink.__version__}, stages {VERSION}"


def stamp(path: Path, digest: bool = False) -> Stamp:
    """Return size and time of a file, and its SHA-256 if asked for."""
    found = path.stat()
    return Stamp(
        bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        sha256=formats.sha256(path) if digest else None,
    )


def unchanged(path: Path, before: Stamp) -> bool:
    """Whether a file is still what it was; its contents are read only if its time differs."""
    try:
        found = stamp(path)
    except OSError:
        return False
    if found.bytes != before.bytes:
        return False
    if found.mtime_ns == before.mtime_ns:
        return True
    return before.sha256 is not None and formats.sha256(path) == before.sha256


class State:
    """The state folder of one batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, jobs_file: Path) -> None:
        """Make the folder, or make sure that it is one of ours; raises InputError."""
        mark = self.folder / MARK
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; give --state a folder")
        if self.folder.is_dir() and not mark.exists():
            held = [entry.name for entry in os.scandir(self.folder) if not _is_lock(entry.name)]
            if held:
                raise InputError(
                    f"{self.folder}: holds {sorted(held)[0]} and is no state of a batch; give "
                    "--state another folder"
                )
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be made: {error.strerror}") from error
        if not mark.exists():
            _write(mark, json.dumps({"format": FORMAT, "jobs": jobs_file.name}))

    def place(self, name: str) -> Path:
        """Folder of a job."""
        return self.folder / name

    def read(self, name: str) -> Status | None:
        """Status of a job, None if it was never started or cannot be read."""
        try:
            return Status.model_validate_json((self.place(name) / STATUS).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, status: Status) -> None:
        """Keep a status; on disk when this returns. Raises InputError (a full disk)."""
        folder = self.place(status.name)
        folder.mkdir(exist_ok=True)
        _write(folder / STATUS, status.model_dump_json(indent=1) + "\n")

    def result(self, name: str, file: str = RESULT) -> dict[str, Any] | None:
        """Result of a job as its child printed it, None if there is none or only a part."""
        try:
            found = json.loads((self.place(name) / file).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def keep_result(self, name: str) -> None:
        """Make what the child printed the result of the job."""
        part = self.place(name) / PART
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, self.place(name) / RESULT)

    def used(self) -> list[Status]:
        """Every status there is, of jobs that are no longer in the file too."""
        if not self.folder.is_dir():
            return []
        found = (self.read(entry.name) for entry in os.scandir(self.folder) if entry.is_dir())
        return [status for status in found if status is not None]

    def clear(self) -> None:
        """Forget every job: remove our files in it, nothing else."""
        for status in self.used():
            folder = self.place(status.name)
            for name in (STATUS, LOG, RESULT, PART):
                (folder / name).unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()


def _is_lock(name: str) -> bool:
    return name.startswith(".") and name.endswith(".lock")


def _write(path: Path, text: str) -> None:
    with writing.atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def standing(ready: Ready, state: State) -> tuple[Status | None, str]:
    """Return the status of a job that still counts, or None, and why an earlier one does not.

    It counts if the job asks for the same of the same inputs, and what came of it is there: the
    output of a job that is done must be readable and as it was written. A failure of the plan never
    counts, as there may be more memory now. A job whose child had finished when the batch was
    killed is done; every other one that was running is interrupted.
    """
    name = ready.spec.name
    status = state.read(name)
    if status is None:
        broken = (state.place(name) / STATUS).exists()
        return None, f"its {STATUS} cannot be read" if broken else ""
    why = _outdated(ready, status)
    if status.planned or why:
        return None, why
    if status.phase == "running":
        status = _ended_unseen(ready, status, state)
    if status.phase == "done":
        why = _lost(ready, status, state)
    return (None, why) if why else (status, "")


def _outdated(ready: Ready, status: Status) -> str:
    """Why a status is about another job, empty if it is about this one."""
    if status.key != key(ready.spec):
        return "the jobs file asks for something else now"
    if status.version != version():
        return "another version of mustlink did it"
    for role, path in input_files(ready).items():
        if role not in status.inputs or not unchanged(path, status.inputs[role]):
            return f"its {role} changed"
    return ""


def _lost(ready: Ready, status: Status, state: State) -> str:
    """What is missing of a job that is done, empty if nothing."""
    if not ready.output.exists():
        return f"{ready.output} is gone"
    if status.output is None or not unchanged(ready.output, status.output):
        return f"{ready.output} is not as it was written"
    try:
        with store.open_h5(ready.output):
            pass
    except InputError:
        return f"{ready.output} cannot be read"
    return "" if state.result(ready.spec.name) else f"its {RESULT} is gone"


def _ended_unseen(ready: Ready, status: Status, state: State) -> Status:
    """The status of a job that was running when the batch was killed."""
    name = ready.spec.name
    unkept = state.result(name, PART)
    whole = unkept or state.result(name)
    try:
        written = ready.output.stat().st_mtime_ns >= status.started_ns
    except OSError:
        written = False
    if whole is None or not written:
        return status.model_copy(update={"phase": "interrupted"})
    if unkept is not None:
        state.keep_result(name)
    found = finished(ready, status, whole)
    state.write(found)
    return found


def finished(ready: Ready, status: Status, result: dict[str, Any]) -> Status:
    """Return the status of a job that succeeded, with the identity of its output."""
    digests = {
        str(item.get("role")): item.get("sha256")
        for item in result.get("inputs") or ()
        if isinstance(item, dict)
    }
    return status.model_copy(
        update={
            "phase": "done",
            "exit_code": 0,
            "error": None,
            "seconds": status.seconds or result.get("seconds"),
            "peak_bytes": result.get("peak_bytes") or status.peak_bytes,
            "inputs": {
                role: found.model_copy(update={"sha256": digests.get(role)})
                for role, found in status.inputs.items()
            },
            "output": stamp(ready.output, digest=True),
        }
    )


def input_files(ready: Ready) -> dict[str, Path]:
    """Return the files a job reads, by role."""
    return {role: formats.parse(text).path for role, text in ready.job.inputs.items()}


def stamps(ready: Ready) -> dict[str, Stamp]:
    """Return the files a job reads as they are now, by role; those that went away are left out."""
    return {role: stamp(path) for role, path in input_files(ready).items() if path.exists()}
