"""The command line that the demos share: its arguments, where their values come from, and errors of one line."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

import needle as ndl

if __package__:
    from . import plots, streams
else:
    import plots
    import streams

OPTIMIZERS = {
    "sgd": partial(ndl.optim.SGD, momentum=0.9),
    "adam": ndl.optim.Adam,
    "adamw": ndl.optim.AdamW,
}

#: Settings of a run that may change when it is resumed; another value of the rest would make it another run.
CHANGEABLE = ("epochs", "lr", "weight_decay")

INTERRUPTED = 130  # what a shell makes of a program that SIGINT ended: 128 + 2


class CommandError(Exception):
    """Something that whoever typed the command can mend: the program ends with this line and exit code 2."""


@contextlib.contextmanager
def as_command_error(*kinds: type[Exception], about: str = "") -> Iterator[None]:
    """Turn errors of the given kinds, which what the user gave has caused, into `CommandError` (about that file)."""
    try:
        yield
    except kinds as error:
        text = " ".join(line.strip() for line in str(error).splitlines())
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}"
        raise CommandError(f"{about}: {text}" if about else text) from error


def run_command(prog: str, command: Callable[[], int]) -> int:
    """Run `command` and give the exit code: 2 after a `CommandError`, 130 after Ctrl-C, else as `run_printing`."""
    try:
        return streams.run_printing(prog, command)
    except CommandError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return INTERRUPTED


class _Parser(argparse.ArgumentParser):
    """Makes of a mistake in the arguments what the other mistakes are."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (--help lists the arguments)")


def training_parser(prog: str, description: str, defaults: Mapping[str, Any]) -> argparse.ArgumentParser:
    """Make a parser with the arguments that every training demo has.

    An argument that is not given is left out of the result, so that `settle` can tell.

    Parameters
    ----------
    prog : str
        What one types.
    description : str
        What the demo does.
    defaults : mapping
        Default values by argument name. One that depends on the optimizer is a dict by the optimizer's name.

    Returns
    -------
    argparse.ArgumentParser
    """
    parser = _Parser(prog=prog, description=description, argument_default=argparse.SUPPRESS, allow_abbrev=False)

    def add(flag: str, text: str, **options: Any) -> None:
        value = defaults.get(flag.lstrip("-").replace("-", "_"))
        if isinstance(value, Mapping):
            value = ", ".join(f"{number} for {name}" for name, number in value.items())
        parser.add_argument(flag, help=text if value is None else f"{text} (default: {value})", **options)

    add("--epochs", "passes over the training data", type=at_least(1), metavar="N")
    add("--batch-size", "samples per step", type=at_least(1), metavar="N")
    add("--optimizer", "update rule; sgd has momentum 0.9", choices=list(OPTIMIZERS))
    add("--lr", "learning rate to start with; it falls to 0 along half a cosine", type=rate, metavar="X")
    add("--weight-decay", "L2 penalty (adamw: decay per step, times the learning rate)", type=rate, metavar="X")
    add("--seed", "seed of everything random; the same one gives the same run", type=seed, metavar="N")
    add("--device", "cpu, cuda or cuda:N", type=device, metavar="NAME")
    add("--plot", "draw the run into this file (.png, .svg, .pdf)", type=pathlib.Path, metavar="FILE")
    add("--save", "save the run here after every epoch and on Ctrl-C", type=pathlib.Path, metavar="FILE")
    add("--resume", "go on with a run that --save has saved", type=pathlib.Path, metavar="FILE")
    return parser


def settle(
    given: Mapping[str, Any],
    defaults: Mapping[str, Any],
    saved: Mapping[str, Any] | None = None,
    changeable: Collection[str] = CHANGEABLE,
) -> dict[str, Any]:
    """Give each setting its value: the given one, or that of the saved run, or the default.

    Parameters
    ----------
    given : mapping
        What stood on the command line.
    defaults : mapping
        A value for each setting, as in `training_parser`.
    saved : mapping, optional
        The settings of the run that is resumed.
    changeable : collection of str
        Settings for which the given value may differ from the saved one.

    Returns
    -------
    dict
        A value for each name in `defaults`.

    Raises
    ------
    CommandError
        If a given value contradicts the saved run.

    Examples
    --------
    >>> settle({"lr": 0.5}, {"lr": {"sgd": 0.1, "adam": 0.001}, "optimizer": "adam", "seed": 0})
    {'lr': 0.5, 'optimizer': 'adam', 'seed': 0}
    >>> settle({"optimizer": "sgd"}, {"lr": {"sgd": 0.1, "adam": 0.001}, "optimizer": "adam", "seed": 0})
    {'lr': 0.1, 'optimizer': 'sgd', 'seed': 0}
    """
    saved = saved or {}
    for name in defaults:
        if name in given and name in saved and given[name] != saved[name] and name not in changeable:
            flag = "--" + name.replace("_", "-")
            raise CommandError(
                f"{flag} {given[name]}: the run to resume has {saved[name]}; leave {flag} out, or start a new run "
                "without --resume"
            )
    known = {**defaults, **saved, **given}
    settings = {name: known[name] for name in defaults}
    return {n: v[settings["optimizer"]] if isinstance(v, Mapping) else v for n, v in settings.items()}


