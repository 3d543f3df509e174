"""What clusters are, in the words of the data: `python docs/examples/clusters.py --out FOLDER`."""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine


def table(path, data, names, rows=None):
    """Rows with a name each, as a CSV file."""
    called = [f"{path.stem} {at}" for at in range(len(data))] if rows is None else rows
    cells = [["" if np.isnan(one) else one for one in row] for row in np.round(data, 4)]
    write(path, [["name", *names], *([one, *row] for one, row in zip(called, cells, strict=True))])


def write(path, rows):
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def mustlink(*words):
    """The shell's command, and what it prints."""
    line = [sys.executable, "-m", "mustlink_io", *map(str, words)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def profiles(data, k, *options):
    """Clusters of a file, as `mustlink report --json` describes them."""
    out = data.with_suffix(".h5")
    mustlink("cluster", data, "-k", k, "-m", "ncut", "--stability", "-o", out, *options)
    return json.loads(mustlink("report", out, "--json"))


def amount(column, where):
    """A mean, or a share in per cent."""
    mean = column[where]
    return f"{100 * mean:.0f} %" if column["is_share"] else f"{mean:.4g}"


def told(facts):
    """A line a cluster: size, stability, and what sets it apart."""
    for row, one in zip(facts["clusters"], facts["about"]["groups"], strict=True):
        means = [f"{c['column']} {amount(c, 'here')} ({amount(c, 'rest')})" for c in one["columns"]]
        parts = means[:3]
        parts += [", ".join(one["words"][:6])] if one["words"] else []
        hubs = [hub["name"] for hub in one["hubs"][:4]]
        parts += [", ".join(hubs)] if hubs else []
        found = facts["stability"]["clusters"][row["name"]]
        yield f"{row['name']}: {row['size']:4d}, {found:.2f} found again: {'; '.join(parts)}"


def network(path):
    """Who meets whom in Les Misérables, by names, as a list of edges."""
    from networkx import les_miserables_graph

    edges = les_miserables_graph().edges(data="weight")
    path.write_text("".join(f"{a}\t{b}\t{w}\n" for a, b, w in edges), encoding="utf-8")


def of_folder(folder, out):
    """Two tables of the UCI repository, and the words of the mails of 20 Newsgroups."""
    zoo, skin = np.load(folder / "uci/zoo.npz"), np.load(folder / "uci/dermatology.npz")
    table(out / "zoo.csv", zoo["X"], zoo["feature_names"], zoo["row_names"])
    table(out / "dermatology.csv", skin["X"], skin["feature_names"])
    mails = np.load(folder / "text/20news_bydate.npz")
    words, ends = np.repeat(mails["vocab"][mails["indices"]], mails["count_data"]), mails["indptr"]
    ends = np.concatenate([[0], np.cumsum(mails["count_data"])])[ends]
    bodies = [" ".join(words[a:b]) for a, b in pairwise(ends)]
    write(out / "mails.csv", [["name", "body"], *enumerate(bodies)])
    return {
        "zoo": profiles(out / "zoo.csv", 7, "--standardize"),
        "dermatology": profiles(out / "dermatology.csv", 6, "--standardize", "--impute"),
        "mails": profiles(out / "mails.csv", 20, "--text", "body"),
    }


def main(out, folder=None):
    """Facts of every set, by name."""
    wine, cancer, digits = load_wine(), load_breast_cancer(), load_digits()
    table(out / "wine.csv", wine.data, wine.feature_names)
    table(out / "cancer.csv", cancer.data, cancer.feature_names)
    np.save(out / "digits.npy", digits.data)
    np.save(out / "images.npy", digits.images)
    network(out / "names.tsv")
    found = {
        "wine": profiles(out / "wine.csv", 3, "--standardize"),
        "cancer": profiles(out / "cancer.csv", 2, "--standardize"),
        "digits": profiles(out / "digits.npy", 10),
        "names": profiles(out / "names.tsv", 6),
    }
    mustlink("report", out / "digits.h5", "--show", out / "images.npy")
    return found | ({} if folder is None else of_folder(folder, out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=None, help="folder for files; default: a new one")
    parser.add_argument(
        "--data", type=Path, help="folder with uci/zoo.npz and others; see the code"
    )
    given = parser.parse_args()
    folder = Path(given.out or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for name, facts in main(folder, given.data).items():
        print(f"{name} (stability {facts['stability']['mean']:.2f})", *told(facts), sep="\n  ")
    print(f"pages and files: {folder}")
