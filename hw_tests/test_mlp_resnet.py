"""The main job: the network, the course's functions, and the command that trains it."""

import gc
import io
import os
import pathlib
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import shared

import needle as ndl
from apps import display, mlp_resnet
from apps.mlp_resnet import MLPResNet, ResidualBlock, epoch, train_mnist
from needle import nn
from needle.data import DataLoader, MNISTDataset, NDArrayDataset

SMALL = ("--hidden-dim", 8, "--batch-size", 300)

needs_apps = shared.needs("tqdm", "sklearn", "matplotlib")
run = partial(shared.run, mlp_resnet)


def blobs(count, classes=10, seed=0):
    """Images of 28×28 bytes that can be told apart: class k has a bright row k, and noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=count).astype(np.uint8)
    images = random.integers(0, 100, size=(count, 28, 28)).astype(np.uint8)
    images[np.arange(count), 2 * labels + 4] += 150
    return images, labels


def write_mnist(folder, counts, names=("train", "t10k")):
    """Write pairs of IDX files, one for each of `names`."""
    folder.mkdir(exist_ok=True)
    for seed, (name, count) in enumerate(zip(names, counts)):
        shared.write_digits(folder, *blobs(count, seed=seed), f"{name}-", ".gz")
    return folder


# --------------------------------------------------------------------------------------------------------- the network


def test_a_residual_block_is_relu_of_x_plus_linear_norm_relu_linear_norm():
    block, x = ResidualBlock(6, 4), ndl.init.randn(5, 6)
    block.eval()
    w1, b1, g1, s1, w2, b2, g2, s2 = (p.numpy() for p in block.parameters())
    unit = 1 / np.sqrt(1 + 1e-5)  # running mean 0 and variance 1, as they start
    hidden = np.maximum((x.numpy() @ w1 + b1) * unit * g1 + s1, 0)
    f = (hidden @ w2 + b2) * unit * g2 + s2
    np.testing.assert_allclose(block(x).numpy(), np.maximum(x.numpy() + f, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dim", "hidden", "blocks", "classes"), [(784, 100, 3, 10), (64, 30, 1, 4), (5, 8, 0, 2)])
def test_the_network_has_the_parameters_that_its_layers_have(dim, hidden, blocks, classes):
    narrow = hidden // 2
    block = (hidden + 1) * narrow + 2 * narrow + (narrow + 1) * hidden + 2 * hidden
    expected = (dim + 1) * hidden + blocks * block + (hidden + 1) * classes
    model = MLPResNet(dim, hidden_dim=hidden, num_blocks=blocks, num_classes=classes)
    assert sum(p.size for p in model.parameters()) == expected
    assert model(ndl.init.randn(3, dim)).shape == (3, classes)


def test_norm_and_dropout_are_what_one_asks_for():
    model = MLPResNet(5, 8, num_blocks=2, norm=nn.LayerNorm1d, drop_prob=0.25)
    kinds = [type(module) for _, module in model.named_modules()]
    assert kinds.count(nn.LayerNorm1d) == 4 and nn.BatchNorm1d not in kinds
    assert [m.p for _, m in model.named_modules() if isinstance(m, nn.Dropout)] == [0.25, 0.25]


# ----------------------------------------------------------------------------------------------------- epoch, by hand


def loader(count=10, batch_size=4, shuffle=False):
    images, labels = blobs(count)
    dataset = NDArrayDataset(images[..., np.newaxis].astype(np.float32) / 255, labels)
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle)


def test_epoch_without_an_optimizer_measures_and_changes_nothing():
    model, batches = MLPResNet(784, 20), loader()
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    error, loss = epoch(batches, model)
    assert not model.training
    losses, wrong = [], 0
    for X, y in batches:
        logits, labels = model(X.reshape((len(X.numpy()), 784))).numpy().astype(np.float64), y.numpy()
        losses.append(-np.log(shared.softmax(logits)[np.arange(len(labels)), labels]).mean())
        wrong += (logits.argmax(axis=1) != labels).sum()
    assert error == wrong / 10
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-6)  # the short last batch counts as much as the others
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_epoch_with_an_optimizer_takes_a_step_for_each_batch():
    model, by_hand = MLPResNet(784, 20, drop_prob=0.0), MLPResNet(784, 20, drop_prob=0.0)
    by_hand.load_state_dict(model.state_dict())
    error, loss = epoch(loader(), model, ndl.optim.SGD(model.parameters(), lr=0.1))
    assert model.training
    optimizer, losses, wrong = ndl.optim.SGD(by_hand.parameters(), lr=0.1), [], 0
    for X, y in loader():
        optimizer.reset_grad()
        logits = by_hand(X.reshape((len(X.numpy()), 784)))
        out = nn.SoftmaxLoss()(logits, y)
        out.backward()
        optimizer.step()
        losses.append(out.item())
        wrong += (logits.numpy().argmax(axis=1) != y.numpy()).sum()
    assert error == wrong / 10
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-6)
    for (name, value), expected in zip(model.state_dict().items(), by_hand.state_dict().values()):
        np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7, err_msg=name)


def test_epoch_starts_from_the_courses_seed_and_leaves_the_generator_as_it_was():
    model, other = MLPResNet(784, 20, drop_prob=0.5), MLPResNet(784, 20, drop_prob=0.5)
    other.load_state_dict(model.state_dict())
    np.random.seed(123)
    first = epoch(loader(shuffle=True), model, ndl.optim.Adam(model.parameters()))
    after = np.random.rand()
    np.random.rand(1000)
    assert epoch(loader(shuffle=True), other, ndl.optim.Adam(other.parameters())) == first
    np.random.seed(123)
    assert np.random.rand() == after


def test_epoch_gives_the_courses_published_result_on_the_real_test_digits(real_data):
    """Homework 2 of CMU 10-414/714: seed 1, width 10, batches of 150, no training."""
    files = (real_data / "mnist" / f"t10k-{name}-ubyte.gz" for name in ("images-idx3", "labels-idx1"))
    np.random.seed(1)
    batches = DataLoader(MNISTDataset(*files), batch_size=150)
    np.testing.assert_allclose(epoch(batches, MLPResNet(784, 10)), [0.9164, 4.137814], rtol=1e-5)


@pytest.mark.cpu_only("the stand-in for a GPU has cycles of its own")
@pytest.mark.parametrize("make", [ndl.optim.SGD, ndl.optim.Adam])
def test_training_steps_keep_nothing_alive(make, collector_off):
    model, batches = MLPResNet(784, 20), loader(count=40)
    optimizer = make(model.parameters(), lr=0.01, weight_decay=0.01)
    epoch(batches, model, optimizer)
    gc.collect()
    before = ndl.autograd.TENSOR_COUNTER
    for _ in range(5):
        epoch(batches, model, optimizer)
        epoch(batches, model)
    after = ndl.autograd.TENSOR_COUNTER
    assert (after - before, gc.collect()) == (0, 0)


def test_train_mnist_learns_and_measures_on_both_sets(tmp_path):
    train_error, train_loss, test_error, test_loss = train_mnist(
        batch_size=50, epochs=5, lr=0.01, hidden_dim=30, data_dir=write_mnist(tmp_path / "data", (500, 200))
    )
    assert train_error < 0.1 and test_error < 0.05
    assert train_loss < 0.5 and test_loss < 0.5


def test_train_mnist_gives_the_same_numbers_each_time(tmp_path):
    folder = write_mnist(tmp_path / "data", (90, 20))
    arguments = {"epochs": 1, "optimizer": ndl.optim.SGD, "hidden_dim": 10, "data_dir": folder}
    assert train_mnist(**arguments) == train_mnist(**arguments)


def test_train_mnist_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images"):
        train_mnist(data_dir=tmp_path)
    with pytest.raises(ValueError, match="epochs=0"):
        train_mnist(epochs=0, data_dir=tmp_path)


# --------------------------------------------------------------------------------------------------------- the command


def rows(out):
    """The table's rows as lists of cells."""
    return [line.split() for line in out.splitlines() if line[:5].strip().isdigit()]


