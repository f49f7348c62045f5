"""The main job: a network of residual blocks that learns to read handwritten digits.

``python -m apps.mlp_resnet`` trains it on the digits that come with scikit-learn; ``--help`` says what else there is.
"""

from __future__ import annotations

import math
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.data import DataLoader, MNISTDataset

if __package__:
    from . import arguments, checkpoints, digits, download, plots, training
else:
    import arguments
    import checkpoints
    import digits
    import download
    import plots
    import training

_COURSE_SEED = 4  # `epoch` and `train_mnist` start from it, as the course's published results need


def ResidualBlock(
    dim: int, hidden_dim: int, norm: Callable[[int], nn.Module] = nn.BatchNorm1d, drop_prob: float = 0.1
) -> nn.Module:
    """Make relu(x + f(x)), where f is linear, norm, ReLU, dropout, linear, norm.

    Parameters
    ----------
    dim : int
        Features that come in and go out.
    hidden_dim : int
        Features between the two linear layers.
    norm : callable
        Makes a normalisation of so many features.
    drop_prob : float
        Which share of the hidden features is dropped in training.

    Returns
    -------
    Module
        Takes (batch, dim) and gives (batch, dim).

    Examples
    --------
    >>> block = ResidualBlock(dim=4, hidden_dim=2)
    >>> block(ndl.init.ones(3, 4)).shape
    (3, 4)
    """
    f = nn.Sequential(
        nn.Linear(dim, hidden_dim),
        norm(hidden_dim),
        nn.ReLU(),
        nn.Dropout(drop_prob),
        nn.Linear(hidden_dim, dim),
        norm(dim),
    )
    return nn.Sequential(nn.Residual(f), nn.ReLU())


