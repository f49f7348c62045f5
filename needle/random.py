"""Random numbers: one seed for every device.

On the CPU everything is drawn from NumPy's global generator, in the order of the calls, as course code expects, and
`needle.init` always draws there, so that a model begins with the same weights on every device. What is drawn in each
training step, as dropout's masks, is drawn on a GPU by a generator of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import backend
from .backend import Array, Device

_seed: int | None = None  # of the GPUs' numbers; None: the system's choice, at the first draw
_draws = 0  # how often numbers were drawn on GPUs since
_generators: dict[Device, Any] = {}
_PHILOX = 161  # CURAND_RNG_PSEUDO_PHILOX4_32_10 in curand.h


def seed(value: int) -> None:
    """Begin the random numbers of all devices anew.

    Parameters
    ----------
    value : int
        Of [0, 2³²). Seeds NumPy's global generator, and what is drawn on GPUs.

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
    global _seed, _draws
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"random.seed: an integer is needed, got {value!r}")
    if not 0 <= value < 2**32:
        raise ValueError(f"random.seed: a seed is at least 0 and below 2**32, got {value}")
    np.random.seed(int(value))
    _seed, _draws = int(value), 0


class State(NamedTuple):
    """Where the random numbers of all devices stand.

    Attributes
    ----------
    numpy : tuple
        The state of NumPy's global generator, as ``np.random.get_state()`` gives it.
    seed : int or None
        What the numbers of GPUs began from; None if no seed was given and none was drawn there yet.
    draws : int
        How often numbers were drawn on GPUs since.
    """

    numpy: Any
    seed: int | None
    draws: int


def get_state() -> State:
    """Where the random numbers of all devices stand, for `set_state` to go on from.

    Examples
    --------
    >>> import needle as ndl
    >>> state = ndl.random.get_state()
    >>> first = ndl.init.rand(3).numpy()
    >>> ndl.random.set_state(state)
    >>> bool((ndl.init.rand(3).numpy() == first).all())
    True
    """
    return State(np.random.get_state(), _seed, _draws)


def set_state(state: State) -> None:
    """Go on from a state that `get_state` gave; anything else is a TypeError."""
    global _seed, _draws
    if not isinstance(state, State):
        raise TypeError(f"random.set_state: a state that get_state() gave is needed, got {type(state).__name__}")
    np.random.set_state(state.numpy)
    _seed, _draws = state.seed, state.draws


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
    global _seed, _draws
    if _seed is None:
        _seed = int(np.random.SeedSequence().generate_state(1)[0])
    with device.current():
        generator = _generators.get(device)
        if generator is None:
            generator = _generators[device] = device.xp.random.RandomState(_seed, method=_PHILOX)
        # A generator on a GPU does not tell its state. So each draw has a seed of its own, which Philox takes as its
        # key: the seed and the number of the draw are all there is to know.
        generator.seed((_seed << 32) + _draws)
        _draws += 1
        return generator.random_sample(tuple(shape), dtype=np.dtype(dtype))
