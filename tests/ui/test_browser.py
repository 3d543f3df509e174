"""The page in a real Chromium: painted on, labelled, asked, reloaded, killed and gone on from."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: make test-ui"
)
pytest.importorskip("panel", reason="Panel is not installed: make test-ui")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make test-ui"),
]
HERE = Path(__file__).parent
N = int(os.environ.get("MUSTLINK_UI_POINTS", "20000"))  # the size: 1000000
WAIT = int(os.environ.get("MUSTLINK_UI_WAIT", "60000"))  # milliseconds


@contextmanager
def process(*arguments):
    """A server, and the address that it tells."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    ) as made:
        try:
            yield made, made.stdout.readline().strip()
        finally:
            made.kill()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser, address):
    """A tab of its own; `asked_for` are the addresses that it loaded."""
    tab = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    tab.asked_for = []
    tab.on("request", lambda one: tab.asked_for.append(one.url))
    tab.goto(address)
    tab.wait_for_selector("canvas", timeout=WAIT)
    tab.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle")
    return tab


def line(tab, name, points):
    """Drag over a figure along points in its data's coordinates."""
    at = tab.evaluate(
        """([name, points]) => {
            const all = Bokeh.documents[0]._all_models.values();
            const figure = [...all].find(one => one.name == name);
            const view = Bokeh.index.find_one(figure);
            const box = view.el.getBoundingClientRect();
            const [x, y] = [view.frame.x_scale, view.frame.y_scale];
            return points.map(p => [box.left + x.compute(p[0]), box.top + y.compute(p[1])]);
        }""",
        [name, points],
    )
    tab.mouse.move(*at[0])
    tab.mouse.down()
    for one in at[1:]:
        tab.mouse.move(*one, steps=8)
    tab.mouse.up()
    return at


def says(tab, words):
    """Wait until the page shows the words; a failure tells what it shows instead."""
    try:
        tab.get_by_text(re.compile(words)).first.wait_for(timeout=WAIT)
    except playwright.TimeoutError as error:
        raise AssertionError(f"no {words!r} in {tab.locator('body').inner_text()!r}") from error


@pytest.fixture
def picture(tmp_path):
    """A bright disc on a dark ground, as a file."""
    from PIL import Image

    y, x = np.mgrid[:120, :160]
    inside = (x - 80) ** 2 + (y - 60) ** 2 < 36**2
    noise = np.random.default_rng(0).normal(0, 12, (120, 160, 3))
    pixels = np.where(inside[..., None], (200, 120, 60), (60, 90, 130)) + noise
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(tmp_path / "disc.png")
    return tmp_path / "disc.png", inside


_SHOWN = """() => {
    const all = [...Bokeh.documents[0]._all_models.values()];
    const figure = all.find(one => one.name == "picture");
    return Array.from(figure.renderers[0].data_source.get_array("image")[0]).join();
}"""


# Nothing is wider than the window, and the map has as many pixels as it has room for.
NARROW = """() => {
    const all = [...Bokeh.documents[0]._all_models.values()];
    const map = all.find(one => one.name == "map");
    const pixels = map.renderers[0].data_source.get_array("image")[0];
    return document.documentElement.scrollWidth <= window.innerWidth
        && pixels.shape[1] == map.inner_width && pixels.shape[0] == map.inner_height;
}"""


def shown_pixels(tab):
    """The picture as the browser has it, as text."""
    return tab.evaluate(_SHOWN)


