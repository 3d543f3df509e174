"""Large text files through pyarrow: what it takes and what it does not, beside the slow reader."""

import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import edges, tables, text


def read(read_it, path):
    """What a reader finds, as plain values, or its error."""
    try:
        found = read_it(path)
    except InputError as error:
        return str(error)
    if read_it is tables.read_table:
        return found.header, [repr(column.tolist()) for column in found.columns]
    affinity, names, note = found
    return affinity.toarray().tolist(), None if names is None else names.texts.tolist(), note


@pytest.fixture
def both(monkeypatch):
    """Read a file by pyarrow and without it: the same is found; returns it."""

    def reads(path, read_it=edges.read_edges):
        monkeypatch.setattr(text, "LARGE", 2**40)
        slow = read(read_it, path)
        monkeypatch.setattr(text, "LARGE", 0)
        assert read(read_it, path) == slow
        return slow

    return reads


@pytest.fixture
def plain(monkeypatch):
    """Fail where pyarrow does not take a file as it is."""
    monkeypatch.setattr(text, "LARGE", 0)
    monkeypatch.setattr(text.TextFile, "_by_cells", lambda *_: pytest.fail("not by pyarrow"))


PLAIN = {
    "blanks": "0 1\n1 2\n2 0\n",
    "tabs": "0\t1\n1\t2\n2\t0",
    "commas": "0,1\n1, 2\n2 ,0\n",
    "semicolons": "0;1;1\n1;2;1\n2;0;1\n",
    "carriage returns": "0 1\r\n1 2\r\n2 0\r\n",
    "aligned": "  0   1\n  1   2  \n\n  2   0\n",
    "tabs and blanks": "0 1\n1\t2\n2\t 0\n",
    "comments": "# one\n0 1\n% two\n1 2\n  # three\n2 0\n",
    "a header": "source,target,weight\n0,1,1\n1,2,1e0\n2,0,1.0\n",
    "a byte order mark": "\ufeff0 1\n1 2\n2 0\n",
    "both directions": "0 1 1\n1 0 .5\n1 2 1\n2 1 1\n2 1 1\n0 2 0\n2 0 1\n",
}


@pytest.mark.parametrize("lines", PLAIN.values(), ids=PLAIN)
def test_plain_edge_lists_are_read_by_pyarrow(tmp_path, plain, lines):
    (tmp_path / "g.txt").write_text(lines, encoding="utf-8", newline="")
    found = formats.load(f"{tmp_path}/g.txt")
    assert found.names is None
    assert (found.value.toarray() == 1 - np.eye(3)).all()


@pytest.mark.parametrize("mark", [" ", "\t", ",", ", ", ";", "  "])
def test_words_are_read_by_pyarrow(tmp_path, plain, mark):
    lines = "".join(f"{mark.join((*pair, '2'))}\n" for pair in (("tom", "zoë"), ("bo", "tom")))
    (tmp_path / "g.txt").write_text(lines, encoding="utf-8")
    found = formats.load(f"{tmp_path}/g.txt")
    assert found.names.texts.tolist() == ["tom", "bo", "zoë"]
    assert found.value.toarray().tolist() == [[0, 2, 2], [2, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("large", [0, 2**40])
def test_numbers_of_64_bits_are_exact(tmp_path, monkeypatch, large):
    monkeypatch.setattr(text, "LARGE", large)
    big = 2**63 - 1
    (tmp_path / "g.txt").write_text(f"{big} {big - 1}\n{big - 1} 5\n")
    found = formats.load(f"{tmp_path}/g.txt")
    assert found.names.texts.tolist() == ["5", str(big - 1), str(big)]
    assert found.value.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0 1\n1 2\n# no\n1 x\n2 3\n", "line 4, '1 x': 'x' is not a number"),
        ("0 1\n1 2\n\n1\n2 3\n", "line 4, '1': has 1 columns"),
        ("0 1\n1 2 3\n", "line 2, '1 2 3': has 3 columns"),
        ("0,1\n1,2.5\n", "line 2, '1,2.5': '2.5' is not a whole number"),
        ("0 1\n-1 2\n", r"line 2, '-1 2': the edge \(-1, 2\): nodes are numbered from 0"),
        ("0 1 1\n1 2 -1\n", r"line 2, '1 2 -1': the edge \(1, 2\) has weight -1"),
        ("0 1 1\n1 2 nan\n", "line 2, .* weight nan"),
        ("0 1\n1 99999999999999999999\n", "line 2, .*'9{20}' is too large"),
        ("0 1\n1 9223372036854775808\n", "line 2, .*'9223372036854775808' is too large"),
        ("0 1\n1 1e16\n", "is too large, or not written as digits"),
        ("0 1\n1 -inf\n", "line 2, '1 -inf': '-inf' is not a whole number"),
        ("a,b\nb,\n", "a node without a name"),
        ('a,b\n"",b\n', "a node without a name"),
        ("a b 1\nb c x\n", "line 2, 'b c x': 'x' is not a number"),
        ("a b 1\nb c\n", "line 2, 'b c': has 2 columns"),
    ],
)
def test_the_same_is_said_of_a_bad_line(tmp_path, both, lines, message):
    (tmp_path / "g.txt").write_text(lines)
    assert re.search(message, both(tmp_path / "g.txt"))


