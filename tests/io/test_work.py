"""Results of stages kept in a work folder: a run that goes on gives what a whole one does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cases import blobs
from mustlink.context.stage_cache import StageCache, digest, in_c_order
from mustlink.core.observe import NEVER, Deadline, Recorder, Unheard
from mustlink.neighbors.disk_knn import cached_rows
from mustlink_io.commands.cli import run as cli
from mustlink_io.hdf5 import model_tree, work_folder
from mustlink_io.jobs import run as running
from results import labels_of

pytestmark = pytest.mark.usefixtures("few_runs", "none_held_out")


@dataclass(frozen=True)
class Leaf:
    numbers: np.ndarray
    text: str


class Pair(NamedTuple):
    first: object
    second: object


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
)
arrays = hnp.arrays(
    st.sampled_from(["f8", "f4", "i8", "i4", "u1", "?"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
tree = st.recursive(
    scalars | arrays | st.builds(Leaf, arrays, st.text("ab")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=8,
)


def written(value, tmp_path, types=(Leaf, Pair)):
    with h5py.File(tmp_path / "tree.h5", "w") as file:
        model_tree.write_tree(file, "value", value)
    with h5py.File(tmp_path / "tree.h5") as file:
        return model_tree.read_tree(file, "value", {one.__name__: one for one in types})


@given(tree)
def test_what_is_written_is_read_back(tmp_path_factory, value):
    back = written(value, tmp_path_factory.mktemp("t"))
    assert digest(back) == digest(value)
    assert type(back) is type(value) or np.isscalar(value) or np.asarray(value).ndim == 0


nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner)
)


@pytest.mark.thorough
@given(nested, nested)
def test_digests_tell_trees_apart(a, b):
    def flat(value):
        return json.dumps(value, sort_keys=True)

    assert (digest(a) == digest(b)) == (flat(a) == flat(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("ab", "c"), ("a", "bc")),
        ((1, (2, 3)), ((1, 2), 3)),
        (1, 1.0),
        (1, True),
        ([1], (np.array([1]),)),
        (np.zeros(2, np.float32), np.zeros(1, np.float64)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (None, "None"),
    ],
)
def test_digests_of_look_alikes_differ(a, b):
    assert digest(a) != digest(b)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrices_keep_their_types(tmp_path, dtype, index):
    W = sp.random(20, 30, 0.2, format="csr", dtype=dtype, random_state=0)
    W.indices, W.indptr = W.indices.astype(index), W.indptr.astype(index)
    back = written(W, tmp_path)
    assert back.indices.dtype == index
    assert back.indptr.dtype == index
    assert back.dtype == dtype
    assert (back != W).nnz == 0
    assert digest(back) == digest(W)


def test_unknown_types_are_refused(tmp_path):
    with pytest.raises(TypeError):
        written({1, 2}, tmp_path)
    with pytest.raises(TypeError):
        digest({1, 2})
    with pytest.raises(LookupError):
        written(Leaf(np.zeros(2), "a"), tmp_path, types=())


def test_arrays_are_put_in_c_order():
    F = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = in_c_order((Leaf(F, "a"), Pair(F, 1), [F]))
    assert found[0].numbers.flags.c_contiguous
    assert found[1].first.flags.c_contiguous
    assert found[2][0].flags.c_contiguous
    kept = Leaf(np.arange(3.0), "a")
    assert in_c_order(kept) is kept


def test_a_kept_result_is_not_computed_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        recorder.note("remarkable")
        return np.arange(3.0), "x"

    for _ in range(2):
        recorder = Recorder()
        cache = StageCache(recorder, work_folder.WorkFolder(tmp_path / "w", "data"))
        name = cache.name_of("stage", "origin", 1, None)
        value = cache.cached("stage", name, compute)
        assert value[0].tolist() == [0, 1, 2]
        assert recorder.notes == ["remarkable"]
        cache.settle()
    assert len(calls) == 1
    cache.cached("stage", cache.name_of("stage", "origin", 2, None), compute)
    cache.cached("stage", cache.name_of("stage", None, 1, None), compute)
    assert len(calls) == 3


def test_what_has_no_digest_is_not_kept(tmp_path):
    cache = StageCache(Recorder(), work_folder.WorkFolder(tmp_path / "w", "data"))
    assert cache.name_of("stage", "origin", object()) is None
    assert cache.cached("stage", None, lambda: 3) == 3
    assert not (tmp_path / "w").exists()


def test_what_cannot_be_kept_is_told_and_does_no_harm(tmp_path):
    (tmp_path / "w").write_text("a file where the folder should be")
    keeper = work_folder.WorkFolder(tmp_path / "w", "data")
    cache = StageCache(Recorder(), keeper)
    assert cache.cached("stage", cache.name_of("stage", "origin"), lambda: 3) == 3
    keeper.settle()
    assert "not stored" in keeper.troubles[0]


def test_what_is_being_written_is_recalled_whole(tmp_path):
    keeper = work_folder.WorkFolder(tmp_path / "w", "data")
    for size in (1, 1_000_000):
        keeper.keep("stage", f"{size:020d}", np.arange(size), 1.0)
    assert keeper.recall("stage", f"{1_000_000:020d}", ()).size == 1_000_000
    assert keeper.recall("stage", f"{1:020d}", ()).size == 1
    assert not keeper.troubles


# ---------------------------------------------------------------------- through the command line

N, K = 120, 3
METHODS = {
    "ncut": (),
    "csp": ("--labels", "data.h5:/known"),
    "csp --subspace exact": ("--labels", "data.h5:/known"),
    "sssc": ("--labels", "data.h5:/known"),
    "srcp": ("--labels", "data.h5:/known"),
    "sskk": ("--labels", "data.h5:/known"),
    "csc-gfhf": ("--labels", "data.h5:/known"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    X, y = blobs(np.random.default_rng(3), N, K)
    known = np.where(np.arange(N) % 10 == 0, y, -1)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["points"], file["labels"], file["known"] = X.astype("f4"), y, known
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "_WORTH", float("inf"))  # seconds: also on a busy machine
    return tmp_path


def call(capsys, *arguments):
    code = cli([*arguments, "--json", "--quiet"])
    told = capsys.readouterr()
    assert code == 0, told.err
    return json.loads(told.out)


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_going_on_from_any_stage_gives_the_same_labels(folder, capsys, method):
    name, *options = method.split()
    given_ = ["cluster", "data.h5", "-m", name, *options, *METHODS[method], "-k", str(K)]
    call(capsys, *given_, "-o", "whole.h5")
    assert not Path("whole.h5.work").exists()
    call(capsys, *given_, "-o", "out.h5", "--resume")
    kept = [one.path for one in work_folder.entries(Path("out.h5.work"))]
    assert len(kept) >= 4
    for gone in range(len(kept) + 1):  # as if the run had been killed after `gone` results
        for path in kept[gone:]:
            path.unlink(missing_ok=True)
        Path("out.h5").unlink()
        call(capsys, *given_, "-o", "out.h5", "--resume")
        assert np.array_equal(labels_of("out.h5"), labels_of("whole.h5"))
        assert {one.path for one in work_folder.entries(Path("out.h5.work"))} == set(kept)


@pytest.mark.thorough
def test_work_that_took_long_is_kept_unasked(folder, capsys, monkeypatch):
    given_ = ["cluster", "data.h5", "-k", str(K), "-o", "out.h5"]
    assert call(capsys, *given_)["work"] is None
    monkeypatch.setattr(running, "_WORTH", 0.0)
    kept = call(capsys, *given_)["work"]
    assert kept["folder"] == "out.h5.work"
    assert kept["results"] == len(work_folder.entries(Path("out.h5.work"))) >= 4
    assert call(capsys, *given_)["stages_from_before"] >= 1


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["poisson", "gfhf", "lnp", "llgc"])
def test_propagation_goes_on(folder, capsys, method):
    given_ = ["propagate", "data.h5", "--labels", "data.h5:/known", "-m", method]
    call(capsys, *given_, "-o", "whole.h5")
    call(capsys, *given_, "-o", "out.h5", "--resume")
    again = call(capsys, *given_, "-o", "out.h5", "--resume")
    assert again["stages_from_before"] >= 3
    assert np.array_equal(labels_of("out.h5"), labels_of("whole.h5"))


@pytest.mark.thorough
def test_a_changed_parameter_recomputes_what_depends_on_it(folder, capsys):
    def names(*options):
        result = call(capsys, "cluster", "data.h5", "-o", "out.h5", "--resume", *options)
        return {stage["name"] for stage in result["stages"]}

    names("-k", "3")
    other_k = names("-k", "4")
    assert {"graph: kept from before", "order: kept from before", "eigenvectors"} <= other_k
    assert "kNN graph" not in other_k
    other_graph = names("-k", "3", "--neighbors", "12")
    assert "kNN graph" in other_graph
    other_seed = names("-k", "3", "--seed", "1")
    assert "kNN graph" in other_seed
    same = names("-k", "3", "--threads", "1")
    assert "clusters: kept from before" in same
    fresh = names("-k", "3", "--fresh")
    assert not [name for name in fresh if "before" in name]


@pytest.mark.thorough
def test_other_constraints_do_not_touch_the_graph(folder, capsys):
    with h5py.File("data.h5") as file:
        y = file["labels"][()]
    rows = [f"{i},{i + 1},{1 if y[i] == y[i + 1] else -1}" for i in range(0, 100, 2)]
    given_ = ("cluster", "data.h5", "-k", "3", "-m", "csp", "-o", "out.h5", "--resume")
    for count in (30, 50):
        Path("pairs.csv").write_text("\n".join(["i,j,belief", *rows[:count]]) + "\n")
        result = call(capsys, *given_, "--constraints", "pairs.csv")
    names = {stage["name"] for stage in result["stages"]}
    assert "eigenvectors: kept from before" in names
    assert "clusters" in names


def test_changed_data_are_not_mixed_up(folder, capsys):
    given_ = ("cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    call(capsys, *given_)
    with h5py.File("data.h5", "a") as file:
        file["points"][0, 0] += 1
    result = call(capsys, *given_)
    assert result["stages_from_before"] == 0
    listed = call_info(capsys, "out.h5")["work"]["results"]
    assert sum(one["stale"] for one in listed) == len(listed) // 2
    cleaned = call_clean(capsys, "out.h5", "--stale")
    assert cleaned["removed"] == cleaned["left"] == len(listed) // 2
    assert call_clean(capsys, "out.h5")["left"] == 0
    assert not Path("out.h5.work").exists()
    assert Path("out.h5").exists()


def call_info(capsys, *arguments):
    assert cli(["info", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def call_clean(capsys, *arguments):
    assert cli(["clean", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["cleaned"][0]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("harm", ["truncate", "flip", "text", "empty", "type"])
def test_a_damaged_file_counts_as_absent(folder, capsys, harm):
    given_ = ("cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    call(capsys, *given_)
    before = labels_of("out.h5")
    for path in Path("out.h5.work").iterdir():
        content = bytearray(path.read_bytes())
        if harm == "truncate":
            content = content[: len(content) // 2]
        elif harm == "flip":
            for at in range(len(content) // 2, len(content), 97):
                content[at] ^= 0x55
        elif harm == "empty":
            content = bytearray()
        elif harm == "text":
            content = bytearray(b"not HDF5")
        if harm == "type":
            with h5py.File(path, "a") as file:
                del file["value"]
                file["value"] = 3
        else:
            path.write_bytes(content)
    result = call(capsys, *given_)
    assert np.array_equal(labels_of("out.h5"), before)
    assert any("damaged" in note for note in result["notes"])


def test_a_number_that_changed_in_a_file_is_damage(tmp_path):
    folder = work_folder.WorkFolder(tmp_path / "w", "data")
    folder.keep("stage", "key", (np.arange(5.0),), 1.0)
    folder.settle()
    assert folder.recall("stage", "key", ()) is not None
    (path,) = folder.folder.iterdir()
    found = []
    with h5py.File(path, "a") as file:
        file.visititems(lambda _, one: found.append(one))
        (numbers,) = (one for one in found if getattr(one, "dtype", None) == np.float64)
        numbers[2] = 7.0
    assert folder.recall("stage", "key", ()) is None
    assert "damaged" in folder.troubles[0]


def test_leftovers_of_killed_runs_go_and_nothing_else(folder, capsys):
    given_ = ("cluster", "data.h5", "-k", "3", "-o", "out.h5")
    mine = Path(".out.h5.0123456789ab.tmp")
    others = [Path(".out.h5.x.tmp"), Path(".other.h5.0123456789ab.tmp"), Path("out.h5.tmp")]
    for path in (mine, *others):
        path.write_text("x")
    Path("out.h5.work").mkdir()
    Path("out.h5.work/.graph.x.h5.0123456789ab.tmp").write_text("x")
    Path("out.h5.work/mine.txt").write_text("x")
    call(capsys, *given_)
    assert not mine.exists()
    assert all(path.exists() for path in others)
    assert [path.name for path in Path("out.h5.work").iterdir()] == ["mine.txt"]
    Path("out.h5.work/.graph.x.h5.0123456789ab.tmp").write_text("x")
    call(capsys, *given_, "--resume")
    assert not list(Path("out.h5.work").glob(".*"))
    assert list(Path("out.h5.work").glob("graph.*.h5"))


def test_two_runs_do_not_write_one_output(folder, capsys):
    from mustlink_io.hdf5.locks import locked

    with locked("out.h5"):
        assert cli(["cluster", "data.h5", "-k", "3", "-o", "out.h5", "--quiet"]) == 2
    told = capsys.readouterr().err
    assert "in use by another run" in told
    assert told.count("\n") == 1


def test_cleaning_where_nothing_is(folder, capsys):
    assert cli(["clean", "out.h5"]) == 2
    error = capsys.readouterr().err
    assert error == "mustlink: out.h5: no such file, nor out.h5.work beside it; check the name\n"
    Path("out.h5").touch()
    assert call_clean(capsys, "out.h5")["removed"] == 0


def test_a_damaged_result_is_stale_and_the_others_are_not(folder, capsys):
    call(capsys, "cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    newest = work_folder.entries(Path("out.h5.work"))[-1].path
    newest.write_bytes(b"")
    listed = call_info(capsys, "out.h5")["work"]["results"]
    assert [one["file"] for one in listed if one["stale"]] == [newest.name]
    assert call_clean(capsys, "out.h5", "--stale")["removed"] == 1


def test_work_of_a_killed_run_is_listed_without_its_output(folder, capsys):
    call(capsys, "cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    Path("out.h5").unlink()
    for name in ("out.h5", "out.h5.work"):
        assert len(call_info(capsys, name)["work"]["results"]) >= 4


def test_what_was_kept_on_purpose_is_not_taken_away(folder, capsys):
    call(capsys, "cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    call(capsys, "cluster", "data.h5", "-k", "4", "-o", "out.h5")
    again = call(capsys, "cluster", "data.h5", "-k", "3", "-o", "out.h5", "--resume")
    assert again["stages_from_before"] >= 4


@pytest.mark.thorough
def test_a_graph_that_a_time_limit_cut_short_is_not_recalled_as_the_whole(tmp_path):
    """The next run without a limit took it, and said nothing."""
    X = np.random.default_rng(0).normal(size=(12_000, 12)).astype(np.float32)
    made_by = {"n_neighbors": 10, "metric": "euclidean", "weights": "local"}
    search = {"random_state": 0, "n_jobs": 1, "memory": None}

    def graph(folder, deadline=NEVER):
        recorder = Recorder(Unheard(), deadline)
        keeper = work_folder.WorkFolder(folder, "the same data")
        found = cached_rows(X, made_by, StageCache(recorder, keeper), **search)
        keeper.settle()
        return found.info["recall"], recorder, keeper

    cut, told, _ = graph(tmp_path / "a", Deadline.after(1e-3))
    assert told.left_out
    whole, told, keeper = graph(tmp_path / "a")
    assert not keeper.recalled
    assert not told.warnings
    assert whole == graph(tmp_path / "b")[0] > cut
    again, _, keeper = graph(tmp_path / "a")
    assert keeper.recalled
    assert again == whole
