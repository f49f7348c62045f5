"""CIFAR-10, small colour photographs of ten kinds of things, from its batch files."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from needle.data.cifar_pickle import read_cifar_batch
from needle.data.images import ImageDataset
from needle.ops.checks import as_path

TRAIN_FILES = tuple(f"data_batch_{k}" for k in range(1, 6))
TEST_FILES = ("test_batch",)


class CIFAR10Dataset(ImageDataset):
    """CIFAR-10 as samples (image, label): float32 (3, 32, 32) in [0, 1], and a uint8 class.

    Parameters
    ----------
    base_folder : str or os.PathLike
        The folder ``cifar-10-batches-py`` with ``data_batch_1`` to ``data_batch_5`` and ``test_batch``.
    train : bool
        Whether the samples are those for training, or those for testing.
    p : float
        Part of the course's signature. Each random transform has a probability of its own.
    transforms : iterable of callables, optional
        Each takes an image of shape (32, 32, 3) and returns one; they run on every image by itself.

    Attributes
    ----------
    images : numpy.ndarray of uint8, shape (n, 3, 32, 32)
    labels : numpy.ndarray of uint8, shape (n,)

    Raises
    ------
    FileNotFoundError
        If a file is missing; the text says which.
    ValueError
        If a file is truncated or holds something else than CIFAR-10's arrays. Nothing in it is ever run.
    TypeError
        If `transforms` is not an iterable of callables.

    References
    ----------
    A. Krizhevsky: Learning multiple layers of features from tiny images. 2009.

    Examples
    --------
    >>> import pathlib, pickle, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     content = {b"data": np.full((2, 3072), 255, dtype=np.uint8), b"labels": [3, 9]}
    ...     _ = pathlib.Path(folder, "test_batch").write_bytes(pickle.dumps(content))
    ...     dataset = CIFAR10Dataset(folder, train=False)
    >>> image, label = dataset[1]
    >>> image.shape, float(image.max()), int(label)
    ((3, 32, 32), 1.0, 9)
    """

    def __init__(
        self,
        base_folder: str | os.PathLike[str],
        train: bool,
        p: float = 0.5,
        transforms: Iterable[Callable[[Any], Any]] | None = None,
    ) -> None:
        folder = pathlib.Path(as_path("CIFAR10Dataset", "base_folder", base_folder))
        files = TRAIN_FILES if train else TEST_FILES
        missing = [name for name in files if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"CIFAR10Dataset: {', '.join(missing)} missing in {folder}: the folder cifar-10-batches-py is needed, "
                f"with {', '.join(TRAIN_FILES + TEST_FILES)}"
            )
        images, labels = zip(*[read_cifar_batch(folder / name) for name in files])
        super().__init__(np.concatenate(images), np.concatenate(labels), transforms)
