"""The networks of the demos: ResNet9 for images of 32×32 pixels, and a language model over any sequence layer."""

from __future__ import annotations

from typing import Any

import needle as ndl
from needle import nn


def ConvBN(
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int,
    device: ndl.Device | None = None,
    dtype: Any = "float32",
) -> nn.Module:
    """Make relu(norm(conv(x))).

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride : int
        Of the convolution.
    device, dtype
        Of the parameters.

    Returns
    -------
    Module
        Takes (N, in_channels, H, W), gives (N, out_channels, ⌈H/stride⌉, ⌈W/stride⌉).

    Examples
    --------
    >>> ConvBN(3, 16, kernel_size=7, stride=4)(ndl.init.rand(2, 3, 32, 32)).shape
    (2, 16, 8, 8)
    """
    kind: dict[str, Any] = {"device": device, "dtype": dtype}
    return nn.Sequential(
        nn.Conv(in_channels, out_channels, kernel_size, stride, **kind), nn.BatchNorm2d(out_channels, **kind), nn.ReLU()
    )


class ResNet9(nn.Module):
    """Nine layers for colour images of 32×32 pixels and 10 classes: 431,946 parameters.

    Parameters
    ----------
    device, dtype
        Of the parameters.

    Examples
    --------
    >>> model = ResNet9()
    >>> model(ndl.init.rand(2, 3, 32, 32)).shape
    (2, 10)
    >>> sum(parameter.size for parameter in model.parameters())
    431946
    """

    def __init__(self, device: ndl.Device | None = None, dtype: Any = "float32") -> None:
        super().__init__()
        kind: dict[str, Any] = {"device": device, "dtype": dtype}

        def residual_pair(channels: int) -> nn.Module:
            return nn.Residual(nn.Sequential(*(ConvBN(channels, channels, 3, 1, **kind) for _ in range(2))))

        # Made in the order of the network: that is the order in which the weights are drawn.
        self.network = nn.Sequential(
            ConvBN(3, 16, 7, 4, **kind),
            ConvBN(16, 32, 3, 2, **kind),
            residual_pair(32),
            ConvBN(32, 64, 3, 2, **kind),
            ConvBN(64, 128, 3, 2, **kind),
            residual_pair(128),
            nn.Flatten(),
            nn.Linear(128, 128, **kind),
            nn.ReLU(),
            nn.Linear(128, 10, **kind),
        )

    def forward(self, x: ndl.Tensor) -> ndl.Tensor:
        """Images (N, 3, 32, 32) → logits (N, 10)."""
        if x.ndim != 4 or x.shape[1:] != (3, 32, 32):
            raise ValueError(f"ResNet9: images of shape (N, 3, 32, 32) are needed, got {x.shape}")
        return self.network(x)


class LanguageModel(nn.Module):
    """Predicts each next word: an embedding, a sequence model, a linear layer.

    Parameters
    ----------
    embedding_size : int
        Size of a word's vector.
    output_size : int
        Size of the vocabulary.
    hidden_size : int
        Size of a recurrent net's state; of a transformer, the features between its layers' two linear layers.
    num_layers : int
        Layers of the sequence model.
    seq_model : str
        ``"rnn"``, ``"lstm"``, ``"gru"`` or ``"transformer"``.
    seq_len : int
        The longest sequence that a transformer takes.
    device, dtype
        Of the parameters.

    Raises
    ------
    ValueError
        If the sequence model is unknown.

    Examples
    --------
    >>> model = LanguageModel(embedding_size=8, output_size=50, hidden_size=16, seq_model="lstm")
    >>> logits, state = model(ndl.Tensor([[1, 2], [3, 4], [5, 6]]))
    >>> logits.shape
    (6, 50)
    """

    def __init__(
        self,
        embedding_size: int,
        output_size: int,
        hidden_size: int,
        num_layers: int = 1,
        seq_model: str = "rnn",
        seq_len: int = 40,
        device: ndl.Device | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        recurrent = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        if seq_model not in (*recurrent, "transformer"):
            raise ValueError(
                f"LanguageModel: seq_model is one of {', '.join(recurrent)}, transformer; got {seq_model!r}"
            )
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(output_size, embedding_size, **kind)
        if seq_model == "transformer":
            self.sequence: nn.Module = nn.Transformer(
                embedding_size, hidden_size, num_layers, sequence_len=seq_len, **kind
            )
        else:
            self.sequence = recurrent[seq_model](embedding_size, hidden_size, num_layers, **kind)
        features = embedding_size if seq_model == "transformer" else hidden_size
        self.linear = nn.Linear(features, output_size, **kind)

    def forward(self, x: ndl.Tensor, h: Any = None) -> tuple[ndl.Tensor, Any]:
        """Predict.

        Parameters
        ----------
        x : Tensor
            Word numbers, shape (seq, batch).
        h : optional
            The sequence model's state before them, as an earlier call gave it.

        Returns
        -------
        logits : Tensor
            Of each position's next word, shape (seq · batch, output_size), row by row of `x`.
        h
            The state after them.
        """
        features, h = self.sequence(self.embedding(x), h)
        return self.linear(features.reshape((-1, features.shape[-1]))), h
