"""Text as word numbers, and batches of it for models that predict the next word."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from needle.autograd import Tensor
from needle.backend import as_dtype
from needle.data.indexing import as_numeric_array
from needle.ops.checks import as_integer, as_path

END_OF_LINE = "<eos>"


class Dictionary:
    """Words numbered in the order in which they were first seen.

    Attributes
    ----------
    word2idx : dict of str to int
    idx2word : list of str

    Examples
    --------
    >>> words = Dictionary()
    >>> [words.add_word(word) for word in "to be or not to be".split()]
    [0, 1, 2, 3, 0, 1]
    >>> len(words), words.idx2word[2]
    (4, 'or')
    """

    def __init__(self) -> None:
        self.word2idx: dict[str, int] = {}
        self.idx2word: list[str] = []

    def add_word(self, word: str) -> int:
        """Give the number of `word`, a new one if it is new."""
        number = self.word2idx.setdefault(word, len(self.idx2word))
        if number == len(self.idx2word):
            self.idx2word.append(word)
        return number

    def __len__(self) -> int:
        """Give the number of different words."""
        return len(self.idx2word)


class Corpus:
    """A folder's ``train.txt`` and ``test.txt`` as word numbers of one dictionary.

    Words are what stands between white space; each line ends with the word ``<eos>``.

    Parameters
    ----------
    base_dir : str or os.PathLike
        The folder.
    max_lines : int, optional
        How many lines of each file to read at most.

    Attributes
    ----------
    dictionary : Dictionary
    train, test : list of int

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file is not UTF-8 text, or `max_lines` is negative.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in (("train.txt", "to be or\\nnot to be\\n"), ("test.txt", "or not\\n")):
    ...         _ = pathlib.Path(folder, name).write_text(text)
    ...     corpus = Corpus(folder)
    >>> corpus.train, corpus.test
    ([0, 1, 2, 3, 4, 0, 1, 3], [2, 4, 3])
    """

    def __init__(self, base_dir: str | os.PathLike[str], max_lines: int | None = None) -> None:
        folder = as_path("Corpus", "base_dir", base_dir)
        files = [os.path.join(folder, name) for name in ("train.txt", "test.txt")]
        missing = [os.path.basename(file) for file in files if not os.path.isfile(file)]
        if missing:
            raise FileNotFoundError(
                f"Corpus: {' and '.join(missing)} missing in {folder}: a folder with train.txt and test.txt is needed"
            )
        self.dictionary = Dictionary()
        self.train, self.test = (self.tokenize(file, max_lines) for file in files)

    def tokenize(self, path: str | os.PathLike[str], max_lines: int | None = None) -> list[int]:
        """Give the numbers of a file's words, adding new ones to the dictionary.

        Parameters
        ----------
        path : str or os.PathLike
            A UTF-8 text file.
        max_lines : int, optional
            How many lines to read at most.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is not UTF-8 text, or `max_lines` is negative.
        """
        if max_lines is not None:
            as_integer("Corpus", "max_lines", max_lines, least=0)
        numbers: list[int] = []
        for position, line in enumerate(io.StringIO(read_text(path))):
            if max_lines is not None and position >= max_lines:
                break
            numbers += [self.dictionary.add_word(word) for word in line.split()]
            numbers.append(self.dictionary.add_word(END_OF_LINE))
        return numbers


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file; its lines end with ``\\n`` whatever system wrote it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not UTF-8; the text says where.
    """
    path = as_path("read_text", "the file", path)
    data = pathlib.Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: not UTF-8 text: byte 0x{byte:02x} at position {error.start} (line {line}) starts no "
            "character; save the file as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def batchify(data: Sequence[int] | np.ndarray, batch_size: int, device: Any = None, dtype: Any = None) -> np.ndarray:
    """Lay a sequence out in `batch_size` columns, each a stretch of it from top to bottom; the rest is left out.

    Parameters
    ----------
    data : sequence of int
        Word numbers, one after the other.
    batch_size : int
        Number of columns.
    device
        Part of the course's signature: `get_batch` says where tensors live.
    dtype : dtype, optional
        Of the result; int64 by default.

    Returns
    -------
    numpy.ndarray
        Shape (len(data) // batch_size, batch_size).

    Raises
    ------
    TypeError
        If `data` is no sequence, `batch_size` no integer or `dtype` none of numbers.
    ValueError
        If `batch_size` is below 1, or there are fewer numbers than columns.

    Examples
    --------
    >>> batchify([0, 1, 2, 3, 4, 5, 6], batch_size=3)
    array([[0, 2, 4],
           [1, 3, 5]])
    """
    columns = as_integer("batchify", "batch_size", batch_size, least=1)
    if dtype is not None:
        dtype = as_dtype("batchify", dtype)
    if not isinstance(data, (Sequence, np.ndarray)):
        raise TypeError(f"batchify: a sequence of word numbers is needed, got {type(data).__name__}")
    rows = len(data) // columns
    if rows == 0:
        raise ValueError(f"batchify: {len(data)} words do not fill {columns} columns")
    array = as_numeric_array(data[: rows * columns], "batchify").astype("int64" if dtype is None else dtype, copy=False)
    return np.ascontiguousarray(array.reshape(columns, rows).T)


def get_batch(batches: np.ndarray, i: int, bptt: int, device: Any = None, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """Give `bptt` rows from row `i` on as input, and each one's next word as target.

    Parameters
    ----------
    batches : numpy.ndarray
        What `batchify` gave, shape (rows, batch).
    i : int
        The first row of the input.
    bptt : int
        How many rows at most (the steps of backpropagation through time); at the end there are fewer.
    device : Device, optional
        Where the tensors live; the default device if None.
    dtype : dtype, optional
        Of the input; that of `batches` by default.

    Returns
    -------
    data : Tensor
        Shape (n, batch), n ≤ bptt.
    target : Tensor of int64
        Shape (n · batch,): the word that follows each of `data`, row by row. Classes are integers whatever `dtype` is.

    Raises
    ------
    TypeError
        If `batches` is none, or `i` or `bptt` no integer.
    ValueError
        If `bptt` is below 1, or no row follows row `i`.

    Examples
    --------
    >>> data, target = get_batch(batchify(range(8), batch_size=2), i=0, bptt=2)
    >>> data.numpy().tolist(), target.numpy().tolist()
    ([[0, 4], [1, 5]], [1, 5, 2, 6])
    """
    if not isinstance(batches, np.ndarray) or batches.ndim != 2:
        got = f"shape {batches.shape}" if isinstance(batches, np.ndarray) else type(batches).__name__
        raise TypeError(f"get_batch: what batchify gave is needed, an array of shape (rows, batch), got {got}")
    bptt, i = as_integer("get_batch", "bptt", bptt, least=1), as_integer("get_batch", "i", i, least=0)
    if not 0 <= i < len(batches) - 1:
        raise ValueError(f"get_batch: row {i} of {len(batches)} has no next one: i is from 0 to {len(batches) - 2}")
    stop = min(i + bptt, len(batches) - 1)
    data = Tensor(batches[i:stop], device=device, dtype=dtype, requires_grad=False)
    target = Tensor(batches[i + 1 : stop + 1].reshape(-1), device=device, dtype="int64", requires_grad=False)
    return data, target
