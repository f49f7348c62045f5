"""needle: a small automatic differentiation framework to learn from, teach with and train small models on.

>>> import needle as ndl
>>> x = ndl.Tensor([1.0, 2.0, 3.0])
>>> (x * x).sum().backward()
>>> x.grad
needle.Tensor([2. 4. 6.])
"""

from . import autograd, backend, data, init, nn, ops, optim, random
from .autograd import (
    LAZY_MODE,
    Op,
    Tensor,
    TensorOp,
    TensorTuple,
    TensorTupleOp,
    Value,
    enable_grad,
    grad,
    lazy,
    no_grad,
)
from .backend import Device, all_devices, cpu, cuda, default_device, deterministic, set_default_device
from .dlpack import from_dlpack
from .ops import *
