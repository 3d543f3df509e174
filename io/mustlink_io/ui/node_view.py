"""Points or a graph in the browser: the map, questions one after another, undo, history."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import store
from mustlink_io.ui.map_view import MapView
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import TABLES, Status, panel

Show = Callable[[int], str]
_COLUMNS = 24  # of a table's row
_LETTERS = 2_000  # of a text
_SIDE = 240  # pixels that a picture is shown with
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


@dataclass(frozen=True)
class ShownRows:
    """A dataset of an HDF5 file whose values were verified: each row is read when it is shown."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, node: int) -> Any:
        """One entry; raises InputError where the file is another one now."""
        row = f"show: {self.path}:{self.name}: row {node} cannot be read"
        with store.refusing(row), h5py.File(self.path) as file:
            found = file[self.name]
            if (found.shape, found.dtype) != (self.shape, self.dtype):
                raise InputError(f"{row}: it has another shape or type now")
            return found[node]


def of_rows(values: Any, names: Sequence[str] = ()) -> Show:
    """Rows of a table or matrix (n, d), the first columns, by their names."""

    def show(node: int) -> str:
        row = np.asarray(values[node]).ravel()[:_COLUMNS]
        heads = [*names[: row.size], *(f"column {at}" for at in range(len(names), row.size))]
        cells = "".join(
            f"<tr><td>{escape(str(head))}</td><td style='text-align:right'>{_number(one)}</td></tr>"
            for head, one in zip(heads, row, strict=True)
        )
        return f"<div style='max-height:260px;overflow:auto'><table>{cells}</table></div>"

    return show


def of_texts(texts: Sequence[Any]) -> Show:
    """Texts (n,), the first 2,000 letters."""

    def show(node: int) -> str:
        text = texts[node]
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        more = " …" if len(words) > _LETTERS else ""
        return f"<p style='white-space:pre-wrap'>{escape(words[:_LETTERS])}{more}</p>"

    return show


def of_images(images: Any) -> Show:
    """Pictures (n, h, w) in grey, from their least to their largest value, or (n, h, w, 3)."""

    def show(node: int) -> str:
        return _image(np.asarray(images[node]), f"row {node}")

    return show


def of_folder(folder: str | Path, n: int) -> Show:
    """Picture files of a folder in the order of their names, one for each of n rows; InputError."""
    files = sorted(one for one in Path(folder).iterdir() if one.suffix.lower() in PICTURES)
    if len(files) != n:
        raise InputError(
            f"show: {len(files)} pictures in {folder}, but {n} rows; give one for each"
        )
    from mustlink_io.formats.photographs import load_image

    def show(node: int) -> str:
        return _image(load_image(files[node], "show"), files[node].name)

    return show


def of_array(found: Any, n: int, where: str) -> Show:
    """Whatever has one entry for each of n rows: texts, rows or pictures; raises InputError."""
    if not len(found.shape) or found.shape[0] != n:
        raise InputError(f"show: {where} has shape {found.shape}, but there are {n} rows")
    if len(found.shape) == 1 and found.dtype.kind in "OSU":
        return of_texts(found)
    if found.dtype.kind not in "biuf":
        raise InputError(f"show: {where} has values of type {found.dtype}; give text or numbers")
    if len(found.shape) == 3 or (len(found.shape) == 4 and found.shape[3] in (3, 4)):
        return of_images(found)
    return of_rows(found)


def _image(pixels: NDArray[Any], name: str) -> str:
    from PIL import Image

    if pixels.dtype != np.uint8:
        values = np.nan_to_num(pixels.astype(np.float64))
        values -= values.min()
        pixels = np.rint(255 * values / max(values.max(), 1e-300)).astype(np.uint8)
    made, scale = Image.fromarray(pixels), _SIDE / max(pixels.shape[:2])
    size = max(1, round(made.width * scale)), max(1, round(made.height * scale))
    out = io.BytesIO()
    made.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX).save(
        out, "PNG"
    )
    data = base64.b64encode(out.getvalue()).decode()
    return f"<img alt='{escape(name, quote=True)}' src='data:image/png;base64,{data}'>"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, np.integer) else f"{value:.4g}"


_BATCH = 10
_KEYS = 30  # classes that have a button


