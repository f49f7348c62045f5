"""Sound as files, as spectrograms, and back: WAV, the short-time Fourier transform, mel bands, a change of duration."""

from __future__ import annotations

import os
import pathlib
import tempfile
import wave
from dataclasses import dataclass

import numpy as np

#: What a recording may be, so that a damaged header cannot ask for gigabytes.
RATES, LONGEST = (4000, 96000), 60.0  # Hz, seconds

_WINDOW_SECONDS = 0.032  # two to four periods of a voice: its harmonics are resolved, and its glides still followed
_HOPS_PER_WINDOW = 4


# ------------------------------------------------------------------------------------------------------------ WAV files


def read_wav(path: str | os.PathLike[str]) -> tuple[np.ndarray, int]:
    """Read a recording: a WAV file of 8-bit or 16-bit PCM, mono or stereo.

    Parameters
    ----------
    path : str or os.PathLike

    Returns
    -------
    samples : numpy.ndarray of float32, shape (n,)
        From -1 to below 1; of stereo, the mean of both channels.
    rate : int
        Samples per second, in Hz.

    Raises
    ------
    ValueError
        If the file is none, is truncated, has no samples or more than `LONGEST` seconds of them, or is of another
        kind: other PCM widths, more channels, a rate outside `RATES`. The text begins with the path.
    OSError
        If it cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        room = os.fstat(file.fileno()).st_size
        try:
            sound = wave.open(file)  # noqa: SIM115 - closing it would only forget the file, which is closed here
        except (wave.Error, EOFError, RuntimeError) as error:
            detail = str(error) or "it ends inside its header"
            raise ValueError(f"{name}: no intact WAV file of PCM samples: {detail}") from None
        channels, width, rate, frames = sound.getparams()[:4]
        if channels not in (1, 2) or width not in (1, 2):
            raise ValueError(f"{name}: {channels} channels of {8 * width} bits: 1 or 2 of 8 or 16 bits can be read")
        if not RATES[0] <= rate <= RATES[1]:
            raise ValueError(f"{name}: {rate} samples per second: from {RATES[0]} to {RATES[1]} can be read")
        if not 0 < frames <= LONGEST * rate:
            raise ValueError(f"{name}: {frames / rate:g} seconds: more than 0 and at most {LONGEST:g} can be read")
        size = frames * channels * width
        data = sound.readframes(frames) if size <= room else b""
        if len(data) != size:
            raise ValueError(f"{name}: truncated: the header promises {size} bytes of samples, the file has fewer")
    if width == 1:  # 8-bit samples are unsigned, 16-bit ones are not
        samples = (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    else:
        samples = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    return samples.reshape(frames, channels).mean(axis=1, dtype=np.float32), rate


def write_wav(path: str | os.PathLike[str], samples: np.ndarray, rate: int) -> None:
    """Write a mono WAV file of 16-bit PCM; one that is there already is replaced only when the new one is complete.

    Parameters
    ----------
    path : str or os.PathLike
    samples : numpy.ndarray of floats, shape (n,)
        From -1 to 1; what is beyond is clipped.
    rate : int
        Samples per second, in Hz.
    """
    path = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".wav", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(rate)
            sound.writeframes(np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes())
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)


# --------------------------------------------------------------------------------- the short-time Fourier transform


@dataclass(frozen=True)
class STFT:
    """The short-time Fourier transform: the spectrum of a sound around every `hop`-th sample, and the way back.

    Frame t is centred on sample t·hop, that is on the time t·hop/rate in seconds; a signal of n samples has
    n // hop + 1 frames, and counts as zero beyond its ends. Bin k of the `bins` = n_fft/2 + 1 is at k·rate/n_fft Hz.
    The window is Hann's, ``w[n] = sin²(π·n/n_fft)``. Values are amplitudes in the unit of the samples::

        X[k, t] = 2/Σw · Σ_n w[n]·x[t·hop − n_fft/2 + n]·e^(−2πikn/n_fft)

    A sine of amplitude A at the frequency of a bin gives |X| = A there and A/2 in the two bins beside it. (At 0 Hz and
    at half the rate there is no second half of the spectrum to make up for: a constant A gives 2·A.)

    Parameters
    ----------
    rate : int
        Samples per second, in Hz.
    n_fft : int
        Samples in a window; even.
    hop : int
        Samples from a frame to the next, at most half a window.

    Examples
    --------
    >>> stft = STFT.for_rate(8000)
    >>> stft.n_fft, stft.hop, stft.bins
    (256, 64, 129)
    >>> time = np.arange(800) / stft.rate
    >>> spectrum = stft(0.5 * np.sin(2 * np.pi * 1000 * time))
    >>> spectrum.shape
    (129, 13)
    >>> int(abs(spectrum[:, 6]).argmax()) * stft.rate / stft.n_fft, round(float(abs(spectrum[:, 6]).max()), 6)
    (1000.0, 0.5)
    """

    rate: int
    n_fft: int
    hop: int

    def __post_init__(self) -> None:
        if self.n_fft < 4 or self.n_fft % 2 or not 1 <= self.hop <= self.n_fft // 2:
            raise ValueError(
                f"STFT: n_fft={self.n_fft} and hop={self.hop}: an even window of at least 4 samples is needed, and a "
                "hop from 1 to half of it"
            )

    @classmethod
    def for_rate(cls, rate: int) -> STFT:
        """Make one with a window of about 32 ms, a power of two in samples, and a hop of a quarter of it."""
        n_fft = 1 << round(np.log2(rate * _WINDOW_SECONDS))
        return cls(rate, n_fft, n_fft // _HOPS_PER_WINDOW)

    @property
    def bins(self) -> int:
        """Frequencies from 0 Hz to half the rate, both included."""
        return self.n_fft // 2 + 1

    @property
    def window(self) -> np.ndarray:
        """Hann's window, float64 of shape (n_fft,); shifted by half of itself it adds up to 1."""
        return np.sin(np.pi * np.arange(self.n_fft) / self.n_fft) ** 2

    def frames(self, samples: int) -> int:
        """How many frames a signal of so many samples has."""
        return samples // self.hop + 1

    def __call__(self, signal: np.ndarray) -> np.ndarray:
        """Transform a signal.

        Parameters
        ----------
        signal : numpy.ndarray of floats, shape (n,)

        Returns
        -------
        numpy.ndarray of complex128, shape (bins, frames(n))

        Raises
        ------
        ValueError
            If `signal` has another number of axes.
        """
        if np.ndim(signal) != 1:
            raise ValueError(f"STFT: a signal of shape (n,) is needed, got {np.shape(signal)}")
        padded = np.pad(np.asarray(signal, np.float64), (self.n_fft // 2, self.n_fft // 2))
        views = np.lib.stride_tricks.sliding_window_view(padded, self.n_fft)[:: self.hop]
        window = self.window
        return np.fft.rfft(views * window, axis=1).T * (2 / window.sum())

    def inverse(self, spectrum: np.ndarray, samples: int) -> np.ndarray:
        """Give the signal whose transform is nearest to `spectrum`: that from which it came, if it is one.

        Every frame is transformed back, windowed once more, and added up; the sum is divided by that of the squared
        windows (Griffin and Lim, 1984, eq. 6).

        Parameters
        ----------
        spectrum : numpy.ndarray of complex numbers, shape (bins, frames(samples))
        samples : int
            Length of the signal.

        Returns
        -------
        numpy.ndarray of float64, shape (samples,)

        Raises
        ------
        ValueError
            If the shape is another one.
        """
        if np.shape(spectrum) != (self.bins, self.frames(samples)):
            raise ValueError(
                f"STFT.inverse: {samples} samples have a spectrum of shape {(self.bins, self.frames(samples))}, got "
                f"{np.shape(spectrum)}"
            )
        window = self.window
        pieces = np.fft.irfft(spectrum.T * (window.sum() / 2), n=self.n_fft, axis=1) * window
        signal, weight = np.zeros((2, self.hop * (len(pieces) - 1) + self.n_fft))
        for t, piece in enumerate(pieces):
            place = slice(t * self.hop, t * self.hop + self.n_fft)
            signal[place] += piece
            weight[place] += window**2
        inside = slice(self.n_fft // 2, self.n_fft // 2 + samples)
        return signal[inside] / weight[inside]


# ---------------------------------------------------------------------------------- matrices that gradients go through


def mel_filterbank(stft: STFT, bands: int, lowest: float = 60.0) -> np.ndarray:
    """Make the matrix that sums up a spectrum's bins in bands as wide as the ear's.

    The bands are triangles that overlap by half, at equal distances on the mel scale, ``2595·log10(1 + f/700)`` with f
    in Hz (O'Shaughnessy, 1987), from `lowest` to half the rate. Each weighs 1, so that a band's value is a mean
    amplitude.

    Parameters
    ----------
    stft : STFT
    bands : int
    lowest : float
        Where the first band begins, in Hz.

    Returns
    -------
    numpy.ndarray of float32, shape (bands, stft.bins)

    Raises
    ------
    ValueError
        If there is no band, or one lies between two bins and would be empty.

    Examples
    --------
    >>> mel_filterbank(STFT.for_rate(8000), bands=32).sum(axis=1).round(6).tolist() == [1.0] * 32
    True
    """
    if bands < 1:
        raise ValueError(f"mel_filterbank: at least one band is needed, got {bands}")
    ends = 2595 * np.log10(1 + np.array([lowest, stft.rate / 2]) / 700)
    corners = 700 * (10 ** (np.linspace(*ends, bands + 2) / 2595) - 1)
    left, middle, right = (corners[i : bands + i, np.newaxis] for i in range(3))
    frequency = np.arange(stft.bins) * stft.rate / stft.n_fft
    filters = np.maximum(np.minimum((frequency - left) / (middle - left), (right - frequency) / (right - middle)), 0)
    weight = filters.sum(axis=1, keepdims=True)
    if not weight.all():
        empty = int((weight == 0).argmax())
        raise ValueError(
            f"mel_filterbank: band {empty} of {bands} lies between two of the {stft.bins} bins: fewer bands are needed"
        )
    return (filters / weight).astype(np.float32)


def resampling_matrix(frames: int, to: int, padded: int | None = None) -> np.ndarray:
    """Make the matrix that turns so many frames into a fixed number, whatever the utterance's duration.

    Column j is centred on frame ``(j + 1/2)·frames/to − 1/2``: a triangle as wide as the distance from a new frame to
    the next, or from an old one where that is more (linear interpolation). Each weighs 1.

    Parameters
    ----------
    frames : int
        Frames that there are.
    to : int
        Frames wanted.
    padded : int, optional
        Frames with those that only fill up a batch; they get no weight.

    Returns
    -------
    numpy.ndarray of float32, shape (padded or frames, to)

    Raises
    ------
    ValueError
        If a number is below 1, or `padded` below `frames`.

    Examples
    --------
    >>> resampling_matrix(6, to=2, padded=7).T
    array([[0.25 , 0.375, 0.25 , 0.125, 0.   , 0.   , 0.   ],
           [0.   , 0.   , 0.125, 0.25 , 0.375, 0.25 , 0.   ]], dtype=float32)
    """
    padded = frames if padded is None else padded
    if not 1 <= frames <= padded or to < 1:
        raise ValueError(f"resampling_matrix: {frames} frames of {padded} cannot become {to}: all are at least 1")
    step = max(frames / to, 1.0)
    centre = (np.arange(to) + 0.5) * frames / to - 0.5
    weights = np.maximum(1 - abs(np.arange(frames)[:, np.newaxis] - centre.clip(0, frames - 1)) / step, 0)
    matrix = np.zeros((padded, to), np.float32)
    matrix[:frames] = weights / weights.sum(axis=0)
    return matrix