def check_saved_settings(
    parser: argparse.ArgumentParser, saved: Mapping[str, Any], defaults: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """Read the settings of a saved run as if they had stood on the command line, so that they are checked as those are.

    Parameters
    ----------
    parser : ArgumentParser
        As `training_parser` made it.
    saved : mapping of str to number or str
        What the file has.
    defaults : mapping
        A value for each setting.
    path : str
        The file, for the error.

    Returns
    -------
    dict
        A value for each name in `defaults`.

    Raises
    ------
    CommandError
        If one is missing or is no value that the argument could have.
    """
    if not saved.keys() >= defaults.keys():
        missing = ", ".join(sorted(defaults.keys() - saved.keys()))
        raise CommandError(f"{path}: not a sound training run: settings: {missing} missing")
    words = [f"--{name.replace('_', '-')}={saved[name]}" for name in defaults]
    try:
        return vars(parser.parse_args(words))
    except CommandError as error:
        raise CommandError(f"{path}: not a sound training run: settings: {error}") from None


def make_optimizer(parameters: list, settings: Mapping[str, Any]) -> ndl.optim.Optimizer:
    """Make the optimizer that the settings ``optimizer``, ``lr`` and ``weight_decay`` describe."""
    make = OPTIMIZERS[settings["optimizer"]]
    return make(parameters, lr=settings["lr"], weight_decay=settings["weight_decay"])


def check_output(path: pathlib.Path | None, flag: str) -> None:
    """Raise `CommandError` if no file can be written at `path`: better before hours of training than after."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise CommandError(f"{flag} {path}: this is a folder, a file name is needed")
    if not folder.is_dir():
        raise CommandError(f"{flag} {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{flag} {path}: the folder {folder} is not writable")


def check_plot(path: pathlib.Path | None) -> None:
    """Raise `CommandError` if no picture can be drawn into `path`."""
    if path is None:
        return
    if path.suffix not in plots.FORMATS:
        raise CommandError(f"--plot {path}: a name that ends in {', '.join(plots.FORMATS)} is needed")
    check_output(path, "--plot")
    need("matplotlib", "--plot")


def need(module: str, purpose: str) -> None:
    """Raise `CommandError` if an optional package is missing."""
    try:
        __import__(module)
    except ImportError:
        raise CommandError(f"{purpose} needs {module}: pip install 'needle[apps]'") from None


# ------------------------------------------------------------------------------------------------- types of arguments


def at_least(least: int) -> Callable[[str], int]:
    """Make the type of an argument that is an integer from `least` on."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"an integer of at least {least} is needed, got {text!r}")
        return value

    return integer


def rate(text: str) -> float:
    """Read a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"a finite number of at least 0 is needed, got {text!r}")
    return value


def probability(text: str) -> float:
    """Read a number from 0 to below 1."""
    value = rate(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"a number from 0 to below 1 is needed, got {text!r}")
    return value


def seed(text: str) -> int:
    """Read a seed, an integer of 32 bits as NumPy's global generator takes it."""
    value = at_least(0)(text)
    if value >= 1 << 32:
        raise argparse.ArgumentTypeError(f"a seed is below 2**32, got {text!r}")
    return value


def device(text: str) -> ndl.Device:
    """Read ``cpu``, ``cuda`` or ``cuda:1`` as a device that can be used."""
    name, colon, index = text.partition(":")
    if name not in ("cpu", "cuda") or (colon and (name == "cpu" or not index.isdecimal())):
        raise argparse.ArgumentTypeError(f"cpu, cuda or cuda:N is needed, got {text!r}")
    found = ndl.cuda(int(index or 0)) if name == "cuda" else ndl.cpu()
    try:
        _ = found.xp
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return found