def test_paint_and_the_cut_follows_and_is_there_after_a_kill(browser, picture):
    from PIL import Image

    path, inside = picture
    command = ("-m", "mustlink_io", "ui", path, "--no-open")
    with process(*command) as (server, address):
        tab = opened(browser, address)
        before = shown_pixels(tab)
        line(tab, "picture", [(70, 60), (90, 60)])
        tab.get_by_text("class 1").nth(1).wait_for(timeout=WAIT)  # in the table, too
        tab.get_by_role("button", name="class 2").click()
        line(tab, "picture", [(10, 10), (150, 10), (150, 110)])
        says(tab, "cut in")
        after = shown_pixels(tab)
        assert after != before
        elsewhere = [one for one in tab.asked_for if not one.startswith(address.split("?")[0])]
        assert [one for one in elsewhere if not one.startswith(("data:", "blob:"))] == []
        tab.reload()
        tab.wait_for_selector("canvas", timeout=WAIT)
        says(tab, "cut in")
        assert shown_pixels(tab) == after
        server.send_signal(signal.SIGKILL)
    with process(*command) as (_, address):
        tab = opened(browser, address)
        says(tab, "cut in")
        assert shown_pixels(tab) == after
        tab.get_by_role("button", name="save").click()
        says(tab, "written: ")
        labels = np.asarray(Image.open(path.with_name("disc-cut.png")))
        assert np.mean((labels == 0) == inside) > 0.98
        line(
            tab, "picture", [(80, 50), (80, 70)]
        )  # wrong: a stroke of the disc's inside as class 1
        tab.get_by_role("button", name="undo").click()
        says(tab, "cut in")


def test_a_stroke_is_of_the_class_whose_button_was_pressed(browser, picture):
    """What the file of strokes says, after every button of the page."""
    from PIL import Image

    path, _ = picture
    strokes = path.with_name("disc-strokes.png")
    with process("-m", "mustlink_io", "ui", path, "--no-open") as (_, address):
        tab = opened(browser, address)

        def press(name):
            tab.get_by_role("button", name=name, exact=True).click()

        def colour(name):
            """The one below the words of a button."""
            shadow = tab.get_by_role("button", name=name, exact=True).evaluate(
                "one => getComputedStyle(one).boxShadow"
            )
            return tuple(int(part) for part in re.findall(r"\d+", shadow)[:3])

        def painted(x, y):
            with Image.open(strokes) as made:
                r, g, b, a = made.convert("RGBA").getpixel((x, y))
            return (r, g, b) if a else None

        def becomes(x, y, wanted):
            """Until the file says so."""
            ends = time.perf_counter() + WAIT / 1000
            while not strokes.exists() or painted(x, y) != wanted:
                assert time.perf_counter() < ends, f"{x}, {y} is not of {wanted}"
                time.sleep(0.1)

        line(tab, "picture", [(60, 60), (100, 60)])
        tab.get_by_text("class 1").nth(1).wait_for(timeout=WAIT)  # in the table, too
        press("class 2")
        line(tab, "picture", [(10, 10), (150, 10)])
        becomes(80, 10, colour("class 2"))
        assert painted(80, 60) == colour("class 1")
        press("+ class")
        line(tab, "picture", [(10, 110), (150, 110)])
        becomes(80, 110, colour("class 3"))
        assert len({colour(f"class {one}") for one in (1, 2, 3)}) == 3
        says(tab, "cut in")
        press("class 1")
        line(tab, "picture", [(20, 30), (20, 90)])
        becomes(20, 60, colour("class 1"))
        press("erase")
        line(tab, "picture", [(20, 30), (20, 90)])
        becomes(20, 60, None)
        press("undo")
        becomes(20, 60, colour("class 1"))
        press("undo")
        becomes(20, 60, None)
        assert painted(80, 110) == colour("class 3")
        seen = set()
        for view in ("cut", "strokes alone", "parts"):
            press(view)
            tab.wait_for_function("() => Bokeh.documents[0].is_idle")
            time.sleep(0.5)
            seen.add(shown_pixels(tab))
        assert len(seen) == 3
        press("save")
        says(tab, "written: ")
        labels = np.asarray(Image.open(path.with_name("disc-cut.png")))
        assert [labels[60, 80], labels[10, 80], labels[110, 80]] == [0, 1, 2]


