"""needle: a small automatic differentiation framework to learn from, teach with and train small models on.

>>> import needle as ndl
>>> x = ndl.Tensor([1.0, 2.0, 3.0])
>>> (x * x).sum().backward()
>>> x.grad
needle.Tensor([2. 4. 6.])
"""

from . import autograd, backend, data, init, nn, ops, optim, random
from .autograd import (
    Op,
    Tensor,
    TensorOp,
    TensorTuple,
    TensorTupleOp,
    Value,
    compute_gradient_of_variables,
    enable_grad,
    find_topo_sort,
    grad,
    lazy,
    no_grad,
    sum_node_list,
)
from .backend import Device, all_devices, cpu, cuda, default_device, deterministic, set_default_device
from .dlpack import from_dlpack
from .ops import *


def __getattr__(name: str) -> object:
    """``TENSOR_COUNTER`` and ``LAZY_MODE`` of the engine, as they are now (`needle.autograd.LAZY_MODE` switches)."""
    if name in ("TENSOR_COUNTER", "LAZY_MODE"):
        return getattr(autograd, name)
    raise AttributeError(f"module 'needle' has no attribute {name!r}")
