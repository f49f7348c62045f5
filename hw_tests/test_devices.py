"""Devices: moving and mixing them, and what a GPU would make of needle, on an emulated one.

The emulated GPU (`emulated`) is as strict as cupy, and counts: so these tests run wherever cupy is installed, with or
without a GPU. ``pytest --device emulated`` runs all other tests on it as well.
"""

import gc
import pathlib
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_cases import CASES, Draw
from shared import Planted

import needle as ndl
from needle import backend, memory, nn
from needle.gradcheck import gradgradcheck
from needle.nn.blur import AdaptiveBlur

emulated = pytest.importorskip(
    "emulated", reason="stands in for cupy, and asks it what it offers: pip install cupy-cuda13x"
)
xp = emulated.cupy


@pytest.fixture
def gpu():
    """The emulated GPU, as the default device."""
    with emulated.use() as device:
        yield device


def on(device, *shape, dtype="float64"):
    return ndl.Tensor(np.random.randn(*shape).astype(dtype), device=device)


# ------------------------------------------------------------------------------------------------------ training steps


def test_a_training_step_of_mlp_resnet_neither_waits_nor_copies():
    from launch_table import Training

    training = Training()
    training.step()
    with emulated.counting(forbid_syncs=True) as counts:
        training.step()
    assert counts.syncs == 0
    assert set(counts.names) >= {"launch adam_float", "launch cross_entropy_float", "launch normalize_float"}
    # The table of the parameters' addresses. Where memory comes from a pool, as cupy's, it is soon the same each step.
    assert counts.uploads <= 1


def test_the_table_in_the_documentation_is_what_is_counted():
    from launch_table import table

    from apps.bench.workloads import mlp_resnet

    page = pathlib.Path(__file__).parent.parent / "docs" / "devices.md"
    assert table() in page.read_text(encoding="utf-8")
    (launches,) = re.findall(r"\| whole step \| (\d+) \|", table())
    assert mlp_resnet.MLP_RESNET.gpu_launches == int(launches)


def test_training_on_the_gpu_is_training_on_the_cpu():
    from launch_table import Training

    np.random.seed(1)
    here = Training(drop_prob=0.0, device=ndl.cpu())
    np.random.seed(1)
    there = Training(drop_prob=0.0)
    for _ in range(3):
        here.step()
        there.step()
    for a, b in zip(here.model.parameters(), there.model.parameters()):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-3, atol=2e-4)


