"""What one training step of MLP-ResNet asks of a GPU, counted on the emulated one.

``python hw_tests/launch_table.py`` prints the table that stands in docs/devices.md.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import emulated

import needle as ndl
from apps.mlp_resnet import MLPResNet

PHASES = ("forward and loss", "backward", "optimizer")


class Training:
    """The application's network on the emulated GPU, batch 100, Adam with weight decay."""

    def __init__(self, drop_prob: float = 0.1, device: ndl.Device | None = None):
        device = emulated.device() if device is None else device
        self.model = MLPResNet(784, drop_prob=drop_prob).to(device)
        self.optimizer = ndl.optim.Adam(self.model.parameters(), lr=0.001, weight_decay=0.001)
        self.loss = ndl.nn.SoftmaxLoss()
        rng = np.random.default_rng(0)
        self.x = ndl.Tensor(rng.random((100, 784), dtype="float32"), device=device, requires_grad=False)
        self.y = ndl.Tensor(rng.integers(10, size=100), device=device, requires_grad=False)

    def phases(self):
        """Do one step, and stop after each of the `PHASES`."""
        self.optimizer.reset_grad()
        loss = self.loss(self.model(self.x), self.y)
        yield
        loss.backward(create_graph=False)
        yield
        self.optimizer.step()
        yield

    def step(self) -> None:
        """Do one step."""
        for _ in self.phases():
            pass


def table() -> str:
    """Launches, bytes and syncs of a step, in Markdown."""
    training = Training()
    for _ in range(2):  # the first ones make the optimizer's state
        training.step()
    rows = []
    steps = training.phases()
    for phase in PHASES:
        with emulated.counting() as counts:
            next(steps)
        rows.append((phase, counts.launches, counts.bytes, counts.syncs))
    rows.append(("whole step", *[sum(row[i] for row in rows) for i in (1, 2, 3)]))
    lines = ["| | kernel launches | MB read and written | host syncs |", "|---|---|---|---|"]
    lines += [f"| {name} | {launches} | {size / 1e6:.1f} | {syncs} |" for name, launches, size, syncs in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
