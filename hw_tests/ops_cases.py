"""For every op one way to draw an application of it: what its gradients are tested on.

Shapes are drawn by hypothesis: 0-d, empty, of size 1. Values come from a generator seeded by it, and lie in memory as
arrays of users do: in C or Fortran order, reversed, every second element of a larger array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import needle as ndl
from needle import autograd, ops
from needle.ops.composite import Vjp
from needle.ops.loss import CrossEntropyGrad
from needle.ops.normalization import _NormalizationGrad

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a.copy(order="C"),
    "Fortran": lambda a: a.copy(order="F"),
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "permuted": lambda a: np.moveaxis(np.moveaxis(a, -1, 0).copy(), 0, -1),
}


class Draw:
    """What a case draws from."""

    def __init__(self, draw: Callable):
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed of the values"))

    def shape(self, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 3) -> tuple[int, ...]:
        return self.draw(
            hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side), label="shape"
        )

    def size(self, low: int = 0, high: int = 3) -> int:
        return self.draw(st.integers(low, high), label="size")

    def pick(self, values) -> object:
        return self.draw(st.sampled_from(values))

    def array(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> np.ndarray:
        values = np.array(self.rng.uniform(low, high, shape))
        return LAYOUTS[self.pick(list(LAYOUTS))](values) if shape else values

    def tensor(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> ndl.Tensor:
        """A leaf over an array with its very strides (on a GPU: in C order)."""
        return self.leaf(self.array(shape, low, high))

    @staticmethod
    def leaf(array: np.ndarray) -> ndl.Tensor:
        if ndl.default_device() != ndl.cpu():
            return ndl.Tensor(array)
        return ndl.Tensor.make_const(np.asarray(array), requires_grad=True)

    def tensors(self, count: int, low: float = -2.0, high: float = 2.0) -> list[ndl.Tensor]:
        """Leaves of one shape."""
        shape = self.shape()
        return [self.tensor(shape, low, high) for _ in range(count)]

    def away_from_zero(self, shape: tuple[int, ...]) -> ndl.Tensor:
        return self.leaf(self.array(shape, 0.5, 2.0) * self.rng.choice([-1.0, 1.0], shape))

    def axes(self, ndim: int) -> tuple[int, ...]:
        """Some of the axes, in any order, some counted from the end."""
        chosen = self.draw(st.lists(st.integers(0, ndim - 1), unique=True), label="axes") if ndim else []
        return tuple([axis - ndim if self.draw(st.booleans()) else axis for axis in chosen])

    def broadcastable(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A shape, and one that it broadcasts to."""
        large = self.shape()
        kept = large[self.draw(st.integers(0, len(large))) :]
        return tuple([1 if self.draw(st.booleans()) else size for size in kept]), large

    def index(self, shape: tuple[int, ...]) -> tuple:
        """Any index of an array: integers, slices, None, ..., masks, integer arrays with duplicates."""
        kind = self.pick(["basic", "integers", "mask", "mixed"])
        if kind == "integers" and shape and 0 not in shape:
            return tuple(self.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_side=3))))
        if kind == "mask":
            return (self.draw(hnp.arrays(bool, shape)),)
        if kind == "mixed" and len(shape) > 1 and 0 not in shape:
            return (self.draw(hnp.integer_array_indices(shape[:1]))[0], Ellipsis, slice(None, None, -1))
        index = self.draw(hnp.basic_indices(shape, allow_newaxis=True))
        return index if isinstance(index, tuple) else (index,)


CASES: dict[type[ndl.Op], Callable[[Draw], tuple]] = {}


def case(op: type[ndl.Op]) -> Callable:
    """Register how an application of `op` is drawn: a function of tensors, and the tensors."""

    def register(draw: Callable[[Draw], tuple]) -> Callable:
        CASES[op] = draw
        return draw

    return register


# ---------------------------------------------------------------------------------------------- one element at a time

