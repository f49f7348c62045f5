"""Learning rates that change in the course of training, by closed formulas."""

from __future__ import annotations

import math
from typing import Any

from .optimizer import Optimizer, check_number, check_state


class Schedule:
    """A learning rate as a function of time: sets ``optimizer.lr`` to ``rate(t)`` now and after each `step`.

    Time t counts the calls of `step`, per epoch or per batch as the caller likes. Subclasses give `rate`.

    Parameters
    ----------
    optimizer : Optimizer
        One with a learning rate ``lr``; its present value is the base that the formulas start from.

    Attributes
    ----------
    base_lr : float
        The optimizer's learning rate when the schedule was made.
    t : int
        How many steps were made.

    Raises
    ------
    TypeError
        If `optimizer` has no learning rate.
    """

    #: The attributes that make up the formula; `state_dict` saves them.
    _settings: tuple[str, ...] = ("base_lr",)

    def __init__(self, optimizer: Optimizer):
        lr = getattr(optimizer, "lr", None)
        if not isinstance(lr, (int, float)):
            raise TypeError(
                f"{type(self).__name__}: an optimizer with a learning rate lr is needed, got {type(optimizer).__name__}"
            )
        self.optimizer: Any = optimizer
        self.base_lr = float(lr)
        self.t = 0

    def rate(self, t: int) -> float:
        """The learning rate at time `t`."""
        raise NotImplementedError(f"{type(self).__name__} has no rate")

    def step(self) -> None:
        """Go on to the next time and set the optimizer's learning rate."""
        self.t += 1
        self.optimizer.lr = self.rate(self.t)

    def state_dict(self) -> dict[str, Any]:
        """The schedule's name, time and settings: strings and numbers that go into JSON."""
        return {
            "schedule": type(self).__name__,
            "t": self.t,
            "settings": {name: getattr(self, name) for name in self._settings},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was called.

        Raises
        ------
        TypeError
            If `state` is no dictionary.
        ValueError
            If it is another schedule's or one with other settings than this one was made with (the base learning rate
            is taken over); nothing has been changed then.
        """
        name = type(self).__name__
        check_state(name, state, "schedule")
        t, settings = state.get("t"), state.get("settings")
        if not isinstance(settings, dict):
            raise ValueError(f"{name}: 'settings' is a dictionary, got {type(settings).__name__}")
        if isinstance(t, bool) or not isinstance(t, int) or t < 0:
            raise ValueError(f"{name}: 't' is the number of steps made, got {t!r}")
        own = {key: getattr(self, key) for key in self._settings}
        differing = [
            key for key in own.keys() | settings.keys() if key != "base_lr" and own.get(key) != settings.get(key)
        ]
        if differing:
            text = ", ".join(f"{key} {own.get(key)} here and {settings.get(key)} there" for key in sorted(differing))
            raise ValueError(f"{name}: the state is of a schedule with other settings: {text}")
        check_number(name, "base_lr", settings.get("base_lr"))
        self.base_lr, self.t = settings["base_lr"], t
        self.optimizer.lr = self.rate(t)


class StepLR(Schedule):
    """Multiply by `gamma` every `step_size` steps: ``base_lr · gamma^⌊t / step_size⌋``.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
        At least 1.
    gamma : float
        At least 0.

    Examples
    --------
    >>> import needle as ndl
    >>> optimizer = ndl.optim.SGD([ndl.Tensor([0.0])], lr=0.8)
    >>> schedule = ndl.optim.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> [schedule.rate(t) for t in range(5)]
    [0.8, 0.8, 0.4, 0.4, 0.2]
    """

    _settings = ("base_lr", "step_size", "gamma")

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1):
        super().__init__(optimizer)
        _check_steps("StepLR", "step_size", step_size)
        check_number("StepLR", "gamma", gamma)
        self.step_size = step_size
        self.gamma = gamma

    def rate(self, t: int) -> float:
        return self.base_lr * self.gamma ** (t // self.step_size)


class CosineLR(Schedule):
    """Half a cosine down to `min_lr`: ``min_lr + (base_lr − min_lr) · (1 + cos(π t / steps)) / 2``, then `min_lr`.

    (Loshchilov and Hutter, 2017, arXiv:1608.03983, without restarts.)

    Parameters
    ----------
    optimizer : Optimizer
    steps : int
        When `min_lr` is reached; at least 1.
    min_lr : float
        The last learning rate.

    Examples
    --------
    >>> import needle as ndl
    >>> optimizer = ndl.optim.SGD([ndl.Tensor([0.0])], lr=1.0)
    >>> schedule = ndl.optim.CosineLR(optimizer, steps=4)
    >>> [round(schedule.rate(t), 3) for t in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """

    _settings = ("base_lr", "steps", "min_lr")

    def __init__(self, optimizer: Optimizer, steps: int, min_lr: float = 0.0):
        super().__init__(optimizer)
        _check_steps("CosineLR", "steps", steps)
        check_number("CosineLR", "min_lr", min_lr)
        self.steps = steps
        self.min_lr = min_lr

    def rate(self, t: int) -> float:
        progress = min(t, self.steps) / self.steps
        return self.min_lr + (self.base_lr - self.min_lr) * (1 + math.cos(math.pi * progress)) / 2


class WarmupLR(Schedule):
    """Linear warm-up: ``base_lr · (t + 1) / steps`` while t < `steps`, then another schedule from its time 0 on.

    Parameters
    ----------
    optimizer : Optimizer
    steps : int
        Length of the warm-up; at least 1. Making the schedule sets the first, small learning rate.
    after : Schedule, optional
        What follows, made for the same optimizer before this one; ``base_lr`` for good by default. Only this schedule
        is stepped.

    Raises
    ------
    TypeError
        If `after` is no schedule.
    ValueError
        If it belongs to another optimizer.

    Examples
    --------
    >>> import needle as ndl
    >>> optimizer = ndl.optim.SGD([ndl.Tensor([0.0])], lr=1.0)
    >>> schedule = ndl.optim.WarmupLR(optimizer, steps=2, after=ndl.optim.CosineLR(optimizer, steps=2))
    >>> rates = [optimizer.lr]
    >>> for _ in range(4):
    ...     schedule.step()
    ...     rates.append(round(optimizer.lr, 3))
    >>> rates
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """

    _settings = ("base_lr", "steps", "after_settings")

    def __init__(self, optimizer: Optimizer, steps: int, after: Schedule | None = None):
        super().__init__(optimizer)
        _check_steps("WarmupLR", "steps", steps)
        if after is not None and not isinstance(after, Schedule):
            raise TypeError(f"WarmupLR: what follows is a Schedule, such as CosineLR, got {type(after).__name__}")
        if after is not None and after.optimizer is not optimizer:
            raise ValueError("WarmupLR: the schedule that follows belongs to another optimizer")
        self.steps = steps
        self.after = after
        self.optimizer.lr = self.rate(0)

    @property
    def after_settings(self) -> dict[str, Any] | None:
        """The name and settings of the schedule that follows."""
        return None if self.after is None else {**self.after.state_dict(), "t": 0}

    def rate(self, t: int) -> float:
        if t < self.steps:
            return self.base_lr * (t + 1) / self.steps
        return self.base_lr if self.after is None else self.after.rate(t - self.steps)


def _check_steps(name: str, what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {what} is a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name}: {what} is at least 1, got {value}")
