"""Sound as files, as spectrograms and back, and the matrices that make words of it comparable."""

import re
import struct
import wave

import numpy as np
import pytest

from apps.spectrogram import LONGEST, STFT, mel_filterbank, read_wav, resampling_matrix, write_wav


def wav_bytes(data, channels=1, bits=16, rate=8000, kind=1, promised=None):
    """A canonical WAV file, field by field as the RIFF specification has them."""
    size = len(data) if promised is None else promised
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.fixture
def wav(tmp_path):
    """Writes a file and gives its path."""

    def write(content):
        path = tmp_path / "word.wav"
        path.write_bytes(content)
        return path

    return write


# ------------------------------------------------------------------------------------------------------------ WAV files


def test_16_bit_samples_are_signed_and_full_scale_is_1(wav):
    samples, rate = read_wav(wav(wav_bytes(struct.pack("<4h", 0, 16384, -32768, 32767), rate=11025)))
    assert samples.dtype == np.float32 and rate == 11025
    np.testing.assert_array_equal(samples, np.float32([0, 0.5, -1, 32767 / 32768]))


def test_8_bit_samples_are_unsigned_around_128(wav):
    samples, _ = read_wav(wav(wav_bytes(bytes([128, 192, 0, 255]), bits=8)))
    np.testing.assert_array_equal(samples, np.float32([0, 0.5, -1, 127 / 128]))


@pytest.mark.parametrize("bits", [8, 16])
def test_of_stereo_one_hears_the_mean_of_both_channels(wav, bits):
    data = struct.pack("<4h", 8192, 16384, -8192, 8192) if bits == 16 else bytes([160, 192, 96, 160])
    samples, _ = read_wav(wav(wav_bytes(data, channels=2, bits=bits)))
    np.testing.assert_array_equal(samples, np.float32([0.375, 0]))


def test_what_is_written_is_read_again_to_half_a_step_and_clipped(tmp_path):
    sound = np.append(np.random.uniform(-1, 0.999, 100), [1.5, -2.0])
    write_wav(tmp_path / "a.wav", sound, 16000)
    samples, rate = read_wav(tmp_path / "a.wav")
    assert rate == 16000
    np.testing.assert_allclose(samples[:100], sound[:100], atol=0.5 / 32768 + 1e-7)
    np.testing.assert_array_equal(samples[100:], np.float32([32767 / 32768, -1]))
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 16000, 102)


def test_a_file_cut_at_any_byte_is_an_error_that_names_it(wav):
    whole = wav_bytes(struct.pack("<6h", *range(6)))
    assert len(read_wav(wav(whole))[0]) == 6
    for length in range(len(whole)):
        path = wav(whole[:length])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_wav(path)


