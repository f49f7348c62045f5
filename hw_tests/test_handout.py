"""What `handout` makes: homework that fails its tests as it is handed out, and passes them when it is solved."""

import pathlib
import re
import shutil
import subprocess
import sys

import handout
import pytest

HOMEWORKS = ["hw1", "hw2", "hw3", "hw4", "hw5"]

SOURCE = '''
def double(x):
    """Twice x."""
    y = 2 * x
    return y


class Op:
    """An op."""

    reads = ()

    def compute(self, a):
        return a

    def helper(self):
        return 1
'''


def run_tests(folder, homework):
    """Run a homework's tests in a folder as a student does; gives the exit code, and how many failed and passed."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", f"hw_tests/{homework}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, *[
        int(found[1]) if (found := re.search(rf"(\d+) {what}", done.stdout)) else 0 for what in ("failed", "passed")
    ]


@pytest.mark.parametrize("homework", HOMEWORKS)
def test_the_tests_of_a_homework_fail_as_it_is_handed_out(tmp_path, homework):
    handout.main([homework, str(tmp_path / "out")])
    code, failed, passed = run_tests(tmp_path / "out", homework)
    assert code == 1  # tests failed; 2 would be an error on the way to them
    assert failed > 10 * passed  # what is drawn in a constructor, say, is there


def test_the_tests_pass_when_the_bodies_are_back(tmp_path):
    handout.main(["hw4", str(tmp_path / "out")])
    for line in (handout.ROOT / "hw_tests/hw4/handout.txt").read_text(encoding="utf-8").splitlines():
        file = line.split()[0]
        shutil.copy(handout.ROOT / file, tmp_path / "out" / file)
    assert run_tests(tmp_path / "out", "hw4")[:2] == (0, 0)


def test_every_homework_has_a_handout():
    folders = pathlib.Path(handout.ROOT / "hw_tests").glob("hw[0-9]*")
    assert sorted(folder.name for folder in folders if (folder / "handout.txt").exists()) == HOMEWORKS


def test_a_function_keeps_its_signature_and_its_docstring():
    assert handout.blank(SOURCE, ["double"], "hw0") == SOURCE.replace(
        "    y = 2 * x\n    return y\n", '    raise NotImplementedError("hw0: double")\n'
    )


def test_a_class_loses_the_methods_that_students_write_and_what_says_what_they_read():
    expected = SOURCE.replace("        return a\n", '        raise NotImplementedError("hw0: Op.compute")\n')
    assert handout.blank(SOURCE, ["Op"], "hw0") == expected.replace("    reads = ()\n", "")


def test_another_method_takes_the_place_of_one():
    assert handout.blank(SOURCE, ["Op.helper=step(self)"], "hw0") == SOURCE.replace(
        "    def helper(self):\n        return 1\n",
        '    def step(self):\n        raise NotImplementedError("hw0: Op.step")\n',
    )


def test_a_name_that_is_not_there_is_an_error():
    with pytest.raises(LookupError, match=r"nothing to blank: Op\.gradient, halve"):
        handout.blank(SOURCE, ["double", "Op.gradient", "halve"], "hw0")


def test_a_folder_that_exists_is_left_alone(tmp_path, capsys):
    with pytest.raises(SystemExit):
        handout.main(["hw1", str(tmp_path)])
    assert "exists already" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
