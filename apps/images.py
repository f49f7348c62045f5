"""Colour images of ten classes to learn from: shapes drawn here, or CIFAR-10 from a folder or a server."""

from __future__ import annotations

import os
import pathlib
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from needle.data import CIFAR10Dataset, ImageDataset
from needle.data.cifar10 import TEST_FILES, TRAIN_FILES

if __package__:
    from . import download, shapes
else:
    import download
    import shapes

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_URLS = ("https://www.cs.toronto.edu/~kriz/",)
CIFAR10_FILES = {"cifar-10-python.tar.gz": "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"}
CIFAR10_FOLDER = "cifar-10-batches-py"

_TEST_SHAPES = 2000
_TRAIN_SEED, _TEST_SEED = 1, 2  # the shapes are the data's, not the run's: runs with other seeds see the same ones
_LARGEST_MEMBER = 1 << 26  # bytes; a batch file has 31 million


@dataclass
class Images:
    """Images with labels, to learn from and to be tested on.

    Attributes
    ----------
    name : str
        What the data are, for titles.
    train, test : ImageDataset
        Of uint8 images (n, 3, 32, 32).
    classes : tuple of str
        The classes' names.
    can_be_drawn : bool
        Whether there could be as many images as one likes, so that none need be altered to have more.
    """

    name: str
    train: ImageDataset
    test: ImageDataset
    classes: tuple[str, ...]
    can_be_drawn: bool

    def fingerprint(self) -> str:
        """Give a short text that differs, all but surely, for other data, or the same in another order."""
        checksum = 0
        for dataset in (self.train, self.test):
            for array in (dataset.images, dataset.labels):
                checksum = zlib.crc32(np.ascontiguousarray(array), checksum)
        return f"{len(self.train)}+{len(self.test)}:{checksum:08x}"

    def test_pictures(self) -> np.ndarray:
        """Give the test images as plots want them: shape (n, 32, 32, 3), from 0 to 1."""
        return self.test.images.transpose(0, 2, 3, 1) / 255


def drawn_shapes(count: int) -> Images:
    """Give `count` drawn shapes to learn from and 2,000 others to be tested on."""
    train, test = shapes.draw_shapes(count, _TRAIN_SEED), shapes.draw_shapes(_TEST_SHAPES, _TEST_SEED)
    return Images("drawn shapes", ImageDataset(*train), ImageDataset(*test), shapes.CLASSES, can_be_drawn=True)


def cifar10_images(folder: str | os.PathLike[str]) -> Images:
    """Give CIFAR-10 from the folder ``cifar-10-batches-py``, or one that holds it.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its files does not exist.
    ValueError
        If a file is damaged or is none of CIFAR-10's.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    if not (folder / TRAIN_FILES[0]).exists() and (folder / CIFAR10_FOLDER).is_dir():
        folder = folder / CIFAR10_FOLDER
    train, test = (CIFAR10Dataset(folder, train=train) for train in (True, False))
    if not len(train) or not len(test):
        raise ValueError(f"{folder}: {len(train)} images to train on and {len(test)} to test on")
    return Images("CIFAR-10", train, test, CIFAR10_CLASSES, can_be_drawn=False)


def fetch_cifar10(
    folder: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = CIFAR10_URLS,
    files: Mapping[str, str] = CIFAR10_FILES,
) -> pathlib.Path:
    """Have CIFAR-10's batch files in a folder, fetching and unpacking the archive if they are not there yet.

    Parameters
    ----------
    folder : str or os.PathLike, optional
        Where to put archive and files; by default a folder of the user's cache.
    urls, files
        As in `download.fetch`; one archive.

    Returns
    -------
    pathlib.Path
        The folder with the batch files.

    Raises
    ------
    DownloadError
        As `download.fetch` does, or if the archive lacks a file.
    """
    import pooch

    folder = pathlib.Path(folder) if folder is not None else pathlib.Path(pooch.os_cache("needle")) / "cifar10"
    batches = folder / CIFAR10_FOLDER
    if not all((batches / name).is_file() for name in TRAIN_FILES + TEST_FILES):
        (archive,) = download.fetch(files, urls, folder)
        _unpack(archive, batches)
    return batches


def _unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Take the batch files out of the archive, and nothing else: paths in it are compared, never followed."""
    wanted = {f"{CIFAR10_FOLDER}/{name}": name for name in TRAIN_FILES + TEST_FILES}
    try:
        folder.mkdir(exist_ok=True)
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                if member.isfile() and member.name in wanted and member.size <= _LARGEST_MEMBER:
                    source = members.extractfile(member)
                    if source is not None:
                        _write(folder / wanted.pop(member.name), source.read())
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise download.DownloadError(f"{archive}: damaged archive ({error})") from error
    if wanted:
        raise download.DownloadError(f"{archive}: {', '.join(wanted)} missing in the archive")


def _write(path: pathlib.Path, content: bytes) -> None:
    """Write a file that has its name only when it is complete."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
        except OSError:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
