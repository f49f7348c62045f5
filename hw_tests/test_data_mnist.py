"""MNIST: what an item is, what an index may be, which files are refused, and the real digits."""

import numpy as np
import pytest
from shared import write_idx

from needle.data import DataLoader, MNISTDataset, RandomCrop, RandomFlipHorizontal, read_mnist

COUNT = 12


@pytest.fixture
def pixels():
    return np.random.randint(256, size=(COUNT, 28, 28), dtype=np.uint8)


@pytest.fixture
def digits():
    return np.random.randint(10, size=COUNT, dtype=np.uint8)


@pytest.fixture
def files(tmp_path, pixels, digits):
    return write_idx(tmp_path / "images", pixels), write_idx(tmp_path / "labels", digits)


def test_an_item_is_a_float32_image_in_0_to_1_and_its_label(files, pixels, digits):
    image, label = MNISTDataset(*files)[4]
    assert (image.shape, image.dtype) == ((28, 28, 1), np.float32)
    np.testing.assert_array_equal(image[..., 0], pixels[4].astype(np.float32) / np.float32(255))
    assert label == digits[4]


def test_the_length_is_the_number_of_images_and_iteration_ends_there(files):
    dataset = MNISTDataset(*files)
    assert len(dataset) == len(list(dataset)) == COUNT


@pytest.mark.parametrize(
    "index",
    [-1, -COUNT, np.int64(3), slice(2, 9, 3), slice(None), [0, 5, -COUNT], np.array([7, 7, 0]), [], slice(0, 0)],
)
def test_an_index_selects_what_it_selects_of_a_numpy_array(files, pixels, digits, index):
    images, labels = MNISTDataset(*files)[index]
    chosen = index if not isinstance(index, list) else np.array(index, dtype=int)
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images[..., 0], pixels[chosen].astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(labels, digits[chosen])


def test_a_mask_selects_the_images_of_a_digit(files, digits):
    dataset = MNISTDataset(*files)
    _, labels = dataset[dataset.labels == digits[0]]
    assert labels.tolist() == [digit for digit in digits.tolist() if digit == digits[0]]


@pytest.mark.parametrize("index", [COUNT, -COUNT - 1, [0, COUNT], np.array([-COUNT - 1])])
def test_an_index_out_of_range_names_the_valid_ones(files, index):
    with pytest.raises(IndexError, match=r"MNISTDataset: index .*out of range for 12 samples \(-12 to 11"):
        MNISTDataset(*files)[index]


@pytest.mark.parametrize("index", [1.0, "1", None, (0, 1), [0.5], ["a"], [[1], [2, 3]]])
def test_an_index_of_another_type_is_refused(files, index):
    with pytest.raises(TypeError, match="MNISTDataset: "):
        MNISTDataset(*files)[index]


@pytest.mark.parametrize("index", [np.zeros((2, 2), dtype=int), np.array([True, False])])
def test_an_index_array_of_another_shape_is_refused(files, index):
    with pytest.raises(ValueError, match="MNISTDataset: "):
        MNISTDataset(*files)[index]


def test_transforms_act_on_each_image_of_a_slice_and_of_an_index_array(files):
    dataset = MNISTDataset(*files, transforms=[RandomCrop(3), RandomFlipHorizontal()])
    for index in (slice(2, 8), [5, 0, 5]):
        np.random.seed(1)
        together, _ = dataset[index]
        np.random.seed(1)
        positions = range(COUNT)[index] if isinstance(index, slice) else index
        one_by_one = np.stack([dataset[position][0] for position in positions])
        np.testing.assert_array_equal(together, one_by_one)


def test_changing_an_item_leaves_the_dataset_as_it_was(files):
    dataset = MNISTDataset(*files)
    before = dataset[3][0].copy()
    dataset[3][0][:] = 9
    dataset[2:5][0][:] = 9
    np.testing.assert_array_equal(dataset[3][0], before)


