"""Text as word numbers, and batches of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle.data import Corpus, Dictionary, batchify, get_batch


def corpus_of(folder, train, test="", **settings):
    for name, text in (("train.txt", train), ("test.txt", test)):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Corpus(folder, **settings)


def test_words_are_numbered_in_the_order_of_their_first_appearance():
    words = Dictionary()
    assert [words.add_word(w) for w in ["b", "a", "b", "c"]] == [0, 1, 0, 2]
    assert words.idx2word == ["b", "a", "c"]
    assert words.word2idx == {"b": 0, "a": 1, "c": 2}
    assert len(words) == 3


def test_each_line_ends_with_eos_and_both_files_share_a_dictionary(tmp_path):
    corpus = corpus_of(tmp_path, "a  b\n\nc", "b d\n")
    words = corpus.dictionary.idx2word
    assert [words[k] for k in corpus.train] == ["a", "b", "<eos>", "<eos>", "c", "<eos>"]
    assert [words[k] for k in corpus.test] == ["b", "d", "<eos>"]


def test_max_lines_counts_lines_of_each_file(tmp_path):
    corpus = corpus_of(tmp_path, "a\nb\nc\n", "d\ne\n", max_lines=1)
    assert corpus.dictionary.idx2word == ["a", "<eos>", "d"]
    assert corpus_of(tmp_path, "a\n", "b\n", max_lines=0).train == []
    with pytest.raises(ValueError, match="Corpus: max_lines is an integer of at least 0, got -1"):
        Corpus(tmp_path, max_lines=-1)


def test_line_ends_of_other_systems_and_a_byte_order_mark_make_no_words(tmp_path):
    assert corpus_of(tmp_path, b"\xef\xbb\xbfa\r\nb\r\n").train == corpus_of(tmp_path, "a\nb\n").train


def test_text_that_is_not_utf_8_is_an_error_that_says_where(tmp_path):
    with pytest.raises(ValueError, match=r"train\.txt: not UTF-8 text: byte 0xe9 at position 6 \(line 2\) starts no"):
        corpus_of(tmp_path, b"one\nca\xe9\n")


def test_a_missing_file_is_an_error(tmp_path):
    (tmp_path / "train.txt").write_text("a\n")
    with pytest.raises(FileNotFoundError, match=r"test\.txt"):
        Corpus(tmp_path)


@given(st.integers(1, 40), st.integers(1, 7))
def test_columns_are_stretches_of_the_sequence(length, batch_size):
    if length < batch_size:
        with pytest.raises(ValueError, match=f"batchify: {length} words do not fill {batch_size} columns"):
            batchify(range(length), batch_size)
        return
    batches = batchify(range(length), batch_size)
    assert batches.shape == (length // batch_size, batch_size)
    np.testing.assert_array_equal(batches.T.ravel(), np.arange(length // batch_size * batch_size))


@given(st.integers(2, 12), st.integers(1, 4), st.integers(1, 5), st.data())
def test_targets_are_the_next_words(rows, columns, bptt, data):
    batches = batchify(range(rows * columns), columns, dtype="float32")
    i = data.draw(st.integers(0, rows - 2))
    x, y = get_batch(batches, i, bptt)
    steps = min(bptt, rows - 1 - i)
    assert x.shape == (steps, columns)
    assert y.shape == (steps * columns,)
    np.testing.assert_array_equal(y.numpy(), x.numpy().ravel() + 1)
    assert (x.dtype, y.dtype) == ("float32", "int64")
    assert not x.requires_grad
    assert x.device == ndl.default_device()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda folder: Corpus("/nope"),
            FileNotFoundError,
            "Corpus: train.txt and test.txt missing in /nope: a folder",
        ),
        (lambda folder: Corpus(folder), FileNotFoundError, "Corpus: train.txt and test.txt missing in"),
        (lambda folder: Corpus(None), TypeError, "Corpus: base_dir is a path, a str or an os.PathLike, got None"),
        (lambda folder: batchify(3, 2), TypeError, "batchify: a sequence of word numbers is needed, got int"),
        (lambda folder: batchify([1, 2], "a"), TypeError, "batchify: batch_size is an integer of at least 1, got 'a'"),
        (lambda folder: batchify(["a", "b"], 1), TypeError, "batchify: real numbers or booleans are needed, got list"),
        (lambda folder: batchify([1, 2], 1, dtype="object"), TypeError, "batchify: a dtype of real numbers"),
        (lambda folder: get_batch([1, 2], 0, 1), TypeError, "get_batch: what batchify gave is needed, .*, got list"),
        (lambda folder: get_batch(batchify(range(6), 2), "a", 1), TypeError, "get_batch: i is an integer"),
        (lambda folder: get_batch(batchify(range(6), 2), 0, 1.5), TypeError, "get_batch: bptt is an integer"),
    ],
)
def test_arguments_of_another_type_are_named(tmp_path, call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(tmp_path)


def test_a_batch_needs_a_next_row_and_a_step():
    batches = batchify(range(6), 2)
    with pytest.raises(ValueError, match="get_batch: row 2 of 3 has no next one: i is from 0 to 1"):
        get_batch(batches, 2, 1)
    with pytest.raises(ValueError, match="get_batch: bptt is an integer of at least 1, got 0"):
        get_batch(batches, 0, 0)
    with pytest.raises(ValueError, match="batchify: batch_size is an integer of at least 1, got 0"):
        batchify([1, 2], 0)


def test_the_dtype_asked_for_is_that_of_the_input():
    x, _ = get_batch(batchify(range(6), 2), 0, 2, device=ndl.cpu(), dtype="float32")
    assert x.dtype == "float32"
