"""What does a network listen to? A classifier of spoken words, and how blurry their spectrograms may become.

``python -m apps.adaptive_blur`` shows it for vowels and glides that it synthesises itself, and for recordings of spoken
digits if it is given a folder of them; ``--help`` says what else there is.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import needle as ndl
from needle.data import DataLoader

if __package__:
    from . import arguments, listening, plots, runs, spectrogram, speech, training
else:
    import arguments
    import listening
    import plots
    import runs
    import spectrogram
    import speech
    import training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROG = "python -m apps.adaptive_blur"
APP = "adaptive_blur"

DEFAULTS = {
    "epochs": 30,
    "batch_size": 50,
    "optimizer": "adam",
    "lr": {"sgd": 0.05, "adam": 0.003, "adamw": 0.003},
    "weight_decay": {"sgd": 0.0005, "adam": 0.0001, "adamw": 0.01},
    "seed": 0,
    "hidden_dim": 128,
    "dropout": 0.3,
}
# These say how the trained network is looked at: they are no part of the training run, and not saved with it.
LOOK = {"blur_steps": 150, "blur_lr": 1.0, "reward": 1e-5, "show": 3}

_AT_ONCE = 50  # utterances that are blurred in one go


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 2 for a mistake in the arguments or files, 130 after Ctrl-C."""
    return arguments.run_command(PROG, lambda: _command(vars(_parser().parse_args(argv))))


def _parser() -> Any:
    description = (
        "Train a classifier of spoken words on spectrograms; then learn, for every bin of held-out ones, how far it "
        "may be blurred while the network's answer stays the same."
    )
    parser = arguments.training_parser(PROG, description, DEFAULTS)
    data = parser.add_argument_group("data")
    text = "folder of recordings named {digit}_{speaker}_{take}.wav, of which takes 0 to 4 are held out"
    data.add_argument("--data", help=text, type=pathlib.Path, metavar="DIR")
    data.add_argument("--skip-broken", help="leave out recordings that cannot be read", action="store_true")
    network = parser.add_argument_group("network")
    text = f"features of its two hidden layers (default: {DEFAULTS['hidden_dim']})"
    network.add_argument("--hidden-dim", help=text, type=arguments.at_least(1), metavar="N")
    text = f"share of these that training drops (default: {DEFAULTS['dropout']})"
    network.add_argument("--dropout", help=text, type=arguments.probability, metavar="P")
    blur = parser.add_argument_group("blur")
    text = f"steps in which the radii are learned (default: {LOOK['blur_steps']})"
    blur.add_argument("--blur-steps", help=text, type=arguments.at_least(1), metavar="N")
    text = f"learning rate of the radii, in bins (default: {LOOK['blur_lr']:g})"
    blur.add_argument("--blur-lr", help=text, type=arguments.rate, metavar="X")
    text = f"what the logarithm of a radius is worth: λ in ‖p(blurred) − p‖² − λ·Σ log m (default: {LOOK['reward']:g})"
    blur.add_argument("--reward", help=text, type=arguments.rate, metavar="X")
    text = f"held-out utterances to draw and to write as sound (default: {LOOK['show']})"
    blur.add_argument("--show", help=text, type=arguments.at_least(1), metavar="N")
    text = "write these here as WAV files: as they were, and blurred with the phase they had"
    blur.add_argument("--audio", help=text, type=pathlib.Path, metavar="DIR")
    return parser


def _command(given: dict[str, Any]) -> int:
    runs.check_given(given)
    plot, save, audio = (given.get(name) for name in ("plot", "save", "audio"))
    if audio:
        arguments.check_output(audio / "word.wav", "--audio")
    saved, settings = runs.settle(given, _parser(), DEFAULTS, APP)
    look = {name: given.get(name, value) for name, value in LOOK.items()}
    data = _data(given)
    settings["data"] = data.fingerprint()
    device = given.get("device", ndl.default_device())

    ndl.random.seed(settings["seed"])
    stft = spectrogram.STFT.for_rate(data.rate)
    hidden, dropout = settings["hidden_dim"], settings["dropout"]
    model = listening.Listener(stft, len(data.classes), hidden_dim=hidden, dropout=dropout).to(device)
    run = runs.start(model, settings, saved)
    train, test = (
        list(listening.batches(part, stft, run.model.frames, _AT_ONCE, device)) for part in (data.train, data.test)
    )
    size = settings["batch_size"]
    loader = DataLoader(listening.heard(run.model, train), batch_size=size, shuffle=True, device=device)
    test_loader = DataLoader(listening.heard(run.model, test), batch_size=1000, device=device)
    introduction = (
        f"{data.name}: {len(data.train)} utterances to learn from, {len(data.test)} held out, as spectrograms of "
        f"{stft.bins} bins every {1000 * stft.hop / stft.rate:g} ms; on {device}"
    )
    if not runs.train_classifier(run, loader, test_loader, introduction, runs.saver(run, save, APP)):
        return runs.conclude(run, len(loader), False, PROG, given, _understood)

    print(f"\nRadii of all bins of the {len(data.test)} held-out spectrograms, and how many answers stay the same:")
    for parameter in run.model.parameters():
        parameter.requires_grad = False
    run.model.eval()
    maps = [listening.BlurredListening(run.model, batch, look["blur_lr"], look["reward"]) for batch in test]
    found = listening.grow(maps, look["blur_steps"])
    finished = found[-1].step == look["blur_steps"]
    if not finished:
        print(f"Interrupted after {found[-1].step} of {look['blur_steps']} steps of the radii.")
    shown = _choose(data.test, look["show"])
    if plot:
        with arguments.as_command_error(OSError):
            draw(plot, data, stft, [_blurred(maps, i, stft, data.test[i]) for i in shown], found, run.history)
        print(f"Drawn into {plot}")
    if audio:
        for i in shown:
            _write_sounds(audio, data, stft, i, maps)
        print(f"{2 * len(shown)} sounds written into {audio}")
    _conclude(run, found, listening.concentrate(maps), stft, save)
    return 0 if finished else arguments.INTERRUPTED


