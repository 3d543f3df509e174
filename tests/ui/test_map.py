"""Where rows are on the map, which a lasso takes, and what a question shows of them."""

from html import escape

import h5py
import numpy as np
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats import shown
from mustlink_io.pictures import charts
from mustlink_io.ui import map_view, node_view, opening


def crossings(point, xs, ys):
    """Whether a ray to the right meets the line an odd number of times."""
    inside = False
    for at in range(len(xs)):
        x0, y0, x1, y1 = xs[at - 1], ys[at - 1], xs[at], ys[at]
        if (y0 <= point[1]) != (y1 <= point[1]):
            inside ^= point[0] < x0 + (point[1] - y0) * (x1 - x0) / (y1 - y0)
    return inside


@pytest.mark.parametrize("seed", range(20))
def test_a_lasso_takes_what_is_inside(seed):
    rng = np.random.default_rng(seed)
    where = rng.normal(size=(300, 2)).astype(np.float32)
    if seed % 2:
        where = np.round(where)  # points on edges and corners
    m = int(rng.integers(3, 12))
    xs, ys = rng.normal(size=(2, m)) if seed % 4 else np.round(2 * rng.normal(size=(2, m)))
    expected = [at for at, one in enumerate(where.tolist()) if crossings(one, xs, ys)]
    assert map_view.inside(where, xs, ys).tolist() == expected


def test_no_line_takes_nothing():
    where = np.zeros((5, 2), dtype=np.float32)
    for xs, ys in [([], []), ([0, 1], [0, 1]), ([0, 1, np.nan], [0, 1, 2]), ([0, 1, 2], [0, 1])]:
        assert not map_view.inside(where, xs, ys).size


def test_the_nearest_row_is_so_as_one_sees():
    where = np.array([[0, 0], [10, 0.0], [0, 0.05]], dtype=np.float32)
    ranges = (0.0, 100.0), (0.0, 0.1)
    assert map_view.nearest(where, 4.0, 0.0, ranges) == 0
    assert map_view.nearest(where, 4.0, 0.03, ranges) == 2
    assert map_view.nearest(where, 9.0, 0.0, ranges) == 1


def clusters(d, k=4, n=200):
    rng = np.random.default_rng(3)
    truth = np.arange(n) % k
    return rng.normal(size=(n, d)) + 9.0 * rng.normal(size=(k, d))[truth], truth


@pytest.mark.parametrize("d", [1, 3, 8])
def test_clusters_lie_apart_on_the_map(d):
    X, truth = clusters(d)
    est = ml.CSP(n_clusters=4, random_state=0).fit(X, np.where(np.arange(200) < 8, truth, -1))
    where = map_view.flat(est)
    assert where.shape == (200, 2)
    assert where.dtype == np.float32
    means = np.array([where[est.labels_ == one].mean(axis=0) for one in np.unique(est.labels_)])
    own = means[np.searchsorted(np.unique(est.labels_), est.labels_)]
    spread = np.linalg.norm(where - own, axis=1).mean()
    apart = [np.linalg.norm(a - b) for a in means for b in means]
    assert np.mean(apart) > spread