def accuracy(out):
    """What the last line says, in percent."""
    return float(out.splitlines()[-1].partition("%")[0])


@needs_apps
def test_the_command_reads_97_percent_of_the_bundled_digits_that_it_has_not_seen(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert "1,438 images of 8×8 to learn from, 359 held out" in out
    assert accuracy(out) >= 97


@needs_apps
def test_the_table_is_aligned_and_has_a_row_for_each_epoch(capsys):
    _, out, _ = run(capsys, "--epochs", 12, *SMALL)
    lines = out.splitlines()[1:14]
    assert len({len(line) for line in lines}) == 1
    assert [line.split()[0] for line in lines[1:]] == [str(i) for i in range(1, 13)]


class Terminal(io.StringIO):
    """Where stderr goes when somebody watches."""

    def isatty(self):
        return True


@needs_apps
def test_on_a_terminal_a_bar_shows_loss_accuracy_and_speed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(display, "REFRESH", 0.0)
    assert run(capsys, "--epochs", 2, *SMALL)[0] == 0
    shown = sys.stderr.getvalue()
    assert re.search(r"epoch 1/2: .*loss \d\.\d{4}, accuracy \d+\.\d\d %", shown)
    assert re.search(r"epoch 2/2: .* samples/s", shown)


@needs_apps
def test_without_a_terminal_there_is_no_bar(capsys):
    assert run(capsys, "--epochs", 1, *SMALL)[2] == ""


@needs_apps
def test_the_same_seed_gives_the_same_run_bit_for_bit_and_another_does_not(capsys, tmp_path):
    def trained(name, seed):
        path = tmp_path / name
        assert run(capsys, "--epochs", 2, "--seed", seed, "--save", path, *SMALL)[0] == 0
        return path.read_bytes()

    assert trained("a", 3) == trained("b", 3) != trained("c", 4)


@needs_apps
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_optimizer_learns_with_its_default_rate(capsys, optimizer):
    code, out, _ = run(capsys, "--optimizer", optimizer, "--epochs", 5)
    assert code == 0
    assert accuracy(out) > 90


@needs_apps
def test_the_learning_rate_and_the_decay_reach_the_optimizer(capsys, monkeypatch):
    seen = []

    def step(optimizer):
        seen.append((optimizer.lr, optimizer.weight_decay))

    monkeypatch.setattr(ndl.optim.AdamW, "step", step)
    run(capsys, "--epochs", 1, "--lr", 0.25, "--weight-decay", 0.125, "--optimizer", "adamw", *SMALL)
    # Five steps, in which the rate falls along half a cosine.
    np.testing.assert_allclose(seen, [(0.125 * (1 + np.cos(np.pi * t / 5)), 0.125) for t in range(5)], rtol=1e-12)


@needs_apps
def test_mnist_is_read_from_the_usual_four_files(capsys, tmp_path):
    folder = write_mnist(tmp_path / "four", (300, 100))
    code, out, _ = run(capsys, "--data", folder, "--epochs", 3, "--hidden-dim", 30)
    assert code == 0
    assert "300 images of 28×28 to learn from, 100 held out" in out


@needs_apps
@pytest.mark.parametrize("name", ["t10k", "my-digits"])
def test_a_single_pair_is_split_and_a_fifth_held_out(capsys, tmp_path, name):
    folder = write_mnist(tmp_path / "pair", (300,), names=(name,))
    code, out, _ = run(capsys, "--data", folder, "--epochs", 1, "--hidden-dim", 30)
    assert code == 0
    assert "240 images of 28×28 to learn from, 60 held out" in out


@needs_apps
def test_two_epochs_on_the_real_digits_read_90_percent(capsys, real_data):
    code, out, _ = run(capsys, "--data", real_data / "mnist", "--epochs", 2)
    assert code == 0
    assert "8,000 images of 28×28 to learn from, 2,000 held out" in out
    assert accuracy(out) > 90


@needs_apps
@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_picture_is_drawn_in_the_format_of_its_ending(capsys, tmp_path, ending, magic):
    path = tmp_path / f"run.{ending}"
    code, out, _ = run(capsys, "--epochs", 1, "--plot", path, *SMALL)
    assert code == 0 and f"Drawn into {path}" in out
    assert path.read_bytes().startswith(magic)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@needs_apps
def test_download_fetches_into_the_folder_of_data_and_trains_on_it(capsys, tmp_path, monkeypatch):
    seen = []
    folder = write_mnist(tmp_path / "mnist", (60, 20))
    monkeypatch.setattr(mlp_resnet.download, "fetch_mnist", lambda where: seen.append(where) or where)
    code, out, _ = run(capsys, "--download", "--data", folder, "--epochs", 1, *SMALL)
    assert code == 0 and seen == [folder]
    assert "60 images of 28×28 to learn from, 20 held out" in out


@needs_apps
def test_a_run_that_diverges_says_so_and_can_still_be_drawn_saved_and_resumed(capsys, tmp_path):
    words = ("--plot", tmp_path / "run.png", "--save", tmp_path / "run")
    code, out, err = run(capsys, "--lr", "1e30", "--epochs", 1, *words, *SMALL)
    assert code == 0 and "The loss is not finite any more" in out and "Warning" not in err
    assert "after 1 epoch." in out
    assert run(capsys, "--resume", tmp_path / "run", *words)[0] == 0


@needs_apps
@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("tqdm", []),
        ("sklearn", []),
        ("matplotlib", ["--plot", "run.png"]),
        ("pooch", ["--download"]),
        ("safetensors", ["--save", "run"]),
    ],
)
def test_a_missing_package_is_named_with_how_to_get_it(capsys, monkeypatch, package, words):
    monkeypatch.setitem(sys.modules, package, None)  # what importing it then says is that it is not there
    code, _, err = run(capsys, *words)
    assert code == 2
    assert re.search(rf"needs {package}: pip install 'needle\[apps\]'\n$", err)


