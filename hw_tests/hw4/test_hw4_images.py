"""Homework 4, images: the convolution layer, batch normalisation of channels, ResNet9, CIFAR-10, and training on it."""

import pickle

import numpy as np
import pytest
from homework_gradients import assert_gradients_are_right, random
from test_hw4_ops import convolve

import needle as ndl
from apps.models import ResNet9
from apps.simple_ml import epoch_general_cifar10, evaluate_cifar10, train_cifar10
from needle import nn
from needle.data import CIFAR10Dataset, DataLoader, NDArrayDataset


@pytest.mark.parametrize(("kernel_size", "stride"), [(1, 1), (3, 1), (3, 2), (5, 2), (7, 4)])
def test_a_convolution_layer_pads_so_that_stride_1_keeps_the_size(kernel_size, stride):
    layer, x = nn.Conv(2, 3, kernel_size, stride=stride, dtype="float64"), random(2, 2, 8, 8)
    y = convolve(x.numpy().transpose(0, 2, 3, 1), layer.weight.numpy(), stride, kernel_size // 2) + layer.bias.numpy()
    assert layer(x).shape == (2, 3, -(-8 // stride), -(-8 // stride))
    np.testing.assert_allclose(layer(x).numpy(), y.transpose(0, 3, 1, 2), rtol=1e-12, atol=1e-13)


def test_a_convolution_layer_is_drawn_within_bounds_by_its_fan_in():
    layer = nn.Conv(8, 64, 5)
    assert layer.weight.shape == (5, 5, 8, 64) and layer.bias.shape == (64,)
    fan_in = 8 * 5**2
    # Of n uniform draws the largest is below 0.99 of the bound with probability 0.99ⁿ: 10⁻²²³ here.
    bound = np.sqrt(6 / fan_in)
    assert 0.99 * bound < np.abs(layer.weight.numpy()).max() <= bound * (1 + 1e-6)
    assert 0.5 / np.sqrt(fan_in) < np.abs(layer.bias.numpy()).max() <= 1 / np.sqrt(fan_in) * (1 + 1e-6)


def test_a_convolution_layer_without_a_bias_has_one_parameter():
    assert [p.shape for p in nn.Conv(2, 3, 3, bias=False).parameters()] == [(3, 3, 2, 3)]


def test_the_gradients_of_a_convolution_layer_are_the_measured_slopes():
    layer = nn.Conv(2, 2, 3, stride=2, dtype="float64")
    assert_gradients_are_right(lambda x, w, b: layer(x), random(2, 2, 4, 5), layer.weight, layer.bias)


def test_batch_norm_gives_each_channel_mean_0_and_variance_1_and_remembers_both():
    norm, x = nn.BatchNorm2d(3, momentum=0.25, dtype="float64"), random(4, 3, 5, 2)
    a = x.numpy()
    mean, var = a.mean((0, 2, 3)), a.var((0, 2, 3))
    by_channel = lambda v: v.reshape(1, 3, 1, 1)  # noqa: E731
    np.testing.assert_allclose(norm(x).numpy(), (a - by_channel(mean)) / np.sqrt(by_channel(var) + 1e-5), rtol=1e-10)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.25 * mean, rtol=1e-10)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.75 + 0.25 * var, rtol=1e-10)
    norm.eval()
    expected = (a - by_channel(0.25 * mean)) / np.sqrt(by_channel(0.75 + 0.25 * var) + 1e-5)
    np.testing.assert_allclose(norm(x).numpy(), expected, rtol=1e-10)


def test_the_gradients_of_batch_norm_are_the_measured_slopes():
    norm = nn.BatchNorm2d(2, dtype="float64")
    assert_gradients_are_right(lambda x, *_: norm(x), random(3, 2, 2, 3), *norm.parameters())


def test_resnet9_has_431946_parameters_and_every_one_learns():
    model = ResNet9()
    assert sum(int(np.prod(p.shape)) for p in model.parameters()) == 431_946
    logits = model(ndl.init.rand(2, 3, 32, 32))
    assert logits.shape == (2, 10)
    nn.SoftmaxLoss()(logits, ndl.Tensor([3, 8])).backward(create_graph=False)
    for p in model.parameters():
        assert p.grad.shape == p.shape and np.isfinite(p.grad.numpy()).all()


# ---------------------------------------------------------------------------------------------------------------- data


@pytest.fixture
def cifar10(tmp_path):
    """A folder as CIFAR-10 has it, with four images in each file: all bytes of the k-th of all images are 10 k."""
    for file, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        numbers = np.arange(4 * file, 4 * file + 4, dtype=np.uint8)
        batch = {b"data": np.repeat(10 * numbers[:, None], 3072, axis=1), b"labels": (numbers % 10).tolist()}
        (tmp_path / name).write_bytes(pickle.dumps(batch))
    return tmp_path


@pytest.mark.parametrize(("train", "first", "count"), [(True, 0, 20), (False, 20, 4)])
def test_cifar10_reads_its_files_in_order(cifar10, train, first, count):
    dataset = CIFAR10Dataset(str(cifar10), train=train)
    assert len(dataset) == count
    for k in range(count):
        image, label = dataset[k]
        assert image.shape == (3, 32, 32) and label == (first + k) % 10
        np.testing.assert_allclose(image, 10 * (first + k) / 255, rtol=1e-6)


def test_a_loader_makes_batches_of_cifar10(cifar10):
    (X, y), *_ = DataLoader(CIFAR10Dataset(str(cifar10), train=True), batch_size=8)
    assert X.shape == (8, 3, 32, 32) and X.dtype == "float32"
    assert y.numpy().tolist() == list(range(8))


def test_a_sample_of_cifar10_has_its_channels_first(tmp_path):
    pixels = np.random.randint(256, size=(1, 3, 32, 32)).astype(np.uint8)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": pixels.reshape(1, 3072), b"labels": [7]}))
    image, _ = CIFAR10Dataset(str(tmp_path), train=False)[0]
    np.testing.assert_allclose(image, pixels[0] / 255, rtol=1e-6)


# ------------------------------------------------------------------------------------------------------------ training


def a_model_and_data():
    """Three kinds of noisy images that a linear layer tells apart, 30 in batches of 8."""
    y = np.arange(30) % 3
    X = np.random.rand(30, 3, 2, 2) + 2 * np.eye(3)[y][:, :, None, None]
    loader = DataLoader(NDArrayDataset(X.astype(np.float32), y), batch_size=8)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), X, y, loader