def test_points_of_two_columns_and_given_coordinates_stay():
    X, truth = clusters(2)
    y = np.where(np.arange(200) < 8, truth, -1)
    est = ml.CSP(n_clusters=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(map_view.flat(est), X.astype(np.float32))
    np.testing.assert_array_equal(map_view.flat(est, -X), -X.astype(np.float32))
    for wrong in (X[:-1], X[:, :1], X.astype(str), np.where(X > 0, X, np.nan)):
        with pytest.raises(InputError, match="map"):
            map_view.flat(est, wrong)


def test_a_graph_has_a_map_of_its_embedding():
    X, truth = clusters(3)
    graph = ml.knn_graph(X, n_neighbors=10)
    est = ml.CSP(n_clusters=4, affinity="precomputed", random_state=0)
    where = map_view.flat(est.fit(graph, np.where(np.arange(200) < 8, truth, -1)))
    assert np.isfinite(where).all()
    assert np.ptp(where, axis=0).min() > 0


@pytest.mark.parametrize("method", ["CSP", "Poisson"])
def test_a_graph_that_has_no_embedding_of_two_columns_has_a_map(method):
    X, truth = clusters(3, k=2)
    graph = ml.knn_graph(X, n_neighbors=10)
    options = {"n_clusters": 2} if method == "CSP" else {}
    est = getattr(ml, method)(affinity="precomputed", random_state=0, **options)
    est.fit(graph, np.where(np.arange(200) < 8, truth, -1))
    where = map_view.flat(est)
    assert np.isfinite(where).all()
    assert (np.ptp(where, axis=0) > 0).all()
    assert np.linalg.matrix_rank(where - where.mean(axis=0), tol=1e-3) == 2
    np.testing.assert_array_equal(where, map_view.flat(est))


def test_classes_that_are_shares_are_not_one_point_each():
    X, truth = clusters(3)
    W = ml.knn_graph(X, n_neighbors=10).affinity
    est = ml.Auto(affinity="precomputed", random_state=0)
    est.fit(W, np.where(np.arange(200) < 4, truth, -1))
    assert est.method_ == "NCut named by labels"
    where = map_view.flat(est)
    assert len(np.unique(where, axis=0)) > 190


def test_what_is_named_is_looked_at_before_a_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "panel", lambda: None)
    monkeypatch.setattr(ml.CSP, "fit", None)
    np.save(tmp_path / "data.npy", np.zeros((5, 3)))
    np.save(tmp_path / "map.npy", np.zeros((4, 2)))
    with pytest.raises(InputError, match=r"map: shape \(4, 2\)"):
        opening.page_of_file(f"{tmp_path}/data.npy", map_of=f"{tmp_path}/map.npy")
    with pytest.raises(InputError, match=r"show: .* shape"):
        opening.page_of_file(f"{tmp_path}/data.npy", show=f"{tmp_path}/map.npy")


def test_the_first_window_leaves_outliers_out():
    where = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    where[0] = 1e6
    (x0, x1), (y0, y1) = map_view.window(where)
    assert -6 < x0 < -2 < 2 < x1 < 6
    assert -6 < y0 < -2 < 2 < y1 < 6
    (x0, x1), _ = map_view.window(np.zeros((3, 2), dtype=np.float32))
    assert x0 < 0 < x1


def test_texts_are_words_and_no_code():
    told = shown.of_texts(["<script>alert(1)</script>", b"a & b", "x" * 9000])
    assert "<script>" not in told(0)
    assert "a &amp; b" in told(1)
    assert len(told(2)) < 3000


def test_rows_have_the_names_of_their_columns():
    told = shown.of_rows(np.array([[1.5, 2.0], [3.0, 4.25]]), ["<b>weight", "height"])
    assert "&lt;b&gt;weight" in told(1)
    assert "4.25" in told(1)


def test_arrays_are_shown_as_what_they_are(tmp_path):
    images = np.random.default_rng(0).random((4, 5, 6))
    assert "data:image/png;base64," in shown.of_array(images, 4, "here")(2)
    assert "<table>" in shown.of_array(images[..., 0], 4, "here")(2)
    assert "fir" in shown.of_array(np.array(["oak", "elm", "ash", "fir"]), 4, "here")(3)
    with pytest.raises(InputError, match="but there are 5 rows"):
        shown.of_array(images, 5, "here")
    with pytest.raises(InputError, match="text or numbers"):
        shown.of_array(images.astype(complex), 4, "here")


def test_a_folder_has_a_picture_for_each_row(tmp_path):
    from mustlink_io.formats.photographs import save_image

    for name in ("b.png", "a.png", "note.txt"):
        save_image(np.zeros((4, 4, 3), dtype=np.uint8), tmp_path / name)
    assert "a.png" in shown.of_folder(tmp_path, 2)(0)
    with pytest.raises(InputError, match="2 pictures"):
        shown.of_folder(tmp_path, 3)


