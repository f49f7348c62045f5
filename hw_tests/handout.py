"""Make a homework of needle: a copy without the bodies that students are to write.

``python hw_tests/handout.py hw1 FOLDER`` copies needle, the apps and the homework's tests. ``hw1/handout.txt`` says
whose bodies go, a file to a line: a function's (``nn_epoch``), a method's (``Module.train``), or those of the compute,
gradient, forward and step of a class (``EWiseAdd``). ``SGD._rule=step(self)`` puts a new method where another was.
"""

import argparse
import ast
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPIED = ["needle", "apps", "hw_tests/conftest.py", "hw_tests/homework_gradients.py"]
COPIED += ["conftest.py", "pyproject.toml", "setup.py", "README.md", "LICENSE"]
METHODS = ("compute", "gradient", "forward", "step")


def blank(source, names, homework):
    """Give Python source in which the bodies of `names` raise NotImplementedError; signatures and docstrings stay."""
    headers = dict(name.partition("=")[::2] for name in names)
    found, edits, lines = set(), [], source.splitlines()
    for top in ast.parse(source).body:
        owner = top.name if isinstance(top, ast.ClassDef) else ""
        for node in top.body if owner else [top]:
            if isinstance(node, ast.FunctionDef):
                name = f"{owner}.{node.name}".lstrip(".")
                asked = {name, *([owner] if node.name in METHODS else [])} & headers.keys()
                if asked:
                    found |= asked
                    edits.append(_stub(node, owner, headers.get(name), homework))
            elif owner in headers and isinstance(node, ast.Assign) and node.targets[0].id == "reads":
                edits.append((node.lineno, node.end_lineno, []))  # another rule may read something else
    if found != headers.keys():
        raise LookupError(f"nothing to blank: {', '.join(sorted(headers.keys() - found))}")
    for first, last, replacement in reversed(edits):
        lines[first - 1 : last] = replacement
    return "\n".join(lines) + "\n"


def _stub(function, owner, header, homework):
    """Give the first and the last line to replace, and what takes their place."""
    body = function.body[ast.get_docstring(function) is not None :]
    name = f"{owner}.{(header or function.name).partition('(')[0]}".lstrip(".")
    stub = [f'{" " * body[0].col_offset}raise NotImplementedError("{homework}: {name}")']
    if header:
        return function.lineno, function.end_lineno, [f"{' ' * function.col_offset}def {header}:", *stub]
    return body[0].lineno, function.end_lineno, stub


def main(words=None):
    parser = argparse.ArgumentParser(description="Copy needle without the bodies that a homework asks for.")
    parser.add_argument("homework", choices=sorted(path.parent.name for path in ROOT.glob("hw_tests/hw*/handout.txt")))
    parser.add_argument("folder", type=pathlib.Path, help="where the copy goes; it must not exist yet")
    asked = parser.parse_args(words)
    if asked.folder.exists():
        parser.error(f"{asked.folder} exists already")
    for name in [*COPIED, f"hw_tests/{asked.homework}"]:
        source, target = ROOT / name, asked.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "handout.txt"))
        else:
            shutil.copy(source, target)
    for line in (ROOT / "hw_tests" / asked.homework / "handout.txt").read_text(encoding="utf-8").splitlines():
        file, *names = line.split()
        path = asked.folder / file
        path.write_text(blank(path.read_text(encoding="utf-8"), names, asked.homework), encoding="utf-8")


if __name__ == "__main__":
    main()
