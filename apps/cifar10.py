"""ResNet9 on colour images of 32×32 pixels: drawn shapes, or CIFAR-10's photographs.

``python -m apps.cifar10`` trains it on shapes that are drawn first; ``--help`` says what else there is.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import needle as ndl
from needle.data import DataLoader, RandomCrop, RandomFlipHorizontal

if __package__:
    from . import arguments, download, images, runs
    from .models import ResNet9
else:
    import arguments
    import download
    import images
    import runs
    from models import ResNet9

PROG = "python -m apps.cifar10"
APP = "cifar10"

DEFAULTS = {
    "epochs": 7,
    "batch_size": 64,
    "optimizer": "adam",
    "lr": {"sgd": 0.5, "adam": 0.01, "adamw": 0.01},
    "weight_decay": {"sgd": 0.0005, "adam": 0.0001, "adamw": 0.01},
    "seed": 0,
    "augment": "auto",
}

_SHAPES = 20_000
_TEST_BATCH = 500


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 2 for a mistake in the arguments or files, 130 after Ctrl-C."""
    return arguments.run_command(PROG, lambda: _command(vars(_parser().parse_args(argv))))


def _parser() -> Any:
    description = "Train ResNet9 on images of ten classes: coloured shapes drawn here (default), or CIFAR-10."
    parser = arguments.training_parser(PROG, description, DEFAULTS)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", help="folder cifar-10-batches-py, or one that holds it", type=pathlib.Path, metavar="DIR"
    )
    text = "fetch CIFAR-10 first (163 MiB), into the folder of --data or else into the user's cache"
    data.add_argument("--download", help=text, action="store_true")
    text = f"how many shapes to draw for training, where there is no --data (default: {_SHAPES})"
    data.add_argument("--shapes", help=text, type=arguments.at_least(10), metavar="N")
    text = "whether training flips and shifts images at random (default: auto: CIFAR-10's, not the shapes)"
    data.add_argument("--augment", help=text, choices=("auto", "on", "off"))
    return parser


def _command(given: dict[str, Any]) -> int:
    runs.check_given(given)
    saved, settings = runs.settle(given, _parser(), DEFAULTS, APP)
    data = _data(given)
    settings["data"] = data.fingerprint()
    if settings["augment"] == "on" or (settings["augment"] == "auto" and not data.can_be_drawn):
        data.train.transforms = [RandomFlipHorizontal(), RandomCrop(padding=3)]
    device = given.get("device", ndl.default_device())

    ndl.random.seed(settings["seed"])
    run = runs.start(ResNet9().to(device), settings, saved)
    loader = DataLoader(data.train, batch_size=settings["batch_size"], shuffle=True, device=device)
    test_loader = DataLoader(data.test, batch_size=_TEST_BATCH, device=device)
    weights = sum(parameter.size for parameter in run.model.parameters())
    introduction = (
        f"ResNet9 of {weights:,} parameters on {data.name}: {len(data.train):,} images to learn from, "
        f"{len(data.test):,} held out; on {device}"
    )
    finished = runs.train_classifier(run, loader, test_loader, introduction, runs.saver(run, given.get("save"), APP))
    if "plot" in given and run.history:
        title, labels = f"ResNet9 on {data.name}", data.test.labels.astype(np.int64)
        runs.plot_classifier(given["plot"], run, test_loader, title, data.test_pictures(), labels, data.classes)

    def reached(last: dict[str, float]) -> str:
        share = 1 - last["test_error"]
        return f"{share:.2%} of the held-out images are named correctly after {run.epochs_done}."

    return runs.conclude(run, len(loader), finished, PROG, given, reached)


def _data(given: dict[str, Any]) -> images.Images:
    """The images that the arguments name, fetched first if they say so."""
    folder = given.get("data")
    if given.get("download"):
        arguments.need("pooch", "--download")
        with arguments.as_command_error(OSError, download.DownloadError):
            folder = images.fetch_cifar10(folder)
    if folder is None:
        return images.drawn_shapes(given.get("shapes", _SHAPES))
    if "shapes" in given:
        raise arguments.CommandError("--shapes draws shapes, --data and --download take CIFAR-10: give one of them")
    with arguments.as_command_error(OSError, ValueError):
        return images.cifar10_images(folder)


if __name__ == "__main__":
    sys.exit(main())
