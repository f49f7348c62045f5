"""What demos do around `training.fit`: settings of a run that goes on, its optimizer and schedule, its last words."""

from __future__ import annotations

import argparse
import math
import pathlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader

if __package__:
    from . import arguments, checkpoints, plots, training
else:
    import arguments
    import checkpoints
    import plots
    import training


def check_given(given: Mapping[str, Any]) -> None:
    """Raise `CommandError` if what the arguments ask for lacks a package, or a place to write to."""
    arguments.need("tqdm", "the progress bar")
    arguments.check_plot(given.get("plot"))
    arguments.check_output(given.get("save"), "--save")
    if "save" in given or "resume" in given:
        arguments.need("safetensors", "--save or --resume")


def settle(
    given: Mapping[str, Any], parser: argparse.ArgumentParser, defaults: Mapping[str, Any], app: str
) -> tuple[checkpoints.SavedRun | None, dict[str, Any]]:
    """Give the run to go on with, if the arguments name one, and a value for each of `defaults`."""
    if "resume" not in given:
        return None, arguments.settle(given, defaults)
    with arguments.as_command_error(OSError, ValueError):
        saved = checkpoints.load(given["resume"], app)
    earlier = arguments.check_saved_settings(parser, saved.settings, defaults, saved.path)
    return saved, arguments.settle(given, defaults, earlier)


def start(model: nn.Module, settings: dict[str, Any], saved: checkpoints.SavedRun | None) -> training.Run:
    """Give a run of `model` from its beginning, or where the saved one was."""
    if saved and saved.settings.get("data") != settings["data"]:
        raise arguments.CommandError(
            f"{saved.path}: the run was trained on other data: give it the same data (--data and its like)"
        )
    run = training.Run(model, arguments.make_optimizer(model.parameters(), settings), settings)
    if saved:
        with arguments.as_command_error(ValueError, TypeError, about=saved.path):
            saved.restore(run)
        run.optimizer.lr, run.optimizer.weight_decay = settings["lr"], settings["weight_decay"]  # where they were given
    return run


def cosine_schedule(run: training.Run, batches: int) -> ndl.optim.CosineLR:
    """Give the schedule of the learning rate over the run's epochs of so many batches, at the step where the run is."""
    if run.step >= batches:
        raise arguments.CommandError(f"the saved run is at step {run.step} of an epoch of {batches} steps")
    schedule = ndl.optim.CosineLR(run.optimizer, steps=run.settings["epochs"] * batches)
    schedule.t = run.epoch * batches + run.step
    run.optimizer.lr = schedule.rate(schedule.t)
    return schedule


def train_classifier(
    run: training.Run,
    loader: DataLoader,
    test_loader: DataLoader,
    introduction: str,
    save: Callable[[], None] | None,
) -> bool:
    """Say what is trained, train to the end with cross entropy and `cosine_schedule`; gives whether it got there."""
    schedule, loss_fn = cosine_schedule(run, len(loader)), nn.SoftmaxLoss()
    print(introduction, flush=True)

    def step(X: ndl.Tensor, y: ndl.Tensor) -> tuple[ndl.Tensor, ndl.Tensor]:
        loss, logits = training.train_step(run.model, run.optimizer, X, y, loss_fn)
        schedule.step()
        return loss, logits

    return training.fit(
        run,
        loader,
        step,
        test=lambda: training.evaluate(run.model, test_loader, loss_fn),
        epochs=run.settings["epochs"],
        save=save,
    )


def plot_classifier(
    path: pathlib.Path,
    run: training.Run,
    loader: DataLoader,
    title: str,
    images: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str],
) -> None:
    """Draw what a classifier makes of the held-out images that `loader` gives; see `plots.draw_classifier_run`."""
    run.model.eval()
    with ndl.no_grad():
        chances = np.concatenate([ndl.softmax(run.model(X)).numpy() for X, _ in loader])
    with arguments.as_command_error(OSError):
        plots.draw_classifier_run(
            path,
            title=title,
            history=run.history,
            images=images,
            labels=labels,
            probabilities=chances,
            classes=classes,
        )
    print(f"Drawn into {path}")


def saver(run: training.Run, path: pathlib.Path | None, app: str) -> Callable[[], None] | None:
    """Give the function that saves the run, if there is a path to save it to."""
    if path is None:
        return None

    def save() -> None:
        with arguments.as_command_error(OSError):
            checkpoints.save(run, path, app)

    return save


def conclude(
    run: training.Run,
    batches: int,
    finished: bool,
    prog: str,
    given: Mapping[str, Any],
    reached: Callable[[dict], str],
) -> int:
    """Say what was reached (in the words of `reached`, given the last epoch) and how to go on; give the exit code."""
    if not finished:
        print(f"Interrupted after {run.epochs_done} and {run.step} of {batches} steps.")
    if run.history:
        if not math.isfinite(run.history[-1]["train_loss"]):
            print("The loss is not finite any more: the weights have run away; a smaller --lr keeps them.")
        print(reached(run.history[-1]))
    if "save" in given:
        how = "" if finished else f" Go on with: {command_to_go_on(prog, given, run.settings)}"
        print(f"Saved to {given['save']}.{how}")
    return 0 if finished else arguments.INTERRUPTED


def command_to_go_on(prog: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What one types in a shell to go on with a run: its file, and what was given and is not saved in that file.

    Examples
    --------
    >>> given = {"epochs": 3, "data": "my digits", "download": True, "save": "run"}
    >>> command_to_go_on("python -m apps.mlp_resnet", given, {"epochs": 3, "data": "1437+360x64:00c0ffee"})
    "python -m apps.mlp_resnet --resume run --save run --data 'my digits' --download"
    """
    saved = settings.keys() - {"data"}  # of the data the file has the fingerprint, not the place
    again = {"resume": given["save"], "save": given["save"]}
    again |= {name: value for name, value in given.items() if name not in saved | again.keys()}
    words = []
    for name, value in again.items():
        if isinstance(value, ndl.Device):
            value = "cpu" if value == ndl.cpu() else f"{value.name}:{value.index}"
        flag, text = f"--{name.replace('_', '-')}", str(value)
        if value is True:
            words.append(flag)
        else:
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return f"{prog} {shlex.join(words)}"