class QuestionsView:
    """Asks about nodes: a button for each cluster, and one for "don't know"."""

    def __init__(
        self,
        session: NodeSession,
        where: MapView,
        show: Show | None,
        status: Status,
        refresh: Callable[[], str],
    ) -> None:
        pn = panel()
        self.session, self.map, self.show = session, where, show
        self._status, self._refresh = status, refresh
        self.waiting: list[int] = []
        self.ask = pn.widgets.Button(name="ask me", button_type="primary")
        self.text = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["question"])
        self.buttons = pn.FlexBox(sizing_mode=None, width=340, gap="4px")
        self.other = pn.widgets.TextInput(
            placeholder="another class, Enter", width=170, visible=False, margin=(2, 10)
        )
        self.other.param.watch(self._typed, "value")
        self.ask.on_click(lambda _: status.during("choosing questions …", self._begin))

    def layout(self) -> Any:
        """The button to begin with, the question, and its answers."""
        return panel().Column(self.ask, self.text, self.buttons, self.other)

    def _begin(self) -> str:
        self.waiting = np.asarray(self.session.questions(_BATCH)).tolist()
        self._next()
        return f"{len(self.waiting)} questions" if self.waiting else "no question is left"

    def _next(self) -> None:
        pn = panel()
        self.map.mark_question(self.waiting[:1])
        self.other.visible = bool(self.waiting)
        self.ask.visible = not self.waiting
        if not self.waiting:
            self.text.object, self.buttons.objects = "", []
            return
        node = self.waiting[0]
        now = escape(self.session.names.get(self.session.labels[node], "in none"))
        shown = self.show(node) if self.show is not None else ""
        self.text.object = (
            f"<b>{escape(self.session.called(node))}</b>, {len(self.waiting)} to go: is now "
            f"{now}. What is it?{shown}"
        )
        choices = list(self.session.choices.items())[:_KEYS]
        unknown = pn.widgets.Button(name="don't know", css_classes=["unknown"], margin=2)
        unknown.on_click(lambda _: self._begun("…", node, None))
        self.buttons.objects = [*(self._button(name, node, one) for one, name in choices), unknown]

    def _button(self, name: str, node: int, value: Any) -> Any:
        made = panel().widgets.Button(name=name, css_classes=["answer"], margin=2)
        made.on_click(
            lambda _: self._begun("clustering …", node, lambda: self.session.choose([node], value))
        )
        return made

    def _typed(self, event: Any) -> None:
        """A class that has no button, or one that is new."""
        words = event.new.strip()
        if words and self.waiting:
            node = self.waiting[0]
            self._begun("clustering …", node, lambda: self.session.label([node], words))
            self.other.value = ""

    def _begun(self, words: str, node: int, answer: Callable[[], None] | None) -> None:
        """Take an answer; a second click on the same button is none to the next question."""
        if self.waiting[:1] == [node]:
            self._status.during(words, lambda: self._answered(node, answer))

    def _answered(self, node: int, answer: Callable[[], None] | None) -> str:
        if self.waiting[:1] != [node]:
            return ""
        if answer is None:
            self.session.unknown([node])
            words = f"{self.session.called(node)} is not asked again"
        else:
            answer()
            words = self._refresh()
        self.waiting = self.waiting[1:]
        self._next()
        return words if self.waiting else f"{words}; no question is left, ask for more"


_SHOWN = 8  # last rows of the history
_SMALL = "img { width: 155px; height: auto; margin-right: 6px; }"  # two of them beside each other