CASES |= {
    ops.EWiseAdd: lambda d: (ops.add, d.tensors(2)),
    ops.EWiseMul: lambda d: (ops.multiply, d.tensors(2)),
    ops.EWisePow: lambda d: (ops.power, d.tensors(2, low=0.3)),
    ops.Negate: lambda d: (ops.negate, d.tensors(1)),
    ops.Exp: lambda d: (ops.exp, d.tensors(1)),
    ops.Log: lambda d: (ops.log, d.tensors(1, low=0.3)),
    ops.Sqrt: lambda d: (ops.sqrt, d.tensors(1, low=0.3)),
    ops.Tanh: lambda d: (ops.tanh, d.tensors(1)),
    ops.Sigmoid: lambda d: (ops.sigmoid, d.tensors(1)),
    ops.ReLU: lambda d: (ops.relu, d.tensors(1)),
    ops.Abs: lambda d: (ops.abs, d.tensors(1)),
    ops.Maximum: lambda d: (ops.maximum, d.tensors(2)),
    ops.Minimum: lambda d: (ops.minimum, d.tensors(2)),
    ops.Cast: lambda d: (ops.Cast("float64"), d.tensors(1)),
    ops.To: lambda d: (ops.To(ndl.default_device()), d.tensors(1)),
}
_SCALARS = [-2, -1, 0, 1, 2, 3, 0.5, -1.5]


@case(ops.EWiseDiv)
def _(d):
    shape = d.shape()
    return ops.divide, [d.tensor(shape), d.away_from_zero(shape)]


@case(ops.AddScalar)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: ops.add_scalar(a, c), d.tensors(1)


@case(ops.MulScalar)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: ops.mul_scalar(a, c), d.tensors(1)


@case(ops.DivScalar)
def _(d):
    c = d.pick([c for c in _SCALARS if c])
    return lambda a: ops.divide_scalar(a, c), d.tensors(1)


@case(ops.ScalarDiv)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: c / a, [d.away_from_zero(d.shape())]


@case(ops.PowerScalar)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: ops.power_scalar(a, c), d.tensors(1, low=0.3)


@case(ops.ScalarPower)
def _(d):
    c = d.pick([0.5, 1, 2, 3.0])
    return lambda a: c**a, d.tensors(1)


@case(ops.MaximumScalar)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: ops.maximum(c, a), d.tensors(1)


@case(ops.MinimumScalar)
def _(d):
    c = d.pick(_SCALARS)
    return lambda a: ops.minimum(a, c), d.tensors(1)


@case(ops.Where)
def _(d):
    shape = d.shape()
    condition = ndl.default_device().array(d.rng.random(shape) < 0.5)
    return lambda a, b: ops.where(condition, a, b), [d.tensor(shape), d.tensor(shape)]


@case(autograd.SumNodes)
def _(d):
    return autograd.SumNodes(), d.tensors(d.draw(st.integers(2, 4)))


# --------------------------------------------------------------------------------------------------------- reductions


@case(ops.Summation)
def _(d):
    shape = d.shape()
    axes = d.pick([None, d.axes(len(shape))])
    keepdims = d.draw(st.booleans())
    return lambda a: ops.summation(a, axes, keepdims=keepdims), [d.tensor(shape)]


def _extremum(fn):
    def draw(d):
        shape = d.shape()
        axes = tuple([axis for axis in d.axes(len(shape)) if shape[axis]])
        keepdims = d.draw(st.booleans())
        return lambda a: fn(a, axes, keepdims=keepdims), [d.tensor(shape)]

    return draw


CASES[ops.Max] = _extremum(ops.max)
CASES[ops.Min] = _extremum(ops.min)


@case(ops.LogSumExp)
def _(d):
    shape = d.shape()
    axes = tuple([axis for axis in d.axes(len(shape)) if shape[axis]])
    return lambda a: ops.logsumexp(a, axes), [d.tensor(shape)]


