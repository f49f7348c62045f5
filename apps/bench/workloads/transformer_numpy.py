"""The transformer layer derived by hand."""

from __future__ import annotations

import numpy as np

from apps.bench.workload import Prepared
from apps.bench.workloads.transformer_problem import BATCH, EPS, FEATURES, HEADS, LENGTH, named, problem

ROWS, SIZE = BATCH * LENGTH, FEATURES // HEADS


def _norm(a, weight, bias):
    """y, and what the gradient needs."""
    normal = a - a.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", normal, normal)[:, None] / FEATURES + EPS)
    normal *= scale
    y = normal * weight
    y += bias
    return y, (normal, scale, weight)


def _norm_backward(g, kept):
    """The gradients of a, weight and bias."""
    normal, scale, weight = kept
    to_weight, to_bias = np.einsum("ij,ij->j", g, normal), g.sum(axis=0)
    g = g * weight
    slope = np.einsum("ij,ij->i", g, normal)[:, None] / FEATURES
    g -= g.mean(axis=1, keepdims=True)
    g -= normal * slope
    g *= scale
    return g, to_weight, to_bias


def _heads(a):
    return a.reshape(BATCH, LENGTH, HEADS, SIZE).transpose(0, 2, 1, 3)


def _rows(a):
    return a.transpose(0, 2, 1, 3).reshape(ROWS, FEATURES)


def numpy() -> Prepared:
    """Derive the gradients by hand, with arrays of two axes wherever that gives one product of matrices."""
    x, cotangent, w = problem()
    x, cotangent = x.reshape(ROWS, FEATURES), cotangent.reshape(ROWS, FEATURES)
    mask = np.triu(np.full((LENGTH, LENGTH), -np.inf, dtype=np.float32), 1)
    results = []

    def step():
        grads, inputs, kept, parts = {}, {}, {}, {}
        for k in "qkv":
            name = f"attention.prenorm_{k}"
            inputs[k], kept[k] = _norm(x, w[f"{name}.weight"], w[f"{name}.bias"])
            parts[k] = _heads(inputs[k] @ w[f"attention.{k}_projection.weight"])
        p = parts["q"] @ parts["k"].swapaxes(2, 3)
        p *= 1 / np.sqrt(SIZE).astype(np.float32)
        p += mask
        p -= p.max(axis=3, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=3, keepdims=True)
        attended = _rows(p @ parts["v"])
        y = x + attended @ w["attention.out_projection.weight"]
        normal, kept["y"] = _norm(y, w["layer_norm.weight"], w["layer_norm.bias"])
        hidden = normal @ w["linear1.weight"]
        hidden += w["linear1.bias"]
        np.maximum(hidden, 0, out=hidden)
        output = hidden @ w["linear2.weight"]
        output += w["linear2.bias"]
        output += y

        grads["linear2.weight"], grads["linear2.bias"] = hidden.T @ cotangent, cotangent.sum(axis=0)
        g = cotangent @ w["linear2.weight"].T
        g *= hidden > 0
        grads["linear1.weight"], grads["linear1.bias"] = normal.T @ g, g.sum(axis=0)
        g, *both = _norm_backward(g @ w["linear1.weight"].T, kept["y"])
        grads["layer_norm.weight"], grads["layer_norm.bias"] = both
        g += cotangent
        to_x = g.copy()
        grads["attention.out_projection.weight"] = attended.T @ g
        g = _heads(g @ w["attention.out_projection.weight"].T)
        to_v = p.swapaxes(2, 3) @ g
        s = g @ parts["v"].swapaxes(2, 3)
        s -= np.einsum("bhij,bhij->bhi", s, p)[..., None]
        s *= p
        s *= 1 / np.sqrt(SIZE).astype(np.float32)
        for k, g in (("q", s @ parts["k"]), ("k", s.swapaxes(2, 3) @ parts["q"]), ("v", to_v)):
            g = _rows(g)
            grads[f"attention.{k}_projection.weight"] = inputs[k].T @ g
            g, *both = _norm_backward(g @ w[f"attention.{k}_projection.weight"].T, kept[k])
            grads[f"attention.prenorm_{k}.weight"], grads[f"attention.prenorm_{k}.bias"] = both
            to_x += g
        results[:] = output, to_x, grads

    def numbers():
        output, to_x, grads = results
        shape = (BATCH, LENGTH, FEATURES)
        return named(output.reshape(shape), to_x.reshape(shape), grads)

    return Prepared(step, numbers)
