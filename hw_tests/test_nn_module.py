"""Modules: what is found in them and under which name, switches, moving, text."""

import copy
import pickle

import numpy as np
import pytest

import needle as ndl
from needle import init, nn


class Tree(nn.Module):
    """Parameters and modules wherever a user may put them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(init.ones(2))
        self.listed = [nn.Parameter(init.ones(3)), (nn.Linear(1, 2),)]
        self.keyed = {"a": {"b": nn.Parameter(init.ones(4))}, 7: nn.Identity()}
        self.running = init.zeros(5)
        self._scratch = init.zeros(6)
        self.settings = "no tensor"


def names(pairs):
    return [name for name, _ in pairs]


def test_parameters_are_found_in_attributes_lists_tuples_and_dicts_in_the_order_of_assignment():
    model = Tree()
    assert names(model.named_parameters()) == ["first", "listed.0", "listed.1.0.weight", "listed.1.0.bias", "keyed.a.b"]
    assert [p.shape for p in model.parameters()] == [(2,), (3,), (1, 2), (1, 2), (4,)]


def test_buffers_are_plain_tensors_but_not_those_of_private_attributes_or_computed_ones():
    model = Tree()
    model.computed = model.first * 2
    model.pair = (init.zeros(7),)
    assert names(model.named_buffers()) == ["running", "pair.0"]
    assert names(nn.BatchNorm1d(2).named_buffers()) == ["running_mean", "running_var"]


def test_private_attributes_hold_parameters_all_the_same():
    model = nn.Module()
    model._weight = nn.Parameter(init.ones(2))
    model._layers = [nn.Linear(1, 1, bias=False)]
    assert names(model.named_parameters()) == ["_weight", "_layers.0.weight"]


def test_a_parameter_shared_by_two_modules_is_listed_once_under_its_first_name():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model.modules[1].weight = model.modules[0].weight
    assert names(model.named_parameters()) == ["modules.0.weight"]
    layer = nn.Linear(2, 2)
    assert len(nn.Sequential(layer, layer).parameters()) == 2


def test_a_cycle_of_modules_and_containers_ends():
    model = nn.Sequential(nn.Linear(2, 2))
    model.modules[0].parent = model
    model.modules[0].container = container = [model]
    container.append(container)
    assert len(model.parameters()) == 2
    assert names(model.named_modules()) == ["", "modules.0"]
    model.eval().train()
    assert "the same as the root" in repr(model)


def test_a_module_nested_ten_thousand_deep_is_no_recursion():
    model = nn.Linear(1, 1)
    for _ in range(10_000):
        model = nn.Residual(model)
    assert len(model.parameters()) == 2
    assert not model.eval().training


def test_modules_are_listed_before_what_is_in_them():
    model = nn.Sequential(nn.Residual(nn.Linear(2, 2)), nn.ReLU())
    assert names(model.named_modules()) == ["", "modules.0", "modules.0.fn", "modules.1"]
    assert model.children() == list(model.modules)


def test_training_mode_reaches_every_module():
    model = nn.Sequential(nn.Residual(nn.Dropout()), nn.BatchNorm1d(2))
    assert all(module.training for _, module in model.named_modules())
    assert model.eval() is model
    assert not any(module.training for _, module in model.named_modules())
    assert model.train() is model
    assert all(module.training for _, module in model.named_modules())


def test_a_module_that_forgot_super_init_works():
    class Forgetful(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(init.ones(1))

    assert Forgetful().training and len(Forgetful().parameters()) == 1


def test_a_module_without_forward_says_so():
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty has no forward"):
        Empty()(1)


def test_calling_a_module_passes_all_arguments_on():
    class Echo(nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    assert Echo()(1, 2, key=3) == ((1, 2), {"key": 3})


def test_apply_visits_inner_modules_first():
    seen = []
    model = nn.Sequential(nn.Residual(nn.Tanh()), nn.ReLU())
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen.index("Tanh") < seen.index("Residual") < seen.index("Sequential") == len(seen) - 1


def test_to_keeps_the_parameters_and_refuses_what_is_no_device():
    model = nn.Linear(2, 2)
    before = model.parameters()
    assert model.to(ndl.cpu()) is model
    assert all(a is b for a, b in zip(model.parameters(), before))
    with pytest.raises(TypeError, match=r"ndl\.cpu\(\)"):
        model.to("cpu")


def test_to_a_device_that_cannot_be_used_moves_nothing():
    device = ndl.cuda(99)
    if device.enabled():
        pytest.skip("this machine has a GPU number 99")
    model = nn.Linear(2, 2)
    before = [p.device for p in model.parameters()]
    with pytest.raises(RuntimeError):
        model.to(device)
    assert [p.device for p in model.parameters()] == before


def test_copies_are_independent():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for clone in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert names(clone.named_parameters()) == names(model.named_parameters())
        assert all(type(p) is nn.Parameter for p in clone.parameters())
        clone.modules[0].weight.realize_cached_data()[:] = 7
        assert not (model.modules[0].weight.numpy() == 7).any()


def test_a_parameter_is_a_leaf_tensor_that_requires_grad():
    p = nn.Parameter(init.ones(2))
    assert isinstance(p, ndl.Tensor) and p.requires_grad and p.is_leaf()
    (p * 2).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), [2, 2])


def test_the_text_of_a_module_is_a_tree_with_shapes_and_counts():
    shared = nn.Linear(3, 3, bias=False)
    model = nn.Sequential(nn.Residual(nn.Sequential(nn.Linear(3, 3), nn.ReLU())), shared, shared)
    assert repr(model) == "\n".join(
        [
            "Sequential · 21 parameters",
            "├─ modules.0: Residual · 12 parameters",
            "│  └─ fn: Sequential · 12 parameters",
            "│     ├─ modules.0: Linear(in_features=3, out_features=3) · weight (3, 3), bias (1, 3) · 12 parameters",
            "│     └─ modules.1: ReLU",
            "├─ modules.1: Linear(in_features=3, out_features=3) · weight (3, 3) · 9 parameters",
            "└─ modules.2: Linear (the same as modules.1)",
        ]
    )


MODULES = {
    "Linear": lambda **kind: nn.Linear(3, 2, **kind),
    "Conv": lambda **kind: nn.Conv(3, 2, 3, **kind),
    "BatchNorm1d": lambda **kind: nn.BatchNorm1d(3, **kind),
    "BatchNorm2d": lambda **kind: nn.BatchNorm2d(3, **kind),
    "LayerNorm1d": lambda **kind: nn.LayerNorm1d(3, **kind),
    "LayerNorm": lambda **kind: nn.LayerNorm(3, **kind),
    "Embedding": lambda **kind: nn.Embedding(3, 2, **kind),
    "RNNCell": lambda **kind: nn.RNNCell(3, 2, **kind),
    "LSTM": lambda **kind: nn.LSTM(3, 2, **kind),
    "GRU": lambda **kind: nn.GRU(3, 2, **kind),
    "AttentionLayer": lambda **kind: nn.AttentionLayer(4, 2, 2, **kind),
    "TransformerLayer": lambda **kind: nn.TransformerLayer(4, 2, 2, 8, **kind),
    "Transformer": lambda **kind: nn.Transformer(4, 8, 1, **kind),
    "AdaptiveBlur": lambda **kind: nn.AdaptiveBlur(3, **kind),
    "MultiHeadAttention": nn.MultiHeadAttention,
    "Dropout": nn.Dropout,
    "Sequential": nn.Sequential,
    "Residual": lambda **kind: nn.Residual(nn.ReLU(), **kind),
    "ReLU": nn.ReLU,
    "Flatten": nn.Flatten,
    "SoftmaxLoss": nn.SoftmaxLoss,
}


@pytest.mark.parametrize("name", MODULES)
def test_every_module_refuses_what_is_no_device_or_no_floating_dtype(name):
    for device in ("cuda", 0, object()):
        with pytest.raises(TypeError, match=rf"^{name}: a device is ndl.cpu\(\) or ndl.cuda\(\), got"):
            MODULES[name](device=device)
    for dtype in ("int32", "bool", "complex64", "no such"):
        with pytest.raises(TypeError, match=rf"^{name}: a floating dtype, such as 'float32', is needed, got"):
            MODULES[name](dtype=dtype)


@pytest.mark.parametrize("fn", [None, "a", 3])
def test_apply_takes_a_function(fn):
    with pytest.raises(TypeError, match=r"^Linear.apply: a function of a module is needed, got"):
        nn.Linear(1, 1).apply(fn)


@pytest.mark.parametrize("value", [ndl.Tensor([1.0]), np.ones((2, 2)), 3], ids=["tensor", "array", "number"])
def test_a_parameter_is_not_replaced_by_what_no_optimizer_would_find(value):
    layer = nn.Linear(2, 2)
    before = layer.weight
    with pytest.raises(TypeError, match=r"Linear: weight is a parameter, got \w+: assign another Parameter"):
        layer.weight = value
    assert layer.weight is before
    layer.weight = nn.Parameter(np.ones((2, 2)))
    layer.bias = None
    assert layer.parameters() == [layer.weight]
