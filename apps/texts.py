"""Texts to learn from: where they come from, their words or characters as numbers, and batches of windows."""

from __future__ import annotations

import os
import pathlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import needle as ndl
from needle.data.text import END_OF_LINE, read_text

UNKNOWN = "<unk>"
HELD_OUT = 10  # the last one in so many characters (or words) is held out where a text comes in one piece


@dataclass
class Text:
    """A text in two parts.

    Attributes
    ----------
    name : str
        What it is, for titles.
    train, test : str
        What is to be learned from, and what is held out.
    """

    name: str
    train: str
    test: str

    def fingerprint(self) -> str:
        """Give a short text that differs, all but surely, for other texts."""
        checksum = zlib.crc32(self.test.encode(), zlib.crc32(self.train.encode()))
        return f"{len(self.train)}+{len(self.test)}:{checksum:08x}"


def python_text() -> Text:
    """Give the English that comes with CPython: the topics that ``help()`` explains, their last tenth held out."""
    from pydoc_data.topics import topics

    return _split("the topics of Python's help()", "\n".join(topics[name] for name in sorted(topics)))


def text_from(path: str | os.PathLike[str]) -> Text:
    """Give the text of a file, whose last tenth is held out, or of a folder with ``train.txt`` and ``test.txt``.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or the folder lacks one of the two.
    ValueError
        If a file is not UTF-8, or too short.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return _split(path.name, read_text(path))
    missing = [name for name in ("train.txt", "test.txt") if not (path / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{path}: {' and '.join(missing)} missing; give a text file, or a folder with both")
    return Text(path.name, *(read_text(path / name) for name in ("train.txt", "test.txt")))


def _split(name: str, text: str) -> Text:
    end = len(text) - len(text) // HELD_OUT
    return Text(name, text[:end], text[end:])


class Vocabulary:
    """The numbers of a text's tokens: its characters, or its words.

    Parameters
    ----------
    level : str
        ``"chars"`` or ``"words"``. Words stand between white space; a line ends with the word ``<eos>``.
    tokens : iterable of str
        The tokens, the first one being number 0. Words that are not among them count as ``<unk>``, if that is.

    Examples
    --------
    >>> letters = Vocabulary("chars", "abc")
    >>> letters.encode("cab"), letters.decode([2, 0])
    (array([2, 0, 1]), 'ca')
    """

    def __init__(self, level: str, tokens: Iterable[str]) -> None:
        self.level = level
        self.tokens = list(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def of(cls, text: Text, level: str, most: int) -> Vocabulary:
        """Give all characters of a text, or the `most` most frequent words of its training part and ``<unk>``.

        Examples
        --------
        >>> Vocabulary.of(Text("t", "b a b", "a c"), "words", most=2).tokens
        ['<unk>', 'b', 'a']
        """
        if level == "chars":
            return cls(level, sorted(set(text.train + text.test)))
        counts = Counter(_words(text.train))
        counts.pop(UNKNOWN, None)
        return cls(level, [UNKNOWN, *(word for word, _ in counts.most_common(most))])

    def __len__(self) -> int:
        """Give the number of tokens."""
        return len(self.tokens)

    def encode(self, text: str) -> np.ndarray:
        """Give the numbers of a text's tokens, int64.

        Raises
        ------
        ValueError
            If a token is not in the vocabulary and there is no ``<unk>``.
        """
        unknown = self._numbers.get(UNKNOWN) if self.level == "words" else None
        numbers = [self._numbers.get(token, unknown) for token in self._tokens_of(text)]
        if None in numbers:
            raise ValueError(f"{list(self._tokens_of(text))[numbers.index(None)]!r} is not in the vocabulary")
        return np.array(numbers, dtype=np.int64)

    def decode(self, numbers: Iterable[int]) -> str:
        """Give the text of token numbers."""
        tokens = [self.tokens[number] for number in numbers]
        if self.level == "chars":
            return "".join(tokens)
        return " ".join("\n" if token == END_OF_LINE else token for token in tokens).replace(" \n ", "\n")

    def as_setting(self) -> str:
        """Give the vocabulary as one text, from which `from_setting` makes it again."""
        return ("" if self.level == "chars" else "\n").join(self.tokens)

    @classmethod
    def from_setting(cls, level: str, setting: str) -> Vocabulary:
        """Make a vocabulary of what `as_setting` gave.

        Raises
        ------
        ValueError
            If it is empty or names a token twice.
        """
        tokens = list(setting) if level == "chars" else setting.split("\n")
        if not setting or len(set(tokens)) < len(tokens):
            raise ValueError("a vocabulary names each token once, and at least one")
        return cls(level, tokens)

    def _tokens_of(self, text: str) -> Iterable[str]:
        return text if self.level == "chars" else _words(text)


def _words(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from line.split()
        yield END_OF_LINE


class WindowLoader:
    """Batches of windows of a sequence, in a new order in each pass, as `training.fit` wants them.

    Each pass cuts the sequence at other places: it begins at an offset below `length`. The offset and then the order
    are drawn from NumPy's global generator when ``iter`` is called.

    Parameters
    ----------
    numbers : numpy.ndarray of int64, shape (n,)
        Tokens.
    length : int
        Tokens per window.
    batch_size : int
        Windows per batch; the last batch has the rest.
    device : Device, optional
        Where the tensors live.

    Raises
    ------
    ValueError
        If the sequence is shorter than two windows.

    Examples
    --------
    >>> np.random.seed(0)
    >>> X, y = next(iter(WindowLoader(np.arange(20), length=3, batch_size=2)))
    >>> X.numpy().T.tolist(), y.numpy().reshape(3, 2).T.tolist()
    ([[12, 13, 14], [6, 7, 8]], [[13, 14, 15], [7, 8, 9]])
    """

    def __init__(self, numbers: np.ndarray, length: int, batch_size: int, device: ndl.Device | None = None) -> None:
        self._numbers, self._length, self._batch_size, self._device = numbers, length, batch_size, device
        self._windows = len(numbers) // length - 1
        if self._windows < 1:
            raise ValueError(f"a text of {len(numbers)} tokens is shorter than two windows of {length}")

    @property
    def dataset(self) -> range:
        """Something of the length of a pass, in tokens."""
        return range(self._windows * self._length)

    def __len__(self) -> int:
        """Give the number of batches in a pass."""
        return -(-self._windows // self._batch_size)

    def __iter__(self) -> Iterator[tuple[ndl.Tensor, ndl.Tensor]]:
        """Start a pass: inputs of shape (length, windows), targets of shape (length · windows,)."""
        starts = np.random.randint(self._length) + self._length * np.random.permutation(self._windows)
        return self._batches(starts)

    def _batches(self, starts: np.ndarray) -> Iterator[tuple[ndl.Tensor, ndl.Tensor]]:
        steps = np.arange(self._length + 1)[:, None]
        for i in range(0, len(starts), self._batch_size):
            window = self._numbers[starts[i : i + self._batch_size] + steps]
            X, y = window[:-1], window[1:].reshape(-1)
            yield tuple(ndl.Tensor(a, device=self._device, requires_grad=False) for a in (X, y))  # type: ignore[misc]
