"""The documentation tells what is true: commands, options, names, links and examples of it."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import click
import pytest

import mustlink as ml
from mustlink_io.commands.cli import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BENCH = ROOT / "bench"
RUNNABLE = (
    "docs/index.md",
    "docs/start/models.md",
    "docs/start/asking.md",
    "docs/start/scikit-learn.md",
    "docs/warnings.md",
)
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@cache
def blocks(page):
    """Fenced blocks of a page: (language, text)."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def commands():
    """Every command line that a page shows: (page, line)."""
    shown = [
        (name_of(page), line.strip())
        for page in PAGES
        for language, text in blocks(page)
        if language in ("", "bash")
        for line in text.replace("\\\n", " ").splitlines()
    ]
    script = (DOCS / "examples" / "batch.sh").read_text(encoding="utf-8").splitlines()
    shown += [("docs/examples/batch.sh", line.strip()) for line in script]
    return [
        (page, line)
        for page, line in shown
        if line.startswith("mustlink ") and not re.match(r"mustlink (\w+ )?\[OPTIONS\]", line)
    ]


def words_of(line):
    """Arguments of a command line: without pipes, redirections and remarks.

    In the help of a command the remark stands in a column of its own, elsewhere behind a #.
    """
    line = re.split(r"\s(?:\||>|2>|\|\||#)", line)[0]
    return shlex.split(re.split(r"\s{3,}", line)[0])[1:]


def parsed(words):
    """The context of the command with these arguments; nothing runs."""
    root = cli.make_context("mustlink", list(words))
    rest = [*root._protected_args, *root.args] if hasattr(root, "_protected_args") else root.args
    name, command, given = cli.resolve_command(root, rest)
    return command.make_context(name, given, parent=root)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["cli", "format"])
def test_the_reference_is_what_commands_and_format_say(name):
    words = [sys.executable, str(DOCS / "reference.py"), name]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page == told, f"run: python docs/reference.py {name} > docs/{name}.md"


def test_the_command_reference_has_every_command_and_option_of_help():
    sections = re.split(r"^## mustlink ?", (DOCS / "cli.md").read_text(), flags=re.MULTILINE)[1:]
    told = {text.split("\n", 1)[0]: text for text in sections}
    assert set(told) == {"", *cli.commands}
    root = click.Context(cli, info_name="mustlink", **cli.context_settings)
    for name, command in cli.commands.items():
        help_text = command.get_help(click.Context(command, info_name=name, parent=root))
        options = re.findall(r"^  (-[-\w]+)", help_text, flags=re.MULTILINE)
        assert options
        assert [one for one in options if f"`{one}" not in told[name]] == []


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_command_lines_parse(page, line):
    try:
        parsed(words_of(line))
    except click.exceptions.Exit:
        pass
    except click.UsageError as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")


@pytest.mark.parametrize("name", [name for name in ml.__all__ if name != "__version__"])
def test_public_names_are_explained(name):
    found = getattr(ml, name)
    assert (found.__doc__ or "").strip()
    assert len(found.__doc__) > 60
    entry = re.compile(rf"^::: mustlink\.([\w.]+\.)?{name}$", re.MULTILINE)
    pages = [page for page in (DOCS / "api").glob("*.md") if entry.search(page.read_text("utf-8"))]
    assert len(pages) == 1
    for attribute, value in vars(found).items():
        if not attribute.startswith("_") and callable(value):
            assert value.__doc__, f"{name}.{attribute} has no docstring"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_compile_and_name_what_exists(page):
    for language, text in blocks(page):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "ml":
                    assert hasattr(ml, node.attr), node.attr
            elif isinstance(node, ast.Call) and _is_of_ml(node.func):
                _check_keywords(node)


def _is_of_ml(func):
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id == "ml"
        and isinstance(getattr(ml, func.attr, None), type)
    )


def _check_keywords(call):
    kind = getattr(ml, call.func.attr)
    if hasattr(kind, "_get_param_names"):
        given = {keyword.arg for keyword in call.keywords if keyword.arg}
        assert given <= set(kind._get_param_names()), ast.unparse(call)


