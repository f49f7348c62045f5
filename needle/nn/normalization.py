"""Normalising layers."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import init, ops
from ..backend import Device
from ..ops.checks import check_real
from ..ops.normalization import check_eps
from .basic import check_input, check_size
from .module import Module, Parameter


class _Normalization(Module):
    """A learned scale and shift of `dim` features, with checks that both kinds share."""

    def __init__(self, dim: int, eps: float = 1e-5, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)
        self.dim = check_size(type(self).__name__, dim, "dim")
        self.eps = check_eps(type(self).__name__, eps)
        self.weight = Parameter(init.ones(dim, device=device, dtype=dtype))
        self.bias = Parameter(init.zeros(dim, device=device, dtype=dtype))

    def _check(self, x: Any, layouts: dict[int, str], axis: int) -> Any:
        """`x` if its number of axes is among `layouts` and the given one has size `dim`."""
        name = type(self).__name__
        shape = check_input(name, x).shape
        if len(shape) not in layouts or shape[axis] != self.dim:
            wanted = " or ".join(dict.fromkeys(layout.format(self.dim) for layout in layouts.values()))
            raise ValueError(f"{name}(dim={self.dim}): an input of shape {wanted} is needed, got {shape}")
        if x.dtype.kind != "f":
            raise TypeError(f"{name}: a floating input is needed, got {x.dtype}: x.astype('float32')")
        return x

    def extra_repr(self) -> str:
        """Its size and ε."""
        return f"dim={self.dim}, eps={self.eps}"


class LayerNorm1d(_Normalization):
    """Each row with mean 0 and (biased) variance 1, times a learned weight, plus a learned bias.

    Parameters
    ----------
    dim : int
        Size of the last axis.
    eps : float
        Added to the variance.
    device, dtype
        Of the parameters.

    Raises
    ------
    TypeError, ValueError
        If `dim` is no positive integer or `eps` is negative.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.LayerNorm1d(2, eps=0.0)(ndl.Tensor([[1.0, 3.0]], dtype="float32"))
    needle.Tensor([[-1.  1.]])
    """

    def forward(self, x: Any) -> Any:
        """Shape (N, dim), or with more axes in front, stays."""
        layouts = dict.fromkeys(range(1, max(getattr(x, "ndim", 0), 1) + 1), "(…, {})")
        return ops.layer_norm(self._check(x, layouts, -1), self.weight, self.bias, self.eps)


class BatchNorm1d(_Normalization):
    """Each feature with mean 0 and (biased) variance 1 over the batch, times a learned weight, plus a learned bias.

    In evaluation, running means and variances take the place of those of the batch. They follow the batches of
    training: running = (1 − momentum)·running + momentum·new.

    Parameters
    ----------
    dim : int
        Number of features.
    eps : float
        Added to the variance.
    momentum : float
        The weight of a new batch, in [0, 1].
    device, dtype
        Of the parameters and statistics.

    Attributes
    ----------
    running_mean, running_var : Tensor
        Shape (dim,): constants that no graph hangs on. `Module.state_dict` has them.

    Raises
    ------
    TypeError, ValueError
        If `dim` is no positive integer, `eps` is negative or `momentum` outside [0, 1].

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.BatchNorm1d(1, eps=0.0)
    >>> layer(ndl.Tensor([[1.0], [3.0]], dtype="float32"))
    needle.Tensor([[-1.]
     [ 1.]])
    >>> layer.running_mean, layer.running_var
    (needle.Tensor([0.2]), needle.Tensor([1.]))
    """

    _layouts: ClassVar = {2: "(N, {})"}

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(dim, eps, device, dtype)
        check_real(type(self).__name__, "momentum", momentum)
        if not 0 <= momentum <= 1:
            raise ValueError(f"{type(self).__name__}: momentum is the weight of a new batch, in [0, 1]; got {momentum}")
        self.momentum = momentum
        self.running_mean = init.zeros(dim, device=device, dtype=dtype)
        self.running_var = init.ones(dim, device=device, dtype=dtype)

    def forward(self, x: Any) -> Any:
        """Shape (N, dim) stays."""
        self._check(x, self._layouts, 1)
        if not self.training:
            return self._evaluate(x)
        return ops.batch_norm(
            x,
            self.weight,
            self.bias,
            self.eps,
            running_mean=self.running_mean,
            running_var=self.running_var,
            momentum=self.momentum,
        )

    def _evaluate(self, x: Any) -> Any:
        """γ·(x − μ)/√(σ² + ε) + β as x·scale + shift, with the running statistics."""
        scale = self.weight * (self.running_var + self.eps) ** -0.5
        shift = self.bias - scale * self.running_mean
        kept = (1, self.dim) + (1,) * (x.ndim - 2)
        return x * ops.reshape(scale, kept) + ops.reshape(shift, kept)

    def extra_repr(self) -> str:
        """Its settings."""
        return f"{super().extra_repr()}, momentum={self.momentum}"
