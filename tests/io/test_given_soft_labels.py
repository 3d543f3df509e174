"""Soft labels in the shell: as the engine has them, from the files that priors come in."""

import json

import h5py
import numpy as np
import pytest

import mustlink as ml
from mustlink_io import formats

pytestmark = pytest.mark.usefixtures("few_runs")

N, K = 120, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Points in three groups that overlap, few labels, and shares of which some say nothing."""
    place, rng = tmp_path_factory.mktemp("soft"), np.random.default_rng(0)
    y = np.repeat(np.arange(K), N // K)
    X = (rng.normal(size=(N, 4)) + 2 * np.eye(4)[y]).astype("f4")
    np.save(place / "points.npy", X)
    few = np.where(np.arange(N) % 20 == 0, y, -1)
    np.save(place / "few.npy", few)
    (place / "words.csv").write_text(
        "\n".join(["class", *(("leaf", "root", "stem")[c] if c >= 0 else "?" for c in few)])
    )
    P = rng.dirichlet(np.ones(K), N) / 2 + np.eye(K)[y] / 2
    P[5] = np.nan
    u = rng.random(N)
    np.save(place / "chances.npy", P)
    np.save(place / "u.npy", u)
    turned = P[:, [2, 0, 1]]
    lines = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in turned]
    (place / "chances.csv").write_text("\n".join(["stem,leaf,root", *lines]))
    (place / "numbers.csv").write_text(
        "\n".join(["0,1,2", *(",".join(map(repr, map(float, row))) for row in np.nan_to_num(P))])
    )
    return place


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("files", "belief"),
    [
        ("--labels few.npy --soft-labels chances.npy", None),
        ("--labels few.npy --soft-labels chances.npy --belief 0.4", 0.4),
        ("--labels few.npy --soft-labels chances.npy --belief u.npy", "u"),
        ("--labels words.csv --soft-labels chances.csv", None),
        ("--labels few.npy --soft-labels numbers.csv", None),
    ],
)
def test_as_the_engine_has_them(told, folder, tmp_path, files, belief):
    code, said, err = told(
        f"cluster points.npy -k 3 --beta 0.3 {files} -o {tmp_path}/out.h5 --json"
    )
    assert code == 0, err
    assert "says nothing of 1 of 120 nodes" in err
    X, few, P = (np.load(folder / f"{name}.npy") for name in ("points", "few", "chances"))
    u = np.load(folder / "u.npy") if belief == "u" else belief
    est = ml.CSP(3, beta=0.3, random_state=0).fit(X, few, prior=P, belief=u)
    np.testing.assert_array_equal(formats.load_classes(f"{tmp_path}/out.h5", N).codes, est.labels_)
    found = json.loads(said)
    assert files in found["command"]
    assert found["satisfaction"]["balanced"] == pytest.approx(est.report_.satisfaction["balanced"])
    assert told(f"report {tmp_path}/out.h5 -o {tmp_path}/out.html")[0] == 0


@pytest.mark.thorough
def test_alone_and_weighed(told, tmp_path):
    """Without labels the columns are the classes; --beliefs labels=0 leaves them out."""
    for more in ("", "-m sssc", "-m fast-ge --membership", "--beliefs labels=0.5", "-k auto"):
        line = f"cluster points.npy -k 3 --soft-labels numbers.csv {more} -o {tmp_path}/o.h5"
        code, _, err = told(line + " --json --quiet")
        assert code == 0, err
        assert np.unique(formats.load_classes(f"{tmp_path}/o.h5", N).codes).size == 3
    code, said, err = told("plan points.npy -k 3 --soft-labels numbers.csv --json")
    assert code == 0, err
    assert json.loads(said)["method"] == "csp"


WRONG = {
    "method": ("-k 3 -m ncut --soft-labels chances.npy", "--soft-labels: -m ncut takes none"),
    "labels only": (
        "-k 3 -m csc-gfhf --labels few.npy --soft-labels chances.npy",
        "or mustlink propagate --prior",
    ),
    "belief": ("-k 3 --soft-labels chances.npy --belief 2", "it must lie between 0 and 1"),
    "nothing": ("-k 3 --labels few.npy --belief 1", "--belief: no soft labels"),
    "rows": ("-k 3 --soft-labels u.npy", "a row for each node, a column for each class"),
    "names": ("-k 3 --labels few.npy --soft-labels chances.csv", "is no class that the labels"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(told, tmp_path, name):
    line, words = WRONG[name]
    code, _, err = told(f"cluster points.npy {line} -o {tmp_path}/out.h5")
    assert code == 2
    assert words in err.strip().splitlines()[-1]


def test_in_a_batch(told, jobs_here, folder, tmp_path):
    (folder / "jobs.toml").write_text(
        '[defaults]\ndata = "points.npy"\nk = 3\nsoft-labels = "chances.npy"\n'
        f'output = "{tmp_path}/{{name}}.h5"\n[[job]]\nname = "a"\n[[job]]\nname = "b"\n'
        'method = "ncut"\n'
    )
    code, _, err = told("batch jobs.toml --quiet")
    assert code == 0, err
    for name, given in (("a", "soft labels"), ("b", None)):
        with h5py.File(tmp_path / f"{name}.h5") as file:
            asked = json.loads(file["report"][()])["constraints"]
        assert (asked and asked["kind"]) == given
