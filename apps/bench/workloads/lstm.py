"""One layer of long short-term memory over a sequence."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared, Workload

STEPS, BATCH, INPUT, HIDDEN = 40, 16, 64, 128

LSTM = Workload("lstm", f"LSTM, sequence {STEPS}, batch {BATCH}, {INPUT} → {HIDDEN}: forward and backward")


def problem() -> list[np.ndarray]:
    """Give x, the cotangent of all states, W_ih, W_hh, b_ih and b_hh, float32, with gates in the order i, f, g, o."""
    rng = np.random.default_rng(0)
    shapes = (INPUT, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (4 * HIDDEN,)
    sequences = [rng.standard_normal((STEPS, BATCH, size)) for size in (INPUT, HIDDEN)]
    weights = [rng.uniform(-1, 1, shape) / np.sqrt(HIDDEN) for shape in shapes]
    return [a.astype(np.float32) for a in (*sequences, *weights)]


def named(output, x, w_ih, w_hh, bias):
    """Name the results for the comparison; both biases have the same gradient."""
    return {
        "states": output,
        "gradient of x": x,
        "gradient of W_ih": w_ih,
        "gradient of W_hh": w_hh,
        "gradient of b": bias,
    }


def _needle(function):
    import needle as ndl

    x, cotangent, *weights = problem()
    x, cotangent = ndl.Tensor(x), ndl.Tensor(cotangent, requires_grad=False)
    weights = [ndl.Tensor(w) for w in weights]
    output = None

    def step():
        nonlocal output
        output = function(x, *weights)
        output.backward(cotangent, create_graph=False)

    return Prepared(step, lambda: named(output.numpy(), *(t.grad.numpy() for t in (x, *weights[:3]))))


@LSTM.contender("needle")
def needle() -> Prepared:
    """Take the op that nn.LSTM applies: the whole sequence as one node."""
    import needle as ndl

    def function(x, w_ih, w_hh, b_ih, b_hh):
        zeros = ndl.init.zeros(BATCH, HIDDEN)
        return ndl.lstm(x, zeros, zeros, w_ih, w_hh, b_ih + b_hh)[0]

    return _needle(function)


@LSTM.contender("needle", "step by step")
def needle_by_steps() -> Prepared:
    """Compose every step of ordinary ops."""
    import needle as ndl
    from needle.ops.lstm import lstm_by_steps

    def function(x, w_ih, w_hh, b_ih, b_hh):
        zeros = ndl.init.zeros(BATCH, HIDDEN)
        return lstm_by_steps(x, zeros, zeros, w_ih, w_hh, b_ih + b_hh)[0]

    return _needle(function)


@LSTM.contender("torch")
def torch() -> Prepared:
    """Take torch's module."""
    import torch

    x, cotangent, *weights = problem()
    module = torch.nn.LSTM(INPUT, HIDDEN)
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), weights, strict=True):
            parameter.copy_(torch.as_tensor(array.T.copy()))
    x, cotangent = torch.as_tensor(x).requires_grad_(), torch.as_tensor(cotangent)
    leaves = [x, *module.parameters()]
    output = None

    def step():
        nonlocal output
        for leaf in leaves:
            leaf.grad = None
        output, _ = module(x)
        output.backward(cotangent)

    def numbers():
        _, w_ih, w_hh, bias, _ = (leaf.grad for leaf in leaves)
        return named(output.detach(), x.grad, w_ih.T, w_hh.T, bias)

    return Prepared(step, numbers)


@LSTM.contender("numpy")
def numpy() -> Prepared:
    """Derive the gradients by hand, with what can be taken out of the loops taken out."""
    x, cotangent, w_ih, w_hh, b_ih, b_hh = problem()
    i, f, g, o = (slice(k * HIDDEN, (k + 1) * HIDDEN) for k in range(4))
    results = []

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    def step():
        gates = (x.reshape(-1, INPUT) @ w_ih + (b_ih + b_hh)).reshape(STEPS, BATCH, -1)
        states, cells = (np.empty((STEPS, BATCH, HIDDEN), dtype=np.float32) for _ in range(2))
        h = c = np.zeros((BATCH, HIDDEN), dtype=np.float32)
        for t in range(STEPS):
            z = gates[t]
            z += h @ w_hh
            z[:, i], z[:, f], z[:, o] = sigmoid(z[:, i]), sigmoid(z[:, f]), sigmoid(z[:, o])
            z[:, g] = np.tanh(z[:, g])
            c = cells[t] = z[:, f] * c + z[:, i] * z[:, g]
            h = states[t] = z[:, o] * np.tanh(c)
        d = np.empty_like(gates)
        dh, dc = np.zeros_like(h), np.zeros_like(c)
        for t in reversed(range(STEPS)):
            z, squashed = gates[t], np.tanh(cells[t])
            dh += cotangent[t]
            dc += dh * z[:, o] * (1 - squashed**2)
            before = cells[t - 1] if t else np.zeros_like(c)
            d[t, :, i] = dc * z[:, g] * z[:, i] * (1 - z[:, i])
            d[t, :, f] = dc * before * z[:, f] * (1 - z[:, f])
            d[t, :, g] = dc * z[:, i] * (1 - z[:, g] ** 2)
            d[t, :, o] = dh * squashed * z[:, o] * (1 - z[:, o])
            dc *= z[:, f]
            dh = d[t] @ w_hh.T
        flat = d.reshape(-1, 4 * HIDDEN)
        to_w_hh = states[:-1].reshape(-1, HIDDEN).T @ d[1:].reshape(-1, 4 * HIDDEN)
        to_x = (flat @ w_ih.T).reshape(x.shape)
        results[:] = states, to_x, x.reshape(-1, INPUT).T @ flat, to_w_hh, flat.sum(axis=0)

    return Prepared(step, lambda: named(*results))


LSTM.compare("lstm", "needle", against=["needle step by step", "torch", "numpy"], aims={"torch": 1.7})

WORKLOADS = [LSTM]
