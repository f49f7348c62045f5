"""Homework 2, data: transforms, datasets and the loader, with the draws that they make."""

import struct

import numpy as np
import pytest

from needle.data import DataLoader, MNISTDataset, NDArrayDataset, RandomCrop, RandomFlipHorizontal


@pytest.fixture
def mnist(tmp_path):
    """Paths of twelve images, the k-th with all pixels 20 k, and labels 0 to 9, 0, 1."""
    images, labels = tmp_path / "images", tmp_path / "labels"
    pixels = np.repeat(np.arange(12, dtype=np.uint8) * 20, 784).tobytes()
    images.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 12, 28, 28) + pixels)
    labels.write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 12) + (np.arange(12, dtype=np.uint8) % 10).tobytes())
    return images, labels


def test_a_flip_mirrors_columns_when_its_draw_says_so():
    image = np.random.rand(4, 5, 1)
    np.random.seed(0)
    draws = np.random.rand(20)
    np.random.seed(0)
    for draw in draws:
        expected = image[:, ::-1, :] if draw < 0.5 else image
        np.testing.assert_array_equal(RandomFlipHorizontal(0.5)(image), expected)


def test_a_crop_shifts_by_its_draw_and_fills_with_zeros():
    image = np.random.rand(6, 6, 1)
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
    for seed in range(10):
        np.random.seed(seed)
        down, right = np.random.randint(low=-2, high=3, size=2)
        np.random.seed(seed)
        expected = padded[2 + down : 8 + down, 2 + right : 8 + right]
        np.testing.assert_array_equal(RandomCrop(2)(image), expected)


def test_a_sample_of_mnist_is_an_image_of_floats_and_a_label(mnist):
    dataset = MNISTDataset(*mnist)
    image, label = dataset[5]
    assert len(dataset) == 12 and image.shape == (28, 28, 1) and image.dtype == np.float32 and label == 5
    np.testing.assert_array_equal(image, np.float32(100) / np.float32(255))


def test_transforms_run_on_each_sample(mnist):
    image, _ = MNISTDataset(*mnist, transforms=[lambda x: x + 1, lambda x: x * 2])[0]
    np.testing.assert_array_equal(image, 2)


def test_a_loader_gives_batches_in_order_and_the_short_one_last(mnist):
    batches = list(DataLoader(MNISTDataset(*mnist), batch_size=5))
    assert [X.shape for X, _ in batches] == [(5, 28, 28, 1), (5, 28, 28, 1), (2, 28, 28, 1)]
    assert np.concatenate([y.numpy() for _, y in batches]).tolist() == [*range(10), 0, 1]


def test_shuffling_follows_one_permutation_for_each_pass():
    loader = DataLoader(NDArrayDataset(np.arange(10)), batch_size=3, shuffle=True)
    np.random.seed(1)
    expected = [np.random.permutation(10).tolist() for _ in range(2)]
    np.random.seed(1)
    assert [[i for (x,) in loader for i in x.numpy().tolist()] for _ in range(2)] == expected
