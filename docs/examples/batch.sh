#!/usr/bin/env bash
# What a server runs every night: clusters of every file that came in, within a memory budget.
#   docs/examples/batch.sh FOLDER
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder/in" && cd "$folder" && cp "$here/batch.toml" jobs.toml || exit 1

# Two files come in: halves of a set of digits, the class of every 20th one known.
python - <<'PYTHON' || exit
import h5py
from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
for number, day in enumerate(("monday", "tuesday")):
    with h5py.File(f"in/{day}.h5", "w") as file:
        file["points"], file["labels"] = X[number::2], y[number::2]
        file["known"] = [c if i % 20 == 0 else -1 for i, c in enumerate(y[number::2])]
PYTHON

mustlink batch jobs.toml --dry-run || exit              # the jobs, and what each will take
mustlink batch jobs.toml --memory 4GB --workers 2 --quiet --summary table.csv
code=$?                                                 # 0 all done, 1 some failed, 2 bad input
[ "$code" -eq 0 ] || { echo "batch ended with $code, see table.csv" >&2; exit "$code"; }

mustlink batch jobs.toml --resume --quiet --json > again.json || exit    # nothing is run twice

for method in ncut csp; do                              # figures for a machine
    mustlink score "out/night-monday-$method.h5" --truth in/monday.h5:/labels --json |
        python -c "import json, sys; print('$method', json.load(sys.stdin)['truth']['ari'])"
done | tee ari.txt
mustlink report out/night-monday-csp.h5 -o report.html --pictures pictures --json > report.json