@pytest.mark.thorough
@pytest.mark.parametrize("page", RUNNABLE)
def test_python_blocks_of_the_first_pages_run(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)  # they may write files
    space = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for language, text in blocks(ROOT / page):
            if language == "python":
                exec(compile(text, page, "exec"), space)
    assert space


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page):
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in _LINK.findall(text):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name_of(page)}: {target}"


@cache
def anchors(page):
    """Anchors of a page: of its headings, and of names documented by mkdocstrings."""
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", _BLOCK.sub("", text), flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))


def test_included_files_and_every_page_of_the_site_exist():
    for page in PAGES:
        for path in re.findall(r'--8<-- "([^"]+)"', page.read_text(encoding="utf-8")):
            assert (DOCS / path).is_file(), path
    told = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    shown = {(DOCS / path).resolve() for path in re.findall(r": (\S+\.md)$", told, re.MULTILINE)}
    assert shown == set(PAGES[2:])


@pytest.mark.thorough
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="needs pip install 'mustlink[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=.?(?:https?:)?//", re.I)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES) - 3
    assert [page for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.thorough
def test_every_warning_is_explained():
    told = (DOCS / "warnings.md").read_text(encoding="utf-8")
    heads = [re.split("…", row.split("|")[1]) for row in told.splitlines() if row.startswith("| ")]
    known = [[part.strip() for part in parts if len(part.strip()) > 3] for parts in heads]
    for message in _warnings():
        assert any(parts and all(part in message for part in parts) for parts in known), message


def _warnings():
    """Words of every `recorder.warn(…)` in the engine, with … for what is filled in."""
    for path in (ROOT / "engine" / "mustlink").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr != "warn" or not node.args:
                continue
            words = node.args[0]
            if isinstance(words, ast.Constant):
                yield str(words.value)
            elif isinstance(words, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in words.values
                )


# ---------------------------------------------------------------- figures


@pytest.fixture(scope="module")
def fill():
    """The script that fills figures into pages, and what it uses."""
    pytest.importorskip("jinja2", reason="needs pip install 'mustlink[plot]'")
    pytest.importorskip("PIL", reason="needs pip install 'mustlink[plot]'")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCH))
        yield importlib.import_module("fill")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8")) <= 10_000


def test_figures_are_those_of_the_file_of_results(fill):
    assert fill.stale() == [], "run: python bench/fill.py"


def test_another_figure_would_be_noticed(fill):
    results = fill.runner.results()
    page = (DOCS / "measured.md").read_text(encoding="utf-8")
    results["million_pipeline"]["figures"]["seconds"] += 100
    assert fill.filled(page, results) != page


def test_results_say_how_they_were_made(fill):
    results = fill.runner.results()
    assert list(results) == sorted(results)
    for name, entry in results.items():
        assert set(entry) == {"command", "commit", "date", "machine", "figures"}, name
        script = re.fullmatch(r"python (bench/\w+\.py)( .*)?", entry["command"])[1]
        assert (ROOT / script).is_file(), name
        assert re.fullmatch(r"[0-9a-f]{7,40}", entry["commit"]), f"{name}: not of a clean commit"
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", entry["date"]), name
        assert entry["machine"]["cores"] > 0


def test_every_recorded_figure_is_in_the_table_of_cases_and_used(fill):
    cases = importlib.import_module("commands").CASES
    results = fill.runner.results()
    assert set(results) <= set(cases)
    for line in cases.values():
        assert (BENCH / line.split()[0]).is_file(), line
    used = "".join(path.read_text(encoding="utf-8") for path in fill.TEXT.glob("*.md"))
    assert [name for name in results if not re.search(rf"\b{name}\b", used)] == []


def test_every_template_is_used_once_or_more_and_every_block_has_one(fill):
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {found[2] for found in fill.BLOCK.finditer(told)} == {
        path.stem for path in fill.TEXT.glob("*.md")
    }


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/measured.md"])
def test_measured_figures_stand_only_where_they_are_filled_in(fill, page):
    text = fill.BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
    assert re.findall(r"[\d.]+ (?:s|GB|MB|minutes)\b|ARI [\d.]+", text) == []
