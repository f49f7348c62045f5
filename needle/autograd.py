"""Reverse-mode automatic differentiation: values, the graph between them, and backward.

The idea, on one page
---------------------
A `Tensor` is an array together with how it came about: ``op``, the operation that computed it, and ``inputs``, the
tensors that the operation was applied to. Tensors that nobody computed (``op is None``) are *leaves*: data, parameters.
An operation is one small class with two methods::

    class Tanh(TensorOp):
        reads = ("output",)

        def compute(self, a):                    # arrays in, array out
            return array_module(a).tanh(a)

        def gradient(self, out_grad, node):      # the chain rule, written with other operations
            y = node.output
            return out_grad * (1 - y * y)

Applying an op computes an array and records a node. `Tensor.backward` visits the nodes in reverse topological order.
At each it holds the gradient of the final output with respect to this node, its *cotangent*; the op's ``gradient``
turns that into a contribution to each of its inputs, and what reaches an input along several paths is summed.

Because ``gradient`` is made of ops, it can be run in two ways. On tensors (``create_graph=True``) the gradient is
itself a value of the graph and can be differentiated again. On arrays (``create_graph=False``) the very same rule
only computes, nothing is recorded, and the graph is taken apart on the way.

What keeps what alive
---------------------
A node holds what it was computed from, so the graph lives as long as its last output. But the graph need not hold a
`Tensor`, which is what a user holds, where a `Stub` of it will do (an op says with ``reads`` what its rule needs):

* Of a leaf it keeps the array strongly and the `Tensor` weakly. Hence ``x -> x.grad -> its graph -> x`` is no cycle,
  everything is freed by reference counting, and rebinding ``x.data`` after a forward pass cannot spoil a later
  backward: the graph still has the array that the forward pass read.
* Of an intermediate value whose array no gradient rule reads, it keeps op, inputs and shape. The array goes when the
  user lets go of the tensor, long before backward; should somebody ask for it later, it is computed again. (Arrays
  smaller than a page of memory are not worth the trouble.)
"""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import backend
from .backend import Array, Device, Shape

LAZY_MODE = False  #: while true, applying an op builds a node and `Tensor.realize_cached_data` computes


class _Mode(threading.local):
    """Per-thread switches."""

    grad = True  # whether ops record their inputs


_mode = _Mode()
_mode_scopes = 0  # open no_grad and enable_grad scopes of all threads: without any, nobody need look at _mode
_ndarray = np.ndarray
_new = object.__new__
_PAGE = 4096  # bytes
_scopes_lock = threading.Lock()


# ---------------------------------------------------------------------------------------------------------- operations


