"""A learned vector for each id of a vocabulary."""

from __future__ import annotations

from typing import Any

from .. import init, ops
from ..backend import Device
from .basic import check_size
from .module import Module, Parameter


class Embedding(Module):
    """The row of a learned table for each id.

    Parameters
    ----------
    num_embeddings : int
        Size of the vocabulary: ids are 0 to num_embeddings − 1.
    embedding_dim : int
        Size of a row.
    device, dtype
        Of the table.

    Attributes
    ----------
    weight : Parameter
        Shape (num_embeddings, embedding_dim), drawn from N(0, 1).

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer.

    Examples
    --------
    >>> import needle as ndl
    >>> layer = ndl.nn.Embedding(100, 8)
    >>> layer(ndl.Tensor([[1, 2], [3, 99], [0, 0]])).shape
    (3, 2, 8)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, device: Device | None = None, dtype: Any = "float32"):
        super().__init__(device, dtype)
        self.num_embeddings = check_size("Embedding", num_embeddings, "num_embeddings")
        self.embedding_dim = check_size("Embedding", embedding_dim, "embedding_dim")
        self.weight = Parameter(init.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))

    def forward(self, x: Any) -> Any:
        """Ids of shape (seq, batch), or any other, integers or whole floats → shape (seq, batch, embedding_dim)."""
        return ops.embedding(self.weight, x)

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
