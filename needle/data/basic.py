"""`Dataset`, which gives one sample per index, and `DataLoader`, which makes batches of Tensors of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from needle.autograd import Tensor
from needle.backend import as_device
from needle.data.indexing import as_numeric_array
from needle.ops.checks import as_integer


class Dataset:
    """A collection of samples: subclasses define ``__getitem__`` and ``__len__``.

    A sample is a tuple of arrays or numbers, such as (image, label).

    Parameters
    ----------
    transforms : iterable of callables, optional
        Each takes one sample's array and returns one; `apply_transforms` runs them in order.

    Attributes
    ----------
    transforms : list of callables
    takes_index_arrays : bool
        Class attribute, False unless a subclass says otherwise. True promises that ``dataset[indices]``
        with a 1-D integer array gives the samples' fields already stacked, so that a `DataLoader`
        needs one call per batch instead of one per sample.

    Raises
    ------
    TypeError
        If `transforms` is not an iterable of callables.

    Examples
    --------
    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index, self.apply_transforms(index**2)
    ...
    ...     def __len__(self):
    ...         return 4
    >>> Squares(transforms=[lambda x: x + 0.5])[3]
    (3, 9.5)
    """

    takes_index_arrays: bool = False

    def __init__(self, transforms: Iterable[Callable[[Any], Any]] | None = None) -> None:
        if transforms is not None and not isinstance(transforms, Iterable):
            raise TypeError(
                f"{type(self).__name__}: transforms is a list of callables, got {type(transforms).__name__}; "
                "put a single transform into a list"
            )
        self.transforms: list[Callable[[Any], Any]] = list(transforms or ())
        for transform in self.transforms:
            if not callable(transform):
                raise TypeError(f"{type(self).__name__}: the transform {transform!r} is not callable")

    def __getitem__(self, index: Any) -> Any:
        """Give the sample at `index`; raise IndexError beyond the end, so that ``for`` loops stop."""
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(self, index)")

    def __len__(self) -> int:
        """Give the number of samples."""
        raise NotImplementedError(f"{type(self).__name__} must define __len__(self)")

    def apply_transforms(self, x: Any) -> Any:
        """Run `x` through all transforms, in order."""
        for transform in self.transforms or ():
            x = transform(x)
        return x


class DataLoader:
    """Batches of a dataset, each a list of Tensors with one Tensor per field of a sample.

    Each ``iter(loader)`` is a pass of its own over all samples, and two passes at once do not disturb
    each other. The last batch is shorter when the batch size does not divide the number of samples.
    The Tensors hold copies of the samples and do not require gradients.

    Parameters
    ----------
    dataset : Dataset or sequence of samples
    batch_size : int
        Samples per batch, at least 1.
    shuffle : bool
        Whether each pass visits the samples in a new order: one ``np.random.permutation`` of NumPy's
        global generator, drawn when ``iter`` is called.
    device : Device, optional
        Where the Tensors live, such as ``ndl.cuda()``; the CPU if None, where datasets keep their arrays.

    Raises
    ------
    TypeError
        If `batch_size` is not an integer, `device` no device, or `dataset` has no length or no positions to be
        indexed by.
    ValueError
        If `batch_size` is below 1. While iterating: if a batch's samples differ in their number of
        fields or in a field's shape.

    Examples
    --------
    >>> from needle.data import NDArrayDataset
    >>> loader = DataLoader(NDArrayDataset(np.arange(5)), batch_size=2)
    >>> len(loader)
    3
    >>> [x.numpy().tolist() for (x,) in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, dataset: Dataset | Sequence[Any], batch_size: int = 1, shuffle: bool = False, *, device: Any = None
    ) -> None:
        if isinstance(dataset, type):
            raise TypeError(f"DataLoader: a dataset is needed, got the class {dataset.__name__}")
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")) or isinstance(dataset, Mapping):
            raise TypeError(
                f"DataLoader: a dataset has __getitem__ and __len__, {type(dataset).__name__} has not, for positions"
            )
        self.batch_size = as_integer("DataLoader", "batch_size", batch_size, least=1)
        self.dataset = dataset
        self.shuffle = shuffle
        self.device = None if device is None else as_device("DataLoader", device)

    def __len__(self) -> int:
        """Give the number of batches in a pass, a short last one included."""
        return (len(self.dataset) + self.batch_size - 1) // self.batch_size

    def __iter__(self) -> Iterator[list[Tensor]]:
        """Start a pass. The order is drawn here and not at the first batch."""
        count = len(self.dataset)
        order = np.random.permutation(count) if self.shuffle else np.arange(count)
        return self._batches(order)

    def _batches(self, order: np.ndarray) -> Iterator[list[Tensor]]:
        for start in range(0, len(order), self.batch_size):
            fields = self._fetch(order[start : start + self.batch_size])
            yield [Tensor(field, device=self.device, requires_grad=False) for field in fields]

    def _fetch(self, indices: np.ndarray) -> Sequence[Any]:
        """Give the fields of the samples at `indices`, each stacked along a new first axis."""
        if getattr(self.dataset, "takes_index_arrays", False):
            return _as_fields(self.dataset[indices])  # type: ignore[call-overload]
        positions = indices.tolist()
        samples = [_as_fields(self.dataset[position]) for position in positions]
        _check_alike(positions, [len(sample) for sample in samples], "fields")
        return [_stack(positions, column) for column in zip(*samples, strict=True)]


def _as_fields(sample: Any) -> Sequence[Any]:
    """Give a sample that is no tuple or list as a sample of one field."""
    return sample if isinstance(sample, (tuple, list)) else (sample,)


def _stack(positions: list[int], column: Sequence[Any]) -> np.ndarray:
    arrays = [
        as_numeric_array(value, f"DataLoader: sample {position}")
        for position, value in zip(positions, column, strict=True)
    ]
    _check_alike(positions, [array.shape for array in arrays], "as a field's shape")
    return np.stack(arrays)


def _check_alike(positions: list[int], values: list[Any], what: str) -> None:
    for position, value in zip(positions, values, strict=True):
        if value != values[0]:
            raise ValueError(
                f"DataLoader: sample {positions[0]} has {values[0]} {what}, sample {position} has {value}; "
                "the samples of a batch must agree (with batch_size=1 they need not)"
            )
