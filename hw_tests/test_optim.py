"""Optimizers: the updates, what a step may touch, and going on from a saved state."""

import gc
import json
import pickle
from copy import deepcopy

import numpy as np
import pytest

import needle as ndl
from needle.optim import SGD, Adam, AdamW, Optimizer, blockwise
from needle.optim.reuse import reusable_array

BLOCK, SMALL = 256, 64  # small enough that small tests have several blocks and packs
SHAPES = [(3, 4), (4,), (), (0, 2), (7, 9), (SMALL + 5,), (2, BLOCK), (8, 6), (BLOCK + 1,), (50,), (60,)]
MAKERS = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "sgd, decay": lambda p: SGD(p, lr=0.1, weight_decay=0.2),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.8),
    "nesterov": lambda p: SGD(p, lr=0.1, momentum=0.8, weight_decay=0.2, nesterov=True),
    "adam": lambda p: Adam(p, lr=0.1),
    "adam, decay": lambda p: Adam(p, lr=0.1, weight_decay=0.2),
    "adamw": lambda p: AdamW(p, lr=0.1, weight_decay=0.2),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", BLOCK)
    monkeypatch.setattr(blockwise, "SMALL", SMALL)


def sgd_by_the_book(p, gradients, lr, momentum=0.0, weight_decay=0.0, nesterov=False):
    u = np.zeros_like(p)
    for g in gradients:
        g = g + weight_decay * p
        u = momentum * u + (1 - momentum) * g
        p = p - lr * (momentum * u + (1 - momentum) * g if nesterov else u)
    return p, u


def adam_by_the_book(p, gradients, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, shrink=0.0):
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        p = p * (1 - lr * shrink) - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return p, m, v


def parameters(dtype="float64", shapes=SHAPES):
    return [ndl.Tensor(np.random.randn(*shape), dtype=dtype) for shape in shapes]


def random_gradients(params, steps):
    return [[np.asarray(np.random.randn(*p.shape), dtype=p.dtype) for p in params] for _ in range(steps)]


def run(optimizer, steps):
    for gradients in steps:
        for p, g in zip(optimizer.params, gradients):
            p.grad = ndl.Tensor(g, requires_grad=False)
        optimizer.step()


def values_of(held):
    """The numbers of a tensor or an array, as NumPy has them."""
    return held.numpy() if isinstance(held, ndl.Tensor) else held


