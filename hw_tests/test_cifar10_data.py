"""CIFAR-10's batch files: read as they are, and never trusted."""

import os
import pickle
import struct

import numpy as np
import pytest

from needle.data import CIFAR10Dataset, DataLoader, RandomCrop, RandomFlipHorizontal
from needle.data.cifar_pickle import read_cifar_batch


def content(n=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        b"batch_label": b"training batch 1 of 5",
        b"labels": [int(k) for k in rng.integers(10, size=n)],
        b"data": rng.integers(256, size=(n, 3072), dtype=np.uint8),
        b"filenames": [b"image_%d.png" % k for k in range(n)],
    }


def write(path, batch, protocol=4):
    path.write_bytes(pickle.dumps(batch, protocol=protocol))
    return path


def python_2_pickle(batch):
    """The bytes that Python 2's cPickle wrote with protocol 2, as the real files have them: str is SHORT_BINSTRING."""

    def text(value):
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<I", len(value)) + value

    data = batch[b"data"]
    shape = b"M" + struct.pack("<H", data.shape[0]) + b"M" + struct.pack("<H", data.shape[1]) + b"\x86"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|")
    dtype += b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(data.tobytes()) + b"tb"
    labels = b"](" + b"".join(b"K" + bytes([k]) for k in batch[b"labels"]) + b"e"
    names = b"](" + b"".join(text(name) for name in batch[b"filenames"]) + b"e"
    items = {b"batch_label": text(batch[b"batch_label"]), b"labels": labels, b"data": array, b"filenames": names}
    return b"\x80\x02}(" + b"".join(text(key) + value for key, value in items.items()) + b"u."


@pytest.fixture
def folder(tmp_path):
    for k in range(1, 6):
        write(tmp_path / f"data_batch_{k}", content(seed=k))
    write(tmp_path / "test_batch", content(seed=6))
    return tmp_path


