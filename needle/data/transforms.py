"""Random transforms of one image, an array of shape (height, width, channels)."""

from __future__ import annotations

import numpy as np

from needle.ops.checks import as_integer, check_real


class Transform:
    """A function of one image; subclasses define ``__call__``.

    Random transforms draw from NumPy's global generator, so ``np.random.seed`` repeats them.
    """

    def __call__(self, img: np.ndarray) -> np.ndarray:
        """Give the transformed image; the input stays as it is."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, img)")


class RandomFlipHorizontal(Transform):
    """Mirror an image left to right with probability `p`.

    Each call draws one number, whether it flips or not: ``np.random.rand() < p``.

    Parameters
    ----------
    p : float
        The probability of a flip, from 0 to 1.

    Raises
    ------
    ValueError
        If `p` is not a probability; when called, if the image has not three axes.

    Examples
    --------
    >>> image = np.arange(3).reshape(1, 3, 1)
    >>> RandomFlipHorizontal(p=1.0)(image)[..., 0]
    array([[2, 1, 0]])
    """

    def __init__(self, p: float = 0.5) -> None:
        check_real("RandomFlipHorizontal", "p", p)
        if not 0 <= p <= 1:
            raise ValueError(f"RandomFlipHorizontal: p is a probability from 0 to 1, got {p}")
        self.p = p

    def __call__(self, img: np.ndarray) -> np.ndarray:
        """Give the image or a mirrored view of it.

        Parameters
        ----------
        img : numpy.ndarray of shape (height, width, channels)
            Of any dtype.
        """
        _check_image(img, "RandomFlipHorizontal")
        return img[:, ::-1, :] if np.random.rand() < self.p else img


class RandomCrop(Transform):
    """Shift an image by up to `padding` pixels each way, filling with zeros.

    It is a crop of the original size from the image padded with zeros on every side. Each call draws
    ``np.random.randint(low=-padding, high=padding + 1, size=2)``: the rows and the columns to move by.

    Parameters
    ----------
    padding : int
        The largest shift, in pixels; 0 keeps the image.

    Raises
    ------
    TypeError
        If `padding` is not an integer.
    ValueError
        If `padding` is negative; when called, if the image has not three axes.

    Examples
    --------
    >>> np.random.seed(0)
    >>> image = np.array([[1, 2], [3, 4]]).reshape(2, 2, 1)
    >>> RandomCrop(padding=1)(image)[..., 0]  # moved down by one row
    array([[0, 0],
           [1, 2]])
    """

    def __init__(self, padding: int = 3) -> None:
        self.padding = as_integer("RandomCrop", "padding", padding, least=0)

    def __call__(self, img: np.ndarray) -> np.ndarray:
        """Give the crop, an array of the image's shape and dtype.

        Parameters
        ----------
        img : numpy.ndarray of shape (height, width, channels)
            Of any dtype.
        """
        _check_image(img, "RandomCrop")
        pad = self.padding
        shift_x, shift_y = np.random.randint(low=-pad, high=pad + 1, size=2)
        height, width, channels = img.shape
        padded = np.zeros((height + 2 * pad, width + 2 * pad, channels), dtype=img.dtype)
        padded[pad : pad + height, pad : pad + width] = img
        top, left = pad + shift_x, pad + shift_y
        return padded[top : top + height, left : left + width, :]


def _check_image(img: np.ndarray, owner: str) -> None:
    if getattr(img, "ndim", None) != 3:
        shape = getattr(img, "shape", type(img).__name__)
        raise ValueError(f"{owner}: an image of shape (height, width, channels) is needed, got {shape}")
