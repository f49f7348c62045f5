"""The course's functions in `apps.simple_ml`, against formulas worked out with NumPy."""

import importlib
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from shared import softmax, write_digits

import needle as ndl
from apps.simple_ml import loss_err, nn_epoch, parse_mnist, softmax_loss
from needle.gradcheck import gradcheck

APPS = pathlib.Path(importlib.import_module("apps").__file__).parent


def tensor(*shape):
    return ndl.Tensor(np.random.randn(*shape))


# ---------------------------------------------------------------------------------------------------------------- data


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parse_mnist_gives_a_row_of_floats_from_0_to_1_for_each_image(tmp_path, suffix):
    images = np.random.randint(0, 256, size=(5, 28, 28)).astype(np.uint8)
    X, y = parse_mnist(*write_digits(tmp_path, images, np.array([3, 1, 4, 1, 5], dtype=np.uint8), suffix=suffix))
    assert X.shape == (5, 784) and X.dtype == np.float32 and X.flags.writeable
    np.testing.assert_array_equal(X, images.reshape(5, 784).astype(np.float32) / np.float32(255))
    assert y.dtype == np.uint8 and y.tolist() == [3, 1, 4, 1, 5]


def test_parse_mnist_refuses_files_that_do_not_belong_together(tmp_path):
    paths = write_digits(tmp_path, np.zeros((3, 28, 28), dtype=np.uint8), np.zeros(2, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"3 images .* but 2 labels"):
        parse_mnist(*paths)


def test_parse_mnist_refuses_a_file_without_images(tmp_path):
    paths = write_digits(tmp_path, np.zeros((0, 28, 28), dtype=np.uint8), np.zeros(0, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^parse_mnist: .*images-idx3-ubyte holds no images"):
        parse_mnist(*paths)


def test_parse_mnist_reads_the_real_digits(real_data):
    X, y = parse_mnist(*(real_data / "mnist" / f"t10k-{n}-ubyte.gz" for n in ("images-idx3", "labels-idx1")))
    assert X.shape == (10000, 784) and X.min() == 0 and X.max() == 1
    # How often each digit occurs in MNIST's test set (LeCun, Cortes and Burges).
    assert np.bincount(y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


# ---------------------------------------------------------------------------------------------------------------- loss


def test_softmax_loss_is_the_mean_of_minus_the_log_of_the_classes_probability():
    Z, y = np.random.randn(7, 4), np.random.randint(4, size=7)
    expected = -np.log(softmax(Z)[np.arange(7), y]).mean()
    loss = softmax_loss(ndl.Tensor(Z), ndl.Tensor(np.eye(4)[y]))
    assert loss.shape == ()
    np.testing.assert_allclose(loss.numpy(), expected, rtol=1e-14)


def test_softmax_loss_of_equal_logits_is_the_log_of_the_number_of_classes():
    loss = softmax_loss(ndl.init.zeros(3, 10), ndl.init.one_hot(10, [0, 5, 9]))
    assert loss.dtype == "float32"
    np.testing.assert_allclose(loss.numpy(), np.log(10), rtol=1e-6)


def test_the_gradient_of_softmax_loss_is_the_probabilities_minus_the_labels_over_the_batch():
    Z, y_one_hot = tensor(6, 5), np.eye(5)[np.random.randint(5, size=6)]
    softmax_loss(Z, ndl.Tensor(y_one_hot)).backward(create_graph=False)
    np.testing.assert_allclose(Z.grad.numpy(), (softmax(Z.numpy()) - y_one_hot) / 6, rtol=1e-12, atol=1e-15)


def test_softmax_loss_passes_the_gradient_checker():
    y = ndl.Tensor(np.eye(3)[[0, 2]], requires_grad=False)
    gradcheck(lambda Z: softmax_loss(Z, y), [tensor(2, 3)])


def test_softmax_loss_stays_finite_for_huge_logits():
    Z = ndl.Tensor([[1e4, -1e4], [-1e4, 1e4]])
    loss = softmax_loss(Z, ndl.Tensor([[1.0, 0.0], [1.0, 0.0]]))
    loss.backward(create_graph=False)
    assert loss.item() == 1e4  # (0 + 2e4) / 2
    np.testing.assert_array_equal(Z.grad.numpy(), [[0, 0], [-0.5, 0.5]])


@pytest.mark.parametrize("shape", [(4,), (4, 1), (3, 5), (4, 5, 1)])
def test_softmax_loss_refuses_labels_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"softmax_loss: logits \(4, 5\) and one-hot labels"):
        softmax_loss(tensor(4, 5), tensor(*shape))


def test_loss_err_gives_the_loss_and_the_fraction_of_wrong_rows():
    h, y = np.random.randn(8, 3), np.random.randint(3, size=8).astype(np.uint8)
    loss, error = loss_err(ndl.Tensor(h), y)
    np.testing.assert_allclose(loss, -np.log(softmax(h)[np.arange(8), y]).mean(), rtol=1e-14)
    assert error == np.mean(h.argmax(axis=1) != y)


@pytest.mark.parametrize("y", [np.array([0, 3]), np.array([-1, 0]), np.array([0]), np.array([0.0, 1.0])])
def test_loss_err_refuses_labels_that_are_no_classes(y):
    with pytest.raises(ValueError, match=r"label|class number"):
        loss_err(tensor(2, 3), y)


# ------------------------------------------------------------------------------------------------------------ nn_epoch


def epoch_by_hand(X, y, W1, W2, lr, batch):
    """The same epoch with the gradients written out: W₂ gets Z₁ᵀ G, W₁ gets Xᵀ (G W₂ᵀ ∘ [Z₁ > 0])."""
    for start in range(0, len(X), batch):
        rows, labels = X[start : start + batch], y[start : start + batch]
        hidden = np.maximum(rows @ W1, 0)
        G = (softmax(hidden @ W2) - np.eye(W2.shape[1])[labels]) / len(rows)
        W1, W2 = W1 - lr * rows.T @ (G @ W2.T * (hidden > 0)), W2 - lr * hidden.T @ G
    return W1, W2


@pytest.mark.parametrize(("lr", "batch"), [(1.0, 50), (0.2, 16), (0.1, 1), (0.1, 1000)])
def test_nn_epoch_does_what_gradient_descent_by_hand_does(lr, batch):
    X, y = np.random.randn(50, 5), np.random.randint(3, size=50).astype(np.uint8)
    W1, W2 = np.random.randn(5, 10) / np.sqrt(10), np.random.randn(10, 3) / np.sqrt(3)
    expected = epoch_by_hand(X, y, W1, W2, lr, batch)
    trained = nn_epoch(X, y, ndl.Tensor(W1), ndl.Tensor(W2), lr=lr, batch=batch)
    for W, by_hand in zip(trained, expected):
        np.testing.assert_allclose(W.numpy(), by_hand, rtol=1e-10, atol=1e-12)


def test_nn_epoch_leaves_the_weights_that_it_was_given():
    W1, W2 = tensor(4, 6), tensor(6, 3)
    before = W1.numpy().copy(), W2.numpy().copy()
    nn_epoch(np.random.randn(10, 4), np.arange(10) % 3, W1, W2)
    np.testing.assert_array_equal(W1.numpy(), before[0])
    np.testing.assert_array_equal(W2.numpy(), before[1])


def test_nn_epoch_gives_leaves_in_the_dtype_of_the_weights():
    X = np.random.randn(10, 4)  # float64
    W1, W2 = nn_epoch(X, np.arange(10) % 3, ndl.init.randn(4, 6), ndl.init.randn(6, 3))
    assert [(W.is_leaf(), W.dtype == "float32") for W in (W1, W2)] == [(True, True)] * 2


def test_nn_epoch_refuses_what_does_not_fit():
    X, W1, W2 = np.random.randn(4, 2), tensor(2, 3), tensor(3, 2)
    with pytest.raises(ValueError, match="one integer each"):
        nn_epoch(X, np.zeros(3, dtype=int), W1, W2)
    with pytest.raises(ValueError, match=r"class numbers 0 to 2 are out of range for 2 classes"):
        nn_epoch(X, np.array([0, 1, 2, 0]), W1, W2)
    with pytest.raises(ValueError, match="batch=0"):
        nn_epoch(X, np.zeros(4, dtype=int), W1, W2, batch=0)
    with pytest.raises(ValueError, match="inner sizes 2 and 3 differ"):
        nn_epoch(X, np.zeros(4, dtype=int), W2, W2)


def test_two_epochs_on_real_digits_bring_the_error_below_a_tenth(real_data):
    X, y = parse_mnist(*(real_data / "mnist" / f"t10k-{n}-ubyte.gz" for n in ("images-idx3", "labels-idx1")))
    W1, W2 = ndl.init.randn(784, 100, std=0.1), ndl.init.randn(100, 10, std=0.1)
    for _ in range(2):
        W1, W2 = nn_epoch(X[:8000], y[:8000], W1, W2, lr=0.2)
    _, error = loss_err(ndl.relu(ndl.Tensor(X[8000:]) @ W1) @ W2, y[8000:])
    assert error < 0.1


# -------------------------------------------------------------------------------------------------------------- import


@pytest.mark.parametrize("name", ["simple_ml", "mlp_resnet"])
def test_an_app_can_be_imported_with_its_folder_on_the_path(name):
    code = f"import sys; sys.path[:0] = [{str(APPS)!r}]; import {name}; print({name}.__name__, {name}.ndl.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=APPS.parent)
    assert (found.stdout.split(), found.stderr) == ([name, "needle"], "")