def test_counts_that_disagree_are_both_named(tmp_path, files, digits):
    fewer = write_idx(tmp_path / "fewer", digits[:-1])
    with pytest.raises(ValueError, match=r"12 images in .*images but 11 labels in .*fewer"):
        MNISTDataset(files[0], fewer)


def test_a_label_that_is_no_digit_is_named_with_its_place(tmp_path, files, digits):
    digits[5] = 10
    wrong = write_idx(tmp_path / "wrong", digits)
    with pytest.raises(ValueError, match=r"label 10 at position 5 of .*wrong is not a digit"):
        MNISTDataset(files[0], wrong)


def test_swapped_files_are_refused(files):
    with pytest.raises(ValueError, match=r"holds shape \(12,\) of uint8; images have shape"):
        MNISTDataset(files[1], files[0])


@pytest.mark.parametrize("shape", [(COUNT, 784), (COUNT, 28, 27), (COUNT, 28, 28, 1), ()])
def test_images_of_another_shape_are_refused(tmp_path, files, shape):
    images = write_idx(tmp_path / "odd", np.zeros(shape, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"odd holds shape .*images have shape \(n, 28, 28\)"):
        MNISTDataset(images, files[1])


def test_files_of_another_element_type_are_refused(tmp_path, files, pixels, digits):
    signed_images = write_idx(tmp_path / "signed_images", pixels.view(np.int8))
    signed_labels = write_idx(tmp_path / "signed_labels", digits.view(np.int8))
    with pytest.raises(ValueError, match=r"signed_images holds shape .* of int8"):
        MNISTDataset(signed_images, files[1])
    with pytest.raises(ValueError, match=r"signed_labels holds shape .* of int8"):
        MNISTDataset(files[0], signed_labels)


def test_labels_of_another_shape_are_refused(tmp_path, files):
    labels = write_idx(tmp_path / "one_hot", np.zeros((COUNT, 10), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"one_hot holds shape \(12, 10\).*labels have shape \(n,\)"):
        MNISTDataset(files[0], labels)


def test_a_missing_file_is_named(tmp_path, files):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        MNISTDataset(tmp_path / "nowhere", files[1])


@pytest.fixture(scope="module")
def real_files(real_data):
    return (real_data / "mnist" / "t10k-images-idx3-ubyte.gz", real_data / "mnist" / "t10k-labels-idx1-ubyte.gz")


def test_the_real_test_set_has_ten_thousand_digits_of_known_counts(real_files):
    images, labels = read_mnist(*real_files)
    assert (images.shape, images.dtype) == ((10_000, 28, 28), np.uint8)
    # The number of digits of each class in the MNIST test set, as published.
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_real_test_set_has_the_published_mean_brightness(real_files):
    images, _ = MNISTDataset(*real_files)[:]
    # 0.1325 is the mean of the test images (0.1307 that of the training images).
    assert abs(images.mean(dtype=np.float64) - 0.1325) < 5e-5
    assert (images.min(), images.max()) == (0, 1)


def test_real_digits_of_a_class_are_nearest_to_their_own_mean_image(real_files):
    images, labels = MNISTDataset(*real_files)[:]
    flat = images.reshape(len(images), -1)
    means = np.stack([flat[labels == digit].mean(axis=0) for digit in range(10)])
    nearest = (np.square(means).sum(axis=1) - 2 * flat @ means.T).argmin(axis=1)
    # The nearest-mean classifier gets 82 % of MNIST right; images out of step with labels get 10 %.
    assert (nearest == labels).mean() > 0.8


def test_the_loader_gives_every_real_digit_once(real_files):
    loader = DataLoader(MNISTDataset(*real_files), batch_size=300, shuffle=True)
    sizes, labels = zip(*[(len(y.numpy()), y.numpy()) for _, y in loader], strict=True)
    assert sizes == (300,) * 33 + (100,)
    assert np.bincount(np.concatenate(labels)).tolist() == np.bincount(loader.dataset.labels).tolist()
