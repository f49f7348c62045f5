"""Datasets, their loader, image transforms and the IDX reader: everything between files and batches.

A `Dataset` gives one sample per index, a `DataLoader` turns it into batches of Tensors.

>>> import numpy as np
>>> from needle.data import DataLoader, NDArrayDataset
>>> pairs = NDArrayDataset(np.arange(6.0).reshape(3, 2), np.array([0, 1, 0]))
>>> [(x.shape, y.shape) for x, y in DataLoader(pairs, batch_size=2)]
[((2, 2), (2,)), ((1, 2), (1,))]
"""

from needle.data.basic import DataLoader, Dataset
from needle.data.cifar10 import CIFAR10Dataset
from needle.data.idx import read_idx
from needle.data.images import ImageDataset
from needle.data.mnist import MNISTDataset, read_mnist
from needle.data.ndarray import NDArrayDataset
from needle.data.text import Corpus, Dictionary, batchify, get_batch
from needle.data.transforms import RandomCrop, RandomFlipHorizontal, Transform

__all__ = [
    "CIFAR10Dataset",
    "Corpus",
    "DataLoader",
    "Dataset",
    "Dictionary",
    "ImageDataset",
    "MNISTDataset",
    "NDArrayDataset",
    "RandomCrop",
    "RandomFlipHorizontal",
    "Transform",
    "batchify",
    "get_batch",
    "read_idx",
    "read_mnist",
]
