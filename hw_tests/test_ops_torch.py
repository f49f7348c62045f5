"""Values and gradients of first and second order beside PyTorch's, to 1e-12, with random cotangents."""

import numpy as np
import pytest

import needle as ndl
from needle import ops

A = np.random.default_rng(0)


def normal(*shape):
    return A.standard_normal(shape)


def positive(*shape):
    return A.uniform(0.3, 2.0, shape)


INDEX = np.array([0, 2, 2, 1])

#: name: (needle's function, PyTorch's of the module and tensors, inputs)
SAME = {
    "add": (ops.add, lambda t, a, b: a + b, [normal(3, 4), normal(4)]),
    "multiply": (ops.multiply, lambda t, a, b: a * b, [normal(3, 1), normal(3, 4)]),
    "divide": (ops.divide, lambda t, a, b: a / b, [normal(2, 3), positive(3)]),
    "power": (ops.power, lambda t, a, b: a**b, [positive(2, 3), normal(2, 3)]),
    "add_scalar": (lambda a: a + 1.5, lambda t, a: a + 1.5, [normal(3)]),
    "subtract_from": (lambda a: 1.5 - a, lambda t, a: 1.5 - a, [normal(3)]),
    "divide_scalar": (lambda a: a / 3, lambda t, a: a / 3, [normal(3)]),
    "scalar_divide": (lambda a: 3 / a, lambda t, a: 3 / a, [positive(3)]),
    "power_scalar": (lambda a: a**2.5, lambda t, a: a**2.5, [positive(3)]),
    "square": (lambda a: a**2, lambda t, a: a**2, [normal(3)]),
    "scalar_power": (lambda a: 2.5**a, lambda t, a: 2.5**a, [normal(3)]),
    "exp": (ops.exp, lambda t, a: t.exp(a), [normal(2, 3)]),
    "log": (ops.log, lambda t, a: t.log(a), [positive(2, 3)]),
    "sqrt": (ops.sqrt, lambda t, a: t.sqrt(a), [positive(2, 3)]),
    "tanh": (ops.tanh, lambda t, a: t.tanh(a), [normal(2, 3)]),
    "sigmoid": (ops.sigmoid, lambda t, a: t.sigmoid(a), [normal(2, 3)]),
    "relu": (ops.relu, lambda t, a: t.relu(a), [normal(2, 3)]),
    "relu at 0": (ops.relu, lambda t, a: t.relu(a), [np.array([-1.0, 0.0, 1.0])]),
    "abs": (ops.abs, lambda t, a: t.abs(a), [np.array([-1.5, 0.0, 2.0])]),
    "maximum": (ops.maximum, lambda t, a, b: t.maximum(a, b), [normal(3, 4), normal(4)]),
    "maximum tie": (ops.maximum, lambda t, a, b: t.maximum(a, b), [np.ones(2), np.ones(2)]),
    "minimum": (ops.minimum, lambda t, a, b: t.minimum(a, b), [normal(3, 4), normal(3, 1)]),
    "minimum tie": (ops.minimum, lambda t, a, b: t.minimum(a, b), [np.ones(2), np.ones(2)]),
    "where": (
        lambda a, b: ops.where(np.arange(3) > 0, a, b),
        lambda t, a, b: t.where(t.arange(3) > 0, a, b),
        [normal(2, 3), normal(3)],
    ),
    "sum": (lambda a: ops.summation(a, (0, 2)), lambda t, a: a.sum((0, 2)), [normal(2, 3, 4)]),
    "mean": (lambda a: ops.mean(a, 1), lambda t, a: a.mean(1), [normal(2, 3, 4)]),
    "max": (lambda a: ops.max(a, (0, 2)), lambda t, a: t.amax(a, (0, 2)), [normal(2, 3, 4)]),
    "max ties": (ops.max, lambda t, a: t.amax(a), [np.array([1.0, 3.0, 3.0])]),
    "min": (lambda a: ops.min(a, 1), lambda t, a: t.amin(a, 1), [normal(2, 3, 4)]),
    "logsumexp": (lambda a: ops.logsumexp(a, (0, 2)), lambda t, a: t.logsumexp(a, (0, 2)), [normal(2, 3, 4)]),
    "softmax": (ops.softmax, lambda t, a: t.softmax(a, -1), [normal(2, 3)]),
    "logsoftmax": (ops.logsoftmax, lambda t, a: t.log_softmax(a, -1), [normal(2, 3)]),
    "broadcast_to": (lambda a: ops.broadcast_to(a, (2, 3, 4)), lambda t, a: a.expand(2, 3, 4), [normal(3, 1)]),
    "sum_to": (lambda a: ops.sum_to(a, (3, 1)), lambda t, a: a.sum_to_size(3, 1), [normal(2, 3, 4)]),
    "reshape": (lambda a: ops.reshape(a, (4, -1)), lambda t, a: a.reshape(4, -1), [normal(2, 6)]),
    "transpose": (lambda a: ops.transpose(a, (0, 2)), lambda t, a: a.transpose(0, 2), [normal(2, 3, 4)]),
    "permute": (lambda a: ops.permute(a, (2, 0, 1)), lambda t, a: a.permute(2, 0, 1), [normal(2, 3, 4)]),
    "flip": (lambda a: ops.flip(a, (0, 2)), lambda t, a: t.flip(a, (0, 2)), [normal(2, 3, 4)]),
    "concatenate": (
        lambda a, b: ops.concatenate([a, b, a], 1),
        lambda t, a, b: t.cat([a, b, a], 1),
        [normal(2, 3), normal(2, 1)],
    ),
    "stack": (lambda a, b: ops.stack([a, b], -1), lambda t, a, b: t.stack([a, b], -1), [normal(2, 3), normal(2, 3)]),
    "split": (
        lambda a: ops.split(a, 1)[2] * ops.split(a, 1)[0],
        lambda t, a: t.unbind(a, 1)[2] * t.unbind(a, 1)[0],
        [normal(2, 3)],
    ),
    "integers": (lambda a: a[INDEX, 1:], lambda t, a: a[t.tensor(INDEX), 1:], [normal(3, 3)]),
    "mask": (lambda a: a[np.eye(3) > 0], lambda t, a: a[t.eye(3) > 0], [normal(3, 3)]),
    "slices": (lambda a: a[::2, None, -1], lambda t, a: a[::2, None, -1], [normal(3, 3)]),
    "matmul": (ops.matmul, lambda t, a, b: a @ b, [normal(3, 4), normal(4, 2)]),
    "batched matmul": (ops.matmul, lambda t, a, b: a @ b, [normal(5, 1, 3, 4), normal(2, 4, 2)]),
    "batch times matrix": (ops.matmul, lambda t, a, b: a @ b, [normal(5, 3, 4), normal(4, 2)]),
    "vector times matrix": (ops.matmul, lambda t, a, b: a @ b, [normal(4), normal(4, 2)]),
    "matrix times vector": (ops.matmul, lambda t, a, b: a @ b, [normal(3, 4), normal(4)]),
    "dot": (ops.matmul, lambda t, a, b: a @ b, [normal(4), normal(4)]),
    "einsum": (
        lambda a, b: ops.einsum("bij,bkj->ik", a, b),
        lambda t, a, b: t.einsum("bij,bkj->ik", a, b),
        [normal(2, 3, 4), normal(2, 5, 4)],
    ),
    "einsum diagonal": (
        lambda a, b: ops.einsum("iij,j->i", a, b),
        lambda t, a, b: t.einsum("iij,j->i", a, b),
        [normal(3, 3, 4), normal(4)],
    ),
    "cast": (
        lambda a: a.astype("float32").astype("float64"),
        lambda t, a: a.float().double(),
        [normal(3)],
    ),
}


def agree(ours, theirs):
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SAME)
def test_values_and_gradients_are_pytorchs(torch, name):
    fn, reference, arrays = SAME[name]
    x, y = [ndl.Tensor(a) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = fn(*x), reference(torch, *y)
    agree(out, expected)
    g = np.random.standard_normal(out.shape)
    ours, theirs = ndl.grad(out, x, g), torch.autograd.grad(expected, y, torch.tensor(g), create_graph=True)
    for mine, other in zip(ours, theirs):
        agree(mine, other)
    # The second order: the gradients' own gradients, with random cotangents again.
    weights = [np.random.standard_normal(a.shape) for a in arrays]
    ours = [(h, w) for h, w in zip(ours, weights) if h.requires_grad]
    theirs = [(h, torch.tensor(w)) for h, w in zip(theirs, weights) if h.requires_grad]
    if not ours or not theirs:  # constant gradients; finite differences hold linear ops to that
        return
    (firsts, seeds), (references, tensors) = zip(*ours), zip(*theirs)
    second = ndl.grad(firsts, x, seeds, allow_unused=True)
    expected = torch.autograd.grad(references, y, tensors, allow_unused=True)
    for mine, other in zip(second, expected):
        agree(mine, torch.zeros(mine.shape) if other is None else other)
