"""Random numbers: one seed for every device.

On the CPU everything is drawn from NumPy's global generator, in the order of the calls, as course code expects, and
`needle.init` always draws there, so that a model begins with the same weights on every device. What is drawn in each
training step, as dropout's masks, is drawn on a GPU by a generator of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import backend
from .backend import Array, Device

_seed: int | None = None
_generators: dict[Device, Any] = {}


def seed(value: int) -> None:
    """Begin the random numbers of all devices anew.

    Parameters
    ----------
    value : int
        Of [0, 2³²). Seeds NumPy's global generator, and those of the GPUs, each with numbers of its own.

    Raises
    ------
    ValueError, TypeError
        If `value` is none.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.random.seed(1)
    >>> first = ndl.init.rand(3).numpy()
    >>> ndl.random.seed(1)
    >>> bool((ndl.init.rand(3).numpy() == first).all())
    True
    """
    global _seed
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"random.seed: an integer is needed, got {value!r}")
    if not 0 <= value < 2**32:
        raise ValueError(f"random.seed: a seed is at least 0 and below 2**32, got {value}")
    np.random.seed(int(value))
    _seed = int(value)
    _generators.clear()


def uniform(shape: Sequence[int], dtype: Any, device: Device) -> Array:
    """Uniform numbers of [0, 1), drawn on `device` itself.

    Parameters
    ----------
    shape : sequence of int
    dtype : dtype
        float32 or float64.
    device : Device

    Returns
    -------
    array
        Of the device's array module.
    """
    if device == backend.cpu():
        return np.random.random_sample(tuple(shape)).astype(dtype)
    with device.current():
        generator = _generators.get(device)
        if generator is None:
            generator = _generators[device] = device.xp.random.RandomState(_seed_of(device))
        return generator.random_sample(tuple(shape), dtype=np.dtype(dtype))


def _seed_of(device: Device) -> int | None:
    """The seed of a GPU's generator: another for each GPU. None, a seed from the system, if no seed was given."""
    return None if _seed is None else int(np.random.SeedSequence([_seed, device.index]).generate_state(1)[0])