LAYERS = {
    "linear": lambda: (nn.Linear(4, 3), (5, 4)),
    "batch norm": lambda: (nn.BatchNorm1d(4), (5, 4)),
    "batch norm of images": lambda: (nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "layer norm": lambda: (nn.LayerNorm1d(4), (5, 4)),
    "layer norm of many rows": lambda: (nn.LayerNorm1d(4), (600, 4)),
    "dropout": lambda: (nn.Dropout(0.5), (5, 4)),
    "relu": lambda: (nn.ReLU(), (5, 4)),
    "tanh": lambda: (nn.Tanh(), (5, 4)),
    "sigmoid": lambda: (nn.Sigmoid(), (5, 4)),
    "flatten": lambda: (nn.Flatten(), (5, 2, 2)),
    "residual": lambda: (nn.Residual(nn.Linear(4, 4)), (5, 4)),
    "convolution": lambda: (nn.Conv(2, 3, 3), (2, 2, 5, 5)),
    "strided convolution": lambda: (nn.Conv(2, 3, 3, stride=2), (2, 2, 6, 6)),
    "rnn": lambda: (nn.RNN(4, 3), (6, 2, 4)),
    "lstm": lambda: (nn.LSTM(4, 3, 2), (6, 2, 4)),
    "attention": lambda: (nn.AttentionLayer(4, 2, 3), (2, 6, 4)),
    "transformer layer": lambda: (nn.TransformerLayer(4, 2, 3, 5), (2, 6, 4)),
    "adaptive blur": lambda: (AdaptiveBlur((6, 3), radius=2.5), (6, 3)),
}


def gradients_of(layer, x):
    out = layer(x)
    out = out[0] if isinstance(out, tuple) else out
    weights = np.random.RandomState(0).standard_normal(out.shape)
    (out * ndl.Tensor(weights, device=x.device, dtype=x.dtype, requires_grad=False)).sum().backward(create_graph=False)
    return [out, x.grad, *[p.grad for p in layer.parameters()]]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_the_same_on_the_gpu_without_waiting_for_it(name):
    np.random.seed(3)
    layer, shape = LAYERS[name]()
    layer.to(ndl.cpu())
    x = np.random.randn(*shape).astype("float32")
    here = [a.numpy() for a in gradients_of(layer, ndl.Tensor(x, device=ndl.cpu()))]
    layer.to(emulated.device())
    there = ndl.Tensor(x, device=emulated.device())
    gradients_of(layer, there)  # what is made once, is made
    with emulated.counting(forbid_syncs=True):
        results = gradients_of(layer, there)
    for a, b in zip(here, results):
        assert b.device == emulated.device()
        if name != "dropout":  # which draws other numbers there
            np.testing.assert_allclose(b.numpy(), a, rtol=1e-4, atol=1e-5)


OPTIMIZERS = {
    "sgd": lambda p: ndl.optim.SGD(p, lr=0.1),
    "sgd with momentum": lambda p: ndl.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "nesterov": lambda p: ndl.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: ndl.optim.Adam(p, lr=0.1, weight_decay=0.1),
    "adamw": lambda p: ndl.optim.AdamW(p, lr=0.1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_steps_all_parameters_in_one_launch_as_on_the_cpu(name, dtype):
    start = [np.random.randn(n).astype(dtype) for n in (3, 5000, 1)]
    grads = [np.random.randn(4, n).astype(dtype) for n in (3, 5000, 1)]
    results = []
    for device in (ndl.cpu(), emulated.device()):
        params = [ndl.Tensor(a, device=device) for a in start]
        optimizer = OPTIMIZERS[name](params)
        for step in range(4):
            for p, g in zip(params, grads):
                p.grad = ndl.Tensor(g[step], device=device, requires_grad=False)
            with emulated.counting(forbid_syncs=True) as counts:
                optimizer.step()
        results.append([p.numpy() for p in params])
    assert counts.launches == 1
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, rtol={"float32": 1e-4, "float64": 1e-12}[dtype], atol=1e-6)


@pytest.mark.parametrize("device", [ndl.cpu(), emulated.device()], ids=repr)
def test_bias_and_relu_in_one_node_are_what_they_are_in_two(device):
    x, bias = on(device, 2, 3, 4), on(device, 4)
    np.testing.assert_array_equal(ndl.bias_relu(x, bias).numpy(), ndl.relu(x + bias).numpy())
    gradgradcheck(ndl.bias_relu, [x, bias])
    with emulated.counting() as counts:
        ndl.bias_relu(x, bias)
    assert counts.launches == (device != ndl.cpu())
    with pytest.raises(ValueError, match=r"BiasReLU: x of shape \(2, 3, 4\) needs a bias of shape \(4,\), got \(3,\)"):
        ndl.bias_relu(x, on(device, 3))


def test_clipping_and_its_norm_stay_on_the_gpu(gpu):
    w = on(gpu, 5)
    (w * w).sum().backward(create_graph=False)
    expected = np.linalg.norm(w.grad.numpy())
    optimizer = ndl.optim.SGD([w])
    with emulated.counting(forbid_syncs=True):
        norm = optimizer.clip_grad_norm(0.5)
    assert norm.item() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(np.linalg.norm(w.grad.numpy()), 0.5, rtol=1e-5)


def test_a_step_that_somebody_looks_back_from_leaves_the_old_values(gpu):
    w = on(gpu, 4)
    before, held = w.numpy(), w.data
    (w * w).sum().backward(create_graph=False)
    ndl.optim.SGD([w], lr=0.5).step()
    np.testing.assert_array_equal(held.numpy(), before)
    np.testing.assert_allclose(w.numpy(), before - 0.5 * 2 * before, atol=1e-15)


# ------------------------------------------------------------------------------------------- batches of matrix products


def laid_out(shape, order, dtype):
    """Random numbers on the emulated GPU, with the axes of a matrix in memory as `order` says."""
    values = np.random.randn(*shape).astype(dtype)
    return {
        "in order": lambda: xp.array(values),
        "transposed": lambda: xp.array(values.swapaxes(-1, -2).copy()).swapaxes(-1, -2),
        "rows with gaps": lambda: xp.array(np.concatenate([values, values], -1))[..., : shape[-1]],
        "one for all": lambda: xp.broadcast_to(xp.array(values[0, 0]), shape),
        "batch axes exchanged": lambda: xp.array(values.swapaxes(0, 1).copy()).swapaxes(0, 1),
        "backwards": lambda: xp.array(values)[:, :, ::-1],
    }[order]()


COPIES = {"batch axes exchanged": 1, "backwards": 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("right", ["in order", "transposed", "rows with gaps", "one for all", *COPIES])
@pytest.mark.parametrize("left", ["in order", "transposed", "rows with gaps", "one for all", *COPIES])
def test_a_batch_of_products_copies_no_operand_that_cublas_can_read(left, right, dtype):
    a, b = laid_out((2, 3, 4, 5), left, dtype), laid_out((2, 3, 5, 6), right, dtype)
    expected = np.matmul(a.get(), b.get())
    with emulated.counting() as counts:
        result = ndl.ops.MatMul().compute(a, b)
    np.testing.assert_allclose(result.get(), expected, rtol={"float32": 1e-4, "float64": 1e-12}[dtype], atol=1e-5)
    if left in COPIES or right in COPIES:
        assert counts.names["launch matmul"] >= 2  # cupy's own
    else:
        letter = {"float32": "s", "float64": "d"}[dtype]
        assert counts.launches == counts.names[f"launch {letter}gemmStridedBatched"] == 1


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 3), max_size=2), *[st.integers(0, 3)] * 3,
    st.sampled_from([(1, 1), (0, 1), (1, 0)]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_products_of_batches_of_all_shapes_are_numpys(batch, n, k, m, kept, turn_a, turn_b):
    a = np.random.randn(*[size if kept[0] else 1 for size in batch], *((k, n) if turn_a else (n, k)))
    b = np.random.randn(3, *[size if kept[1] else 1 for size in batch], *((m, k) if turn_b else (k, m)))
    on_gpu = [
        xp.array(array).swapaxes(-1, -2) if turn else xp.array(array) for array, turn in ((a, turn_a), (b, turn_b))
    ]
    a, b = (array.get() for array in on_gpu)
    np.testing.assert_allclose(ndl.ops.MatMul().compute(*on_gpu).get(), a @ b, atol=1e-12)


def test_neither_direction_of_a_batch_of_products_copies_an_operand():
    a, b = on(emulated.device(), 3, 4, 5), on(emulated.device(), 3, 6, 5)
    with emulated.counting() as counts:
        (a @ ndl.transpose(b)).backward(ndl.Tensor(xp.ones((3, 4, 6))), create_graph=False)
    assert counts.names["launch dgemmStridedBatched"] == 3
    assert counts.names["launch matmul"] == 0


# -------------------------------------------------------------------------------------------------------- all the ops


#: What a mask picks has a size that only the GPU knows, and an index of the GPU is looked at to refuse it out of range.
WAITING = ("GetItem", "CrossEntropyGrad")


@settings(max_examples=5)
@given(data=st.data())
@pytest.mark.parametrize("op", [op for op in CASES if op is not ndl.ops.ScatterAdd], ids=lambda op: op.__name__)
def test_an_op_gives_the_same_on_the_gpu_without_waiting_for_it(op, data):
    with emulated.use() as device:
        fn, inputs = CASES[op](Draw(data.draw))
        moved = [ndl.Tensor(x.numpy(), device=device) for x in inputs]
        try:
            out = fn(*moved)
        except ValueError as error:  # a case that has constants on the CPU
            assert "operands on" in str(error)
            return
        if not isinstance(out, ndl.Tensor) or not out.requires_grad:
            return
        with emulated.counting(forbid_syncs=op.__name__ not in WAITING):
            out.backward(create_graph=False)
        for x in moved:
            assert x.grad is None or x.grad.device == device


@pytest.mark.parametrize("make", [lambda a, n: a**n, lambda a, n: a ** xp.array([n, 1]), lambda a, n: 2 ** (a * n)])
def test_an_integer_to_a_negative_integer_power_is_an_error_on_a_gpu_too(gpu, make):
    assert (xp.array([2, 1, -1, -1]) ** xp.array([-1, -1, -1, -2])).get().tolist() == [0, 1, -1, 1]  # cupy's own
    a = ndl.Tensor([3, 2])
    assert make(a, 2).dtype == "int64"
    assert (ndl.Tensor([True, False]) ** 3).numpy().tolist() == [1, 0]
    with pytest.raises(ValueError, match="an integer to a negative integer power is a fraction"):
        make(a, -1)
    with emulated.counting(forbid_syncs=True):
        a**2, a.astype("float64") ** ndl.ops.negate(a)


def test_integers_are_compared_with_numbers_beyond_their_dtype(gpu):
    with pytest.raises(OverflowError):  # cupy's own
        xp.array([1], "uint8") < 300  # noqa: B015
    a = ndl.Tensor(np.array([1, 255]), dtype="uint8")
    for comparison in (lambda x: x < 300, lambda x: x <= -1, lambda x: x > 300, lambda x: x >= -1, lambda x: x < 255):
        np.testing.assert_array_equal(comparison(a).numpy(), comparison(a.numpy()))


def test_small_integers_are_labels_of_many_classes_in_half_precision(gpu):
    with pytest.raises(OverflowError):  # cupy's own
        xp.clip(xp.array([1], "uint8"), 0, 299)
    logits, labels = np.random.randn(2, 300).astype("float16"), np.array([0, 255], "uint8")
    losses = [ndl.cross_entropy(ndl.Tensor(logits, device=d), labels).item() for d in (ndl.cpu(), gpu)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


def test_rows_of_a_table_of_integers_that_are_not_there_are_zeros(gpu):
    table = ndl.Tensor([[1, 2], [3, 4]])
    assert ndl.embedding(table, ndl.Tensor([1, 2, -1])).numpy().tolist() == [[3, 4], [0, 0], [0, 0]]


# ------------------------------------------------------------------------------------------------------- moving, mixing


def test_moving_there_and_back_keeps_values_and_gradients(gpu):
    x = ndl.Tensor(np.random.randn(3), device=ndl.cpu())
    y = x.to(gpu)
    assert y.device == gpu
    (y * y).sum().cpu().backward()
    assert x.grad.device == ndl.cpu()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy())
    assert x.cpu() is x


def test_numpy_gives_a_copy_of_what_lives_on_a_gpu(gpu):
    x = on(gpu, 3)
    x.numpy()[...] = 7
    assert not (x.numpy() == 7).any()


def test_a_tensor_of_a_gpu_is_not_turned_into_an_array_implicitly(gpu):
    with pytest.raises(TypeError, match=r"on emulated\(\) .* use .numpy\(\)"):
        np.asarray(on(gpu, 3))


def test_operands_on_two_devices_are_an_error_that_names_both_and_the_op():
    a, b = on(emulated.device(), 2, 2), on(ndl.cpu(), 2, 2)
    for name, operation in {
        "EWiseAdd": lambda: a + b,
        "MatMul": lambda: a @ b,
        "Maximum": lambda: ndl.maximum(a, b),
    }.items():
        with pytest.raises(ValueError, match=rf"{name}: operands on emulated\(\) and cpu\(\): move one with \.to"):
            operation()


BESIDE = {
    "add": lambda a, array: ndl.add(a, array),
    "where": lambda a, array: ndl.where(array > 0, a, array),
    "*": lambda a, array: a * array,
    "reflected -": lambda a, array: array - a,
    "<": lambda a, array: a < array,
    "@": lambda a, array: a @ array,
    "reflected @": lambda a, array: array @ a,
    "matmul": lambda a, array: ndl.matmul(array, a),
    "einsum": lambda a, array: ndl.einsum("ij,jk->ik", array, a),
    "linear": lambda a, array: ndl.linear(a, array, array[0]),
    "concatenate": lambda a, array: ndl.concatenate([array, a]),
    "stack": lambda a, array: ndl.stack([a, array]),
    "conv": lambda a, array: ndl.conv(a.reshape((1, 2, 2, 1)), array.reshape(2, 2, 1, 1)),
    "adaptive_blur": lambda a, array: ndl.adaptive_blur(a, array),
    "layer_norm": lambda a, array: ndl.layer_norm(a, array[0], array[0]),
    "cross_entropy": lambda a, array: ndl.cross_entropy(a, array[0].astype(int)),
    "bias_relu": lambda a, array: ndl.bias_relu(a, array[0]),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_numpy_array_beside_a_tensor_of_a_gpu_is_moved_there(name):
    a, array = on(emulated.device(), 2, 2), np.ones((2, 2))
    assert BESIDE[name](a, array).device == emulated.device()


def test_an_op_that_checks_nothing_itself_names_the_devices_too():
    a, b = on(emulated.device(), 2), on(ndl.cpu(), 2)
    for values in ([a, b], [b, a]):
        with pytest.raises(ValueError, match=r"Concatenate: operands on \w+\(\) and \w+\(\): move one"):
            ndl.concatenate(values)
        with pytest.raises(ValueError, match=r"Stack: operands on \w+\(\) and \w+\(\): move one"):
            ndl.stack(values)


def test_two_gpus_compute_each_on_its_own_arrays():
    results = []
    for device in (emulated.device(0), emulated.device(1)):
        x = ndl.Tensor([1.0, 2.0], device=device)
        y = ndl.relu(x @ ndl.Tensor([[1.0], [2.0]], device=device)).sum()
        y.backward()
        assert y.device == x.grad.device == device
        results.append(x.grad.numpy().tolist())
    assert results[0] == results[1]


def test_copies_and_fillings_are_made_on_the_gpu_of_their_array_though_another_is_current():
    device = emulated.device(1)
    a, b, out_grad = (on(device, 3) for _ in range(3))
    (a + b).backward(out_grad, create_graph=False)  # all three would share one array
    for tensor, expected in (
        (a.grad, out_grad.numpy()),
        (b.grad, out_grad.numpy()),
        (ndl.init.zeros_like(a), np.zeros(3)),
        (ndl.init.ones_like(a), np.ones(3)),
    ):
        assert tensor.device == device
        np.testing.assert_array_equal(tensor.numpy(), expected)


ELSEWHERE = {
    "index": lambda a: a[ndl.Tensor([0, 1])],
    "mask": lambda a: a[a > 0],
    "two masks": lambda a: a[ndl.Tensor([True, True]), ndl.Tensor([True, False, True])],
    "dropout in half precision": lambda a: nn.Dropout(0.5)(a.astype("float16")),
    "step in half precision": lambda a: stepped(a.astype("float16"), a[0].astype("float16")),
    "step with one gradient": lambda a: stepped(a.astype("float16")),
}


def stepped(*values):
    """The first of some parameters after a step of Adam."""
    parameters = [ndl.Tensor(value) for value in values]
    for parameter in parameters:
        parameter.grad = parameter.detach()
    ndl.optim.Adam(parameters, eps=1e-4, weight_decay=0.1).step()
    return parameters[0]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_work_is_done_on_the_gpu_of_its_arrays_though_another_is_current(name):
    a = np.random.randn(2, 3)
    with emulated.use(1) as device:
        found = ELSEWHERE[name](ndl.Tensor(a))
    assert found.device == device
    if "dropout" not in name:
        with emulated.use(0):
            np.testing.assert_array_equal(found.numpy(), ELSEWHERE[name](ndl.Tensor(a)).numpy())


@pytest.mark.parametrize("differentiate", [lambda y, x: y.backward(create_graph=False), ndl.grad])
def test_backward_leaves_the_current_gpu_as_it_was_also_from_what_is_computed_lazily(differentiate):
    x = on(emulated.device(1), 3)
    with ndl.lazy():
        y = (x * x).sum()
    with emulated.device(0).current():
        differentiate(y, x)
        assert xp.cuda.Device().id == 0


def test_a_graph_over_two_gpus_goes_back_the_way_it_came():
    first, second = emulated.device(0), emulated.device(1)
    x = on(first, 3)
    y = (x * x).to(second)
    z = (y * 3 + x.to(second)).sum()
    for create_graph in (True, False):
        z.backward(create_graph=create_graph, retain_graph=True)
        assert x.grad.device == first
        np.testing.assert_allclose(x.grad.numpy(), 6 * x.numpy() + 1)


def test_a_view_with_gaps_can_be_moved_to_another_gpu():
    x = on(emulated.device(0), 2, 4)
    with pytest.raises(NotImplementedError), emulated.device(1).current():  # cupy's own
        xp.array(x.realize_cached_data()[:, ::2])
    assert not ndl.contiguous(x[:, ::2]).realize_cached_data().base
    np.testing.assert_array_equal(x[:, ::2].to(emulated.device(1)).numpy(), x.numpy()[:, ::2])


def test_a_gradient_on_another_gpu_than_its_parameter_is_an_error_before_anything_changes():
    w = on(emulated.device(0), 2)
    before = w.numpy()
    w.grad = on(emulated.device(1), 2)
    with pytest.raises(ValueError, match=r"on emulated\(\), its gradient \(2,\) on emulated\(1\)"):
        ndl.optim.SGD([w]).step()
    np.testing.assert_array_equal(w.numpy(), before)


def test_an_optimizer_follows_its_model_to_a_gpu(gpu):
    model = nn.Linear(3, 2, device=ndl.cpu())
    optimizer = ndl.optim.Adam(model.parameters())
    for device in (ndl.cpu(), gpu):
        model.to(device)
        model(on(device, 4, 3, dtype="float32")).sum().backward()
        optimizer.step()
    assert all(p.device == gpu for p in model.parameters())
    assert all(backend.device_of(m) == gpu for m in optimizer.m.values())


def test_a_tensor_of_a_gpu_can_be_pickled(gpu):
    x = on(gpu, 3)
    y = pickle.loads(pickle.dumps(x))
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_a_gradient_of_a_sum_can_be_written_into_on_a_gpu(gpu):
    x = on(gpu, 3)
    x.sum().backward(create_graph=False)
    x.grad.realize_cached_data()[0] = 5
    assert x.grad.numpy().tolist() == [5, 1, 1]


def test_the_loader_puts_batches_on_the_device_without_waiting(gpu):
    data = ndl.data.NDArrayDataset(np.arange(6.0), np.arange(6))
    with emulated.counting(forbid_syncs=True) as counts:
        batches = list(ndl.data.DataLoader(data, batch_size=4, device=gpu))
    assert [field.device for batch in batches for field in batch] == [gpu] * 4
    assert counts.uploads == 4
    assert batches[1][0].numpy().tolist() == [4, 5]


# ----------------------------------------------------------------------------------------------------- what is missing


def test_a_gpu_that_cannot_be_used_says_what_is_missing(monkeypatch):
    device = ndl.cuda(0)
    if device.enabled():
        pytest.skip("there is a GPU here")
    with pytest.raises(RuntimeError, match=r"cuda\(\) cannot be used: .*driver"):
        ndl.Tensor([1.0], device=device)
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    assert not device.enabled()
    with pytest.raises(RuntimeError, match=r"cuda\(\) cannot be used: cupy is not installed: pip install"):
        ndl.Tensor([1.0]).cuda()


def test_moving_a_module_to_a_gpu_that_is_missing_moves_nothing():
    if ndl.cuda(9).enabled():
        pytest.skip("there are ten GPUs here")
    model = nn.Linear(2, 2, device=ndl.cpu())
    with pytest.raises(RuntimeError, match="cannot be used"):
        model.to(ndl.cuda(9))
    assert all(p.device == ndl.cpu() for p in model.parameters())


@pytest.mark.parametrize("index", [-1, 1.0, True, "0"])
def test_a_gpu_has_a_number(index):
    with pytest.raises(ValueError, match="cuda: a GPU's number"):
        ndl.cuda(index)


@pytest.mark.gpu
def test_a_real_gpu_adds():
    assert (ndl.Tensor([1.0], device=ndl.cuda()) + 1).item() == 2


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # cupyx means to drop the switch one day
def test_a_real_gpu_is_not_waited_for_in_a_training_step():
    import cupyx
    from launch_table import Training

    training = Training(device=ndl.cuda())
    training.step()
    with cupyx.allow_synchronize(False):
        training.step()
        with pytest.raises(cupyx.DeviceSynchronized):
            training.model.parameters()[0].numpy()


# --------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "make",
    [lambda: ndl.Tensor(np.ones(1000)), lambda: ndl.init.zeros(1000, dtype="float64"), lambda: ndl.init.randn(2000)],
)
def test_running_out_of_memory_for_a_new_tensor_is_explained_too(gpu, make):
    pool = xp.get_default_memory_pool()
    pool.set_limit(pool.used_bytes() + 1000)
    try:
        with pytest.raises(backend.OutOfMemory, match=r"emulated\(\): Out of memory allocating 8,000 bytes[^$]*free: "):
            make()
    finally:
        pool.set_limit(0)


def test_running_out_of_memory_says_what_was_asked_what_is_free_and_who_holds_most(gpu):
    gc.collect()
    pool = xp.get_default_memory_pool()
    held = on(gpu, 1000)
    result = held * 2
    pool.set_limit(pool.used_bytes() + 1000)
    try:
        with pytest.raises(backend.OutOfMemory) as info:
            held + result
    finally:
        pool.set_limit(0)
    text = str(info.value)
    assert text.startswith("emulated(): Out of memory allocating 8,000 bytes")
    assert "free: 1,000 of" in text
    assert "held: 8,000 bytes, float64 of shape (1000,), the result of MulScalar" in text
    assert "held: 8,000 bytes, float64 of shape (1000,), a leaf" in text
    assert text.count("held:") <= 3


def test_a_gpus_memory_is_told_in_arrays_cached_and_free(gpu):
    gc.collect()
    before = memory.pool_statistics(gpu)
    held = on(gpu, 1000)
    after = memory.pool_statistics(gpu)
    assert after.used - before.used == held.realize_cached_data().nbytes == 8000
    assert (after.free, after.total) == (before.free - 8000, before.total)
    assert str(after).startswith("emulated()\n  used ")


@pytest.mark.parametrize("index", [0, 1])
def test_the_peak_on_a_gpu_is_that_gpus_own(index):
    x, other = (on(emulated.device(i), 1000) for i in (index, 1 - index))
    found = memory.peak(lambda: (other * other, Planted(lambda a: a * 1 * 2)(x)), device=emulated.device(index))
    assert (found.bytes, found.after) == (2 * 8000, 8000)  # the product that is no tensor counts, too


def test_the_cpu_has_no_pool():
    with pytest.raises(ValueError, match="pool_statistics: arrays of the CPU"):
        memory.pool_statistics(ndl.cpu())
    with pytest.raises(TypeError, match="pool_statistics: a device is"):
        memory.pool_statistics("cuda")


# -------------------------------------------------------------------------------------------------------------- numbers


def test_one_seed_begins_the_numbers_of_every_device_anew(gpu):
    def draws():
        ndl.random.seed(5)
        return [ndl.random.uniform((3,), "float32", d) for d in (ndl.cpu(), gpu, emulated.device(1))]

    first, second = ([backend.to_numpy(a).tolist() for a in draws()] for _ in range(2))
    assert first == second
    assert len({str(numbers) for numbers in first}) == 3


def test_random_numbers_go_on_from_a_state_on_every_device(gpu):
    def draws():
        return [backend.to_numpy(ndl.random.uniform((3,), "float32", d)).tolist() for d in (ndl.cpu(), gpu, gpu)]

    ndl.random.seed(5)
    draws()
    state = ndl.random.get_state()
    first = draws()
    assert draws() != first
    ndl.random.set_state(state)
    assert draws() == first


def test_random_numbers_of_a_gpu_that_nobody_seeded_can_be_drawn_again_too(gpu, monkeypatch):
    monkeypatch.setattr(ndl.random, "_seed", None)
    ndl.random.uniform((3,), "float32", gpu)
    state = ndl.random.get_state()
    first = ndl.random.uniform((3,), "float32", gpu).get().tolist()
    ndl.random.set_state(state)
    assert ndl.random.uniform((3,), "float32", gpu).get().tolist() == first


def test_random_numbers_go_on_from_no_other_state():
    with pytest.raises(TypeError, match=r"random\.set_state: a state that get_state\(\) gave is needed, got int"):
        ndl.random.set_state(3)


@pytest.mark.parametrize("value, error", [(-1, ValueError), (2**32, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_seed_is_a_number_of_32_bits(value, error):
    with pytest.raises(error, match=r"random\.seed"):
        ndl.random.seed(value)


def test_weights_are_the_same_wherever_they_are_made(gpu):
    np.random.seed(2)
    here = ndl.init.kaiming_uniform(4, 3, device=ndl.cpu())
    np.random.seed(2)
    there = ndl.init.kaiming_uniform(4, 3, device=gpu)
    assert there.device == gpu
    np.testing.assert_array_equal(there.numpy(), here.numpy())


def test_dropout_on_a_gpu_keeps_the_right_share_and_its_gradient_the_same_elements(gpu):
    from needle.ops.dropout import Dropout

    ndl.random.seed(0)
    x = ndl.Tensor(np.ones(20000, "float32"))
    y = Dropout(0.75)(x)
    y.sum().backward(create_graph=False)
    values, counts = np.unique(y.numpy(), return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / 0.75], rtol=1e-6)
    assert abs(counts[1] / 20000 - 0.75) < 0.015  # five standard deviations
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_dropout_of_fixed_numbers_passes_the_gradient_check_twice(gpu):
    from needle.ops.dropout import Dropout

    def drop(x):
        ndl.random.seed(3)
        return Dropout(0.5)(x) * x

    gradgradcheck(drop, [on(gpu, 6)])


def sums_at_random(dtype):
    """Gradients of indexing, where an index stands many times, from the same numbers."""
    rng = np.random.default_rng(0)
    table = ndl.Tensor(np.zeros(3), device=emulated.device(), dtype=dtype)
    index = ndl.Tensor(rng.integers(3, size=2000), device=emulated.device(), requires_grad=False)
    weights = ndl.Tensor(
        rng.standard_normal(2000) * 10.0 ** rng.integers(8, size=2000), device=emulated.device(), dtype=dtype
    )
    (ndl.ops.getitem(table, index) * weights.detach()).sum().backward(create_graph=False)
    expected = np.zeros(3)
    np.add.at(expected, index.numpy(), weights.numpy().astype("float64"))
    return table.grad.numpy(), expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deterministic_sums_have_the_same_bits_in_every_run(dtype):
    assert len({sums_at_random(dtype)[0].tobytes() for _ in range(10)}) > 1  # atomics: in order of arrival
    before = ndl.deterministic(True)
    try:
        results = [sums_at_random(dtype) for _ in range(10)]
    finally:
        ndl.deterministic(before)
    assert len({result.tobytes() for result, _ in results}) == 1
    np.testing.assert_allclose(results[0][0], results[0][1], rtol={"float32": 1e-4, "float64": 1e-12}[dtype])


def test_what_has_no_deterministic_version_is_refused(gpu):
    before = ndl.deterministic(True)
    try:
        with pytest.raises(RuntimeError, match="no sum of float16"):
            backend.scatter_add(xp.zeros(3, "float16"), xp.array([0, 0]), xp.ones(2, "float16"))
    finally:
        ndl.deterministic(before)


# ------------------------------------------------------------------------------------------------------------- exchange


def test_numpy_and_needle_share_memory_by_dlpack():
    array = np.arange(3.0)
    x = ndl.from_dlpack(array)
    again = np.from_dlpack(x)
    x.realize_cached_data()[0] = 9
    assert array[0] == again[0] == 9
    assert not x.requires_grad


def test_pytorch_and_needle_share_memory_by_dlpack(torch):
    x = ndl.from_dlpack(torch.arange(3.0))
    y = torch.from_dlpack(x)
    y[0] = 9
    assert x.numpy().tolist() == [9, 1, 2]
    assert (x * 2).numpy().tolist() == [18, 2, 4]


def test_a_gpus_array_is_shared_by_dlpack_and_taken_for_no_hosts(gpu):
    x = on(gpu, 3)
    y = ndl.from_dlpack(x)
    assert y.device == gpu
    y.realize_cached_data()[0] = 9
    assert x.numpy()[0] == 9
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(x)


def test_an_array_is_shared_by_the_gpu_that_it_lives_on_though_another_is_current():
    with pytest.raises(BufferError, match="nobody else's"):
        on(emulated.device(1), 3).__dlpack__()


class Foreign:
    """Another library's array on emulated GPU 1."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **request):
        return self.values.__dlpack__(**request)

    def __dlpack_device__(self):
        return 2, 1


def test_an_optimizer_does_not_write_into_the_memory_of_another_library(monkeypatch):
    monkeypatch.setattr(backend, "cuda", emulated.device)
    foreign = Foreign(np.ones(3))
    w = ndl.from_dlpack(foreign, requires_grad=True)
    assert w.device == emulated.device(1)
    (w * w).sum().backward(create_graph=False)
    ndl.optim.SGD([w], lr=0.25).step()
    assert foreign.values.tolist() == [1, 1, 1]
    assert w.numpy().tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("source", [[1.0], "text", np.ones(2, complex)])
def test_what_cannot_be_shared_is_refused(source):
    with pytest.raises(TypeError, match="from_dlpack"):
        ndl.from_dlpack(source)
