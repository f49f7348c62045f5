"""Transformers that read in one direction or both, and the activation and normalisation that go with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import init, ops
from ..backend import Device
from ..ops.normalization import check_eps
from .attention import AttentionLayer
from .basic import Dropout, Identity, Linear, ReLU, check_input, check_size
from .embedding import Embedding
from .module import Module, Parameter
from .normalization import LayerNorm1d


class GELU(Module):
    """x·Φ(x) elementwise, with Φ the normal distribution function. See `needle.ops.gelu`.

    Parameters
    ----------
    approximate : str
        ``"none"``, or ``"tanh"`` for the approximation by it.

    Raises
    ------
    ValueError
        If `approximate` is neither.
    """

    def __init__(self, approximate: str = "none"):
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate is 'none' or 'tanh', got {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return ops.gelu(check_input("GELU", x), self.approximate)


class LayerNorm(Module):
    """Mean 0 and (biased) variance 1 over the last axes, then a learned scale and shift of each element.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of the last axes, which are normalised together.
    eps : float
        Added to the variance.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight, bias : Parameter
        Of shape `normalized_shape`, ones and zeros at first.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or `eps` negative.

    Examples
    --------
    >>> import needle as ndl
    >>> y = ndl.nn.LayerNorm((3, 4))(ndl.init.rand(5, 3, 4))
    >>> abs(y.mean((1, 2))).max().item() < 1e-5
    True
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        sizes = (normalized_shape,) if not isinstance(normalized_shape, (tuple, list)) else tuple(normalized_shape)
        if not sizes:
            raise ValueError("LayerNorm: normalized_shape names at least one axis, got ()")
        self.normalized_shape = tuple([check_size("LayerNorm", size, "a size") for size in sizes])
        self.eps = check_eps("LayerNorm", eps)
        self.weight = Parameter(init.ones(*self.normalized_shape, device=device, dtype=dtype))
        self.bias = Parameter(init.zeros(*self.normalized_shape, device=device, dtype=dtype))

    def forward(self, x: Any) -> Any:
        """Shape (…, *normalized_shape) stays."""
        shape, own = check_input("LayerNorm", x).shape, self.normalized_shape
        if shape[-len(own) :] != own:
            raise ValueError(f"LayerNorm: an input whose shape ends in {own} is needed, got {shape}")
        flat = (*shape[: len(shape) - len(own)], math.prod(own))
        weight, bias = (ops.reshape(p, flat[-1:]) for p in (self.weight, self.bias))
        return ops.reshape(ops.layer_norm(ops.reshape(x, flat), weight, bias, self.eps), shape)

    def extra_repr(self) -> str:
        """Its sizes and ε."""
        return f"{self.normalized_shape}, eps={self.eps}"


class TransformerLayer(Module):
    """Attention and a net of two linear layers, each normalised before and added to what it was given ("pre-norm").

    Parameters
    ----------
    q_features : int
        Size of a position's vector.
    num_head, dim_head : int
        Number of heads and size of each.
    hidden_size : int
        Features between the two linear layers.
    dropout : float
        Of the attention weights, of what is added, and of the hidden features.
    causal : bool
        Whether a position sees only those up to itself.
    device, dtype
        Of the parameters.

    References
    ----------
    R. Xiong et al.: On layer normalization in the transformer architecture. ICML 2020.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.TransformerLayer(16, num_head=2, dim_head=8, hidden_size=32)
    >>> layer(ndl.init.rand(3, 7, 16)).shape
    (3, 7, 16)
    """

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        causal: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.attention = AttentionLayer(q_features, num_head, dim_head, dropout=dropout, causal=causal, **kind)
        self.layer_norm = LayerNorm1d(q_features, **kind)
        self.linear1 = Linear(q_features, hidden_size, **kind)
        self.relu = ReLU()
        self.linear2 = Linear(hidden_size, q_features, **kind)
        self.dropout = Dropout(dropout)

    def forward(self, x: Any) -> Any:
        """Shape (batch, length, q_features) stays."""
        drop = self.dropout if self.dropout.p else Identity()  # without dropout no mask is drawn
        x = x + drop(self.attention(x))
        hidden = drop(self.relu(self.linear1(self.layer_norm(x))))
        return x + drop(self.linear2(hidden))


class Transformer(Module):
    """Transformer layers over sequences of vectors, to which a learned vector for each position is added.

    Parameters
    ----------
    embedding_size : int
        Size of a position's vector.
    hidden_size : int
        Features between the two linear layers of each layer.
    num_layers : int
        Layers on top of each other.
    num_head, dim_head : int
        Number of heads and size of each.
    dropout : float
        See `TransformerLayer`.
    causal : bool
        Whether a position sees only those up to itself.
    batch_first : bool
        Whether inputs are (batch, seq, embedding) and not (seq, batch, embedding).
    sequence_len : int
        The longest sequence: how many positions have a vector.
    device, dtype
        Of the parameters.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> model = ndl.nn.Transformer(16, hidden_size=32, num_layers=2, num_head=2, dim_head=8, sequence_len=10)
    >>> output, _ = model(ndl.init.rand(7, 3, 16))
    >>> output.shape
    (7, 3, 16)
    """

    def __init__(
        self,
        embedding_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        num_head: int = 8,
        dim_head: int = 32,
        dropout: float = 0.0,
        causal: bool = True,
        batch_first: bool = False,
        sequence_len: int = 2048,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding_size = check_size("Transformer", embedding_size, "embedding_size")
        self.sequence_len = check_size("Transformer", sequence_len, "sequence_len")
        self.batch_first = batch_first
        self.positions = Embedding(sequence_len, embedding_size, **kind)
        self.layers = [
            TransformerLayer(embedding_size, num_head, dim_head, hidden_size, dropout=dropout, causal=causal, **kind)
            for _ in range(check_size("Transformer", num_layers, "num_layers"))
        ]

    def forward(self, x: Any, h: Any = None) -> tuple[Any, Any]:
        """Run over a sequence.

        Parameters
        ----------
        x : Tensor
            Shape (seq, batch, embedding_size), or (batch, seq, embedding_size) if `batch_first`.
        h : ignored
            A transformer has no state; recurrent nets take theirs in this place.

        Returns
        -------
        output : Tensor
            Of the shape of `x`.
        h : Tensor
            Zeros, in the place of a state.

        Raises
        ------
        ValueError
            If the shape does not fit, or the sequence is longer than there are positions.
        """
        shape = check_input("Transformer", x).shape
        axes = "(batch, seq, {})" if self.batch_first else "(seq, batch, {})"
        if len(shape) != 3 or shape[2] != self.embedding_size:
            raise ValueError(
                f"Transformer: an input of shape {axes.format(self.embedding_size)} is needed, got {shape}"
            )
        length = shape[1 if self.batch_first else 0]
        if length > self.sequence_len:
            raise ValueError(
                f"Transformer: a sequence of {length} positions, but only sequence_len={self.sequence_len} have a "
                "learned vector: cut the sequence, or make the model with a larger sequence_len"
            )
        if not self.batch_first:
            x = ops.contiguous(ops.transpose(x, (0, 1)))
        x = x + ops.broadcast_to(self.positions.weight[:length], x.shape)
        for layer in self.layers:
            x = layer(x)
        if not self.batch_first:
            x = ops.transpose(x, (0, 1))
        return x, init.zeros_like(x)
