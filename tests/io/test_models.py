"""A fitted estimator in a file is the same in another process; what is no such file is one line."""

import os
import subprocess
import sys
import tracemalloc
import zlib

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from cases import planted_graph
from mustlink.core.state import chosen
from mustlink.errors import InputError
from mustlink.preprocessing.fitted import Fitted
from mustlink_io import formats
from mustlink_io.commands import cli
from mustlink_io.hdf5 import store

KINDS = [
    n for n in ml.__all__ if isinstance(getattr(ml, n), type) and hasattr(getattr(ml, n), "fit")
]
KINDS = sorted(set(KINDS) - {"StrokeCut", "RegionCut", "GLP", "DISIM"})


def blobs(seed=0, n=150, copies=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    X = (rng.normal(size=(n, 4)) + 4 * np.eye(4)[truth]).astype(np.float32)
    X[n - copies :] = X[:copies]
    return X, truth


def known(truth, seed):
    return np.where(np.random.default_rng(seed).random(truth.size) < 0.2, truth, -1)


def fitted(name, X, y, **options):
    kind = getattr(ml, name)
    given = {"n_clusters": 3} if "n_clusters" in kind._get_param_names() else {}
    est = kind(random_state=0, **given, **options)
    try:
        return est.fit(X, y)
    except TypeError:  # an embedding
        return est.fit(X)


def same(a, b):
    return np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b)


def answers(est):
    """What the fit set; to ask how sure it is would fit to parts of what is known."""
    return {name: getattr(est, name) for name in vars(est) if name.endswith("_") and name[0] != "_"
            and isinstance(getattr(est, name), np.ndarray)}  # fmt: skip


OTHER_PROCESS = """
import sys, numpy as np, mustlink as ml, warnings
warnings.simplefilter("ignore")
names, folder = sys.argv[2:], sys.argv[1]
new, then = np.load(f"{folder}/new.npy"), np.load(f"{folder}/then.npy")
for name in names:
    est, found = ml.load(f"{folder}/{name}.h5"), {}
    if hasattr(est, "predict"):
        found["predicted"] = est.predict(new)
    if hasattr(est, "transform"):
        found["transformed"] = est.transform(new)
    if hasattr(est, "refit"):
        est.refit(then)
        found |= {n: getattr(est, n) for n in ("labels_", "embedding_", "label_distributions_")
                  if hasattr(est, n)}
    np.savez(f"{folder}/{name}.npz", **found)
"""


@pytest.mark.thorough
def test_another_process_predicts_and_refits_alike(tmp_path):
    X, truth = blobs()
    new, then = blobs(5)[0][:20] + 0.3, known(truth, 1)
    np.save(tmp_path / "new.npy", new)
    np.save(tmp_path / "then.npy", then)
    here = {}
    for name in KINDS:
        est = here[name] = fitted(name, X, known(truth, 0))
        est.save(tmp_path / f"{name}.h5")
        back = ml.load(tmp_path / f"{name}.h5")
        assert type(back) is type(est)
        assert back.get_params() == est.get_params()
        for attribute, value in answers(est).items():
            assert same(value, getattr(back, attribute)), (name, attribute)
        assert repr(back.report_) == repr(est.report_)
        assert back.report_.to_dict() == est.report_.to_dict()
    argv = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), *KINDS]
    subprocess.run(argv, check=True, timeout=300)
    for name, est in here.items():
        there = np.load(tmp_path / f"{name}.npz")
        if hasattr(est, "predict"):
            assert same(est.predict(new), there["predicted"]), name
        if hasattr(est, "transform"):
            assert same(est.transform(new), there["transformed"]), name
        if hasattr(est, "refit"):
            est.refit(then)
            for attribute in ("labels_", "embedding_", "label_distributions_"):
                if hasattr(est, attribute):
                    assert same(getattr(est, attribute), there[attribute]), (name, attribute)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["CSP", "NCut", "SSSC", "Poisson", "SRCP"])
