"""Attention: the activation, and the layer with its projections."""

from __future__ import annotations

from typing import Any

from .. import init, ops
from ..backend import Device
from ..ops.attention import attention_weights, check_attention
from .basic import Dropout, Linear, check_input, check_size
from .module import Module
from .normalization import LayerNorm1d


class MultiHeadAttention(Module):
    """Scaled dot-product attention of several heads, with dropout of the weights: an activation without parameters.

    Parameters
    ----------
    dropout : float
        In training, the probability with which a query does not get to see a key.
    causal : bool
        Whether a query sees only the keys up to its own place.
    device, dtype
        Taken for uniformity; there are no parameters.

    Examples
    --------
    >>> import needle as ndl
    >>> q = k = v = ndl.init.rand(2, 4, 7, 8)
    >>> result, probs = ndl.nn.MultiHeadAttention(causal=True)(q, k, v)
    >>> result.shape, probs.shape
    ((2, 4, 7, 8), (2, 4, 7, 7))
    """

    def __init__(
        self,
        *,
        dropout: float = 0.0,
        causal: bool = False,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        self.causal = causal
        self.dropout = Dropout(dropout)

    @property
    def drops(self) -> bool:
        """Whether weights are dropped now: in training, with a probability above 0."""
        return self.training and self.dropout.p > 0

    def forward(self, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
        """Attend.

        Parameters
        ----------
        q : Tensor
            Queries, shape (batch, heads, queries, d).
        k, v : Tensor
            Keys and values, shape (batch, heads, keys, d).

        Returns
        -------
        result : Tensor
            Shape (batch, heads, queries, d).
        probs : Tensor
            The weights that it was made with, after dropout, shape (batch, heads, queries, keys).

        Raises
        ------
        ValueError
            If the shapes do not fit.
        """
        if not self.drops:
            return ops.attention(q, k, v, self.causal)
        q, k, v = check_attention("MultiHeadAttention", q, k, v, self.causal)
        probs = self.dropout(attention_weights(q, k, self.causal))
        return probs @ v, probs

    def extra_repr(self) -> str:
        """Its settings."""
        return f"causal={self.causal}"


class AttentionLayer(Module):
    """Attention between normalised and projected queries, keys and values, and a projection of what the heads give.

    Parameters
    ----------
    q_features : int
        Size of a query's vector.
    num_head, dim_head : int
        Number of heads and size of each.
    k_features, v_features : int, optional
        Sizes of the vectors that keys and values are made of; as queries by default.
    out_features : int, optional
        Size of the result; as queries by default.
    dropout : float
        Of the attention weights.
    causal : bool
        Whether a query sees only the keys up to its own place.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    prenorm_q, prenorm_k, prenorm_v : LayerNorm1d
    q_projection, k_projection, v_projection : Linear
        To num_head · dim_head features, without bias; drawn in this order.
    out_projection : Linear
        Back to out_features, without bias; drawn last.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.AttentionLayer(16, num_head=2, dim_head=8)
    >>> layer(ndl.init.rand(3, 7, 16)).shape
    (3, 7, 16)
    """

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        *,
        k_features: int | None = None,
        v_features: int | None = None,
        out_features: int | None = None,
        dropout: float = 0.0,
        causal: bool = True,
        device: Device | None = None,
        dtype: Any = "float32",
    ):
        super().__init__(device, dtype)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.q_features = check_size("AttentionLayer", q_features, "q_features")
        self.k_features = q_features if k_features is None else check_size("AttentionLayer", k_features, "k_features")
        self.v_features = q_features if v_features is None else check_size("AttentionLayer", v_features, "v_features")
        self.out_features = (
            q_features if out_features is None else check_size("AttentionLayer", out_features, "out_features")
        )
        self.num_head = check_size("AttentionLayer", num_head, "num_head")
        self.dim_head = check_size("AttentionLayer", dim_head, "dim_head")
        inner = num_head * dim_head
        self.prenorm_q = LayerNorm1d(self.q_features, **kind)
        self.prenorm_k = LayerNorm1d(self.k_features, **kind)
        self.prenorm_v = LayerNorm1d(self.v_features, **kind)
        self.q_projection = Linear(self.q_features, inner, bias=False, **kind)
        self.k_projection = Linear(self.k_features, inner, bias=False, **kind)
        self.v_projection = Linear(self.v_features, inner, bias=False, **kind)
        self.attn = MultiHeadAttention(dropout=dropout, causal=causal, **kind)
        self.out_projection = Linear(inner, self.out_features, bias=False, **kind)

    def forward(self, q: Any, k: Any = None, v: Any = None) -> Any:
        """Attend.

        Parameters
        ----------
        q : Tensor
            What queries are made of, shape (batch, queries, q_features).
        k, v : Tensor, optional
            What keys and values are made of, shape (batch, keys, k_features) and (batch, keys, v_features); `q` by
            default.

        Returns
        -------
        Tensor
            Shape (batch, queries, out_features).

        Raises
        ------
        ValueError
            If a shape does not fit.
        """
        k, v = q if k is None else k, q if v is None else v
        if q is k and q is v and self.k_features == self.v_features == self.q_features and not self.attn.drops:
            result, _ = ops.self_attention(self._packed(q), self.attn.causal)
        else:
            heads = [
                self._heads(what, x, norm, projection)
                for what, x, norm, projection in (
                    ("q", q, self.prenorm_q, self.q_projection),
                    ("k", k, self.prenorm_k, self.k_projection),
                    ("v", v, self.prenorm_v, self.v_projection),
                )
            ]
            result, _ = self.attn(*heads)
        batch, _, length, _ = result.shape
        side_by_side = ops.reshape(ops.transpose(result, (1, 2)), (batch, length, self.num_head * self.dim_head))
        return self.out_projection(side_by_side)

    def _packed(self, x: Any) -> Any:
        """Queries, keys and values of the same vectors, (batch, length, 3, heads, dim_head), from one product.

        The three normalisations differ only in scale γ and shift β, which move into the projections: with x̂ the
        normalised vectors, (γ·x̂ + β)·W = x̂·(γ·W) + β·W.
        """
        shape = self._check("q", x, self.q_features)
        norms = (self.prenorm_q, self.prenorm_k, self.prenorm_v)
        weights = [p.weight for p in (self.q_projection, self.k_projection, self.v_projection)]
        scaled = [ops.reshape(norm.weight, (-1, 1)) * w for norm, w in zip(norms, weights)]
        shifts = [ops.matmul(norm.bias, w) for norm, w in zip(norms, weights)]
        kind: dict[str, Any] = {"device": x.device, "dtype": x.dtype}
        one, zero = init.ones(self.q_features, **kind), init.zeros(self.q_features, **kind)
        normal = ops.layer_norm(x, one, zero, self.prenorm_q.eps)
        packed = ops.linear(normal, ops.concatenate(scaled, 1), ops.concatenate(shifts))
        return ops.reshape(packed, (*shape[:2], 3, self.num_head, self.dim_head))

    def _check(self, what: str, x: Any, features: int) -> tuple[int, ...]:
        shape = check_input("AttentionLayer", x).shape
        if len(shape) != 3 or shape[2] != features or shape[1] == 0:
            raise ValueError(
                f"AttentionLayer: {what} of shape (batch, length, {features}) with at least one position is needed, "
                f"got {shape}"
            )
        return shape

    def _heads(self, what: str, x: Any, norm: Module, projection: Linear) -> Any:
        """Shape (batch, length, features) → (batch, heads, length, dim_head), as a view of the projection."""
        shape = self._check(what, x, projection.in_features)
        projected = projection(norm(x))
        return ops.transpose(ops.reshape(projected, (*shape[:2], self.num_head, self.dim_head)), (1, 2))

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.q_features}, num_head={self.num_head}, dim_head={self.dim_head}"
