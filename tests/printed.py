"""What a command of the shell prints, run in this process."""

import json

from mustlink_io.commands import cli


def run(capsys, *words):
    """The code, what is printed as JSON, and what is told."""
    try:
        code = cli.run([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    return code or 0, json.loads(out) if out.startswith("{") else out, err
