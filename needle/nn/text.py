"""A module as text: a tree with shapes and numbers of parameters."""

from __future__ import annotations

from ..autograd import Tensor
from .module import Module, _members


def tree(root: Module) -> str:
    """The modules below `root`, a line each; one that is held twice is spelled out where it comes first."""
    lines = []
    first: dict[int, str] = {}  # where each module was spelled out
    stack: list[tuple[str, str, str, str, Module]] = [("", "", "", "", root)]
    while stack:
        indent, below, label, path, module = stack.pop()
        if id(module) in first:
            lines.append(f"{indent}{label}{type(module).__name__} (the same as {first[id(module)]})")
            continue
        first[id(module)] = path or "the root"
        lines.append(f"{indent}{label}{_line(module)}")
        children = [(name, member) for name, member in _members(module) if isinstance(member, Module)]
        for i, (name, child) in reversed(list(enumerate(children))):
            branch, trunk = ("└─ ", "   ") if i == len(children) - 1 else ("├─ ", "│  ")
            stack.append((below + branch, below + trunk, f"{name}: ", f"{path}.{name}" if path else name, child))
    return "\n".join(lines)


def _line(module: Module) -> str:
    """Name, settings, own tensors, and the number of parameters in all."""
    settings = module.extra_repr()
    parts = [f"{type(module).__name__}({settings})" if settings else type(module).__name__]
    tensors = [f"{name} {value.shape}" for name, value in _members(module) if isinstance(value, Tensor)]
    if tensors:
        parts.append(", ".join(tensors))
    parameters = module.parameters()
    if parameters:
        count = sum(parameter.size for parameter in parameters)
        parts.append(f"{count:,} parameter{'' if count == 1 else 's'}")
    return " · ".join(parts)
