"""The classifier's loss: PyTorch's values and gradients, both orders of derivatives, extremes, errors."""

import weakref

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.gradcheck import gradcheck, gradgradcheck
from needle.ops import loss as loss_ops

DTYPES = ["float32", "float64"]


def problem(rows=6, classes=4, dtype="float64"):
    return np.random.randn(rows, classes).astype(dtype) * 3, np.random.randint(classes, size=rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "classes"), [(6, 4), (1, 1), (5, 1), (1, 7), (100, 10), (37, 2000)])
def test_the_loss_is_that_of_torch(torch, rows, classes, dtype):
    from torch_reference import assert_agree

    x, y = problem(rows, classes, dtype)
    labels = ndl.Tensor(y)

    def mine(x):
        return nn.SoftmaxLoss()(x, labels).reshape(1)

    def other(x):
        return torch.nn.functional.cross_entropy(x, torch.tensor(y)).reshape(1)

    assert_agree(mine, other, [x])


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32", "int64", "uint64", ">i4"])
def test_labels_of_any_integer_dtype_will_do_as_arrays_and_lists_too(kind):
    x, y = problem()
    expected = nn.SoftmaxLoss()(ndl.Tensor(x), ndl.Tensor(y)).item()
    labels = y.astype(kind)
    for given in (labels, ndl.Tensor(labels), labels.tolist()):
        assert nn.SoftmaxLoss()(ndl.Tensor(x), given).item() == expected


def test_axes_in_front_are_taken_as_one():
    x, y = problem(6, 4)
    flat = ndl.Tensor(x)
    nn.SoftmaxLoss()(flat, ndl.Tensor(y)).backward()
    folded = ndl.Tensor(x.reshape(2, 3, 4))
    nn.SoftmaxLoss()(folded, ndl.Tensor(y.reshape(2, 3))).backward(create_graph=False)
    np.testing.assert_array_equal(folded.grad.numpy().reshape(6, 4), flat.grad.numpy())
    assert gradgradcheck(lambda x: ndl.cross_entropy(x, y.reshape(2, 3)), [x.reshape(2, 3, 4)])


def test_the_gradients_hold_to_second_order():
    x, y = problem()
    assert gradcheck(lambda x: ndl.cross_entropy(x, y), [x])
    assert gradgradcheck(lambda x: ndl.cross_entropy(x, y), [x])


def test_third_order_holds():
    x, y = problem()

    @ndl.enable_grad()
    def first(x):
        x = x if x.requires_grad else ndl.Tensor(x)
        return ndl.grad(ndl.cross_entropy(x, y) ** 2, x)

    assert gradgradcheck(first, [x])


def test_the_gradients_of_each_row_add_up_to_nothing():
    x, y = problem(50, 9)
    logits = ndl.Tensor(x)
    nn.SoftmaxLoss()(logits, ndl.Tensor(y)).backward(create_graph=False)
    np.testing.assert_allclose(logits.grad.numpy().sum(axis=1), np.zeros(50), atol=1e-16)


def test_logits_of_any_size_are_finite_and_right():
    x = np.array([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4]])
    logits = ndl.Tensor(x)
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor([0, 0, 0]))
    assert loss.item() == pytest.approx((0 + 2e4 + np.log(2)) / 3, rel=1e-15)
    loss.backward(create_graph=False)
    np.testing.assert_allclose(logits.grad.numpy(), [[0, 0], [-1 / 3, 1 / 3], [-1 / 6, 1 / 6]], atol=1e-16)


def test_a_class_that_is_ruled_out_by_minus_infinity_has_probability_zero():
    logits = ndl.Tensor([[0.0, -np.inf, 0.0]])
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor([0]))
    assert loss.item() == pytest.approx(np.log(2), rel=1e-15)
    loss.backward(create_graph=False)
    np.testing.assert_allclose(logits.grad.numpy(), [[-0.5, 0, 0.5]], rtol=1e-15)


@pytest.mark.cpu_only("NumPy's blocks")
def test_blocks_of_rows_change_nothing(monkeypatch):
    x, y = problem(40, 9)

    def results():
        logits = ndl.Tensor(x)
        value = ndl.cross_entropy(logits, y)
        value.backward(create_graph=False)
        return value.numpy(), logits.grad.numpy()

    expected = results()
    monkeypatch.setattr(loss_ops, "_BLOCK", 30)
    for ours, whole in zip(results(), expected):
        np.testing.assert_array_equal(ours, whole)


# -- the exponentials that the first backward takes


def test_a_second_backward_gives_the_same_gradient_and_leaves_the_first_alone():
    x, y = problem(20, 30)
    logits = ndl.Tensor(x)
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor(y))
    loss.backward(create_graph=False, retain_graph=True)
    first = logits.grad.numpy()
    kept = first.copy()
    loss.backward(ndl.Tensor(2.0), create_graph=False, retain_graph=True)
    np.testing.assert_array_equal(logits.grad.numpy(), 2 * kept)
    loss.backward()
    np.testing.assert_array_equal(logits.grad.numpy(), kept)
    np.testing.assert_array_equal(first, kept)


