"""Neural networks: modules, layers, losses, and saving what they have learned."""

from types import ModuleType as _Module

from .attention import AttentionLayer, MultiHeadAttention
from .basic import Dropout, Flatten, Identity, Linear, ReLU, Residual, Sequential, Sigmoid, SoftmaxLoss, Tanh
from .blur import AdaptiveBlur
from .cells import GRUCell, LSTMCell, RNNCell
from .conv import AvgPool2d, BatchNorm2d, Conv, MaxPool2d
from .embedding import Embedding
from .module import IncompatibleKeys, Module, Parameter
from .normalization import BatchNorm1d, LayerNorm1d
from .recurrent import GRU, LSTM, RNN
from .serialization import load, read_metadata, save
from .transformer import GELU, LayerNorm, Transformer, TransformerLayer

__all__ = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _Module)]