def test_lasso_answer_reload_kill_and_go_on(browser, tmp_path):
    command = (HERE / "served.py", N, tmp_path, 0)
    with process(*command) as (server, address):
        tab = opened(browser, address)
        corners = [(-7, 1), (-1, 1), (-1, 7), (-7, 7)]
        line(tab, "map", corners)
        says(tab, "nodes chosen")
        chosen = tab.get_by_text(re.compile("[0-9,]+ nodes chosen")).first.inner_text()
        sys.path.insert(0, str(HERE))
        from served import points

        X, _ = points(N)
        expected = ((X > [-7, 1]) & (X < [-1, 7])).all(axis=1)
        count = int(chosen.split()[0].replace(",", ""))
        assert abs(count - expected.sum()) <= 0.005 * N  # a pixel's width along the line
        tab.get_by_role("textbox").first.fill("0")
        tab.get_by_role("button", name="label").click()
        says(tab, "class 0; ")
        tab.evaluate("() => document.activeElement.blur()")
        tab.keyboard.press("Enter")  # of no button and no field: asks
        for left in range(10, 0, -1):
            says(tab, f"{left} to go")
            if N < 100_000:
                says(tab, "a leaf of <")  # as text, not as a tag
            if left == 3:
                box = tab.get_by_placeholder("another class")
                box.fill("3")
                box.press("Enter")
                continue
            names = "don't know" if left == 5 else str(left % 4)
            tab.get_by_role("button", name=names, exact=True).click()
        says(tab, "no question is left")
        given = tab.get_by_label("answers, the last first").locator("option").all_inner_texts()
        assert len(given) == 11  # the lasso's, too
        tab.reload()
        tab.wait_for_selector("canvas", timeout=WAIT)
        says(tab, "node [0-9,]+: class")
        server.send_signal(signal.SIGKILL)
    with process(*command) as (server, address):
        tab = opened(browser, address)
        says(tab, "11 answers from out.h5.answers")  # with the one not known
        tab.get_by_role("button", name="save").click()
        says(tab, "written: ")
        server.send_signal(signal.SIGKILL)
    import mustlink as ml

    told = ml.load(tmp_path / "out.h5").constraints_.labels
    assert abs(int((told >= 0).sum()) - count) <= 20
    with process(*command) as (_, address):
        tab = opened(browser, address)
        says(tab, "1 answers|as fitted")
        line(tab, "map", [(-4, 4)])
        says(tab, r"node [0-9,]+ \(")
        line(tab, "map", [(4, -4)])
        says(tab, r"node [0-9,]+ \(.* and node")
        tab.get_by_role("button", name="apart").click()
        says(tab, "apart; ")
        line(tab, "map", [(-4, 4)])
        says(tab, r"node [0-9,]+ \(")
        tab.get_by_placeholder("their class").fill("oak")
        tab.get_by_role("button", name="label").click()
        says(tab, "no cluster is called so")
        tab.get_by_role("button", name="name").click()
        says(tab, "cluster named oak")
        says(tab, "^■ oak [0-9]")  # in the key of the colours
        tab.get_by_role("button", name="confidence").click()
        says(tab, "the chance that a node is where it belongs")
        tab.set_viewport_size({"width": 420, "height": 800})
        tab.wait_for_function(NARROW)


