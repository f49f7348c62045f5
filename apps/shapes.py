"""Coloured shapes to learn from: ten classes, drawn at random places, sizes and angles, with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE = 32  # pixels
CLASSES = ("circle", "ring", "square", "frame", "triangle", "star", "plus", "crescent", "heart", "bar")

_BATCH = 256  # images drawn at a time

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Each gives, for points (x, y) with the y axis pointing down, a number below 0 inside the shape and above 0 outside,
# which grows near the edge by about 1 per unit of distance. The shapes have a radius of about 1.


def _circle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.hypot(x, y) - 0.9


def _ring(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(np.hypot(x, y) - 0.74) - 0.2


def _square(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(x), np.abs(y)) - 0.76


def _frame(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(np.maximum(np.abs(x), np.abs(y)) - 0.66) - 0.18


def _triangle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    slope = 0.866 * np.abs(x) - 0.5 * y
    return np.maximum(slope, y) - 0.5


def _star(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    angle = np.abs((np.arctan2(x, -y) / (2 * np.pi / 5) + 0.5) % 1 - 0.5) * (2 * np.pi / 5)
    radius = np.hypot(x, y)
    # The line from an outer point, radius 1, to the inner one beside it, radius 0.42.
    return 0.83 * radius * (0.52 * np.cos(angle) + 0.87 * np.sin(angle)) - 0.43


def _plus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide, high = np.abs(x), np.abs(y)
    return np.minimum(np.maximum(wide - 0.95, high - 0.27), np.maximum(wide - 0.27, high - 0.95))


def _crescent(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(np.hypot(x, y) - 0.95, 0.78 - np.hypot(x - 0.5, y))


def _heart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = np.abs(x), y + 0.08
    square = 0.707 * (x + np.abs(y)) - 0.57  # on its corner, with a disc on either upper side
    return np.minimum(square, np.hypot(x - 0.403, y + 0.403) - 0.57)


def _bar(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(x) - 0.97, np.abs(y) - 0.25)


_SHAPES: tuple[Distance, ...] = (
    _circle,
    _ring,
    _square,
    _frame,
    _triangle,
    _star,
    _plus,
    _crescent,
    _heart,
    _bar,
)


def draw_shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw images of coloured shapes on shaded, noisy backgrounds, with a stroke or two to distract.

    Parameters
    ----------
    count : int
        Number of images; all classes are equally frequent, up to one.
    seed : int
        The same one gives the same images.

    Returns
    -------
    images : numpy.ndarray of uint8, shape (count, 3, 32, 32)
    labels : numpy.ndarray of uint8, shape (count,)
        Positions in `CLASSES`.

    Raises
    ------
    ValueError
        If `count` is negative.

    Examples
    --------
    >>> images, labels = draw_shapes(20, seed=0)
    >>> images.shape, sorted(labels.tolist()) == sorted(list(range(10)) * 2)
    ((20, 3, 32, 32), True)
    """
    if count < 0:
        raise ValueError(f"draw_shapes: count is at least 0, got {count}")
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % len(CLASSES)).astype(np.uint8)
    parts = [_draw(rng, labels[i : i + _BATCH]) for i in range(0, count, _BATCH)]
    return np.concatenate([np.empty((0, 3, SIZE, SIZE), dtype=np.uint8), *parts]), labels


def _draw(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    n = len(labels)

    def uniform(low: float, high: float, *shape: int) -> np.ndarray:
        return rng.uniform(low, high, (n, *shape, *(1,) * (3 - len(shape)))).astype(np.float32)

    ahead = np.arange(SIZE, dtype=np.float32) - (SIZE - 1) / 2
    x, y = ahead[None, None, None, :], ahead[None, None, :, None]

    shade = uniform(-0.15, 0.15, 3) * (x * np.cos(turn := uniform(0, 2 * np.pi)) + y * np.sin(turn)) / (SIZE / 2)
    back = uniform(0.1, 0.9, 3)
    image = back + shade
    for _ in range(2):  # strokes across the background, each in half of the images
        turn, place, there = uniform(0, np.pi), uniform(-12, 12), rng.random((n, 1, 1, 1)) < 0.5
        stroke = np.clip(uniform(0.5, 1.2) + 0.5 - np.abs(x * np.cos(turn) + y * np.sin(turn) - place), 0, 1) * there
        image += stroke * (uniform(0, 1, 3) - image)

    radius = uniform(9, 13.5)
    reach = (SIZE / 2 - 1 - radius).clip(0)
    turn = uniform(-0.3, 0.3)
    u, v = (x - uniform(-1, 1) * reach) / radius, (y - uniform(-1, 1) * reach) / radius
    u, v = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
    distance = np.empty((n, 1, SIZE, SIZE), dtype=np.float32)
    for k, shape in enumerate(_SHAPES):
        distance[labels == k] = shape(u[labels == k], v[labels == k])
    inside = np.clip(0.5 - distance * radius, 0, 1)  # over one pixel from inside to outside: smooth edges

    color = uniform(0, 1, 3)
    weak = np.abs(color - back).max(axis=1, keepdims=True) < 0.4  # too like the background
    color = np.where(weak, (back + 0.5) % 1, color)
    image += inside * (color - image)
    image += rng.standard_normal(image.shape, dtype=np.float32) * np.float32(0.04)
    return (image.clip(0, 1) * 255).round().astype(np.uint8)
