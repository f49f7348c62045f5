"""Neural networks: modules, layers, losses, and saving what they have learned."""

from .basic import Dropout, Flatten, Identity, Linear, ReLU, Residual, Sequential, Sigmoid, SoftmaxLoss, Tanh
from .module import IncompatibleKeys, Module, Parameter
from .normalization import BatchNorm1d, LayerNorm1d
from .serialization import load, read_metadata, save
