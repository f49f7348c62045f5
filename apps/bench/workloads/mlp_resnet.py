"""A training step of the course's MLP-ResNet: forward, loss, backward, Adam with weight decay."""

from __future__ import annotations

from functools import partial

import numpy as np

from apps.bench.workload import Prepared, Workload
from apps.bench.workloads import mlp_resnet_numpy, mlp_resnet_peers
from apps.bench.workloads.mlp_resnet_problem import (
    BLOCKS,
    CLASSES,
    DROP_PROB,
    HIDDEN,
    INPUTS,
    RATE,
    WEIGHT_DECAY,
    batch,
    named,
    parameters,
)

MLP_RESNET = Workload(
    "mlp-resnet",
    f"MLP-ResNet {INPUTS}-{HIDDEN}, {BLOCKS} blocks, batch 100, BatchNorm, Dropout {DROP_PROB}, Adam: training step",
    rtol=1e-3,
    check_steps=3,
    check_with={"drop_prob": 0.0},
    gpu_launches=104,  # as docs/devices.md counts them
)


@MLP_RESNET.contender("needle")
def needle(drop_prob: float = DROP_PROB) -> Prepared:
    """Take the application's own model, needle's loss and needle's Adam."""
    import needle as ndl
    from apps.mlp_resnet import MLPResNet

    model = MLPResNet(INPUTS, HIDDEN, BLOCKS, CLASSES, drop_prob=drop_prob)
    weights = model.parameters()
    for weight, array in zip(weights, parameters(), strict=True):
        weight.data = ndl.Tensor(array.reshape(weight.shape))
    optimizer = ndl.optim.Adam(weights, lr=RATE, weight_decay=WEIGHT_DECAY)
    loss_fn = ndl.nn.SoftmaxLoss()
    x, y = (ndl.Tensor(array, requires_grad=False) for array in batch())
    model.train()
    loss = None

    def step() -> None:
        nonlocal loss
        optimizer.reset_grad()
        loss = loss_fn(model(x), y)
        loss.backward(create_graph=False)
        optimizer.step()

    return Prepared(step, lambda: named(loss.numpy(), [w.numpy() for w in weights]))


@MLP_RESNET.contender("torch")
def torch(drop_prob: float = DROP_PROB) -> Prepared:
    """Build the same model of torch's modules."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, function: nn.Module) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.function(x)

    def block() -> nn.Module:
        narrow = HIDDEN // 2
        into = nn.Linear(HIDDEN, narrow), nn.BatchNorm1d(narrow), nn.ReLU(), nn.Dropout(drop_prob)
        back = nn.Linear(narrow, HIDDEN), nn.BatchNorm1d(HIDDEN)
        return nn.Sequential(Residual(nn.Sequential(*into, *back)), nn.ReLU())

    blocks = [block() for _ in range(BLOCKS)]
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), *blocks, nn.Linear(HIDDEN, CLASSES))
    with torch.no_grad():
        for weight, array in zip(model.parameters(), parameters(), strict=True):
            is_matrix = weight.ndim == 2
            weight.copy_(torch.as_tensor(array.T if is_matrix else array.reshape(-1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
    loss_fn = nn.CrossEntropyLoss()
    x, y = map(torch.as_tensor, batch())
    model.train()
    loss = None

    def step() -> None:
        nonlocal loss
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

    def numbers() -> dict[str, np.ndarray]:
        return named(loss.detach(), [w.detach().T for w in model.parameters()])

    return Prepared(step, numbers)


for peer, build in (
    ("autograd", mlp_resnet_peers.autograd),
    ("mygrad", mlp_resnet_peers.mygrad),
    ("numpy", mlp_resnet_numpy.numpy),
):
    MLP_RESNET.contender(peer)(partial(build))

MLP_RESNET.compare("mlp-resnet", "needle", aims={"torch": 0.6, "numpy": 1.5})

WORKLOADS = [MLP_RESNET]
