"""Strokes on a picture and the cut that follows: painting, undo, files."""

from itertools import pairwise

import numpy as np
import pytest

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.photographs import (
    load_image,
    load_label_picture,
    load_strokes,
    save_image,
)
from mustlink_io.jobs.cut import cut
from mustlink_io.ui.picture_view import ERASE, PictureSession

H, W = 60, 80


def disc():
    """A bright disc on a dark ground, with some noise; and where it is."""
    y, x = np.mgrid[:H, :W]
    inside = (x - 40) ** 2 + (y - 30) ** 2 < 18**2
    noise = np.random.default_rng(0).normal(0, 12, (H, W, 3))
    image = np.where(inside[..., None], (200, 120, 60), (60, 90, 130)) + noise
    return np.clip(image, 0, 255).astype(np.uint8), inside


IMAGE, INSIDE = disc()
THING = [(34.0, 30.0), (46.0, 30.0)]
GROUND = [(4.0, 4.0), (76.0, 4.0), (76.0, 56.0)]


def painted(path=None):
    session = PictureSession(IMAGE, path)
    session.paint(0, THING, 4)
    session.paint(1, GROUND, 4)
    return session


def test_the_cut_follows_the_strokes():
    session = PictureSession(IMAGE)
    session.paint(0, THING, 4)
    assert session.labels is None  # of one class there is nothing to cut
    session.paint(1, GROUND, 4)
    assert np.mean((session.labels == 0) == INSIDE) > 0.98
    strokes = session.painted.astype(np.int64)
    found = ml.StrokeCut(random_state=0).fit(IMAGE, strokes).labels_
    np.testing.assert_array_equal(session.labels, found)


def test_a_stroke_covers_the_pixels_within_half_its_width():
    session = PictureSession(IMAGE)
    points = np.array([(20.0, 15.0), (50.0, 40.0), (60.0, 20.0)])
    session.paint(3, points, 9)
    y, x = np.mgrid[:H, :W] + 0.5
    far = np.full((H, W), np.inf)
    for a, b in pairwise(points):
        along = ((x - a[0]) * (b - a)[0] + (y - a[1]) * (b - a)[1]) / ((b - a) @ (b - a))
        at = a + np.clip(along, 0, 1)[..., None] * (b - a)
        far = np.minimum(far, np.hypot(x - at[..., 0], y - at[..., 1]))
    inside = session.painted == 3
    assert inside[far < 3.0].all()
    assert not inside[far > 6.0].any()


def test_a_click_is_a_dot_and_outside_nothing_is_painted():
    session = PictureSession(IMAGE)
    session.paint(2, [(10.0, 10.0)], 5)
    assert 12 <= (session.painted == 2).sum() <= 40
    before = session.painted.copy()
    session.paint(2, [(-1e12, 5.0), (-1e11, 9.0)], 5)
    session.paint(2, [(5000.0, 5000.0)], 5)
    np.testing.assert_array_equal(session.painted, before)


def test_undo_takes_the_last_stroke_away():
    session = painted()
    first, strokes = session.labels.copy(), session.painted.copy()
    session.paint(1, [(40.0, 20.0), (40.0, 40.0)], 6)
    assert session.undo()
    np.testing.assert_array_equal(session.painted, strokes)
    np.testing.assert_array_equal(session.labels, first)
    assert session.undo()
    assert session.labels is None
    assert session.undo()
    assert not session.undo()


def test_redo_paints_again_what_was_taken_away():
    session = painted()
    labels = session.labels.copy()
    session.undo()
    session.undo()
    assert session.redo()
    assert session.redo()
    np.testing.assert_array_equal(session.labels, labels)
    assert not session.redo()
    session.undo()
    session.paint(2, GROUND, 4)
    assert not session.redo()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("codes", [(0, 1), (1, 0), (7, 2), (3, 8, 0)])
def test_the_cut_of_the_page_is_that_of_the_command(codes, tmp_path):
    """The same numbers, after strokes one by one, of which one was taken away."""
    save_image(IMAGE, tmp_path / "photo.png")
    session = PictureSession(IMAGE, tmp_path / "strokes.png")
    for code, points in zip(codes, (THING, GROUND, [(70.0, 30.0)]), strict=False):
        session.paint(code, points, 5)
    session.paint(codes[0], [(40.0, 20.0), (40.0, 40.0)], 6)
    session.paint(codes[1], [(40.0, 20.0), (40.0, 40.0)], 3)
    session.undo()
    session.save(tmp_path / "page.png")
    cut(*(str(tmp_path / f"{one}.png") for one in ("photo", "strokes", "command")))
    for name in ("{}.png", "{}-outline.png"):
        page, command = (load_image(tmp_path / name.format(one), "") for one in ("page", "command"))
        np.testing.assert_array_equal(page, command)


