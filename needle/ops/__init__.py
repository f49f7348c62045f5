"""The ops, one file per family. Each is a class (`TensorOp`) and a function that checks its arguments and applies it.

Given tensors, a function records a node; given arrays alone, it only computes and returns an array.
"""

from types import ModuleType as _Module

from . import operators as operators  # binds the operators of Tensor
from .arithmetic import (
    AddScalar,
    DivScalar,
    EWiseAdd,
    EWiseDiv,
    EWiseMul,
    EWisePow,
    MulScalar,
    Negate,
    PowerScalar,
    ScalarDiv,
    ScalarPower,
    add,
    add_scalar,
    divide,
    divide_scalar,
    mul_scalar,
    multiply,
    negate,
    power,
    power_scalar,
)
from .attention import Attention, SelfAttention, attention, self_attention
from .bias_relu import BiasReLU, bias_relu
from .blur import AdaptiveBlur, adaptive_blur
from .contiguous import Contiguous, contiguous
from .conv import Conv, ConvImage, ConvKernel, conv
from .elementwise import Cast, Exp, Log, Sigmoid, Sqrt, Tanh, To, astype, exp, log, sigmoid, sqrt, tanh, to
from .embedding import AddRows, TakeRows, embedding
from .gru import GRU, gru
from .indexing import GetItem, ScatterAdd, getitem
from .linalg import EinSum, MatMul, einsum, matmul
from .linear import Linear, linear
from .logarithmic import LogSoftmax, LogSumExp, Softmax, logsoftmax, logsumexp, softmax
from .loss import CrossEntropy, cross_entropy
from .lstm import LSTM, lstm
from .normal import NormalCDF, gelu, normal_cdf
from .normalization import BatchNorm, LayerNorm, batch_norm, layer_norm
from .padding import Dilate, Pad, UnDilate, dilate, pad, undilate
from .piecewise import (
    Abs,
    Maximum,
    MaximumScalar,
    Minimum,
    MinimumScalar,
    ReLU,
    Where,
    maximum,
    minimum,
    relu,
    sign,
    where,
)
from .piecewise import abs_ as abs
from .pooling import SumWindows, Windows, avg_pool, max_pool
from .reduction import Max, Min, Summation, mean, summation
from .reduction import max_ as max
from .reduction import min_ as min
from .rnn import RNN, rnn
from .shape import (
    BroadcastTo,
    Concatenate,
    Flip,
    Permute,
    Reshape,
    SumTo,
    Transpose,
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    permute,
    reshape,
    squeeze,
    sum_to,
    transpose,
)
from .tuples import (
    FusedAddScalars,
    MakeTensorTuple,
    Split,
    Stack,
    fused_add_scalars,
    make_tuple,
    split,
    stack,
    tuple_get_item,
)

__all__ = [name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _Module)]