def _data(given: dict[str, Any]) -> speech.Speech:
    """The words that the arguments name."""
    if "data" not in given:
        return speech.synthesise()
    with arguments.as_command_error(OSError, ValueError):
        return speech.read_recordings(
            given["data"],
            skip_broken=given.get("skip_broken", False),
            note=lambda line: print(f"{PROG}: {line}", file=sys.stderr),
        )


# ------------------------------------------------------------------------------------------------ what has been learned


def _choose(utterances: Sequence[speech.Utterance], number: int) -> list[int]:
    """Take so many utterances (or all) at equal distances, so that they are different words."""
    number = min(number, len(utterances))
    return [round(i * (len(utterances) - 1) / max(number - 1, 1)) for i in range(number)]


def _blurred(
    maps: Sequence[listening.BlurredListening], index: int, stft: spectrogram.STFT, utterance: speech.Utterance
) -> dict[str, Any]:
    """An utterance's spectrum and radii, what it becomes by them, and what the network says of both."""
    one, row = next((one, list(one.batch.order).index(index)) for one in maps if index in one.batch.order)
    radii = one.radii()
    spectrum, m = stft(utterance.samples), radii[row]
    blurred = ndl.adaptive_blur(abs(spectrum), m.astype(np.float64))
    words = int(one.words()[row]), int(one.words(radii)[row])
    return {"utterance": utterance, "spectrum": spectrum, "blurred": blurred, "radius": m, "words": words}


def _write_sounds(
    folder: pathlib.Path,
    data: speech.Speech,
    stft: spectrogram.STFT,
    index: int,
    maps: Sequence[listening.BlurredListening],
) -> None:
    """Write an utterance as it was, and blurred: the new amplitudes with the phases that the bins had."""
    utterance = data.test[index]
    found = _blurred(maps, index, stft, utterance)
    phase = np.exp(1j * np.angle(found["spectrum"]))
    sound = stft.inverse(found["blurred"] * phase, len(utterance.samples))
    with arguments.as_command_error(OSError):
        spectrogram.write_wav(folder / f"{utterance.name}.wav", utterance.samples, data.rate)
        spectrogram.write_wav(folder / f"{utterance.name}_blurred.wav", sound, data.rate)


def _understood(last: dict[str, float]) -> str:
    """What the training reached, by its last epoch."""
    return f"{1 - last['test_error']:.2%} of the held-out utterances are understood."


def _conclude(
    run: training.Run,
    found: Sequence[listening.Measure],
    few: listening.Concentration,
    stft: spectrogram.STFT,
    save: pathlib.Path | None,
) -> None:
    """Say what was reached."""
    if save:
        print(f"Saved to {save}.")
    last = found[-1]
    print(
        f"{_understood(run.history[-1])} Blurred with a mean radius of {last.mean:.1f} of {stft.bins} bins, "
        f"{last.kept:.1%} keep their answer; with the same radii at random bins {last.kept_shuffled:.1%}; with that "
        f"radius everywhere {last.kept_even:.1%}."
    )
    print(
        f"{few.bins:.1%} of the bins, with {few.energy:.0%} of the energy, have less than half of the median radius. "
        f"With these left as they are and the median radius everywhere else, {few.kept:.1%} keep their answer; with "
        f"as many of the loudest bins in their place {few.kept_loudest:.1%}."
    )


# ---------------------------------------------------------------------------------------------------------- the picture


