"""Cells: one step of one layer of a recurrent net."""

from __future__ import annotations

import math
from typing import Any

from .. import init, ops
from ..backend import Device
from ..ops.rnn import NONLINEARITIES
from .basic import check_input, check_size
from .module import Module, Parameter


class Cell(Module):
    """Weights of one layer, and one step as a sequence of length 1."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        name = type(self).__name__
        self.input_size = check_size(name, input_size, "input_size")
        self.hidden_size = check_size(name, hidden_size, "hidden_size")
        bound = 1 / math.sqrt(hidden_size)

        def draw(*shape: int) -> Any:
            return Parameter(init.rand(*shape, low=-bound, high=bound, device=device, dtype=dtype))

        width = self.gates * hidden_size
        self.W_ih = draw(input_size, width)
        self.W_hh = draw(hidden_size, width)
        self.bias_ih = draw(width) if bias else None
        self.bias_hh = draw(width) if bias else None

    def _bias(self) -> Any:
        return None if self.bias_ih is None else self.bias_ih + self.bias_hh

    def _step(self, x: Any) -> Any:
        """One step's input (batch, input) as a sequence."""
        name, shape = type(self).__name__, check_input(type(self).__name__, x).shape
        if len(shape) != 2 or shape[1] != self.input_size:
            raise ValueError(f"{name}: an input of shape (batch, {self.input_size}) is needed, got {shape}")
        return ops.reshape(x, (1, *shape))

    def initial(self, h: Any, batch: int, what: str = "h") -> Any:
        """A state of shape (batch, hidden), zeros if there is none."""
        if h is None:
            return init.zeros(batch, self.hidden_size, device=self.W_hh.device, dtype=self.W_hh.dtype)
        shape = check_input(type(self).__name__, h).shape
        if shape != (batch, self.hidden_size):
            raise ValueError(
                f"{type(self).__name__}: a state {what} of shape {(batch, self.hidden_size)} is needed, got {shape}"
            )
        return h

    def sequence(self, x: Any, state: tuple) -> tuple[Any, tuple]:
        """All steps of x (seq, batch, input) from (h,), or (h, c): (states (seq, batch, h), the last ones)."""
        raise NotImplementedError(f"{type(self).__name__} has no sequence")

    def forward(self, X: Any, h: Any = None) -> Any:
        """Input (batch, input) and state (batch, h), zeros by default → the next state."""
        steps = self._step(X)
        states, _ = self.sequence(steps, (self.initial(h, X.shape[0]),))
        return ops.reshape(states, states.shape[1:])

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(Cell):
    """One step of a simple recurrent net: φ(x·W_ih + b_ih + h·W_hh + b_hh).

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of input and state.
    bias : bool
        Whether there are biases.
    nonlinearity : str
        φ, ``"tanh"`` or ``"relu"``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    W_ih, W_hh, bias_ih, bias_hh : Parameter
        Shapes (input, h), (h, h), (h,), (h,), uniform of ±1/√h, drawn in this order.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or φ unknown.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.RNNCell(3, 5)(ndl.init.rand(2, 3)).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        if not isinstance(nonlinearity, str) or nonlinearity not in NONLINEARITIES:
            known = ", ".join(NONLINEARITIES)
            raise ValueError(f"{type(self).__name__}: nonlinearity is one of {known}, got {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def sequence(self, x: Any, state: tuple) -> tuple[Any, tuple]:
        states = ops.rnn(x, state[0], self.W_ih, self.W_hh, self._bias(), self.nonlinearity)
        return states, (states[-1],)


class LSTMCell(Cell):
    """One step of long short-term memory, with gates in the order i, f, g, o. See `needle.ops.lstm`.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of input and state.
    bias : bool
        Whether there are biases.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    W_ih, W_hh, bias_ih, bias_hh : Parameter
        Shapes (input, 4h), (h, 4h), (4h,), (4h,), uniform of ±1/√h, drawn in this order.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> h, c = ndl.nn.LSTMCell(3, 5)(ndl.init.rand(2, 3))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4

    def sequence(self, x: Any, state: tuple) -> tuple[Any, tuple]:
        states, cell = ops.lstm(x, state[0], state[1], self.W_ih, self.W_hh, self._bias())
        return states, (states[-1], cell)

    def forward(self, X: Any, h: Any = None) -> tuple[Any, Any]:
        """Input (batch, input) and (h, c), each (batch, h), zeros by default → the next (h, c)."""
        steps, batch = self._step(X), X.shape[0]
        hidden, cell = pair(type(self).__name__, h)
        states, (_, cell) = self.sequence(steps, (self.initial(hidden, batch), self.initial(cell, batch, "c")))
        return ops.reshape(states, states.shape[1:]), cell


class GRUCell(Cell):
    """One step of a gated recurrent unit, with gates in the order r, z, n. See `needle.ops.gru`.

    Parameters, attributes and errors are those of `LSTMCell`, with 3h for 4h.

    Examples
    --------
    >>> import needle as ndl
    >>> ndl.nn.GRUCell(3, 5)(ndl.init.rand(2, 3)).shape
    (2, 5)
    """

    gates = 3

    def sequence(self, x: Any, state: tuple) -> tuple[Any, tuple]:
        states = ops.gru(x, state[0], self.W_ih, self.W_hh, self.bias_ih, self.bias_hh)
        return states, (states[-1],)


def pair(name: str, state: Any) -> tuple[Any, Any]:
    """The state of an LSTM as (h, c)."""
    if state is None:
        return None, None
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise TypeError(f"{name}: the state is a pair (h, c), got {type(state).__name__}")
    return state[0], state[1]
