"""What a network listens to: the words, the network, the radii, and the command."""

import gc
import re
import signal
from functools import partial

import numpy as np
import pytest
import shared

import needle as ndl
from apps import adaptive_blur, listening, speech, training
from apps.listening import BlurredListening, Listener
from apps.spectrogram import STFT, read_wav, resampling_matrix, write_wav
from apps.speech import read_recordings, synthesise
from needle.gradcheck import gradcheck

SMALL = ("--hidden-dim", 16, "--epochs", 6, "--blur-steps", 12)
PLAIN = STFT.for_rate(8000)

needs_apps = shared.needs("tqdm", "matplotlib", "safetensors")
run = partial(shared.run, adaptive_blur)


@pytest.fixture(scope="session")
def few():
    """Two of the synthesised words, by two speakers."""
    words = synthesise(takes=9, words=("a", "i"))
    chosen = [tuple(u for u in part if u.speaker in ("deep", "high")) for part in (words.train, words.test)]
    return speech.Speech("two vowels", words.classes, words.rate, *chosen)


@pytest.fixture(scope="session")
def folder(few, tmp_path_factory):
    """These as files."""
    where = tmp_path_factory.mktemp("recordings")
    for utterance in few.train + few.test:
        write_wav(where / f"{utterance.name}.wav", utterance.samples, few.rate)
    (where / "about.txt").write_text("no recording, and not read")
    return where


def random_listener(classes=10, **settings):
    """A network with running statistics that are not those it starts with, in evaluation mode."""
    listener = Listener(PLAIN, classes, **settings)
    for name, value in listener.named_buffers():
        if "running" in name:
            value.data = ndl.Tensor(np.random.uniform(0.5, 2, value.shape).astype(np.float32))
    listener.eval()
    return listener


# ------------------------------------------------------------------------------------------------------------ the words


def test_the_synthesised_words_are_the_same_for_the_same_seed_and_leave_numpys_generator_alone():
    state = np.random.get_state()[1].copy()
    first, again, other = (synthesise(6, seed, words=("a", "ou")) for seed in (0, 0, 1))
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert {u.take for u in first.test} == {0, 1, 2, 3, 4} and {u.take for u in first.train} == {5}
    for utterance in first.train:
        assert utterance.samples.dtype == np.float32 and 0.2 < abs(utterance.samples).max() < 1
        assert 0.24 * first.rate < len(utterance.samples) <= 0.45 * first.rate


