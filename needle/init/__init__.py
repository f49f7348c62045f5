"""Constant and random tensors, and the weight initialisations of Glorot and He.

Random numbers are drawn from NumPy's global generator, in the order of the calls and in float64; they are scaled there,
and cast and moved to the device at the end. So a seed gives the same weights on every device.
"""

from .basic import constant, one_hot, ones, ones_like, rand, randb, randn, zeros, zeros_like
from .weights import kaiming_normal, kaiming_uniform, xavier_normal, xavier_uniform

__all__ = [
    "rand",
    "randn",
    "constant",
    "ones",
    "zeros",
    "randb",
    "one_hot",
    "zeros_like",
    "ones_like",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
]