def test_an_op_that_was_computed_on_something_else_since_still_gives_the_right_gradient():
    x, y = problem()
    logits = ndl.Tensor(x)
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor(y))
    loss.op.compute(np.random.randn(6, 4), y)
    loss.backward(create_graph=False)
    other = ndl.Tensor(x)
    nn.SoftmaxLoss()(other, ndl.Tensor(y)).backward()
    np.testing.assert_array_equal(logits.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("create_graph", [True, False])
def test_the_loss_can_be_computed_lazily(create_graph):
    x, y = problem()
    eager, lazy = ndl.Tensor(x), ndl.Tensor(x)
    nn.SoftmaxLoss()(eager, ndl.Tensor(y)).backward()
    with ndl.lazy():
        loss = nn.SoftmaxLoss()(lazy, ndl.Tensor(y))
        assert loss.cached_data is None
        loss.backward(create_graph=create_graph)
    np.testing.assert_array_equal(lazy.grad.numpy(), eager.grad.numpy())


def test_a_loss_that_nobody_differentiates_keeps_nothing():
    x, y = problem(20, 30)
    with ndl.no_grad():
        loss = nn.SoftmaxLoss()(ndl.Tensor(x), ndl.Tensor(y))
    assert loss.is_leaf() and not loss.requires_grad
    assert not nn.SoftmaxLoss()(ndl.Tensor(x, requires_grad=False), ndl.Tensor(y)).requires_grad


def test_the_loss_does_not_hold_the_gradient_that_it_gave():
    x, y = problem(20, 30)
    logits = ndl.Tensor(x)
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor(y))
    loss.backward(create_graph=False, retain_graph=True)
    gradient = logits.grad.numpy()
    owner = weakref.ref(gradient if gradient.base is None else gradient.base)
    logits.grad = None
    del gradient
    assert owner() is None
    assert loss.op is not None


def test_forward_and_backward_are_a_node_each():
    x, y = problem()
    logits = ndl.Tensor(x)
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor(y))
    assert len(ndl.autograd.find_topo_sort([loss])) == 3
    loss.backward()
    assert len(ndl.autograd.find_topo_sort([logits.grad])) == 4


# -- errors


@pytest.mark.parametrize(
    ("labels", "message"), [([0, 1, 4], "labels 0 to 4 are out of range for 4 classes"), ([0, -1, 3], "-1 to 3")]
)
def test_labels_out_of_range_are_named_or_poison_the_loss_where_raising_would_wait_for_the_gpu(labels, message):
    logits = ndl.Tensor(np.zeros((3, 4)))
    if logits.device == ndl.cpu():
        with pytest.raises(ValueError, match=message):
            nn.SoftmaxLoss()(logits, ndl.Tensor(labels))
    else:
        assert np.isnan(nn.SoftmaxLoss()(logits, ndl.Tensor(labels)).item())


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0.0, 1.0, 2.0], TypeError, "labels are integers, got float64"),
        ([True, False, True], TypeError, "got bool"),
        ([[0], [1], [2]], ValueError, r"got \(3, 1\): reshape the labels to \(3,\)"),
        ([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], ValueError, "one-hot"),
        ([0, 1], ValueError, r"need labels of shape \(3,\), got \(2,\)"),
        (0, TypeError, "int"),
        (
            [[0], [1, 2], [3]],
            TypeError,
            "^CrossEntropy: labels do not make an array: the lists in it have unequal lengths",
        ),
        ([], ValueError, r"need labels of shape \(3,\), got \(0,\)"),
    ],
)
def test_bad_labels_are_named(labels, error, message):
    logits = ndl.Tensor(np.zeros((3, 4)))
    given = labels if labels in (0, []) or "unequal" in message else ndl.Tensor(labels)
    with pytest.raises(error, match=message):
        nn.SoftmaxLoss()(logits, given)


@pytest.mark.parametrize(
    ("logits", "error", "message"),
    [
        (np.zeros((0, 4)), ValueError, "empty batch"),
        (np.zeros((3, 0)), ValueError, "empty batch"),
        (np.zeros((3, 4), dtype=int), TypeError, "floating logits"),
        (np.zeros(()), TypeError, "floating logits"),
    ],
)
def test_bad_logits_are_named(logits, error, message):
    with pytest.raises(error, match=message):
        nn.SoftmaxLoss()(ndl.Tensor(logits), ndl.Tensor(np.zeros(logits.shape[:1], dtype=int)))


def test_logits_that_are_no_tensor_are_named():
    with pytest.raises(TypeError, match="logits are a Tensor, got list"):
        nn.SoftmaxLoss()([[0.0, 1.0]], ndl.Tensor([0]))
