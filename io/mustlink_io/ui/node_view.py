"""Points or a graph in the browser: the map, questions one after another, undo, history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.shown import COLUMNS, Show, of_texts
from mustlink_io.hdf5 import store, writing
from mustlink_io.jobs.carried import named_in
from mustlink_io.jobs.points import RowSource
from mustlink_io.ui.classes import is_known
from mustlink_io.ui.map_view import MapView
from mustlink_io.ui.node_session import BATCH, NodeSession
from mustlink_io.ui.parts import TABLES, Channel, Status, asked_first, keys_of, later, panel

_IN_LINE = 8  # columns of a table's row in a line
_ROWS, _WORDS = 20_000, 50  # that tell of a column, and words that it may have
_AT_ONCE, _FIRST = 12, 5  # columns that are seen without scrolling, and that come first of more


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows as their table has them."""

    source: RowSource

    def _cells(self, node: int) -> list[tuple[str, str]]:
        cells = zip(self.source.titles, self.source.cells(node), strict=True)
        return [(store.text(title), store.text(one)) for title, one in cells]

    def __call__(self, node: int) -> str:
        """For a question: a table; of many columns those first that set the row apart.

        Texts that were clustered are a paragraph above it.
        """
        cells, text = self._cells(node), self.source.text
        shown = "" if text is None else of_texts(self.source.columns[text][[node]].tolist())(0)
        at = [one for one, title in enumerate(self.source.titles) if title != text]
        if len(at) > _AT_ONCE:
            apart = self._apart(node)
            first = sorted(at, key=lambda one: -apart[one])[:_FIRST]
            at = [*first, *(one for one in at if one not in first)]
        rows = "".join(
            f"<tr><td>{escape(cells[one][0])}</td><td>{escape(cells[one][1])}</td></tr>"
            for one in at[:COLUMNS]
        )
        more = f"<p>and {len(at) - COLUMNS} more columns</p>" if len(at) > COLUMNS else ""
        return (
            f"<div style='max-height:260px;overflow:auto'>{shown}<table>{rows}</table>{more}</div>"
        )

    def _apart(self, node: int) -> list[float]:
        """By how many deviations of its column a cell is away from the mean, 0 where it is empty.

        A word is a column of 0 and 1, unless its column has many words.
        """
        found = []
        for of, (cells, words) in zip(self.source.columns.values(), self._sample, strict=True):
            if of.dtype.kind == "O":
                share = max(words[of[node]], 1) / cells.size
                apart = ((1 - share) / share) ** 0.5 if of[node] and len(words) <= _WORDS else 0.0
            else:
                there = cells[np.isfinite(cells)]
                apart = abs(of[node] - there.mean()) / (there.std() or np.inf) if there.size else 0
            found.append(float(apart) if np.isfinite(apart) else 0.0)
        return found

    @cached_property
    def _sample(self) -> list[tuple[NDArray[Any], Counter[str]]]:
        """Of every column the cells of some rows, and how many have a word."""
        found = []
        for of in self.source.columns.values():
            cells = of[:: -(-of.size // _ROWS)]
            found.append((cells, Counter(cells.tolist() if of.dtype.kind == "O" else ())))
        return found

    def line(self, node: int) -> str:
        """For the mouse above it: a line."""
        return ", ".join(f"{title} {one[:40]}" for title, one in self._cells(node)[:_IN_LINE])


_LISTED = 200  # rows in doubt in a list, and last answers that can be taken back alone
_OTHER = "another class, Enter"  # by which the page's script knows the field
_KEYS = 30  # classes that have a button
_CHOOSING, _CLUSTERING = "choosing questions …", "clustering …"


class QuestionsView:
    """Asks about nodes: a button and a key for each cluster, and one for "don't know".

    Questions are those of the session, `NodeSession.waiting`, in every tab.
    """

    def __init__(
        self,
        session: NodeSession,
        where: MapView,
        show: Show | None,
        status: Status,
        changed: Callable[[], str],
    ) -> None:
        pn = panel()
        from bokeh.models import Div

        self.session, self.map, self.show = session, where, show
        self._status, self._changed = status, changed
        self._asked: tuple[Any, ...] = ()
        self._shown: dict[int, str] = {}  # what is shown of the rows that are asked about
        self._sent: list[dict[str, Any]] = []  # answers that wait for a fit
        self._sure: dict[int, float] = {}  # rows of the list, and how sure each was
        self.ask = pn.widgets.Button(name="ask me", button_type="primary")
        self.doubtful = pn.widgets.Button(name="least sure", visible=session.tells_confidence)
        self.listed = pn.widgets.Select(
            name="rows by doubt, the least sure first", options={}, size=8, width=330, visible=False
        )
        self.listed.param.watch(lambda _: self._point(), "value")
        self.text = Div(
            width=330, disable_math=True, stylesheets=[TABLES], css_classes=["question"]
        )
        self.buttons = pn.FlexBox(sizing_mode=None, width=340, gap="4px", margin=(0, 8))
        self.other = pn.widgets.TextInput(
            placeholder=_OTHER, width=170, visible=False, margin=(2, 10)
        )
        self.ask.on_click(lambda _: status.during(_CHOOSING, self._begin))
        self.doubtful.on_click(lambda _: status.during(_CHOOSING, self._doubt))
        star = where.question
        self.channel = Channel(session.place, self._came, self._commanded, self.text, star)

    def layout(self) -> Any:
        """The button to begin with, the question, and its answers."""
        pn = panel()
        begin = pn.Row(self.ask, self.doubtful)
        text = pn.pane.Bokeh(self.text, margin=(5, 10))
        parts = begin, text, self.buttons, self.other, self.listed
        return pn.Column(*parts, *self.channel.layout())

    def _begin(self) -> str:
        self.session.ask()
        self.refresh()
        return self.asked()

    def asked(self) -> str:
        """How many questions wait, or that they are chosen."""
        count = len(self.session.waiting)
        none = _CHOOSING if self.session.asks else "no question is left"
        return f"{count} questions" if count else none

    def _doubt(self) -> str:
        rows, sure = self.session.doubtful(_LISTED), self.session.confidence
        self._sure = {row: float(sure[row]) for row in rows}
        self.listed.visible = bool(rows)
        self.session.ask_about(rows[:BATCH])
        self.refresh()
        return self.asked()

    def _list(self) -> None:
        """Write what each row of the list is now."""
        session = self.session
        names = session.names
        options = {
            f"{session.called(row)}: {names.get(session.labels[row], 'in none')} {sure:.2f}": row
            for row, sure in self._sure.items()
        }
        if options != self.listed.options:
            self.listed.options = options

    def _point(self) -> None:
        """Choose the row of the list on the map, and ask about it."""
        if self.listed.value is not None:
            self.session.ask_first(self.listed.value)
            self.refresh()

    def refresh(self) -> None:
        """Show the question that is the first now; made anew only where it is another."""
        pn, waiting = panel(), self.session.waiting
        self._list()
        choices = list(self.session.choices.items())[:_KEYS]
        asked = (*waiting, *choices, *(self.session.labels[waiting[:BATCH]].tolist()))
        if asked == self._asked:
            return
        self._asked = asked
        self.map.mark_question(waiting[:1])
        self.other.visible = bool(waiting)
        self.ask.visible = not waiting
        self.doubtful.visible = not waiting and self.session.tells_confidence
        if not waiting:
            self.text.text, self.buttons.objects = "", []
            self.channel.ask({})
            return
        show = self.show or (lambda _: "")
        self._shown = {one: self._shown.get(one) or show(one) for one in waiting[:BATCH]}
        classes = {name: one for one, name in choices}
        questions = [self._question(at, classes) for at in range(len(self._shown))]
        self.text.text = questions[0]["text"]
        keys = keys_of([name for _, name in choices])
        offered = [
            {"value": one, "key": key, "label": name if key in ("", name) else f"{name} [{key}]"}
            for (one, name), key in zip(choices, keys, strict=True)
        ]
        self.channel.ask({"questions": questions, "choices": offered, "other": _OTHER})
        # What they do the page's script knows.
        kinds = [*((one["label"], "answer") for one in offered), ("don't know", "unknown")]
        self.buttons.objects = [
            pn.widgets.Button(name=name, css_classes=[kind], margin=2) for name, kind in kinds
        ]

    def _question(self, at: int, classes: Mapping[str, Any]) -> dict[str, Any]:
        """What is asked about a waiting node, and where it is on the map; `classes` by name."""
        session, node = self.session, self.session.waiting[at]
        now = session.names.get(session.labels[node], "in none")
        now_is = classes.get(now)
        yes = "" if now_is is None else ", y: as now"
        text = (
            f"<b>{escape(session.called(node))}</b>, {len(session.waiting) - at} to go: is now "
            f"{escape(now)}. What is it? <small>(space: don't know{yes}, → another)</small>"
            f"{self._shown[node]}"
        )
        return {"node": node, "now": now_is, "text": text, "at": self.map.where[node].tolist()}

    def _came(self, entries: list[dict[str, Any]]) -> None:
        """Answers of the browser, which are told to be on disk when they are.

        Those that come before the last ones are fitted are all fitted at once.
        """
        if self._sent:
            self._sent += entries
            return
        self._sent = sent = [*entries]

        def work() -> str:
            if self._sent is sent:
                self._sent = []
            answers, wrong = [], []
            for one in sent:
                try:
                    answers.append(self.session.read(one))
                except (InputError, TypeError, KeyError, ValueError) as error:
                    wrong.append(" ".join(str(error).split()))
            wrong += self.session.take_each(answers) if answers else []
            self.channel.written([one["id"] for one in sent])
            words = self._answered()
            if wrong:
                raise InputError("; ".join(wrong))
            return words

        self._status.during(_CLUSTERING, work)

    def _answered(self) -> str:
        words = self._changed()
        return words if self.session.waiting else f"{words}; no question is left: Enter asks more"

    def _turn(self, steps: int) -> None:
        self.session.turn(steps)
        self.refresh()

    def _commanded(self, command: str) -> None:
        self._sent = []  # answers that come later are taken later
        if command == "ask":
            self._status.during(_CHOOSING, self._begin)
        elif command in ("next", "previous"):
            later(lambda: self._turn(1 if command == "next" else -1))
        else:
            self.command(command)

    command: Callable[[str], None] = staticmethod(lambda _: None)


_SHOWN = 8  # last rows of the history
_SMALL = """
img { width: 155px; height: auto; margin-right: 6px; }
.rows { max-height: 230px; overflow: auto; margin-top: 4px; }
.rows div { display: inline-block; vertical-align: top; max-width: 96px; max-height: 96px;
            overflow: hidden; margin: 0 4px 4px 0; padding: 2px; border: 2px solid #d9dfe4; }
.rows div.foreign { border-color: #d55e00; }
.rows div div, .rows div table { border: none; font-size: 10px; }
.rows img { width: 70px; margin: 0; display: block; }
"""  # two of them beside each other, or many small ones
_IN_GRID = 24
_FLAGS = """
:host { background: #fdf1ea; border-left: 4px solid #d55e00; color: #1f2933; }
b { color: #d55e00; }
summary { cursor: pointer; }
details:not([open]) summary { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
ul { margin: 2px 0; max-height: 30vh; overflow: auto; }
"""


class NodeView:
    """What one tab shows of a `NodeSession`; what is done in one tab is shown in all."""

    def __init__(
        self,
        session: NodeSession,
        where: NDArray[np.float32],
        show: Show | None = None,
        output: str | Path | None = None,
    ) -> None:
        pn = panel()
        self.session, self.show, self.output = session, show, output
        self._seen = session.answers, session.history[-1]  # which are shown
        self._own = False  # whether the last ones were given in this tab
        self.status = Status()
        self.status.busy = lambda: session.is_fitting or session.asks
        self.map = MapView(session, where, self.status, self._chosen, self.refresh)
        self.map.values = getattr(show, "line", None)
        self.questions = QuestionsView(session, self.map, show, self.status, self.refresh)
        self.questions.command = self._command
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
        self.only = pn.widgets.Button(name="leave out the marked ones", visible=False)
        self.undo = pn.widgets.Button(name="undo")
        self.redo = pn.widgets.Button(name="redo")
        self.export = pn.widgets.Button(name="export answers", visible=output is not None)
        self.given = pn.widgets.Select(name="answers, the last first", options={}, width=330)
        self.back = pn.widgets.Button(name="take back")
        self.again = pn.widgets.Button(name="ask again")
        self.save = pn.widgets.Button(name="save", visible=output is not None)
        self.picked = pn.pane.HTML(
            "", width=330, stylesheets=[TABLES, _SMALL], css_classes=["picked"]
        )
        self.flags = pn.pane.HTML(
            "", stylesheets=[_FLAGS], css_classes=["flags"], sizing_mode="stretch_width",
            margin=(0, 10),
        )  # fmt: skip
        self.guessed = pn.pane.HTML("", width=330, css_classes=["guessed"])
        self.history = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["history"])
        work = self.status.during
        self.label.on_click(lambda _: work(_CLUSTERING, self._label))
        self.name.on_click(lambda _: work("…", self._name))
        self.together.on_click(lambda _: work(_CLUSTERING, lambda: self._pair(True)))
        self.apart.on_click(lambda _: work(_CLUSTERING, lambda: self._pair(False)))
        self.only.on_click(lambda _: work("…", self._leave_out))
        self.undo.on_click(lambda _: self._command("undo"))
        self.redo.on_click(lambda _: self._command("redo"))
        self.back.on_click(lambda _: work(_CLUSTERING, lambda: self._one(session.take_back)))
        self.again.on_click(lambda _: work(_CLUSTERING, lambda: self._one(session.ask_again)))
        self.export.on_click(lambda _: work("writing …", self._export))
        self.save.on_click(lambda _: self._settled("saving …", self._save))
        self._tell()
        self._chosen()
        self._follow()
        self.questions.refresh()
        self.status.say("draw round some nodes to label them, or click two to say what they are")

    def layout(self) -> Any:
        """All of it, for a server or a notebook."""
        pn = panel()
        bar = pn.FlexBox(self.map.colouring, self.undo, self.redo, self.save, self.export)
        below = pn.Column(
            self.picked, self.only,
            pn.Row(self.value, self.label, self.name),
            pn.Row(self.together, self.apart), self.guessed, self.history, self.given,
            pn.Row(self.back, self.again), width=360,
        )  # fmt: skip
        self.status.hold(bar, below)  # questions can be answered while others are fitted
        side = pn.Column(self.questions.layout(), below, width=360)
        both = pn.FlexBox(
            self.map.layout(), side, align_items="flex-start", sizing_mode="stretch_width"
        )
        above = self.flags, bar, self.status.pane, self.map.legend.key, self.map.hovered
        return pn.Column(*above, both, self.map.legend.layout(), sizing_mode="stretch_width")

    def _follow(self) -> None:
        """Show what other tabs do, as long as this one is there."""
        state, session = panel().state, self.session
        document = state.curdoc
        if document is None:
            return

        session.go_beside_loop()

        def show() -> None:
            with panel().io.hold(document):
                is_own = self._own and session.answers is self._seen[0]
                if (session.answers, session.history[-1]) == self._seen:  # other questions
                    self.questions.refresh()
                    if self.status.pane.object == _CHOOSING:
                        self.status.say(self.questions.asked())
                else:
                    words = self.refresh()
                    self.status.say(words if is_own else f"in another tab: {words}")
                    self._own = is_own

        def tell() -> None:
            if state.curdoc is not document:
                document.add_next_tick_callback(show)

        def gone(_: Any) -> None:
            if tell in session.listeners:
                session.listeners.remove(tell)

        session.listeners.append(tell)
        document.on_session_destroyed(gone)

    def _command(self, command: str) -> None:
        """What a key or a button says: undo, redo, together, apart."""
        if command in ("undo", "redo"):
            self.status.during(_CLUSTERING, lambda: self._step(command))
        elif command in ("together", "apart") and not self.together.disabled:
            self.status.during(_CLUSTERING, lambda: self._pair(command == "together"))

    def _settled(self, words: str, work: Callable[[], str]) -> None:
        """Do what needs the fit to all answers, as soon as it is there."""
        document, listeners = panel().state.curdoc, self.session.listeners

        def begin() -> None:
            if not self.session.is_fitting:
                if begin in listeners:
                    listeners.remove(begin)
                document.add_next_tick_callback(lambda: self.status.during(words, work))

        if self.session.is_fitting:
            listeners.append(begin)
        else:
            self.status.during(words, work)

    def refresh(self) -> str:
        """Show what is so after an answer, and say it; rows that are chosen stay so."""
        self.map.refresh()
        self._chosen()
        self._tell()
        self.questions.refresh()
        last, self._own = self.session.history[-1], True
        self._seen = self.session.answers, last
        if self.session.is_fitting:
            return _CLUSTERING
        if not last.seconds and not last.moved:
            return last.words
        return f"{last.words}; {last.moved:.2%} of the rows moved; {last.seconds:.2f} s"

    def _tell(self) -> None:
        if not self.session.is_fitting:  # of what is not fitted yet they would warn
            found = flags(self.session)
            self.flags.object, self.flags.visible = flags_html(found), bool(found)
        self.guessed.object = guessed_html(self.session.guesses)
        self.guessed.visible = bool(self.session.guesses)
        steps = "".join(
            f"<tr><td>{escape(step.words)}</td><td>{_share(step.satisfaction)}</td>"
            f"<td style='text-align:right'>{step.moved:.1%}</td></tr>"
            for step in self.session.history[: -_SHOWN - 1 : -1]
        )
        self.history.object = (
            "<table class='steps'><tr><th>answer</th><th>kept</th><th>moved</th></tr>"
            f"{steps}</table>"
        )
        answers, before = self.session.answers, list(self.given.options.values())
        listed = list(enumerate(answers, 1))[: -_LISTED - 1 : -1]
        words = self.session.words([one for _, one in listed])
        options = {f"{at}: {said}": one for (at, one), said in zip(listed, words, strict=True)}
        # The last, unless a person chose another that is still there.
        chosen = self.given.value
        if chosen in before[:1] or chosen not in answers:
            chosen = answers[-1] if answers else None
        self.given.param.update(options=options, value=chosen)
        self.given.visible = self.back.visible = self.again.visible = bool(answers)

    def _chosen(self) -> None:
        nodes = self.map.chosen
        self.only.visible = False
        if not nodes.size:
            text = "<b>no node chosen</b>: draw round some, or click one or two"
        elif nodes.size > 2:
            text = self._grid(nodes)
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

    def _foreign(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the chosen rows (m,) are in another cluster than most of them."""
        kinds, codes = np.unique(np.asarray(self.session.labels)[nodes], return_inverse=True)
        return np.asarray(codes != np.bincount(codes, minlength=kinds.size).argmax())

    def _grid(self, nodes: NDArray[np.int64]) -> str:
        """Some of many chosen rows beside each other, those that look foreign first and marked."""
        other = self._foreign(nodes)
        self.only.visible = bool(other.any())
        words = f"<b>{nodes.size:,} nodes chosen</b>"
        if other.any():
            words += f", {other.sum():,} in another cluster than most"
        some = [*nodes[other][: _IN_GRID // 2], *nodes[~other]][:_IN_GRID]
        foreign = set(nodes[other].tolist())
        cells = "".join(
            f"<div class='{'foreign' if int(one) in foreign else 'own'}'>"
            f"{escape(self.session.called(int(one)))}"
            f"{self._in_short(int(one))}</div>"
            for one in some
        )
        return f"{words}<div class='rows'>{cells}</div>"

    def _in_short(self, node: int) -> str:
        """A row in a cell of the grid, of a table in a line: a table is too wide."""
        line = getattr(self.show, "line", None)
        if line is not None:
            return f"<br><small>{escape(line(node))}</small>"
        return self.show(node) if self.show else ""

    def _leave_out(self) -> str:
        nodes = self.map.chosen
        left = nodes[~self._foreign(nodes)]
        self.map.choose(left)
        self._chosen()
        return f"{nodes.size - left.size:,} left out"

    def _label(self) -> str:
        self.session.label(self.map.chosen, (self.value.value_input or "").strip())
        return self._done()

    def _name(self) -> str:
        self.session.name(self.map.chosen, (self.value.value_input or "").strip())
        return self._done()

    def _pair(self, together: bool) -> str:
        first, second = self.map.chosen.tolist()
        self.session.pair(first, second, together)
        return self._done()

    def _done(self) -> str:
        """The chosen rows are answered."""
        self.map.choose([])
        return self.refresh()

    def _step(self, command: str) -> str:
        done = self.session.undo() if command == "undo" else self.session.redo()
        return self.refresh() if done else f"nothing to {command}"

    def _one(self, change: Callable[[int], None]) -> str:
        """Do something with the answer that is chosen."""
        change(self.session.answers.index(self.given.value))
        return self.refresh()

    def _export(self) -> str:
        assert self.output is not None
        target = Path(f"{self.output}.answers.csv")
        first = asked_first([target], self.session.may_replace, "export answers")
        if first:
            return first
        with writing.atomic(target) as temporary:
            temporary.write_text(self.session.table(), encoding="utf-8")
        return f"written: {target}"

    def _save(self) -> str:
        """Write the model; what is there already and was not written here is asked about first."""
        assert self.output is not None
        first = asked_first([Path(self.output)], self.session.may_replace, "save")
        if first:
            return first
        self.session.save(self.output)
        return f"written: {self.output}; mustlink ui {self.output} goes on from it"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


# --- What is seen first: red flags, and how often the fit knew an answer before it was given

_NAMED = 3  # rows or pairs that a flag names
_WINDOW = 20  # last answers of a share
_WIDE, _HIGH = 300, 34  # pixels of the line


def flags(session: NodeSession) -> list[str]:
    """Why not to rely on what is shown, a sentence each, the answers of the person first.

    Labels that their cluster does not have, pairs that are not kept, classes without a cluster;
    then the warnings of the fit. Cost O(n).
    """
    found = [*_alone(session), *_disagreeing(session), *_broken(session)]
    warned = named_in(session.estimator.report_.warnings, session.names)
    return [*found, *(" ".join(one.split()) for one in warned)]


def _disagreeing(session: NodeSession) -> list[str]:
    known = session.known_labels
    rows = np.flatnonzero(is_known(known))
    now = np.array(session.classes_now(rows), dtype=object)
    others = rows[now != known[rows].astype(object)]
    if not others.size:
        return []
    is_one = others.size == 1
    return [
        f"{others.size:,} of {rows.size:,} labels {'is' if is_one else 'are'} answered otherwise: "
        f"{_some(session, others[:_NAMED].tolist(), others.size)}; look at "
        f"{'it' if is_one else 'them'}, or take {'it' if is_one else 'them'} back"
    ]


def _alone(session: NodeSession) -> list[str]:
    """Classes that no cluster stands for."""
    known = session.known_labels
    there = {session.class_of(one) for one in session.groups}
    classes, count = np.unique(known[is_known(known)], return_counts=True)
    return [
        f"no cluster stands for {session.choices[one]}, the label of {size:,} "
        f"row{'s' if size > 1 else ''}: label more of it, or take more clusters"
        for one, size in zip(classes.tolist(), count.tolist(), strict=True)
        if one not in there
    ]


def _broken(session: NodeSession) -> list[str]:
    if not session.takes_pairs:
        return []
    pairs, belief = session.estimator.constraints_.merged
    if not len(pairs):
        return []
    ends = np.asarray(session.labels)[pairs]
    together = ends[:, 0] == ends[:, 1]
    broken = pairs[(belief > 0) & ~together | (belief < 0) & together]
    if not len(broken):
        return []
    named = "; ".join(
        " and ".join(session.called(one) for one in pair) for pair in broken[:_NAMED].tolist()
    )
    more = "; …" if len(broken) > _NAMED else ""
    return [
        f"{len(broken):,} of {len(pairs):,} pairs {'is' if len(broken) == 1 else 'are'} not kept: "
        f"{named}{more}"
    ]


def _some(session: NodeSession, rows: Sequence[int], of: int) -> str:
    return ", ".join(map(session.called, rows)) + (", …" if of > len(rows) else "")


def flags_html(found: Sequence[str]) -> str:
    """A line of the first flag, the others folded below it; "" without any."""
    if not found:
        return ""
    first, rest = escape(found[0]), "".join(f"<li>{escape(one)}</li>" for one in found[1:])
    more = f" <small>and {len(found) - 1} more</small>" if rest else ""
    line = f"<b>⚑</b> {first}{more}"
    return f"<details><summary>{line}</summary><ul>{rest}</ul></details>" if rest else line


def guessed_html(guesses: Sequence[bool]) -> str:
    """How often the fit was right about a row before it was labelled, and a line of that.

    A point of the line is the share of the last 20 such answers.
    """
    if not guesses:
        return ""
    shares = running(guesses)
    shares = np.resize(shares, max(shares.size, 2))  # a line has two ends
    at = np.linspace(0, _WIDE, shares.size)
    points = " ".join(f"{x:.1f},{_HIGH * (1 - y):.1f}" for x, y in zip(at, shares, strict=True))
    last = min(len(guesses), _WINDOW)
    right = sum(guesses[-last:])
    return (
        f"known before you answered: <b>{right} of the last {last}</b> "
        f"<small>(rows that are asked are harder than most)</small>"
        f"<svg width='{_WIDE}' height='{_HIGH + 2}' style='display:block' role='img' "
        f"aria-label='share known before, by answers'>"
        f"<path d='M0,1H{_WIDE}M0,{_HIGH}H{_WIDE}' stroke='#d9dfe4'/>"
        f"<polyline points='{points}' fill='none' stroke='#0072b2' stroke-width='2'/></svg>"
    )


def running(guesses: Sequence[bool]) -> Any:
    """The share that is right among the last 20, after every answer."""
    total = np.concatenate([[0], np.cumsum(guesses)])
    ends = np.arange(1, len(guesses) + 1)
    first = np.maximum(ends - _WINDOW, 0)
    return (total[ends] - total[first]) / (ends - first)