BROKEN = {
    "text": (b"These are no samples, but it is long enough to hold a header.", "no intact WAV file"),
    "nothing": (b"", "it ends inside its header"),
    "24 bits": (wav_bytes(bytes(12), bits=24), "1 channels of 24 bits: 1 or 2 of 8 or 16"),
    "three channels": (wav_bytes(bytes(12), channels=3), "3 channels of 16 bits"),
    "no channel": (wav_bytes(bytes(12), channels=0), "no intact WAV file"),
    "floats": (wav_bytes(bytes(12), bits=32, kind=3), "no intact WAV file of PCM samples: unknown format: 3"),
    "no samples": (wav_bytes(b""), "0 seconds"),
    "no rate": (wav_bytes(bytes(12), rate=0), "0 samples per second"),
    "an absurd rate": (wav_bytes(bytes(12), rate=2**32 - 1, bits=8), "4294967295 samples per second"),
    "a promise of hours": (wav_bytes(bytes(12), promised=2**31), "seconds: more than 0 and at most 60"),
    "a promise not kept": (wav_bytes(bytes(12), promised=100), "truncated: the header promises 100 bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_sound_recording_is_told_in_one_line(wav, name):
    content, expected = BROKEN[name]
    with pytest.raises(ValueError, match=expected) as caught:
        read_wav(wav(content))
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_an_error_or_another_sound_but_nothing_else(wav):
    whole = wav_bytes(struct.pack("<8h", *range(8)))
    for bit in range(8 * 44):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path = wav(bytes(content))
        try:
            samples, rate = read_wav(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert 0 < len(samples) <= LONGEST * rate and np.isfinite(samples).all()


def test_a_recording_is_read_to_its_last_sample(real_data):
    path = real_data / "fsdd" / "recordings" / "3_theo_7.wav"
    samples, rate = read_wav(path)
    assert (rate, len(samples)) == (8000, (path.stat().st_size - 44) // 2)
    assert 0.01 < abs(samples).max() <= 1


# --------------------------------------------------------------------------------------------- the Fourier transform


@pytest.mark.parametrize(("n_fft", "hop"), [(256, 64), (256, 128), (64, 10), (8, 1)])
@pytest.mark.parametrize("samples", [1, 63, 64, 1000])
def test_the_inverse_gives_the_signal_back(n_fft, hop, samples):
    stft, signal = STFT(8000, n_fft, hop), np.random.randn(samples)
    spectrum = stft(signal)
    assert spectrum.shape == (stft.bins, stft.frames(samples)) == (n_fft // 2 + 1, samples // hop + 1)
    np.testing.assert_allclose(stft.inverse(spectrum, samples), signal, rtol=1e-12, atol=1e-13)


def test_a_frame_is_the_transform_written_out():
    stft, signal = STFT(8000, 16, 5), np.random.randn(41)
    n = np.arange(16)
    w = np.sin(np.pi * n / 16) ** 2
    for t in range(stft.frames(41)):
        place = 5 * t - 8 + n
        around = np.where((place >= 0) & (place < 41), signal[place.clip(0, 40)], 0)
        for k in range(9):
            expected = 2 / w.sum() * (w * around * np.exp(-2j * np.pi * k * n / 16)).sum()
            np.testing.assert_allclose(stft(signal)[k, t], expected, rtol=1e-12, atol=1e-14)


def test_a_sine_shows_its_amplitude_at_its_frequency_and_half_of_it_beside():
    stft, k = STFT(8000, 256, 64), 20
    signal = 0.7 * np.sin(2 * np.pi * k * stft.rate / stft.n_fft * np.arange(2000) / stft.rate + 0.3)
    middle = abs(stft(signal)[:, 15])
    np.testing.assert_allclose(middle[k - 2 : k + 3], [0, 0.35, 0.7, 0.35, 0], atol=1e-12)


def test_a_frame_holds_the_energy_of_what_is_in_its_window():
    """Parseval: the sum of |FFT|² over all n_fft frequencies is n_fft times that of the squares."""
    stft, signal = STFT(8000, 64, 16), np.random.randn(400)
    twice = np.full(stft.bins, 2.0)
    twice[[0, -1]] = 1  # the frequencies between stand for their mirror images too
    w = np.sin(np.pi * np.arange(64) / 64) ** 2
    t = 10
    energy = (twice * abs(stft(signal)[:, t] * w.sum() / 2) ** 2).sum() / 64
    np.testing.assert_allclose(energy, ((w * signal[16 * t - 32 : 16 * t + 32]) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize(("rate", "n_fft"), [(8000, 256), (11025, 256), (16000, 512), (44100, 1024), (48000, 2048)])
def test_the_window_is_the_power_of_two_next_to_32_ms(rate, n_fft):
    stft = STFT.for_rate(rate)
    assert (stft.n_fft, stft.hop) == (n_fft, n_fft // 4)
    assert abs(np.log2(n_fft / rate / 0.032)) <= 0.5


def test_the_transform_says_what_it_cannot_do():
    with pytest.raises(ValueError, match=r"shape \(n,\) is needed, got \(2, 5\)"):
        STFT(8000, 8, 2)(np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"10 samples have a spectrum of shape \(5, 6\), got \(5, 7\)"):
        STFT(8000, 8, 2).inverse(np.zeros((5, 7), complex), 10)
    for n_fft, hop in ((7, 2), (2, 1), (8, 5), (8, 0)):
        with pytest.raises(ValueError, match=f"n_fft={n_fft} and hop={hop}"):
            STFT(8000, n_fft, hop)


# ------------------------------------------------------------------------------------------------------------- matrices


def test_mel_bands_are_triangles_at_equal_distances_in_mel():
    stft = STFT(8000, 256, 64)
    filters = mel_filterbank(stft, 20, lowest=100.0)
    assert filters.shape == (20, 129) and filters.dtype == np.float32 and (filters >= 0).all()
    np.testing.assert_allclose(filters.sum(axis=1), 1, rtol=1e-6)
    frequency = np.arange(129) * 31.25
    low, high = (2595 * np.log10(1 + f / 700) for f in (100, 4000))
    for band, row in enumerate(filters):
        left, top, right = (700 * (10 ** ((low + (band + i) * (high - low) / 21) / 2595) - 1) for i in range(3))
        assert not row[(frequency <= left) | (frequency >= right)].any()
        assert abs(frequency[row.argmax()] - top) < 31.25
    assert (np.diff(filters.argmax(axis=1)) >= 1).all()


def test_neighbouring_bands_share_what_lies_between_their_tops():
    """Before each is scaled to weigh 1, two triangles that overlap by half add up to 1 between their tops."""
    stft, bands = STFT(8000, 2048, 512), 12
    filters = mel_filterbank(stft, bands).astype(float)
    tops = filters.argmax(axis=1)
    between = slice(tops[0] + 1, tops[-1])
    weight = np.linalg.lstsq(filters[:, between].T, np.ones(between.stop - between.start), rcond=None)[0]
    np.testing.assert_allclose(weight @ filters[:, between], 1, atol=1e-5)


def test_bands_that_would_hear_nothing_are_refused():
    stft = STFT(8000, 256, 64)
    with pytest.raises(ValueError, match=r"band \d+ of 200 lies between two of the 129 bins"):
        mel_filterbank(stft, 200)
    with pytest.raises(ValueError, match="at least one band"):
        mel_filterbank(stft, 0)


@pytest.mark.parametrize(("frames", "to", "padded"), [(50, 20, 60), (7, 20, 7), (20, 20, 21), (1, 5, 3), (9, 1, 9)])
def test_a_resampled_constant_is_that_constant_and_fill_has_no_weight(frames, to, padded):
    matrix = resampling_matrix(frames, to, padded)
    assert matrix.shape == (padded, to) and not matrix[frames:].any()
    np.testing.assert_allclose(np.ones(padded) @ matrix, 1, rtol=1e-6)


def test_as_many_frames_as_there_are_stay_as_they_are():
    np.testing.assert_array_equal(resampling_matrix(12, 12), np.eye(12, dtype=np.float32))


@pytest.mark.parametrize(("frames", "to"), [(60, 20), (20, 40), (15, 20)])
def test_a_ramp_stays_a_ramp_away_from_the_ends(frames, to):
    """Between old frames one interpolates; triangles around old frames, an odd number of frames apart, are even."""
    times = (np.arange(to) + 0.5) * frames / to - 0.5
    reach = max(1, frames / to)
    inside = (times >= reach) & (times <= frames - 1 - reach)
    assert inside.sum() > to / 2
    got = np.arange(frames) @ resampling_matrix(frames, to)
    np.testing.assert_allclose(got[inside], times[inside], rtol=1e-5)


def test_frames_that_are_not_there_cannot_be_resampled():
    for case in ((0, 5, 5), (6, 5, 5), (3, 0, 5)):
        with pytest.raises(ValueError, match="all are at least 1"):
            resampling_matrix(*case)