class Op:
    """An operation: ``compute`` on arrays, ``gradient`` on the values of the graph."""

    #: What ``gradient`` reads of its node besides shapes and dtypes: ``"inputs"`` and/or ``"output"``, or ``()`` for
    #: neither. Saying so is also a promise: the rule uses only operators and `needle.ops` functions, on ``out_grad``,
    #: ``node.inputs``, ``node.output`` and ``node.needs_input_grad``, so that it can be run on arrays as well as on
    #: tensors. The rule of an op that says nothing (None) is always given tensors.
    reads: tuple[str, ...] | None = None
    _reads_inputs = True
    _reads_output = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._reads_inputs = cls.reads is None or "inputs" in cls.reads
        cls._reads_output = cls.reads is None or "output" in cls.reads

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError

    def compute(self, *args: Any) -> Any:
        """The op's value.

        Parameters
        ----------
        *args : array
            One array per input (a tuple of arrays for a `TensorTuple`).

        Returns
        -------
        array
            The result (a tuple of arrays for a `TensorTupleOp`). Inputs must not be changed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The contribution of a node of this op to the gradient of each of its inputs.

        Parameters
        ----------
        out_grad : Tensor
            The gradient with respect to the node's value, of its shape and dtype (a tuple for a `TensorTupleOp`).
        node : Tensor
            The node that this op computed.

        Returns
        -------
        Tensor, or tuple of (Tensor or None)
            One for each input, of the input's shape; None for an input that needs none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no gradient")

    def gradient_as_tuple(self, out_grad: Any, node: Any) -> tuple:
        """`gradient`, as a tuple also where the op has one input."""
        output = self.gradient(out_grad, node)
        if isinstance(output, tuple):
            return output
        return tuple(output) if isinstance(output, list) else (output,)

    def __repr__(self) -> str:
        return type(self).__name__


class TensorOp(Op):
    """An op whose value is a `Tensor`. Subclass it to define one.

    Examples
    --------
    >>> import numpy as np, needle as ndl
    >>> class Cube(ndl.TensorOp):
    ...     def compute(self, a):
    ...         return a**3
    ...
    ...     def gradient(self, out_grad, node):
    ...         (a,) = node.inputs
    ...         return out_grad * 3 * a**2
    >>> x = ndl.Tensor([1.0, 2.0])
    >>> Cube()(x).sum().backward()
    >>> x.grad
    needle.Tensor([ 3. 12.])
    """

    def __call__(self, *args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, Value):
                return _apply_to_mixed(self, Tensor, args)
        return Tensor.make_from_op(self, args)


class TensorTupleOp(Op):
    """An op whose value is a `TensorTuple`: its ``compute`` returns a tuple of arrays."""

    def __call__(self, *args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, Value):
                return _apply_to_mixed(self, TensorTuple, args)
        return TensorTuple.make_from_op(self, args)


def _apply_to_mixed(op: Op, result: type[Value], args: tuple) -> Any:
    """Arrays alone are computed on and nothing is recorded; beside a tensor they become constants."""
    if all([type(arg) is _ndarray for arg in args]):
        return op.compute(*args)
    like = next((arg for arg in args if isinstance(arg, Tensor)), None)
    if like is None and all(backend.is_array(arg) or isinstance(arg, tuple) for arg in args):
        return backend.compute(op.compute, args)
    device = like.device if like is not None else None
    tensors = tuple(a if isinstance(a, Value) else Tensor(a, device=device, requires_grad=False) for a in args)
    return result.make_from_op(op, tensors)


# -------------------------------------------------------------------------------------------------- values of the graph


class Stub:
    """What the graph keeps of a tensor in its place: how it came about and, if it is needed, its array.

    It stands for a leaf, with its array, for as long as the leaf has that array (rebinding ``.data`` starts another);
    or for an intermediate value whose array is kept only if a gradient rule reads it (None else).
    """

    __slots__ = ("op", "_inputs", "cached_data", "requires_grad", "shape", "dtype", "ref")

    def __init__(self, tensor: Value, array: Array | None):
        self.op = tensor.op
        self._inputs = tensor._inputs
        self.cached_data = array
        self.requires_grad = tensor.requires_grad
        data = tensor.cached_data
        self.shape: Any = None if type(data) is tuple else data.shape
        self.dtype: Any = None if type(data) is tuple else data.dtype
        self.ref = weakref.ref(tensor)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def array(self) -> Array | None:
        """The array, if the graph or a user still holds it."""
        if self.cached_data is not None or self.op is None:
            return self.cached_data
        tensor: Any = self.ref()
        return None if tensor is None else tensor.cached_data

    def tensor(self) -> Tensor:
        """The tensor itself, or another in its place if it is gone or has another array by now."""
        tensor: Any = self.ref()
        if tensor is not None and (self.op is not None or tensor.cached_data is self.cached_data):
            return tensor
        kind: Any = TensorTuple if type(self.cached_data) is tuple else Tensor
        tensor = kind._from_array(self.cached_data, self.requires_grad)
        tensor.op = self.op
        tensor._inputs = self._inputs
        tensor._stub = self
        return tensor


class Value:
    """A node of the graph: what computed it, from what, and the result."""

    __slots__ = (
        "op",
        "_inputs",
        "cached_data",
        "requires_grad",
        "grad",
        "_stub",
        "_retains_grad",
        "__weakref__",
    )

    op: Op | None
    _inputs: tuple | None  # of Value and Stub; None once backward has let go of them
    cached_data: Any
    requires_grad: bool
    grad: Any
    _stub: Any  # the Stub that graphs hold in its place, False if they hold it itself, None if none holds it yet
    _retains_grad: bool

    @classmethod
    def _from_array(cls, array: Any, requires_grad: bool) -> Any:
        """A leaf over `array` itself (no copy, no checks)."""
        value = _new(cls)
        value.op = value.grad = value._stub = None
        value._inputs = ()
        value.cached_data = array
        value.requires_grad = requires_grad
        value._retains_grad = False
        return value

    @classmethod
    def make_const(cls, data: Any, requires_grad: bool = False) -> Any:
        """A leaf that shares the array of `data` (an array, or a value whose array it is)."""
        return cls._from_array(data.realize_cached_data() if isinstance(data, Value) else data, requires_grad)

    @classmethod
    def make_from_op(cls, op: Op, inputs: Sequence[Value]) -> Any:
        """Apply `op` to `inputs`: compute, and record the node if an input requires grad."""
        reads_inputs = op._reads_inputs
        requires_grad = False
        arrays: list = []
        edges: list = []
        for i in inputs:
            array = i.cached_data
            arrays.append(array if array is not None or LAZY_MODE else i.realize_cached_data())
            if i.requires_grad:
                requires_grad = True
            edges.append(i if i._stub is False else _edge(i, reads_inputs))
        value = _new(cls)
        value.grad = value._stub = None
        value._retains_grad = False
        if _mode_scopes and not _mode.grad:
            requires_grad = False
        value.requires_grad = requires_grad
        if LAZY_MODE:
            value.cached_data = None
        else:
            on_cpu = not arrays or type(arrays[0]) is type(arrays[-1]) is _ndarray
            data = op.compute(*arrays) if on_cpu else backend.compute(op.compute, arrays)
            value.cached_data = data if type(data) is _ndarray else _as_arrays(data, arrays)
        if requires_grad or LAZY_MODE:
            value.op = op
            value._inputs = tuple(edges)
        else:
            value.op = None
            value._inputs = ()
        return value

    @classmethod
    def make_from_pair(cls, op: Op, a: Value, b: Value) -> Any:
        """`make_from_op` for two NumPy operands, unrolled: half of all nodes are made here."""
        if LAZY_MODE or _mode_scopes:
            return cls.make_from_op(op, (a, b))
        value = _new(cls)
        value.grad = value._stub = None
        value._retains_grad = False
        x, y = a.cached_data, b.cached_data
        data = op.compute(x, y)
        value.cached_data = data if type(data) is _ndarray else _as_arrays(data, [x, y])
        if a.requires_grad or b.requires_grad:
            value.requires_grad = True
            value.op = op
            reads_inputs = op._reads_inputs
            value._inputs = (
                a if a._stub is False else _edge(a, reads_inputs),
                b if b._stub is False else _edge(b, reads_inputs),
            )
        else:
            value.requires_grad = False
            value.op = None
            value._inputs = ()
        return value

    @property
    def inputs(self) -> tuple:
        """The values that `op` was applied to; empty for a leaf."""
        return tuple([i.tensor() if type(i) is Stub else i for i in _edges(self)])

    @property
    def output(self) -> Any:
        """The node itself: what a gradient rule calls its own result."""
        return self

    @property
    def needs_input_grad(self) -> list[bool]:
        """For each input, whether it requires grad."""
        return [i.requires_grad for i in _edges(self)]

    def is_leaf(self) -> bool:
        """Whether no op computed this value (or none was recorded)."""
        return self.op is None

    def realize_cached_data(self) -> Any:
        """The live array (a tuple of arrays for a `TensorTuple`), computed now if it was built lazily or let go of."""
        if self.cached_data is None:
            _compute(self)
        return self.cached_data

    def __deepcopy__(self, memo: dict) -> Any:
        if self.op is not None:
            raise TypeError(f"only leaves can be copied, not the result of {self.op}: detach() it first")
        copy = type(self)._from_array(_copy_arrays(self.cached_data), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce__(self) -> tuple:
        if self.op is not None:
            raise TypeError(f"only leaves can be pickled, not the result of {self.op}: detach() it first")
        return type(self)._from_array, (self.cached_data, self.requires_grad)


def _as_arrays(data: Any, like: list) -> Any:
    """Arrays where ``compute`` gave NumPy scalars (0-d results)."""
    if isinstance(data, (tuple, list)):
        return tuple([_as_arrays(item, like) for item in data])
    if not backend.is_array(data):
        raise TypeError(f"compute must return an array, got {type(data).__name__}")
    while like and isinstance(like[0], tuple):
        like = list(like[0])
    return data if isinstance(data, _ndarray) else backend.as_array(data, like[0] if like else data)


def _copy_arrays(data: Any) -> Any:
    return tuple([backend.copy(item) for item in data]) if isinstance(data, tuple) else backend.copy(data)


def _edge(value: Value, reads_array: bool) -> Any:
    """What a graph holds of `value` as an input: a `Stub`, or the value itself if its array is needed anyway."""
    stub, array = value._stub, value.cached_data
    if value.op is None:
        if not stub or stub.cached_data is not array or stub.requires_grad is not value.requires_grad:
            stub = value._stub = Stub(value, array)
        return stub
    if stub is False:
        return value
    if stub is None:
        if reads_array or value.op._reads_output or array is None or type(array) is tuple or array.nbytes < _PAGE:
            value._stub = False
            return value
        stub = value._stub = Stub(value, None)
    elif reads_array:
        stub.cached_data = value.realize_cached_data()
    return stub


def _compute(value: Value) -> None:
    """Compute what was built lazily, and (not to be kept) what the graph has let go of on the way there."""
    arrays: dict = {}
    stack: list = [value]
    while stack:
        node = stack[-1]
        inputs = [arrays[i] if i in arrays else i.array() if type(i) is Stub else i.cached_data for i in _edges(node)]
        missing = [i for i, array in zip(_edges(node), inputs) if array is None]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if node not in arrays:
            arrays[node] = _as_arrays(backend.compute(node.op.compute, inputs), inputs)
            if type(node) is not Stub:
                node.cached_data = arrays[node]
                if not node.requires_grad:
                    node.op = None
                    node._inputs = ()


def _edges(node: Any) -> tuple:
    """The inputs of `node` as the graph holds them."""
    if node._inputs is None:
        raise RuntimeError(
            f"the graph behind this {node.op} was taken apart by an earlier backward(create_graph=False): "
            "pass retain_graph=True there to go through it again"
        )
    return node._inputs


class Tensor(Value):
    """An array that remembers how it was computed.

    Parameters
    ----------
    array : array_like
        Numbers: nested lists, a NumPy or CuPy array (copied) or a Tensor (shared if device and dtype stay).
    device : Device, optional
        Where to put it; by default where `array` is if that is a GPU, else on the `default_device`.
    dtype : dtype, optional
        By default that of `array`, as NumPy has it.
    requires_grad : bool
        Whether gradients are wanted. Boolean tensors never require grad.

    Raises
    ------
    TypeError
        If `array` does not hold real numbers, `device` or `dtype` is none, or another keyword is given.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    needle.Tensor([[2. 4.]
     [6. 8.]])
    """

    __slots__ = ()
    __array_ufunc__ = None  # array * tensor is Tensor.__rmul__, never an object array of tensors

    def __init__(
        self,
        array: Any,
        *,
        device: Device | None = None,
        dtype: Any = None,
        requires_grad: bool = True,
        **kwargs: Any,
    ):
        if kwargs:
            raise _unknown_keyword(type(self).__name__, next(iter(kwargs)))
        if device is not None:
            backend.as_device("Tensor", device)
        if isinstance(array, Tensor):
            data = array.realize_cached_data()
            dtype = None if dtype is None else backend.as_dtype("Tensor", dtype)
            if device not in (None, array.device) or dtype not in (None, data.dtype):
                data = _array_from(data, device or array.device, dtype)
        else:
            if device is None:
                device = backend.device_for(array)
            data = _array_from(array, device, dtype)
        self.op = self.grad = self._stub = None
        self._inputs = ()
        self.cached_data = data
        self.requires_grad = bool(requires_grad) and data.dtype.kind != "b"
        self._retains_grad = False

    # -- what it holds

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        array = self.cached_data
        return (array if array is not None else self._described()).shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        array = self.cached_data
        return (array if array is not None else self._described()).ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.realize_cached_data().size

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        array = self.cached_data
        return (array if array is not None else self._described()).dtype

    def _described(self) -> Any:
        """What knows shape and dtype: the stub in whose place this tensor stands, or the array."""
        return self._stub or self.realize_cached_data()

    @property
    def device(self) -> Device:
        """Where the array lives."""
        return backend.device_of(self.realize_cached_data())

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array: the live one on the CPU, a copy of one on a GPU."""
        return backend.to_numpy(self.realize_cached_data())

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item: one element is needed, got shape {self.shape}")
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __bool__(self) -> bool:
        """The truth of a boolean tensor of one element; tensors of numbers are all true, as objects are.

        (Course code asks ``if out_grad``, to know whether it was given one.)
        """
        if self.dtype.kind != "b":
            return True
        if self.size != 1:
            raise ValueError(f"the truth of {self.size} booleans is ambiguous: look at .numpy().all() or .any()")
        return bool(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.device != backend.cpu():
            raise TypeError(f"a tensor on {self.device} is not turned into a NumPy array implicitly: use .numpy()")
        array = self.numpy()
        if copy is False and dtype is not None and array.dtype != np.dtype(dtype):
            raise ValueError(f"a {array.dtype} tensor cannot become {np.dtype(dtype)} without a copy")
        return array.astype(dtype or array.dtype, copy=bool(copy))

    # -- the same array outside the graph

    def detach(self) -> Tensor:
        """A constant that shares this tensor's array and holds no graph."""
        return Tensor._from_array(self.realize_cached_data(), False)

    @property
    def data(self) -> Tensor:
        """A detached tensor over the same array. Assigning rebinds the array; shape, dtype and device must stay."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: a Tensor is needed, got {type(value).__name__}")
        new, old = value.realize_cached_data(), self.realize_cached_data()
        if new.dtype != old.dtype or new.shape != old.shape or value.device != self.device:
            raise ValueError(
                f"data: a {old.dtype} tensor of shape {old.shape} on {self.device} cannot take "
                f"{new.dtype} of shape {new.shape} on {value.device}"
            )
        self.cached_data = new

    # -- gradients

    def backward(self, out_grad: Any = None, create_graph: bool = True, retain_graph: bool | None = None) -> None:
        """Set ``.grad`` of every leaf that this tensor was computed from (and of those that `retain_grad`).

        Parameters
        ----------
        out_grad : Tensor or array_like, optional
            The gradient with respect to this tensor, of its shape; ones by default.
        create_graph : bool
            Whether the gradients are values of the graph, to be differentiated again. Without (as training loops
            want it) they are constants, rules run on plain arrays, and nothing is recorded.
        retain_graph : bool, optional
            Whether the graph stays for another backward. By default it does if `create_graph` is set; else it is
            taken apart on the way, so that each array is freed as soon as it has been used.

        Raises
        ------
        ValueError
            If this tensor does not require grad, or `out_grad` has another shape.
        RuntimeError
            If an earlier backward took the graph apart.

        Notes
        -----
        A second backward replaces ``.grad``; it does not add to it.
        """
        retain_graph = create_graph if retain_graph is None else retain_graph
        with backend.scope(self.realize_cached_data()):
            leaves = _propagate([self], [out_grad], create_graph, retain_graph)
        fresh: set[Tensor] = set()
        given = {id(out_grad.cached_data)} if isinstance(out_grad, Tensor) else set()  # arrays that somebody has
        for leaf, cotangent in leaves.items():
            tensor = leaf.ref()
            if tensor is not None:  # one leaf has two stubs if its data was rebound between two uses
                if not create_graph:
                    cotangent = backend.copy(cotangent) if id(cotangent) in given else cotangent
                    given.add(id(cotangent))
                cotangent = _as_gradient(cotangent)
                tensor.grad = tensor.grad + cotangent if tensor in fresh else cotangent
                fresh.add(tensor)

    def retain_grad(self) -> Tensor:
        """Have backward set ``.grad`` of this intermediate tensor too.

        With ``create_graph=True`` the stored gradient and this tensor hold each other: only the cyclic garbage
        collector frees such a pair. Returns the tensor itself.
        """
        self._retains_grad = True
        return self

    # -- text

    def __repr__(self) -> str:
        return f"needle.Tensor({self.numpy()})"

    def __str__(self) -> str:
        return str(self.numpy())

    if TYPE_CHECKING:  # bound by needle.ops.operators

        def __add__(self, other: Any) -> Tensor: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __add__

        def __neg__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __iter__(self) -> Iterator[Tensor]: ...
        def sum(self, axes: Any = None) -> Tensor: ...
        def reshape(self, *shape: Any) -> Tensor: ...
        def broadcast_to(self, shape: Sequence[int]) -> Tensor: ...
        def transpose(self, axes: Any = None) -> Tensor: ...
        def matmul(self, other: Any) -> Tensor: ...
        def astype(self, dtype: Any) -> Tensor: ...
        def to(self, device: Device) -> Tensor: ...


def _array_from(data: Any, device: Device, dtype: Any) -> Array:
    """A new numeric array, or an error in the user's terms."""
    if dtype is not None:
        dtype = backend.as_dtype("Tensor", dtype)
    try:
        array = data if backend.is_array(data) else np.asarray(data)
        if array.dtype.kind in "fiub":
            return device.array(array, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise type(error)(f"Tensor: {type(data).__name__} cannot be made an array of numbers: {error}") from None
    of_tensors = isinstance(data, (list, tuple)) and any(isinstance(item, Tensor) for item in data)
    hint = ": ndl.stack joins tensors" if of_tensors else ""
    raise TypeError(f"Tensor: real numbers are needed, got {type(data).__name__} of dtype {array.dtype}{hint}")


def _unknown_keyword(name: str, keyword: str) -> TypeError:
    import difflib  # not at the top: it is needed for this alone

    known = ("device", "dtype", "requires_grad")
    near = difflib.get_close_matches(keyword, known, 1)
    hint = f": did you mean {near[0]}?" if near else ""
    return TypeError(f"{name}: the keywords are {', '.join(known)}, got {keyword!r}{hint}")


class TensorTuple(Value):
    """Several arrays computed by one op. Indexing it gives a `Tensor`."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.realize_cached_data())

    def __getitem__(self, index: int) -> Tensor:
        return _TupleGetItem(range(len(self))[index])(self)

    def tuple(self) -> tuple:
        """The items as a tuple of tensors."""
        return tuple(self)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"needle.TensorTuple({', '.join(str(array) for array in self.realize_cached_data())})"

    def detach(self) -> TensorTuple:
        """The same arrays without a graph."""
        return TensorTuple._from_array(self.realize_cached_data(), False)


class _ItemCotangent:
    """The cotangent of one item of a tuple; the others have none yet."""

    __slots__ = ("index", "value")

    def __init__(self, index: int, value: Any):
        self.index = index
        self.value = value


class _TupleGetItem(TensorOp):
    """Item `index` of a tuple."""

    reads = ()

    def __init__(self, index: int):
        self.index = index

    def compute(self, items: tuple) -> Array:
        return items[self.index]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return _ItemCotangent(self.index, out_grad)


# ------------------------------------------------------------------------------------------------------------- backward


def _post_order(roots: Iterable[Any]) -> list:
    """Every node that `roots` depend on, inputs (left to right) before the node: a topological order."""
    order: list = []
    seen = set()
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node is None:  # all inputs of the node below are in the order
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            if node.op is None:
                order.append(node)
            else:
                stack.append(node)
                stack.append(None)
                for edge in reversed(node._inputs if node._inputs is not None else _edges(node)):
                    if edge not in seen:
                        stack.append(edge)
    return order


class _ArrayNode:
    """What a gradient rule sees of a node when it is run on arrays."""

    __slots__ = ("edges", "output")
    edges: tuple
    output: Any

    @property
    def inputs(self) -> list:
        return [i.cached_data if i.cached_data is not None else i for i in self.edges]

    @property
    def needs_input_grad(self) -> list[bool]:
        return [i.requires_grad for i in self.edges]


def _propagate(
    outputs: Sequence[Tensor],
    out_grads: Sequence[Any],
    create_graph: bool,
    retain_graph: bool,
    targets: Iterable[Any] = (),
) -> dict:
    """The cotangents of all leaves (and of the nodes among `targets`), as tensors or, without a graph, as arrays.

    This is the whole of reverse mode: walk the nodes in reverse topological order, hand each one's cotangent to its
    op's gradient rule, and sum what arrives at each input.
    """
    cotangents: dict = {}  # a list of terms for each node with create_graph, else their sum so far
    owned: set = set()  # nodes whose sum was made here, so that the next term can be added in place
    for output, out_grad in zip(outputs, out_grads):
        seed = _seed(output, out_grad)
        root = output._stub or output if output.op is not None else _edge(output, False)
        if create_graph:
            cotangents.setdefault(root, []).append(seed)
        else:
            cotangents[root] = cotangents[root] + seed.cached_data if root in cotangents else seed.cached_data

    wanted: dict = {}
    targets = {target._stub or target for target in targets}
    array_node = _ArrayNode()
    order = _post_order(cotangents)
    while order:
        node = order.pop()
        op = node.op
        if op is None:
            continue
        cotangent = cotangents.pop(node, None)
        if cotangent is None:
            continue
        if type(node.cached_data) is tuple:
            cotangent = _whole(cotangent, node.cached_data, create_graph)
        elif create_graph:
            cotangent = sum_node_list(cotangent)
        tensor = node.ref() if type(node) is Stub else node
        if tensor is not None and tensor._retains_grad:
            tensor.grad = _as_gradient(cotangent)
        if node in targets:
            wanted[tensor] = cotangent

        if create_graph:
            grads = op.gradient(cotangent, tensor if tensor is not None else node.tensor())
        elif op.reads is not None:
            if type(cotangent) is not _ndarray:
                backend.make_current(cotangent)
            array_node.edges = node._inputs
            array_node.output = node.cached_data
            grads = op.gradient(cotangent, array_node)
        else:
            grads = _gradient_on_constants(op, cotangent, tensor if tensor is not None else node.tensor())
        if type(grads) is not tuple:
            if grads is None:
                raise ValueError(f"{op}.gradient gave None: is a return missing?")
            grads = tuple(grads) if type(grads) is list else (grads,)
        edges = node._inputs
        if len(grads) != len(edges):
            raise ValueError(f"{op}.gradient gave {len(grads)} gradients for {len(edges)} inputs")

        for edge, grad in zip(edges, grads):
            if grad is None or not edge.requires_grad:
                continue
            array = edge.cached_data
            if type(array) is tuple:
                cotangents[edge] = _add_items(cotangents.get(edge), grad)
                continue
            if create_graph:
                cotangents.setdefault(edge, []).append(_conform(grad, edge, op))
                continue
            if array is None:
                array = edge
            if (
                type(grad) is not _ndarray
                or (type(array) is not _ndarray and type(array) is not Stub)
                or grad.dtype is not array.dtype
                or grad.shape != array.shape
            ):
                grad = _conform(grad, edge, op)
            if edge not in cotangents:
                cotangents[edge] = grad
            elif edge in owned:
                cotangents[edge] += grad
            else:
                cotangents[edge] = cotangents[edge] + grad
                owned.add(edge)
        if not retain_graph:
            node._inputs = None
            if tensor is not None:
                tensor._inputs = None

    if create_graph:
        cotangents = {edge: sum_node_list(terms) for edge, terms in cotangents.items()}
    cotangents.update(wanted)
    return cotangents


def _conform(grad: Any, edge: Any, op: Op) -> Any:
    """`grad` in the dtype of the input that it belongs to; another shape or device is the op's mistake and an error."""
    like = edge if type(edge) is Stub else edge.realize_cached_data()
    value = grad.realize_cached_data() if isinstance(grad, Tensor) else grad
    if not backend.is_array(value):
        raise TypeError(f"{op}.gradient gave {type(grad).__name__}: a Tensor is needed (None for no gradient)")
    if type(value) is _ndarray and value.dtype is like.dtype and value.shape == like.shape:
        return grad
    if value.shape != like.shape:
        raise ValueError(
            f"{op}.gradient gave shape {value.shape} for an input of shape {like.shape}: a gradient has its input's "
            "shape (sum_to undoes a broadcast)"
        )
    array = edge.array() if type(edge) is Stub else like
    if type(value) is not _ndarray or (array is not None and type(array) is not _ndarray):
        here = backend.device_of(value)
        there = here if array is None else backend.device_of(array)
        if here != there:
            raise ValueError(f"{op}.gradient gave an array on {here} for an input on {there}")
        backend.make_current(value)  # it may be added to what has arrived already
    return grad if value.dtype == like.dtype else grad.astype(like.dtype)


def _add_items(items: Any, grad: Any) -> dict:
    """Cotangents of the items of a tuple, by index, with `grad` (of one item or of all) added."""
    items = {} if items is None else items
    for i, item in [(grad.index, grad.value)] if type(grad) is _ItemCotangent else enumerate(grad):
        items[i] = items[i] + item if i in items else item
    return items


def _whole(items: dict, arrays: tuple, create_graph: bool) -> tuple:
    """The cotangent of a whole tuple: zeros for the items that nothing was computed from."""
    whole = []
    for i, array in enumerate(arrays):
        item = items.get(i)
        if item is None:
            item = backend.zeros_like(array)
            if create_graph:
                item = Tensor._from_array(item, False)
        whole.append(item if item.dtype == array.dtype else item.astype(array.dtype))
    return tuple(whole)


def _seed(output: Tensor, out_grad: Any) -> Tensor:
    """The gradient that backward starts from."""
    if not isinstance(output, Tensor):
        raise TypeError(f"backward: a Tensor is needed, got {type(output).__name__}")
    if not output.requires_grad:
        raise ValueError(
            "backward: this tensor does not require grad; none of the tensors it was computed from does, "
            "or it was made under no_grad() or by detach() (or it is a gradient that is constant, as a linear "
            "function's: grad(..., allow_unused=True) gives zeros)"
        )
    array = output.realize_cached_data()
    if out_grad is None:
        return Tensor._from_array(output.device.ones(array.shape, array.dtype), False)
    if not isinstance(out_grad, Tensor):
        out_grad = Tensor(out_grad, device=output.device, requires_grad=False)
    if out_grad.shape != array.shape or out_grad.device != output.device:
        raise ValueError(
            f"backward: out_grad has shape {out_grad.shape} on {out_grad.device}, "
            f"the tensor has shape {array.shape} on {output.device}"
        )
    return out_grad if out_grad.dtype == array.dtype else out_grad.astype(array.dtype)


def _gradient_on_constants(op: Op, cotangent: Any, node: Value) -> Any:
    """A rule that asks for tensors, run for its arrays alone."""
    with no_grad():
        if isinstance(cotangent, tuple):
            cotangent = tuple([Tensor._from_array(item, False) for item in cotangent])
        else:
            cotangent = Tensor._from_array(backend.as_array(cotangent, node.cached_data), False)
        grads = op.gradient(cotangent, node)
    if grads is None:
        return None
    if not isinstance(grads, (tuple, list)):
        grads = (grads,)
    return tuple([g.realize_cached_data() if isinstance(g, Value) else g for g in grads])


def _as_gradient(cotangent: Any) -> Any:
    """What ``.grad`` holds: the tensor, or a constant over the array (copied if it is a read-only broadcast view)."""
    if isinstance(cotangent, Tensor):
        return cotangent
    if isinstance(cotangent, tuple):
        return tuple([_as_gradient(item) for item in cotangent])
    if isinstance(cotangent, np.generic) or (type(cotangent) is _ndarray and not cotangent.flags.writeable):
        cotangent = np.array(cotangent)
    elif type(cotangent) is not _ndarray and 0 in cotangent.strides:  # on a GPU such a view can be written into
        cotangent = backend.copy(cotangent)
    return Tensor._from_array(cotangent, False)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    out_grads: Any = None,
    create_graph: bool = True,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
) -> Any:
    """Gradients of `outputs` with respect to `inputs`, returned instead of stored in ``.grad``.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What to differentiate; the gradients of several outputs are summed.
    inputs : Tensor or sequence of Tensor
        Leaves or intermediate tensors that `outputs` were computed from.
    out_grads : Tensor or sequence of (Tensor or None), optional
        The gradient with respect to each output; ones by default.
    create_graph, retain_graph : bool
        As in `Tensor.backward`.
    allow_unused : bool
        Whether an input that no output depends on gets zeros, as where an output is a constant; by default that is an
        error.

    Returns
    -------
    Tensor or tuple of Tensor
        One for each input, of its shape and dtype; not in a tuple if `inputs` is a single Tensor.

    Raises
    ------
    ValueError
        If an output does not require grad or an input was not used.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor(3.0)
    >>> first = ndl.grad(x**3, x)
    >>> second = ndl.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    single = isinstance(inputs, Tensor)
    outputs = _as_tensors("outputs", outputs)
    wanted = _as_tensors("inputs", inputs)
    if out_grads is None:
        out_grads = [None] * len(outputs)
    elif not isinstance(out_grads, (list, tuple)):
        out_grads = [out_grads]
    if len(out_grads) != len(outputs):
        raise ValueError(f"grad: {len(out_grads)} out_grads for {len(outputs)} outputs")
    if retain_graph is None:
        retain_graph = create_graph
    if allow_unused:  # a constant depends on no input
        pairs = [pair for pair in zip(outputs, out_grads) if pair[0].requires_grad]
        outputs, out_grads = [output for output, _ in pairs], [out_grad for _, out_grad in pairs]
    with backend.scope([output.realize_cached_data() for output in outputs]):
        found = _propagate(outputs, out_grads, create_graph, retain_graph, targets=wanted)
    for edge in [e for e in found if type(e) is Stub]:
        tensor, cotangent = edge.ref(), found.pop(edge)
        if tensor is not None:
            found[tensor] = found[tensor] + cotangent if tensor in found else cotangent
    results = []
    for position, tensor in enumerate(wanted):
        unused = tensor not in found
        if unused and not allow_unused:
            raise ValueError(
                f"grad: no output depends on input {position} (shape {tensor.shape}, requires_grad="
                f"{tensor.requires_grad}); allow_unused=True gives zeros"
            )
        results.append(_as_gradient(backend.zeros_like(tensor.realize_cached_data()) if unused else found[tensor]))
    return results[0] if single else tuple(results)


def _as_tensors(what: str, values: Any) -> list[Tensor]:
    tensors = [values] if isinstance(values, Tensor) else list(values) if isinstance(values, (list, tuple)) else []
    if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError(f"grad: {what} are a Tensor or a non-empty list of them, got {values!r}")
    return tensors


def compute_gradient_of_variables(output_tensor: Tensor, out_grad: Tensor | None) -> None:
    """Set ``.grad`` of the leaves below `output_tensor` (the course's name for `Tensor.backward`)."""
    output_tensor.backward(out_grad)


def find_topo_sort(node_list: Sequence[Value]) -> list[Value]:
    """All values that `node_list` depend on, in post-order: inputs, left to right, before what is computed from them.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor(2.0)
    >>> [float(node) for node in ndl.autograd.find_topo_sort([x * x + x])]
    [2.0, 4.0, 6.0]
    """
    if not isinstance(node_list, (list, tuple)) or not all(isinstance(node, Value) for node in node_list):
        raise TypeError("find_topo_sort: a list of tensors is needed, as in find_topo_sort([loss])")
    roots = [node._stub or node if node.op is not None else _edge(node, False) for node in node_list]
    return [node.tensor() if type(node) is Stub else node for node in _post_order(roots)]


class SumNodes(TensorOp):
    """The sum of several tensors of one shape: what meets at a node along several paths, in one node"""

    reads = ()

    def compute(self, first: Array, second: Array, *others: Array) -> Array:
        total = first + second
        for array in others:
            total += array
        return total

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return (out_grad,) * len(node.inputs)


_SUM_NODES = SumNodes()


def sum_node_list(node_list: Sequence[Any]) -> Any:
    """The sum of tensors of one shape: one node, or the tensor itself if there is only one."""
    return node_list[0] if len(node_list) == 1 else _SUM_NODES(*node_list)


# ---------------------------------------------------------------------------------------------------------------- modes


class _Switch(ContextDecorator):
    """A context manager and decorator that sets a mode and restores what was before."""

    _get: Callable[[], bool]
    _set: Callable[[bool], None]
    _on: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __call__(self, function: Any) -> Any:
        kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
        if any(is_kind(function) for is_kind in kinds):
            name = type(self).__name__
            raise TypeError(
                f"{name}: {function.__name__} runs later than its call, when the mode is what it was before: "
                f"put 'with {name}():' into it"
            )
        return super().__call__(function)

    def __enter__(self) -> None:
        self._before.append(type(self)._get())
        type(self)._set(self._on)
        self._count(1)

    def __exit__(self, *exc_info: Any) -> None:
        self._count(-1)
        type(self)._set(self._before.pop())

    def _count(self, change: int) -> None:
        global _mode_scopes
        with _scopes_lock:
            _mode_scopes += change


def is_grad_enabled() -> bool:
    """Whether ops record their inputs in this thread."""
    return _mode.grad


def _set_grad(on: bool) -> None:
    _mode.grad = on


def _set_lazy(on: bool) -> None:
    global LAZY_MODE
    LAZY_MODE = on


class no_grad(_Switch):
    """Within it, or in a function decorated with it, ops record nothing: results are constants.

    Examples
    --------
    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0])
    >>> with ndl.no_grad():
    ...     y = x * 2
    >>> y.requires_grad, y.is_leaf()
    (False, True)
    """

    _get, _set, _on = staticmethod(is_grad_enabled), staticmethod(_set_grad), False


class enable_grad(_Switch):
    """Within it ops record their inputs, also inside `no_grad`."""

    _get, _set, _on = staticmethod(is_grad_enabled), staticmethod(_set_grad), True


class lazy(_Switch):
    """Within it ops build nodes without computing; `Tensor.realize_cached_data` (or any look at a value) computes.

    Examples
    --------
    >>> import needle as ndl
    >>> with ndl.lazy():
    ...     y = ndl.Tensor([1.0]) + 1
    >>> y.cached_data is None
    True
    >>> y.numpy()
    array([2.])
    """

    _get, _set, _on = staticmethod(lambda: LAZY_MODE), staticmethod(_set_lazy), True


def __getattr__(name: str) -> Any:
    """``TENSOR_COUNTER``: how many tensors are alive, counted when it is asked for."""
    if name == "TENSOR_COUNTER":
        # type(), not isinstance(): the __class__ of another library's object may be code with effects
        return sum(issubclass(type(value), Value) for value in gc.get_objects())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
