"""Recurrent nets: stacks of layers over whole sequences."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import Tensor
from ..backend import Device
from .basic import check_input, check_size
from .cells import GRUCell, LSTMCell, RNNCell, pair
from .module import Module


class _Stack(Module):
    """Layers of cells; each runs over the whole sequence that the one below gave."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, device: Device | None, dtype: Any):
        super().__init__(device, dtype)
        name = type(self).__name__
        self.input_size = check_size(name, input_size, "input_size")
        self.hidden_size = check_size(name, hidden_size, "hidden_size")
        self.num_layers = check_size(name, num_layers, "num_layers")

    def _run(self, cells: list, x: Any, states: tuple) -> tuple[Any, tuple]:
        """The top layer's states, and for each kind of state (h; h and c) those of all layers after the last step."""
        name, shape = type(self).__name__, check_input(type(self).__name__, x).shape
        if len(shape) != 3 or shape[2] != self.input_size or shape[0] == 0:
            raise ValueError(
                f"{name}: an input of shape (seq, batch, {self.input_size}), seq at least 1, is needed, got {shape}"
            )
        wanted = (self.num_layers, shape[1], self.hidden_size)
        for what, state in zip("hc", states):
            if state is not None and check_input(name, state).shape != wanted:
                raise ValueError(
                    f"{name}: a state {what}0 of shape {wanted} (layers, batch, hidden) is needed, got {state.shape}"
                )
        last = []
        for k, cell in enumerate(cells):
            start = tuple([cell.initial(None if s is None else s[k], shape[1]) for s in states])
            x, end = cell.sequence(x, start)
            last.append(end)
        return x, tuple([ops.stack(kind) for kind in zip(*last)])

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"


class RNN(_Stack):
    """A simple recurrent net of several layers over sequences.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of input and state.
    num_layers : int
        Layers on top of each other.
    bias : bool
        Whether there are biases.
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    rnn_cells : list of RNNCell
        One per layer, bottom first.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the nonlinearity unknown.

    Examples
    --------
    >>> import needle as ndl
    >>> output, h = ndl.nn.RNN(3, 5, num_layers=2)(ndl.init.rand(7, 2, 3))
    >>> output.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(input_size, hidden_size, num_layers, device, dtype)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.rnn_cells = [RNNCell(size, hidden_size, bias, nonlinearity, device, dtype) for size in sizes]

    def forward(self, X: Any, h0: Any = None) -> tuple[Any, Any]:
        """Run over a sequence.

        Parameters
        ----------
        X : Tensor
            Shape (seq, batch, input).
        h0 : Tensor, optional
            The state before it, shape (layers, batch, hidden); zeros by default.

        Returns
        -------
        output : Tensor
            The top layer's state after each step, shape (seq, batch, hidden).
        h_n : Tensor
            All layers' states after the last step, shape (layers, batch, hidden).

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        output, (h_n,) = self._run(self.rnn_cells, X, (h0,))
        return output, h_n


class LSTM(_Stack):
    """Long short-term memory of several layers over sequences.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of input and state.
    num_layers : int
        Layers on top of each other.
    bias : bool
        Whether there are biases.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    lstm_cells : list of LSTMCell
        One per layer, bottom first.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> output, (h, c) = ndl.nn.LSTM(3, 5, num_layers=2)(ndl.init.rand(7, 2, 3))
    >>> output.shape, h.shape, c.shape
    ((7, 2, 5), (2, 2, 5), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(input_size, hidden_size, num_layers, device, dtype)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.lstm_cells = [LSTMCell(size, hidden_size, bias, device, dtype) for size in sizes]

    def forward(self, X: Any, h: Any = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Run over a sequence.

        Parameters
        ----------
        X : Tensor
            Shape (seq, batch, input).
        h : (Tensor, Tensor), optional
            States and cells (h0, c0) before it, shape (layers, batch, hidden) each; zeros by default.

        Returns
        -------
        output : Tensor
            The top layer's state after each step, shape (seq, batch, hidden).
        (h_n, c_n) : (Tensor, Tensor)
            All layers' states and cells after the last step, shape (layers, batch, hidden) each.

        Raises
        ------
        TypeError
            If the state is no pair.
        ValueError
            If a shape does not fit.
        """
        output, (h_n, c_n) = self._run(self.lstm_cells, X, pair("LSTM", h))
        return output, (h_n, c_n)


class GRU(_Stack):
    """Gated recurrent units of several layers over sequences.

    Parameters and errors are those of `LSTM`; ``gru_cells`` holds the layers.

    Examples
    --------
    >>> import needle as ndl
    >>> output, h = ndl.nn.GRU(3, 5, num_layers=2)(ndl.init.rand(7, 2, 3))
    >>> output.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(input_size, hidden_size, num_layers, device, dtype)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.gru_cells = [GRUCell(size, hidden_size, bias, device, dtype) for size in sizes]

    def forward(self, X: Any, h0: Any = None) -> tuple[Any, Any]:
        """As `RNN.forward`."""
        output, (h_n,) = self._run(self.gru_cells, X, (h0,))
        return output, h_n
