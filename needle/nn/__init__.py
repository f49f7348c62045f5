"""Neural networks: modules, layers, losses, and saving what they have learned."""

from .module import IncompatibleKeys, Module, Parameter