class NodeView:
    """What one tab shows of a `NodeSession`; tabs of one session show the same when reloaded."""

    def __init__(
        self,
        session: NodeSession,
        where: NDArray[np.float32],
        show: Show | None = None,
        output: str | Path | None = None,
    ) -> None:
        pn = panel()
        self.session, self.show, self.output = session, show, output
        self.status = Status()
        self.map = MapView(session, where, self.status, self._chosen)
        self.questions = QuestionsView(session, self.map, show, self.status, self.refresh)
        self.value = pn.widgets.TextInput(
            placeholder="their class, or a name", width=170, margin=(5, 5, 5, 10)
        )
        self.label = pn.widgets.Button(name="label", button_type="primary", disabled=True, margin=5)
        self.name = pn.widgets.Button(
            name="name", disabled=True, margin=5, visible=session.takes_names
        )
        self.together = pn.widgets.Button(
            name="together", disabled=True, visible=session.takes_pairs
        )
        self.apart = pn.widgets.Button(name="apart", disabled=True, visible=session.takes_pairs)
        self.undo = pn.widgets.Button(name="undo")
        self.save = pn.widgets.Button(name="save", visible=output is not None)
        self.picked = pn.pane.HTML(
            "", width=330, stylesheets=[TABLES, _SMALL], css_classes=["picked"]
        )
        self.history = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["history"])
        work = self.status.during
        self.label.on_click(lambda _: work("clustering …", self._label))
        self.name.on_click(lambda _: work("…", self._name))
        self.together.on_click(lambda _: work("clustering …", lambda: self._pair(True)))
        self.apart.on_click(lambda _: work("clustering …", lambda: self._pair(False)))
        self.undo.on_click(lambda _: work("clustering …", self._undo))
        self.save.on_click(lambda _: work("saving …", self._save))
        self._tell()
        self._chosen()
        self.status.say("draw round some nodes to label them, or click two to say what they are")

    def layout(self) -> Any:
        """All of it, for a server or a notebook."""
        pn = panel()
        bar = pn.Row(self.map.colouring, self.undo, self.save)
        side = pn.Column(
            self.picked, pn.Row(self.value, self.label, self.name),
            pn.Row(self.together, self.apart), self.questions.layout(), self.history, width=360,
        )  # fmt: skip
        self.status.hold(bar, side)
        both = pn.FlexBox(
            self.map.layout(), side, align_items="flex-start", sizing_mode="stretch_width"
        )
        return pn.Column(bar, self.status.pane, self.map.key, both, sizing_mode="stretch_width")

    def refresh(self) -> str:
        """Show what is so after an answer, and say it."""
        self.map.refresh()
        self.map.choose([])
        self._chosen()
        self._tell()
        last = self.session.history[-1]
        if not last.seconds:
            return last.words
        doubts = "".join(f"\n{one}" for one in last.warnings)
        return f"{last.words}; {last.moved:.2%} of the nodes moved; {last.seconds:.2f} s{doubts}"

    def _tell(self) -> None:
        steps = "".join(
            f"<tr><td>{escape(step.words)}</td><td>{_share(step.satisfaction)}</td>"
            f"<td style='text-align:right'>{step.moved:.1%}</td></tr>"
            for step in self.session.history[: -_SHOWN - 1 : -1]
        )
        self.history.object = (
            "<table class='steps'><tr><th>answer</th><th>kept</th><th>moved</th></tr>"
            f"{steps}</table>"
        )

    def _chosen(self) -> None:
        nodes = self.map.chosen
        if not nodes.size:
            text = "<b>no node chosen</b>: draw round some, or click one or two"
        elif nodes.size > 2:
            text = f"<b>{nodes.size:,} nodes chosen</b>"
        else:
            called = self.session.names
            shown = "".join(self.show(int(one)) for one in nodes) if self.show else ""
            named = " and ".join(
                f"{escape(self.session.called(one))} "
                f"({escape(called.get(self.session.labels[one], 'in none'))})"
                for one in nodes.tolist()
            )
            text = f"<b>{named}</b>{shown}"
        self.picked.object = text
        self.label.disabled = self.name.disabled = not nodes.size
        self.together.disabled = self.apart.disabled = nodes.size != 2

    def _label(self) -> str:
        self.session.label(self.map.chosen, (self.value.value_input or "").strip())
        return self.refresh()

    def _name(self) -> str:
        self.session.name(self.map.chosen, (self.value.value_input or "").strip())
        return self.refresh()

    def _pair(self, together: bool) -> str:
        first, second = self.map.chosen.tolist()
        self.session.pair(first, second, together)
        return self.refresh()

    def _undo(self) -> str:
        return self.refresh() if self.session.undo() else "nothing to undo"

    def _save(self) -> str:
        assert self.output is not None
        self.session.save(self.output)
        return f"written: {self.output}; mustlink ui {self.output} goes on from it"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