CASES[ops.LogSoftmax] = lambda d: (ops.logsoftmax, [d.tensor(d.shape(min_dims=1))])
CASES[ops.Softmax] = lambda d: (ops.softmax, [d.tensor(d.shape(min_dims=1))])


# ---------------------------------------------------------------------------------------------------- shapes and order


@case(ops.BroadcastTo)
def _(d):
    small, large = d.broadcastable()
    return ops.BroadcastTo(large), [d.tensor(small)]


@case(ops.SumTo)
def _(d):
    small, large = d.broadcastable()
    return ops.SumTo(small), [d.tensor(large)]


@case(ops.Reshape)
def _(d):
    shape = d.shape()
    new = tuple(itertools.chain(*[(1, size) if d.draw(st.booleans()) else (size,) for size in reversed(shape)]))
    return ops.Reshape(new), [d.tensor(shape)]


@case(ops.Transpose)
def _(d):
    shape = d.shape(min_dims=2)
    axes = d.pick([None, tuple(d.draw(st.integers(-len(shape), len(shape) - 1)) for _ in range(2))])
    return lambda a: ops.transpose(a, axes), [d.tensor(shape)]


@case(ops.Permute)
def _(d):
    shape = d.shape()
    axes = d.draw(st.permutations(range(len(shape))))
    return lambda a: ops.permute(a, axes), [d.tensor(shape)]


@case(ops.Flip)
def _(d):
    shape = d.shape()
    axes = d.axes(len(shape))
    return lambda a: ops.flip(a, axes), [d.tensor(shape)]


@case(ops.Concatenate)
def _(d):
    shape = d.shape(min_dims=1)
    axis = d.draw(st.integers(-len(shape), len(shape) - 1))
    shapes = [list(shape) for _ in range(d.draw(st.integers(1, 3)))]
    for one in shapes:
        one[axis] = d.size()
    return lambda *arrays: ops.concatenate(arrays, axis), [d.tensor(tuple(one)) for one in shapes]


@case(ops.Stack)
def _(d):
    shape = d.shape()
    axis = d.draw(st.integers(-len(shape) - 1, len(shape)))
    count = d.draw(st.integers(1, 3))
    return lambda *arrays: ops.stack(arrays, axis), [d.tensor(shape) for _ in range(count)]


@case(ops.Split)
def _(d):
    shape = list(d.shape(min_dims=1))
    axis = d.draw(st.integers(-len(shape), len(shape) - 1))
    shape[axis] = d.size(low=1)
    return lambda a: ops.split(a, axis), [d.tensor(tuple(shape))]


@case(ops.MakeTensorTuple)
def _(d):
    return ops.make_tuple, [d.tensor(d.shape()) for _ in range(d.draw(st.integers(1, 3)))]


@case(autograd._TupleGetItem)
def _(d):
    index = d.draw(st.integers(-3, 2))
    return lambda a, b: ops.tuple_get_item(ops.make_tuple(a, b, a), index), d.tensors(2)


@case(ops.FusedAddScalars)
def _(d):
    c0, c1 = d.pick(_SCALARS), d.pick(_SCALARS)
    return lambda a: ops.fused_add_scalars(a, c0, c1), d.tensors(1)


@case(ops.GetItem)
def _(d):
    shape = d.shape()
    index = d.index(shape)
    return lambda a: ops.getitem(a, index), [d.tensor(shape)]


@case(ops.ScatterAdd)
def _(d):
    shape = d.shape()
    index = d.index(shape)
    device = ndl.default_device()
    parts = tuple([device.array(part) if isinstance(part, np.ndarray) else part for part in index])
    return ops.ScatterAdd(shape, parts), [d.tensor(np.zeros(shape)[index].shape)]


# ------------------------------------------------------------------------------------------------------------ products