@pytest.mark.browser
def test_the_mouse_tells_name_cluster_and_values_of_the_row_below():
    pytest.importorskip("panel")
    from mustlink_io.jobs.carried import Carried
    from mustlink_io.jobs.points import RowSource
    from mustlink_io.ui.node_session import NodeSession

    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.random.default_rng(0).normal(
        size=(40, 2), scale=0.3
    )
    y = np.where(np.arange(40) % 20 < 2, np.arange(40) // 20, -1)
    est = ml.CSP(2, random_state=0).fit(X, np.array(["", "elm", "<oak>"])[y + 1])
    names = np.array([f"tree {row}" for row in range(40)], dtype=object)
    session = NodeSession(est, beside=Carried(names, classes={0: "<oak>", 1: "elm"}))
    rows = node_view.TableRows(RowSource({"height": X[:, 0].round(2), "site": names}))
    view = node_view.NodeView(session, X.astype(np.float32), rows)
    view.map._over = tuple(X[25])
    view.map._tell_over()
    told = view.map.hovered.object
    assert "tree 25" in told
    assert f"height {X[25, 0].round(2):.6g}, site tree 25" in told
    assert "<oak>" not in told
    view.map._over = (4.5, 4.5)  # nothing is there
    view.map._tell_over()
    assert view.map.hovered.object == ""
    view.map.choose([25, 26, 27])
    view._chosen()
    assert f"height {X[25, 0].round(2):.6g}, site tree 25" in view.picked.object  # in the grid
    view.questions.doubtful.clicks += 1
    first = next(iter(view.questions.listed.options.values()))
    assert first == session.waiting[0] == session.doubtful(1)[0]
    third = list(view.questions.listed.options.values())[2]
    view.questions.listed.value = third
    assert session.waiting[0] == third
    written = []
    view.questions.listed.param.watch(written.append, "options")
    view.refresh()
    assert not written  # nothing of the list is another
    session.name([first], "fir")
    view.refresh()
    assert len(written) == 1


@pytest.mark.browser
@pytest.mark.parametrize(("side", "axis"), [("inner_width", 1), ("inner_height", 0)])
def test_a_figure_that_is_not_laid_out_yet_is_not_drawn_so_narrow(two_groups, side, axis):
    view = two_groups[0].map

    def pixels():
        return view.pixels.data["image"][0].shape[axis]

    usual = pixels()
    for reported, drawn in ((0, usual), (1, usual), (900, 900), (59, 900), (5000, 1536)):
        view._resized(side, None, reported)
        assert pixels() == drawn


@pytest.mark.browser
def test_the_key_that_asks_does_so_once_no_question_is_left(two_groups):
    view, session, _ = two_groups
    view.questions._commanded("ask")
    assert len(session.waiting) == 10
    assert "10 to go" in view.questions.text.text


@pytest.mark.browser
def test_save_asks_before_it_replaces_a_file(tmp_path):
    pytest.importorskip("panel")
    from mustlink_io.ui.node_session import NodeSession

    X = np.random.default_rng(0).normal(size=(30, 2))
    target = tmp_path / "out.h5"
    with h5py.File(target, "w") as file:
        file.attrs["mustlink-format"] = "an earlier one"
    view = node_view.NodeView(
        NodeSession(ml.CSP(2, random_state=0).fit(X, np.r_[0, 1, [-1] * 28])),
        X.astype(np.float32),
        output=target,
    )
    assert "press save again" in view._save()
    with h5py.File(target) as file:
        assert file.attrs["mustlink-format"] == "an earlier one"
    assert "written" in view._save()
    assert "written" in view._save()  # its own file


@pytest.fixture
def two_groups():
    """A view of 40 rows in two groups, four of them labelled, in the browser's environment."""
    pytest.importorskip("panel")
    from mustlink_io.ui.node_session import NodeSession

    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], [25, 15], axis=0)
    X += np.random.default_rng(0).normal(size=X.shape, scale=0.3)
    y = np.full(40, -1)
    y[[0, 1, 30, 31]] = [0, 0, 1, 1]
    session = NodeSession(ml.CSP(2, random_state=0).fit(X, y))
    show = shown.of_texts([f"row <{i}>" for i in range(40)])
    return node_view.NodeView(session, X.astype(np.float32), show), session, X


@pytest.mark.browser
def test_the_legend_is_sorted_and_its_classes_are_called_and_coloured_otherwise(two_groups):
    view, session, X = two_groups
    legend = view.map.legend
    large, small = (session.labels[0], session.labels[39])
    legend.group.value = small
    legend.called.value_input = "<ash>"
    assert "named &lt;ash&gt;" in escape(legend._rename())
    assert session.names[small] == "<ash>"
    assert "<ash>" not in legend.key.object
    assert "&lt;ash&gt;" in legend.key.object
    legend.order.value = "size"
    assert legend.key.object.index("25") < legend.key.object.index("15")
    legend.order.value = "name"
    assert legend.key.object.index("15") > legend.key.object.index("25")  # 0 comes before <
    legend.group.value = small
    legend.colour.value = "#123456"
    assert session.colours == {small: "#123456"}
    assert "#123456" in legend.key.object
    legend.group.value = large
    assert legend.colour.value != "#123456"  # its own is shown, and set for nobody
    assert set(session.colours) == {small}
    legend.opacity.value = 0.4
    assert view.map._image.glyph.global_alpha == 0.4
    named = dict(zip(view.map._names.data["text"], view.map._names.data["x"], strict=True))
    assert named["<ash>"] == pytest.approx(np.median(X[25:, 0]), abs=1e-5)
    for wrong in ((small, "red"), (77, "#123456")):
        with pytest.raises(InputError, match="give a cluster that there is"):
            session.recolour(*wrong)


