"""Needle held to PyTorch: the same weights, inputs and random cotangents, and then values and gradients compared.

To be imported inside tests that have the fixture ``torch``, which skips them where PyTorch is not installed.
"""

import numpy as np
import torch

import needle as ndl

DTYPES = ["float32", "float64"]
_TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def assert_close(ours, reference, what):
    """Compare two arrays, to the dtype's tolerance times the largest element (at least 1)."""
    assert ours.shape == reference.shape, f"{what}: shape {ours.shape} against {reference.shape}"
    assert ours.dtype == reference.dtype, f"{what}: dtype {ours.dtype} against {reference.dtype}"
    if reference.size:
        scale = max(1.0, np.abs(reference).max())
        np.testing.assert_allclose(ours, reference, rtol=0, atol=_TOLERANCE[str(reference.dtype)] * scale, err_msg=what)


def as_torch(array):
    """A torch leaf with a copy of `array`."""
    return torch.tensor(np.ascontiguousarray(array)).requires_grad_()


def assert_agree(ours, theirs, inputs, weights=()):
    """Run both on the same inputs, pull the same random cotangents back, and compare all values and gradients.

    Parameters
    ----------
    ours, theirs : callable
        Take the inputs as tensors of needle or of torch; give one tensor or a tuple of them.
    inputs : list of numpy.ndarray
    weights : list of (needle parameter, torch parameter, function)
        The function brings needle's array into torch's layout; torch's parameter gets needle's values first.
    """
    with torch.no_grad():
        for mine, other, layout in weights:
            other.copy_(torch.tensor(np.ascontiguousarray(layout(mine.numpy()))))
            other.grad = None
    mine, other = [ndl.Tensor(a) for a in inputs], [as_torch(a) for a in inputs]
    my_results, their_results = ours(*mine), theirs(*other)
    if not isinstance(my_results, tuple):
        my_results, their_results = (my_results,), (their_results,)
    cotangents = [np.random.randn(*r.shape).astype(r.dtype) for r in my_results]
    total = sum(((r * ndl.Tensor(c, requires_grad=False)).sum() for r, c in zip(my_results, cotangents)), start=0.0)
    total.backward(create_graph=False)
    torch.autograd.backward(list(their_results), [torch.tensor(c) for c in cotangents])
    for k, (r, t) in enumerate(zip(my_results, their_results)):
        assert_close(r.numpy(), t.detach().numpy(), f"result {k}")
    for k, (x, t) in enumerate(zip(mine, other)):
        assert_close(x.grad.numpy(), t.grad.numpy(), f"gradient of input {k}")
    for k, (w, t, layout) in enumerate(weights):
        assert_close(layout(w.grad.numpy()), t.grad.numpy(), f"gradient of weight {k}")