MISTAKES = {
    "no such folder": (["--data", "{tmp}/none"], "none: no such folder"),
    "a folder without digits": (["--data", "{tmp}"], "pairs found: none"),
    "a file for a folder": (["--data", "{tmp}/file"], "file: no such folder"),
    "a damaged pair": (["--data", "{tmp}/damaged"], "truncated"),
    "a picture of unknown kind": (["--plot", "{tmp}/run.jpg"], "a name that ends in .png, .svg, .pdf"),
    "a picture in no folder": (["--plot", "{tmp}/none/run.png"], "there is no folder"),
    "saving in no folder": (["--save", "{tmp}/none/run"], "there is no folder"),
    "saving onto a folder": (["--save", "{tmp}"], "this is a folder"),
    "resuming from nothing": (["--resume", "{tmp}/none"], "no file"),
    "resuming from something else": (["--resume", "{tmp}/file"], "no intact safetensors file"),
    "no epochs": (["--epochs", "0"], "--epochs: an integer of at least 1"),
    "half a sample": (["--batch-size", "0.5"], "--batch-size: an integer of at least 1"),
    "a negative rate": (["--lr=-1"], "--lr: a finite number of at least 0"),
    "no number": (["--lr", "nan"], "--lr: a finite number of at least 0"),
    "a seed too large": (["--seed", "4294967296"], r"below 2\*\*32"),
    "dropping everything": (["--dropout", "1"], "from 0 to below 1"),
    "an unknown optimizer": (["--optimizer", "adagrad"], "invalid choice: 'adagrad'"),
    "an unknown device": (["--device", "tpu"], "cpu, cuda or cuda:N"),
    "an unknown argument": (["--epoch", "3"], "unrecognized arguments"),
}