def test_a_vowel_is_loud_at_its_formants_and_a_glide_moves_from_ones_to_the_others():
    """ "i" has its second formant at 2290 Hz, "a" at 1090 Hz: which of both neighbourhoods is louder?"""
    words = synthesise(6, words=("a", "i", "ai", "ia"))
    low, high = (slice(round(f * 0.85 / 31.25), round(f * 1.25 / 31.25)) for f in (1090, 2290))

    def bright(word, part):
        chosen = [u for u in words.test if words.classes[u.label] == word]
        spectra = [abs(PLAIN(u.samples)) for u in chosen]
        cut = [x[:, : x.shape[1] // 5] if part == "begin" else x[:, -(x.shape[1] // 5) :] for x in spectra]
        return np.mean([(x[high] ** 2).sum() > (x[low] ** 2).sum() for x in cut])

    assert bright("i", "begin") > 0.9 > 0.1 > bright("a", "begin")
    assert bright("ia", "begin") > 0.9 > 0.1 > bright("ia", "end")
    assert bright("ai", "end") > 0.9 > 0.1 > bright("ai", "begin")


def test_what_cannot_be_said_is_refused():
    with pytest.raises(ValueError, match="5 takes: more than the 5 that are held out"):
        synthesise(5)
    for word in ("", "xa", "aou"):
        with pytest.raises(ValueError, match=f"'{word}' is no word of one or two of the vowels a, e, i, o, u"):
            synthesise(6, words=("a", word))


def test_recordings_are_read_by_their_names(folder, few):
    read = read_recordings(folder)
    assert [u.name for u in read.train] == [u.name for u in few.train]
    assert [u.name for u in read.test] == [u.name for u in few.test]
    assert (read.rate, read.test[0].speaker, read.test[-1].label) == (8000, "deep", 1)
    np.testing.assert_allclose(read.test[3].samples, few.test[3].samples, atol=0.5 / 32768 + 1e-7)


def test_a_broken_recording_is_named_and_skipped_only_if_asked(folder, tmp_path):
    for path in folder.glob("*.wav"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "0_deep_6.wav").write_bytes((folder / "0_deep_6.wav").read_bytes()[:-1])
    (tmp_path / "1_high_1.wav").write_text("no sound")
    with pytest.raises(ValueError, match=r"0_deep_6\.wav: truncated"):
        read_recordings(tmp_path)
    notes = []
    whole, left = read_recordings(folder), read_recordings(tmp_path, skip_broken=True, note=notes.append)
    assert (len(whole.train) - len(left.train), len(whole.test) - len(left.test)) == (1, 1)
    assert ["0_deep_6.wav" in notes[0], "1_high_1.wav" in notes[1], len(notes)] == [True, True, 2]


def test_recordings_of_different_rates_are_not_mixed(folder, tmp_path):
    write_wav(tmp_path / "1_a_0.wav", np.zeros(400), 8000)
    write_wav(tmp_path / "1_a_5.wav", np.zeros(400), 16000)
    with pytest.raises(ValueError, match=r"1_a_5\.wav: 16000 samples per second, where 1_a_0\.wav has 8000"):
        read_recordings(tmp_path)


def test_the_real_recordings_are_split_by_take(real_data):
    read = read_recordings(real_data / "fsdd" / "recordings")
    assert (len(read.train), len(read.test), read.rate) == (600, 150, 8000)
    assert {(u.label, u.speaker, u.take) for u in read.test} == {
        (digit, name, take) for digit in range(10) for name in ("jackson", "nicolas", "theo") for take in range(5)
    }


# ---------------------------------------------------------------------------------------------------------- the network


def test_what_is_heard_of_an_utterance_does_not_depend_on_its_batch(few):
    listener = random_listener()
    together = listening.heard(listener, list(listening.batches(few.test, PLAIN, 20, 50, ndl.default_device())))
    apart = listening.heard(listener, list(listening.batches(few.test, PLAIN, 20, 3, ndl.default_device())))
    np.testing.assert_allclose(together[:][0], apart[:][0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(apart[:][1], [u.label for u in few.test])


def test_what_is_heard_does_not_depend_on_the_loudness():
    sound = np.random.randn(2000).astype(np.float32)
    loud, soft = (listening.amplitudes(PLAIN(sound * scale)) for scale in (1.0, 0.01))
    np.testing.assert_allclose(loud, soft, rtol=1e-5)
    assert loud.max() == 1 and not listening.amplitudes(PLAIN(np.zeros(100))).any()


def test_gradients_pass_through_the_whole_chain_to_spectrogram_and_radii():
    """Checked in float64 with a small network: blur, mel bands, logarithm, frames, layers, softmax."""
    stft = STFT(8000, 16, 4)
    listener = Listener(stft, classes=3, bands=3, frames=4, hidden_dim=5)
    listener.eval()
    for tensor in (*listener.parameters(), *(value for _, value in listener.named_buffers())):
        tensor.cached_data = tensor.detach().astype("float64").cached_data
    lengths = [6, 4]
    shrink = ndl.Tensor(
        np.stack([resampling_matrix(length, 4, 6) for length in lengths]).astype(np.float64), requires_grad=False
    )
    x = np.random.uniform(0.1, 1, (2, stft.bins, 6))
    radius = np.random.randint(1, 5, x.shape) + np.random.uniform(0.2, 0.8, x.shape)

    def chain(x, radius):
        return listener.chances(ndl.ops.adaptive_blur(x, radius, axis=1), shrink)

    assert gradcheck(chain, [x, radius])


# ------------------------------------------------------------------------------------------------------------ the radii


@pytest.fixture
def maps(few):
    (batch,) = listening.batches(few.test, PLAIN, 20, 50, ndl.default_device())
    return BlurredListening(random_listener(), batch, rate=0.5, reward=1e-3)


def test_the_loss_is_the_change_of_the_answer_less_the_reward_of_the_radii(maps):
    m = np.random.uniform(1, 6, maps.batch.x.shape).astype(np.float32)
    maps.blur.radius.data = ndl.Tensor(m)
    expected = 0.0
    for i, length in enumerate(maps.batch.lengths):
        x, own = maps.batch.x.numpy()[i : i + 1, :, :length], m[i : i + 1, :, :length]
        shrink = ndl.Tensor(resampling_matrix(length, 20)[np.newaxis])
        before = maps.listener.chances(ndl.Tensor(x), shrink).numpy()
        after = maps.listener.chances(ndl.ops.adaptive_blur(ndl.Tensor(x), ndl.Tensor(own), axis=1), shrink).numpy()
        expected += ((after - before) ** 2).sum() - 1e-3 * np.log(own.astype(float)).sum()
    np.testing.assert_allclose(maps.loss().item(), expected, rtol=1e-4)


def test_frames_that_fill_up_a_batch_keep_their_radius_and_get_no_gradient(maps):
    maps.loss().backward(create_graph=False)
    fill = np.broadcast_to(maps.batch.mask.numpy() == 0, maps.batch.x.shape)
    assert fill.any() and not maps.blur.radius.grad.numpy()[fill].any()
    for _ in range(3):
        maps.step()
    assert (maps.blur.radius.numpy()[fill] == 1).all()
    assert [m.shape for m in maps.radii()] == [(129, length) for length in maps.batch.lengths]


def test_the_first_step_is_as_long_as_the_rate_and_radii_stay_positive(maps):
    maps.step()
    radii = np.concatenate([m.ravel() for m in maps.radii()])
    assert ((abs(radii - 1.5) < 1e-3) | (abs(radii - 0.5) < 1e-3)).mean() > 0.99
    for _ in range(5):
        maps.step()
        assert all((m > 0).all() for m in maps.radii())


def test_without_a_step_every_answer_is_the_same_in_all_three_ways(maps):
    now = listening.measure(0, [maps])
    assert (now.step, now.mean, now.median, now.kept, now.kept_shuffled, now.kept_even) == (0, 1, 1, 1, 1, 1)
    np.testing.assert_allclose(now.loss, 0, atol=1e-6)


def test_the_bins_that_are_listened_to_are_counted_weighed_and_left_as_they_are(maps):
    """Here: in each utterance one row is held back, and no other; the batch is blurred by hand."""
    m = np.full(maps.batch.x.shape, 40, np.float32)
    m[:, 12] = 3
    maps.blur.radius.data = ndl.Tensor(m)
    found = listening.concentrate([maps])
    x, mask = maps.batch.x.numpy().astype(float), maps.batch.mask.numpy()
    assert found.bins == 1 / 129
    np.testing.assert_allclose(found.energy, (x[:, 12] ** 2).sum() / (x**2).sum(), rtol=1e-5)

    m[:, 12] = 1
    loudest = np.full_like(m, 40)
    for i, length in enumerate(maps.batch.lengths):
        level = np.sort(x[i].ravel())[-length]
        loudest[i][x[i] >= level] = 1
    words = maps.chances.numpy().argmax(axis=1)
    for radius, share in ((m, found.kept), (loudest, found.kept_loudest)):
        blurred = ndl.ops.adaptive_blur(maps.batch.x, ndl.Tensor(np.where(mask > 0, radius, np.float32(1))), axis=1)
        assert share == (maps.listener.chances(blurred, maps.batch.shrink).numpy().argmax(axis=1) == words).mean()


def test_learning_radii_keeps_the_network_and_leaves_nothing_alive(maps, collector_off):
    before = {name: value.numpy().copy() for name, value in maps.listener.state_dict().items()}
    for parameter in maps.listener.parameters():
        parameter.requires_grad = False
    maps.step()
    gc.collect()
    count = ndl.autograd.TENSOR_COUNTER
    for _ in range(3):
        maps.step()
    assert (ndl.autograd.TENSOR_COUNTER - count, gc.collect()) == (0, 0)
    for name, value in maps.listener.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert all(parameter.grad is None for parameter in maps.listener.parameters())


# ---------------------------------------------------------------------------------------------------------- the command


@needs_apps
def test_the_command_learns_the_words_and_then_the_radii(capsys, folder, tmp_path):
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    code, out, err = run(capsys, "--data", folder, *SMALL, "--plot", tmp_path / "a.png", "--audio", sounds, "--show", 2)
    assert (code, err) == (0, "")
    assert "16 utterances to learn from, 20 held out, as spectrograms of 129 bins every 8 ms" in out
    rows = [line.split() for line in out.partition("step ")[2].splitlines()[1:] if line[:4].strip().isdigit()]
    assert (rows[0][0], rows[-1][0], len(rows)) == ("0", "12", 11)
    assert float(rows[-1][2]) > 5 and out.rstrip().endswith("%.")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in sounds.iterdir()) == [
        f"{name}{kind}.wav" for name in ("0_deep_0", "1_high_4") for kind in ("", "_blurred")
    ]
    for name in ("0_deep_0", "1_high_4"):
        original, blurred = (read_wav(sounds / f"{name}{kind}.wav")[0] for kind in ("", "_blurred"))
        assert len(original) == len(blurred) and abs(blurred).max() > 0 and abs(original - blurred).max() > 1e-3
        np.testing.assert_array_equal(original, read_wav(folder / f"{name}.wav")[0])


@needs_apps
def test_the_same_seed_gives_the_same_result_and_another_does_not(capsys, folder, tmp_path):
    def result(seed, name):
        code, out, _ = run(capsys, "--data", folder, *SMALL, "--seed", seed, "--save", tmp_path / name)
        assert code == 0
        return out.partition("Radii")[2].replace(str(tmp_path / name), ""), (tmp_path / name).read_bytes()

    first, again, other = result(3, "a"), result(3, "b"), result(4, "c")
    assert first == again
    assert first[0] != other[0] and first[1] != other[1]


@needs_apps
def test_a_saved_network_is_looked_at_again_without_training(capsys, folder, tmp_path):
    _, first, _ = run(capsys, "--data", folder, *SMALL, "--save", tmp_path / "net")
    _, again, _ = run(capsys, "--data", folder, "--resume", tmp_path / "net", "--blur-steps", 12)
    assert again.partition("Radii")[2] == first.partition("Radii")[2].replace(f"Saved to {tmp_path / 'net'}.\n", "")
    code, _, err = run(capsys, "--resume", tmp_path / "net")
    assert code == 2 and "other data" in err


def interrupt(monkeypatch, owner, name, number):
    """Have Ctrl-C pressed during the call of that number of a function."""
    calls, function = iter(range(1, number + 1)), getattr(owner, name)

    def pressed(*args):
        if next(calls, None) == number:
            signal.raise_signal(signal.SIGINT)
        return function(*args)

    monkeypatch.setattr(owner, name, pressed)


@needs_apps
def test_an_interrupted_training_says_how_to_go_on_and_gets_to_the_very_same_end(capsys, folder, tmp_path, monkeypatch):
    words, straight, cut = ("--data", folder, *SMALL, "--batch-size", 8), tmp_path / "straight", tmp_path / "my cut"
    _, whole, _ = run(capsys, *words, "--save", straight)
    with monkeypatch.context() as patch:
        interrupt(patch, training, "train_step", 3)
        code, out, _ = run(capsys, *words, "--save", cut)
    assert code == 130
    assert (
        "Interrupted after 1 epoch and 1 of 2 steps." in out and "% of the held-out utterances are understood." in out
    )
    code, out, _ = run(capsys, *shared.words_to_go_on(out, "apps.adaptive_blur"))
    assert code == 0 and out.partition("Radii")[2] == whole.partition("Radii")[2].replace(str(straight), str(cut))
    assert cut.read_bytes() == straight.read_bytes()


@needs_apps
def test_interrupted_while_the_radii_are_learned_it_says_so(capsys, folder, monkeypatch):
    interrupt(monkeypatch, listening.BlurredListening, "step", 2)
    code, out, _ = run(capsys, "--data", folder, *SMALL)
    assert code == 130
    assert "Interrupted after 2 of 12 steps of the radii." in out and "keep their answer" in out


@needs_apps
def test_a_few_real_recordings_go_all_the_way(capsys, real_data, tmp_path):
    """Two digits of one speaker, takes 0 to 9."""
    recordings = real_data / "fsdd" / "recordings"
    for path in recordings.glob("[16]_theo_?.wav"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    code, out, _ = run(capsys, "--data", tmp_path, "--epochs", 20, "--batch-size", 5, "--blur-steps", 10)
    assert code == 0 and "10 utterances to learn from, 10 held out" in out
    last = out.splitlines()[-2]
    assert float(last.partition("%")[0]) >= 90
    assert float(last.partition(" bins, ")[2].partition("%")[0]) >= 90


MISTAKES = {
    "no such folder": (["--data", "{tmp}/none"], "none: no such folder"),
    "a file for a folder": (["--data", "{tmp}/file"], "a folder of recordings is needed"),
    "a folder without recordings": (["--data", "{tmp}"], "files named {digit}_{speaker}_{take}.wav"),
    "a truncated recording": (["--data", "{tmp}/broken"], "1_a_0.wav: truncated"),
    "a picture of unknown kind": (["--plot", "{tmp}/run.jpg"], "a name that ends in .png, .svg, .pdf"),
    "sounds in no folder": (["--audio", "{tmp}/none"], "there is no folder"),
    "no steps": (["--blur-steps", "0"], "--blur-steps: an integer of at least 1"),
    "a negative reward": (["--reward=-1"], "--reward: a finite number of at least 0"),
    "an unknown device": (["--device", "tpu"], "cpu, cuda or cuda:N"),
    "resuming from something else": (["--resume", "{tmp}/file"], "no intact safetensors file"),
}


@needs_apps
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, tmp_path, name):
    (tmp_path / "file").write_text("something else")
    (tmp_path / "broken").mkdir()
    write_wav(tmp_path / "broken" / "1_a_0.wav", np.zeros(100), 8000)
    whole = (tmp_path / "broken" / "1_a_0.wav").read_bytes()
    (tmp_path / "broken" / "1_a_0.wav").write_bytes(whole[:-1])
    words, expected = MISTAKES[name]
    assert re.search(expected, shared.error_of(adaptive_blur, capsys, *(word.format(tmp=tmp_path) for word in words)))
