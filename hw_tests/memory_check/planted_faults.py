"""Mistakes that cost memory, each as small as it can be, beside its right version.

Every class is a training step of a tiny regression, ``step()``, with one part written wrongly; its subclass ``…Right``
has that part written rightly. The line that is wrong ends with the words of `MARK`, so that a test can say which line a
report has to name.
"""

import numpy as np

import needle as ndl
from needle.nn import Dropout, Linear, Module, Sequential
from needle.optim import Optimizer

MARK = "# the fault"


def sum_of_squares(x):
    return (x * x).sum()


class Step:
    """One step of a regression: three inputs, two outputs, float32."""

    create_graph = False

    def __init__(self):
        self.model = self.make_model()
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.batch = np.random.randn(4, 3).astype("float32")

    def make_model(self):
        return Linear(3, 2)

    def make_optimizer(self, params):
        return ndl.optim.SGD(params, lr=0.01)

    def loss(self):
        return sum_of_squares(self.model(ndl.Tensor(self.batch)))

    def step(self):
        self.optimizer.reset_grad()
        self.loss().backward(create_graph=self.create_graph)
        self.optimizer.step()


# ------------------------------------------------------------------------------------------------------- training loops


class AccumulatedLoss(Step):
    def __init__(self):
        super().__init__()
        self.total = 0.0

    def step(self):
        self.optimizer.reset_grad()
        loss = self.loss()
        loss.backward()
        self.total = self.total + loss  # the fault
        self.optimizer.step()


class AccumulatedLossRight(AccumulatedLoss):
    def step(self):
        self.optimizer.reset_grad()
        loss = self.loss()
        loss.backward()
        self.total = self.total + loss.numpy()
        self.optimizer.step()


class LossList(Step):
    def __init__(self):
        super().__init__()
        self.losses = []

    def step(self):
        super().step()
        self.losses.append(self.loss())  # the fault


class LossListRight(LossList):
    def step(self):
        Step.step(self)
        self.losses.append(self.loss().item())


class CarriedState(Step):
    def __init__(self):
        super().__init__()
        self.hidden = ndl.Tensor(np.zeros((4, 2), dtype="float32"), requires_grad=False)

    def loss(self):
        self.hidden = ndl.tanh(self.model(ndl.Tensor(self.batch)) + self.hidden)  # the fault
        return sum_of_squares(self.hidden)

    create_graph = True


class CarriedStateRight(CarriedState):
    def loss(self):
        self.hidden = ndl.tanh(self.model(ndl.Tensor(self.batch)) + self.hidden.detach())
        return sum_of_squares(self.hidden)


class CachedClosure(Step):
    def __init__(self):
        super().__init__()
        self.penalties = []

    def loss(self):
        x = ndl.Tensor(self.batch)
        self.penalties.append(lambda: sum_of_squares(x))  # the fault
        return sum_of_squares(self.model(x))


class CachedClosureRight(CachedClosure):
    def __init__(self):
        super().__init__()
        self.penalties.append(sum_of_squares)

    def loss(self):
        return sum_of_squares(self.model(ndl.Tensor(self.batch)))


NODES = []


class GlobalNodeList(Step):
    def loss(self):
        NODES.append(self.model(ndl.Tensor(self.batch)))  # the fault
        return sum_of_squares(NODES[-1])


class GlobalNodeListRight(GlobalNodeList):
    loss = Step.loss


# --------------------------------------------------------------------------------------------------------------- layers


class HistoryNorm(Module):
    """Batch normalisation without scale and shift."""

    def __init__(self, dim):
        super().__init__()
        self.running_mean = ndl.init.zeros(dim)

    def forward(self, x):
        mean = x.sum((0,)) / x.shape[0]
        self.update(mean)
        return x - mean.reshape((1, -1)).broadcast_to(x.shape)

    def update(self, mean):
        self.running_mean = 0.9 * self.running_mean + 0.1 * mean  # the fault


class DetachedNorm(HistoryNorm):
    def update(self, mean):
        self.running_mean = 0.9 * self.running_mean + 0.1 * mean.detach()


class StatisticsWithHistory(Step):
    create_graph = True

    def make_model(self):
        return Sequential(Linear(3, 2), HistoryNorm(2))


class StatisticsWithHistoryRight(StatisticsWithHistory):
    def make_model(self):
        return Sequential(Linear(3, 2), DetachedNorm(2))


class MaskKeepingDropout(Dropout):
    def __init__(self, p):
        super().__init__(p)
        self.masks = []

    def forward(self, x):
        mask = ndl.init.randb(*x.shape, p=1 - self.p, dtype="float32")
        self.masks.append(mask)  # the fault
        return x * mask / (1 - self.p)


class KeptMasks(Step):
    def make_model(self):
        return Sequential(Linear(3, 2), MaskKeepingDropout(0.5))


class KeptMasksRight(KeptMasks):
    def make_model(self):
        return Sequential(Linear(3, 2), Dropout(0.5))


class GradientKeepingLinear(Linear):
    def forward(self, x):
        return super().forward(x).retain_grad()  # the fault


