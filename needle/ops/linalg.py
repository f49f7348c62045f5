"""Products of matrices and tensors."""

from __future__ import annotations

import math
import string
from typing import Any

from .. import kernels
from ..autograd import TensorOp
from ..backend import Array, array_module
from ..kernels import gemm
from .common import apply, as_value, broadcast_shape, constant, on_one_device, shape_of
from .shape import broadcast_to, reshape, sum_to, transpose


class MatMul(TensorOp):
    """A·B over the last two axes; axes before them are batch axes and broadcast.

    With L a function of C = A·B and C̄ = ∂L/∂C, dL = ⟨C̄, dA·B + A·dB⟩ = ⟨C̄·Bᵀ, dA⟩ + ⟨Aᵀ·C̄, dB⟩.
    """

    reads = ("inputs",)

    def __call__(self, a: Any, b: Any) -> Any:
        return matmul(a, b) if type(self) is MatMul else apply(self, a, b)

    def compute(self, a: Array, b: Array) -> Array:
        if b.ndim == 2 and a.ndim > 2:  # one matrix product instead of one per batch entry
            return (as_matrix(a) @ b).reshape(a.shape[:-1] + b.shape[-1:])
        if b.ndim > 2 and kernels.fit(a, b):
            return gemm.matmul(a, b)
        return a @ b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        a, b = node.inputs
        need_a, need_b = node.needs_input_grad
        to_a = sum_to(apply(self, out_grad, transpose(b)), a.shape) if need_a else None
        to_b = None
        if need_b and b.ndim == 2:  # the batch axes of A are summed by the product itself
            to_b = transpose(as_matrix(a)) @ as_matrix(out_grad)
        elif need_b:
            to_b = sum_to(apply(self, transpose(a), out_grad), b.shape)
        return to_a, to_b


def as_matrix(a: Any) -> Any:
    """All axes but the last as one."""
    return reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))


def matmul(a: Any, b: Any) -> Any:
    """The matrix product A·B.

    Parameters
    ----------
    a : Tensor
        Shape (…, n, k), or (k,).
    b : Tensor
        Shape (…, k, m), or (k,). The batch axes … of both broadcast.

    Returns
    -------
    Tensor
        Shape (…, n, m), without n or m where the operand is a vector.

    Raises
    ------
    ValueError
        If the inner sizes or the batch axes do not fit.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.matmul(ndl.Tensor([[1.0, 2.0]]), ndl.Tensor([[3.0], [4.0]]))
    needle.Tensor([[11.]])
    """
    a, b = as_value("MatMul", a), as_value("MatMul", b)
    left, right = shape_of(a), shape_of(b)
    if not left or not right:
        raise ValueError(f"MatMul: {left} @ {right}: a 0-d operand has no axis to sum over; use * to scale")
    if left[-1] != right[max(len(right) - 2, 0)]:
        inner = right[max(len(right) - 2, 0)]
        raise ValueError(f"MatMul: {left} @ {right}: inner sizes {left[-1]} and {inner} differ")
    if len(left) > 2 and len(right) > 2:
        broadcast_shape(f"MatMul: {left} @ {right}: batch axes", left[:-2], right[:-2])
    a, b = on_one_device("MatMul", a, b)
    if len(left) > 1 and len(right) > 1:
        return apply(_MATMUL, a, b)
    row = reshape(a, (1,) + left) if len(left) == 1 else a
    column = reshape(b, right + (1,)) if len(right) == 1 else b
    result = apply(_MATMUL, row, column)
    return reshape(result, shape_of(result)[:-2] + left[-2:-1] + (right[-1:] if len(right) > 1 else ()))


_MATMUL = MatMul()


class EinSum(TensorOp):
    """Einstein summation with an explicit output, no letter twice in one operand.

    The contraction is linear in each operand, so the gradient to one is the contraction of the output's gradient with
    the other operands, onto that operand's letters. A letter that stands in this operand alone was summed over; ones
    along it spread the gradient again.
    """

    reads = ("inputs",)

    def __init__(self, operands: tuple[str, ...], output: str):
        self.operands = operands
        self.output = output

    def compute(self, *arrays: Array) -> Array:
        return array_module(arrays[0]).einsum(
            f"{','.join(self.operands)}->{self.output}", *arrays, optimize=len(arrays) > 2
        )

    def gradient(self, out_grad: Any, node: Any) -> Any:
        grads: list = []
        for k, letters in enumerate(self.operands):
            if not node.needs_input_grad[k]:
                grads.append(None)
                continue
            others = [(s, x) for i, (s, x) in enumerate(zip(self.operands, node.inputs)) if i != k]
            known = set(self.output).union(*[set(s) for s, _ in others])
            terms = [(self.output, out_grad), *others]
            for axis, letter in enumerate(letters):
                if letter not in known:
                    terms.append((letter, constant(lambda x, n=axis: _ones(x, n), node.inputs[k])))
            grads.append(EinSum(tuple(s for s, _ in terms), letters)(*[x for _, x in terms]))
        return tuple(grads)

    def __repr__(self) -> str:
        return f"EinSum({','.join(self.operands)}->{self.output})"


