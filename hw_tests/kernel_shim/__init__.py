"""CUDA kernels compiled by g++ and run on the CPU, on NumPy arrays: see shim.h and runtime.cpp."""

from .build import find_compiler
from .run import KernelError, Program
