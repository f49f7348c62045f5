"""The demos' networks, and the course's functions that train them."""

import numpy as np
import pytest

import needle as ndl
from apps.image_training import epoch_general_cifar10, evaluate_cifar10, train_cifar10
from apps.models import ConvBN, LanguageModel, ResNet9
from apps.sequence_training import detached, epoch_general_ptb, evaluate_ptb, train_ptb
from needle import nn
from needle.data import DataLoader, NDArrayDataset, batchify

SEQUENCE_MODELS = ["rnn", "lstm", "gru", "transformer"]


# -- ResNet9


def test_resnet9_has_431946_parameters_and_ten_logits():
    model = ResNet9()
    assert sum(p.size for p in model.parameters()) == 431_946
    assert model(ndl.init.rand(3, 3, 32, 32)).shape == (3, 10)


@pytest.mark.parametrize("training", [True, False])
def test_resnet9_is_that_of_torch(torch, training):
    from torch_reference import assert_agree

    class Residual(torch.nn.Sequential):
        def forward(self, x):
            return x + super().forward(x)

    def block(a, b, k, s):
        layers = torch.nn.Conv2d(a, b, k, s, padding=k // 2), torch.nn.BatchNorm2d(b), torch.nn.ReLU()
        return torch.nn.Sequential(*layers).double()

    linear = [torch.nn.Linear(128, n, dtype=torch.float64) for n in (128, 10)]
    other = torch.nn.Sequential(
        *(block(3, 16, 7, 4), block(16, 32, 3, 2), Residual(block(32, 32, 3, 1), block(32, 32, 3, 1))),
        *(block(32, 64, 3, 2), block(64, 128, 3, 2), Residual(block(128, 128, 3, 1), block(128, 128, 3, 1))),
        *(torch.nn.Flatten(), linear[0], torch.nn.ReLU(), linear[1]),
    ).train(training)
    mine = ResNet9(dtype="float64").train(training)
    layouts = {4: lambda w: w.transpose(3, 2, 0, 1), 2: np.transpose, 1: np.asarray}
    pairs = []
    for p, q in zip(mine.parameters(), other.parameters(), strict=True):
        layout = layouts[q.ndim] if p.shape != (1, *q.shape) else np.ravel
        pairs.append((p, q, layout))
    assert_agree(mine, other, [np.random.rand(4, 3, 32, 32)], pairs)


def test_a_conv_bn_block_is_relu_of_norm_of_convolution():
    block, x = ConvBN(2, 3, 3, 2).eval(), ndl.init.randn(2, 2, 5, 5)
    convolution, norm, _ = block.modules
    np.testing.assert_array_equal(block(x).numpy(), np.maximum(norm(convolution(x)).numpy(), 0))


def test_images_of_another_size_are_an_error():
    with pytest.raises(ValueError, match=r"ResNet9: images of shape \(N, 3, 32, 32\) are needed, got \(1, 3, 28, 28\)"):
        ResNet9()(ndl.init.rand(1, 3, 28, 28))


# -- LanguageModel


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
def test_a_language_model_gives_logits_for_every_position_and_its_state(kind):
    model = LanguageModel(6, 11, 8, num_layers=2, seq_model=kind, seq_len=5)
    logits, state = model(ndl.Tensor(np.random.randint(11, size=(5, 3)), requires_grad=False))
    assert logits.shape == (15, 11)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model(ndl.Tensor(np.zeros((2, 3)), requires_grad=False), detached(state))[0].shape == (6, 11)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_the_state_carries_what_was_read_over_to_the_next_call(kind):
    model = LanguageModel(6, 11, 8, num_layers=2, seq_model=kind)
    words = np.random.randint(11, size=(6, 3))
    whole, _ = model(ndl.Tensor(words, requires_grad=False))
    first, state = model(ndl.Tensor(words[:4], requires_grad=False))
    second, _ = model(ndl.Tensor(words[4:], requires_grad=False), state)
    np.testing.assert_allclose(np.concatenate([first.numpy(), second.numpy()]), whole.numpy(), atol=1e-6)


def test_an_unknown_word_is_an_error_and_on_a_gpu_which_nobody_waits_for_nan():
    model, words = LanguageModel(6, 11, 8), ndl.Tensor([[0], [11]], requires_grad=False)
    if ndl.default_device() != ndl.cpu():
        assert np.isnan(model(words)[0].numpy()[1]).all()
        return
    with pytest.raises(ValueError, match="embedding: ids from 0 to 11, but the table has rows 0 to 10"):
        model(words)


def test_an_unknown_sequence_model_is_an_error():
    with pytest.raises(ValueError, match="seq_model is one of rnn, lstm, gru, transformer; got 'cnn'"):
        LanguageModel(6, 11, 8, seq_model="cnn")


# -- the course's functions


def images(n=7, batch_size=3):
    x = np.random.rand(n, 3, 32, 32).astype(np.float32)
    return DataLoader(NDArrayDataset(x, np.arange(n) % 10), batch_size=batch_size)


def test_an_epoch_over_images_measures_means_over_all_of_them():
    model, loader = ResNet9().eval(), images()
    accuracy, loss = epoch_general_cifar10(loader, model)
    losses, right = [], 0
    for x, y in loader:
        p = ndl.softmax(model(x)).numpy().astype(np.float64)
        losses += (-np.log(p[np.arange(len(p)), y.numpy()])).tolist()
        right += (p.argmax(axis=1) == y.numpy()).sum()
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)
    assert accuracy == right / 7
    assert (accuracy, loss) == evaluate_cifar10(model, loader)


