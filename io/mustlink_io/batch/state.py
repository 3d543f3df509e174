"""The folder of a batch's state, one folder a job, and which jobs `--resume` leaves alone.

Every status is written whole (sync, rename): a killed batch leaves the old one or the new one. A
status says what was run (`key`), on which inputs, and which output came of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import mustlink
from mustlink.context.stage_cache import VERSION
from mustlink_io.batch.arguments import Ready
from mustlink_io.batch.children import LOG, RESULT, STOP
from mustlink_io.batch.jobs_file import JobSpec
from mustlink_io.hdf5 import writing

STATUS = "status.json"
_LIMITS = ("memory", "threads", "resume")  # a result within other limits still counts

Stamp = tuple[int, int]  # bytes and time in ns of a file: equal ones are an equal file


class JobStatus(BaseModel):
    """How the last attempt at a job went; `inputs` is by role."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal[2] = 2
    name: str
    phase: Literal["running", "done", "failed", "interrupted"]
    key: str
    version: str
    arguments: list[str]
    inputs: dict[str, Stamp]
    attempts: int = 0
    started: str
    started_ns: int
    seconds: float | None = None
    exit_code: int | None = None
    error: str | None = None
    plan_bytes: int | None = None
    plan_seconds: float | None = None
    memory: int | None = None
    threads: int | None = None
    peak_bytes: int | None = None
    output: Stamp | None = None


def key(spec: JobSpec) -> str:
    """Return the digest of a job's options, its limits apart."""
    values = {name: value for name, value in spec.values.items() if name not in _LIMITS}
    text = json.dumps([spec.command, values], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def version() -> str:
    """The version of the program, and that of the results of its stages."""
    return f"{mustlink.__version__}, stages {VERSION}"


def stamps(files: Mapping[str, Path]) -> dict[str, Stamp]:
    """Return size and time of files by role; missing ones are left out."""
    found = {role: path.stat() for role, path in files.items() if path.exists()}
    return {role: (one.st_size, one.st_mtime_ns) for role, one in found.items()}


class State:
    """The state folder of one batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> Path:
        """Folder of a job."""
        return self.folder / name

    def read(self, name: str) -> JobStatus | None:
        """Status of a job, None if it was never started or cannot be read."""
        try:
            return JobStatus.model_validate_json((self.place(name) / STATUS).read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, status: JobStatus) -> None:
        """Write a status; it is on disk when this returns. Raises InputError (a full disk)."""
        path = self.place(status.name) / STATUS
        writing.make_folder(path.parent)
        with writing.atomic(path) as temporary:
            temporary.write_text(status.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def result(self, name: str, file: str = RESULT) -> dict[str, Any] | None:
        """Result of a job as its child printed it, None if there is none or only a part."""
        try:
            found = json.loads((self.place(name) / file).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def used(self) -> list[JobStatus]:
        """Every status in the folder, also of jobs that are no longer in the file."""
        if not self.folder.is_dir():
            return []
        found = (self.read(entry.name) for entry in os.scandir(self.folder) if entry.is_dir())
        return [status for status in found if status is not None]

    def tidy(self, name: str) -> None:
        """Remove what lost workers and a stop left in the folder of a job."""
        for path in (*self.place(name).glob(f"{RESULT}.*"), self.place(name) / STOP):
            path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove all files of the batch in the folder, and nothing else."""
        for status in self.used():
            folder = self.place(status.name)
            self.tidy(status.name)
            for name in (STATUS, LOG, RESULT):
                (folder / name).unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()

    def standing(self, ready: Ready) -> tuple[JobStatus | None, str]:
        """Return the status of a job that still counts, or None, and why an earlier one does not.

        It counts if the job has the same options and inputs, and its output and result are there
        as they were written. A job that was running when the batch was killed is done if its child
        had ended, else interrupted.
        """
        name = ready.spec.name
        status = self.read(name)
        if status is None:
            broken = (self.place(name) / STATUS).exists()
            return None, f"its {STATUS} cannot be read" if broken else ""
        why = self._outdated(ready, status)
        if why:
            return None, why
        return (self._ended_unseen(ready, status) if status.phase == "running" else status), ""

    def _ended_unseen(self, ready: Ready, status: JobStatus) -> JobStatus:
        """The status of a job that was running when the batch was killed."""
        place = self.place(status.name)
        results = {path: self.result(status.name, path.name) for path in place.glob(f"{RESULT}*")}
        whole = [(path, found) for path, found in results.items() if found is not None]
        output = stamps({"output": ready.output}).get("output")
        if not whole or output is None or output[1] < status.started_ns:
            return status.model_copy(update={"phase": "interrupted"})
        path, found = whole[0]
        os.replace(path, place / RESULT)
        update = {name: found.get(name) for name in ("seconds", "peak_bytes")}
        update |= {"phase": "done", "exit_code": 0, "output": output}
        status = status.model_copy(update=update)
        self.write(status)
        return status

    def _outdated(self, ready: Ready, status: JobStatus) -> str:
        if status.key != key(ready.spec):
            return "its options in the jobs file are others now"
        if status.version != version():
            return "another version of mustlink did it"
        for role, found in stamps(ready.inputs).items():
            if status.inputs.get(role) != found:
                return f"its {role} changed"
        if status.phase == "done":
            if not ready.output.exists():
                return f"{ready.output} is gone"
            if stamps({"output": ready.output})["output"] != status.output:
                return f"{ready.output} is not as it was written"
            if not self.result(ready.spec.name):
                return f"its {RESULT} is gone"
        return ""
