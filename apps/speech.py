"""Spoken words to learn from: recordings in a folder, or vowels and glides that are synthesised with NumPy alone."""

from __future__ import annotations

import os
import pathlib
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

if __package__:
    from .spectrogram import read_wav
else:
    from spectrogram import read_wav

HELD_OUT = 5  #: takes 0 to 4 of each word and speaker are held out

# The layout of the Free Spoken Digit Dataset: {digit}_{speaker}_{take}.wav
_NAME = re.compile(r"(?P<digit>\d)_(?P<speaker>[^_]+)_(?P<take>\d{1,6})\.wav", re.IGNORECASE)


@dataclass(frozen=True)
class Utterance:
    """A word that somebody said.

    Attributes
    ----------
    samples : numpy.ndarray of float32, shape (n,)
        From -1 to 1.
    label : int
        Which of the classes it is.
    speaker : str
    take : int
        The how-manieth time this speaker says it, from 0 on.
    """

    samples: np.ndarray
    label: int
    speaker: str
    take: int

    @property
    def name(self) -> str:
        """What tells it from the others, fit for a file name."""
        return f"{self.label}_{self.speaker}_{self.take}"


@dataclass(frozen=True)
class Speech:
    """Utterances to learn from and to be tested on.

    Attributes
    ----------
    name : str
        What the data are, for titles.
    classes : tuple of str
    rate : int
        Samples per second of all utterances, in Hz.
    train, test : tuple of Utterance
        The rest, and takes 0 to 4, which are held out; each sorted by label, speaker and take.
    """

    name: str
    classes: tuple[str, ...]
    rate: int
    train: tuple[Utterance, ...]
    test: tuple[Utterance, ...]

    def fingerprint(self) -> str:
        """Give a short text that differs, all but surely, for other data, or the same in another order."""
        checksum = 0
        for utterance in (*self.train, *self.test):
            checksum = zlib.crc32(utterance.samples, zlib.crc32(utterance.name.encode(), checksum))
        return f"{self.rate} Hz, {len(self.train)}+{len(self.test)} utterances, {checksum:08x}"


def _split(name: str, classes: tuple[str, ...], rate: int, utterances: list[Utterance]) -> Speech:
    """Hold out the first takes."""
    ordered = sorted(utterances, key=lambda u: (u.label, u.speaker, u.take))
    train = tuple(u for u in ordered if u.take >= HELD_OUT)
    test = tuple(u for u in ordered if u.take < HELD_OUT)
    return Speech(name, classes, rate, train, test)


# ----------------------------------------------------------------------------------------------------------- recordings


def read_recordings(
    folder: str | os.PathLike[str], *, skip_broken: bool = False, note: Callable[[str], object] = print
) -> Speech:
    """Read spoken digits in the layout of the Free Spoken Digit Dataset: ``{digit}_{speaker}_{take}.wav``.

    Parameters
    ----------
    folder : str or os.PathLike
        Holds the files; what has another name in it is left alone.
    skip_broken : bool
        Go on without a file that cannot be read, instead of raising.
    note : callable
        Is told about each file that is skipped, in one line.

    Returns
    -------
    Speech
        Takes 0 to 4 are held out.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If `folder` is no folder.
    ValueError
        If a file is truncated or is no WAV file of 8-bit or 16-bit PCM (it is named), rates differ, or nothing is left
        to learn from or to be tested on.
    """
    matches = [(path, match) for path in _files(folder) if (match := _NAME.fullmatch(path.name))]
    utterances, rate, first = [], None, ""
    for path, match in matches:
        try:
            samples, found = read_wav(path)
            rate, first = rate or found, first or path.name
            if found != rate:
                raise ValueError(f"{path}: {found} samples per second, where {first} has {rate}")
        except (OSError, ValueError) as error:
            if not skip_broken:
                raise
            note(f"skipped {error}")
            continue
        utterances.append(Utterance(samples, int(match["digit"]), match["speaker"], int(match["take"])))
    speech = _split("spoken digits", tuple("0123456789"), rate or 0, utterances)
    if not speech.train or not speech.test:
        raise ValueError(
            f"{folder}: {len(speech.train)} recordings to learn from (take {HELD_OUT} and later) and "
            f"{len(speech.test)} to be tested on (takes 0 to {HELD_OUT - 1}) can be read: files named "
            "{digit}_{speaker}_{take}.wav are needed for both"
        )
    return speech


def _files(folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """The folder's files by name."""
    folder = pathlib.Path(folder)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: a folder of recordings is needed, this is a file")
    return sorted(path for path in folder.iterdir() if path.is_file())


# ----------------------------------------------------------------------------------------------------------- synthesis

RATE = 8000  #: Hz

#: Frequencies of the first three formants of a man's vowels in Hz (rounded from Peterson and Barney, 1952, table II).
VOWELS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}

#: What is said: a vowel, or a glide from one to another.
WORDS = ("a", "e", "i", "o", "u", "ai", "au", "ia", "oi", "ua")

