"""Batch and layer normalisation, each as one node with one node for its gradients.

Both compute y = γ·x̂ + β with x̂ = r·(x − μ) and r = (σ² + ε)^(−½), where the mean μ = ⟨x⟩ and the (biased) variance
σ² = ⟨(x − μ)²⟩ are taken over the batch for each channel, or over the features for each row. Only the axes of ⟨·⟩
differ.

First order
-----------
Let k = γ·ȳ be the gradient with respect to x̂. With dμ = ⟨dx⟩ and dr = −r³·⟨(x − μ)·dx⟩ = −r²·⟨x̂·dx⟩,

    dx̂ = r·(dx − ⟨dx⟩) + (x − μ)·dr = r·(dx − ⟨dx⟩ − x̂·⟨x̂·dx⟩) = r·P(dx),     P(a) = a − ⟨a⟩ − x̂·⟨a·x̂⟩.

P is symmetric (⟨b·P(a)⟩ = ⟨ab⟩ − ⟨a⟩⟨b⟩ − ⟨a·x̂⟩⟨b·x̂⟩), so

    x̄ = r·P(k),     γ̄ = Σ ȳ·x̂,     β̄ = Σ ȳ,     Σ over what shares a γ.

Second order
------------
Let u, v, w be the gradients with respect to x̄, γ̄, β̄: the scalar is S = Σ u·r·P(k) + Σ v·γ̄ + Σ w·β̄. It is linear in ȳ
and in γ, and P is symmetric:

    ∂S/∂ȳ = γ·r·P(u) + v·x̂ + w,     ∂S/∂γ = Σ ȳ·r·P(u).

On x it depends through r and x̂. With p = ⟨u·x̂⟩, q = ⟨k·x̂⟩ and A = ⟨u·k⟩ − ⟨u⟩⟨k⟩ it is S = n·⟨r·(A − p·q)⟩ + Σ v·ȳ·x̂
+ …, n elements to a mean; so ∂S/∂x̂ = h = v·ȳ − r·(q·u + p·k), which goes to x as above, and ∂S/∂r = n·(A − p·q), which
goes to x by ∂r/∂x = −r²·x̂/n:

    ∂S/∂x = r·P(h) − r²·(A − p·q)·x̂.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import backend, kernels
from ..autograd import Tensor, TensorOp, TensorTupleOp, sum_node_list
from ..backend import Array, Shape, array_module
from ..kernels import elementwise as elementwise_gpu
from ..kernels import normalization as gpu
from . import normalization_numpy
from .checks import check_real
from .common import apply, as_value, on_one_device, shape_of
from .elementwise import astype
from .reduction import mean, summation
from .shape import broadcast_to, reshape


class _Normalization(TensorOp):
    """What both have in common: ``gradient``, and the statistics that it needs from ``compute``."""

    reads = ("inputs",)
    kernels: Any  # how NumPy computes it fast
    channels: bool  # whether a mean is a channel's, not a row's

    def __init__(self, eps: float):
        self.eps = check_eps(type(self).__name__, eps)
        self.statistics: tuple = ()  # of the last compute: x (weakly), mean, variance, r

    @staticmethod
    def axes(ndim: int) -> tuple[int, ...]:
        """The axes of the means."""
        raise NotImplementedError

    @staticmethod
    def parameter_shape(shape: Shape) -> Shape:
        """The shape in which γ and β broadcast to x."""
        raise NotImplementedError

    def __call__(self, x: Any, weight: Any, bias: Any) -> Any:
        return apply(self, *_checked(type(self).__name__, x, weight, bias, axis=1 if self.channels else -1))

    def compute(self, x: Array, weight: Array, bias: Array) -> Array:
        forward = self.kernels.forward if self.kernels.fits(x) else self._forward
        y, *statistics = forward(x, weight, bias, self.eps)
        self.statistics = (weakref.ref(x), *statistics)
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, weight, _ = node.inputs
        needs = node.needs_input_grad
        grads = iter(_NormalizationGrad(self, needs)(x, weight, out_grad))
        return tuple([next(grads) if need else None for need in needs])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(eps={self.eps})"

    # -- for any array module and layout

    def _forward(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        if kernels.fit(x, weight, bias) and x.size:
            return gpu.forward(x, weight, bias, eps, self.channels)
        xp, axes, shape = array_module(x), self.axes(x.ndim), self.parameter_shape(x.shape)
        mean = x.mean(axis=axes, keepdims=True)
        y = x - mean
        variance = (y * y).mean(axis=axes, keepdims=True)
        r = 1 / xp.sqrt(variance + eps)
        y *= r
        y *= weight.reshape(shape)
        y += bias.reshape(shape)
        return y, mean, variance, r

    def _backward(self, x: Array, weight: Array, out_grad: Array, mean: Array, r: Array, need_x: bool) -> tuple:
        if kernels.fit(x, weight, out_grad) and x.size:
            return gpu.backward(x, weight, out_grad, mean, r, self.channels)
        axes, shape = self.axes(x.ndim), self.parameter_shape(x.shape)
        shared = tuple([i for i in range(x.ndim) if shape[i] == 1 and x.shape[i] != 1])
        normal = x - mean
        normal *= r
        to_weight = (out_grad * normal).sum(axis=shared).reshape(weight.shape)
        to_bias = out_grad.sum(axis=shared).reshape(weight.shape)
        if not need_x:
            return None, to_weight, to_bias
        to_x = out_grad * weight.reshape(shape)
        normal *= (to_x * normal).mean(axis=axes, keepdims=True)
        to_x -= to_x.mean(axis=axes, keepdims=True)
        to_x -= normal
        to_x *= r
        return to_x, to_weight, to_bias


class BatchNorm(_Normalization):
    """Normalisation of each channel (axis 1) over all other axes; see the module for the derivation"""

    kernels = normalization_numpy.Columns
    channels = True

    @staticmethod
    def axes(ndim: int) -> tuple[int, ...]:
        return (0, *range(2, ndim))

    @staticmethod
    def parameter_shape(shape: Shape) -> Shape:
        return (1, shape[1]) + (1,) * (len(shape) - 2)


class LayerNorm(_Normalization):
    """Normalisation over the last axis; see the module for the derivation"""

    kernels = normalization_numpy.Rows
    channels = False

    @staticmethod
    def axes(ndim: int) -> tuple[int, ...]:
        return (ndim - 1,)

    @staticmethod
    def parameter_shape(shape: Shape) -> Shape:
        return (1,) * (len(shape) - 1) + shape[-1:]


class _NormalizationGrad(TensorTupleOp):
    """Those of x̄, γ̄, β̄ that are needed, from x, γ, ȳ; see the module for the derivation"""

    reads = ("inputs",)

    def __init__(self, forward: _Normalization, needs: tuple[bool, ...]):
        self.forward = forward
        self.needs = needs

    def compute(self, x: Array, weight: Array, out_grad: Array) -> tuple:
        op = self.forward
        if not op.statistics or op.statistics[0]() is not x:
            op.compute(x, weight, weight)
        _, mean, _, r = op.statistics
        backward = op.kernels.backward if op.kernels.fits(x) else op._backward
        grads = backward(x, weight, out_grad, mean, r, self.needs[0])
        return tuple([grad for grad, need in zip(grads, self.needs) if need])

    def gradient(self, out_grad: Any, node: Any) -> Any:
        x, weight, g = node.inputs
        need_x, need_weight, need_g = node.needs_input_grad
        axes, shape = self.forward.axes(len(x.shape)), self.forward.parameter_shape(x.shape)
        shared = tuple([i for i, size in enumerate(shape) if size == 1 and x.shape[i] != 1])

        def average(a: Any) -> Any:
            return mean(a, axes, keepdims=True)

        centred = x - average(x)
        r = (average(centred * centred) + self.forward.eps) ** -0.5
        normal = centred * r

        def project(a: Any) -> Any:
            return a - average(a) - normal * average(a * normal)

        cotangents = iter(out_grad)
        u, v, w = [next(cotangents) if need else None for need in self.needs]
        gamma = reshape(weight, shape)
        to_x: list = []
        to_weight = None
        to_g: list = []
        h: list = []
        if u is not None:
            pulled = r * project(u)
            to_g.append(pulled * gamma)
            if need_weight:
                to_weight = reshape(summation(g * pulled, shared), weight.shape)
            k = g * gamma
            p, q = average(u * normal), average(k * normal)
            h.append(r * (q * u + p * k) * -1)
            to_x.append(normal * (r * r * (p * q - average(u * k) + average(u) * average(k))))
        if v is not None:
            v = broadcast_to(reshape(v, shape), x.shape)
            to_g.append(normal * v)
            h.append(g * v)
        if w is not None:
            to_g.append(broadcast_to(reshape(w, shape), x.shape))
        if h:
            to_x.append(r * project(_sum(h)))
        return _sum(to_x) if need_x else None, to_weight, _sum(to_g) if need_g else None

    def __repr__(self) -> str:
        return f"{type(self.forward).__name__}Grad"


def _sum(terms: list) -> Any:
    return sum_node_list(terms) if terms else None


# ------------------------------------------------------------------------------------------------------------ functions


def batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    eps: float = 1e-5,
    *,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    momentum: float = 0.1,
) -> Any:
    """Each channel with mean 0 and variance 1 over the batch, times `weight`, plus `bias`.

    Parameters
    ----------
    x : Tensor
        Shape (N, C) or (N, C, …), floating; the means are taken over all axes but that of the channels.
    weight, bias : Tensor
        Shape (C,).
    eps : float
        Added to the variance, so that a constant channel divides by no zero.
    running_mean, running_var : Tensor, optional
        Shape (C,). They get (1 − momentum)·old + momentum·new for their values, with the batch's mean and (biased)
        variance; no graph hangs on them.
    momentum : float
        See there.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    TypeError
        If `x` is not floating, or a setting has another type.
    ValueError
        If the shapes do not fit, `eps` is negative, the batch is empty, or the operands live on different devices.

    References
    ----------
    S. Ioffe, C. Szegedy: Batch normalization. ICML 2015.

    Examples
    --------
    >>> import needle as ndl
    >>> x, one, zero, mean = ndl.Tensor([[1.0], [3.0]]), ndl.Tensor([1.0]), ndl.Tensor([0.0]), ndl.Tensor([0.0])
    >>> ndl.batch_norm(x, one, zero, eps=0.0, running_mean=mean)
    needle.Tensor([[-1.]
     [ 1.]])
    >>> mean
    needle.Tensor([0.2])
    """
    x, weight, bias = _checked("BatchNorm", x, weight, bias, axis=1)
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is not None and (not isinstance(running, Tensor) or running.shape != shape_of(weight)):
            got = running.shape if isinstance(running, Tensor) else type(running).__name__
            error = ValueError if isinstance(running, Tensor) else TypeError
            raise error(f"BatchNorm: {name}, a Tensor of shape {shape_of(weight)}, is needed, got {got}")
    check_real("BatchNorm", "momentum", momentum)
    op = BatchNorm(eps)
    y = apply(op, x, weight, bias)
    if running_mean is not None or running_var is not None:
        if isinstance(y, Tensor):
            y.realize_cached_data()  # a lazy node has no statistics before
        _, mean, variance, _ = op.statistics
        for running, new in ((running_mean, mean), (running_var, variance)):
            if running is not None:
                old = running.realize_cached_data()
                with backend.scope(old):
                    running.cached_data = _blend(old, new.reshape(-1), momentum)
    return y


def _blend(old: Array, new: Array, share: float) -> Array:
    """(1 − share)·old + share·new."""
    if kernels.fit(old, new):
        return elementwise_gpu.blend(old, new, share)
    moved = (1 - share) * old
    moved += share * new
    return moved


def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """The last axis with mean 0 and (biased) variance 1, times `weight`, plus `bias`.

    Parameters
    ----------
    x : Tensor
        Shape (…, D), floating.
    weight, bias : Tensor
        Shape (D,).
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    TypeError
        If `x` is not floating, or a setting has another type.
    ValueError
        If the shapes do not fit, `eps` is negative, or the operands live on different devices.

    References
    ----------
    J. L. Ba, J. R. Kiros, G. E. Hinton: Layer normalization. arXiv:1607.06450, 2016.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.layer_norm(ndl.Tensor([[1.0, 3.0]]), ndl.Tensor([1.0, 1.0]), ndl.Tensor([0.0, 5.0]), eps=0.0)
    needle.Tensor([[-1.  6.]])
    """
    return apply(LayerNorm(eps), *_checked("LayerNorm", x, weight, bias, axis=-1))


def check_eps(name: str, eps: Any) -> float:
    """`eps` if it can be added to a variance."""
    check_real(name, "eps", eps)
    if not eps >= 0:
        raise ValueError(f"{name}: eps is added to a variance and not negative, got {eps}")
    return eps


def _checked(name: str, x: Any, weight: Any, bias: Any, axis: int) -> tuple:
    """The operands in one dtype, or an error."""
    if _fits_at_once(x, weight, bias, axis):
        return x, weight, bias
    x, weight, bias = (as_value(name, value) for value in (x, weight, bias))
    shape = shape_of(x)
    if len(shape) < 1 + (axis == 1):
        raise ValueError(f"{name}: an input of shape {'(N, C, …)' if axis == 1 else '(…, D)'} is needed, got {shape}")
    if x.dtype.kind != "f":
        raise TypeError(f"{name}: a floating input is needed, got {x.dtype}: x.astype('float32')")
    for what, value in (("weight", weight), ("bias", bias)):
        if shape_of(value) != (shape[axis],):
            raise ValueError(
                f"{name}: an input of shape {shape} needs a {what} of shape ({shape[axis]},), got {shape_of(value)}"
            )
    if shape[axis] == 0 or (axis == 1 and 0 in shape):
        raise ValueError(
            f"{name}: the mean over {'an empty batch' if shape[axis] else 'nothing'} is not defined, got shape {shape}"
        )
    x, weight, bias = on_one_device(name, x, weight, bias)
    if x.dtype == weight.dtype == bias.dtype:
        return x, weight, bias
    dtype = np.result_type(x.dtype, weight.dtype, bias.dtype)
    return tuple([astype(value, dtype) for value in (x, weight, bias)])


def _fits_at_once(x: Any, weight: Any, bias: Any, axis: int) -> bool:
    """Whether this is the usual case, which is asked first because it takes a tenth of the time."""
    if not (isinstance(x, Tensor) and isinstance(weight, Tensor) and isinstance(bias, Tensor)):
        return False
    a, b, c = x.cached_data, weight.cached_data, bias.cached_data
    if not type(a) is type(b) is type(c) is np.ndarray:
        return False
    if a.ndim < 1 + (axis == 1) or a.dtype.kind != "f" or not a.dtype == b.dtype == c.dtype or not a.size:
        return False
    return b.shape == c.shape == (a.shape[axis],)
