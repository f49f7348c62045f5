"""Neural networks: modules, layers, losses, and saving what they have learned."""

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