def test_what_pyarrow_does_not_take_is_read_all_the_same(tmp_path, both):
    for lines in ("0.0 1\n1 2e0\n", "0,1,\n1,2\n", "+0 1\n1 2\n", '"a" b\nb "c d"\n', "0;1\n1 2\n",
                  "0\t1\n1 2\n", '"a, b",c\nc,"d ""e"\n'):  # fmt: skip
        (tmp_path / "g.txt").write_text(lines)
        both(tmp_path / "g.txt")
    (tmp_path / "g.txt").write_bytes(b"a b\nb \xff\n")
    assert "not a text file in UTF-8" in both(tmp_path / "g.txt")


@pytest.mark.parametrize("text", ["0 a\n ", " \n0 a", "0 a \n b 0 2", "0 a  \n\t\n", "a b 1\n  \n"])
def test_blanks_at_the_ends_of_lines_are_no_cells(both, tmp_path, text):
    path = tmp_path / "g.txt"
    path.write_text(text, newline="")
    both(path)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_edge_list_is_read_alike(tmp_path_factory, data):
    """By pyarrow and by numpy, in blocks that end anywhere."""
    name = st.sampled_from([*map(str, range(9)), "12", "a", "zoë", "b1"])
    only = st.integers(0, 30).map(str)
    end = data.draw(st.sampled_from([name, only]))
    weight = st.sampled_from(["1", "0", "0.25", "1e3", "7"])
    width = data.draw(st.integers(2, 3))
    mark = data.draw(st.sampled_from([" ", "\t", ",", "  ", " ; "]))
    rows = data.draw(st.lists(st.tuples(end, end, weight), min_size=1, max_size=20))
    odd = st.sampled_from(["", "# no", " ", "% 1 2", "1", "x y z w"])
    lines = [data.draw(st.sampled_from(["", " "])) + mark.join(row[:width]) for row in rows]
    if data.draw(st.booleans()):
        lines.insert(data.draw(st.integers(1, len(lines))), data.draw(odd))
    path = tmp_path_factory.mktemp("g") / "g.txt"
    path.write_text(data.draw(st.sampled_from(["\n", "\r\n"])).join(lines), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK_BYTES", data.draw(st.integers(1, 40)))
        patch.setattr(text, "LARGE", 0)
        fast = read(edges.read_edges, path)
        patch.setattr(text, "LARGE", 2**40)
        assert fast == read(edges.read_edges, path)


def test_tables_are_read_alike(tmp_path, both, plain):
    path = tmp_path / "x.csv"
    values = np.random.default_rng(0).normal(size=(7, 3))
    lines = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    for head in ("", "# no\n", "a,b,c\n"):
        path.write_text(f"{head}{lines}\n\n% more\n")
        assert both(path, tables.read_table)[1] == [repr(column.tolist()) for column in values.T]
    path.write_text("1 2\n3   4 \n5\t6\n")
    assert read(tables.read_table, path) == ((), ["[1.0, 3.0, 5.0]", "[2.0, 4.0, 6.0]"])


@pytest.mark.parametrize(
    "odd",
    [
        "1,2,3 # no",
        "1,2",
        "1,,3",
        "1,x,3",
        '"1",2,3',
        "nan,inf,1e999",
        '"u, v",2, ',
        "9007199254740993,2,",
    ],
)
def test_odd_cells_of_tables_are_read_alike(tmp_path, both, odd):
    path = tmp_path / "x.csv"
    path.write_text(f"a,b,c\n1,2,3\n{odd}\n4,5,6\n")
    both(path, tables.read_table)


def test_without_pyarrow_a_large_file_is_read_with_advice(tmp_path, monkeypatch):
    path = tmp_path / "g.txt"
    path.write_text("0 1\n1 2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert formats.load(str(path)).notes == ()
    monkeypatch.setattr(text, "LARGE", 0)
    data = formats.load(str(path))
    assert data.value.nnz == 4
    assert "pip install 'mustlink[frames]'" in data.notes[0]
    path.write_text("a b\nb c\n")
    data = formats.load(str(path))
    assert data.names.texts.tolist() == ["a", "b", "c"]
    assert "pip install 'mustlink[frames]'" in data.notes[0]