#: Pitch in Hz, and how much higher the formants are than a man's: a shorter throat.
SPEAKERS = {"deep": (105.0, 0.96), "low": (130.0, 1.0), "middle": (165.0, 1.08), "high": (210.0, 1.16)}

_BANDWIDTHS = (80.0, 100.0, 140.0)  # Hz
_FRAME = 40  # samples between two points at which pitch, formants and loudness are set


def synthesise(takes: int = 15, seed: int = 0, words: Sequence[str] = WORDS) -> Speech:
    """Make vowels and glides between them as four speakers would say them.

    A voice is a sum of harmonics that fall by 12 dB per octave, of a pitch that drifts down by a tenth, through three
    resonances: the formants. From take to take these vary by 3 % (standard deviation), the pitch by 5 %, the duration
    from 0.25 to 0.45 s, the loudness by 10 dB, and the noise beneath is 25 to 40 dB weaker than the voice. In a glide
    the formants go from one vowel's to the other's along half a cosine.

    Parameters
    ----------
    takes : int
        How often every speaker says every word; the first five are held out.
    seed : int
        Of its own generator; NumPy's global one is left alone.
    words : sequence of str
        What is said: letters of `VOWELS`, one or two each.

    Returns
    -------
    Speech

    Raises
    ------
    ValueError
        If there are not more takes than are held out, or a word is none of one or two known vowels.

    Examples
    --------
    >>> speech = synthesise(takes=6, words=("a", "ia"))
    >>> len(speech.train), len(speech.test), speech.test[-1].name
    (8, 40, '1_middle_4')
    """
    if takes <= HELD_OUT:
        raise ValueError(f"synthesise: {takes} takes: more than the {HELD_OUT} that are held out are needed")
    for word in words:
        if not 1 <= len(word) <= 2 or not set(word) <= VOWELS.keys():
            raise ValueError(f"synthesise: {word!r} is no word of one or two of the vowels {', '.join(VOWELS)}")
    rng = np.random.default_rng(seed)
    utterances = [
        Utterance(_say(rng, word, *voice), label, speaker, take)
        for label, word in enumerate(words)
        for speaker, voice in SPEAKERS.items()
        for take in range(takes)
    ]
    return _split("synthesised vowels and glides", tuple(words), RATE, utterances)


def _say(rng: np.random.Generator, word: str, pitch: float, throat: float) -> np.ndarray:
    """One utterance of a word."""
    points = int(rng.uniform(0.25, 0.45) * RATE / _FRAME)
    time = np.linspace(0, 1, points)
    start, end = (np.array(VOWELS[vowel]) * rng.normal(1, 0.03, 3) for vowel in (word[0], word[-1]))
    progress = (1 - np.cos(np.pi * np.clip((time - 0.2) / 0.6, 0, 1))) / 2 if len(word) > 1 else np.zeros(points)
    formants = throat * (start + progress[:, np.newaxis] * (end - start))
    pitches = pitch * rng.normal(1, 0.05) * np.linspace(1.05, 0.95, points)
    harmonic = np.arange(1, int(RATE / 2 / pitches.min()) + 1)
    frequency = harmonic[:, np.newaxis] * pitches
    loudness = np.minimum(1, np.minimum(time, 1 - time) / 0.1)
    amplitude = _throat(frequency, formants) / harmonic[:, np.newaxis] ** 2 * frequency * loudness
    amplitude[frequency > 0.48 * RATE] = 0  # nothing may fold back at half the rate

    def between(values: np.ndarray) -> np.ndarray:
        """From the points, along the last axis, to the samples; the last value is held."""
        following = np.concatenate([values[..., 1:], values[..., -1:]], axis=-1)
        part = np.arange(_FRAME) / _FRAME
        mixed = values[..., np.newaxis] * (1 - part) + following[..., np.newaxis] * part
        return mixed.reshape(*values.shape[:-1], -1)

    turn = np.exp(2j * np.pi * np.cumsum(between(pitches)) / RATE)
    turns = np.multiply.accumulate(np.broadcast_to(turn, (len(harmonic), len(turn))), axis=0)  # the k-th: turn**k
    offsets = np.exp(2j * np.pi * rng.random((len(harmonic), 1)))
    voice = (between(amplitude) * (turns * offsets).imag).sum(axis=0)
    power = np.sqrt(np.mean(voice**2))
    noise = rng.normal(size=len(voice)) * power * 10 ** (-rng.uniform(25, 40) / 20)
    sound = voice + noise
    return (sound / abs(sound).max() * 10 ** (-rng.uniform(2, 12) / 20)).astype(np.float32)


def _throat(frequency: np.ndarray, formants: np.ndarray) -> np.ndarray:
    """How much of harmonics (harmonics, points) gets through resonances (points, 3): a cascade of pairs of poles."""
    passed = np.ones_like(frequency)
    for resonance, bandwidth in zip(formants.T, _BANDWIDTHS):
        whole = resonance**2 + (bandwidth / 2) ** 2
        passed *= whole / np.hypot(whole - frequency**2, bandwidth * frequency)
    return passed
