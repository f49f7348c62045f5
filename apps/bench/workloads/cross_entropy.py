"""Cross entropy over many classes, as a language model has it: needle's fused loss beside a composite of small ops."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared, Workload

ROWS, CLASSES = 640, 10_000

CROSS_ENTROPY = Workload(
    "cross-entropy",
    f"mean cross entropy of {ROWS}×{CLASSES} float32 logits, forward and backward",
    gpu_bytes=3 * 4 * ROWS * CLASSES,  # reads the logits twice and writes their gradient
)


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Give the logits (float32) and the labels (integers)."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((ROWS, CLASSES), dtype=np.float32), rng.integers(CLASSES, size=ROWS)


def needle_with(loss_of):
    """Prepare needle with a function (module needle, labels) → (logits → loss)."""
    import needle as ndl

    logits, labels = problem()
    x = ndl.Tensor(logits)
    loss_fn = loss_of(ndl, labels)
    loss = None

    def step():
        nonlocal loss
        loss = loss_fn(x)
        loss.backward(create_graph=False)

    return Prepared(step, lambda: {"loss": loss.numpy(), "gradient": x.grad.numpy()})


@CROSS_ENTROPY.contender("needle")
def needle():
    """Take the loss module."""

    def loss_of(ndl, labels):
        y, module = ndl.Tensor(labels, requires_grad=False), ndl.nn.SoftmaxLoss()
        return lambda logits: module(logits, y)

    return needle_with(loss_of)


@CROSS_ENTROPY.contender("needle", "composite")
def needle_composite():
    """Compose the loss as the course does: log-sum-exp, and a product with the one-hot labels."""

    def loss_of(ndl, labels):
        y = ndl.Tensor(np.eye(CLASSES, dtype=np.float32)[labels], requires_grad=False)
        return lambda logits: (ndl.summation(ndl.logsumexp(logits, (1,))) - ndl.summation(logits * y)) / ROWS

    return needle_with(loss_of)


@CROSS_ENTROPY.contender("torch")
def torch():
    """Take torch's cross_entropy."""
    import torch
    from torch.nn.functional import cross_entropy

    x, y = map(torch.as_tensor, problem())
    x.requires_grad_()
    loss = None

    def step():
        nonlocal loss
        x.grad = None
        loss = cross_entropy(x, y)
        loss.backward()

    return Prepared(step, lambda: {"loss": loss.detach(), "gradient": x.grad})


@CROSS_ENTROPY.contender("autograd")
def autograd():
    """Compose the loss of autograd's functions."""
    import autograd.numpy as anp
    from autograd import value_and_grad
    from autograd.scipy.special import logsumexp

    x, y = problem()
    rows = np.arange(ROWS)
    results = []
    objective = value_and_grad(lambda x: anp.mean(logsumexp(x, axis=1) - x[rows, y]))

    def step():
        results[:] = objective(x)

    return Prepared(step, lambda: {"loss": results[0], "gradient": results[1]})


@CROSS_ENTROPY.contender("mygrad")
def mygrad():
    """Take MyGrad's softmax_crossentropy."""
    import mygrad as mg
    from mygrad.nnet import softmax_crossentropy

    logits, y = problem()
    x = mg.tensor(logits)
    loss = None

    def step():
        nonlocal loss
        loss = softmax_crossentropy(x, y)
        loss.backward()

    return Prepared(step, lambda: {"loss": loss.data, "gradient": x.grad})


@CROSS_ENTROPY.contender("numpy")
def numpy():
    """Derive the gradient by hand: (softmax − one-hot) / rows, in the array that held the exponentials."""
    x, y = problem()
    rows = np.arange(ROWS)
    results = []

    def step():
        shifted = x - x.max(axis=1, keepdims=True)
        true = shifted[rows, y]
        gradient = np.exp(shifted, out=shifted)
        total = gradient.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total[:, 0]) - true)
        total *= ROWS
        gradient /= total
        gradient[rows, y] -= 1 / ROWS
        results[:] = loss, gradient

    return Prepared(step, lambda: {"loss": results[0], "gradient": results[1]})


CROSS_ENTROPY.compare("cross-entropy", "needle", against=["needle composite", "torch", "autograd", "mygrad", "numpy"])

WORKLOADS = [CROSS_ENTROPY]