def test_evaluation_gives_accuracy_and_mean_loss_and_changes_nothing():
    model, X, y, loader = a_model_and_data()
    before = [p.numpy().copy() for p in model.parameters()]
    accuracy, loss = evaluate_cifar10(model, loader)
    W, b = before
    Z = X.reshape(30, 12) @ W + b
    expected = np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(30), y]
    np.testing.assert_allclose([accuracy, loss], [(Z.argmax(axis=1) == y).mean(), expected.mean()], rtol=1e-5)
    assert not model.training
    for p, old in zip(model.parameters(), before):
        np.testing.assert_array_equal(p.numpy(), old)


def test_an_epoch_without_an_optimizer_is_an_evaluation():
    model, _, _, loader = a_model_and_data()
    assert epoch_general_cifar10(loader, model) == evaluate_cifar10(model, loader)


def test_an_epoch_with_an_optimizer_makes_a_step_for_each_batch():
    model, X, y, loader = a_model_and_data()
    W, b = (p.numpy().astype(np.float64) for p in model.parameters())
    epoch_general_cifar10(loader, model, opt=ndl.optim.SGD(model.parameters(), lr=0.5))
    for start in range(0, 30, 8):
        rows, labels = X[start : start + 8].reshape(-1, 12), y[start : start + 8]
        e = np.exp(rows @ W + b)
        g = (e / e.sum(axis=1, keepdims=True) - np.eye(3)[labels]) / len(rows)
        W, b = W - 0.5 * rows.T @ g, b - 0.5 * g.sum(axis=0)
    for p, expected in zip(model.parameters(), (W, b)):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_training_separates_what_can_be_separated():
    model, _, _, loader = a_model_and_data()
    train_cifar10(model, loader, n_epochs=20, optimizer=ndl.optim.Adam, lr=0.05, weight_decay=0.0)
    accuracy, loss = evaluate_cifar10(model, loader)
    assert accuracy == 1 and loss < 0.3  # chance is ln 3 = 1.1
