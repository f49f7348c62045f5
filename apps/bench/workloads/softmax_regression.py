"""Softmax regression with one hidden layer, written by hand: loss, gradient, and the SGD update."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared, Workload

INPUTS, HIDDEN, CLASSES, BATCH = 784, 100, 10, 100
RATE = 0.1

REGRESSION = Workload(
    "softmax-regression",
    f"{INPUTS}-{HIDDEN}-{CLASSES} with ReLU, batch {BATCH}: loss, gradient, SGD update",
    check_steps=5,
)


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give the images (float32), the labels (integers) and the two weight matrices (float32)."""
    rng = np.random.default_rng(0)
    images = rng.random((BATCH, INPUTS), dtype=np.float32)
    labels = rng.integers(CLASSES, size=BATCH)
    w1 = rng.standard_normal((INPUTS, HIDDEN)) / np.sqrt(HIDDEN)
    w2 = rng.standard_normal((HIDDEN, CLASSES)) / np.sqrt(CLASSES)
    return images, labels, w1.astype(np.float32) / 5, w2.astype(np.float32)


def one_hot(labels: np.ndarray) -> np.ndarray:
    """Give the labels as rows of the identity matrix, float32."""
    return np.eye(CLASSES, dtype=np.float32)[labels]


@REGRESSION.contender("needle", "by hand")
def needle_by_hand():
    """Take the course's loss, from one-hot labels, and rebind the weights' data."""
    import needle as ndl
    from apps.simple_ml import softmax_loss

    images, labels, *weights = problem()
    x, y = (ndl.Tensor(array, requires_grad=False) for array in (images, one_hot(labels)))
    w1, w2 = map(ndl.Tensor, weights)
    loss = None

    def step():
        nonlocal loss
        loss = softmax_loss(ndl.relu(x @ w1) @ w2, y)
        loss.backward(create_graph=False)
        for w in (w1, w2):
            w.data = w.data - RATE * w.grad

    return Prepared(step, lambda: {"loss": loss.numpy(), "W1": w1.numpy(), "W2": w2.numpy()})


@REGRESSION.contender("needle")
def needle():
    """Take the loss module, from integer labels, and the optimizer."""
    import needle as ndl

    images, labels, *weights = problem()
    x, y = (ndl.Tensor(array, requires_grad=False) for array in (images, labels))
    w1, w2 = map(ndl.Tensor, weights)
    loss_fn, optimizer = ndl.nn.SoftmaxLoss(), ndl.optim.SGD([w1, w2], lr=RATE)
    loss = None

    def step():
        nonlocal loss
        optimizer.reset_grad()
        loss = loss_fn(ndl.relu(x @ w1) @ w2, y)
        loss.backward(create_graph=False)
        optimizer.step()

    return Prepared(step, lambda: {"loss": loss.numpy(), "W1": w1.numpy(), "W2": w2.numpy()})


@REGRESSION.contender("torch")
def torch():
    """Take cross_entropy, and update in place."""
    import torch
    from torch.nn.functional import cross_entropy

    x, y, w1, w2 = map(torch.as_tensor, problem())
    weights = [w.requires_grad_() for w in (w1, w2)]
    loss = None

    def step():
        nonlocal loss
        for w in weights:
            w.grad = None
        loss = cross_entropy(torch.relu(x @ w1) @ w2, y)
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w.sub_(w.grad, alpha=RATE)

    return Prepared(step, lambda: {"loss": loss.detach(), "W1": w1.detach(), "W2": w2.detach()})


@REGRESSION.contender("autograd")
def autograd():
    """Compose the loss of autograd's NumPy functions."""
    import autograd.numpy as anp
    from autograd import value_and_grad
    from autograd.scipy.special import logsumexp

    images, labels, *weights = problem()
    y = one_hot(labels)
    loss = None

    def objective(weights):
        w1, w2 = weights
        logits = anp.maximum(images @ w1, 0) @ w2
        return anp.mean(logsumexp(logits, axis=1) - anp.sum(logits * y, axis=1))

    loss_and_gradients = value_and_grad(objective)

    def step():
        nonlocal loss
        loss, gradients = loss_and_gradients(weights)
        for w, g in zip(weights, gradients, strict=True):
            w -= RATE * g

    return Prepared(step, lambda: {"loss": loss, "W1": weights[0], "W2": weights[1]})


@REGRESSION.contender("mygrad")
def mygrad():
    """Take MyGrad's own relu and softmax_crossentropy."""
    import mygrad as mg
    from mygrad.nnet import relu, softmax_crossentropy

    images, labels, *arrays = problem()
    weights = w1, w2 = [mg.tensor(w) for w in arrays]
    x = mg.tensor(images, constant=True)
    loss = None

    def step():
        nonlocal loss
        loss = softmax_crossentropy(relu(x @ w1) @ w2, labels)
        loss.backward()
        for w in weights:
            w.data -= np.float32(RATE) * w.grad

    return Prepared(step, lambda: {"loss": loss.data, "W1": w1.data, "W2": w2.data})


@REGRESSION.contender("numpy")
def numpy():
    """Derive the gradients by hand; no array is written without need."""
    x, labels, w1, w2 = problem()
    rows = np.arange(BATCH)
    g1, g2 = np.empty_like(w1), np.empty_like(w2)
    loss = 0.0

    def step():
        nonlocal loss
        hidden = x @ w1
        np.maximum(hidden, 0, out=hidden)
        logits = hidden @ w2
        logits -= logits.max(axis=1, keepdims=True)
        true = logits[rows, labels]
        probabilities = np.exp(logits, out=logits)
        total = probabilities.sum(axis=1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) - true))
        # d loss / d logits = (softmax − one-hot) / batch
        probabilities /= total
        probabilities[rows, labels] -= 1
        probabilities *= 1 / BATCH
        np.matmul(hidden.T, probabilities, out=g2)
        grad_hidden = probabilities @ w2.T
        grad_hidden *= hidden > 0
        np.matmul(x.T, grad_hidden, out=g1)
        for w, g in ((w1, g1), (w2, g2)):
            np.multiply(g, RATE, out=g)
            np.subtract(w, g, out=w)

    return Prepared(step, lambda: {"loss": loss, "W1": w1, "W2": w2})


for subject, title in (
    ("needle", "SoftmaxLoss and SGD"),
    ("needle by hand", "course's softmax_loss"),
):
    REGRESSION.compare(f"softmax-regression, {title}", subject, aims={"torch": 0.75})

WORKLOADS = [REGRESSION]
