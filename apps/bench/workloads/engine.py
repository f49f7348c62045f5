"""The engine's own cost per op: 8×8 arrays, so small that the arithmetic is hardly seen."""

from apps.bench.workload import Workload
from apps.bench.workloads import multiply_add

LENGTH = 200

ENGINE = Workload("engine", f"8×8 float32, {LENGTH} multiply-adds, forward and backward", unit="op")


@ENGINE.contender("needle", "create_graph=False")
def needle_lean():
    """Record no graph of the gradient."""
    return multiply_add.needle(LENGTH, create_graph=False)


@ENGINE.contender("needle")
def needle_default():
    """Record the graph of the gradient, as the default is."""
    return multiply_add.needle(LENGTH, create_graph=True)


for peer in ("torch", "autograd", "mygrad", "numpy"):
    build = getattr(multiply_add, peer)
    ENGINE.contender(peer)(lambda build=build: build(LENGTH))

ENGINE.compare("engine, create_graph=False", "needle create_graph=False", aims={"torch": 0.6})
ENGINE.compare("engine, create_graph=True", "needle", aims={"torch": 0.85})

WORKLOADS = [ENGINE]