def test_graphs_too_large_for_lapack(tmp_path, name):
    X, truth = blobs(n=1500, copies=40)
    est = fitted(name, X, known(truth, 0))
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    assert est.graph_.rows is not None
    stages = []
    for one in (est, back):
        one.refit(known(truth, 3))
        stages.append([s.name for s in one.report_.stages])
    assert same(est.labels_, back.labels_)
    assert "eigenvectors" not in stages[1] or name == "SRCP"
    assert same(est.predict(X[:9]), back.predict(X[:9]))


@pytest.mark.thorough
def test_chances_of_answers_are_kept(tmp_path):
    W, y = planted_graph(np.random.default_rng(0), 160, 3)
    est = ml.LLGC(affinity="precomputed", random_state=0).fit(W, known(y, 0))
    est.calibrate()
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    assert back._calibrated[1] == est.calibration_
    assert est.calibration_.n_labels > 0
    assert same(back.membership_, est.membership_)


@pytest.mark.thorough
def test_networks_weights_names_and_pairs(tmp_path):
    W, y = planted_graph(np.random.default_rng(0), 160, 3)
    pairs = ml.Constraints.from_pairs([[0, 1], [2, 9]], [1.0, -0.5], n_nodes=160)
    soft = ml.Constraints.from_soft_labels(np.eye(3)[y] * 0.7 + 0.1, known(y, 0) >= 0)
    est = ml.CSP(3, affinity="precomputed", random_state=0)
    est.fit(W, constraints=pairs + soft, sample_weight=np.arange(160) % 3)
    est.name_clusters({1: "one", 0: "höhle"}).calibrate()
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    assert back.cluster_names_ == {0: "höhle", 1: "one"}
    assert back.calibration_ == est.calibration_
    assert same(back.constraints_.to_dense(), est.constraints_.to_dense())
    back.set_params(n_clusters=4).refit(constraints=pairs)
    est.set_params(n_clusters=4).refit(constraints=pairs)
    assert same(back.labels_, est.labels_)
    assert back.cluster_names_ == est.cluster_names_
    back.save(tmp_path / "m.h5")  # in its place
    assert same(ml.load(tmp_path / "m.h5").labels_, est.labels_)
    with pytest.raises(InputError, match="they have no place"):
        back.predict(np.zeros((1, 2)))


def test_directed_graphs(tmp_path):
    A = (np.random.default_rng(0).random((90, 90)) < 0.2) * 1.0
    est = ml.DISIM(3, random_state=0).fit(A)
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    for name in ("labels_", "sending_labels_", "receiving_labels_", "embedding_"):
        assert same(getattr(est, name), getattr(back, name))
    assert same(back.refit().labels_, est.refit().labels_)


@pytest.mark.parametrize("dtype", [object, "U5"])
def test_classes_with_names(tmp_path, dtype):
    X, truth = blobs()
    words = np.array(["a", "bb", "ccccc", ""], dtype=dtype)
    est = ml.LLGC(random_state=0).fit(X, words[known(truth, 0)])
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    for name, value in answers(est).items():
        assert same(value, getattr(back, name)), name
    with store.open_h5(tmp_path / "m.h5") as file:
        assert [store.text(x) for x in file["class_names"][()]] == ["a", "bb", "ccccc"]
        assert same(words[file["labels"][()]], est.labels_)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", ["<U2000000", "|S80000000"])
def test_the_width_of_names_is_that_of_the_names(tmp_path, kind):
    X, truth = blobs()
    y = np.array(["a", "bb", "c"], dtype="U9")[truth]
    est = ml.Poisson(random_state=0).fit(X, np.where(known(truth, 0) >= 0, y, ""))
    est.save(tmp_path / "m.h5")
    path = tmp_path / "m.h5"
    for name in ("labels_", "given_labels_", "classes_"):
        new = text(b'"<U9"', f'"{kind}"'.encode())
        path = altered(path, f"model/state/{name}/1/value", new)
    tracemalloc.start()
    back = ml.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    assert same(back.labels_.astype("U9"), est.labels_)


