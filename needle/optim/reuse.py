"""Whether an optimizer may write into a parameter's array, or has to leave it to those who still look at it.

A step gives every parameter new values. Whoever holds the old array must go on seeing the old values: a graph that was
built before the step and will be differentiated after it, ``w.data``, ``w.numpy()``. So a step may not write into the
parameter's array; it makes another and rebinds the parameter. But in most steps nobody holds the old array, and then
making another only costs time (fresh memory comes page by page) and memory. CPython counts the references to every
object, so the question can be asked: it is copy on write.
"""

from __future__ import annotations

import sys

import numpy as np

from ..autograd import Tensor
from ..backend import Array


def _references_of_one_holder() -> int:
    """What `sys.getrefcount` says of an array that one tensor holds and nobody else: a matter of the Python version."""
    tensor = Tensor._from_array(np.empty(0), False)
    return sys.getrefcount(tensor.cached_data)


_ONE_HOLDER = _references_of_one_holder()


def reusable_array(parameter: Tensor) -> Array | None:
    """The array of `parameter` if it alone can see that memory, so that it may be written into; else None.

    Holders that count are other tensors, graphs (which hold the parameter's `needle.autograd.Stub`), views, and any
    variable of the caller's own: ask before loading ``parameter.cached_data``.

    Parameters
    ----------
    parameter : Tensor
        A leaf.

    Returns
    -------
    array or None

    Examples
    --------
    >>> import needle as ndl
    >>> w = ndl.Tensor([1.0, 2.0])
    >>> reusable_array(w) is None
    False
    >>> loss = (w * w).sum()
    >>> reusable_array(w) is None  # the backward of `loss` will read it
    True
    """
    # Attributes are asked about where they stand: a local variable would be one more reference.
    if parameter._stub is not None:
        if sys.getrefcount(parameter._stub) > _ONE_HOLDER:
            return None
        parameter._stub = None  # an edge of graphs that are gone; it holds the array too
    if sys.getrefcount(parameter.cached_data) > _ONE_HOLDER:
        return None
    array = parameter.cached_data
    # The memory of a view belongs to another array, and of that one's holders nothing is known.
    return array if array.base is None and array.flags.c_contiguous else None
