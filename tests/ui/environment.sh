#!/usr/bin/env bash
# An environment with the page's packages, Playwright and Debian's Chromium for `make test-ui`.
set -euo pipefail
venv=$1
python="$(command -v "${PYTHON:-python3.11}" || command -v python3)"
if ! command -v chromium >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "test-ui: not installed: chromium; as root: apt-get install --no-install-recommends chromium" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null
fi
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[ui]' playwright pytest
