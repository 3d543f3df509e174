"""Files that are there: those of others stay, what the same verb wrote is replaced; --quiet."""

import h5py
import numpy as np
import pytest
from PIL import Image

from mustlink_io.formats.photographs import save_image

N = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Points, a batch of one job, a picture, a stack with strokes."""
    found = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) + 6 * np.eye(3)[np.arange(N) % 3][:, :2]
    with h5py.File(found / "points.h5", "w") as file:
        file["points"] = X
    np.savetxt(found / "few.txt", np.where(np.arange(N) < 9, np.arange(N) % 3, -1), fmt="%d")
    (found / "jobs.toml").write_text(
        '[[job]]\nname = "one"\ndata = "points.h5"\nk = 3\noutput = "one.h5"\n'
    )
    picture = np.full((24, 40, 3), (200, 30, 30), dtype=np.uint8)
    picture[6:18, 10:30] = (20, 40, 220)
    Image.fromarray(picture).save(found / "photo.png")
    strokes = np.zeros((24, 40, 4), np.uint8)
    strokes[1, 2:38], strokes[12, 14:26] = (255, 0, 0, 255), (0, 255, 0, 255)
    save_image(strokes, found / "strokes.png")
    stack = np.full((4, 24, 40), 40, np.uint8)
    stack[:, 6:18, 10:30] = 200
    np.save(found / "stack.npy", stack + rng.integers(0, 9, stack.shape, np.uint8))
    painted = np.zeros(stack.shape, np.uint8)
    painted[1, 1, 2:38], painted[2, 12, 14:26] = 1, 2
    np.save(found / "painted.npy", painted)
    return found


@pytest.fixture(scope="module")
def result(folder):
    from mustlink_io.commands import cli

    out = folder / "out.h5"
    line = ["cluster", folder / "points.h5", "-k", 3, "--labels", folder / "few.txt", "-m", "csp"]
    assert cli.run([*map(str, line), "-o", str(out), "--quiet"]) == 0
    return out


CASES = {
    "page": ("report out.h5 -o {0}", "page.html", b"<title>Thesis</title>"),
    "cut along strokes": ("cut photo.png --strokes strokes.png -o {0}", "cut.png", None),
    "cut by itself": ("cut photo.png -o {0}", "parts.png", None),
    "stack": ("cut stack.npy --strokes painted.npy -o {0}", "labels.npy", b"\x93NUMPY, once"),
    "table": ("batch jobs.toml --fresh --summary {0}", "sum.csv", b"name,grade\nme,1\n"),
    "table in JSON": ("batch jobs.toml --fresh --summary {0}", "sum.json", b'{"jobs": ["mine"]}'),
}


@pytest.mark.usefixtures("result", "jobs_here", "none_held_out")
@pytest.mark.parametrize("case", CASES)
def test_a_file_of_others_stays_and_ours_is_replaced(told, folder, case):
    line, name, content = CASES[case]
    if content is None:
        content = (folder / "photo.png").read_bytes()
    path = folder / name
    path.write_bytes(content)
    words = line.format(name).split()
    code, _, err = told(*words)
    assert code == 2
    assert f"{name}: is there, a file that mustlink did not write; give another name" in err
    assert err.count("\n") == 1
    assert path.read_bytes() == content
    path.write_bytes(b"")  # as of mktemp
    for _ in range(2):
        code, _, err = told(*words, "--quiet")
        assert code == 0, err
    assert path.stat().st_size > 0


def test_pictures_beside_a_cut_are_not_replaced_either(told, folder):
    picture = (folder / "photo.png").read_bytes()
    for name in ("mine-outline.png", "mine-1.png"):
        (folder / name).write_bytes(picture)
        code, _, err = told("cut", "photo.png", "--strokes", "strokes.png", "-o", "mine.png")
        assert code == 2
        assert f"{name}: is there, a file that mustlink did not write" in err
        assert (folder / name).read_bytes() == picture
        (folder / name).unlink()
    assert not (folder / "mine.png").exists()
    strokes = (folder / "strokes.png").read_bytes()
    code, _, err = told("cut", "photo.png", "-o", "strokes.png")  # painted by a person
    assert (code, (folder / "strokes.png").read_bytes()) == (2, strokes), err


@pytest.mark.usefixtures("result")
def test_quiet_commands_say_nothing(told, folder):
    for line in (
        "ask out.h5 -n 3 -o quiet.csv --quiet",
        "report out.h5 -o quiet.html --quiet",
        "answer out.h5 quiet.csv -o quiet.h5 --quiet",
    ):
        if line.startswith("answer"):
            rows = (folder / "quiet.csv").read_text().splitlines()
            (folder / "quiet.csv").write_text("\n".join([rows[0], rows[1] + "1"]))
        code, out, err = told(line)
        assert (code, out) == (0, ""), err
        assert all(one.startswith("warning: ") for one in err.splitlines())
