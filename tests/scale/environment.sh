#!/usr/bin/env bash
# An environment with MPI and PETSc for `make test-scale`: Debian's packages, and mustlink beside them.
set -euo pipefail
venv=$1
needed="python3-venv python3-petsc4py python3-mpi4py openmpi-bin libopenblas0-serial"
missing=""
for package in $needed; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "test-scale: not installed:$missing; as root: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi
/usr/bin/python3 -m venv --system-site-packages "$venv"
# Debian's petsc4py is built for NumPy 1, and not on the path of any Python.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e . 'numpy<2' pytest pytest-xdist hypothesis mpmath
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
ls -d /usr/lib/petscdir/petsc*/*-real/lib/python3/dist-packages | tail -1 > "$site/petsc.pth"
"$venv/bin/python" -c 'import petsc4py; petsc4py.init([]); from petsc4py import PETSc'
