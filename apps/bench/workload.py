"""What a workload is: contenders that do the same work, and the comparisons that are read from their times."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PEERS = ("needle", "torch", "autograd", "mygrad", "numpy")
"""Everyone who may take part, in the order of the report."""


@dataclass(frozen=True)
class Prepared:
    """One contender's work, ready to be run as often as wanted.

    Parameters
    ----------
    step : callable
        Does the work once, and takes no arguments. What it returns is dropped.
    numbers : callable, optional
        After some steps, gives ``{name: array}``: results that every contender must agree on. Names that
        only one contender has are not compared.
    per_step : int
        How many units of work a step does; the report gives the time per unit.
    measure : callable, optional
        For work that the worker cannot time from outside (another process): does the work once and
        returns the seconds it took. It is then used in place of timing `step`.
    """

    step: Callable[[], Any]
    numbers: Callable[[], Mapping[str, Any]] = dict
    per_step: int = 1
    measure: Callable[[], float] | None = None


@dataclass(frozen=True)
class Contender:
    """One way to do a workload: a peer, perhaps in one of several variants, and the function that prepares it."""

    peer: str
    variant: str
    build: Callable[..., Prepared]

    @property
    def label(self) -> str:
        """The contender's name within its workload, such as ``"torch fused"``."""
        return f"{self.peer} {self.variant}".strip()


@dataclass(frozen=True)
class Comparison:
    """One block of the report: the `subject`'s time against that of others.

    `aims` maps a label to the largest ratio subject / other that is aimed for; `aim_seconds` is the same
    for the subject's own time.
    """

    title: str
    subject: str
    against: tuple[str, ...]
    aims: Mapping[str, float]
    aim_seconds: float | None = None


@dataclass
class Workload:
    """Work that several contenders do, and how they are compared.

    Parameters
    ----------
    name : str
        What ``--workload`` takes.
    title : str
        One line that says the work with its sizes.
    unit : str
        What one unit of work is called in the report: ``"step"``, ``"op"``, …
    rtol : float
        How far two contenders' numbers may lie apart, relative to their norm.
    check_steps : int
        How many steps are made before the numbers are compared.
    gpu_launches, gpu_bytes : int
        Kernel launches that a unit of work takes on a GPU, and bytes that it cannot but read or write there: from
        them the report tells the floor. 0 if it is not known.
    on_gpu : bool
        Whether the work is also done on a GPU.
    check_with : mapping, optional
        Keyword arguments for the builders when they build for the comparison of numbers: what makes the
        work deterministic, such as ``{"drop_prob": 0.0}``.
    """

    name: str
    title: str
    unit: str = "step"
    rtol: float = 1e-4
    check_steps: int = 1
    gpu_launches: int = 0
    gpu_bytes: int = 0
    on_gpu: bool = True
    check_with: Mapping[str, Any] = field(default_factory=dict)
    contenders: list[Contender] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def contender(self, peer: str, variant: str = "") -> Callable[[Callable[..., Prepared]], Callable[..., Prepared]]:
        """Give a decorator that enters a builder function as a contender of this workload.

        Raises
        ------
        ValueError
            If the peer is unknown, or the label is taken.
        """
        if peer not in PEERS:
            raise ValueError(f"workload {self.name}: peer {peer!r} is none of {', '.join(PEERS)}")

        def enter(build: Callable[..., Prepared]) -> Callable[..., Prepared]:
            entered = Contender(peer, variant, build)
            if entered.label in self.labels():
                raise ValueError(f"workload {self.name}: there is a contender {entered.label!r} already")
            self.contenders.append(entered)
            return build

        return enter

    def compare(
        self,
        title: str,
        subject: str,
        *,
        against: Iterable[str] | None = None,
        aims: Mapping[str, float] | None = None,
        aim_seconds: float | None = None,
    ) -> None:
        """Add a block to the report; call it when all contenders are entered.

        `against` defaults to every contender of another peer than the subject's.

        Raises
        ------
        ValueError
            If a label is not one of this workload's contenders.
        """
        peer = self.find(subject).peer
        if against is None:
            against = [c.label for c in self.contenders if c.peer != peer]
        for label in (*against, *(aims or {})):
            self.find(label)
        self.comparisons.append(Comparison(title, subject, tuple(against), dict(aims or {}), aim_seconds))

    def labels(self) -> list[str]:
        """Give the contenders' labels, in the order they were entered."""
        return [c.label for c in self.contenders]

    def find(self, label: str) -> Contender:
        """Give the contender of that label.

        Raises
        ------
        ValueError
            If there is none.
        """
        for contender in self.contenders:
            if contender.label == label:
                return contender
        raise ValueError(f"workload {self.name} has no contender {label!r}; it has {', '.join(self.labels())}")


def heap_kept(build: Callable[..., Prepared]) -> Callable[..., Prepared]:
    """Give a builder of the same work with `needle.memory.keep_heap` switched on in the contender's process."""

    def kept(**options: Any) -> Prepared:
        from needle import memory

        memory.keep_heap()
        return build(**options)

    return kept


def load(source: str) -> list[Workload]:
    """Give the list ``WORKLOADS`` of the module named `source`."""
    return list(importlib.import_module(source).WORKLOADS)


def choose(workloads: Iterable[Workload], names: Iterable[str] | None) -> list[Workload]:
    """Give the workloads whose name is in `names`, or whose name continues one of them after a hyphen.

    Raises
    ------
    ValueError
        If a name chooses nothing.

    Examples
    --------
    >>> both = [Workload("norm-small", "…"), Workload("norm-large", "…")]
    >>> [w.name for w in choose(both, ["norm"])]
    ['norm-small', 'norm-large']
    """
    workloads = list(workloads)
    if names is None:
        return workloads
    chosen: list[Workload] = []
    for name in names:
        matches = [w for w in workloads if w.name == name or w.name.startswith(f"{name}-")]
        if not matches:
            raise ValueError(f"no workload {name!r}; there are {', '.join(w.name for w in workloads)}")
        chosen += [w for w in matches if w not in chosen]
    return chosen


def installed(peer: str) -> bool:
    """Tell whether a peer can be imported, without importing it."""
    return importlib.util.find_spec(peer) is not None