@needs_apps
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, tmp_path, name):
    (tmp_path / "file").write_text("something else")
    images = write_mnist(tmp_path / "damaged", (20,), names=("t10k",)) / "t10k-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-1])
    words, expected = MISTAKES[name]
    assert re.search(expected, shared.error_of(mlp_resnet, capsys, *(word.format(tmp=tmp_path) for word in words)))


# ------------------------------------------------------------------------------------- output that cannot be written

COMMANDS = [
    pytest.param(["apps.mlp_resnet", "--epochs", "1", *map(str, SMALL)], marks=needs_apps, id="demo"),
    pytest.param(["apps.bench", "--list"], id="bench"),
    pytest.param(["apps.bench", "--help"], id="bench's help"),
]


def start(command, stdout, **environment):
    root = pathlib.Path(mlp_resnet.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONUNBUFFERED": "", **environment}  # unset: errors may come late, at exit
    options = {"env": environment, "cwd": root, "text": True}
    return subprocess.Popen([sys.executable, "-m", *command], stdout=stdout, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_gone_ends_the_command_without_a_word(command):
    with start(command, subprocess.PIPE) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_line(command):
    with open("/dev/full", "w") as full, start(command, full) as process:
        err = process.stderr.read()
    assert re.fullmatch(r"[\w. -]+: error: the output cannot be written: No space left on device\n", err)
    assert process.returncode == 1


@pytest.mark.parametrize("command", COMMANDS[:2])
def test_what_the_terminals_encoding_lacks_is_replaced(command):
    with start(command, subprocess.PIPE, PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert re.search(r"\d\?\d", out)  # 8×8 images, 64×64 matrices