def _ones(a: Array, axis: int) -> Array:
    return array_module(a).ones(a.shape[axis], dtype=a.dtype)


def einsum(subscripts: str, *operands: Any) -> Any:
    """Einstein summation, with NumPy's notation (repeated letters, ``...``, implicit output).

    Parameters
    ----------
    subscripts : str
        For instance ``"bij,bjk->bik"``. The axes that ``...`` stands for broadcast.
    *operands : Tensor
        One for each group of letters.

    Returns
    -------
    Tensor
        With one axis for each letter of the output.

    Raises
    ------
    ValueError
        If the letters do not fit the operands, or these live on different devices.
    TypeError
        If `subscripts` is no string, or an operand holds no numbers.

    Examples
    --------
    >>> import needle as ndl
    >>> a = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ndl.einsum("ii", a), ndl.einsum("ij->j", a)
    (needle.Tensor(5.0), needle.Tensor([4. 6.]))
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"EinSum: subscripts such as 'ij,jk->ik' come first, got {type(subscripts).__name__}")
    values = [as_value("EinSum", x) for x in operands]
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    groups = left.split(",")
    if len(groups) != len(values) or not values:
        raise ValueError(f"EinSum: {subscripts!r} names {len(groups)} operands, got {len(values)}")
    spare = [c for c in string.ascii_letters if c not in subscripts]
    groups, batch = _spell_out_ellipsis(subscripts, groups, [len(shape_of(v)) for v in values], spare)
    output = output.replace("...", batch) if arrow else batch + _implicit_output(groups, batch)
    values = _broadcast_batch(groups, values, batch)
    sizes = _letter_sizes(subscripts, groups, values)
    for letter in output:
        if letter not in sizes or output.count(letter) > 1:
            raise ValueError(f"EinSum: output letter {letter!r} of {subscripts!r} must stand in an operand, and once")
    values = list(on_one_device("EinSum", *values))
    groups, values = _split_diagonals(groups, values, sizes, spare)
    return EinSum(tuple(groups), output)(*values)


def _spell_out_ellipsis(subscripts: str, groups: list, ranks: list, spare: list) -> tuple[list, str]:
    """The groups with letters for ``...``, aligned at the last batch axis, and the letters of the longest."""
    counts = [rank - len(g.replace("...", "")) if "..." in g else 0 for g, rank in zip(groups, ranks)]
    batch = "".join(spare.pop(0) for _ in range(max(max(counts), 0)))
    spelled = []
    for group, count, rank in zip(groups, counts, ranks):
        group = group.replace("...", batch[len(batch) - count :] if count > 0 else "")
        if count < 0 or len(group) != rank or not all(c in string.ascii_letters for c in group):
            raise ValueError(f"EinSum: {subscripts!r} gives {group!r} for an operand with {rank} axes")
        spelled.append(group)
    return spelled, batch


def _broadcast_batch(groups: list, values: list, batch: str) -> list:
    """The operands with the axes that ``...`` stands for broadcast, by explicit nodes."""
    sizes: dict[str, int] = {}
    for group, value in zip(groups, values):
        for letter, size in zip(group, shape_of(value)):
            if letter in batch and size != 1:
                sizes.setdefault(letter, size)
    shapes = [
        tuple([sizes.get(letter, 1) if letter in batch and size == 1 else size for letter, size in zip(g, shape_of(v))])
        for g, v in zip(groups, values)
    ]
    return [broadcast_to(v, shape) for v, shape in zip(values, shapes)]


def _implicit_output(groups: list, batch: str) -> str:
    letters = "".join(groups)
    return "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in batch))


def _letter_sizes(subscripts: str, groups: list, values: list) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group, value in zip(groups, values):
        for letter, size in zip(group, shape_of(value)):
            if sizes.setdefault(letter, size) != size:
                shapes = ", ".join(str(shape_of(v)) for v in values)
                raise ValueError(f"EinSum: {subscripts!r} of {shapes}: letter {letter!r} is {sizes[letter]} and {size}")
    return sizes


def _split_diagonals(groups: list, values: list, sizes: dict[str, int], spare: list) -> tuple[list, list]:
    """A letter twice in an operand becomes two letters and an identity matrix between them."""
    groups, values = list(groups), list(values)
    for k, group in enumerate(list(groups)):
        for letter in sorted(set(group)):
            while groups[k].count(letter) > 1:
                fresh, n = spare.pop(0), sizes[letter]
                groups[k] = groups[k][::-1].replace(letter, fresh, 1)[::-1]
                groups.append(letter + fresh)
                values.append(constant(lambda x, n=n: array_module(x).eye(n, dtype=x.dtype), values[k]))
    return groups, values
