"""The page "Where did my memory go?": its programs print what it says, and their remedies help."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
PROGRAMS = {
    name: (program, output)
    for program, name, output in re.findall(r"```python\n(# (\w+\.py)\n.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
}
# What a fragment of the page replaces in the program above it.
REMEDIES = {
    "accumulated.py": ("            total = total + loss\n", "            total = total + loss.numpy()\n"),
    "running_mean.py": ("0.9 * self.mean + 0.1 * mean\n", "0.9 * self.mean + 0.1 * mean.detach()\n"),
    "cycle.py": (
        "        self.node = node\n        s = ndl.sigmoid(a)\n        return out_grad * (s + self.node * (1 - s))\n",
        "        s = ndl.sigmoid(a)\n        return out_grad * (s + node * (1 - s))\n",
    ),
}


def run(name, program, folder):
    (folder / name).write_text(program, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run([sys.executable, name], cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_page_has_three_faults_and_a_look_around():
    assert list(PROGRAMS) == ["accumulated.py", "running_mean.py", "cycle.py", "look.py"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_the_page_says(name, tmp_path):
    program, output = PROGRAMS[name]
    assert run(name, program, tmp_path) == output


@pytest.mark.parametrize("name", REMEDIES)
def test_the_remedy_of_the_page_helps(name, tmp_path):
    wrong, right = REMEDIES[name]
    program, _ = PROGRAMS[name]
    assert program.count(wrong) == 1
    assert right in TEXT
    assert run(name, program.replace(wrong, right), tmp_path) == ""
