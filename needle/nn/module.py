"""Modules: parts of a network that hold parameters, other modules, and a way to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .. import backend
from ..autograd import Tensor
from ..backend import Device


class Parameter(Tensor):
    """A tensor that a module learns.

    Examples
    --------
    >>> import needle as ndl
    >>> p = ndl.nn.Parameter([1.0, 2.0])
    >>> isinstance(p, ndl.Tensor), p.requires_grad
    (True, True)
    """

    __slots__ = ()


class IncompatibleKeys(NamedTuple):
    """What `Module.load_state_dict` found to differ."""

    missing: list[str]
    unexpected: list[str]


class Module:
    """A part of a network. Subclass it, assign parameters and modules to attributes, and define ``forward``.

    Parameters, modules and buffers are found in attributes, and in lists, tuples and dicts there, in the order in which
    they were assigned; what is reached in two ways counts once, under its first name. A *buffer* is state that is not
    learned, such as a running mean: a plain `Tensor` that nothing computed, found in the same way, unless the name of
    its attribute starts with an underscore.

    Examples
    --------
    >>> import needle as ndl
    >>> class Scale(ndl.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = ndl.nn.Parameter([2.0])
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> model = Scale()
    >>> model(ndl.Tensor([3.0]))
    needle.Tensor([6.])
    >>> model.parameters()
    [needle.Tensor([2.])]

    Raises
    ------
    TypeError
        If `device` is no device, or `dtype` not floating.
    """

    training = True  #: whether this module is in training mode, which `train` and `eval` switch

    def __init__(self, device: Device | None = None, dtype: Any = "float32") -> None:
        backend.as_device(type(self).__name__, device)  # for modules that make parameters; the others take them too
        backend.as_dtype(type(self).__name__, dtype, "f")
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(vars(self).get(name), Parameter) and not (value is None or isinstance(value, Parameter)):
            raise TypeError(
                f"{type(self).__name__}: {name} is a parameter, got {type(value).__name__}: assign another Parameter, "
                f"new values to {name}.data, or None"
            )
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward: define it to say what calling it computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # -- what it holds

    def parameters(self) -> list[Parameter]:
        """All parameters of this module and those in it, each once."""
        return [parameter for _, parameter in self.named_parameters()]

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their names: the path of attributes, positions and keys, joined by dots.

        Examples
        --------
        >>> import needle as ndl
        >>> model = ndl.nn.Sequential(ndl.nn.Linear(2, 3), ndl.nn.ReLU(), ndl.nn.Linear(3, 1, bias=False))
        >>> [(name, p.shape) for name, p in model.named_parameters()]
        [('modules.0.weight', (2, 3)), ('modules.0.bias', (1, 3)), ('modules.2.weight', (3, 1))]
        """
        return ((name, value) for name, value in _walk(self) if isinstance(value, Parameter))

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their names."""
        return ((n, v) for n, v in _walk(self) if isinstance(v, Tensor) and not isinstance(v, Parameter))

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """This module (its name is empty) and all modules in it with their names, each before those in it."""
        return ((name, value) for name, value in _walk(self) if isinstance(value, Module))

    def children(self) -> list[Module]:
        """The modules that this one holds itself."""
        return [value for _, value in _members(self) if isinstance(value, Module)]

    # -- switches

    def train(self, mode: bool = True) -> Module:
        """Put this module and all in it into training mode (or out of it); returns the module."""
        for _, module in self.named_modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Module:
        """Put this module and all in it into evaluation mode; returns the module."""
        return self.train(False)

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call ``fn(module)`` for all modules in this one, inner ones first, and then for itself; returns it.

        Examples
        --------
        >>> import needle as ndl
        >>> _ = ndl.nn.Sequential(ndl.nn.ReLU(), ndl.nn.Tanh()).apply(lambda m: print(type(m).__name__))
        Tanh
        ReLU
        Sequential
        """
        if not callable(fn):
            raise TypeError(f"{type(self).__name__}.apply: a function of a module is needed, got {type(fn).__name__}")
        for _, module in reversed(list(self.named_modules())):
            fn(module)
        return self

    def to(self, device: Device) -> Module:
        """Move all parameters, their gradients and all buffers to `device`, in place; returns the module.

        Parameters stay the same objects, so an optimizer that has them needs no word of it.

        Raises
        ------
        TypeError
            If `device` is none.
        RuntimeError
            If the device cannot be used; nothing was moved then.
        """
        if not isinstance(device, Device):
            raise TypeError(f"{type(self).__name__}.to: a device is needed, as ndl.cpu() or ndl.cuda(); got {device!r}")
        _ = device.xp  # raises if the device cannot be used
        for _, value in list(_walk(self)):
            if isinstance(value, Module):
                if isinstance(vars(value).get("device"), Device):
                    vars(value)["device"] = device  # where the module makes new tensors
            elif value.device != device:
                value.cached_data = device.array(value.realize_cached_data())
                if value.grad is not None:
                    value.grad = value.grad.detach().to(device)
        return self

    # -- state

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all parameters and buffers, by name.

        Returns
        -------
        dict of str to Tensor
            Constants on the devices where the originals are. Later training does not change them.

        Raises
        ------
        ValueError
            If two different tensors have one name (a dict with the keys ``0`` and ``"0"``).

        See Also
        --------
        needle.nn.save, needle.nn.load
        """
        return {name: Tensor(value.realize_cached_data(), requires_grad=False) for name, value in self._state().items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Take over all parameters and buffers from `state`. The tensors stay the same objects; values are copied.

        Parameters
        ----------
        state : mapping of str to Tensor or array
            As `state_dict` gives it.
        strict : bool
            Whether missing and unexpected names are errors. Wrong shapes and dtypes always are.

        Returns
        -------
        IncompatibleKeys
            The names that `state` lacks, and those that this module does not have.

        Raises
        ------
        TypeError
            If `state` is no mapping.
        ValueError
            If anything does not fit: one error that names everything. Nothing was changed then.

        Examples
        --------
        >>> import needle as ndl
        >>> model = ndl.nn.Linear(2, 1)
        >>> model.load_state_dict({"weight": ndl.init.ones(2, 2), "scale": ndl.init.ones(1)})
        Traceback (most recent call last):
            ...
        ValueError: Linear.load_state_dict: the state does not fit:
          missing: bias
          unexpected: scale
          weight: shape (2, 2), the module has (2, 1)
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"{type(self).__name__}.load_state_dict: a mapping of names to tensors is needed, "
                f"as state_dict() gives it; got {type(state).__name__}"
            )
        own = self._state()
        missing = [name for name in own if name not in state]
        unexpected = [str(name) for name in state if name not in own]
        arrays, faults = {}, []
        for name, tensor in own.items():
            if name in state:
                arrays[name] = array = _array_of(state[name])
                if not backend.is_array(array):
                    faults.append(f"{name}: a Tensor or an array is needed, got {type(array).__name__}")
                elif array.shape != tensor.shape:
                    faults.append(f"{name}: shape {array.shape}, the module has {tensor.shape}")
                elif array.dtype != tensor.dtype:
                    faults.append(f"{name}: dtype {array.dtype}, the module has {tensor.dtype}")
        if strict and unexpected:
            faults.insert(0, f"unexpected: {', '.join(unexpected)}")
        if strict and missing:
            faults.insert(0, f"missing: {', '.join(missing)}")
        if faults:
            raise ValueError("\n  ".join([f"{type(self).__name__}.load_state_dict: the state does not fit:", *faults]))
        copies = {name: own[name].device.array(array) for name, array in arrays.items()}
        for name, copy in copies.items():
            own[name].cached_data = copy
        return IncompatibleKeys(missing, unexpected)

    def _state(self) -> dict[str, Tensor]:
        """The parameters and buffers themselves, by name."""
        state: dict[str, Tensor] = {}
        for name, value in _walk(self):
            if isinstance(value, Tensor):
                if name in state:
                    raise ValueError(f"{type(self).__name__}.state_dict: two different tensors are named {name!r}")
                state[name] = value
        return state

    # -- text

    def extra_repr(self) -> str:
        """What stands in parentheses behind the module's name in its `repr`: its settings."""
        return ""

    def __repr__(self) -> str:
        from .text import tree

        return tree(self)


def _array_of(value: Any) -> Any:
    return value.realize_cached_data() if isinstance(value, Tensor) else value


def _members(module: Module) -> list[tuple[str, Any]]:
    """The parameters, buffers and modules that `module` holds itself (in containers too), with their names."""
    found: list[tuple[str, Any]] = []
    seen: set[int] = set()
    stack: list[tuple[str, Any, bool]] = _items("", vars(module), False)
    while stack:
        name, value, private = stack.pop()
        if isinstance(value, (Parameter, Module)) or (isinstance(value, Tensor) and value.is_leaf() and not private):
            found.append((name, value))
        elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
            seen.add(id(value))
            stack += _items(f"{name}.", value, private)
    return found


def _items(prefix: str, container: Any, private: bool) -> list[tuple[str, Any, bool]]:
    """What is in a container, last first, and whether it is reached through a private attribute."""
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    return [(f"{prefix}{k}", v, private or (not prefix and str(k).startswith("_"))) for k, v in pairs][::-1]


def _walk(root: Module) -> Iterator[tuple[str, Any]]:
    """All parameters, buffers and modules below `root` (itself first, named ""), in order, each once."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        name, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield name, value
        if isinstance(value, Module):
            prefix = f"{name}." if name else ""
            stack += [(f"{prefix}{member}", item) for member, item in _members(value)][::-1]
