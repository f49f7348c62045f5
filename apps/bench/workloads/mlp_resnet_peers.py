"""The MLP-ResNet step for the peers that have no layers: HIPS autograd and MyGrad, with the NumPy Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apps.bench.workload import Prepared
from apps.bench.workloads.mlp_resnet_problem import BLOCKS, DROP_PROB, EPS, Adam, batch, named, parameters


def dropout(x: Any, drop_prob: float, rng: np.random.Generator) -> Any:
    """Drop entries of x with that probability and scale up the rest."""
    if drop_prob == 0:
        return x
    keep = rng.random(x.shape, dtype=np.float32) >= drop_prob
    return x * (keep * np.float32(1 / (1 - drop_prob)))


def logits_of(x: Any, weights: Sequence[Any], norm: Callable, relu: Callable, drop: Callable) -> Any:
    """Run the network, given its three kinds of layers as functions."""
    w, b, *rest = weights
    x = relu(x @ w + b)
    for block in range(BLOCKS):
        w1, b1, gamma1, beta1, w2, b2, gamma2, beta2 = rest[8 * block : 8 * block + 8]
        inner = drop(relu(norm(x @ w1 + b1, gamma1, beta1)))
        x = relu(x + norm(inner @ w2 + b2, gamma2, beta2))
    w, b = rest[-2:]
    return x @ w + b


def autograd(drop_prob: float = DROP_PROB) -> Prepared:
    """Compose the network of autograd's NumPy functions."""
    import autograd.numpy as anp
    from autograd import value_and_grad
    from autograd.scipy.special import logsumexp

    weights = parameters()
    x, y = batch()
    rows = np.arange(len(y))
    rng = np.random.default_rng(2)
    adam = Adam(weights)
    loss = None

    def norm(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - anp.mean(x, axis=0)
        return gamma * (centred / anp.sqrt(anp.mean(centred * centred, axis=0) + EPS)) + beta

    def objective(weights: Sequence[Any]) -> Any:
        logits = logits_of(x, weights, norm, lambda x: anp.maximum(x, 0), lambda x: dropout(x, drop_prob, rng))
        return anp.mean(logsumexp(logits, axis=1) - logits[rows, y])

    loss_and_gradients = value_and_grad(objective)

    def step() -> None:
        nonlocal loss
        loss, gradients = loss_and_gradients(weights)
        adam.update(weights, gradients)

    return Prepared(step, lambda: named(loss, weights))


def mygrad(drop_prob: float = DROP_PROB) -> Prepared:
    """Take MyGrad's own batchnorm, relu and softmax_crossentropy."""
    import mygrad as mg
    from mygrad.nnet import batchnorm, relu, softmax_crossentropy

    weights = [mg.tensor(array) for array in parameters()]
    arrays = [weight.data for weight in weights]
    images, y = batch()
    x = mg.tensor(images, constant=True)
    rng = np.random.default_rng(2)
    adam = Adam(arrays)
    loss = None

    def norm(x: Any, gamma: Any, beta: Any) -> Any:
        return batchnorm(x, gamma=gamma, beta=beta, eps=EPS)

    def step() -> None:
        nonlocal loss
        loss = softmax_crossentropy(logits_of(x, weights, norm, relu, lambda x: dropout(x, drop_prob, rng)), y)
        loss.backward()
        adam.update(arrays, [weight.grad for weight in weights])

    return Prepared(step, lambda: named(loss.data, arrays))
