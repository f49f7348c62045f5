"""The image demo: drawn shapes, CIFAR-10 from a folder and from a server, and the command."""

import hashlib
import io
import pickle
import re
import tarfile
from functools import partial

import numpy as np
import pytest
import shared

import needle as ndl
from apps import cifar10, images, training
from apps.shapes import CLASSES, draw_shapes
from needle.data import RandomCrop, RandomFlipHorizontal
from needle.data.cifar10 import TEST_FILES, TRAIN_FILES

SMALL = ("--shapes", 100, "--epochs", 2, "--batch-size", 50)

needs_apps = shared.needs("tqdm", "matplotlib", "safetensors")
run = partial(shared.run, cifar10)


@pytest.fixture(autouse=True)
def _few_test_shapes(monkeypatch):
    monkeypatch.setattr(images, "_TEST_SHAPES", 30)


def batch(n=12, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.integers(256, size=(n, 3072), dtype=np.uint8)
    return pickle.dumps({b"data": data, b"labels": [k % 10 for k in range(n)]})


def write_cifar(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(TRAIN_FILES + TEST_FILES):
        (folder / name).write_bytes(batch(seed=seed))
    return folder


# -- shapes


def test_shapes_are_the_same_for_the_same_seed_and_equally_frequent():
    pictures, labels = draw_shapes(50, seed=3)
    again, _ = draw_shapes(50, seed=3)
    other, _ = draw_shapes(50, seed=4)
    np.testing.assert_array_equal(pictures, again)
    assert (pictures != other).any()
    assert pictures.shape == (50, 3, 32, 32)
    assert pictures.dtype == np.uint8
    assert np.bincount(labels).tolist() == [5] * 10
    assert draw_shapes(0, seed=0)[0].shape == (0, 3, 32, 32)
    with pytest.raises(ValueError, match="draw_shapes: count is at least 0, got -1"):
        draw_shapes(-1, seed=0)


@pytest.mark.parametrize("k", range(len(CLASSES)))
def test_each_shape_has_an_inside_within_its_radius_and_an_edge_of_slope_one(k):
    from apps.shapes import _SHAPES

    ahead = np.linspace(-2, 2, 401)
    x, y = np.meshgrid(ahead, ahead)
    distance = _SHAPES[k](x, y)
    inside = distance < 0
    assert inside.any()
    assert np.hypot(x, y)[inside].max() < 1.45
    slope = np.hypot(*np.gradient(distance, ahead, ahead))
    edge = np.abs(distance) < 0.02
    assert 0.5 < np.median(slope[edge]) < 1.2


def test_shapes_of_different_classes_differ_whatever_their_colour():
    from apps.shapes import _SHAPES

    ahead = np.linspace(-1.3, 1.3, 101)
    masks = np.array([shape(*np.meshgrid(ahead, ahead)) < 0 for shape in _SHAPES])
    common = np.array([[(a & b).sum() / (a | b).sum() for b in masks] for a in masks])
    assert (common - np.eye(len(masks))).max() < 0.85


# -- the command


@needs_apps
def test_two_epochs_on_shapes_print_a_table_and_how_many_are_named(capsys):
    code, out, err = run(capsys, *SMALL)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == (
        "ResNet9 of 431,946 parameters on drawn shapes: 100 images to learn from, 30 held out; "
        f"on {ndl.default_device()}"
    )
    assert [line.split()[0] for line in lines[1:4]] == ["epoch", "1", "2"]
    assert re.fullmatch(r"\d+\.\d\d% of the held-out images are named correctly after 2 epochs\.", lines[4])


@needs_apps
def test_the_network_learns_shapes(capsys):
    code, out, _ = run(capsys, "--shapes", 400, "--epochs", 5, "--batch-size", 32)
    losses = [float(line.split()[1]) for line in out.splitlines()[2:7]]
    assert code == 0
    assert losses[-1] < 0.75 * losses[0]


@needs_apps
def test_an_interrupted_run_resumes_to_the_very_same_file(capsys, tmp_path, monkeypatch):
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    assert run(capsys, *SMALL, "--augment", "on", "--save", straight)[0] == 0
    steps = iter([False, False, True])
    step = training.train_step

    def interrupting(*args):
        result = step(*args)
        if next(steps, False):
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(training, "train_step", interrupting)
    code, out, _ = run(capsys, *SMALL, "--augment", "on", "--save", cut)
    assert code == 130
    assert "Interrupted after 1 epoch and 1 of 2 steps." in out
    assert run(capsys, *shared.words_to_go_on(out, "apps.cifar10"))[0] == 0
    assert cut.read_bytes() == straight.read_bytes()


@needs_apps
def test_cifar_10_is_read_from_its_folder_or_from_what_holds_it_and_is_augmented(capsys, tmp_path, monkeypatch):
    folder, seen = write_cifar(tmp_path / "cifar-10-batches-py"), []
    loader = cifar10.DataLoader

    def spy(dataset, **settings):
        seen.append([type(t) for t in dataset.transforms])
        return loader(dataset, **settings)

    monkeypatch.setattr(cifar10, "DataLoader", spy)
    for data in (folder, tmp_path):
        code, out, _ = run(capsys, "--data", data, "--epochs", 1)
        assert code == 0
        assert "on CIFAR-10: 60 images to learn from, 12 held out" in out
    run(capsys, "--data", folder, "--epochs", 1, "--augment", "off")
    run(capsys, *SMALL)
    augmented = [RandomFlipHorizontal, RandomCrop]
    assert seen == [augmented, [], augmented, [], [], [], [], []]  # training and held-out images, in turns


@needs_apps
def test_the_picture_is_drawn(capsys, tmp_path):
    path = tmp_path / "run.png"
    code, out, _ = run(capsys, *SMALL, "--plot", path)
    assert code == 0
    assert f"Drawn into {path}" in out
    assert path.read_bytes().startswith(b"\x89PNG")


MISTAKES = {
    "no such folder": (["--data", "{tmp}/none"], "none: no such folder"),
    "a folder without batches": (["--data", "{tmp}"], "data_batch_1, data_batch_2, .* missing in"),
    "a damaged batch": (["--data", "{tmp}/damaged"], "not a CIFAR-10 batch, or truncated or damaged"),
    "shapes and data": (["--data", "{tmp}/damaged", "--shapes", "100"], "give one of them"),
    "too few shapes": (["--shapes", "9"], "--shapes: an integer of at least 10"),
    "augmenting somewhat": (["--augment", "some"], "invalid choice: 'some'"),
    "resuming from nothing": (["--resume", "{tmp}/none"], "there is no file"),
}


@needs_apps
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, tmp_path, name):
    path = write_cifar(tmp_path / "damaged") / "data_batch_4"
    path.write_bytes(path.read_bytes()[:-1])
    words, expected = MISTAKES[name]
    assert re.search(expected, shared.error_of(cifar10, capsys, *(word.format(tmp=tmp_path) for word in words)))


@needs_apps
def test_a_run_is_not_resumed_on_other_data(capsys, tmp_path):
    run(capsys, *SMALL, "--save", tmp_path / "run")
    code, _, err = run(capsys, "--resume", tmp_path / "run", "--shapes", 110)
    assert code == 2
    assert "the run was trained on other data" in err


# -- download


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def good_files():
    return {f"cifar-10-batches-py/{name}": batch(seed=k) for k, name in enumerate(TRAIN_FILES + TEST_FILES)}


def fetched(content, folder):
    """Fetch an archive with that content from a server on this machine."""
    pytest.importorskip("pooch", reason="needs pooch, of the extra 'apps'")
    from test_download import Server

    with Server({"cifar.tar.gz": content}) as server:
        checksums = {"cifar.tar.gz": hashlib.sha256(content).hexdigest()}
        return images.fetch_cifar10(folder, urls=[server.url], files=checksums)


def test_the_archive_is_fetched_unpacked_and_not_asked_for_again(tmp_path):
    folder = fetched(archive(good_files()), tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(TRAIN_FILES + TEST_FILES)
    assert len(images.cifar10_images(folder).train) == 60
    assert images.fetch_cifar10(tmp_path, urls=[], files={}) == folder


def test_nothing_but_the_batch_files_leaves_the_archive(tmp_path):
    outside = {"../escaped": b"x", "/tmp/escaped": b"x", "cifar-10-batches-py/../escaped": b"x", "readme.html": b"x"}
    folder = fetched(archive(outside | good_files()), tmp_path / "inside")
    assert sorted(path.name for path in folder.iterdir()) == sorted(TRAIN_FILES + TEST_FILES)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file() and path.parent != folder) == [
        "cifar.tar.gz"
    ]


def test_an_archive_that_lacks_a_file_or_is_none_is_an_error(tmp_path):
    files = good_files()
    del files["cifar-10-batches-py/data_batch_2"]
    with pytest.raises(images.download.DownloadError, match="cifar-10-batches-py/data_batch_2 missing in the archive"):
        fetched(archive(files), tmp_path / "a")
    with pytest.raises(images.download.DownloadError, match="damaged archive"):
        fetched(b"no archive", tmp_path / "b")


@needs_apps
def test_download_fetches_into_the_folder_of_data_and_trains_on_it(capsys, tmp_path, monkeypatch):
    seen, folder = [], write_cifar(tmp_path / "cifar-10-batches-py")
    monkeypatch.setattr(images, "fetch_cifar10", lambda where: seen.append(where) or folder)
    code, out, _ = run(capsys, "--download", "--data", tmp_path, "--epochs", 1)
    assert code == 0
    assert seen == [tmp_path]
    assert "60 images to learn from, 12 held out" in out
