"""What a network listens to: every bin of a spectrogram is blurred as far as the network's answer stays the same.

Where the blur stays small the information is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.data import NDArrayDataset

if __package__:
    from . import display, spectrogram, speech, training
else:
    import display
    import spectrogram
    import speech
    import training

# -------------------------------------------------------------------------------------------------------- the network


class Listener(nn.Module):
    """Tells words apart by their spectrograms: mel bands, logarithm, a fixed number of frames, two hidden layers.

    All of it is differentiable in the spectrogram.

    Parameters
    ----------
    stft : STFT
        What the spectrograms are made by.
    classes : int
        Words to be told apart.
    bands : int
        Mel bands.
    frames : int
        Frames that every utterance is resampled to.
    hidden_dim : int
        Features in each hidden layer.
    dropout : float
        Which share of these is dropped in training.

    Examples
    --------
    >>> listener = Listener(spectrogram.STFT.for_rate(8000), classes=10)
    >>> x, shrink = ndl.init.rand(2, 129, 50), ndl.Tensor(np.stack([spectrogram.resampling_matrix(50, 20)] * 2))
    >>> listener(listener.features(x, shrink)).shape
    (2, 10)
    """

    FLOOR = 0.01  # of the loudest bin: what is 40 dB weaker is silence, so that noise there says nothing

    def __init__(
        self,
        stft: spectrogram.STFT,
        classes: int,
        bands: int = 32,
        frames: int = 20,
        hidden_dim: int = 128,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.frames = frames
        self.filters = ndl.Tensor(spectrogram.mel_filterbank(stft, bands), requires_grad=False)
        layers: list[nn.Module] = [nn.Flatten(), nn.BatchNorm1d(bands * frames)]
        for width in (bands * frames, hidden_dim):
            layers += [nn.Linear(width, hidden_dim), nn.BatchNorm1d(hidden_dim), nn.ReLU(), nn.Dropout(dropout)]
        self.classify = nn.Sequential(*layers, nn.Linear(hidden_dim, classes))

    def features(self, x: ndl.Tensor, shrink: ndl.Tensor) -> ndl.Tensor:
        """Give what is heard of spectrograms, (batch, bands, frames).

        Parameters
        ----------
        x : Tensor, shape (batch, bins, padded)
            Amplitudes; the loudest bin of an utterance is 1.
        shrink : Tensor, shape (batch, padded, frames)
            A `resampling_matrix` for each utterance; frames that fill up the batch have no weight there.
        """
        return ndl.log(self.filters @ x + self.FLOOR) @ shrink

    def forward(self, features: ndl.Tensor) -> ndl.Tensor:
        """Give logits, (batch, classes), of what `features` gave."""
        return self.classify(features)

    def chances(self, x: ndl.Tensor, shrink: ndl.Tensor) -> ndl.Tensor:
        """Give each word's probability, (batch, classes)."""
        return ndl.softmax(self(self.features(x, shrink)))


@dataclass
class Batch:
    """Spectrograms of utterances that last about as long, filled up with frames of silence to the same length.

    Attributes
    ----------
    x : Tensor of float32, shape (batch, bins, padded)
        Amplitudes; the loudest bin of an utterance is 1.
    shrink : Tensor of float32, shape (batch, padded, frames)
        Makes the frames a fixed number, as `Listener.features` needs it.
    mask : Tensor of float32, shape (batch, 1, padded)
        1 for a frame of the utterance, 0 for one that fills up.
    labels : numpy.ndarray of int64, shape (batch,)
    order : numpy.ndarray of int64, shape (batch,)
        Which of the utterances these are.
    lengths : list of int
        Frames of each.
    """

    x: ndl.Tensor
    shrink: ndl.Tensor
    mask: ndl.Tensor
    labels: np.ndarray
    order: np.ndarray
    lengths: list[int]


def batches(
    utterances: Sequence[speech.Utterance], stft: spectrogram.STFT, frames: int, size: int, device: ndl.Device
) -> Iterator[Batch]:
    """Make batches of at most `size` utterances, from the shortest to the longest, so that little is filled up."""
    order = np.argsort([len(u.samples) for u in utterances], kind="stable")
    for part in np.split(order, range(size, len(order), size)):
        spectra = [amplitudes(stft(utterances[i].samples)) for i in part]
        lengths = [spectrum.shape[1] for spectrum in spectra]
        padded = max(lengths)
        x = np.zeros((len(part), stft.bins, padded), np.float32)
        for row, spectrum in zip(x, spectra):
            row[:, : spectrum.shape[1]] = spectrum
        shrink = np.stack([spectrogram.resampling_matrix(length, frames, padded) for length in lengths])
        mask = (np.arange(padded) < np.array(lengths)[:, np.newaxis, np.newaxis]).astype(np.float32)
        constants = [ndl.Tensor(array, device=device, requires_grad=False) for array in (x, shrink, mask)]
        yield Batch(*constants, np.array([utterances[i].label for i in part], np.int64), part, lengths)