@case(ops.MatMul)
def _(d):
    n, k, m = d.size(), d.size(), d.size()
    left, right = d.pick(
        [
            ((n, k), (k, m)),
            ((k,), (k,)),
            ((n, k), (k,)),
            ((k,), (k, m)),
            ((2, n, k), (k, m)),
            ((n, k), (2, k, m)),
            ((2, n, k), (2, k, m)),
            ((2, 1, n, k), (3, k, m)),
            ((0, n, k), (k, m)),
            ((k,), (2, k, m)),
            ((2, n, k), (k,)),
        ]
    )
    return ops.matmul, [d.tensor(left), d.tensor(right)]


_EINSUMS = [
    "ij,jk->ik",
    "i,i->",
    "i,j->ij",
    "ij->ji",
    "ij->",
    "ij->j",
    "ii",
    "ii->i",
    "iij,jk->ik",
    "bij,bjk->bik",
    "ij,ij->ij",
    "ij,kj",
    "bi,bj,bk->ijk",
    "...i,...i->...",
    "i...,ij->j...",
]


@case(ops.EinSum)
def _(d):
    subscripts = d.pick(_EINSUMS)
    sizes = {letter: d.size() for letter in "ijkb"}
    batch = d.shape(max_dims=2, min_side=1)
    shapes = [
        tuple(itertools.chain(*[batch if c == "." else (sizes[c],) for c in group.replace("...", ".")]))
        for group in subscripts.split("->")[0].split(",")
    ]
    return lambda *arrays: ops.einsum(subscripts, *arrays), [d.tensor(shape) for shape in shapes]


@case(ops.Linear)
def _(d):
    leading, k, m = d.shape(max_dims=2), d.size(), d.size()
    bias = d.pick([(m,), (1, m)])
    return ops.linear, [d.tensor((*leading, k)), d.tensor((k, m)), d.tensor(bias)]


# ------------------------------------------------------------------------------------------------- padding and layout


@case(ops.Pad)
def _(d):
    shape = d.shape()
    pads = tuple((d.size(), d.size()) for _ in shape)
    return ops.Pad(pads, value=0.5), [d.tensor(shape)]


@case(ops.Dilate)
def _(d):
    axes, dilation = d.axes(4), d.size()
    return lambda a: ops.dilate(a, axes, dilation), [d.tensor(d.shape())]


@case(ops.UnDilate)
def _(d):
    axes, dilation = d.axes(4), d.size()
    return lambda a: ops.undilate(a, axes, dilation), [d.tensor(d.shape(max_side=5))]


CASES[ops.Contiguous] = lambda d: (ops.contiguous, d.tensors(1))


# --------------------------------------------------------------------------------------------------------- fused ops


def _logits(d):
    shape = d.shape(min_dims=1, min_side=1)
    return d.tensor(shape), ndl.default_device().array(d.rng.integers(shape[-1], size=shape[:-1]))


@case(ops.CrossEntropy)
def _(d):
    logits, labels = _logits(d)
    return lambda x: ops.cross_entropy(x, labels), [logits]


@case(CrossEntropyGrad)
def _(d):
    logits, labels = _logits(d)
    return lambda x, g: CrossEntropyGrad()(x, labels, g), [logits, d.tensor(())]


@case(ops.BatchNorm)
def _(d):
    shape = d.shape(min_dims=2, min_side=1)
    return ops.batch_norm, [d.tensor(shape), d.tensor(shape[1:2]), d.tensor(shape[1:2])]


@case(ops.LayerNorm)
def _(d):
    shape = d.shape(min_dims=1, min_side=1)
    return ops.layer_norm, [d.tensor(shape), d.tensor(shape[-1:]), d.tensor(shape[-1:])]


@case(_NormalizationGrad)
def _(d):
    shape = d.shape(min_dims=2, max_dims=2, min_side=2)
    op = d.pick([ops.LayerNorm, ops.BatchNorm])(0.1)
    return _NormalizationGrad(op, (True, True, True)), [d.tensor(shape), d.tensor(shape[1:]), d.tensor(shape)]


@case(Vjp)
def _(d):
    def fn(a, b):
        return a * ops.tanh(b), ops.exp(a) * b

    return Vjp(fn, outputs=2), d.tensors(4)
