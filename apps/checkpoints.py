"""Saving a training run and going on with it, bit for bit: one safetensors file, its metadata in JSON, no pickle."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import needle as ndl
from needle import nn

if __package__:
    from .training import Metrics, Run
else:
    from training import Metrics, Run

FORMAT = "needle training run, version 1"

_HISTORY_FIELDS = ("train_loss", "train_error", "test_loss", "test_error")
_GENERATOR_WORDS = 624  # of a Mersenne twister, NumPy's global generator
_NO_GPU = {"seed": None, "draws": 0}  # where a file says nothing of the random numbers of GPUs


def save(run: Run, path: str | os.PathLike[str], app: str) -> None:
    """Write all that decides how a run goes on; a file of that name is replaced when the new one is complete.

    Parameters
    ----------
    run : Run
    path : str or os.PathLike
    app : str
        The name of the program, which `load` asks for.

    Raises
    ------
    OSError
        If the file cannot be written; what was there before is still there.
    """
    optimizer = run.optimizer.state_dict()
    arrays: dict[str, Any] = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    arrays |= {f"optimizer.{name}": value for name, value in optimizer.pop("arrays").items()}
    generators = {}
    for name, state in (("now", ndl.random.get_state()), ("epoch", run.epoch_random)):
        arrays[f"random.{name}"], generators[name] = _split_generator(state)
    description = {
        "format": FORMAT,
        "app": app,
        "settings": run.settings,
        "epoch": run.epoch,
        "step": run.step,
        "history": run.history,
        "metrics": run.metrics.state(),
        "optimizer": optimizer,
        "random": generators,
    }
    nn.save(arrays, path, metadata={"needle": json.dumps(description, sort_keys=True)})


@dataclass
class SavedRun:
    """What `load` found in a file; `restore` puts it into a run.

    Attributes
    ----------
    path : str
    settings : dict
        What the run was started with, as the file has it: numbers and strings, to be checked by the program.
    arrays : dict of str to numpy.ndarray
    """

    path: str
    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]
    _description: dict[str, Any]

    def restore(self, run: Run) -> None:
        """Bring a run, made with the same settings, to the state of the saved one, and the random numbers too.

        Raises
        ------
        ValueError, TypeError
            If the file's model or optimizer is another one.
        """
        found = self._description
        run.model.load_state_dict(self._part("model."))
        run.optimizer.load_state_dict({**found["optimizer"], "arrays": self._part("optimizer.")})
        run.epoch, run.step, run.history = found["epoch"], found["step"], found["history"]
        run.metrics = Metrics(found["metrics"])
        run.epoch_random = self._generator("epoch")
        ndl.random.set_state(self._generator("now"))

    def _part(self, prefix: str) -> dict[str, np.ndarray]:
        return {n.removeprefix(prefix): array for n, array in self.arrays.items() if n.startswith(prefix)}

    def _generator(self, name: str) -> ndl.random.State:
        state = _NO_GPU | self._description["random"][name]
        words = self.arrays[f"random.{name}"]
        numpy = ("MT19937", words, state["position"], state["has_gauss"], state["gauss"])
        return ndl.random.State(numpy, state["seed"], state["draws"])


def load(path: str | os.PathLike[str], app: str) -> SavedRun:
    """Read a saved run. Nothing in the file is trusted: every field is checked before anything uses it.

    Parameters
    ----------
    path : str or os.PathLike
    app : str
        The name of the program that saved it.

    Returns
    -------
    SavedRun

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, is no saved run, or another program's.
    """
    name = os.fspath(path)
    arrays = {key: tensor.numpy() for key, tensor in nn.load(path).items()}
    try:
        description = json.loads(nn.read_metadata(path)["needle"])
    except (KeyError, ValueError, RecursionError):
        raise ValueError(f"{name}: this is no saved training run") from None
    check = _Checker(name)
    check(isinstance(description, dict) and description.get("format") == FORMAT, "format", FORMAT)
    check(description.get("app") == app, "program", f"apps.{app}, not {description.get('app')!r}")
    check(_is_flat(description.get("settings")), "settings", "numbers and texts by name")
    check(_is_count(description.get("epoch")) and _is_count(description.get("step")), "epoch and step", "counts")
    check(_is_history(description.get("history"), description["epoch"]), "history", "four numbers for each epoch")
    check(_is_metrics(description.get("metrics")), "metrics", "sums and counts")
    check(isinstance(description.get("optimizer"), dict), "optimizer", "its state")
    for which in ("now", "epoch"):
        state, words = description.get("random"), arrays.get(f"random.{which}")
        check(isinstance(state, dict) and _is_generator(state.get(which), words), "random", "generator states")
    return SavedRun(name, description["settings"], arrays, description)


class _Checker:
    """Says which field of a file is not what it should be."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, sound: bool, field: str, expected: str) -> None:
        if not sound:
            raise ValueError(f"{self._path}: not a sound training run: {field}: expected {expected}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_flat(value: Any) -> bool:
    return isinstance(value, dict) and all(type(item) in (int, float, str) for item in value.values())


def _has(value: Any, fields: dict[str, Callable[[Any], bool]]) -> bool:
    return isinstance(value, dict) and value.keys() == fields.keys() and all(fields[k](v) for k, v in value.items())


def _is_float(value: Any) -> bool:
    return type(value) is float


def _is_history(value: Any, epochs: int) -> bool:
    fields = dict.fromkeys(_HISTORY_FIELDS, _is_float)
    return isinstance(value, list) and len(value) == epochs and all(_has(row, fields) for row in value)


def _is_metrics(value: Any) -> bool:
    return _has(value, {"loss_sum": _is_float, "wrong": _is_count, "samples": _is_count, "batches": _is_count})


def _split_generator(state: ndl.random.State) -> tuple[np.ndarray, dict[str, Any]]:
    """Split where the random numbers stand into the words of NumPy's global generator and the rest."""
    _, words, position, has_gauss, gauss = state.numpy
    rest = {"position": int(position), "has_gauss": int(has_gauss), "gauss": float(gauss)}
    return words, rest | {"seed": state.seed, "draws": state.draws}


def _is_generator(value: Any, words: Any) -> bool:
    fields = {
        "position": lambda v: _is_count(v) and v <= _GENERATOR_WORDS,
        "has_gauss": lambda v: _is_count(v) and v <= 1,
        "gauss": lambda v: _is_float(v) and math.isfinite(v),
        "seed": lambda v: v is None or (_is_count(v) and v < 1 << 32),
        "draws": lambda v: _is_count(v) and v < 1 << 32,
    }
    sound_words = isinstance(words, np.ndarray) and words.dtype == np.uint32 and words.shape == (_GENERATOR_WORDS,)
    return sound_words and isinstance(value, dict) and _has(_NO_GPU | value, fields)