def test_training_on_images_lowers_their_loss_and_changes_no_random_state():
    model, loader = ResNet9(), images(n=12, batch_size=6)
    before = train_cifar10(model, loader)[1]
    state = np.random.get_state()[1].copy()
    assert train_cifar10(model, loader, n_epochs=8, lr=0.003)[1] < before / 2
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    with pytest.raises(ValueError, match="train_cifar10: at least 1 epoch is needed, got n_epochs=0"):
        train_cifar10(model, loader, n_epochs=0)


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
def test_training_on_a_text_learns_what_repeats(kind):
    data = batchify(list(range(5)) * 24, batch_size=4, dtype="float32")
    model = LanguageModel(8, 5, 16, seq_model=kind, seq_len=6)
    lr = {"optimizer": ndl.optim.Adam, "lr": 0.01}
    train_ptb(model, data, seq_len=6, n_epochs=12, clip=1.0, **lr)
    accuracy, loss = evaluate_ptb(model, data, seq_len=6)
    assert accuracy > 0.9
    assert loss < 0.5
    with pytest.raises(ValueError, match="train_ptb: at least 1 epoch is needed, got n_epochs=0"):
        train_ptb(model, data, n_epochs=0)


def test_an_epoch_over_a_text_is_truncated_backpropagation_by_hand():
    data = batchify(np.random.randint(7, size=60), batch_size=3)
    mine, by_hand = (LanguageModel(4, 7, 5, seq_model="lstm", dtype="float64") for _ in range(2))
    by_hand.load_state_dict(mine.state_dict())
    accuracy, loss = epoch_general_ptb(data, mine, 8, opt=ndl.optim.SGD(mine.parameters(), lr=0.5), clip=0.25)
    opt, total, right, state = ndl.optim.SGD(by_hand.parameters(), lr=0.5), 0.0, 0, None
    for i in (0, 8, 16):
        x, y = data[i : min(i + 8, 19)], data[i + 1 : i + 9].ravel()
        logits, state = by_hand(ndl.Tensor(x, requires_grad=False), state)
        each = nn.SoftmaxLoss()(logits, ndl.Tensor(y))
        opt.reset_grad()
        each.backward()
        opt.clip_grad_norm(0.25)
        opt.step()
        state = detached(state)
        total += each.item() * len(y)
        right += (logits.numpy().argmax(axis=1) == y).sum()
    np.testing.assert_allclose([accuracy, loss], [right / 57, total / 57], rtol=1e-12)
    for p, q in zip(mine.parameters(), by_hand.parameters()):
        np.testing.assert_allclose(p.numpy(), q.numpy(), atol=1e-12)


def test_the_courses_module_offers_all_training_functions():
    from apps import simple_ml

    for function in (
        train_cifar10,
        evaluate_cifar10,
        epoch_general_cifar10,
        train_ptb,
        evaluate_ptb,
        epoch_general_ptb,
    ):
        assert getattr(simple_ml, function.__name__) is function
