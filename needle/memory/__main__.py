"""``python -m needle.memory SCRIPT [ARGS]``: run a program and report on its memory when it ends."""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..nn.serialization import write_whole
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
        The exit status of the program that was run; 1 if it is 0 but the report cannot be written.
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
    html = Path(options.html).absolute() if options.html else None  # wherever the program goes
    if html:
        _check_output(html, parser)
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
    done = _succeeds(lambda: _print(f"\n{report}"))
    if html:
        text = page(report).encode(errors="backslashreplace")  # names of files may be no text
        written = _succeeds(lambda: write_whole(html, text))
        done = written and _succeeds(lambda: _print(f"written: {options.html}")) and done
    return status if done else status or 1


def _check_output(path: Path, parser: argparse.ArgumentParser) -> None:
    """End with an error in one line if no page can be written at `path`: before the program runs, not after."""
    if path.is_dir():
        parser.error(f"--html {path}: this is a folder, a file name is needed")
    if not path.parent.is_dir():
        parser.error(f"--html {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        parser.error(f"--html {path}: the folder {path.parent} is not writable")


def _print(text: str) -> None:
    """Print at once, with question marks for what stdout's encoding lacks (what the program printed was its matter)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    print(text, flush=True)


def _succeeds(write: Callable[[], object]) -> bool:
    """Whether something can be written; if not, one line says why, unless the reader of stdout has gone."""
    try:
        write()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            what = error.filename or "the report"
            print(f"python -m needle.memory: {what} cannot be written: {error.strerror}", file=sys.stderr)
        if error.filename is None:  # what is still to be flushed at exit would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


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


if __name__ == "__main__":
    raise SystemExit(main())