@pytest.mark.thorough
def test_long_names_are_not_copied_for_every_row(tmp_path):
    X, truth = blobs()
    y = np.array(["a", "b" * 10**5, "c"], dtype=object)[truth]
    est = ml.Poisson(random_state=0).fit(X, np.where(known(truth, 0) >= 0, y, ""))
    est.save(tmp_path / "m.h5")
    path = tmp_path / "m.h5"
    for name in ("labels_", "given_labels_", "classes_"):
        path = altered(path, f"model/state/{name}/1/value", text(b'"|O"', b'"<U200000"'))
    tracemalloc.start()
    back = ml.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    assert same(back.labels_, est.labels_)


def test_affinity_of_pairs_after_loading(tmp_path):
    X, truth = blobs()
    est = fitted("SRCP", X, known(truth, 0))
    est.save(tmp_path / "m.h5")
    back = ml.load(tmp_path / "m.h5")
    assert (est.affinity_matrix_ != back.affinity_matrix_).nnz == 0
    assert est.propagated_constraints_[0, 1] == back.propagated_constraints_[0, 1]


@pytest.mark.thorough
def test_without_data_it_has_to_be_given(tmp_path):
    X, truth = blobs()
    est = fitted("CSP", X, known(truth, 0))
    est.save(tmp_path / "all.h5")
    est.save(tmp_path / "m.h5", data=False)
    assert (tmp_path / "m.h5").stat().st_size < (tmp_path / "all.h5").stat().st_size
    with pytest.raises(InputError, match="graph is not in the file"):
        ml.load(tmp_path / "m.h5")
    W, y = planted_graph(np.random.default_rng(0), 80, 3)
    net = ml.CSP(3, affinity="precomputed", random_state=0).fit(W, known(y, 0))
    net.save(tmp_path / "net.h5", data=False)
    for given in (W, ml.Graph.from_affinity(W)):
        back = ml.load(tmp_path / "net.h5", data=given)
        assert same(back.refit(known(y, 1)).labels_, net.refit(known(y, 1)).labels_)
    with pytest.raises(InputError, match="another graph"):
        ml.load(tmp_path / "net.h5", data=sp.csr_matrix(W * 2.0))


# ---------------------------------------------------------------- the shell


@pytest.mark.thorough
def test_the_shell_and_python_take_each_others_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, truth = blobs()
    X[7, 2] = np.nan
    names = ",".join("abcd")
    np.savetxt("x.csv", X, delimiter=",", header=names, comments="")
    np.savetxt("y.csv", known(truth, 0), fmt="%d")
    more = ["--labels", "y.csv", "--drop-missing", "--standardize", "-o", "out.h5"]
    assert cli.run(["cluster", "x.csv", "-k", "3", *more]) == 0
    est = ml.load("out.h5")
    with store.open_h5("out.h5") as file:
        assert file["labels"][7] == -1
        assert same(np.delete(file["labels"][()], 7), est.labels_)
    est.refit(constraints=est.constraints_)
    raw = np.delete(X, 7, axis=0)  # as in x.csv: prepared as in the fit
    assert same(est.predict(raw), est.labels_)
    assert not same(np.asarray(chosen(est)._points), raw)
    est.save("again.h5")
    back = ml.load("again.h5")
    assert same(back.predict(raw), est.labels_)
    twice = back.add(raw[:5]).graph_
    assert (twice.n_rows, twice.n_nodes) == (len(raw) + 5, est.graph_.n_nodes)  # none is new
    assert same(back.fit(raw).predict(raw), back.labels_)  # of these points as they are
    assert cli.run(["info", "again.h5"]) == 0
    assert "/model" in capsys.readouterr().out
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"x\.csv, which has changed since; give them"):
        ml.load("again.h5").predict(X[:1])
    assert same(ml.load("again.h5", data=raw).predict(raw), est.labels_)
    with pytest.raises(InputError, match="data of shape"):
        ml.load("again.h5", data=raw[1:])
    (tmp_path / "x.csv").unlink()
    with pytest.raises(InputError, match="is not there"):
        ml.load("out.h5").predict(X[:1])
    np.savetxt("x.csv", X, delimiter=",", header=names, comments="")
    assert cli.run(["cluster", "x.csv", "-k", "3", *more, "--no-model"]) == 0
    with pytest.raises(InputError, match="has no model"):
        ml.load("out.h5")
    assert cli.run(["propagate", "x.csv", *more]) == 0
    back = ml.load("out.h5")
    assert same(back.refit(back.given_labels_).labels_, ml.load("out.h5").labels_)


