"""The language demo: texts and their tokens, windows, measuring, writing, and the command."""

import re
from functools import partial

import numpy as np
import pytest
import shared
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from apps import language_model
from apps.language_model import evaluate, write
from apps.models import LanguageModel
from apps.texts import Text, Vocabulary, WindowLoader, python_text, text_from
from needle import nn
from needle.data import batchify

TEXT = "the cat sat on the mat\nand the dog sat on the log\n" * 40
SMALL = ("--hidden", 12, "--embedding", 8, "--seq-len", 10, "--batch-size", 8)

needs_apps = shared.needs("tqdm", "matplotlib", "safetensors")
run = partial(shared.run, language_model)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "rhyme.txt"
    path.write_text(TEXT)
    return path


# -- texts and tokens


def test_the_last_tenth_of_a_file_is_held_out(text):
    found = text_from(text)
    assert found.train + found.test == TEXT
    assert len(found.test) == len(TEXT) // 10


def test_a_folder_has_a_file_for_training_and_one_for_testing(tmp_path):
    (tmp_path / "train.txt").write_text("learn")
    with pytest.raises(FileNotFoundError, match=r"test\.txt missing; give a text file, or a folder with both"):
        text_from(tmp_path)
    (tmp_path / "test.txt").write_text("hold")
    assert (text_from(tmp_path).train, text_from(tmp_path).test) == ("learn", "hold")


def test_the_default_text_is_english_that_comes_with_python():
    found = python_text()
    assert len(found.train) > 100_000
    assert found.train.count(" the ") > 1000


@given(st.text(min_size=1))
def test_characters_survive_encoding_and_the_setting(text):
    vocabulary = Vocabulary.of(Text("t", text, ""), "chars", most=3)
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert Vocabulary.from_setting("chars", vocabulary.as_setting()).tokens == vocabulary.tokens


def test_words_are_the_most_frequent_ones_and_the_rest_is_unknown():
    vocabulary = Vocabulary.of(Text("t", "b a b a c\nb", "a d"), "words", most=3)
    assert vocabulary.tokens == ["<unk>", "b", "a", "<eos>"]
    assert vocabulary.decode(vocabulary.encode("a b c\nd b")) == "a b <unk>\n<unk> b \n"
    assert Vocabulary.from_setting("words", vocabulary.as_setting()).tokens == vocabulary.tokens


def test_an_unknown_character_and_an_unsound_vocabulary_are_errors():
    with pytest.raises(ValueError, match="'d' is not in the vocabulary"):
        Vocabulary("chars", "abc").encode("abd")
    for setting in ("", "aba"):
        with pytest.raises(ValueError, match="a vocabulary names each token once"):
            Vocabulary.from_setting("chars", setting)


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 4))
def test_windows_cover_the_sequence_once_and_targets_follow_them(count, length, batch_size):
    if count < 2 * length:
        with pytest.raises(ValueError, match="is shorter than two windows"):
            WindowLoader(np.arange(count), length, batch_size)
        return
    loader = WindowLoader(np.arange(count), length, batch_size)
    batches = [(x.numpy(), y.numpy()) for x, y in loader]
    assert len(batches) == len(loader)
    seen = np.concatenate([x.T.ravel() for x, _ in batches])
    assert len(seen) == len(loader.dataset) == len(set(seen))
    for x, y in batches:
        assert x.shape[0] == length
        assert x.shape[1] <= batch_size
        np.testing.assert_array_equal(y.reshape(x.shape), x + 1)


def test_the_order_of_a_pass_is_drawn_when_it_starts():
    loader = WindowLoader(np.arange(100), 5, 3)
    np.random.seed(1)
    first = iter(loader)
    np.random.seed(1)
    second = iter(loader)
    np.random.rand(7)
    for (x, _), (y, _) in zip(first, second):
        np.testing.assert_array_equal(x.numpy(), y.numpy())


# -- measuring and writing


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_evaluating_by_windows_is_evaluating_at_once_where_there_is_a_state(kind):
    model = LanguageModel(4, 6, 8, seq_model=kind, seq_len=40)
    data = batchify(np.random.randint(6, size=90), 3)
    whole, parts = evaluate(model, data, 29), evaluate(model, data, 7)
    logits, _ = model(ndl.Tensor(data[:-1], requires_grad=False))
    loss = nn.SoftmaxLoss()(logits, ndl.Tensor(data[1:].ravel())).item()
    np.testing.assert_allclose(whole.loss, loss, rtol=1e-5)
    if kind == "lstm":
        np.testing.assert_allclose([parts.loss, parts.error], [whole.loss, whole.error], rtol=1e-5)
    else:
        assert parts.loss != whole.loss


@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_temperature_zero_writes_the_likeliest_token_each_time(kind):
    model, written = LanguageModel(4, 6, 8, seq_model=kind, seq_len=5), [3, 1]
    stateful = kind != "transformer"
    result = write(model, written, 8, 0.0, window=5, stateful=stateful)
    for _ in range(8):
        seen = written if stateful else written[-5:]
        logits, _ = model(ndl.Tensor(np.array(seen)[:, None], requires_grad=False))
        written.append(int(logits.numpy()[-1].argmax()))
    assert result == written[2:]


def test_tokens_are_drawn_with_the_chances_that_logits_and_temperature_give():
    logits, heat = np.array([1.0, -2.0, 0.5]), 0.7
    chances = np.exp(logits / heat) / np.exp(logits / heat).sum()
    counts = np.bincount([language_model._draw(logits, heat) for _ in range(20_000)], minlength=3) / 20_000
    np.testing.assert_allclose(counts, chances, atol=5 * np.sqrt(0.25 / 20_000))
    assert language_model._draw(np.array([1e4, -1e4]), 0.01) == 0


