"""The main job: a network of residual blocks that learns to read handwritten digits.

``python -m apps.mlp_resnet`` trains it on the digits that come with scikit-learn; ``--help`` says what else there is.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import needle as ndl
from needle import nn
from needle.data import DataLoader, MNISTDataset

if __package__:
    from . import arguments, checkpoints, digits, download, runs, training
else:
    import arguments
    import checkpoints
    import digits
    import download
    import runs
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
    >>> import numpy as np
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
    runs.check_given(given)
    saved, settings = runs.settle(given, _parser(), DEFAULTS, APP)
    data = _data(given)
    settings["data"] = data.fingerprint()
    device = given.get("device", ndl.default_device())

    ndl.random.seed(settings["seed"])
    if saved:
        _check_fits(saved, settings, data.pixels)
    model = MLPResNet(data.pixels, settings["hidden_dim"], settings["blocks"], drop_prob=settings["dropout"])
    run = runs.start(model.to(device), settings, saved)
    loader = DataLoader(data.train, batch_size=settings["batch_size"], shuffle=True, device=device)
    test_loader = DataLoader(data.test, batch_size=_TEST_BATCH, device=device)
    introduction = _introduction(run, data, device)
    finished = runs.train_classifier(run, loader, test_loader, introduction, runs.saver(run, given.get("save"), APP))
    if "plot" in given and run.history:
        title, classes = f"MLP-ResNet on {data.name}", [str(digit) for digit in range(10)]
        runs.plot_classifier(given["plot"], run, test_loader, title, data.test_images, data.test_labels, classes)

    def reached(last: dict[str, float]) -> str:
        return f"{1 - last['test_error']:.2%} of the held-out digits are read correctly after {run.epochs_done}."

    return runs.conclude(run, len(loader), finished, PROG, given, reached)


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


def _introduction(run: training.Run, data: digits.Digits, device: ndl.Device) -> str:
    weights = sum(parameter.size for parameter in run.model.parameters())
    height, width = data.train_images.shape[1:]
    return (
        f"MLP-ResNet of {weights:,} parameters on {data.name}: {len(data.train_labels):,} images of {height}×{width} "
        f"to learn from, {len(data.test_labels):,} held out; on {device}"
    )


if __name__ == "__main__":
    sys.exit(main())