def last_answer(folder, count):
    """The last answer in the file, once there are `count`."""
    path = folder / "out.h5.answers"
    for _ in range(WAIT // 50):
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        if len(lines) == count:
            return json.loads(lines[-1])
        time.sleep(0.05)
    raise AssertionError(f"not {count} answers but {len(lines)}")


@pytest.mark.parametrize("shift", [0, 1])
def test_what_a_button_says_is_what_is_written(browser, tmp_path, shift):
    """Every button that answers, pressed; the file of answers beside the button's words."""
    with process(HERE / "served.py", 400, tmp_path, 0, shift) as (_, address):
        tab = opened(browser, address)
        tab.get_by_role("button", name="ask me").click()
        for number, left in enumerate(range(10, 0, -1)):
            says(tab, f"{left} to go")
            tab.locator(".working").wait_for(state="detached", timeout=WAIT)  # buttons may change
            words = tab.locator(".answer button").all_inner_texts()
            assert len(words) == 4
            plain = [one.split(" [")[0] for one in words]  # without the key
            classes = [int(re.fullmatch(r"(?:\d \(class )?(\d)\)?", one)[1]) for one in plain]
            assert sorted(classes) == [0, 1, 2, 3]
            assert shift == 0 or any("(class " in one for one in words)
            text = tab.get_by_text(re.compile("^node [0-9]+$")).first.inner_text()
            node, expected = int(text.split()[1]), {"kind": "label"}
            if number < 4 or left == 1:
                tab.get_by_role("button", name=words[number % 4], exact=True).click()
                expected["value"] = classes[number % 4]
            elif number == 4:
                tab.get_by_role("button", name="don't know", exact=True).click()
                expected = {"kind": "unknown"}
            else:  # a button's words, typed
                box = tab.get_by_placeholder("another class")
                box.fill(plain[number % 4])
                box.press("Enter")
                expected["value"] = classes[number % 4]
            written = last_answer(tmp_path, number + 1)
            assert {**written, **expected, "nodes": [node]} == written
        says(tab, "no question is left")
        tab.get_by_role("button", name="undo").click()
        says(tab, "undone: ")
        assert last_answer(tmp_path, 9)["kind"] == "label"
        for count, words, value in ((10, "together", 1), (11, "apart", -1)):
            tab.reload()
            tab.wait_for_selector("canvas", timeout=WAIT)
            tab.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle")
            line(tab, "map", [(-4, 4)])
            says(tab, r"node [0-9,]+ \(")
            line(tab, "map", [(4, -4)])
            says(tab, r"node [0-9,]+ \(.* and node")
            both = re.compile(r"^node [0-9,]+ \(.* and node")
            chosen = tab.get_by_text(both).first.inner_text()
            tab.get_by_role("button", name=words, exact=True).click()
            written = last_answer(tmp_path, count)
            nodes = [int(one) for one in re.findall(r"(?:node|and) (\d+) \(", chosen)]
            expected = {"kind": "pair", "nodes": sorted(nodes), "value": value}
            assert {**written, **expected} == written
        line(tab, "map", [(4, 4)])
        says(tab, r"node [0-9,]+ \(")
        chosen = tab.get_by_text(re.compile(r"^node [0-9]+ \((?!.* and )")).first.inner_text()
        nodes = re.findall(r"(?:node|and) (\d+) \(", chosen)
        for count, button in ((12, "label"), (13, "name")):
            tab.get_by_placeholder("their class").fill("2" if button == "label" else "oak")
            tab.get_by_role("button", name=button, exact=True).click()
            written = last_answer(tmp_path, count)
            assert (written["kind"], written["nodes"]) == (button, [int(nodes[0])])
            if button == "label":
                line(tab, "map", [(4, 4)])
                says(tab, r"^node [0-9]+ \((?!.* and )")
        assert written["value"] == "oak"


def keys(tab, *names):
    for one in names:
        tab.keyboard.press(one)


def asked_node(tab, left):
    """The node of the question with so many to go."""
    says(tab, f"{left} to go")
    text = tab.get_by_text(re.compile("^node [0-9,]+$")).first.inner_text()
    return int(text.split()[1].replace(",", ""))


def test_by_keys_alone(browser, tmp_path):
    """Digits, y, space, arrows, undo and redo; the file of answers after each."""
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        tab = opened(browser, address)
        tab.get_by_role("button", name="ask me").click()
        node = asked_node(tab, 10)
        keys(tab, "3")
        expected = {"kind": "label", "nodes": [node], "value": 3}
        written = last_answer(tmp_path, 1)
        assert {**written, **expected} == written
        assert set(written) == {"kind", "nodes", "value", "id", "when", "who", "guess"}
        node = asked_node(tab, 9)
        text = tab.get_by_text(re.compile("to go: is now")).first.inner_text()
        now = int(re.search(r"is now (\d)", text)[1])
        keys(tab, "y")
        written = last_answer(tmp_path, 2)
        assert (written["nodes"], written["value"]) == ([node], now)
        node = asked_node(tab, 8)
        keys(tab, " ")
        assert last_answer(tmp_path, 3)["kind"] == "unknown"
        other = asked_node(tab, 7)
        keys(tab, "ArrowRight")
        tab.get_by_text(f"node {other}", exact=True).wait_for(state="detached", timeout=WAIT)
        keys(tab, "ArrowLeft")
        tab.get_by_text(f"node {other}", exact=True).wait_for(timeout=WAIT)
        keys(tab, "Control+z")
        assert asked_node(tab, 8) == node
        last_answer(tmp_path, 2)
        keys(tab, "Control+y")
        assert asked_node(tab, 7) == other
        assert last_answer(tmp_path, 3)["nodes"] == [node]
        box = tab.get_by_placeholder("another class")
        box.press_sequentially("1 2")  # letters in a box are no answers
        assert last_answer(tmp_path, 3)["nodes"] == [node]


def test_answers_need_not_wait_for_the_fit(browser, tmp_path):
    """Keys faster than fits: each answers the question that is seen, and is undone alone."""
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        tab = opened(browser, address)
        keys(tab, "Enter")
        nodes = []
        for left, key in ((10, "3"), (9, "2"), (8, "1"), (7, "0")):
            nodes.append(asked_node(tab, left))
            keys(tab, key)
        last_answer(tmp_path, 4)
        lines = (tmp_path / "out.h5.answers").read_text().splitlines()[1:]
        written = [(one["nodes"], one["value"]) for one in map(json.loads, lines)]
        assert written == [([node], 3 - at) for at, node in enumerate(nodes)]
        for left, node in ((7, nodes[3]), (8, nodes[2])):
            keys(tab, "Control+z")
            assert asked_node(tab, left) == node
        assert last_answer(tmp_path, 2)["nodes"] == [nodes[1]]


def test_a_second_tab_shows_what_the_first_does(browser, tmp_path):
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        first, second = opened(browser, address), opened(browser, address)
        first.get_by_role("button", name="ask me").click()
        assert asked_node(first, 10) == asked_node(second, 10)
        keys(first, "3")
        node = asked_node(first, 9)
        says(second, "in another tab: node")
        assert asked_node(second, 9) == node
        keys(second, "2")
        says(first, "in another tab: node")
        asked_node(first, 8)
        assert last_answer(tmp_path, 2)["nodes"] == [node]


def test_the_legend_is_changed_in_all_tabs_and_marked_rows_are_left_out(browser, tmp_path):
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        tab, other = opened(browser, address), opened(browser, address)
        other.get_by_role("button", name="least sure").click()
        asked_node(other, 10)
        tab.get_by_role("button", name="legend").click()
        tab.get_by_label("sorted by").select_option("name")
        tab.get_by_label("class").first.select_option("2")
        tab.get_by_label("is called").fill("ash")
        tab.get_by_role("button", name="rename").click()
        for one in (tab, other):
            says(one, "^■ ash [0-9]")
        assert "ash" in other.get_by_label("rows by doubt").inner_text()
        tab.get_by_label("colour").fill("#123456")
        for one in (tab, other):
            one.locator("b[style*='rgb(18, 52, 86)'], b[style*='#123456']").wait_for(timeout=WAIT)
        line(tab, "map", [(-7, 7), (2, 7), (4, 4), (-1, 1), (-7, 1), (-7, 7)])
        says(tab, "in another cluster than most")
        tab.get_by_role("button", name="leave out the marked ones").click()
        says(tab, "[0-9]+ left out")


def test_names_colours_flags_and_guesses_are_there_after_a_kill(browser, tmp_path):
    seen = "b[style*='rgb(18, 52, 86)'], b[style*='#123456']"
    with process(HERE / "served.py", 400, tmp_path, 0) as (server, address):
        tab = opened(browser, address)
        tab.get_by_role("button", name="legend").click()
        tab.get_by_label("class").first.select_option("2")
        tab.get_by_label("is called").fill("ash")
        tab.get_by_role("button", name="rename").click()
        says(tab, "^■ ash [0-9]")
        tab.get_by_label("colour").fill("#123456")
        tab.locator(seen).wait_for(timeout=WAIT)
        tab.get_by_role("button", name="ask me").click()
        node = asked_node(tab, 10)
        keys(tab, str((node + 1) % 4))  # the truth is node % 4
        says(tab, "0 of the last 1")
        keys(tab, str(asked_node(tab, 9) % 4))
        says(tab, "1 of the last 2")
        line(tab, "map", [(-4, 4)])
        says(tab, r"node [0-9,]+ \(")
        line(tab, "map", [(4, -4)])
        says(tab, r"node [0-9,]+ \(.* and node")
        tab.get_by_role("button", name="together").click()
        tab.locator(".flags summary").click(timeout=WAIT)  # the others are folded below the first
        says(tab, "of 1 pairs is not kept")
        server.send_signal(signal.SIGKILL)
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        tab = opened(browser, address)
        for words in ("^■ ash [0-9]", "1 of the last 2"):
            says(tab, words)
        tab.locator(".flags summary").click(timeout=WAIT)
        says(tab, "of 1 pairs is not kept")
        tab.locator(seen).wait_for(timeout=WAIT)


def test_one_answer_is_taken_back_and_asked_again(browser, tmp_path):
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        tab = opened(browser, address)
        tab.get_by_role("button", name="ask me").click()
        nodes = []
        for left, key in ((10, "3"), (9, "2"), (8, "1")):
            nodes.append(asked_node(tab, left))
            keys(tab, key)
            last_answer(tmp_path, 11 - left)
        asked_node(tab, 7)
        tab.locator("option", has_text=f"3: node {nodes[2]}").wait_for(state="attached")
        tab.get_by_role("combobox").select_option(label=f"2: node {nodes[1]}: class 2")
        tab.get_by_role("button", name="ask again").click()
        assert asked_node(tab, 8) == nodes[1]
        keys(tab, "0")
        asked_node(tab, 7)
        written = last_answer(tmp_path, 3)
        assert (written["nodes"], written["value"]) == ([nodes[1]], 0)
        tab.get_by_role("button", name="export answers").click()
        says(tab, "written: ")
        table = (tmp_path / "out.h5.answers.csv").read_text().splitlines()
        assert table[0] == "row,name,when,who,answer"
        assert [one.split(",")[0] for one in table[1:]] == [str(nodes[at]) for at in (0, 2, 1)]


def test_what_is_answered_while_nothing_is_connected_is_not_lost(browser, tmp_path):
    """After a kill the page says so; the answer is in the browser, then in the file."""
    command = (HERE / "served.py", 400, tmp_path, 0)
    with process(*command) as (server, address):
        tab = opened(browser, address)
        tab.get_by_role("button", name="ask me").click()
        node = asked_node(tab, 10)
        server.send_signal(signal.SIGKILL)
        server.wait()
        says(tab, "connection lost, trying again")
        tab.get_by_role("button", name="3", exact=True).click()
        says(tab, "1 answer kept in this browser")
    assert not (tmp_path / "out.h5.answers").exists()
    with process(*command) as (_, address):
        again = tab.context.new_page()
        again.goto(address)
        written = last_answer(tmp_path, 1)
        assert (written["nodes"], written["value"]) == ([node], 3)
        says(tab, "this page is of a program that ended")
        says(again, f"node {node}: class 3")
        again.reload()
        says(again, f"node {node}: class 3")
        last_answer(tmp_path, 1)  # once


def test_question_and_buttons_are_above_the_fold(browser, tmp_path):
    with process(HERE / "served.py", 400, tmp_path, 0) as (_, address):
        for wide, high in ((1366, 768), (1440, 900), (1920, 1080)):
            tab = opened(browser, address)
            tab.set_viewport_size({"width": wide, "height": high})
            if tab.get_by_role("button", name="ask me").is_visible():
                tab.get_by_role("button", name="ask me").click()
            asked_node(tab, 10)
            box = tab.get_by_role("button", name="don't know").bounding_box()
            assert box["y"] + box["height"] < high
            assert box["x"] + box["width"] <= wide


def status_of(address, headers=None):
    try:
        request = urllib.request.Request(address, headers=headers or {})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def test_who_has_no_token_is_refused(browser, picture):
    path, _ = picture
    command = ("-m", "mustlink_io", "ui", path, "--no-open")
    with process(*command) as (_, address), process(*command) as (_, other):
        place, token = address.split("?token=")
        assert len(token) >= 32
        assert token not in other
        good, headers = status_of(address)
        assert good == 200
        cookie = headers["Set-Cookie"].split(";")[0]
        assert "HttpOnly" in headers["Set-Cookie"]
        host = urllib.parse.urlsplit(place)
        origin, path = f"http://{host.netloc}", host.path  # cookies do not know ports
        assert len(path) >= 32
        assert f"Path={path};" in headers["Set-Cookie"]
        assert path not in other
        assert status_of(f"{origin}/?token={token}")[0] == 404
        assert status_of(place, {"Cookie": cookie})[0] == 200
        wrong = [place, f"{place}?token=", f"{place}?token={token[:-1]}", f"{place}?token={token}x",
                 other.split("?")[0] + f"?token={token}", f"{place}metadata",
                 f"{place}autoload.js?bokeh-autoload-element=1"]  # fmt: skip
        assert [status_of(one)[0] for one in wrong] == [403] * len(wrong)
        assert refusal(place, {"Origin": origin}) == 403
        assert refusal(place, {"Origin": "http://example.org", "Cookie": cookie}) == 403
        assert refusal(place, {"Origin": origin, "Cookie": cookie}) is None
        assert status_of(other.split("?")[0], {"Cookie": cookie})[0] == 403
        tab = browser.new_context().new_page()
        assert tab.goto(f"{place}?token=guessed").status == 403


def refusal(place, headers):
    """Status with which a socket is refused, None where it is not."""
    from tornado.httpclient import HTTPClientError, HTTPRequest
    from tornado.websocket import websocket_connect

    async def connect():
        address = place.replace("http:", "ws:") + "ws"
        made = await websocket_connect(HTTPRequest(address, headers=headers))
        made.close()

    with ThreadPoolExecutor(1) as other:  # Playwright has a loop in this thread
        error = other.submit(lambda: asyncio.run(connect())).exception()
    assert error is None or isinstance(error, HTTPClientError)
    return None if error is None else error.code


def ended(*arguments, **env):
    found = subprocess.run(
        [sys.executable, "-m", "mustlink_io", "ui", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **env}, check=False,
    )  # fmt: skip
    return found.returncode, found.stderr.strip()


def test_what_is_wrong_is_a_line(picture):
    path, _ = picture
    with process("-m", "mustlink_io", "ui", path, "--no-open") as (_, address):
        port = re.search(r":(\d+)/", address)[1]
        code, said = ended(path, "--no-open", "--port", port)
        assert (code, said.count("\n")) == (2, 0)
        assert "cannot be had" in said
    code, said = ended(path, DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
    assert (code, said.count("\n")) == (2, 0)
    assert "--no-open" in said


def test_a_class_that_is_typed_has_a_button_and_a_key(browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(90, 2)) + 8 * np.eye(3)[np.arange(90) % 3][:, :2]
    rows = "".join(f"tree {at},{a:.4g},{b:.4g}\n" for at, (a, b) in enumerate(X))
    (tmp_path / "trees.csv").write_text(f"tree,a,b\n{rows}")
    few = "".join(f"tree {at},{('oak', 'elm', 'ash')[at % 3]}\n" for at in range(9))
    (tmp_path / "few.csv").write_text(f"tree,kind\n{few}")
    files = tmp_path / "trees.csv", "--labels", tmp_path / "few.csv", "-k", 3
    with process("-m", "mustlink_io", "ui", *files, "--no-open") as (_, address):
        tab = opened(browser, address)
        keys(tab, "Enter")
        says(tab, "10 to go")
        box = tab.get_by_placeholder("another class")
        for word, doubted in (("fir", False), ("elmm", True), ("elm", False)):
            box.fill(word)
            box.press("Enter")
            says(tab, "did you mean elm" if doubted else f"class {word}; ")
            assert box.input_value() == ""
        tab.get_by_role("button", name="fir [f]").wait_for(timeout=WAIT)
        tab.evaluate("() => document.activeElement.blur()")
        keys(tab, "f")
        says(tab, "7 to go")
        lines = (tmp_path / "trees.ui.h5.answers").read_text().splitlines()[1:]
        assert [json.loads(one)["value"] for one in lines][::2] == ["fir", "fir"]
