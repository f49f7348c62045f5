"""How an elementwise update rule is run over many parameters: large ones in blocks, small ones packed together.

A rule such as Adam's is a dozen passes over arrays. Over a large parameter each pass would go to memory and back, so
the rule is run on one block after the other, each small enough to stay in the processor's cache for all passes. A small
parameter (a bias) costs nothing but the calls, a dozen for each; so small ones are copied side by side into one buffer,
which the rule is run on once. Their state lies side by side always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from .. import backend
from ..autograd import Tensor
from ..backend import Array
from ..kernels.multi_tensor import MultiTensor, fused
from .optimizer import Optimizer, check_number, check_state
from .reuse import reusable_array

BLOCK = 128 * 1024  #: elements of a block, and at most of a pack
SMALL = 32 * 1024  #: parameters with fewer elements are packed

#: ``rule(xp, p, g, state, out, scratch)`` on flat arrays of one length: writes the new values of the parameters `p`,
#: whose gradients are `g`, into `out` (which may be `p`) and updates the arrays of the list `state`.
Rule = Callable[[Any, Array, Array, list, Array, Array], None]


class _Chunk:
    """Parameters whose state lies in the same arrays: one large parameter, or a pack of small ones."""

    __slots__ = ("bounds", "device", "fused", "members", "state")

    def __init__(self, members: list[int], arrays: list[Array], names: tuple[str, ...]):
        self.members = members
        self.fused = fused(arrays[0])  # whether a GPU kernel steps them
        self.bounds = [0]
        for array in arrays:
            self.bounds.append(self.bounds[-1] + array.size)
        self.device = backend.device_of(arrays[0])
        self.state = {name: self.device.zeros((self.bounds[-1],), arrays[0].dtype) for name in names}

    @property
    def xp(self) -> Any:
        """The array module of the state."""
        return self.device.xp

    def state_of(self, which: int) -> dict[str, Array]:
        """The flat state of one member."""
        part = slice(self.bounds[which], self.bounds[which + 1])
        return {name: array[part] for name, array in self.state.items()}


class _Setting:
    """An attribute that is checked when it is assigned. Having no ``__get__``, it costs nothing when it is read."""

    def __init__(self, name: str):
        self.name = name

    def __set__(self, optimizer: BlockwiseOptimizer, value: Any) -> None:
        optimizer._set({self.name: value})


class BlockwiseOptimizer(Optimizer):
    """An optimizer that is an elementwise rule with state: subclasses give `_rule`, `_state_names` and `_settings`.

    Attributes
    ----------
    t : int
        How many steps were made.
    """

    #: The attributes that `state_dict` saves beside the arrays: numbers from 0 to below this limit; None for booleans.
    _settings: ClassVar[dict[str, float | None]] = {}
    #: State that is kept as an average divided by 1 − β, and which setting its β is.
    _averages: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls).get("_settings", ()):
            setattr(cls, name, _Setting(name))

    def __init__(self, params: Iterable[Tensor]):
        super().__init__(params)
        self.t = 0
        self._chunks: list[_Chunk] = []
        self._places: list = []
        self._scratch: dict[Any, list[Array]] = {}
        self._launches: dict[Any, MultiTensor] = {}

    def _state_names(self) -> tuple[str, ...]:
        """The names of the state arrays that the rule keeps for each parameter."""
        raise NotImplementedError

    def _rule(self) -> Rule:
        """The rule of step number `t`, constants worked out."""
        raise NotImplementedError

    def _check_dtype(self, position: int, dtype: np.dtype) -> None:
        """Raise if the rule cannot work on parameters of this dtype."""
        if dtype.kind != "f":
            raise TypeError(
                f"{type(self).__name__}: parameter {position} has dtype {dtype}: floating-point ones can be updated"
            )

    def _kernel(self) -> tuple[str, tuple]:
        """The GPU kernel that does the same for all parameters in one launch, and its numbers for step `t`."""
        raise NotImplementedError

    # -- one step

    def step(self) -> None:
        """Update every parameter that has a gradient; the others, and their state, stay as they are.

        Raises
        ------
        ValueError
            If a gradient has another shape or device than its parameter; nothing has been changed then.
        TypeError
            If a parameter's dtype is not floating-point.
        """
        gradients = self._gradients()
        self._make_chunks()
        self.t += 1
        rule = self._rule()
        self._launch([chunk for chunk in self._chunks if chunk.fused], gradients)
        for chunk in self._chunks:
            if chunk.fused:
                continue
            present = [gradients[i] is not None for i in chunk.members]
            with chunk.device.current():
                if len(present) > 1 and all(present):
                    self._update_pack(chunk, gradients, rule)
                else:
                    for which in range(len(present)):
                        if present[which]:
                            self._update_alone(chunk, which, gradients[chunk.members[which]], rule)

    def _gradients(self) -> list[Array | None]:
        """The array of each parameter's gradient, checked."""
        gradients: list[Array | None] = []
        for position, p in enumerate(self.params):
            if p.grad is None:
                gradients.append(None)
                continue
            if not isinstance(p.grad, Tensor):
                raise TypeError(
                    f"{type(self).__name__}: the gradient of parameter {position} is a {type(p.grad).__name__}, "
                    "not a Tensor"
                )
            gradient, array = p.grad.realize_cached_data(), p.cached_data
            together = type(gradient) is type(array) is np.ndarray or p.grad.device == p.device
            if gradient.shape != array.shape or not together:
                raise ValueError(
                    f"{type(self).__name__}: parameter {position} has shape {p.shape} on {p.device}, "
                    f"its gradient {p.grad.shape} on {p.grad.device}"
                )
            gradients.append(gradient)
        return gradients

    def _launch(self, chunks: list[_Chunk], gradients: list) -> None:
        """Update the parameters of chunks on GPUs, those of one GPU and dtype in one launch."""
        rows: dict[Any, list] = {}
        fresh = []
        for chunk in chunks:
            for which, i in enumerate(chunk.members):
                if gradients[i] is None:
                    continue
                p = self.params[i]
                out = reusable_array(p)
                old = p.cached_data
                with backend.scope(old):
                    new = chunk.xp.empty(old.shape, old.dtype) if out is None else out
                states = [*chunk.state_of(which).values(), None, None][:2]
                rows.setdefault(_place(old), []).append((old, gradients[i], new, *states))
                if out is None:
                    fresh.append((p, new))
        kernel, numbers = self._kernel() if rows else ("", ())
        for place, given in rows.items():
            with backend.scope(given[0][0]):
                self._launches.setdefault(place, MultiTensor()).step(kernel, given, numbers)
        for p, new in fresh:
            _rebind(p, new)

    def _update_alone(self, chunk: _Chunk, which: int, gradient: Array, rule: Rule) -> None:
        p = self.params[chunk.members[which]]
        out = reusable_array(p)
        old = p.cached_data
        new = chunk.xp.empty(old.shape, old.dtype) if out is None else out
        flat_old, flat_gradient, flat_new = old.reshape(-1), gradient.reshape(-1), new.reshape(-1)
        state = list(chunk.state_of(which).values())
        scratch = self._scratch[_place(old)][0]
        for start in range(0, old.size, scratch.size):
            part = slice(start, min(start + scratch.size, old.size))
            rule(
                chunk.xp,
                flat_old[part],
                flat_gradient[part],
                [array[part] for array in state],
                flat_new[part],
                scratch[: part.stop - part.start],
            )
        if out is None:
            _rebind(p, new)

    def _update_pack(self, chunk: _Chunk, gradients: list, rule: Rule) -> None:
        xp, members, size = chunk.xp, chunk.members, chunk.bounds[-1]
        scratch, values, slopes = (a[:size] for a in self._scratch[_place(self.params[members[0]].cached_data)])
        xp.concatenate([self.params[i].cached_data.reshape(-1) for i in members], out=values)
        xp.concatenate([gradients[i].reshape(-1) for i in members], out=slopes)
        rule(xp, values, slopes, list(chunk.state.values()), values, scratch)
        start = 0
        for i, stop in zip(members, chunk.bounds[1:]):
            p = self.params[i]
            out = reusable_array(p)
            new = xp.empty(p.cached_data.shape, p.cached_data.dtype) if out is None else out
            new[...] = values[start:stop].reshape(new.shape)
            if out is None:
                _rebind(p, new)
            start = stop

    # -- chunks

    def _make_chunks(self) -> None:
        """Sort the parameters into chunks, unless that is done; state follows a parameter to its device and dtype."""
        places, names = [_place(p.cached_data) for p in self.params], self._state_names()
        if places == self._places and names == (tuple(self._chunks[0].state) if self._chunks else ()):
            return
        for position, p in enumerate(self.params):
            self._check_dtype(position, p.dtype)
        before = self._state_by_position()
        chunks: list[_Chunk] = []
        open_packs: dict[Any, list[int]] = {}
        groups: list[list[int]] = []
        for position, (p, place) in enumerate(zip(self.params, places)):
            pack = open_packs.get(place)
            if p.size >= SMALL:
                groups.append([position])
            elif pack is None or sum(self.params[i].size for i in pack) + p.size > BLOCK:
                open_packs[place] = [position]
                groups.append(open_packs[place])
            else:
                pack.append(position)
        scratch: dict[Any, list[Array]] = {}
        for members in groups:
            arrays = [self.params[i].cached_data for i in members]
            with backend.scope(arrays[0]):
                chunk = _Chunk(members, arrays, names)
                chunks.append(chunk)
                for which, position in enumerate(members):
                    for name, array in chunk.state_of(which).items():
                        if name in before.get(position, {}):
                            array[...] = backend.device_of(array).array(before[position][name], dtype=array.dtype)
                if not chunk.fused:
                    _enlarge(scratch.setdefault(places[members[0]], [arrays[0][:0].reshape(-1)] * 3), chunk)
        self._chunks, self._places, self._scratch = chunks, places, scratch

    def _state_by_position(self) -> dict[int, dict[str, Array]]:
        """The flat state arrays of each parameter; empty before the first step."""
        return {
            position: chunk.state_of(which) for chunk in self._chunks for which, position in enumerate(chunk.members)
        }

    def _average(self, name: str) -> dict[Tensor, Array]:
        """One of the `_averages`, by parameter, as a copy."""
        factor, found = 1 - getattr(self, self._averages[name]), {}
        for position, state in self._state_by_position().items():
            if name in state:
                p = self.params[position]
                with backend.scope(state[name]):
                    found[p] = (state[name] * factor).reshape(p.shape)
        return found

    # -- saving

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on, bit for bit, with the same parameters in another process.

        Returns
        -------
        dict
            ``"optimizer"``, the class's name; ``"t"``, the number of steps; ``"settings"``, the learning rate and the
            like (numbers and booleans; with the first two they go into JSON); ``"arrays"``, NumPy copies of the state
            under names such as ``"g_sum.3"`` for parameter 3, empty before the first step.
        """
        if self._chunks:
            self._make_chunks()  # momentum that was switched on or off, a parameter's new dtype: as the next step will
        return {
            "optimizer": type(self).__name__,
            "t": self.t,
            "settings": {name: getattr(self, name) for name in self._settings},
            "arrays": {
                f"{name}.{position}": backend.to_numpy(array).reshape(self.params[position].shape).copy()
                for position, state in sorted(self._state_by_position().items())
                for name, array in state.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called, with the parameters in the same order.

        Raises
        ------
        TypeError
            If `state` is no dictionary.
        ValueError
            If it is another optimizer's, or of other parameters; all that does not fit is named, and nothing has been
            changed.
        """
        name = type(self).__name__
        check_state(name, state, "optimizer")
        t, settings, arrays = state.get("t"), state.get("settings"), state.get("arrays")
        if isinstance(t, bool) or not isinstance(t, int) or t < 0:
            raise ValueError(f"{name}: 't' is the number of steps made, got {t!r}")
        if not isinstance(settings, dict) or not isinstance(arrays, dict):
            raise ValueError(f"{name}: 'settings' and 'arrays' are dictionaries")
        complaints = _differences("setting", set(self._settings), set(settings))
        if complaints:
            raise ValueError(f"{name}: {'; '.join(complaints)}")
        self._check(settings)
        before = {key: getattr(self, key) for key in self._settings}
        vars(self).update(settings)  # not assigned, which would rescale the present state
        try:
            wanted = {f"{k}.{i}": p for i, p in enumerate(self.params) for k in self._state_names() if t or arrays}
            complaints = _differences("array", set(wanted), set(arrays))
            for key, p in wanted.items():
                array = arrays.get(key)
                if array is not None and (array.shape != p.shape or array.dtype != p.dtype):
                    complaints.append(
                        f"array {key!r} is {array.dtype} of shape {array.shape}, its parameter {p.dtype} of {p.shape}"
                    )
            if complaints:
                raise ValueError(f"{name}: {'; '.join(complaints)}")
        except (ValueError, TypeError):
            vars(self).update(before)
            raise
        self.t, self._chunks, self._places = t, [], []
        if wanted:
            self._make_chunks()
        for position, own in self._state_by_position().items():
            for key, array in own.items():
                with backend.scope(array):
                    array[...] = backend.device_of(array).array(arrays[f"{key}.{position}"]).reshape(-1)

    # -- settings

    def _set(self, settings: dict[str, Any]) -> None:
        """Take settings over, if all are in their range; an average stays what it is when its β changes."""
        self._check(settings)
        for name, key in self._averages.items():
            if self._chunks and settings.get(key, vars(self)[key]) != vars(self)[key]:
                factor = (1 - float(vars(self)[key])) / (1 - float(settings[key]))
                for array in [chunk.state[name] for chunk in self._chunks if name in chunk.state]:
                    with backend.scope(array):
                        array *= factor
        vars(self).update(settings)

    def _check(self, settings: dict[str, Any]) -> None:
        """Raise unless all settings are in their range and fit together."""
        for key, value in settings.items():
            limit = self._settings[key]
            if limit is not None:
                check_number(type(self).__name__, key, value, below=limit)
            elif not isinstance(value, bool):
                raise TypeError(f"{type(self).__name__}: {key} is True or False, got {value!r}")


def _differences(what: str, wanted: set[str], got: set[str]) -> list[str]:
    """Sentences that name what is missing and what is too much."""
    found = []
    for text, names in (("missing", wanted - got), ("unexpected", got - wanted)):
        if names:
            found.append(f"{text} {what}{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}")
    return found


def _enlarge(scratch: list[Array], chunk: _Chunk) -> None:
    """Make the arrays for intermediate values large enough: for a block, and for a pack's values and slopes."""
    size = chunk.bounds[-1]
    packed = size if len(chunk.members) > 1 else 0
    for which, length in enumerate((min(size, BLOCK) if chunk.xp is np else size, packed, packed)):
        if scratch[which].size < length:
            scratch[which] = chunk.xp.empty(length, scratch[which].dtype)


def _place(array: Array) -> Any:
    """What arrays must have in common to share state arrays: dtype and device."""
    return array.dtype if type(array) is np.ndarray else (backend.device_of(array), array.dtype)


def _rebind(p: Tensor, array: Array) -> None:
    p.cached_data = array
    p._stub = None
