"""Images in memory as bytes, which become numbers when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from needle.data.basic import Dataset
from needle.data.indexing import resolve_index


class ImageDataset(Dataset):
    """Samples (image, label): float32 (channels, height, width) in [0, 1], and the label as it was given.

    Parameters
    ----------
    images : numpy.ndarray of uint8, shape (n, channels, height, width)
        Kept as they are, not copied; an item is scaled when it is asked for.
    labels : numpy.ndarray of integers, shape (n,)
    transforms : iterable of callables, optional
        Each takes an image of shape (height, width, channels) and returns one; they run on every image by itself.

    Attributes
    ----------
    images, labels : numpy.ndarray

    Raises
    ------
    TypeError
        If images or labels are no array, or `transforms` is not an iterable of callables.
    ValueError
        If the images or labels have another shape or dtype, or differ in number.

    Examples
    --------
    >>> dataset = ImageDataset(np.full((2, 3, 4, 4), 255, dtype=np.uint8), np.array([3, 9]))
    >>> image, label = dataset[1]
    >>> image.shape, float(image.max()), int(label)
    ((3, 4, 4), 1.0, 9)
    """

    takes_index_arrays = True

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        transforms: Iterable[Callable[[Any], Any]] | None = None,
    ) -> None:
        super().__init__(transforms)
        name = type(self).__name__
        for what, array in (("images", images), ("labels", labels)):
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{name}: {what} are a NumPy array, got {type(array).__name__}")
        if images.ndim != 4 or images.dtype != np.uint8:
            raise ValueError(
                f"{name}: images of shape (n, channels, height, width) and dtype uint8 are needed, "
                f"got {images.shape} of {images.dtype}"
            )
        if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
            raise ValueError(
                f"{name}: {len(images)} images need as many integer labels, got shape {labels.shape} of {labels.dtype}"
            )
        self.images = images
        self.labels = labels

    def __getitem__(self, index: int | slice | list | np.ndarray) -> tuple[np.ndarray, Any]:
        """Give one sample for an int, the stacked images and labels for a slice or a 1-D index array."""
        selection = resolve_index(index, len(self), type(self).__name__)
        images, labels = np.divide(self.images[selection], 255, dtype=np.float32), self.labels[selection]
        if isinstance(selection, int):
            return self._transform(images), labels
        if self.transforms and len(images):
            images = np.stack([self._transform(image) for image in images])
        return images, labels

    def _transform(self, image: np.ndarray) -> np.ndarray:
        """Run the transforms, which take their channels last."""
        if not self.transforms:
            return image
        return np.ascontiguousarray(self.apply_transforms(image.transpose(1, 2, 0)).transpose(2, 0, 1))

    def __len__(self) -> int:
        """Give the number of images."""
        return len(self.labels)
