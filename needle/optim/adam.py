"""Adam and AdamW: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from ..autograd import Tensor
from ..backend import Array
from .blockwise import BlockwiseOptimizer, Rule


class Adam(BlockwiseOptimizer):
    """Adam (Kingma and Ba, 2015, arXiv:1412.6980) with bias correction.

    With g the gradient, in step t = 1, 2, …: ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``,
    ``p ← p − lr · m̂ / (√v̂ + eps)``, where ``m̂ = m / (1 − β₁ᵗ)`` and ``v̂ = v / (1 − β₂ᵗ)``.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves, such as ``model.parameters()``.
    lr : float
        Learning rate.
    beta1, beta2 : float
        How much of the averages stays in a step, of [0, 1).
    eps : float
        Keeps the quotient finite.
    weight_decay : float
        ``weight_decay · p`` is added to the gradient (an L2 penalty), so it is averaged and scaled with it; `AdamW`
        shrinks the parameters instead.

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or `params` is no list of leaves.

    Notes
    -----
    Settings may be assigned between steps, and are checked as here; m and v stay what they are when a β changes.

    The bias correction counts steps, not a parameter's gradients: a parameter that gets its first gradient in step 10
    is corrected for ten steps.

    Examples
    --------
    The first step has the size of the learning rate, whatever the gradient's:

    >>> import needle as ndl
    >>> w = ndl.Tensor([3.0, -40.0])
    >>> (w * w).sum().backward(create_graph=False)
    >>> ndl.optim.Adam([w], lr=0.5).step()
    >>> w
    needle.Tensor([  2.5 -39.5])
    """

    _settings: ClassVar[dict[str, float | None]] = {
        "lr": math.inf,
        "beta1": 1.0,
        "beta2": 1.0,
        "eps": math.inf,
        "weight_decay": math.inf,
    }
    _averages: ClassVar[dict[str, str]] = {"g_sum": "beta1", "g2_sum": "beta2"}
    _decoupled = False
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(params)
        self._set({"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay})

    @property
    def m(self) -> dict[Tensor, Array]:
        """The averaged gradient m of each parameter, as a copy; empty before the first step."""
        return self._average("g_sum")

    @property
    def v(self) -> dict[Tensor, Array]:
        """The averaged squared gradient v of each parameter, as a copy; empty before the first step."""
        return self._average("g2_sum")

    def _state_names(self) -> tuple[str, ...]:
        return ("g_sum", "g2_sum")

    def _check_dtype(self, position: int, dtype: np.dtype) -> None:
        super()._check_dtype(position, dtype)
        self._check_eps(self.eps, position, dtype)

    def _check(self, settings: dict[str, Any]) -> None:
        super()._check(settings)
        if "eps" in settings:
            for position, p in enumerate(self.params):
                self._check_eps(settings["eps"], position, p.dtype)

    def _check_eps(self, eps: float, position: int, dtype: np.dtype) -> None:
        if eps and dtype.kind == "f" and not dtype.type(eps):
            raise ValueError(
                f"{type(self).__name__}: eps={eps} is zero in the {dtype} of parameter {position}: "
                f"give at least {float(np.finfo(dtype).smallest_subnormal):.1g}"
            )

    def _kernel(self) -> tuple[str, tuple]:
        return "adam", self._constants()

    def _constants(self) -> tuple[float, ...]:
        """β₁, β₂, rate, eps, penalty and keep of step number `t`."""
        # Kept are the sums M = m / (1 − β₁) and V = v / (1 − β₂): M ← β₁ M + g and V ← β₂ V + g² need no pass that
        # scales g. With c = √((1 − β₂) / (1 − β₂ᵗ)) we have √v̂ = c √V, so
        # lr · m̂ / (√v̂ + eps) = [lr (1 − β₁) / ((1 − β₁ᵗ) c)] · M / (√V + eps / c), and both constants are scalars.
        beta1, beta2, decay = float(self.beta1), float(self.beta2), float(self.weight_decay)
        c = math.sqrt((1 - beta2) / (1 - beta2**self.t))
        rate = float(self.lr) * (1 - beta1) / ((1 - beta1**self.t) * c)
        eps = float(self.eps) / c
        penalty, keep = (0.0, 1 - float(self.lr) * decay) if self._decoupled else (decay, 1.0)
        return beta1, beta2, rate, eps, penalty, keep

    def _rule(self) -> Rule:
        beta1, beta2, rate, eps, penalty, keep = self._constants()

        def rule(xp: Any, p: Array, g: Array, state: list, out: Array, scratch: Array) -> None:
            total, total_of_squares = state
            if penalty:
                xp.multiply(p, penalty, out=scratch)
                scratch += g
                g = scratch
            total *= beta1
            total += g
            xp.multiply(g, g, out=scratch)
            total_of_squares *= beta2
            total_of_squares += scratch
            xp.sqrt(total_of_squares, out=scratch)
            scratch += eps
            xp.divide(total, scratch, out=scratch)
            scratch *= rate
            if keep != 1:
                xp.multiply(p, keep, out=out)
                out -= scratch
            else:
                xp.subtract(p, scratch, out=out)

        return rule


class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019, arXiv:1711.05101).

    Each step multiplies the parameters by ``1 − lr · weight_decay``, and Adam's update sees the gradient alone.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves, such as ``model.parameters()``.
    lr, beta1, beta2, eps : float
        As in `Adam`.
    weight_decay : float
        The rate of decay, relative to `lr`.

    Examples
    --------
    >>> import needle as ndl
    >>> w = ndl.Tensor([2.0])
    >>> (w * 0.0).sum().backward(create_graph=False)
    >>> ndl.optim.AdamW([w], lr=0.5, weight_decay=0.5).step()
    >>> w
    needle.Tensor([1.5])
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(params, lr, beta1, beta2, eps, weight_decay)
