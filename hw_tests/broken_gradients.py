"""Ops with deliberately wrong gradients, one mistake each, for the gradient checker to find and to name.

`MISTAKES` has for each inputs at which it shows, and words that the checker's hint must contain. The right rule stands
in a comment where it is not plain from the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import needle as ndl
from needle import ops

_rng = np.random.default_rng(7)


def _normal(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape)


@dataclass(frozen=True)
class Mistake:
    fn: Callable
    inputs: list
    hint: str  #: must stand in the checker's hint
    op: str  #: the op that the checker must name
    input: int | None = 0  #: the input that it must name
    order: int = 1  #: 1 if gradcheck finds it; 2 if only gradgradcheck does


MISTAKES: list[Mistake] = []


def mistake(*inputs: np.ndarray, hint: str, input: int | None = 0, order: int = 1) -> Callable:
    """Register an op, applied to `inputs`, with what the checker must say of it."""

    def register(cls: type) -> type:
        MISTAKES.append(Mistake(cls(), list(inputs), hint, cls.__name__, input, order))
        return cls

    return register


class _Tanh(ndl.TensorOp):
    def compute(self, a):
        return np.tanh(a)


class _MatMul(ndl.TensorOp):
    def compute(self, a, b):
        return a @ b


class _RowSums(ndl.TensorOp):
    def compute(self, a):
        return a.sum(1)


# ------------------------------------------------------------------------------------------------- factors and zeros


@mistake(_normal(3, 2), hint="factor of 2")
class FactorOfTwo(_Tanh):
    def gradient(self, out_grad, node):
        return 2 * out_grad * (1 - node * node)


@mistake(_normal(4), hint="the sign")
class WrongSign(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad * (node * node - 1)


@mistake(_normal(5), hint="factor of 1/2 (one of 2 equal uses counted, `=` for `+=`")
class SquareCountedOnce(ndl.TensorOp):
    def compute(self, a):
        return a * a

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return out_grad * a  # + out_grad * a, for the other factor


@mistake(_normal(2, 3), hint="zero")
class Forgotten(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad * 0


@mistake(_normal(3, 4), _normal(4), hint="zero", input=1)
class NoneForAnInput(ndl.TensorOp):
    def compute(self, a, b):
        return a + b

    def gradient(self, out_grad, node):
        return out_grad, None


@mistake(np.array([-1.0, 0.0, 2.0]), hint="not finite")
class NotFinite(ndl.TensorOp):
    """a², whose derivative 2a is written as 2a²/a"""

    def compute(self, a):
        return a * a

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return out_grad * 2 * node / a


# ----------------------------------------------------------------------------------------------- axes and transposition


@mistake(_normal(3, 3), _normal(3, 3), hint="transposed: axes 0 and 1", input=1)
class TransposedMatMul(_MatMul):
    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b.transpose(), out_grad.transpose() @ a  # aᵀ @ out_grad


@mistake(_normal(3, 4), _normal(4, 2), hint="(2, 4) instead of (4, 2), transposed", input=1)
class TransposedOblongMatMul(_MatMul):
    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b.transpose(), out_grad.transpose() @ a


@mistake(_normal(3, 3), _normal(3, 3), hint="input 1 is used transposed")
class OperandNotTransposed(_MatMul):
    def gradient(self, out_grad, node):
        a, b = node.inputs
        return out_grad @ b, a.transpose() @ out_grad  # out_grad @ bᵀ


@mistake(_normal(3, 3), _normal(3, 3), hint="gradient of input 1: the rule returns them in another order")
class ReturnedInAnotherOrder(_MatMul):
    def gradient(self, out_grad, node):
        a, b = node.inputs
        return a.transpose() @ out_grad, out_grad @ b.transpose()


@mistake(_normal(1, 3), _normal(4, 3), hint="missing a sum over axis 0")
class BroadcastNotUndone(ndl.TensorOp):
    def compute(self, a, b):
        return a + b

    def gradient(self, out_grad, node):
        return out_grad, out_grad


@mistake(_normal(3, 1), _normal(3, 4), hint="missing a sum over axis 1 of out_grad: only entry 0 is counted")
class OneColumnInsteadOfTheSum(ndl.TensorOp):
    def compute(self, a, b):
        return a + b

    def gradient(self, out_grad, node):
        return out_grad[:, :1], out_grad


@mistake(_normal(1, 3), _normal(4, 3), hint="factor of 1/4")
class MeanInsteadOfSum(ndl.TensorOp):
    def compute(self, a, b):
        return a * b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return ops.summation(out_grad * b, 0, keepdims=True) / b.shape[0], out_grad * a


@mistake(_normal(3, 4), hint="(3,) instead of (3, 4), which")
class SumNotSpread(_RowSums):
    def gradient(self, out_grad, node):
        return out_grad


@mistake(_normal(3, 4), hint="(3, 1) instead of (3, 4), not spread")
class SumNotSpreadButReshaped(_RowSums):
    def gradient(self, out_grad, node):
        return out_grad.reshape((3, 1))


@mistake(_normal(3, 3), hint="transposed: axes 0 and 1")
class SpreadOverTheWrongAxis(_RowSums):
    def gradient(self, out_grad, node):
        return out_grad.broadcast_to(node.inputs[0].shape)  # of shape (3, 1) first


@mistake(_normal(2, 3), hint="reversed along axes (0, 1)")
class FlippedAlongTheWrongAxis(ndl.TensorOp):
    def compute(self, a):
        return a[::-1]

    def gradient(self, out_grad, node):
        return ops.flip(out_grad, 1)


@mistake(_normal(3, 4), hint="axis is confused with another")
class SoftmaxOverTheWrongAxis(ndl.TensorOp):
    def compute(self, a):
        e = np.exp(a)
        return e / e.sum(1, keepdims=True)

    def gradient(self, out_grad, node):
        weighted = ops.summation(out_grad * node, 0, keepdims=True)
        return (out_grad - weighted.broadcast_to(node.shape)) * node


@mistake(_normal(2, 6), hint="(2, 2, 3) instead of (2, 6), not reshaped back")
class NotReshapedBack(ndl.TensorOp):
    def compute(self, a):
        return a.reshape(2, 2, 3)

    def gradient(self, out_grad, node):
        return out_grad


# ---------------------------------------------------------------------- cotangents: nothing of this shows with ones


@mistake(_normal(4), hint="out_grad is used reversed along axis 0")
class ReversedCotangent(_Tanh):
    def gradient(self, out_grad, node):
        return ops.flip(out_grad) * (1 - node * node)


@mistake(_normal(3, 3), hint="out_grad is used transposed")
class TransposedCotangent(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad.transpose() * (1 - node * node)


@mistake(_normal(5), hint="out_grad is used with its elements permuted")
class PermutedCotangent(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad[[2, 0, 1, 4, 3]] * (1 - node * node)


@mistake(_normal(4), hint="out_grad is ignored")
class CotangentIgnored(_Tanh):
    def gradient(self, out_grad, node):
        return 1 - node * node


@mistake(_normal(4), hint="the wrong places: permuted")
class RollGradientTheSameWay(ndl.TensorOp):
    def compute(self, a):
        return np.roll(a, 1)

    def gradient(self, out_grad, node):
        return out_grad[[3, 0, 1, 2]]  # [[1, 2, 3, 0]]


@mistake(_normal(3, 4), hint="averaged over axis 1, and spread")
class AveragedGradient(ndl.TensorOp):
    def compute(self, a):
        return a * 1.0

    def gradient(self, out_grad, node):
        return ops.mean(out_grad, 1, keepdims=True).broadcast_to(out_grad.shape)


# --------------------------------------------------------------------------------------------- uses and terms left out


@mistake(_normal(4), hint="only one of several uses of an element is counted")
class DuplicatesOverwrite(ndl.TensorOp):
    index = np.array([0, 2, 2, 3, 0])

    def compute(self, a):
        return a[self.index]

    def gradient(self, out_grad, node):
        scattered = np.zeros(4)
        scattered[self.index] = out_grad.numpy()  # np.add.at
        return ndl.Tensor(scattered)


@mistake(_normal(5), hint="only one of several uses of an element is counted")
class NeighbourForgotten(ndl.TensorOp):
    """Products of neighbours around a ring"""

    def compute(self, a):
        return a * np.roll(a, 1)

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return out_grad * a[[4, 0, 1, 2, 3]]


@mistake(_normal(4), hint="a term of the chain rule is missing")
class ProductRuleHalved(ndl.TensorOp):
    """a·σ(a)"""

    def compute(self, a):
        return a / (1 + np.exp(-a))

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return out_grad * ops.sigmoid(a)  # · (1 + a·(1 − σ(a)))


# ---------------------------------------------------------------------------------------------------- outside the graph


class KeepsItsInput(ndl.TensorOp):
    """The square, whose rule reads the input from the op instead of the node"""

    def compute(self, a):
        self.a = a
        return a * a

    def gradient(self, out_grad, node):
        return 2 * out_grad * ndl.Tensor(self.a)


_shared = KeepsItsInput()
MISTAKES.append(
    Mistake(lambda a: _shared(_shared(a)).sum(), [_normal(3)], "stale values", "KeepsItsInput", input=None),
)
MISTAKES.append(
    Mistake(
        lambda a: ops.exp(a) * ops.tanh(a).detach(),
        [_normal(3)],
        "not in it (.numpy(), .data, detach())",
        "function",
    ),
)
MISTAKES.append(Mistake(lambda a: ndl.Tensor(np.exp(a.numpy())), [_normal(3)], "zero", "function"))


@mistake(_normal(4), hint="zero: part of the function or rule is outside the graph", order=2)
class GradientDetached(_Tanh):
    """Right at first order, but a constant: its own gradient is lost"""

    def gradient(self, out_grad, node):
        return out_grad * (1 - node * node).detach()


@mistake(_normal(4), hint="not in it (.numpy(), .data, detach())", order=2, input=1)
class CotangentDetached(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad.detach() * (1 - node * node)


@mistake(_normal(4), hint="not in it (.numpy(), .data, detach())", order=2)
class HalfOfTheSecondOrder(_Tanh):
    """Right at first order, but one of the two paths back from tanh² is cut"""

    def gradient(self, out_grad, node):
        return out_grad * (1 - node * node.detach())


# -------------------------------------------------------------------------------------------------- the rule on arrays


@mistake(_normal(2, 3), hint="no methods of tensors", input=None)
class MethodsOfTensors(_Tanh):
    reads = ("output",)

    def gradient(self, out_grad, node):
        return out_grad * (1 - node.output * node.output).astype("float64").broadcast_to(out_grad.shape)


@mistake(_normal(3), hint="create_graph=False gives another gradient")
class OtherwiseOnArrays(_Tanh):
    reads = ("output",)

    def gradient(self, out_grad, node):
        y = node.output
        return out_grad * (1 - (y * y if isinstance(y, ndl.Tensor) else y))


@mistake(_normal(3), hint="NameError", input=None)
class RaisingRule(_Tanh):
    def gradient(self, out_grad, node):
        return out_grad * (1 - nodes * nodes)  # noqa: F821
