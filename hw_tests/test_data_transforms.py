"""Flips and crops: which numbers they draw and what they do with them."""

import numpy as np
import pytest

from needle.data import RandomCrop, RandomFlipHorizontal, Transform


@pytest.fixture
def image():
    return np.random.rand(5, 7, 3)


def test_a_certain_flip_mirrors_the_columns_and_a_second_one_undoes_it(image):
    flip = RandomFlipHorizontal(p=1)
    flipped = flip(image)
    for column in range(7):
        np.testing.assert_array_equal(flipped[:, column], image[:, 6 - column])
    np.testing.assert_array_equal(flip(flipped), image)


def test_a_flip_of_probability_0_never_happens(image):
    for _ in range(50):
        np.testing.assert_array_equal(RandomFlipHorizontal(p=0)(image), image)


def test_a_flip_happens_when_the_one_number_drawn_is_below_p(image):
    np.random.seed(3)
    draws = np.random.rand(200)
    np.random.seed(3)
    flip = RandomFlipHorizontal(p=0.3)
    flipped = [not np.array_equal(flip(image), image) for _ in range(200)]
    assert flipped == (draws < 0.3).tolist()


@pytest.mark.parametrize("padding", [0, 1, 3, 28])
def test_a_crop_is_a_window_of_the_padded_image_at_the_two_numbers_drawn(image, padding):
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    crop = RandomCrop(padding=padding)
    for seed in range(30):
        np.random.seed(seed)
        shift_x, shift_y = np.random.randint(low=-padding, high=padding + 1, size=2)
        following = np.random.rand()
        expected = padded[padding + shift_x :, padding + shift_y :][:5, :7]
        np.random.seed(seed)
        np.testing.assert_array_equal(crop(image), expected)
        assert np.random.rand() == following


def test_all_shifts_of_a_crop_occur(image):
    crop = RandomCrop(padding=1)
    assert len({crop(image).tobytes() for _ in range(300)}) == 9


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("transform", [RandomCrop(2), RandomFlipHorizontal(1)])
def test_shape_and_dtype_stay_and_so_does_the_input(transform, dtype):
    image = np.random.randint(256, size=(4, 6, 1)).astype(dtype)
    before = image.copy()
    result = transform(image)
    assert (result.shape, result.dtype) == (image.shape, image.dtype)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("transform", [RandomCrop(), RandomFlipHorizontal()])
@pytest.mark.parametrize("wrong", [np.zeros((28, 28)), np.zeros((2, 28, 28, 1)), [[1, 2]]])
def test_what_is_no_image_of_three_axes_is_refused(transform, wrong):
    with pytest.raises(ValueError, match=r"Random\w+: an image of shape \(height, width, channels\) is needed"):
        transform(wrong)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_flip_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match="RandomFlipHorizontal: p is a probability"):
        RandomFlipHorizontal(p)


def test_a_crop_refuses_a_padding_that_is_no_count_of_pixels():
    with pytest.raises(ValueError, match="RandomCrop: padding is an integer of at least 0, got -1"):
        RandomCrop(-1)
    with pytest.raises(TypeError, match=r"RandomCrop: padding is an integer of at least 0, got 1.5"):
        RandomCrop(1.5)


def test_the_course_calls_keep_their_keywords():
    assert RandomFlipHorizontal(p=0.25).p == 0.25
    assert RandomCrop(padding=4).padding == 4
    assert isinstance(RandomCrop(), Transform) and isinstance(RandomFlipHorizontal(), Transform)


def test_a_transform_without_a_call_says_what_to_define(image):
    class Blur(Transform):
        pass

    with pytest.raises(NotImplementedError, match="Blur must define __call__"):
        Blur()(image)
