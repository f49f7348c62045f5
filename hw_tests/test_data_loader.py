"""Datasets and the loader: which samples a pass gives, in which order, and in which form."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle.data import DataLoader, Dataset, NDArrayDataset


class Squares(Dataset):
    """(i, i²) for one integer at a time; counts its calls."""

    def __init__(self, count, transforms=None):
        super().__init__(transforms)
        self.count = count
        self.calls = []

    def __getitem__(self, index):
        self.calls.append(index)
        if not isinstance(index, int):
            raise TypeError("Squares takes single integers")
        return self.apply_transforms(np.full((2, 3), float(index))), index**2

    def __len__(self):
        return self.count


def values(loader):
    return [x.numpy().tolist() for (x,) in loader]


@given(count=st.integers(0, 30), batch_size=st.integers(1, 12))
def test_batches_are_consecutive_and_the_short_last_one_is_kept(count, batch_size):
    loader = DataLoader(NDArrayDataset(np.arange(count)), batch_size=batch_size)
    batches = values(loader)
    assert list(itertools.chain(*batches)) == list(range(count))
    assert len(loader) == len(batches)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert all(1 <= len(batch) <= batch_size for batch in batches)


@given(count=st.integers(0, 30), batch_size=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_a_shuffled_pass_follows_one_permutation_of_the_global_generator(count, batch_size, seed):
    np.random.seed(seed)
    order = np.random.permutation(count).tolist()
    following = np.random.rand()
    np.random.seed(seed)
    loader = DataLoader(NDArrayDataset(np.arange(count)), batch_size=batch_size, shuffle=True)
    assert list(itertools.chain(*values(loader))) == order
    assert np.random.rand() == following


def test_the_order_is_drawn_when_the_pass_starts_and_not_at_its_first_batch():
    loader = DataLoader(NDArrayDataset(np.arange(20)), batch_size=20, shuffle=True)
    np.random.seed(5)
    order = np.random.permutation(20).tolist()
    np.random.seed(5)
    batches = iter(loader)
    np.random.rand(3)
    assert values(batches) == [order]


def test_each_pass_has_an_order_of_its_own():
    loader = DataLoader(NDArrayDataset(np.arange(50)), batch_size=50, shuffle=True)
    assert values(loader) != values(loader)


def test_a_pass_without_shuffle_draws_nothing():
    np.random.seed(1)
    following = np.random.rand()
    np.random.seed(1)
    values(DataLoader(NDArrayDataset(np.arange(5))))
    assert np.random.rand() == following


@pytest.mark.parametrize("shuffle", [False, True])
def test_two_passes_at_once_do_not_disturb_each_other(shuffle):
    loader = DataLoader(NDArrayDataset(np.arange(9)), batch_size=2, shuffle=shuffle)
    np.random.seed(2)
    alone = values(loader), values(loader)
    np.random.seed(2)
    first, second = iter(loader), iter(loader)
    taken = [next(first)[0].numpy().tolist()]
    interleaved = values(second)
    assert (taken + values(first), interleaved) == alone


def test_next_works_on_what_iter_returns_and_stops_at_the_end():
    batches = iter(DataLoader(NDArrayDataset(np.arange(3)), batch_size=2))
    assert iter(batches) is batches
    assert [next(batches)[0].numpy().tolist(), next(batches)[0].numpy().tolist()] == [[0, 1], [2]]
    with pytest.raises(StopIteration):
        next(batches)


def test_a_batch_is_a_list_of_tensors_of_the_arrays_dtypes_without_gradients():
    inputs, labels = np.random.rand(4, 3).astype("float32"), np.arange(4, dtype="uint8")
    batch = next(iter(DataLoader(NDArrayDataset(inputs, labels), batch_size=3)))
    assert isinstance(batch, list)
    assert all(isinstance(field, ndl.Tensor) and not field.requires_grad for field in batch)
    assert [(field.shape, field.numpy().dtype) for field in batch] == [((3, 3), inputs.dtype), ((3,), labels.dtype)]
    np.testing.assert_array_equal(batch[0].numpy(), inputs[:3])


@pytest.mark.parametrize("shuffle", [False, True])
def test_writing_into_a_batch_leaves_the_dataset_as_it_was(shuffle):
    inputs = np.arange(4.0)
    (x,) = next(iter(DataLoader(NDArrayDataset(inputs), batch_size=4, shuffle=shuffle)))
    x.realize_cached_data()[:] = -1
    assert inputs.tolist() == [0, 1, 2, 3]


def test_the_tensors_are_made_on_the_device_asked_for():
    dataset = NDArrayDataset(np.arange(4))
    (x,) = next(iter(DataLoader(dataset, device=ndl.cpu())))
    assert x.device == ndl.cpu()
    # No machine has this GPU, so the refusal shows that it was asked for.
    with pytest.raises(RuntimeError, match=r"cuda\(999\)"):
        next(iter(DataLoader(dataset, device=ndl.cuda(999))))


def test_a_dataset_of_single_samples_is_asked_for_each_and_stacked():
    dataset = Squares(5)
    x, y = list(DataLoader(dataset, batch_size=2))[1]
    assert dataset.calls == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(x.numpy(), np.stack([np.full((2, 3), 2.0), np.full((2, 3), 3.0)]))
    assert y.numpy().tolist() == [4, 9]


def test_a_dataset_that_takes_index_arrays_is_asked_once_per_batch():
    class Counted(NDArrayDataset):
        calls = 0

        def __getitem__(self, index):
            self.calls += 1
            return super().__getitem__(index)

    dataset = Counted(np.arange(7), np.arange(7.0))
    list(DataLoader(dataset, batch_size=3, shuffle=True))
    assert dataset.calls == 3


def test_transforms_act_on_single_samples_in_the_order_of_the_pass():
    seen = []

    def remember(x):
        seen.append(float(x[0, 0]))
        return x + 1

    loader = DataLoader(Squares(4, transforms=[remember]), batch_size=2, shuffle=True)
    result = np.concatenate([x.numpy()[:, 0, 0] for x, _ in loader])
    assert sorted(seen) == [0, 1, 2, 3]
    assert (result - 1).tolist() == seen


def test_a_plain_sequence_of_pairs_is_a_dataset_too():
    pairs = [(np.array([1.0, 2.0]), 0), (np.array([3.0, 4.0]), 1)]
    x, y = next(iter(DataLoader(pairs, batch_size=2)))
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([[1, 2], [3, 4]], [0, 1])


def test_a_sample_may_be_a_single_field_or_hold_tensors():
    (x,) = next(iter(DataLoader(np.arange(3.0), batch_size=3)))
    assert x.numpy().tolist() == [0, 1, 2]
    (x,) = next(iter(DataLoader([(ndl.Tensor([1.0, 2.0]),), (ndl.Tensor([3.0, 4.0]),)], batch_size=2)))
    assert x.numpy().tolist() == [[1, 2], [3, 4]]


def test_samples_that_do_not_stack_are_named():
    with pytest.raises(ValueError, match=r"sample 0 has \(2,\) as a field's shape, sample 1 has \(3,\)"):
        next(iter(DataLoader([(np.zeros(2),), (np.zeros(3),)], batch_size=2)))
    with pytest.raises(ValueError, match="sample 0 has 2 fields, sample 1 has 1"):
        next(iter(DataLoader([(1, 2), (3,)], batch_size=2)))
    with pytest.raises(TypeError, match="DataLoader: sample 1: real numbers or booleans are needed, got str"):
        next(iter(DataLoader([(1,), ("a",)], batch_size=2)))


@pytest.mark.parametrize("batch_size, error", [(0, ValueError), (-1, ValueError), (2.0, TypeError), (None, TypeError)])
def test_a_batch_size_that_is_no_positive_integer_is_refused(batch_size, error):
    with pytest.raises(error, match="DataLoader: batch_size is"):
        DataLoader(NDArrayDataset(np.arange(3)), batch_size=batch_size)


def test_a_dataset_without_length_or_items_is_refused():
    for dataset in ((x for x in range(3)), {"a": 1}):
        name = type(dataset).__name__
        with pytest.raises(TypeError, match=f"DataLoader: a dataset has __getitem__ and __len__, {name} has not"):
            DataLoader(dataset)
    with pytest.raises(TypeError, match="DataLoader: a dataset is needed, got the class NDArrayDataset"):
        DataLoader(NDArrayDataset)


def test_a_device_is_checked_when_the_loader_is_made():
    with pytest.raises(TypeError, match=r"DataLoader: a device is ndl.cpu\(\) or ndl.cuda\(\), got 'cuda'"):
        DataLoader(NDArrayDataset(np.arange(3)), device="cuda")


def test_an_array_dataset_gives_the_rows_of_all_arrays():
    first, second = np.arange(6).reshape(3, 2), np.array([5.0, 6.0, 7.0])
    dataset = NDArrayDataset(first, second)
    assert len(dataset) == 3
    assert dataset.arrays[0] is first
    x, y = dataset[-1]
    assert (x.tolist(), y) == ([4, 5], 7)
    for index in (slice(1, None), [2, 0], np.array([1])):
        x, y = dataset[index]
        np.testing.assert_array_equal(x, first[index])
        np.testing.assert_array_equal(y, second[index])


def test_an_array_dataset_ends_a_for_loop_at_its_length():
    assert [int(x) for (x,) in NDArrayDataset(np.arange(4))] == [0, 1, 2, 3]


def test_an_array_dataset_takes_lists_and_tensors():
    x, y = NDArrayDataset([[1, 2], [3, 4]], ndl.Tensor([5.0, 6.0]))[1]
    assert (x.tolist(), y) == ([3, 4], 6)


@pytest.mark.parametrize(
    "arrays, error, message",
    [
        ((), ValueError, "at least one array"),
        ((np.zeros(3), np.zeros(2)), ValueError, "equal length are needed, got lengths 3 and 2"),
        ((np.array(1.0),), ValueError, "a 0-d array has no samples"),
        ((["a", "b"],), TypeError, "real numbers or booleans are needed"),
        (([[1], [2, 3]],), TypeError, "does not make an array"),
    ],
)
def test_an_array_dataset_refuses_arrays_that_are_no_samples(arrays, error, message):
    with pytest.raises(error, match=f"NDArrayDataset: .*{message}"):
        NDArrayDataset(*arrays)


def test_transforms_run_in_order():
    dataset = Dataset(transforms=[lambda x: x + 1, lambda x: x * 10])
    assert dataset.apply_transforms(2) == 30
    assert Dataset().apply_transforms(2) == 2


def test_transforms_that_are_no_list_of_callables_are_refused():
    with pytest.raises(TypeError, match="transforms is a list of callables, got function; put a single"):
        Dataset(transforms=lambda x: x)
    with pytest.raises(TypeError, match="the transform 'flip' is not callable"):
        Dataset(transforms=["flip"])


def test_a_dataset_without_its_two_methods_says_what_to_define():
    class Empty(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define __getitem__"):
        Empty()[0]
    with pytest.raises(NotImplementedError, match="Empty must define __len__"):
        len(Empty())


def test_everything_is_reached_as_an_attribute_of_needle_data():
    for name in ("Dataset", "DataLoader", "NDArrayDataset", "MNISTDataset", "RandomCrop", "RandomFlipHorizontal"):
        assert name in ndl.data.__all__ and hasattr(ndl.data, name)
