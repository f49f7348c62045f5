"""``python -m needle.memory``: a program is run as it would be alone, and a report follows."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys

import pytest

from needle.memory.page import chart, size
from needle.memory.timeline import Point, Timeline

ROOT = pathlib.Path(__file__).resolve().parent.parent

LEAK = """\
import sys
import numpy as np
import needle as ndl

w = ndl.nn.Parameter(np.ones((50, 20), dtype="float32"))
losses = []
for _ in range(int(sys.argv[1])):
    x = ndl.Tensor(np.ones((10, 50), dtype="float32"), requires_grad=False)
    losses.append(((x @ w) ** 2).sum())
print("arguments:", sys.argv[1:], __name__)
"""


def run(*arguments, folder, stdout=subprocess.PIPE, **environment):
    command = [sys.executable, "-m", "needle.memory", *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def leak(tmp_path):
    (tmp_path / "leak.py").write_text(LEAK)
    return tmp_path


def test_the_program_sees_its_arguments_and_the_report_names_lines_and_holders(leak):
    result = run("leak.py", "7", "--verbose", folder=leak)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("arguments: ['7', '--verbose'] __main__\n\nmemory of leak.py\n")
    assert "7 graphs held by global losses[0] → Tensor(Summation)" in result.stdout
    assert "leak.py:9 in <module>: losses.append(((x @ w) ** 2).sum())" in result.stdout
    live = re.search(r"at the end: (\d+) live tensors", result.stdout)
    assert int(live[1]) == 1 + 1 + 7 * 3  # w, the last x, and for each loss the product, its square and their sum


def test_the_page_stands_alone_and_tells_the_same(leak):
    result = run("--html", "report.html", "--top", "2", "leak.py", "5", folder=leak)
    assert result.returncode == 0, result.stderr
    text = (leak / "report.html").read_text(encoding="utf-8")
    assert "5 graphs held by <code>global losses[0] → Tensor(Summation)</code>" in text
    assert not re.search(r"""(?:src|href)\s*=|url\(|@import|<script|<link|https?:""", text)
    opened = []

    class Balance(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "line", "circle", "rect", "polygon", "polyline") or tag == "circle":
                opened.append(tag)

        def handle_startendtag(self, tag, attributes):
            pass

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Balance().feed(text)
    assert opened == []


def test_what_comes_from_the_program_is_escaped(tmp_path):
    (tmp_path / "bold.py").write_text("import needle as ndl\nx = ndl.Tensor([1.0])  # <b>&\n")
    assert run("--html", "page.html", "bold.py", folder=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "# &lt;b&gt;&amp;" in text and "<b>" not in text


def test_a_program_that_fails_shows_its_own_traceback_and_is_reported_on(tmp_path):
    (tmp_path / "fails.py").write_text("import needle as ndl\nx = ndl.Tensor([1.0])\nraise ValueError('mine')\n")
    result = run("fails.py", folder=tmp_path)
    assert result.returncode == 1
    assert 'File "fails.py", line 3, in <module>' in result.stderr and "ValueError: mine" in result.stderr
    assert "__main__.py" not in result.stderr
    assert "1 live tensor," in result.stdout


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(3)", 3), ("raise SystemExit", 0), ("exit('no')", 1)])
def test_the_exit_status_is_the_programs(tmp_path, code, status):
    (tmp_path / "ends.py").write_text(f"import sys\n{code}\n")
    assert run("ends.py", folder=tmp_path).returncode == status


def test_a_module_is_run_with_m(leak):
    package = leak / "training"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "from . import __name__ as name\nfrom .step import x\nprint(name, __package__)\n"
    )
    (package / "step.py").write_text("import needle as ndl\nx = ndl.Tensor([1.0])\n")
    result = run("-m", "training", folder=leak)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("training training\n")
    assert "1 live tensor," in result.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing.py"], "missing.py cannot be run: "),
        (["-m", "no_such_module"], "there is no module no_such_module"),
        (["broken.py"], "broken.py cannot be run: "),
        (["--top", "0", "leak.py"], "--top is at least 1, got 0"),
        ([], "SCRIPT"),
    ],
)
def test_what_cannot_be_run_is_an_error_in_one_line(leak, arguments, text):
    (leak / "broken.py").write_text("def (:\n")
    result = run(*arguments, folder=leak)
    assert result.returncode == 2
    assert text in result.stderr and "Traceback" not in result.stderr


def test_garbage_in_cycles_is_counted(tmp_path):
    (tmp_path / "cycle.py").write_text(
        "import gc\nimport needle as ndl\ngc.disable()\nfor _ in range(3):\n    kept = [ndl.Tensor([1.0])]\n"
        "    kept.append(kept)\n"
    )
    result = run("cycle.py", folder=tmp_path)
    assert "2 tensors more were in reference cycles, and are freed now" in result.stdout


@pytest.mark.parametrize(
    ("page", "text"),
    [("none/x.html", "there is no folder "), ("folder", "this is a folder, a file name is needed")],
)
def test_a_page_that_cannot_be_written_is_said_before_the_program_runs(leak, page, text):
    (leak / "folder").mkdir()
    result = run("--html", page, "leak.py", folder=leak)
    assert (result.returncode, result.stdout) == (2, "")
    assert text in result.stderr and "Traceback" not in result.stderr
    assert sorted(p.name for p in leak.iterdir()) == ["folder", "leak.py"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_page_has_the_permissions_of_a_new_file_and_stays_where_it_was_asked_for(tmp_path):
    (tmp_path / "move.py").write_text("import os\nos.mkdir('elsewhere')\nos.chdir('elsewhere')\n")
    (tmp_path / "plain").write_bytes(b"")
    result = run("--html", "page.html", "move.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "page.html").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_page_that_fails_after_all_is_one_line_and_the_report_is_there(tmp_path):
    (tmp_path / "hide.py").write_text("import os\nos.rename('pages', 'hidden')\n")
    (tmp_path / "pages").mkdir()
    result = run("--html", "pages/x.html", "hide.py", folder=tmp_path)
    path = tmp_path / "pages" / "x.html"
    expected = f"python -m needle.memory: {path} cannot be written: No such file or directory\n"
    assert (result.returncode, result.stderr) == (1, expected)
    assert "memory of hide.py" in result.stdout and "written:" not in result.stdout


def test_what_the_terminals_encoding_lacks_is_replaced(leak):
    result = run("leak.py", "7", folder=leak, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert "7 graphs held by global losses[0] ? Tensor(Summation)" in result.stdout


@pytest.mark.parametrize(
    ("device", "error"),
    [
        (None, ""),
        pytest.param(
            "/dev/full",
            "python -m needle.memory: the report cannot be written: No space left on device\n",
            marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full"),
        ),
    ],
    ids=["the reader has gone", "the disk is full"],
)
def test_a_report_that_cannot_be_written_is_no_traceback_and_the_page_is_there(tmp_path, device, error):
    (tmp_path / "prints.py").write_text("import needle as ndl\nx = ndl.Tensor([1.0])\nprint('still in the buffer')\n")
    if device:
        out = os.open(device, os.O_WRONLY)
    else:
        reader, out = os.pipe()
        os.close(reader)
    try:
        result = run("--html", "page.html", "prints.py", folder=tmp_path, stdout=out)
    finally:
        os.close(out)
    assert (result.returncode, result.stderr) == (1, error)
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_timeline_follows_what_is_alive():
    import numpy as np

    import needle as ndl

    timeline = Timeline()
    with timeline.recording():
        x = ndl.Tensor(np.ones(100))
        y = x.detach()
        z = ndl.Tensor(np.ones(50))
        y = x.detach()
        del z
    assert [point.tensors for point in timeline.points] == [1, 2, 3, 4, 3, 2, 2]
    assert timeline.peak.bytes == 800 + 400
    assert timeline.points[-1].bytes == 800
    assert y.shape == (100,)


def test_a_long_timeline_is_thinned_out_and_keeps_its_peak():
    import needle as ndl

    timeline = Timeline()
    with timeline.recording():
        for i in range(4000):
            x = ndl.Tensor([1.0] * (1000 if i == 1234 else 1))
            y = x.detach()
    assert len(timeline.points) <= 2001
    assert max(point.bytes for point in timeline.points) == timeline.peak.bytes == 8000 + 8  # and the y before
    assert x.shape == y.shape == (1,)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (123_456, "123 kB"), (5e12, "5,000 GB")]
)
def test_sizes_are_written_in_the_unit_that_suits(number, text):
    assert size(number) == text


def test_a_chart_of_nothing_says_so():
    assert "No tensor was made" in chart([], Point(0.0, 0, 0))
