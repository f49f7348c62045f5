"""Optimizers, and schedules for their learning rates."""

from .adam import Adam, AdamW
from .optimizer import Optimizer
from .schedules import CosineLR, Schedule, StepLR, WarmupLR
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "CosineLR", "Optimizer", "Schedule", "StepLR", "WarmupLR"]