def draw(
    path: pathlib.Path,
    data: speech.Speech,
    stft: spectrogram.STFT,
    examples: Sequence[dict[str, Any]],
    found: Sequence[listening.Measure],
    history: Sequence[dict[str, float]],
) -> None:
    """Draw some utterances, their blur and its radii, and what the blur did to the answers, on one slide.

    Parameters
    ----------
    path : pathlib.Path
        File to write; its ending, one of `plots.FORMATS`, says the format.
    data : Speech
    stft : STFT
    examples : sequence of dict
        As `_blurred` gives them; the first three are drawn.
    found : sequence of Measure
    history : sequence of dict
        Of the training: the last one's ``test_error`` is named.
    """
    examples, understood = examples[:3], 1 - history[-1]["test_error"]
    widest = max(example["radius"].max() for example in examples)
    title = f"What does the network listen to? {data.name.capitalize()}, {understood:.1%} understood"
    with plots.slide(path, title, w_pad=0.12, h_pad=0.1, wspace=0.02, hspace=0.03) as figure:
        left, right = figure.subfigures(1, 2, width_ratios=[2.3, 1])
        rows = left.subplots(3, len(examples), sharey=True, squeeze=False)
        for column, example in zip(rows.T, examples):
            images = _draw_example(column, data, stft, example, widest)
        for row, label in zip(rows, ("as it was", "blurred", "radius of the blur")):
            row[0].set_ylabel(f"{label}\n\nkHz")
        left.colorbar(images[0], ax=rows[:2].ravel().tolist(), label="dB (0: its loudest bin)", pad=0.01)
        left.colorbar(images[1], ax=rows[2].tolist(), label="bins (bright: listened to)", pad=0.01)
        kept, loss = right.subplots(2, 1, height_ratios=[1.5, 1])
        _draw_kept(kept, found, stft.bins)
        loss.plot([m.step for m in found], [m.loss for m in found], color=plots.MUTED, linewidth=2.2)
        loss.set(title="Loss", xlabel="step", xlim=(0, max(found[-1].step, 1)))
        loss.grid(axis="y", color="#E3E7EB", linewidth=0.8)


def _draw_example(
    column: Sequence[Axes], data: speech.Speech, stft: spectrogram.STFT, example: dict[str, Any], widest: float
) -> Any:
    """Draw an utterance's three pictures; gives the image of levels and that of radii."""
    frames = example["radius"].shape[1]
    half_bin, half_frame = stft.rate / stft.n_fft / 2000, stft.hop / stft.rate / 2  # kHz, s
    extent = (-half_frame, (2 * frames - 1) * half_frame, -half_bin, stft.rate / 2000 + half_bin)
    place = {"origin": "lower", "aspect": "auto", "extent": extent, "interpolation": "nearest"}
    loudest = abs(example["spectrum"]).max() or 1.0
    for axes, name in zip(column, ("spectrum", "blurred")):
        level = 20 * np.log10(np.maximum(abs(example[name]) / loudest, 1e-6))
        levels = axes.imshow(level, cmap="magma", vmin=-60, vmax=0, **place)
    radii = column[2].imshow(example["radius"], cmap="viridis_r", vmin=1, vmax=widest, **place)
    utterance, (before, after) = example["utterance"], (data.classes[word] for word in example["words"])
    column[0].set_title(f"“{data.classes[utterance.label]}” by {utterance.speaker}", fontsize=13)
    for axes, word in zip(column, (before, after)):
        note = f"heard as “{word}”"
        axes.text(0.98, 0.95, note, transform=axes.transAxes, ha="right", va="top", color="white", fontsize=11)
    column[2].set_xlabel("seconds")
    for axes in column:
        axes.tick_params(labelbottom=axes is column[2])
    return levels, radii


def _draw_kept(axes: Axes, found: Sequence[listening.Measure], bins: int) -> None:
    """Draw how many answers stay the same while the radii grow, for the three ways to place them."""
    from matplotlib.ticker import PercentFormatter

    radius = [m.mean for m in found]
    lines = (
        ("radii as learned", [m.kept for m in found], plots.TRAIN_COLOR, "-"),
        ("the same, shuffled", [m.kept_shuffled for m in found], plots.MUTED, "--"),
        ("their mean everywhere", [m.kept_even for m in found], plots.TEST_COLOR, "-"),
    )
    for name, shares, color, style in lines:
        axes.plot(
            radius, shares, style, color=color, linewidth=2.4, marker="o", markersize=4, label=name, clip_on=False
        )
    beside = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
    for _, shares, color, _ in lines[::2]:
        axes.annotate(f"{shares[-1]:.0%}", (radius[-1], shares[-1]), color=color, fontweight="bold", **beside)
    axes.set(title="Answers kept", xlabel=f"mean radius, of {bins} bins", ylim=(0, 1))
    axes.set_xlim(1, max(radius[-1], 1.1))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.grid(axis="y", color="#E3E7EB", linewidth=0.8)
    axes.legend(loc="lower left", frameon=False)


if __name__ == "__main__":
    sys.exit(main())