def amplitudes(spectrum: np.ndarray) -> np.ndarray:
    """Give |X| on a scale on which the loudest bin is 1, however loud the recording is; silence stays silence."""
    x = abs(spectrum)
    return (x / (x.max() or 1.0)).astype(np.float32)


def heard(listener: Listener, parts: Sequence[Batch]) -> NDArrayDataset:
    """Give features and labels of all utterances, in their order: nothing before the first layer has to be learned."""
    with ndl.no_grad():
        features = np.concatenate([listener.features(part.x, part.shrink).numpy() for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    there = np.argsort(np.concatenate([part.order for part in parts]))
    return NDArrayDataset(features[there], labels[there])


# ------------------------------------------------------------------------------------------------------------ the radii


@dataclass
class Measure:
    """How far the radii have grown, and what blurring with them has done.

    Attributes
    ----------
    step : int
    loss : float
        Mean over utterances of ‖p(blur(x, m)) − p(x)‖² − λ·Σ log m.
    mean, median : float
        Over the bins of all utterances.
    kept, kept_shuffled, kept_even : float
        For which share of the utterances the likeliest word is still the same: after blurring with the radii, with the
        same radii at random bins of the utterance, with their mean everywhere in the utterance.
    right : float
        For which share it is the true one, after blurring with the radii.
    """

    step: int
    loss: float
    mean: float
    median: float
    kept: float
    kept_shuffled: float
    kept_even: float
    right: float


class BlurredListening:
    """A radius for every bin of a batch of utterances, learned while the network is frozen.

    The loss of an utterance with spectrogram x and radii m is ‖p(blur(x, m)) − p(x)‖² − λ·Σ log|m|, with p the
    network's probabilities, and m starts at 1 and becomes |m| after each step. The blur is along the frequencies, so
    that a frame that only fills up the batch touches no other.

    Parameters
    ----------
    listener : Listener
        In evaluation mode; its parameters get no gradient.
    batch : Batch
    rate : float
        Adam's learning rate for the radii, in bins.
    reward : float
        λ.
    """

    SMALLEST = 1e-3  # |m| = 0 has no logarithm; below 1 a bin is not blurred, so this changes nothing that is heard

    def __init__(self, listener: Listener, batch: Batch, rate: float, reward: float) -> None:
        self.listener, self.batch, self.reward = listener, batch, reward
        self.blur = nn.AdaptiveBlur(batch.x.shape, axis=1, device=batch.x.device)
        self.optimizer = ndl.optim.Adam(self.blur.parameters(), lr=rate)
        with ndl.no_grad():
            self.chances = listener.chances(batch.x, batch.shrink)

    def loss(self) -> ndl.Tensor:
        """Sum over the batch's utterances."""
        change = self.listener.chances(self.blur(self.batch.x), self.batch.shrink) - self.chances
        return (change * change).sum() - self.reward * (ndl.log(self.blur.radius) * self.batch.mask).sum()

    def step(self) -> ndl.Tensor:
        """Make one step, and give the loss of before it."""
        self.optimizer.reset_grad()
        loss = self.loss()
        loss.backward(create_graph=False)
        self.optimizer.step()
        with ndl.no_grad():
            self.blur.radius.data = ndl.maximum(ndl.abs(self.blur.radius), self.SMALLEST)
        return loss.detach()

    def radii(self) -> list[np.ndarray]:
        """Each utterance's radii, (bins, frames)."""
        return [m[:, :length] for m, length in zip(self.blur.radius.numpy(), self.batch.lengths)]

    def words(self, radii: Sequence[np.ndarray] | None = None) -> np.ndarray:
        """The likeliest words, after blurring with such radii if some are given."""
        if radii is None:
            return self.chances.numpy().argmax(axis=1)
        m = np.ones(self.batch.x.shape, np.float32)
        for row, own in zip(m, radii):
            row[:, : own.shape[1]] = own
        with ndl.no_grad():
            blurred = ndl.adaptive_blur(self.batch.x, ndl.Tensor(m, device=self.batch.x.device), axis=1)
            return self.listener.chances(blurred, self.batch.shrink).numpy().argmax(axis=1)


def measure(step: int, maps: Sequence[BlurredListening]) -> Measure:
    """Measure the radii, and compare them with the same at other places and with their mean everywhere."""
    rng = np.random.default_rng(0)  # the comparison's own, so that measuring more often changes nothing else
    kept, right, loss = [], [], 0.0
    for one in maps:
        radii, words = one.radii(), one.words()
        shuffled = [rng.permutation(m.ravel()).reshape(m.shape) for m in radii]
        even = [np.full_like(m, m.mean()) for m in radii]
        after = one.words(radii)
        kept.append([after == words, one.words(shuffled) == words, one.words(even) == words])
        right.append(after == one.batch.labels)
        with ndl.no_grad():
            loss += one.loss().item()
    radii = np.concatenate([m.ravel() for one in maps for m in one.radii()])
    shares = np.concatenate(kept, axis=1).mean(axis=1).tolist()
    right = np.concatenate(right)
    return Measure(
        step, loss / len(right), float(radii.mean(dtype=float)), float(np.median(radii)), *shares, float(right.mean())
    )


@dataclass
class Concentration:
    """How much of the utterances is listened to: the bins whose radius is below half of their utterance's median.

    Attributes
    ----------
    bins : float
        Which share of all bins they are.
    energy : float
        Which share of the energy, the squared amplitudes, is in them.
    kept : float
        For which share of the utterances the likeliest word is the same if these bins are left as they are, and all
        others are blurred with the median radius.
    kept_loudest : float
        The same with as many of the loudest bins in their place.
    """

    bins: float
    energy: float
    kept: float
    kept_loudest: float


def concentrate(maps: Sequence[BlurredListening]) -> Concentration:
    """Measure how few bins the answers hang on."""
    count, size, energy, total = 0, 0, 0.0, 0.0
    kept = []
    for one in maps:
        radii, words, ways = one.radii(), one.words(), ([], [])
        for x, m in zip(one.batch.x.numpy(), radii):
            x, median = x[:, : m.shape[1]], np.median(m)
            heard_bins = m < median / 2
            loudest = np.zeros(m.size, bool)
            loudest[np.argsort(-x, axis=None, kind="stable")[: heard_bins.sum()]] = True
            count, size = count + int(heard_bins.sum()), size + m.size
            energy, total = energy + float((x[heard_bins] ** 2).sum()), total + float((x**2).sum())
            for way, sharp in zip(ways, (heard_bins, loudest.reshape(m.shape))):
                way.append(np.where(sharp, np.float32(1), median))
        kept.append([one.words(way) == words for way in ways])
    return Concentration(count / size, energy / (total or 1.0), *np.concatenate(kept, axis=1).mean(axis=1).tolist())


COLUMNS = (
    ("step", "{}"),
    ("loss", "{:.4f}"),
    ("mean radius", "{:.2f}"),
    ("median", "{:.2f}"),
    ("kept", "{:.1%}"),
    ("shuffled", "{:.1%}"),
    ("evenly", "{:.1%}"),
    ("right", "{:.1%}"),
)


def grow(maps: Sequence[BlurredListening], steps: int, show: Callable[[str], Any] | None = None) -> list[Measure]:
    """Learn the radii; a table grows by about ten rows.

    Parameters
    ----------
    maps : sequence of BlurredListening
    steps : int
    show : callable, optional
        Where a line of the table goes; to the terminal by default.

    Returns
    -------
    list of Measure
        One for each row, from before the first step to after the last one (Ctrl-C ends it early, between two steps).
    """
    from tqdm import tqdm

    table, found = display.Table(COLUMNS, show), []
    rows = {round(steps * i / 10) for i in range(11)}
    table.heading()
    with training.Interrupt() as interrupt, tqdm(total=steps, unit=" steps", leave=False, disable=None) as bar:
        for step in range(steps + 1):
            if step:
                losses = [one.step() for one in maps]
                bar.update()
                if not bar.disable:
                    utterances = sum(len(one.batch.lengths) for one in maps)
                    bar.set_postfix_str(f"loss {sum(loss.item() for loss in losses) / utterances:.4f}", refresh=False)
            if step in rows or interrupt.requested:
                found.append(now := measure(step, maps))
                with tqdm.external_write_mode():
                    table.row([getattr(now, column.name) for column in fields(now)])
            if interrupt.requested:
                break
    return found
