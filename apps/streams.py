"""What a command does where its output cannot be written: shared by the demos and the benchmark, imports no needle."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable


def run_printing(prog: str, command: Callable[[], int]) -> int:
    """Run `command`, which prints, and give its exit code, or 1 if what it prints cannot be written.

    What the encoding of stdout lacks is replaced by question marks. Where the reader has gone nothing more is said;
    another failure, such as a full disk, is one line on stderr.
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        try:
            return command()
        finally:
            sys.stdout.flush()  # here rather than at exit, where an error can no longer be caught
    except OSError as error:
        if error.filename is not None:  # about another file than stdout
            raise
        if not isinstance(error, BrokenPipeError):
            print(f"{prog}: error: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed at exit
        return 1
