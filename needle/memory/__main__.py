"""``python -m needle.memory SCRIPT [ARGS]``: run a program and report on its memory when it ends."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import traceback
import types
from collections.abc import Sequence
from typing import Any

from .creation import track
from .page import page
from .report import Report
from .timeline import Timeline


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.

    Returns
    -------
    int
        The exit status of the program that was run.
    """
    parser = argparse.ArgumentParser(
        prog="python -m needle.memory", description="Run a program and report on the memory of its tensors at its end."
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report as one self-contained page")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="how many lines and graphs are listed (5)")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="a file of Python, or with -m a module")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="handed to it")
    options = parser.parse_args(arguments)
    if options.top < 1:
        parser.error(f"--top is at least 1, got {options.top}")
    try:
        code, variables = _module(options.script) if options.module else _script(options.script)
    except (OSError, SyntaxError, ImportError, ValueError) as error:
        parser.error(f"{options.script} cannot be run: {error}")

    main_module = types.ModuleType("__main__")
    vars(main_module).update(variables)
    kept = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"] = main_module
    sys.argv = [variables["__file__"], *options.args]
    if not options.module:
        sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    timeline = Timeline()
    try:
        with track(), timeline.recording():
            status = _run(code, vars(main_module))
        report = Report(options.script, timeline, options.top)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = kept
    print(f"\n{report}", flush=True)
    if options.html:
        write(options.html, page(report))
        print(f"written: {options.html}")
    return status


def _script(path: str) -> tuple[types.CodeType, dict[str, Any]]:
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec"), {"__file__": path, "__builtins__": __builtins__}


def _module(name: str) -> tuple[types.CodeType, dict[str, Any]]:
    sys.path.insert(0, "")
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name) if spec is not None else None
    if spec is None or code is None:
        raise ImportError(f"there is no module {name} that can be run")
    about = {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent, "__loader__": spec.loader}
    return code, {**about, "__builtins__": __builtins__}


def _run(code: types.CodeType, variables: dict[str, Any]) -> int:
    """Execute the program; an exception is printed as the interpreter would print it, and not kept."""
    try:
        exec(code, variables)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BaseException as error:
        own = error.__traceback__
        traceback.print_exception(type(error), error, own.tb_next if own is not None else None)
        return 1
    return 0


def write(path: str, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".report-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    raise SystemExit(main())