@pytest.mark.browser
def test_chosen_rows_stay_while_others_are_answered_and_go_when_they_are(two_groups):
    view, session, _ = two_groups
    view.map.choose([5, 32])
    session.label([2], session.labels[0])  # a question, or another tab
    view.refresh()
    assert view.map.chosen.tolist() == [5, 32]
    assert "row &lt;5&gt;" in view.picked.object
    view._pair(False)
    assert view.map.chosen.size == 0
    assert session.answers[-1].nodes.tolist() == [5, 32]


@pytest.mark.browser
def test_the_last_answer_is_the_one_that_is_taken_back_unless_another_is_chosen(two_groups):
    view, session, _ = two_groups
    for node in (2, 3, 4):
        session.label([node], session.labels[0])
    view.refresh()
    assert view.given.value is session.answers[2]
    view._one(session.take_back)
    assert [int(one.nodes[0]) for one in session.answers] == [2, 3]
    view.given.value = session.answers[0]
    view.refresh()
    assert view.given.value is session.answers[0]
    view._one(session.take_back)
    assert [int(one.nodes[0]) for one in session.answers] == [3]
    view._one(session.take_back)
    assert (view.given.value, view.given.visible) == (None, False)


@pytest.mark.browser
def test_rows_inside_a_lasso_are_shown_and_the_foreign_ones_marked_before_they_are_labelled(
    two_groups,
):
    view, _, _ = two_groups
    view.map.choose([0, 1, 2, 3, 30, 4])
    view._chosen()
    told = view.picked.object
    assert "6 nodes chosen</b>, 1 in another cluster than most" in told
    assert told.count("class='foreign'") == 1
    assert told.index("row &lt;30&gt;") < told.index("row &lt;0&gt;")
    assert view.only.visible
    assert view._leave_out() == "1 left out"
    assert view.map.chosen.tolist() == [0, 1, 2, 3, 4]
    assert not view.only.visible
    assert "foreign" not in view.picked.object
    view.map.choose(np.arange(30))
    view._chosen()
    assert (
        view.picked.object.count("<div class='own'>")
        + view.picked.object.count("<div class='foreign'>")
        == node_view._IN_GRID
    )


@pytest.mark.parametrize("seed", range(4))
def test_names_on_a_map_cover_no_other_and_stay_where_they_are_alone(seed):
    rng = np.random.default_rng(seed)
    places, widths = rng.uniform(0, 300, (25, 2)), rng.uniform(10, 120, 25)
    found = charts.names_apart(places, widths, 20.0)
    there = np.flatnonzero(~np.isnan(found[:, 0]))
    assert 0 in there
    np.testing.assert_array_equal(found[there, 0], places[there, 0])
    assert np.abs(found[there] - places[there]).max() < 60.1
    for at in there:
        for other in there[there < at]:
            beside, above = np.abs(found[at] - found[other])
            assert beside >= (widths[at] + widths[other]) / 2 or above >= 0.999 * 20
    far = np.arange(8)[:, None] * 200.0 * np.ones(2)
    np.testing.assert_array_equal(charts.names_apart(far, widths[:8], 20.0), far)


def test_the_name_of_a_cluster_is_at_one_of_its_rows():
    ring = np.stack([np.cos(np.arange(50)), 9 * np.sin(np.arange(50))], axis=1)
    assert (ring == charts.middle_row(ring)).all(axis=1).any()


@pytest.mark.browser
def test_clusters_that_lie_near_have_names_that_do_not_overlap(two_groups):
    view, session, _ = two_groups
    view.map.where = np.full((session.n, 2), 0.5, dtype=np.float32)
    for ranges in (((0.0, 1.0), (0.0, 1.0)), ((0.4, 0.6), (0.4, 0.6))):
        view.map._name("cluster")
        view.map._write_names(ranges)
        data = view.map._names.data
        assert sorted(data["text"]) == sorted(map(str, session.names.values()))
        (low, high), high_pixels = ranges[1], view.map._pixels["inner_height"]
        assert np.ptp(data["y"]) / (high - low) * high_pixels > 20
    view.map._write_names(((2.0, 3.0), (2.0, 3.0)))  # none of them is seen
    assert not len(view.map._names.data["text"])