# -- reading


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_batch_is_read_as_it_was_written(tmp_path, protocol):
    batch = content()
    images, labels = read_cifar_batch(write(tmp_path / "batch", batch, protocol))
    np.testing.assert_array_equal(images, batch[b"data"].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(labels, batch[b"labels"])
    assert images.dtype == np.uint8
    assert images.flags.writeable


def test_the_bytes_that_python_2_wrote_are_read(tmp_path):
    batch = content()
    (tmp_path / "batch").write_bytes(python_2_pickle(batch))
    images, labels = read_cifar_batch(tmp_path / "batch")
    np.testing.assert_array_equal(images.reshape(-1, 3072), batch[b"data"])
    np.testing.assert_array_equal(labels, batch[b"labels"])


def test_an_array_in_fortran_order_is_read(tmp_path):
    batch = content()
    batch[b"data"] = np.asfortranarray(batch[b"data"])
    images, _ = read_cifar_batch(write(tmp_path / "batch", batch))
    np.testing.assert_array_equal(images.reshape(-1, 3072), batch[b"data"])


def test_training_files_are_joined_and_the_test_file_stands_alone(folder):
    train, test = CIFAR10Dataset(folder, train=True), CIFAR10Dataset(folder, train=False)
    assert (len(train), len(test)) == (20, 4)
    image, label = train[5]
    second = content(seed=2)
    assert image.shape == (3, 32, 32)
    assert image.dtype == np.float32
    np.testing.assert_allclose(image.ravel(), second[b"data"][1] / 255, atol=1e-7)
    assert label == second[b"labels"][1]


def test_slices_and_index_arrays_give_stacked_samples(folder):
    dataset = CIFAR10Dataset(folder, train=True)
    images, labels = dataset[np.array([3, -1])]
    for k, index in enumerate((3, 19)):
        np.testing.assert_array_equal(images[k], dataset[index][0])
        assert labels[k] == dataset[index][1]
    assert dataset[2:7][0].shape == (5, 3, 32, 32)
    with pytest.raises(IndexError, match="CIFAR10Dataset: index 20 is out of range for 20 samples"):
        dataset[20]


def test_the_courses_transforms_see_channels_last(folder):
    plain = CIFAR10Dataset(folder, train=False)
    flipped = CIFAR10Dataset(folder, train=False, transforms=[RandomFlipHorizontal(p=1.0)])
    np.testing.assert_array_equal(flipped[0][0], plain[0][0][:, :, ::-1])
    np.testing.assert_array_equal(flipped[:][0], plain[:][0][..., ::-1])
    cropped = CIFAR10Dataset(folder, train=False, transforms=[RandomCrop(padding=2), RandomFlipHorizontal()])
    batch, _ = next(iter(DataLoader(cropped, batch_size=3)))
    assert batch.shape == (3, 3, 32, 32)


# -- distrust


class Bomb:
    """Unpickling it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("place", ["instead", "as the labels", "inside the array"])
def test_a_malicious_file_runs_nothing(tmp_path, place):
    trap, batch = tmp_path / "trap", content()
    if place == "instead":
        batch = Bomb(trap)
    elif place == "as the labels":
        batch[b"labels"] = [Bomb(trap)]
    else:
        array = np.empty(1, dtype=object)
        array[0] = Bomb(trap)
        batch[b"data"] = array
    write(tmp_path / "batch", batch)
    with pytest.raises(ValueError, match=r"it asks for (posix|nt)\.mkdir, .* nothing was run"):
        read_cifar_batch(tmp_path / "batch")
    assert not trap.exists()
    pickle.loads((tmp_path / "batch").read_bytes())  # the trap is real
    assert trap.exists()


@pytest.mark.parametrize(
    "name", ["builtins\neval", "os\nsystem", "numpy\nload", "numpy.core.multiarray\nscalar", "_codecs\nencode"]
)
def test_any_name_but_those_of_an_array_is_refused(tmp_path, name):
    (tmp_path / "batch").write_bytes(b"\x80\x02c" + name.encode() + b"\nU\x01x\x85R.")
    with pytest.raises(ValueError, match=f"it asks for {name.replace(chr(10), '.')}"):
        read_cifar_batch(tmp_path / "batch")


def test_even_numpys_own_functions_are_not_called(tmp_path):
    huge = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n\x8a\x05\xff\xff\xff\xff\x7f\x85U\x01b\x87R."
    )
    (tmp_path / "batch").write_bytes(huge)  # NumPy would take half a terabyte here
    with pytest.raises(ValueError, match="a dictionary with b'data' and b'labels' is needed, found _Recorded"):
        read_cifar_batch(tmp_path / "batch")


def test_a_memo_number_beyond_the_file_takes_no_memory(tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x02K\x00r\xff\xff\xff\x7f.")
    with pytest.raises(ValueError, match="it files an object under number 2147483647 after 2 opcodes"):
        read_cifar_batch(tmp_path / "batch")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_an_error_that_says_so(tmp_path, share):
    data = pickle.dumps(content())
    (tmp_path / "batch").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match="batch: not a CIFAR-10 batch, or truncated or damaged"):
        read_cifar_batch(tmp_path / "batch")


def test_any_single_damaged_byte_gives_an_error_or_other_numbers_but_nothing_else(tmp_path):
    batch = content(n=1)
    batch[b"data"] = np.zeros((1, 3072), dtype=np.uint8)
    data = pickle.dumps(batch)
    where = [k for k in range(len(data)) if k < 200 or k > len(data) - 100]
    for position in where[:: max(1, len(where) // 150)]:
        (tmp_path / "batch").write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        try:
            images, labels = read_cifar_batch(tmp_path / "batch")
        except ValueError as error:
            assert str(error).startswith("read_cifar_batch: ")
        else:
            assert images.shape[1:] == (3, 32, 32)
            assert len(images) == len(labels)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {b"data": None},
            "a dictionary with b'data' and b'labels' is needed, found b'batch_label', b'labels', b'filenames'",
        ),
        ({b"data": b"x" * 3072}, "b'data' must be an array, found bytes"),
        ({b"data": np.zeros((4, 3072), dtype=np.int8)}, r"uint8 of shape \(n, 3072\), found 'i1' of \(4, 3072\)"),
        ({b"data": np.zeros((4, 3000), dtype=np.uint8)}, r"found 'u1' of \(4, 3000\)"),
        ({b"data": np.zeros((5, 3072), dtype=np.uint8)}, "5 images but 4 labels"),
        ({b"labels": [1, 2, 3, 10]}, "b'labels' must be a list of integers from 0 to 9"),
        ({b"labels": [1, 2, 3, 4.0]}, "b'labels' must be a list of integers from 0 to 9"),
        ({b"labels": (1, 2, 3, 4)}, "b'labels' must be a list of integers from 0 to 9"),
    ],
)
def test_wrong_content_is_an_error_that_says_so(tmp_path, change, text):
    batch = {key: value for key, value in (content() | change).items() if value is not None}
    with pytest.raises(ValueError, match=text):
        read_cifar_batch(write(tmp_path / "batch", batch))


def test_a_pickle_of_something_else_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="a dictionary with b'data' and b'labels' is needed, found list"):
        read_cifar_batch(write(tmp_path / "batch", [1, 2, 3]))


def test_missing_files_are_named(folder):
    (folder / "data_batch_3").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"CIFAR10Dataset: data_batch_3 missing in .* cifar-10-batches-py is needed"
    ):
        CIFAR10Dataset(folder, train=True)
    assert len(CIFAR10Dataset(folder, train=False)) == 4