def test_paint_is_taken_away():
    session = painted()
    session.paint(ERASE, GROUND, 8)
    assert session.classes == [0]
    session.undo()
    assert session.classes == [0, 1]


def test_what_is_hidden_leaves_the_picture_as_it_was():
    session = painted()
    before = session.painted.copy()
    for code, points, width in [
        (12, THING, 4), (-2, THING, 4), (0, [], 4), (0, [(1.0, np.nan)], 4), (0, THING, 0),
        (0, THING, 1e9), (0, [1.0, 2.0], 4),
    ]:  # fmt: skip
        with pytest.raises(InputError, match="stroke"):
            session.paint(code, points, width)
    np.testing.assert_array_equal(session.painted, before)
    assert len(session.strokes) == 2


@pytest.mark.thorough
def test_after_a_kill_the_strokes_are_there(tmp_path):
    session = painted(tmp_path / "strokes.png")
    again = PictureSession(IMAGE, tmp_path / "strokes.png")
    np.testing.assert_array_equal(again.painted, session.painted)
    np.testing.assert_array_equal(again.labels, session.labels)
    again.paint(2, [(70.0, 30.0)], 6)
    again.undo()
    np.testing.assert_array_equal(again.painted, session.painted)


@pytest.mark.thorough
def test_strokes_of_an_editor_are_taken_up(tmp_path):
    pixels = np.zeros((H, W, 4), dtype=np.uint8)
    pixels[28:32, 34:46] = (1, 2, 3, 255)
    pixels[2:6, 4:70] = (255, 0, 255, 255)
    save_image(pixels, tmp_path / "own.png")
    session = PictureSession(IMAGE, tmp_path / "own.png")
    assert [session.colours[code] for code in session.classes] == [(1, 2, 3), (255, 0, 255)]
    session.paint(0, [(10.0, 50.0)], 4)
    codes, colours = load_strokes(tmp_path / "own.png", "strokes")
    assert {tuple(one) for one in colours.tolist()} >= {(1, 2, 3), (255, 0, 255)}
    assert len(colours) == 3
    assert (colours[codes[28:32, 34:46]] == (1, 2, 3)).all()


def test_strokes_of_another_size_are_refused(tmp_path):
    pixels = np.zeros((H, W + 1, 4), dtype=np.uint8)
    pixels[:3] = (1, 2, 3, 255)
    pixels[5:9] = (9, 2, 3, 255)
    save_image(pixels, tmp_path / "own.png")
    with pytest.raises(InputError, match="81 x 60 pixels, the picture 80 x 60"):
        PictureSession(IMAGE, tmp_path / "own.png")


def test_the_labels_are_saved(tmp_path):
    session = PictureSession(IMAGE)
    with pytest.raises(InputError, match="none yet"):
        session.save(tmp_path / "cut.png")
    session = painted()
    files = session.save(tmp_path / "cut.png")
    assert files == [str(tmp_path / "cut.png"), str(tmp_path / "cut-outline.png")]
    np.testing.assert_array_equal(load_label_picture(tmp_path / "cut.png")[0], session.labels)


@pytest.mark.browser
def test_save_asks_before_it_replaces_a_picture(tmp_path):
    pytest.importorskip("panel")
    from mustlink_io.ui.picture_view import PictureView

    session = painted()
    target = tmp_path / "cut.png"
    target.write_bytes(b"somebody's")
    view = PictureView(session, target)
    assert "cut.png is there already: press save again to replace it" in view._save()
    assert target.read_bytes() == b"somebody's"
    assert "written" in view._save()
    assert "written" in view._save()  # its own file


def test_views_differ_and_show_strokes():
    session = painted()
    views = {one: session.shown(one) for one in ("cut", "strokes alone", "parts")}
    assert len({view.tobytes() for view in views.values()}) == 3
    for view in views.values():
        assert (view[session.painted == 0] == session.colours[0]).all()
