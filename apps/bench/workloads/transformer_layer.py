"""A causal pre-norm transformer layer: normalised and projected queries, keys and values, then two linear layers."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared, Workload, heap_kept
from apps.bench.workloads.transformer_numpy import numpy
from apps.bench.workloads.transformer_problem import BATCH, FEATURES, HEADS, HIDDEN, LENGTH, named, problem

TRANSFORMER_LAYER = Workload(
    "transformer-layer",
    f"transformer layer, batch {BATCH}, sequence {LENGTH}, {FEATURES} features, {HEADS} heads, hidden {HIDDEN}, "
    "causal: forward and backward",
)


@TRANSFORMER_LAYER.contender("needle")
def needle() -> Prepared:
    """Take needle's module."""
    import needle as ndl

    x, cotangent, weights = problem()
    layer = ndl.nn.TransformerLayer(FEATURES, HEADS, FEATURES // HEADS, HIDDEN)
    parameters = dict(layer.named_parameters())
    for name, parameter in parameters.items():
        parameter.data = ndl.Tensor(weights[name].reshape(parameter.shape))
    x, cotangent = ndl.Tensor(x), ndl.Tensor(cotangent, requires_grad=False)
    output = None

    def step():
        nonlocal output
        output = layer(x)
        output.backward(cotangent, create_graph=False)

    def numbers():
        grads = {name: parameter.grad.numpy() for name, parameter in parameters.items()}
        return named(output.numpy(), x.grad.numpy(), grads)

    return Prepared(step, numbers)


@TRANSFORMER_LAYER.contender("torch")
def torch() -> Prepared:
    """Write the same layer with torch's fused functions, its weights stored as torch's linear layers have them."""
    import torch
    from torch.nn import functional as F

    x, cotangent, weights = problem()
    leaves = {}
    for name, array in weights.items():
        leaves[name] = torch.as_tensor(np.ascontiguousarray(array.T)).requires_grad_()
    x, cotangent = torch.as_tensor(x).requires_grad_(), torch.as_tensor(cotangent)

    def norm(a, name):
        return F.layer_norm(a, (FEATURES,), leaves[f"{name}.weight"], leaves[f"{name}.bias"])

    def heads(which):
        projected = F.linear(norm(x, f"attention.prenorm_{which}"), leaves[f"attention.{which}_projection.weight"])
        return projected.reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2)

    def layer():
        attended = F.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), is_causal=True)
        attended = attended.transpose(1, 2).reshape(BATCH, LENGTH, FEATURES)
        y = x + F.linear(attended, leaves["attention.out_projection.weight"])
        hidden = torch.relu(F.linear(norm(y, "layer_norm"), leaves["linear1.weight"], leaves["linear1.bias"]))
        return y + F.linear(hidden, leaves["linear2.weight"], leaves["linear2.bias"])

    output = None

    def step():
        nonlocal output
        for leaf in (x, *leaves.values()):
            leaf.grad = None
        output = layer()
        output.backward(cotangent)

    def numbers():
        return named(output.detach(), x.grad, {name: leaf.grad.T for name, leaf in leaves.items()})

    return Prepared(step, numbers)


TRANSFORMER_LAYER.contender("numpy")(numpy)
TRANSFORMER_LAYER.contender("needle", "heap kept")(heap_kept(needle))
TRANSFORMER_LAYER.compare("transformer layer", "needle", aims={"torch": 1.3})
TRANSFORMER_LAYER.compare("transformer layer, heap kept", "needle heap kept", against=["needle", "torch", "numpy"])

WORKLOADS = [TRANSFORMER_LAYER]
