"""What all optimizers share: the list of parameters, their gradients, and clipping."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import backend
from ..autograd import Tensor
from ..backend import Array
from ..ops.checks import check_real


class Optimizer:
    """A list of parameters that `step` changes by means of their gradients.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves, such as ``model.parameters()``. One that is listed twice is updated once.

    Raises
    ------
    TypeError
        If `params` is no iterable of tensors.
    ValueError
        If it is empty, or one of its tensors is the result of an op.

    Notes
    -----
    A step computes on arrays: it records no graph, keeps none alive, and never changes a gradient. Graphs built before
    it, and whoever holds a parameter's old array, still see the old values.

    Examples
    --------
    An optimizer of one's own needs a `step`:

    >>> import needle as ndl
    >>> class SignDescent(ndl.optim.Optimizer):
    ...     def step(self):
    ...         for p in self.params:
    ...             if p.grad is not None:
    ...                 p.data = p.data - 0.1 * ndl.ops.sign(p.grad.data)
    >>> w = ndl.Tensor([1.0, -1.0])
    >>> (w * w).sum().backward()
    >>> SignDescent([w]).step()
    >>> w
    needle.Tensor([ 0.9 -0.9])
    """

    _resets = 0
    _watch: Any = None

    def __init__(self, params: Iterable[Tensor]):
        name = type(self).__name__
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise TypeError(
                f"{name}: a list of tensors is needed, such as model.parameters(), got {type(params).__name__}"
            )
        listed = list(params)
        for position, p in enumerate(listed):
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: parameter {position} is a {type(p).__name__}, not a Tensor")
            if not p.is_leaf():
                raise ValueError(
                    f"{name}: parameter {position} is the result of {p.op}; gradients are stored in leaves only, "
                    "so give the tensors that it was computed from"
                )
        if not listed:
            raise ValueError(f"{name}: the list of parameters is empty (a generator that was used up already?)")
        self.params: list[Tensor] = list(dict.fromkeys(listed))

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def reset_grad(self) -> None:
        """Let go of all gradients (and of the graphs that they may hold).

        Being called once in each step, this is also where a graph that grows with the steps is noticed: at step 32, 64,
        128 and so on `needle.memory.history` has a look.
        """
        for p in self.params:
            p.grad = None
        self._resets += 1
        if self._watch is not None or (self._resets >= 32 and self._resets & (self._resets - 1) == 0):
            from ..memory import history  # not before: importing needle imports no tools

            self._watch = history.look(self._watch, self._resets)

    def clip_grad_norm(self, max_norm: float = 0.25) -> Tensor:
        """Scale all gradients down by one factor so that their joint Euclidean norm is at most `max_norm`.

        Gradients are replaced by constants, which hold no graph; their arrays are not changed.

        Parameters
        ----------
        max_norm : float
            The largest norm, at least 0.

        Returns
        -------
        Tensor
            The norm before clipping, 0-d. It stays on the gradients' device: reading it is what waits for a GPU.

        Raises
        ------
        TypeError
            If `max_norm` is no number.
        ValueError
            If it is negative or NaN, or the gradients live on several devices.

        Notes
        -----
        The factor is ``min(1, max_norm / (norm + 1e-6))``. A norm that is not finite makes all gradients NaN or 0, so
        look at the returned one where that can happen.

        Examples
        --------
        >>> import needle as ndl
        >>> w = ndl.Tensor([0.0, 0.0])
        >>> (w * ndl.Tensor([3.0, 4.0])).sum().backward()
        >>> ndl.optim.SGD([w]).clip_grad_norm(max_norm=1.0)
        needle.Tensor(5.0)
        >>> w.grad
        needle.Tensor([0.59999988 0.79999984])
        """
        check_real("clip_grad_norm", "max_norm", max_norm)
        if not max_norm >= 0:
            raise ValueError(f"clip_grad_norm: max_norm is at least 0, got {max_norm}")
        owners = [p for p in self.params if p.grad is not None]
        if not owners:
            return Tensor(0.0, dtype="float32", requires_grad=False)
        gradients = [p.grad.realize_cached_data() for p in owners]
        devices = list(dict.fromkeys(str(backend.device_of(g)) for g in gradients))
        if len(devices) > 1:
            raise ValueError(f"clip_grad_norm: the gradients live on {' and '.join(devices)}: clip each device's own")
        with backend.scope(gradients):
            norm = _joint_norm(gradients)
            factor = max_norm / (norm + 1e-6)
            xp = backend.array_module(norm)
            short = xp is np and factor >= 1  # looking would wait for a GPU, which multiplies by 1 instead
            factor = xp.minimum(factor, 1)
            for p, g in zip(owners, gradients):
                p.grad = Tensor._from_array(g if short else backend.as_array(g * factor.astype(g.dtype), g), False)
            return Tensor._from_array(backend.as_array(norm, gradients[0]), False)


def _joint_norm(arrays: list[Array]) -> Any:
    """The Euclidean norm of all the arrays' elements, on their device, without waiting for it."""
    xp = backend.array_module(arrays[0])
    return xp.linalg.norm(xp.stack([xp.linalg.norm(a.reshape(-1)) for a in arrays]))


def check_number(name: str, what: str, value: Any, below: float = float("inf")) -> None:
    """Raise unless `value` is a number of [0, `below`)."""
    check_real(name, what, value)
    if not 0 <= float(value) < below:
        limits = "a finite number of at least 0" if below == float("inf") else f"at least 0 and below {below:g}"
        raise ValueError(f"{name}: {what} is {limits}, got {value}")


def check_state(name: str, state: Any, kind: str) -> None:
    """Raise unless `state` is what the `state_dict` of a `name` gave; `kind` is the key that names its class."""
    if not isinstance(state, dict):
        raise TypeError(f"{name}: a state is a dictionary, as state_dict() gives it; got {type(state).__name__}")
    if state.get(kind) != name:
        raise ValueError(f"{name}: cannot load the state of {state.get(kind)!r}")
