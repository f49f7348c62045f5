"""Handwritten digits to learn from: scikit-learn's, or MNIST from a folder."""

from __future__ import annotations

import os
import pathlib
import zlib
from dataclasses import dataclass

import numpy as np

from needle.data import NDArrayDataset, read_mnist

#: What MNIST's files are called; each may be compressed (.gz) or not.
TRAIN_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST_FILES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

HELD_OUT = 5  # one in so many samples is held out where the data come without a test set
_SPLIT_SEED = 0  # the split is the data's, not the run's: runs with different seeds are compared on the same test set


@dataclass
class Digits:
    """Images with labels, to learn from and to be tested on.

    Attributes
    ----------
    name : str
        What the data are, for titles.
    train_images, test_images : numpy.ndarray of float32, shape (n, height, width)
        Grey levels from 0 to 1.
    train_labels, test_labels : numpy.ndarray of int64, shape (n,)
        The digits, 0 to 9.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @property
    def pixels(self) -> int:
        """Pixels of an image."""
        return self.train_images[0].size

    @property
    def train(self) -> NDArrayDataset:
        """Pairs of a flattened image and a label."""
        return NDArrayDataset(self.train_images.reshape(len(self.train_images), -1), self.train_labels)

    @property
    def test(self) -> NDArrayDataset:
        """As `train`, of the held-out digits."""
        return NDArrayDataset(self.test_images.reshape(len(self.test_images), -1), self.test_labels)

    def fingerprint(self) -> str:
        """Give a short text that differs, all but surely, for other data, or the same in another order."""
        checksum = 0
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            checksum = zlib.crc32(np.ascontiguousarray(array), checksum)
        return f"{len(self.train_labels)}+{len(self.test_labels)}x{self.pixels}:{checksum:08x}"


def bundled_digits() -> Digits:
    """Give the 1,797 digits of 8×8 pixels that come with scikit-learn, a fifth of them held out."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return _split("scikit-learn's digits", (bunch.images / bunch.images.max()).astype(np.float32), bunch.target)


def mnist_digits(folder: str | os.PathLike[str]) -> Digits:
    """Give the digits of a folder of MNIST files: the usual four, or one pair of images and labels.

    Of a single pair a fifth is held out. A pair has names that differ in "images" and "labels" (and in "idx3" and
    "idx1") only; any file may be compressed.

    Parameters
    ----------
    folder : str or os.PathLike

    Returns
    -------
    Digits

    Raises
    ------
    FileNotFoundError
        If the folder does not exist, or holds neither the four files nor one pair.
    ValueError
        If a file is damaged, the files do not belong together, or there are too few images to split.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    pairs = _pairs(folder)
    if TRAIN_FILES[0] in pairs and TEST_FILES[0] in pairs:
        train, test = (_read(*pairs[files[0]]) for files in (TRAIN_FILES, TEST_FILES))
        if not len(train[1]) or not len(test[1]):
            raise ValueError(f"{folder}: {len(train[1])} images to train on and {len(test[1])} to test on")
        return Digits(f"the digits in {folder.name}/", *train, *test)
    if len(pairs) != 1:
        found = ", ".join(sorted(pairs)) or "none"
        raise FileNotFoundError(
            f"{folder}: the four MNIST files ({', '.join(TRAIN_FILES + TEST_FILES)}, each with or without .gz) or one "
            f"images/labels pair is needed; pairs found: {found}"
        )
    ((images, labels),) = pairs.values()
    return _split(f"the digits in {folder.name}/", *_read(images, labels))


def _pairs(folder: pathlib.Path) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """The files of images that have labels beside them, by the name of the former without .gz."""
    files: dict[str, pathlib.Path] = {}
    for path in sorted(folder.iterdir(), reverse=True):  # an uncompressed file wins over its compressed twin
        if path.is_file():
            files[path.name.removesuffix(".gz")] = path
    pairs = {}
    for name, path in files.items():
        labels = name.replace("images", "labels").replace("idx3", "idx1")
        if "images" in name and labels in files:
            pairs[name] = (path, files[labels])
    return pairs


def _read(images: pathlib.Path, labels: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    pixels, digits = read_mnist(images, labels)
    return np.divide(pixels, 255, dtype=np.float32), digits.astype(np.int64)


def _split(name: str, images: np.ndarray, labels: np.ndarray) -> Digits:
    """Hold out one in `HELD_OUT`, chosen at random."""
    if len(labels) < HELD_OUT:
        raise ValueError(f"{name}: {len(labels)} images are too few to hold out one in {HELD_OUT}")
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(labels))
    test, train = np.split(order, [len(labels) // HELD_OUT])
    return Digits(name, images[train], labels[train].astype(np.int64), images[test], labels[test].astype(np.int64))
