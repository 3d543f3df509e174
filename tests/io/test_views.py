"""Several graphs of the same nodes in the shell: read, weighed, planned, told."""

import json

import h5py
import numpy as np
import pytest

TRUTH = np.repeat([0, 1, 2], 40)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two tables of the same rows, one of noise, some labels, and names in two orders."""
    folder, rng = tmp_path_factory.mktemp("views"), np.random.default_rng(0)
    for name in ("one", "two"):
        centres = np.array([(0, 0), (4, 0), (0, 4)])[TRUTH]
        np.save(folder / f"{name}.npy", centres + rng.normal(0, 0.7, (120, 2)))
    np.save(folder / "noise.npy", rng.normal(size=(120, 5)))
    np.save(folder / "short.npy", rng.normal(size=(50, 2)))
    few = np.where(np.arange(120) % 8, -1, TRUTH)
    (folder / "few.txt").write_text("\n".join(map(str, few)))
    order = rng.permutation(120)
    points = np.load(folder / "one.npy")
    for name, rows in (("named", np.arange(120)), ("turned", order)):
        lines = [f"r{i},{points[i, 0]},{points[i, 1]}" for i in rows]
        (folder / f"{name}.csv").write_text("\n".join(["name,a,b", *lines]))
    return folder


@pytest.fixture
def graphs(data, mustlink):
    """The tables as graphs."""
    for name in ("one.npy", "two.npy", "noise.npy", "short.npy", "named.csv", "turned.csv"):
        out = data / f"{name.split('.')[0]}.h5"
        if not out.exists():
            assert mustlink(f"graph {name} --neighbors 8 --quiet -o {out}")[0] == 0
    return data


def told(said):
    return json.loads(said)["choices"]["graph"]


@pytest.mark.thorough
def test_views_are_weighed_by_labels_and_told(mustlink, graphs, tmp_path):
    out = tmp_path / "o.h5"
    side = f"--labels few.txt --json -o {out}"
    for command in ("cluster one.h5 -k 3", "cluster one.npy -k 3", "propagate one.h5 -m llgc"):
        code, said, err = mustlink(f"{command} --view noise.h5 --view two.h5 {side}")
        assert code == 0, err
        weights = told(said)["graph_weights"]
        assert weights[1] < 0.05 < min(weights[0], weights[2])
        assert "must-links above cannot-links" in err
        result = json.loads(said)
        assert "--view noise.h5 --view two.h5" in result["command"]
        assert [one["role"] for one in result["inputs"]] == ["data", "labels", "view 1", "view 2"]
        with h5py.File(out) as file:
            assert np.mean(file["labels"][:] >= 0) == 1


@pytest.mark.thorough
def test_weights_may_be_given(mustlink, graphs, tmp_path):
    run = f"cluster one.h5 -k 3 --json --quiet -o {tmp_path}/o.h5"
    code, said, err = mustlink(f"{run} --view noise.h5 --view-weights 1,0")
    assert code == 0, err
    assert told(said)["graph_weights"] == [1, 0]
    alone = json.loads(mustlink(run)[1])
    assert json.loads(said)["sizes"] == alone["sizes"]
    code, said, _ = mustlink(f"{run} --view two.h5 --view noise.h5 --view-weights equal")
    assert told(said)["graph_weights"] == [0.3333] * 3


@pytest.mark.thorough
def test_the_summary_tells_what_graphs_weigh(mustlink, graphs, tmp_path):
    run = f"one.h5 --view noise.h5 --labels few.txt -o {tmp_path}/o.h5"
    for command in ("cluster -k 3", "propagate"):
        code, said, err = mustlink(f"{command} {run}")
        assert code == 0, err
        (row,) = (line for line in said.splitlines() if line.startswith("  graphs "))
        assert "weights 1, 0: odds above chance" in row


@pytest.mark.thorough
def test_results_kept_of_one_view_do_not_serve_another(mustlink, graphs, tmp_path):
    run = f"cluster one.h5 -k 3 -m csp --labels few.txt --resume --json --quiet -o {tmp_path}/o.h5"
    first = json.loads(mustlink(f"{run} --view two.h5 --view-weights 1,1")[1])
    again = json.loads(mustlink(f"{run} --view two.h5 --view-weights 1,1")[1])
    assert again["stages_from_before"]
    assert again["eigenvalues"] == first["eigenvalues"]
    other = json.loads(mustlink(f"{run} --view noise.h5 --view-weights 1,1")[1])
    assert other["eigenvalues"] != first["eigenvalues"]
    heavier = json.loads(mustlink(f"{run} --view two.h5 --view-weights 9,1")[1])
    assert heavier["eigenvalues"] != first["eigenvalues"]


def test_nodes_are_matched_by_their_names(mustlink, graphs, tmp_path):
    run = f"cluster named.csv -k 3 --json --quiet -o {tmp_path}/o.h5"
    same = json.loads(mustlink(f"{run} --view named.h5 --view-weights 0,1")[1])
    turned = json.loads(mustlink(f"{run} --view turned.h5 --view-weights 0,1")[1])
    np.testing.assert_allclose(turned["eigenvalues"], same["eigenvalues"], atol=1e-8)


@pytest.mark.thorough
def test_a_plan_counts_all_graphs(mustlink, graphs):
    plain = json.loads(mustlink("plan one.h5 -k 3 --json")[1])
    code, said, err = mustlink("plan one.h5 -k 3 --view two.h5 --view noise.h5 --json")
    assert code == 0, err
    several = json.loads(said)
    assert "weights of the graphs" in [stage["name"] for stage in several["stages"]]
    assert several["peak_bytes"] > plain["peak_bytes"]
    assert several["least_memory"] > plain["least_memory"]
    code, said, _ = mustlink("plan one.npy -k 3 --for propagate --view two.h5 --json")
    assert code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cluster one.h5 -k 3 --view short.h5", "50 nodes, but the data has 120 nodes"),
        ("cluster one.npy -k 3 --view short.h5", "50 nodes, but the data has 120 points"),
        ("cluster one.h5 -k 3 --view two.h5 --view-weights 1,2,3", "--view-weights: shape"),
        ("cluster one.h5 -k 3 --view two.h5 --view-weights best", "neither auto, equal nor a list"),
        ("cluster one.h5 -k 3 --view-weights 1", "give others with --view"),
        ("cluster one.h5 -k 3 --view none.h5", "none.h5"),
        ("cluster one.h5 -k 3 -m disim --view two.h5", "--view: -m disim"),
        ("cluster named.csv -k 3 --view two.npy", "two.npy"),
    ],
)
def test_slips_are_one_line(mustlink, graphs, tmp_path, line, message):
    code, _, err = mustlink(f"{line} -o {tmp_path}/o.h5")
    assert code == 2
    assert message in err.splitlines()[-1]


def test_a_job_of_a_batch_has_a_view(mustlink, graphs, tmp_path):
    (graphs / "jobs.toml").write_text(
        f'[[job]]\nname = "v"\ndata = "one.h5"\nk = 3\nview = "two.h5"\n'
        f'output = "{tmp_path}/v.h5"\n'
    )
    code, _, err = mustlink("batch jobs.toml --dry-run")
    assert code == 0, err


@pytest.mark.thorough
def test_a_suggestion_knows_of_views(mustlink, graphs):
    """A graph is looked at together with the others, points alone; the command has them."""
    alone = json.loads(mustlink("suggest one.h5 --labels few.txt --json")[1])
    code, said, err = mustlink("suggest one.h5 --view two.h5 --labels few.txt --json")
    assert code == 0, err
    found = json.loads(said)
    assert "--view two.h5" in found["command"]
    assert found["seen"]["links"]["edges"] > alone["seen"]["links"]["edges"]
    assert "2 graphs of the same nodes are one" in err
    code, said, err = mustlink("suggest one.npy --view two.h5 -k 3 --json")
    assert code == 0, err
    assert "--view two.h5" in json.loads(said)["command"]
    assert "this look is at the points alone" in err
    code, _, err = mustlink("suggest one.npy --view short.h5 --json")
    assert code == 2
    assert "50 nodes, but the data has 120 points" in err


# --- Other columns of the same rows: NAME=FILE


@pytest.fixture
def columns(data):
    """Texts and a table of words and empty cells of the same rows, by number and by name."""
    rng = np.random.default_rng(1)
    words = ["cat dog pet", "ship sail sea", "code bug test"]
    texts = [" ".join(rng.choice((words[c] + " the of and to").split(), 6)) for c in TRUTH]
    texts[7] = ""
    lines = [f'"{text}",{i}' for i, text in enumerate(texts)]
    (data / "posts.csv").write_text("\n".join(["text,when", *lines]))
    lines = [json.dumps({"name": f"r{i}", "body": text}) for i, text in enumerate(texts)]
    (data / "posts.jsonl").write_text("\n".join(lines[::-1]))
    folder = data / "posts"
    folder.mkdir(exist_ok=True)
    for i, text in enumerate(texts):
        (folder / f"{i:03}.txt").write_text(text)
    kinds = [f"{['red', '', 'green'][c]},{c + rng.normal():.2f}" for c in TRUTH]
    (data / "kinds.csv").write_text("\n".join(["kind,size", *kinds]))
    return data


@pytest.mark.thorough
def test_columns_of_all_kinds_are_views(mustlink, graphs, columns, tmp_path):
    """Rows of files are what Python is given; a column of texts is what --text makes."""
    run = f"propagate one.npy -m llgc --labels few.txt --json -o {tmp_path}/o.h5"
    views = "--view posts=posts.csv:text --view kinds=kinds.csv --view links=two.h5"
    code, said, err = mustlink(f"{run} {views}")
    assert code == 0, err
    result = json.loads(said)
    assert told(said)["views"] == ["X", "posts", "kinds", "links"]
    assert views in result["command"]
    roles = ["data", "labels", "view posts", "view kinds", "view links"]
    assert [one["role"] for one in result["inputs"]] == roles
    assert "view posts: posts.csv:text: 120 texts are rows of tf-idf" in err
    assert "view kinds: table: 2 columns" in err
    with h5py.File(tmp_path / "o.h5") as file:
        assert np.mean(file["labels"][:] == TRUTH) > 0.95
    assert mustlink(f"cluster one.npy -k 3 --text x --view a=kinds.csv -o {tmp_path}/p.h5")[0] == 2
    by_folder = json.loads(mustlink(f"{run} --view posts=posts")[1])
    by_column = json.loads(mustlink(f"{run} --view posts=posts.csv:text")[1])
    assert by_folder["sizes"] == by_column["sizes"]


@pytest.mark.thorough
def test_columns_are_matched_by_names_and_kept_for_another_run(mustlink, graphs, columns, tmp_path):
    run = f"cluster named.csv -k 3 --json --quiet -o {tmp_path}/o.h5"
    turned = json.loads(mustlink(f"{run} --view b=turned.csv --view-weights 0,1")[1])
    same = json.loads(mustlink(f"{run} --view b=named.csv --view-weights 0,1")[1])
    np.testing.assert_allclose(turned["eigenvalues"], same["eigenvalues"], atol=1e-8)
    by_name = json.loads(mustlink(f"{run} --view b=posts.jsonl:body --view-weights 0,1")[1])
    by_place = json.loads(mustlink(f"{run} --view b=posts.csv:text --view-weights 0,1")[1])
    np.testing.assert_allclose(by_name["eigenvalues"], by_place["eigenvalues"], atol=1e-8)
    run = f"{run} --resume --view b=kinds.csv"
    first, again = (json.loads(mustlink(run)[1]) for _ in range(2))
    assert again["stages_from_before"]
    assert again["eigenvalues"] == first["eigenvalues"]


@pytest.mark.thorough
def test_plans_suggestions_and_batches_know_of_columns(mustlink, graphs, columns, tmp_path):
    code, said, err = mustlink("plan one.npy -k 3 --view posts=posts.csv:text --json")
    assert code == 0, err
    assert "neighbours in views" in said
    for data, words in (("one.h5", "3 graphs"), ("one.npy", "this look is at the points alone")):
        run = f"suggest {data} --view k=kinds.csv --view p=posts.csv:text --labels few.txt --json"
        code, said, err = mustlink(run)
        assert code == 0, err
        assert "--view k=kinds.csv --view p=posts.csv:text" in json.loads(said)["command"]
        assert words in err
    below = graphs / "below"
    below.mkdir(exist_ok=True)
    (below / "jobs.toml").write_text(
        '[[job]]\nname = "v"\ndata = "../one.npy"\nk = 3\nview = "k=../kinds.csv"\n'
        f'output = "{tmp_path}/v.h5"\n'
    )
    code, _, err = mustlink("batch below/jobs.toml")
    assert code == 0, err
    assert (tmp_path / "v.h5").exists()


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ("a=short.npy", "short.npy: 50 rows, but the data has 120"),
        ("a=none.npy", "none.npy: no such file"),
        ("a=two.npy --view a=noise.npy", "--view a: two have one name"),
        ("a=posts.csv:body", "posts.csv:body: no such column; the table has text, when"),
        ("a=posts.csv", "posts.csv: no column says anything of the rows"),
        ("a=posts.csv:when", "a column of numbers, no texts"),
        ("X=two.npy", "--view: 'X' is no name"),
        ("two.npy", "two.npy"),
    ],
)
def test_slips_of_columns_are_one_line(mustlink, graphs, columns, tmp_path, views, message):
    code, _, err = mustlink(f"cluster one.npy -k 3 --quiet --view {views} -o {tmp_path}/o.h5")
    assert code == 2
    assert message in err.splitlines()[-1]
    assert not (tmp_path / "o.h5").exists()
