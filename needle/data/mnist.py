"""MNIST, the handwritten digits, from its IDX files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from needle.data.basic import Dataset
from needle.data.idx import read_idx
from needle.data.indexing import resolve_index
from needle.ops.checks import as_file

_IMAGE_SHAPE = (28, 28)
_CLASSES = 10

PathLike = str | os.PathLike[str]


def read_mnist(image_filename: PathLike, label_filename: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Read a pair of MNIST files and check that they are one.

    Parameters
    ----------
    image_filename, label_filename : str or os.PathLike
        IDX files, plain or gzip-compressed.

    Returns
    -------
    images : numpy.ndarray of uint8, shape (n, 28, 28)
        Grey levels from 0 (background) to 255.
    labels : numpy.ndarray of uint8, shape (n,)
        The digits, 0 to 9.

    Raises
    ------
    FileNotFoundError
        If one of the files does not exist.
    ValueError
        If a file is not a sound IDX file, has another shape or element type, the counts disagree, or
        a label is not a digit.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images, labels = pathlib.Path(folder, "images"), pathlib.Path(folder, "labels")
    ...     _ = images.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(784))
    ...     _ = labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1]) + bytes([7]))
    ...     pixels, digits = read_mnist(images, labels)
    >>> pixels.shape, digits
    ((1, 28, 28), array([7], dtype=uint8))
    """
    files = [as_file("read_mnist", name) for name in (image_filename, label_filename)]
    images, labels = (read_idx(file) for file in files)
    if images.shape[1:] != _IMAGE_SHAPE or images.dtype != np.uint8:
        raise ValueError(
            f"read_mnist: {os.fspath(image_filename)} holds shape {images.shape} of {images.dtype}; "
            "images have shape (n, 28, 28) of uint8 (labels come second)"
        )
    if labels.ndim != 1 or labels.dtype != np.uint8:
        raise ValueError(
            f"read_mnist: {os.fspath(label_filename)} holds shape {labels.shape} of {labels.dtype}; "
            "labels have shape (n,) of uint8"
        )
    if len(images) != len(labels):
        raise ValueError(
            f"read_mnist: {len(images)} images in {os.fspath(image_filename)} but {len(labels)} labels in "
            f"{os.fspath(label_filename)}; they must agree"
        )
    wrong = np.flatnonzero(labels >= _CLASSES)
    if wrong.size:
        raise ValueError(
            f"read_mnist: label {labels[wrong[0]]} at position {wrong[0]} of {os.fspath(label_filename)} "
            f"is not a digit from 0 to 9 ({wrong.size} such labels)"
        )
    return images, labels


class MNISTDataset(Dataset):
    """MNIST as samples (image, label): float32 (28, 28, 1) in [0, 1], and a uint8 digit.

    The pixels stay in memory as the file's bytes; an item is scaled when it is asked for.

    Parameters
    ----------
    image_filename, label_filename : str or os.PathLike
        IDX files, plain or gzip-compressed.
    transforms : iterable of callables, optional
        Each takes an image of shape (28, 28, 1) and returns one; they run on every image by itself.

    Attributes
    ----------
    images : numpy.ndarray of uint8, shape (n, 28, 28)
    labels : numpy.ndarray of uint8, shape (n,)

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_mnist` does.
    TypeError
        If `transforms` is not an iterable of callables.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images, labels = pathlib.Path(folder, "images"), pathlib.Path(folder, "labels")
    ...     header = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28])
    ...     _ = images.write_bytes(header + bytes([255]) * (2 * 784))
    ...     _ = labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2]) + bytes([7, 2]))
    ...     dataset = MNISTDataset(images, labels)
    >>> image, label = dataset[-1]
    >>> image.shape, float(image.max()), int(label)
    ((28, 28, 1), 1.0, 2)
    >>> batch, digits = dataset[:2]
    >>> batch.shape, digits.tolist()
    ((2, 28, 28, 1), [7, 2])
    """

    takes_index_arrays = True

    def __init__(
        self,
        image_filename: PathLike,
        label_filename: PathLike,
        transforms: Iterable[Callable[[Any], Any]] | None = None,
    ) -> None:
        super().__init__(transforms)
        self.images, self.labels = read_mnist(image_filename, label_filename)

    def __getitem__(self, index: int | slice | list | np.ndarray) -> tuple[np.ndarray, Any]:
        """Give one sample for an int, the stacked images and labels for a slice or a 1-D index array."""
        selection = resolve_index(index, len(self), "MNISTDataset")
        pixels, labels = self.images[selection, ..., np.newaxis], self.labels[selection]
        images = np.divide(pixels, 255, dtype=np.float32)
        if isinstance(selection, int):
            return self.apply_transforms(images), labels
        if self.transforms and len(images):
            images = np.stack([self.apply_transforms(image) for image in images])
        return images, labels

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.labels)