# -- the command


@needs_apps
@pytest.mark.parametrize("model", ["lstm", "gru", "rnn", "transformer"])
@pytest.mark.parametrize("level", ["chars", "words"])
def test_every_model_learns_characters_and_words(capsys, text, model, level):
    words = ("--data", text, "--model", model, "--level", level, "--epochs", 3, "--lr", 0.02)
    code, out, err = run(capsys, *words, *SMALL)
    assert (code, err) == (0, "")
    perplexities = [float(p) for p in re.findall(r"^perplexity (\d+\.\d\d); it writes:$", out, flags=re.M)]
    assert len(perplexities) == 3
    assert perplexities[-1] < perplexities[0]
    unit = "character" if level == "chars" else "word"
    last = re.search(
        rf"^(\d\.\d{{4}}) nats per {unit} \(perplexity (\d+\.\d\d)\) on the held-out text after 3", out, re.M
    )
    np.testing.assert_allclose(np.exp(float(last[1])), float(last[2]), rtol=0.01)


@needs_apps
def test_a_saved_model_writes_on_from_a_prompt_and_another_seed_writes_something_else(capsys, tmp_path, text):
    saved = tmp_path / "model"
    run(capsys, "--data", text, "--epochs", 1, "--save", saved, *SMALL)
    words = ("--resume", saved, "--sample", 50, "--temperature", 1.5)
    first, again, other = (run(capsys, *words, *more) for more in ((), (), ("--seed", 5)))
    assert first == again != other
    code, out, _ = run(capsys, "--resume", saved, "--sample", 20, "--temperature", 0, "--prompt", "the cat")
    assert code == 0
    assert out.startswith("the cat")
    assert len(out) == len("the cat") + 20 + 1
    assert set(out) <= set(TEXT)


@needs_apps
@pytest.mark.cpu_only("a GPU adds the rows of an embedding's gradient in any order")
@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_an_interrupted_run_resumes_to_the_very_same_file(capsys, tmp_path, text, monkeypatch, model):
    import os
    import signal

    straight, cut = tmp_path / "straight", tmp_path / "cut"
    words = ("--data", text, "--model", model, "--epochs", 2, *SMALL)
    assert run(capsys, *words, "--save", straight)[0] == 0
    steps = iter([False] * 30 + [True])
    step = ndl.optim.Adam.step

    def interrupting(optimizer):
        step(optimizer)
        if next(steps, False):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ndl.optim.Adam, "step", interrupting)
    code, out, _ = run(capsys, *words, "--save", cut)
    assert code == 130
    assert "Interrupted after 1 epoch and 8 of 23 steps." in out
    assert run(capsys, *shared.words_to_go_on(out, "apps.language_model"))[0] == 0
    assert cut.read_bytes() == straight.read_bytes()


@needs_apps
def test_the_picture_is_drawn(capsys, tmp_path, text):
    path = tmp_path / "run.svg"
    assert run(capsys, "--data", text, "--epochs", 2, "--plot", path, *SMALL)[0] == 0
    assert path.read_bytes().startswith(b"<?xml")


MISTAKES = {
    "no such file": (["--data", "{tmp}/none"], "none: No such file or directory"),
    "a folder without texts": (["--data", "{tmp}"], r"train\.txt and test\.txt missing"),
    "no UTF-8": (["--data", "{tmp}/latin"], "latin: not UTF-8 text: byte 0xe9 at position 3"),
    "too short a text": (["--data", "{tmp}/short"], "is shorter than two windows of 64"),
    "too short a rest": (
        ["--data", "{tmp}/short", "--seq-len", "2"],
        "the held-out text of 1 tokens is too short",
    ),
    "an unknown model": (["--model", "cnn"], "invalid choice: 'cnn'"),
    "no hidden features": (["--hidden", "0"], "--hidden: an integer of at least 1"),
    "writing without a model": (["--sample", "5"], "--sample writes with a saved model: give it with --resume"),
    "another model": (
        ["--resume", "{tmp}/model", "--data", "{tmp}/rhyme.txt", "--hidden", "9"],
        "the run to resume has 12",
    ),
    "other data": (
        ["--resume", "{tmp}/model", "--data", "{tmp}/other"],
        "the model is another one|trained on other data",
    ),
    "an unknown prompt": (
        ["--resume", "{tmp}/model", "--sample", "5", "--prompt", "É"],
        "--prompt: 'É' is not in the vocabulary",
    ),
}


@needs_apps
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, tmp_path, text, name):
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "short").write_text("nineteen characters")
    (tmp_path / "other").write_text(TEXT.replace("cat", "cow"))
    words, expected = MISTAKES[name]
    if "{tmp}/model" in words:
        run(capsys, "--data", text, "--epochs", 1, "--save", tmp_path / "model", *SMALL)
    assert re.search(expected, shared.error_of(language_model, capsys, *(word.format(tmp=tmp_path) for word in words)))


@needs_apps
def test_a_file_that_claims_a_huge_model_makes_none(capsys, tmp_path, text):
    import json

    run(capsys, "--data", text, "--epochs", 1, "--save", tmp_path / "model", *SMALL)
    arrays = ndl.nn.load(tmp_path / "model")
    description = json.loads(ndl.nn.read_metadata(tmp_path / "model")["needle"])
    description["settings"]["hidden"] = 1 << 40
    ndl.nn.save(arrays, tmp_path / "model", metadata={"needle": json.dumps(description)})
    code, _, err = run(capsys, "--resume", tmp_path / "model", "--sample", 5)
    assert code == 2
    assert r"lstm_cells.0.W_hh is (12, 48)" in err