def address(array):
    """Where an array's memory begins."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def live_values():
    return sum(issubclass(type(value), ndl.Value) for value in gc.get_objects())


def close(actual, expected, tolerance=1e-12):
    actual, expected = (ndl.backend.to_numpy(values) for values in (actual, expected))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------- the formulas


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.3},
        {"momentum": 0.9},
        {"momentum": 0.9, "weight_decay": 0.3},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "weight_decay": 0.3, "nesterov": True},
    ],
)
def test_sgd_follows_its_formula_for_small_and_large_parameters(options):
    params = parameters()
    start, steps = [p.numpy().copy() for p in params], random_gradients(params, 4)
    optimizer = SGD(params, lr=0.1, **options)
    run(optimizer, steps)
    for i, p in enumerate(params):
        value, u = sgd_by_the_book(start[i], [g[i] for g in steps], 0.1, **options)
        close(p.numpy(), value)
        if "momentum" in options:
            close(optimizer.u[p], u)


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.3}, {"beta1": 0.5, "beta2": 0.7, "eps": 0.1}, {"beta1": 0.0}]
)
def test_adam_follows_its_formula_for_small_and_large_parameters(options):
    params = parameters()
    start, steps = [p.numpy().copy() for p in params], random_gradients(params, 4)
    optimizer = Adam(params, lr=0.1, **options)
    run(optimizer, steps)
    assert optimizer.t == 4
    for i, p in enumerate(params):
        value, m, v = adam_by_the_book(start[i], [g[i] for g in steps], 0.1, **options)
        close(p.numpy(), value)
        close(optimizer.m[p], m)
        close(optimizer.v[p], v)


def test_adamw_shrinks_parameters_apart_from_the_averages():
    params = parameters()
    start, steps = [p.numpy().copy() for p in params], random_gradients(params, 4)
    run(AdamW(params, lr=0.1, weight_decay=0.3), steps)
    for i, p in enumerate(params):
        close(p.numpy(), adam_by_the_book(start[i], [g[i] for g in steps], 0.1, shrink=0.3)[0])


@pytest.mark.parametrize("name", MAKERS)
def test_pytorch_takes_the_same_steps(name):
    torch = pytest.importorskip("torch")
    # PyTorch adds gradients up where needle averages them, so its learning rate is (1 − 0.8) of needle's.
    theirs = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "sgd, decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1 * (1 - 0.8), momentum=0.8),
        "nesterov": lambda p: torch.optim.SGD(p, lr=0.1 * (1 - 0.8), momentum=0.8, weight_decay=0.2, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=0.1),
        "adam, decay": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.2),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2),
    }[name]
    params = parameters()
    copies = [torch.tensor(p.numpy().copy(), requires_grad=True) for p in params]
    steps = random_gradients(params, 5)
    reference = theirs(copies)
    run(MAKERS[name](params), steps)
    for gradients in steps:
        for p, g in zip(copies, gradients):
            p.grad = torch.tensor(g)
        reference.step()
    for p, copy in zip(params, copies):
        close(p.numpy(), copy.detach().numpy(), 1e-10)


@pytest.mark.cpu_only("makes tensors over NumPy's memory")
def test_gradients_of_any_layout_are_read_right():
    base = np.random.randn(4, 3)
    params = [ndl.Tensor(np.zeros((3, 4))), ndl.Tensor(np.zeros((3, 4)))]
    params[0].grad = ndl.Tensor._from_array(base.T, False)
    params[1].grad = ndl.Tensor._from_array(np.broadcast_to(2.0, (3, 4)), False)
    SGD(params, lr=1.0).step()
    close(params[0].numpy(), -base.T)
    close(params[1].numpy(), np.full((3, 4), -2.0))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_parameter_without_a_gradient_stays_and_the_others_move(make):
    params = parameters(shapes=[(3,), (2, 2), (4,)])
    for p in (params[0], params[2]):
        p.grad = ndl.Tensor(np.random.randn(*p.shape), requires_grad=False)
    before = [p.numpy().copy() for p in params]
    make(params).step()
    moved = [bool((p.numpy() != b).all()) for p, b in zip(params, before)]
    assert moved == [True, False, True]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_skipping_a_parameter_once_leaves_the_steps_of_the_others_alone(make):
    params = parameters(shapes=[(3,), (2,)])
    others = [ndl.Tensor(p.numpy()) for p in params]
    steps = random_gradients(params, 3)
    together, apart = make(params), make(others)
    for number, (a, b) in enumerate(steps):
        for optimizer in (together, apart):
            optimizer.params[0].grad = ndl.Tensor(a)
            optimizer.params[1].grad = ndl.Tensor(b)
        if number == 1:
            apart.params[1].grad = None
        together.step()
        apart.step()
    np.testing.assert_array_equal(params[0].numpy(), others[0].numpy())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_float32_stays_float32(make):
    params = parameters("float32", shapes=[(3,), (), (SMALL,)])
    optimizer = make(params)
    run(optimizer, random_gradients(params, 2))
    states = [a for state in optimizer._state_by_position().values() for a in state.values()]
    assert {p.dtype for p in params} | {a.dtype for a in states} == {np.dtype("float32")}


def test_a_numpy_scalar_as_learning_rate_widens_nothing():
    p = ndl.Tensor(np.ones(3, dtype="float32"))
    p.grad = ndl.Tensor(np.ones(3, dtype="float32"))
    SGD([p], lr=np.float64(0.5)).step()
    assert p.dtype == "float32"
    np.testing.assert_array_equal(p.numpy(), 0.5)


# ---------------------------------------------------------------------------------------------- what a step may touch


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_step_changes_no_gradient(make):
    params = parameters()
    (gradients,) = random_gradients(params, 1)
    held = [ndl.Tensor(g) for g in gradients]
    optimizer = make(params)
    for p, g in zip(params, held):
        p.grad = g
    optimizer.step()
    for p, g, expected in zip(params, held, gradients):
        assert p.grad is g
        np.testing.assert_array_equal(g.numpy(), expected)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_graph_built_before_the_step_still_sees_the_old_values(make):
    params = parameters(shapes=[(3,), (2,), (SMALL,)])
    old = [p.numpy().copy() for p in params]
    early = [(p * p).sum() for p in params]
    run(make(params), random_gradients(params, 1))
    for p, loss, before in zip(params, early, old):
        loss.backward()
        np.testing.assert_array_equal(p.grad.numpy(), 2 * before)
        assert (p.numpy() != before).all()


@pytest.mark.parametrize(
    "hold", [lambda p: p.data, lambda p: p.detach(), lambda p: p.numpy(), lambda p: p.numpy()[1:], lambda p: p + 1]
)
def test_whoever_holds_the_old_values_keeps_them(hold):
    params = parameters(shapes=[(3,), (2,), (SMALL,)])
    held = [hold(p) for p in params]
    before = [np.array(values_of(h)) for h in held]
    run(Adam(params), random_gradients(params, 2))
    for h, b in zip(held, before):
        np.testing.assert_array_equal(values_of(h), b)


def test_an_array_that_only_the_parameter_holds_is_written_into():
    params = parameters(shapes=[(3,), (2, 2), (SMALL,)])
    addresses = [address(p.cached_data) for p in params]
    optimizer = Adam(params)
    for _ in range(3):
        optimizer.reset_grad()
        loss = params[0].sum() * params[1].sum() * params[2].sum()
        loss.backward(create_graph=False)
        optimizer.step()
    assert [address(p.cached_data) for p in params] == addresses


@pytest.mark.cpu_only("makes tensors over NumPy's memory")
def test_the_memory_of_a_view_is_never_written_into():
    shared = np.zeros(6)
    p = ndl.Tensor._from_array(shared[:3], True)
    p.grad = ndl.Tensor(np.ones(3))
    SGD([p], lr=1.0).step()
    np.testing.assert_array_equal(shared, 0)
    np.testing.assert_array_equal(p.numpy(), -1)


def test_two_parameters_that_share_an_array_are_updated_apart():
    a = ndl.Tensor(np.zeros(3))
    b = ndl.Tensor(a)
    assert b.cached_data is a.cached_data
    a.grad, b.grad = ndl.Tensor(np.ones(3)), ndl.Tensor(np.full(3, 2.0))
    SGD([a, b], lr=1.0).step()
    np.testing.assert_array_equal(a.numpy(), -1)
    np.testing.assert_array_equal(b.numpy(), -2)


def test_a_leaf_edge_that_no_graph_holds_any_more_does_not_count_as_a_holder():
    w = ndl.Tensor([1.0, 2.0])
    loss = (w * w).sum()
    assert reusable_array(w) is None
    del loss
    assert reusable_array(w) is w.cached_data


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_two_hundred_steps_add_no_tensor_without_the_cyclic_collector(make, create_graph):
    w, b = ndl.Tensor(np.random.randn(4, 2)), ndl.Tensor(np.zeros(2))
    batch = np.random.randn(8, 4)
    optimizer = make([w, b])

    def step():
        optimizer.reset_grad()
        ((ndl.Tensor(batch) @ w + b) ** 2).sum().backward(create_graph=create_graph)
        optimizer.clip_grad_norm(1.0)
        optimizer.step()

    gc.collect()
    gc.freeze()  # what is there already need not be looked at again
    gc.disable()
    try:
        for _ in range(3):
            step()
        before = live_values()
        for _ in range(200):
            step()
        assert before == live_values()
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()


def test_the_state_holds_arrays_and_no_tensor():
    w = ndl.Tensor([1.0])
    optimizer = Adam([w])
    before = live_values()
    (w * w).sum().backward()  # create_graph=True: the gradient has a graph
    optimizer.step()
    w.grad = None
    assert before == live_values()


# ------------------------------------------------------------------------------------------------------------ clipping


def test_clipping_scales_the_joint_norm_and_returns_the_old_one():
    params = parameters(shapes=[(3, 2), (4,)])
    held = random_gradients(params, 1)[0]
    for p, g in zip(params, held):
        p.grad = ndl.Tensor(g)
    norm = np.sqrt(sum((g**2).sum() for g in held))
    returned = SGD(params).clip_grad_norm(0.25)
    assert returned.shape == () and not returned.requires_grad
    close(returned.item(), norm)
    for p, g in zip(params, held):
        close(p.grad.numpy(), g * 0.25 / (norm + 1e-6))


@pytest.mark.cpu_only("on a GPU every gradient is scaled, since to compare would be to wait")
def test_clipping_writes_into_no_gradient_and_leaves_short_ones_as_they_are():
    w = ndl.Tensor([0.0, 0.0])
    w.grad = gradient = ndl.Tensor([3.0, 4.0])
    optimizer = SGD([w])
    assert optimizer.clip_grad_norm(10.0).item() == 5.0
    assert w.grad.cached_data is gradient.cached_data
    optimizer.clip_grad_norm(1.0)
    np.testing.assert_array_equal(gradient.numpy(), [3.0, 4.0])


def test_clipping_drops_the_history_of_gradients_and_keeps_their_dtype():
    w = ndl.Tensor(np.full(3, 5, dtype="float32"))
    (w * w).sum().backward()
    SGD([w]).clip_grad_norm(1)
    assert w.grad.is_leaf() and not w.grad.requires_grad and w.grad.dtype == "float32"


def test_clipping_without_gradients_returns_zero():
    assert SGD([ndl.Tensor([1.0])]).clip_grad_norm().item() == 0


@pytest.mark.parametrize("value", ["a", None, True, [1.0]], ids=repr)
def test_a_largest_norm_that_is_no_number_is_an_error(value):
    with pytest.raises(TypeError, match=f"^clip_grad_norm: max_norm is a number, got {type(value).__name__}"):
        SGD([ndl.Tensor([1.0])]).clip_grad_norm(value)


def test_a_negative_largest_norm_is_an_error():
    with pytest.raises(ValueError, match="max_norm is at least 0, got -1"):
        SGD([ndl.Tensor([1.0])]).clip_grad_norm(-1)


# ------------------------------------------------------------------------------------------------------ the parameters


def test_a_parameter_listed_twice_is_updated_once():
    w = ndl.Tensor([0.0])
    w.grad = ndl.Tensor([1.0])
    optimizer = SGD([w, w], lr=1.0)
    optimizer.step()
    assert len(optimizer.params) == 1 and w.numpy().tolist() == [-1.0]


def test_a_generator_of_parameters_is_read_once_and_kept():
    w = ndl.Tensor([0.0])
    optimizer = SGD(p for p in [w])
    assert optimizer.params == [w]


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ([], ValueError, "the list of parameters is empty"),
        (3, TypeError, r"model.parameters\(\), got int"),
        (ndl.Tensor([1.0]), TypeError, r"model.parameters\(\), got Tensor"),
        ([ndl.Tensor([1.0]), np.ones(2)], TypeError, "parameter 1 is a ndarray, not a Tensor"),
        ([ndl.Tensor([1.0]) * 2], ValueError, "parameter 0 is the result of MulScalar"),
    ],
)
def test_what_is_no_list_of_leaves_is_an_error(params, error, text):
    with pytest.raises(error, match=text):
        SGD(params)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda p: SGD(p, lr=-1), ValueError, "SGD: lr is a finite number of at least 0, got -1"),
        (lambda p: SGD(p, lr=float("nan")), ValueError, "got nan"),
        (lambda p: SGD(p, lr="0.1"), TypeError, "SGD: lr is a number, got str"),
        (lambda p: SGD(p, momentum=1.0), ValueError, "momentum is at least 0 and below 1"),
        (lambda p: SGD(p, nesterov=True), ValueError, "momentum must be above 0"),
        (lambda p: Adam(p, beta2=1.0), ValueError, "Adam: beta2 is at least 0 and below 1"),
        (lambda p: AdamW(p, weight_decay=-0.1), ValueError, "AdamW: weight_decay"),
    ],
)
def test_a_number_out_of_range_is_an_error(make, error, text):
    with pytest.raises(error, match=text):
        make([ndl.Tensor([1.0])])


# ------------------------------------------------------------------------------------------ settings between the steps


CHANGES = {
    "momentum up": (lambda p: SGD(p, lr=0.1, momentum=0.5), {"momentum": 0.9}),
    "momentum down": (lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True), {"momentum": 0.2}),
    "momentum off": (lambda p: SGD(p, lr=0.1, momentum=0.9), {"momentum": 0.0}),
    "momentum on": (lambda p: SGD(p, lr=0.1), {"momentum": 0.9}),
    "lr": (lambda p: SGD(p, lr=0.1, momentum=0.9), {"lr": 0.7}),
    "beta1": (lambda p: Adam(p, lr=0.1), {"beta1": 0.5}),
    "beta2": (lambda p: Adam(p, lr=0.1), {"beta2": 0.9}),
    "all of adam's": (
        lambda p: AdamW(p, lr=0.1),
        {"lr": 0.2, "beta1": 0.0, "beta2": 0.5, "weight_decay": 0.3, "eps": 0.1},
    ),
}


def by_the_book(optimizer, p, u, v, t, g):
    """One step with the present settings: p and its averages after it."""
    o = optimizer
    if isinstance(o, SGD):
        u = o.momentum * u + (1 - o.momentum) * g
        along = o.momentum * u + (1 - o.momentum) * g if o.nesterov else u
        return p - o.lr * along, u if o.momentum else 0 * u, v
    u, v = o.beta1 * u + (1 - o.beta1) * g, o.beta2 * v + (1 - o.beta2) * g * g
    decayed = p * (1 - o.lr * o.weight_decay) if isinstance(o, AdamW) else p
    return decayed - o.lr * (u / (1 - o.beta1**t)) / (np.sqrt(v / (1 - o.beta2**t)) + o.eps), u, v


@pytest.mark.parametrize("make, changes", CHANGES.values(), ids=CHANGES)
def test_a_setting_that_is_assigned_holds_from_the_next_step_on(make, changes):
    params = parameters()
    expected = [(p.numpy().copy(), 0.0, 0.0) for p in params]
    optimizer, t = make(params), 0
    before = {name: getattr(optimizer, name) for name in changes}
    for settings in ({}, changes, before):
        for name, value in settings.items():
            setattr(optimizer, name, value)
        for gradients in random_gradients(params, 2):
            t += 1
            run(optimizer, [gradients])
            expected = [by_the_book(optimizer, *e, t, g) for e, g in zip(expected, gradients)]
    for p, (value, u, v) in zip(params, expected):
        close(p.numpy(), value)
        averages = (optimizer.m, optimizer.v) if isinstance(optimizer, Adam) else (optimizer.u,)
        for average, wanted in zip(averages, (u, v)):
            close(average.get(p, np.zeros(p.shape)), wanted + np.zeros(p.shape))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_setting_that_is_assigned_its_own_value_changes_no_bit(make):
    params = parameters("float32")
    twins = [ndl.Tensor(p.numpy()) for p in params]
    steps, optimizer, other = random_gradients(params, 3), make(params), make(twins)
    for gradients in steps:
        run(optimizer, [gradients])
        run(other, [gradients])
        for name in other._settings:
            setattr(other, name, getattr(other, name))
    assert all(np.array_equal(p.numpy(), twin.numpy()) for p, twin in zip(params, twins))


@pytest.mark.parametrize(
    ("make", "setting", "value", "error", "text"),
    [
        (SGD, "lr", -1, ValueError, "SGD: lr is a finite number of at least 0, got -1"),
        (SGD, "lr", "a", TypeError, "SGD: lr is a number, got str"),
        (SGD, "momentum", 1.0, ValueError, "SGD: momentum is at least 0 and below 1, got 1.0"),
        (SGD, "nesterov", 1, TypeError, "SGD: nesterov is True or False, got 1"),
        (SGD, "nesterov", True, ValueError, "SGD: nesterov looks ahead along the momentum"),
        (Adam, "beta1", 1.5, ValueError, "Adam: beta1 is at least 0 and below 1, got 1.5"),
        (Adam, "beta2", None, TypeError, "Adam: beta2 is a number, got NoneType"),
        (Adam, "eps", 1e-50, ValueError, "Adam: eps=1e-50 is zero in the float32 of parameter 0"),
        (AdamW, "weight_decay", float("nan"), ValueError, "AdamW: weight_decay is a finite number"),
    ],
)
def test_a_setting_is_checked_when_it_is_assigned_and_stays_if_it_is_wrong(make, setting, value, error, text):
    optimizer = make([ndl.Tensor([1.0], dtype="float32")])
    before = optimizer.state_dict()["settings"]
    with pytest.raises(error, match=text):
        setattr(optimizer, setting, value)
    assert optimizer.state_dict()["settings"] == before


@pytest.mark.parametrize("first, then", [(0.9, 0.0), (0.0, 0.9), (0.9, 0.5)])
def test_a_state_saved_after_momentum_was_changed_can_be_loaded(first, then):
    params, twins = ([ndl.Tensor(np.ones(3))] for _ in range(2))
    optimizer, other = SGD(params, momentum=first), SGD(twins)
    run(optimizer, [[np.ones(3)]])
    optimizer.momentum = then
    twins[0].data = params[0].data
    other.load_state_dict(optimizer.state_dict())
    run(optimizer, [[np.ones(3)]])
    run(other, [[np.ones(3)]])
    assert np.array_equal(params[0].numpy(), twins[0].numpy())


@pytest.mark.parametrize("make", [SGD, Adam])
def test_a_setting_is_read_as_fast_as_any_attribute(make):
    assert all(not hasattr(vars(make)[name], "__get__") for name in make._settings)


def test_a_gradient_of_another_shape_is_an_error_before_anything_changes():
    a, b = ndl.Tensor([1.0]), ndl.Tensor([1.0, 2.0])
    a.grad, b.grad = ndl.Tensor([1.0]), ndl.Tensor([1.0])
    optimizer = Adam([a, b])
    with pytest.raises(ValueError, match=r"Adam: parameter 1 has shape \(2,\) on \w+\(1?\), its gradient \(1,\)"):
        optimizer.step()
    assert a.numpy().tolist() == [1.0] and optimizer.t == 0


def test_an_integer_parameter_is_an_error():
    with pytest.raises(TypeError, match="parameter 0 has dtype int64"):
        SGD([ndl.Tensor(np.array([1]))]).step()


def test_an_eps_that_is_zero_in_the_parameters_dtype_is_an_error():
    w = ndl.Tensor(np.ones(2, dtype="float16"))
    with pytest.raises(ValueError, match="eps=1e-08 is zero in the float16 of parameter 0"):
        Adam([w]).step()


def test_an_optimizer_without_a_step_says_so():
    with pytest.raises(NotImplementedError, match="Optimizer has no step"):
        Optimizer([ndl.Tensor([1.0])]).step()


# -------------------------------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_training_goes_on_bit_for_bit_from_a_saved_state(make):
    params = parameters("float32", shapes=[(3, 4), (4,), (SMALL,)])
    steps = random_gradients(params, 6)
    optimizer = make(params)
    run(optimizer, steps[:3])
    saved, values = optimizer.state_dict(), [p.numpy().copy() for p in params]
    run(optimizer, steps[3:])

    copies = [ndl.Tensor(v) for v in values]
    resumed = make(copies)
    resumed.lr = 77.0
    settings = json.loads(json.dumps({key: saved[key] for key in ("optimizer", "t", "settings")}))
    resumed.load_state_dict({**settings, "arrays": saved["arrays"]})
    run(resumed, steps[3:])
    for p, copy in zip(params, copies):
        np.testing.assert_array_equal(copy.numpy(), p.numpy())


def test_a_saved_state_is_a_copy():
    w = ndl.Tensor([1.0])
    optimizer = Adam([w])
    run(optimizer, [[np.ones(1)]])
    saved = optimizer.state_dict()
    before = saved["arrays"]["g_sum.0"].copy()
    run(optimizer, [[np.ones(1)]])
    np.testing.assert_array_equal(saved["arrays"]["g_sum.0"], before)


def spoilt(state, **changes):
    return {**state, **changes}


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda s: spoilt(s, optimizer="SGD"), "Adam: cannot load the state of 'SGD'"),
        (lambda s: spoilt(s, t=-1), "'t' is the number of steps made, got -1"),
        (lambda s: spoilt(s, settings={"lr": 0.1}), "missing settings beta1, beta2, eps, weight_decay"),
        (lambda s: spoilt(s, settings={**s["settings"], "beta1": 2.0}), "beta1 is at least 0 and below 1, got 2"),
        (lambda s: spoilt(s, settings={**s["settings"], "speed": 1}), "unexpected setting speed"),
        (lambda s: spoilt(s, arrays={}), r"missing arrays g2_sum.0, g2_sum.1, g_sum.0, g_sum.1"),
        (
            lambda s: spoilt(s, arrays={**s["arrays"], "g_sum.0": np.ones(5), "g_sum.2": np.ones(1)}),
            r"unexpected array g_sum.2; array 'g_sum.0' is float64 of shape \(5,\), its parameter float64 of \(2,\)",
        ),
        (lambda s: spoilt(s, arrays={**s["arrays"], "g_sum.0": np.ones(2, "float32")}), "'g_sum.0' is float32"),
    ],
)
def test_a_state_that_does_not_fit_is_named_and_changes_nothing(spoil, text):
    params = parameters(shapes=[(2,), (3,)])
    steps = random_gradients(params, 3)
    optimizer = Adam(params, lr=0.1)
    run(optimizer, steps[:1])
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(
            spoil(Adam(params, lr=0.7, beta1=0.5).state_dict() | {"t": 4, "arrays": before["arrays"]})
        )
    after = optimizer.state_dict()
    assert (after["t"], after["settings"]) == (before["t"], before["settings"])
    for name, array in before["arrays"].items():
        np.testing.assert_array_equal(after["arrays"][name], array)


@pytest.mark.parametrize("state", [None, 3, [1]], ids=repr)
def test_a_state_that_is_no_dictionary_is_an_error(state):
    w = ndl.Tensor([1.0])
    for stateful in (Adam([w]), SGD([w]), ndl.optim.StepLR(SGD([w]), 1)):
        with pytest.raises(TypeError, match=rf"^{type(stateful).__name__}: a state is a dictionary, as state_dict\(\)"):
            stateful.load_state_dict(state)


def test_a_state_from_before_the_first_step_can_be_loaded():
    w = ndl.Tensor([1.0])
    optimizer = Adam([w])
    fresh = optimizer.state_dict()
    run(optimizer, [[np.ones(1)]])
    optimizer.load_state_dict(fresh)
    assert optimizer.t == 0 and optimizer.m == {}


def test_state_follows_a_parameter_to_another_dtype():
    w = ndl.Tensor(np.ones(3, dtype="float32"))
    optimizer = Adam([w])
    run(optimizer, [[np.ones(3, dtype="float32")]])
    m = ndl.backend.to_numpy(optimizer.m[w])
    w.cached_data = w.detach().astype("float64").cached_data
    run(optimizer, [[np.zeros(3)]])
    assert optimizer.m[w].dtype == "float64"
    close(optimizer.m[w], 0.9 * m, 1e-6)


@pytest.mark.parametrize("optimizer", [ndl.optim.SGD, ndl.optim.Adam])
def test_an_optimizer_that_has_made_a_step_is_copied_with_its_model(optimizer):
    weight = ndl.nn.Parameter(np.ones(3))
    opt = optimizer([weight], lr=0.1)
    (weight * weight).sum().backward(create_graph=False)
    opt.step()
    twin_weight, twin = deepcopy((weight, opt))
    assert pickle.loads(pickle.dumps(opt)).t == 1
    for w, o in ((weight, opt), (twin_weight, twin)):
        (w * w).sum().backward(create_graph=False)
        o.step()
    assert np.array_equal(weight.numpy(), twin_weight.numpy()) and twin_weight is not weight