@pytest.mark.thorough
def test_given_points_are_those_of_the_file_the_shell_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = blobs()
    np.save("x.npy", X)
    assert cli.run(["cluster", "x.npy", "-k", "3", "-m", "ncut", "-o", "out.h5"]) == 0
    for wrong in (X[::-1], X + 3):
        with pytest.raises(InputError, match="data are other points than those that were fit"):
            ml.load("out.h5", data=wrong)
    assert same(ml.load("out.h5", data=X).predict(X), ml.load("out.h5").predict(X))
    (tmp_path / "x.npy").unlink()
    assert same(ml.load("out.h5", data=X).predict(X), ml.load("out.h5").labels_)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("what", ["/dev/zero", "pipe", "folder"])
def test_points_in_what_is_no_file_are_refused_at_once(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", blobs()[0])
    assert cli.run(["cluster", "x.npy", "-k", "3", "-m", "ncut", "-o", "out.h5"]) == 0
    os.mkfifo("pipe")
    (tmp_path / "folder").mkdir()

    def read(*_):
        raise AssertionError("it was read")

    monkeypatch.setattr(formats, "sha256", read)
    new = text(b"x.npy", what.encode())
    path = altered(tmp_path / "out.h5", "model/points/value", new)
    with pytest.raises(InputError, match=f"those of {what}, which is no regular file"):
        ml.load(path)


@pytest.mark.thorough
def test_columns_that_were_dropped_may_be_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, truth = blobs()
    with open("x.csv", "w") as file:
        file.write("a,id,b,c,d\n")
        file.writelines(f"{a},r{i},{b},{c},{d}\n" for i, (a, b, c, d) in enumerate(X * 9))
    np.savetxt("y.csv", known(truth, 0), fmt="%d")
    steps = ["--drop", "id", "--standardize", "--quiet"]
    assert cli.run(["propagate", "x.csv", "--labels", "y.csv", *steps, "-o", "out.h5"]) == 0
    est = ml.load("out.h5")
    assert same(est.predict(X * 9), est.labels_)
    assert same(est.predict(np.insert(X * 9, 1, np.nan, axis=1)), est.labels_)
    with pytest.raises(InputError, match="wanted are 5 columns, or 4 without those"):
        est.predict(X[:, :3])


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["cluster", "propagate"])
def test_names_of_classes_come_along(tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    X, truth = blobs()
    names = np.array(["cats", "ants", "bees", "-1"])  # not in their order
    given = names[known(truth, 0)]
    np.savetxt("x.csv", X, delimiter=",", header="a,b,c,d", comments="")
    (tmp_path / "y.csv").write_text("\n".join(["label", *given]) + "\n")
    more = ["-k", "3"] if verb == "cluster" else ["--membership"]
    assert cli.run([verb, "x.csv", "--labels", "y.csv", *more, "-o", "out.h5", "--quiet"]) == 0
    est = ml.load("out.h5")
    with store.open_h5("out.h5") as file:
        numbers, texts = file["labels"][()], np.array(store.texts(file, "/class_names"))
    if verb == "cluster":
        assert same(est.labels_, numbers)
        assert est.cluster_names_ == dict(enumerate(texts))
        called = texts[est.labels_]
    else:
        assert list(est.classes_) == sorted(names[:3])
        assert np.array_equal(est.labels_, texts[numbers])
        assert (est.given_labels_ == np.where(given == "-1", "", given)).all()
        assert chosen(est)._calibrated[0] is est.labels_
        called = est.refit(np.where(given == "-1", "", given)).labels_
    assert np.mean(called == names[truth]) > 0.9
    est.save("again.h5")
    with store.open_h5("again.h5") as file:
        assert list(store.texts(file, "/class_names")) == texts.tolist()
        assert same(file["labels"][()], numbers)


@pytest.mark.thorough
def test_a_preparation_that_cannot_be_is_damage(tmp_path):
    X, truth = blobs()
    est = fitted("CSP", X, known(truth, 0))
    empty, d = np.empty(0), 4
    wrong = [
        Fitted(0, empty, (), empty, empty),
        Fitted(d, np.zeros(3), (), empty, empty),
        Fitted(d, empty, ((5, np.zeros(2)),), empty, empty),
        Fitted(d, empty, (), np.zeros(4), np.zeros(4)),
        Fitted(d, empty, (), np.zeros(4), empty),
        Fitted(d, empty, (), empty, empty, dropped=np.array([-1])),
    ]
    for one in wrong:
        est.prepared_by(one).save(tmp_path / "m.h5")
        with pytest.raises(InputError, match="damaged: _preparation"):
            ml.load(tmp_path / "m.h5")


@pytest.mark.thorough
def test_a_graph_that_cannot_be_is_damage(tmp_path):
    X, truth = blobs()
    fitted("CSP", X, known(truth, 0)).save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        values = next(
            one for one in _datasets(file["model/graph"])
            if one.dtype.kind == "f" and one.size > len(X)
        )  # fmt: skip
        values[3] += 1.0
    with pytest.raises(InputError, match="damaged: its graph"):
        ml.load(tmp_path / "m.h5")


def _datasets(group):
    found = []
    group.visititems(lambda _, one: found.append(one) if isinstance(one, h5py.Dataset) else None)
    return found


def test_answers_are_in_the_file_once(tmp_path):
    X, truth = blobs(n=600)
    est = fitted("CSP", X, known(truth, 0))
    est.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5") as file:
        assert file["model/state/labels_"].id.get_offset() == file["labels"].id.get_offset()
        assert file["model/state/embedding_"] == file["embedding"]


# ---------------------------------------------------------------- what cannot be


def test_what_cannot_be_saved(tmp_path):
    X, _ = blobs()
    with pytest.raises(Exception, match="not fitted"):
        ml.CSP(3).save(tmp_path / "m.h5")
    est = ml.NCut(3, random_state=np.random.RandomState(0)).fit(X)
    with pytest.raises(InputError, match="random_state is a RandomState"):
        est.save(tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()
    est.set_params(random_state=0)
    with pytest.raises(InputError, match="cannot be written"):
        est.save(tmp_path / "nowhere" / "m.h5")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X, truth = blobs(n=1300, copies=10)
    for name in ("CSP", "NCut", "LLGC", "E2CP"):
        n = 300 if name == "E2CP" else 1300
        est = fitted(name, X[:n], known(truth, 0)[:n])
        if name == "NCut":
            assert len(est.hierarchy_) > 3
        est.save(folder / f"{name}.h5")
    return folder


def altered(path, name, change):
    """One value of the model changed, in a copy."""
    new = path.with_suffix(".x.h5")
    new.write_bytes(path.read_bytes())
    with h5py.File(new, "r+") as file:
        data = file[name]
        if isinstance(data, h5py.Group):
            change(data)
            return new
        values = data[()]
        found = change(values)
        parent = data.parent
        del file[name]
        parent.file[name] = values if found is None else found
    return new


def put(at, value):
    def change(values):
        values[at] = value

    return change  # fmt: skip


def text(old, new):
    return lambda values: np.frombuffer(bytes(values).replace(old, new), dtype=np.uint8)


WRONG = {
    "edges out of range": ("CSP", "model/graph/affinity/indices", put(3, 10**6)),
    "a negative edge": ("CSP", "model/graph/affinity/indices", put(3, -5)),
    "not symmetric": ("CSP", "model/graph/affinity/data", put(3, 5.0)),
    "not finite": ("CSP", "model/graph/affinity/data", put(3, np.nan)),
    "fewer edges than weights": ("LLGC", "model/graph/affinity/indices", lambda v: v[:-1]),
    "rows of fractions": ("LLGC", "model/graph/affinity/indptr", lambda v: v.astype("f4")),
    "rows that fall": ("CSP", "model/graph/affinity/indptr", put(3, 10**6)),
    "rows of nobody": ("CSP", "model/graph/rows", put(3, 5000)),
    "weights below 0": ("CSP", "model/graph/weights", put(3, -1.0)),
    "an order that repeats": ("CSP", "model/derived/0/order", put(3, 0)),
    "a short order": ("CSP", "model/derived/0/order", lambda v: v[:-1]),
    "a basis of others": ("CSP", "model/derived/1/whole", lambda v: v[:-1]),
    "a basis with NaN": ("CSP", "model/derived/1/whole", put((0, 0), np.nan)),
    "vectors of others": ("NCut", "model/derived/1/pairs/vectors", lambda v: v[:, :1]),
    "a label of nobody": ("CSP", "model/state/labels_", put(0, 2**40)),
    "few labels": ("CSP", "model/state/labels_", lambda v: v[:-1]),
    "labels of text": ("CSP", "model/state/labels_", lambda v: v.astype("S3")),
    "an embedding with NaN": ("CSP", "model/state/embedding_", put((0, 0), np.inf)),
    "points of fewer": ("CSP", "model/points", lambda v: v[:-1]),
    "points with NaN": ("CSP", "model/points", put((0, 0), np.nan)),
    "distributions of others": ("LLGC", "model/state/label_distributions_", lambda v: v[:, :1]),
    "scores of nobody": ("LLGC", "model/state/_scores/1", put(0, 10**6)),
    "labels below -1": ("CSP", "model/state/_given/statements/labels", put(0, -7)),
    "another class": ("CSP", "model/class/value", text(b"CSP", b"Graph")),
    "a class of nobody": ("CSP", "model/class/value", text(b"CSP", b"__doc__")),
    "a version to come": ("CSP", "model/version/value", text(b"1", b"9")),
    "no JSON": ("CSP", "model/parameters/value", lambda v: v[:-3]),
    "other parameters": ("CSP", "model/parameters/value", text(b"n_jobs", b"n_jots")),
    "a record of others": ("CSP", "model/state/_choice/value", text(b"SelectedModel", b"Popen")),
    "another type in a record": ("CSP", "model/state/_choice/value", text(b'"sphere"', b"7777")),
    "a seed of text": ("CSP", "model/state/_used_seed/value", lambda _: np.full(2, 34, "u1")),
    "deep JSON": ("CSP", "model/parameters/value", lambda _: np.full(10**5, 91, "u1")),
    "a tree of nobody": ("NCut", "model/state/_hierarchy/0", put((0, 0), 10**6)),
    "leaves of nobody": ("NCut", "model/state/_hierarchy/1", put(0, 10**4)),
    "edges of nobody": ("E2CP", "model/state/_moved/new/first", put(0, 10**7)),
    "sources of nobody": ("E2CP", "model/state/_sources/0/B/indices", put(0, 10**7)),
}  # fmt: skip


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("what", WRONG)
def test_wrong_values_are_one_line(models, what):
    name, place, change = WRONG[what]
    path = altered(models / f"{name}.h5", place, change)
    with pytest.raises(InputError) as caught:
        ml.load(path)
    assert str(caught.value).isprintable()
    assert str(path) in str(caught.value)


@pytest.mark.thorough
def test_groups_in_each_other_and_links_elsewhere(models):
    def into_itself(group):
        del group["0"]
        group["0"] = group

    def outside(group):
        del group["0"]
        group["0"] = h5py.ExternalLink("/etc/passwd", "/")

    def soft(group):
        del group["0"]
        group["0"] = h5py.SoftLink("/labels")

    for change in (into_itself, outside, soft):
        path = altered(models / "CSP.h5", "model/derived", change)
        with pytest.raises(InputError):
            ml.load(path)

    def points_outside(group):
        del group["points"]
        group["points"] = h5py.ExternalLink(str(models / "NCut.h5"), "/model/points")

    def points_of_lies(group):
        shape = group["points"].shape
        del group["points"]
        lies = group.file.create_dataset("lies", shape, "f4", chunks=shape, compression="gzip")
        lies.id.write_direct_chunk((0, 0), zlib.compress(b"1" * 100))
        group["points"] = h5py.SoftLink("/lies")

    for change in (points_outside, points_of_lies):  # directly below the model
        path = altered(models / "CSP.h5", "model", change)
        with pytest.raises(InputError, match="model: has a link to elsewhere"):
            ml.load(path)
    path = altered(models / "CSP.h5", "model", lambda group: group.__delitem__("graph"))
    with pytest.raises(InputError, match="damaged"):
        ml.load(path)


def test_files_without_a_model(tmp_path):
    (tmp_path / "a.h5").write_text("nothing")
    with pytest.raises(InputError, match="not an HDF5 file"):
        ml.load(tmp_path / "a.h5")
    with pytest.raises(InputError, match="no such file"):
        ml.load(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["model"] = np.zeros(3)
    with pytest.raises(InputError, match="a dataset, where a group is wanted"):
        ml.load(tmp_path / "c.h5")


@pytest.mark.thorough
def test_random_damage_is_one_line_or_harmless(models):
    rng = np.random.default_rng(0)
    whole = (models / "E2CP.h5").read_bytes()
    path = models / "damaged.h5"
    for _ in range(25):
        raw = bytearray(whole)
        for at in rng.integers(0, len(raw), 4):
            raw[at] ^= 1 << rng.integers(8)
        path.write_bytes(raw)
        try:
            found = ml.load(path).labels_.size
        except InputError as error:
            found = str(error).isprintable() * 300
        assert found == 300


# ---------------------------------------------------------------- hierarchies


@pytest.mark.thorough
def test_a_hierarchy_is_written_and_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, truth = blobs(n=300)
    X[5, 1] = np.nan
    np.savetxt("x.csv", X, delimiter=",", header="a,b,c,d", comments="")
    np.savetxt("y.csv", known(truth, 0), fmt="%d")
    argv = ["cluster", "x.csv", "-k", "3", "--labels", "y.csv", "--drop-missing", "--hierarchy"]
    assert cli.run([*argv, "-o", "out.h5"]) == 0
    with store.open_h5("out.h5") as file:
        parts, leaves = (file[f"hierarchy/{name}"][()] for name in ("clusters", "leaves"))
        labels = file["labels"][()]
    assert np.array_equal(np.append(parts, -1)[leaves], labels)
    assert labels[5] == -1
    est = ml.load("out.h5")
    assert len(est.hierarchy_) == parts.size - 1
    assert np.unique(est.cut_hierarchy(2)).size == 2
    assert cli.run(["report", "out.h5", "-o", "out.html", "--pictures", "pictures"]) == 0
    assert (tmp_path / "pictures" / "hierarchy.png").stat().st_size > 5000
    assert "Tree of" in (tmp_path / "out.html").read_text()
    est.refit(constraints=est.constraints_)
    est.save("again.h5")  # not of these clusters
    with store.open_h5("again.h5") as file:
        assert "hierarchy" not in file
    for place, change in (
        ("hierarchy/linkage", put((0, 0), 10**6)),
        ("hierarchy/linkage", put((0, 2), np.nan)),
        ("hierarchy/clusters", put(0, 10**12)),
        ("hierarchy/clusters", lambda values: values[:-1]),
    ):
        path = altered(tmp_path / "out.h5", place, change)
        assert cli.run(["report", str(path), "-o", "x.html"]) == 2


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", [ml.NCut, ml.CSP, ml.SRCP])
def test_one_cluster_of_all_is_a_model_as_well(method, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    est = method(1, random_state=0).fit(X)
    est.save(tmp_path / "one.h5")
    assert np.array_equal(ml.load(tmp_path / "one.h5").labels_, np.zeros(60))