class GradientsOfIntermediates(Step):
    create_graph = True

    def make_model(self):
        return GradientKeepingLinear(3, 2)


class GradientsOfIntermediatesRight(GradientsOfIntermediates):
    create_graph = False


# ----------------------------------------------------------------------------------------------------------- optimizers


class HistoryMomentum(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        super().__init__(params)
        self.lr = lr
        self.momentum = momentum
        self.u = {}

    def step(self):
        for i, p in enumerate(self.params):
            self.u[i] = self.momentum * self.u.get(i, 0.0) + (1 - self.momentum) * p.grad  # the fault
            p.data = p.data - self.lr * self.u[i].data


class DataMomentum(HistoryMomentum):
    def step(self):
        for i, p in enumerate(self.params):
            self.u[i] = self.momentum * self.u.get(i, 0.0) + (1 - self.momentum) * p.grad.data
            p.data = p.data - self.lr * self.u[i]


class MomentumWithHistory(Step):
    create_graph = True

    def make_optimizer(self, params):
        return HistoryMomentum(params)


class MomentumWithHistoryRight(MomentumWithHistory):
    def make_optimizer(self, params):
        return DataMomentum(params)


class HistoryAdam(Optimizer):
    def __init__(self, params, lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8):
        super().__init__(params)
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        self.m = [0.0 for _ in self.params]
        self.v = [0.0 for _ in self.params]
        self.t = 0

    def gradient(self, p):
        return p.grad

    def step(self):
        self.t += 1
        for i, p in enumerate(self.params):
            g = self.gradient(p)
            self.m[i] = self.beta1 * self.m[i] + (1 - self.beta1) * g  # the fault
            self.v[i] = self.beta2 * self.v[i] + (1 - self.beta2) * (g * g).data
            m_hat = self.m[i].data / (1 - self.beta1**self.t)
            v_hat = self.v[i].data / (1 - self.beta2**self.t)
            p.data = p.data - self.lr * m_hat / (v_hat**0.5 + self.eps)


class DataAdam(HistoryAdam):
    def gradient(self, p):
        return p.grad.data


class MomentsWithHistory(Step):
    create_graph = True

    def make_optimizer(self, params):
        return HistoryAdam(params)


class MomentsWithHistoryRight(MomentsWithHistory):
    def make_optimizer(self, params):
        return DataAdam(params)


class GraphDecaySGD(Optimizer):
    def step(self):
        for p in self.params:
            slope = p.grad + 0.1 * p  # the fault
            p.data = p.data - 0.01 * slope.data


class DataDecaySGD(Optimizer):
    def step(self):
        for p in self.params:
            slope = p.grad.data + 0.1 * p.data
            p.data = p.data - 0.01 * slope


class DecayWithGraph(Step):
    def make_optimizer(self, params):
        return GraphDecaySGD(params)


class DecayWithGraphRight(DecayWithGraph):
    def make_optimizer(self, params):
        return DataDecaySGD(params)


class WideMomentum(Optimizer):
    def __init__(self, params):
        super().__init__(params)
        self.u = [self.start(p) for p in self.params]

    def start(self, p):
        return np.zeros(p.shape)

    def step(self):
        for i, p in enumerate(self.params):
            self.u[i] = 0.9 * self.u[i] + 0.1 * p.grad.numpy()  # the fault
            p.data = ndl.Tensor(p.numpy() - 0.01 * self.u[i], dtype=p.dtype)


class NarrowMomentum(WideMomentum):
    def start(self, p):
        return np.zeros(p.shape, dtype=p.dtype)


class WideMoments(Step):
    def make_optimizer(self, params):
        return WideMomentum(params)


class WideMomentsRight(WideMoments):
    def make_optimizer(self, params):
        return NarrowMomentum(params)


# ------------------------------------------------------------------------------------------------------------------ ops


class ContextExp(ndl.TensorOp):
    """Exp that keeps what its gradient needs in the op."""

    def compute(self, a):
        return ndl.backend.array_module(a).exp(a)

    def gradient(self, out_grad, node):
        self.node = node  # the fault
        return out_grad * self.node


class PlainExp(ContextExp):
    def gradient(self, out_grad, node):
        return out_grad * node


class CycleInContext(Step):
    op = ContextExp

    def loss(self):
        return self.op()(self.model(ndl.Tensor(self.batch))).sum()


class CycleInContextRight(CycleInContext):
    op = PlainExp


class LoopedBroadcastTo(ndl.ops.BroadcastTo):
    """BroadcastTo whose gradient sums over one axis after the other: right values, too many nodes."""

    def gradient(self, out_grad, node):
        shape = node.inputs[0].shape
        new = out_grad.ndim - len(shape)
        for _ in range(new):
            out_grad = ndl.summation(out_grad, 0)
        for axis, size in enumerate(shape):
            if size != out_grad.shape[axis]:
                out_grad = ndl.summation(out_grad, axis)  # the fault
                out_grad = ndl.reshape(out_grad, shape[: axis + 1] + out_grad.shape[axis:])
        return out_grad