def MLPResNet(
    dim: int,
    hidden_dim: int = 100,
    num_blocks: int = 3,
    num_classes: int = 10,
    norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
    drop_prob: float = 0.1,
) -> nn.Module:
    """Make the network: linear, ReLU, residual blocks that narrow to half of `hidden_dim`, linear.

    Parameters
    ----------
    dim : int
        Features of a sample.
    hidden_dim : int
        Features between the blocks.
    num_blocks : int
        How many `ResidualBlock` there are.
    num_classes : int
    norm, drop_prob
        As in `ResidualBlock`.

    Returns
    -------
    Module
        Takes (batch, dim) and gives logits (batch, num_classes).

    Examples
    --------
    >>> model = MLPResNet(dim=64)
    >>> model(ndl.init.ones(2, 64)).shape
    (2, 10)
    >>> sum(parameter.size for parameter in model.parameters())
    38860
    """
    # Made in the order of the network: that is the order in which the weights are drawn.
    return nn.Sequential(
        nn.Linear(dim, hidden_dim),
        nn.ReLU(),
        *(ResidualBlock(hidden_dim, hidden_dim // 2, norm, drop_prob) for _ in range(num_blocks)),
        nn.Linear(hidden_dim, num_classes),
    )


# ----------------------------------------------------------------------------------------------- the course's functions


def epoch(dataloader: DataLoader, model: nn.Module, opt: ndl.optim.Optimizer | None = None) -> tuple[float, float]:
    """Go through the data once: train with an optimizer, only measure without one.

    Parameters
    ----------
    dataloader : DataLoader
        Batches of images of any shape (batch, …), which are flattened, and integer labels.
    model : Module
        Gives logits. It is put into training or evaluation mode, and left there.
    opt : Optimizer, optional

    Returns
    -------
    error : float
        The fraction of samples that were classified wrongly (in training: before the step that learned from them).
    loss : float
        The mean of the batches' losses.

    Notes
    -----
    As in the course, each call starts NumPy's global generator from one seed: shuffling and dropout are the same in
    every epoch. Afterwards the generator is as it was before.

    Examples
    --------
    >>> digits = ndl.data.NDArrayDataset(np.eye(4, dtype=np.float32), np.arange(4))
    >>> model = MLPResNet(dim=4, hidden_dim=8, num_blocks=1, num_classes=4)
    >>> error, loss = epoch(ndl.data.DataLoader(digits, batch_size=2), model)
    >>> 0 <= error <= 1, loss > 0
    (True, True)
    """
    loss_fn = nn.SoftmaxLoss()
    with training.seeded(_COURSE_SEED):
        batches = ((X.reshape((X.shape[0], -1)), y) for X, y in dataloader)
        if opt is None:
            metrics = training.evaluate(model, batches, loss_fn)
        else:
            metrics = training.Metrics()
            model.train()
            for X, y in batches:
                loss, logits = training.train_step(model, opt, X, y, loss_fn)
                metrics.add(loss, logits, y)
    return metrics.error, metrics.loss


def train_mnist(
    batch_size: int = 100,
    epochs: int = 10,
    optimizer: type[ndl.optim.Optimizer] = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    hidden_dim: int = 100,
    data_dir: str | os.PathLike[str] = "data",
) -> tuple[float, float, float, float]:
    """Train an `MLPResNet` on MNIST.

    Parameters
    ----------
    batch_size, epochs : int
    optimizer : class
        Made with the parameters, `lr` and `weight_decay`.
    lr, weight_decay : float
    hidden_dim : int
        Width of the network.
    data_dir : str or os.PathLike
        Folder with the four files ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz``,
        ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz``.

    Returns
    -------
    train_error, train_loss, test_error, test_loss : float
        Of the last epoch, as `epoch` measures them.

    Raises
    ------
    ValueError
        If `epochs` is below 1 or a file is damaged.
    FileNotFoundError
        If a file is not there.
    """
    if epochs < 1:
        raise ValueError(f"train_mnist: at least 1 epoch is needed, got epochs={epochs}")
    folder = pathlib.Path(data_dir)
    train, test = (
        MNISTDataset(*(folder / f"{name}.gz" for name in names)) for names in (digits.TRAIN_FILES, digits.TEST_FILES)
    )
    with training.seeded(_COURSE_SEED):
        model = MLPResNet(28 * 28, hidden_dim=hidden_dim)
        opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
        train_loader = DataLoader(train, batch_size=batch_size, shuffle=True)
        for _ in range(epochs):
            train_error, train_loss = epoch(train_loader, model, opt)
        test_error, test_loss = epoch(DataLoader(test, batch_size=batch_size), model)
    return train_error, train_loss, test_error, test_loss


# --------------------------------------------------------------------------------------------------------- the command

PROG = "python -m apps.mlp_resnet"
APP = "mlp_resnet"

DEFAULTS = {
    "epochs": 20,
    "batch_size": 32,
    "optimizer": "adam",
    "lr": {"sgd": 0.3, "adam": 0.004, "adamw": 0.004},
    "weight_decay": {"sgd": 0.0005, "adam": 0.0001, "adamw": 0.01},
    "seed": 0,
    "hidden_dim": 200,
    "blocks": 3,
    "dropout": 0.1,
}

_TEST_BATCH = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 2 for a mistake in the arguments or files, 130 after Ctrl-C."""
    return arguments.run_command(PROG, lambda: _command(vars(_parser().parse_args(argv))))


def _parser() -> Any:
    description = "Train the MLP-ResNet on handwritten digits: scikit-learn's (default) or MNIST."
    parser = arguments.training_parser(PROG, description, DEFAULTS)
    data = parser.add_argument_group("data")
    text = "folder of MNIST files: the usual four, or one images/labels pair, a fifth of which is held out"
    data.add_argument("--data", help=text, type=pathlib.Path, metavar="DIR")
    text = "fetch MNIST first, into the folder of --data or else into the user's cache"
    data.add_argument("--download", help=text, action="store_true")
    network = parser.add_argument_group("network")
    text = f"its width; the blocks narrow to half of it (default: {DEFAULTS['hidden_dim']})"
    network.add_argument("--hidden-dim", help=text, type=arguments.at_least(2), metavar="N")
    text = f"residual blocks (default: {DEFAULTS['blocks']})"
    network.add_argument("--blocks", help=text, type=arguments.at_least(0), metavar="N")
    text = f"share of a block's hidden features that training drops (default: {DEFAULTS['dropout']})"
    network.add_argument("--dropout", help=text, type=arguments.probability, metavar="P")
    return parser


def _command(given: dict[str, Any]) -> int:
    arguments.need("tqdm", "the progress bar")
    plot, save = given.get("plot"), given.get("save")
    arguments.check_plot(plot)
    arguments.check_output(save, "--save")
    if save or "resume" in given:
        arguments.need("safetensors", "--save or --resume")
    saved, settings = _settings(given)
    data = _data(given)
    settings["data"] = data.fingerprint()
    device = given.get("device", ndl.default_device())

    ndl.random.seed(settings["seed"])
    run = _new_run(settings, data.pixels, saved, device)
    loader = DataLoader(data.train, batch_size=settings["batch_size"], shuffle=True, device=device)
    test_loader = DataLoader(data.test, batch_size=_TEST_BATCH, device=device)
    if run.step >= len(loader):
        raise arguments.CommandError(f"{given['resume']}: step {run.step} of an epoch of {len(loader)} steps")
    loss_fn = nn.SoftmaxLoss()
    schedule = ndl.optim.CosineLR(run.optimizer, steps=settings["epochs"] * len(loader))
    schedule.t = run.epoch * len(loader) + run.step
    run.optimizer.lr = schedule.rate(schedule.t)

    def step(X: ndl.Tensor, y: ndl.Tensor) -> tuple[ndl.Tensor, ndl.Tensor]:
        loss, logits = training.train_step(run.model, run.optimizer, X, y, loss_fn)
        schedule.step()
        return loss, logits

    _introduce(run, data, device)
    finished = training.fit(
        run,
        loader,
        step,
        test=lambda: training.evaluate(run.model, test_loader, loss_fn),
        epochs=settings["epochs"],
        save=save and (lambda: _save(run, save)),
    )
    if plot and run.history:
        _plot(plot, run, data, test_loader)
    _conclude(run, len(loader), finished, save)
    return 0 if finished else arguments.INTERRUPTED


def _settings(given: dict[str, Any]) -> tuple[checkpoints.SavedRun | None, dict[str, Any]]:
    """The run to go on with, if one is given, and a value for each of `DEFAULTS`."""
    if "resume" not in given:
        return None, arguments.settle(given, DEFAULTS)
    with arguments.as_command_error(OSError, ValueError):
        saved = checkpoints.load(given["resume"], APP)
    earlier = arguments.check_saved_settings(_parser(), saved.settings, DEFAULTS, saved.path)
    return saved, arguments.settle(given, DEFAULTS, earlier)


def _data(given: dict[str, Any]) -> digits.Digits:
    """The digits that the arguments name, fetched first if they say so."""
    folder = given.get("data")
    if given.get("download"):
        arguments.need("pooch", "--download")
        with arguments.as_command_error(OSError):
            folder = download.fetch_mnist(folder)
    if folder is None:
        arguments.need("sklearn", "training without --data")
        return digits.bundled_digits()
    with arguments.as_command_error(OSError, ValueError):
        return digits.mnist_digits(folder)


def _new_run(
    settings: dict[str, Any], pixels: int, saved: checkpoints.SavedRun | None, device: ndl.Device
) -> training.Run:
    """A run from its beginning, or where the saved one was."""
    if saved:
        _check_fits(saved, settings, pixels)
    model = MLPResNet(pixels, settings["hidden_dim"], settings["blocks"], drop_prob=settings["dropout"]).to(device)
    run = training.Run(model, arguments.make_optimizer(model.parameters(), settings), settings)
    if saved:
        with arguments.as_command_error(ValueError, TypeError, about=saved.path):
            saved.restore(run)
        run.optimizer.lr, run.optimizer.weight_decay = settings["lr"], settings["weight_decay"]  # where they were given
    return run


def _check_fits(saved: checkpoints.SavedRun, settings: dict[str, Any], pixels: int) -> None:
    """Raise unless the saved model can be the one of these settings, before one of that size is made."""
    first = saved.arrays.get("model.modules.0.weight")
    shape = (pixels, settings["hidden_dim"])
    if first is None or first.shape != shape or settings["blocks"] > len(saved.arrays):
        found = "no such layer" if first is None else f"{first.shape}"
        raise arguments.CommandError(
            f"{saved.path}: the model is another one: its first layer has shape {found}, for these data and settings "
            f"{shape} is needed (give the same --data as to the saved run)"
        )
    if saved.settings.get("data") != settings["data"]:
        raise arguments.CommandError(f"{saved.path}: the run was trained on other data: give it the same --data")


def _save(run: training.Run, path: pathlib.Path) -> None:
    with arguments.as_command_error(OSError):
        checkpoints.save(run, path, APP)


def _introduce(run: training.Run, data: digits.Digits, device: ndl.Device) -> None:
    weights = sum(parameter.size for parameter in run.model.parameters())
    height, width = data.train_images.shape[1:]
    print(
        f"MLP-ResNet of {weights:,} parameters on {data.name}: {len(data.train_labels):,} images of {height}×{width} "
        f"to learn from, {len(data.test_labels):,} held out; on {device}",
        flush=True,
    )


def _plot(path: pathlib.Path, run: training.Run, data: digits.Digits, loader: DataLoader) -> None:
    run.model.eval()
    with ndl.no_grad():
        chances = np.concatenate([ndl.softmax(run.model(X)).numpy() for X, _ in loader])
    with arguments.as_command_error(OSError):
        plots.draw_classifier_run(
            path,
            title=f"MLP-ResNet on {data.name}",
            history=run.history,
            images=data.test_images,
            labels=data.test_labels,
            probabilities=chances,
            classes=[str(digit) for digit in range(10)],
        )
    print(f"Drawn into {path}")


def _conclude(run: training.Run, batches: int, finished: bool, save: pathlib.Path | None) -> None:
    """Say what was reached, and how to go on."""
    if not finished:
        print(f"Interrupted after {run.epoch} epochs and {run.step} of {batches} steps.")
    if run.history:
        last = run.history[-1]
        if not math.isfinite(last["train_loss"]):
            print("The loss is not finite any more: the weights have run away; a smaller --lr keeps them.")
        print(f"{1 - last['test_error']:.2%} of the held-out digits are read correctly after {run.epoch} epochs.")
    if save:
        how = "" if finished else f" Go on with: {PROG} --resume {save} --save {save}"
        print(f"Saved to {save}.{how}")


if __name__ == "__main__":
    sys.exit(main())
