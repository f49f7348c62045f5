"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from ..autograd import Tensor
from ..backend import Array
from .blockwise import BlockwiseOptimizer, Rule


class SGD(BlockwiseOptimizer):
    """Stochastic gradient descent: ``u ← β u + (1 − β) g``, then ``p ← p − lr · u``.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves, such as ``model.parameters()``.
    lr : float
        Learning rate.
    momentum : float
        β, of [0, 1): how much of the last step's direction stays. With 0 no state is kept and ``u = g``.
    weight_decay : float
        ``weight_decay · p`` is added to the gradient g.
    nesterov : bool
        Look ahead: step along ``β u + (1 − β) g``, where momentum will have carried the parameters, instead of u.
        (Nesterov, 1983, in the form of Sutskever et al., 2013.)

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or `params` is no list of leaves.

    Notes
    -----
    Settings may be assigned between steps, and are checked as here. u stays what it is when `momentum` changes; where
    momentum was 0 it begins at 0.

    u is an average of gradients: with β = 0.9 the steps have the size that they have without momentum. PyTorch adds
    gradients up instead, ``u ← β u + g``, which gives the same steps for its ``lr`` = (1 − β) · `lr`.

    Examples
    --------
    >>> import needle as ndl
    >>> w = ndl.Tensor([4.0])
    >>> optimizer = ndl.optim.SGD([w], lr=0.25)
    >>> for _ in range(3):
    ...     optimizer.reset_grad()
    ...     (w * w).sum().backward(create_graph=False)
    ...     optimizer.step()
    >>> w
    needle.Tensor([0.5])
    """

    _settings: ClassVar[dict[str, float | None]] = {
        "lr": math.inf,
        "momentum": 1.0,
        "weight_decay": math.inf,
        "nesterov": None,
    }
    _averages: ClassVar[dict[str, str]] = {"g_sum": "momentum"}
    lr: float
    momentum: float
    weight_decay: float
    nesterov: bool

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        super().__init__(params)
        self._set({"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    @property
    def u(self) -> dict[Tensor, Array]:
        """The averaged gradient u of each parameter, as a copy; empty before the first step and without momentum."""
        return self._average("g_sum") if self.momentum else {}

    def _check(self, settings: dict[str, Any]) -> None:
        super()._check(settings)
        together = {**vars(self), **settings}
        if together["nesterov"] and not together["momentum"]:
            raise ValueError("SGD: nesterov looks ahead along the momentum, so momentum must be above 0")

    def _state_names(self) -> tuple[str, ...]:
        return ("g_sum",) if self.momentum else ()

    def _kernel(self) -> tuple[str, tuple]:
        return "sgd", (*self._constants(), int(self.nesterov))

    def _constants(self) -> tuple[float, float, float]:
        """β, the rate of U, and the decay."""
        # Kept is U = u / (1 − β), so that U ← β U + g needs no pass that scales g.
        beta = float(self.momentum)
        return beta, float(self.lr) * (1 - beta), float(self.weight_decay)

    def _rule(self) -> Rule:
        (beta, rate, decay), nesterov = self._constants(), self.nesterov

        def rule(xp: Any, p: Array, g: Array, state: list, out: Array, scratch: Array) -> None:
            if decay:
                xp.multiply(p, decay, out=scratch)
                scratch += g
                g = scratch
            if state:
                (total,) = state
                total *= beta
                total += g
                if not nesterov:
                    g = total
            xp.multiply(g, rate, out=scratch)
            xp.subtract(p, scratch, out=out)
            if nesterov:  # β u + (1 − β) g = (1 − β) (β U + g)
                xp.multiply(total, beta * rate, out=scratch)
                out -= scratch

        return rule
