"""A chain of bias additions: what broadcasting costs forward, and the sum over the batch backward."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared, Workload

ROWS, COLUMNS, LENGTH = 256, 512, 20

BIAS_ADD = Workload(
    "bias-add", f"{LENGTH} additions ({ROWS},{COLUMNS}) + (1,{COLUMNS}) in a chain, float32, forward and backward"
)


def problem() -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Give x, the biases, and the cotangent of the chain's result."""
    rng = np.random.default_rng(0)
    x, cotangent = (rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    return x, [rng.standard_normal((1, COLUMNS)).astype(np.float32) for _ in range(LENGTH)], cotangent


def named(x, biases):
    """Name the gradients for the comparison: of x, of the first bias and of the last."""
    return {"gradient of x": x, "gradient of first bias": biases[0], "gradient of last bias": biases[-1]}


@BIAS_ADD.contender("needle")
def needle():
    """Chain Tensors."""
    import needle as ndl

    x, biases, cotangent = problem()
    x0, biases = ndl.Tensor(x), [ndl.Tensor(b) for b in biases]
    seed = ndl.Tensor(cotangent, requires_grad=False)

    def step():
        x = x0
        for b in biases:
            x = x + b
        x.backward(seed, create_graph=False)

    return Prepared(step, lambda: named(x0.grad.numpy(), [b.grad.numpy() for b in biases]))


@BIAS_ADD.contender("torch")
def torch():
    """Chain torch tensors."""
    import torch

    x, biases, cotangent = problem()
    x0, *biases = [torch.as_tensor(a).requires_grad_() for a in (x, *biases)]
    seed = torch.as_tensor(cotangent)

    def step():
        x0.grad = None
        for b in biases:
            b.grad = None
        x = x0
        for b in biases:
            x = x + b
        x.backward(seed)

    return Prepared(step, lambda: named(x0.grad, [b.grad for b in biases]))


@BIAS_ADD.contender("autograd")
def autograd():
    """Chain under a vector-Jacobian product."""
    from autograd import make_vjp

    x, biases, cotangent = problem()
    gradients = []

    def chain(args):
        x, biases = args
        for b in biases:
            x = x + b
        return x

    def step():
        vjp, _ = make_vjp(chain)((x, biases))
        gradients[:] = vjp(cotangent)

    return Prepared(step, lambda: named(*gradients))


@BIAS_ADD.contender("mygrad")
def mygrad():
    """Chain MyGrad tensors."""
    import mygrad as mg

    x, biases, cotangent = problem()
    x0, biases = mg.tensor(x), [mg.tensor(b) for b in biases]

    def step():
        x = x0
        for b in biases:
            x = x + b
        x.backward(cotangent)

    return Prepared(step, lambda: named(x0.grad, [b.grad for b in biases]))


@BIAS_ADD.contender("numpy")
def numpy():
    """Do by hand what the chain says: an addition forward and a sum backward for each bias."""
    x0, biases, cotangent = problem()
    gradients = []

    def step():
        x = x0
        for b in biases:
            x = x + b
        gradients[:] = cotangent, [cotangent.sum(axis=0, keepdims=True) for _ in biases]

    return Prepared(step, lambda: named(*gradients))


BIAS_ADD.compare("bias-add", "needle", aims={"torch": 1.0})

WORKLOADS = [BIAS_ADD]
