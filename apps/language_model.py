"""A language model that learns to write, character by character or word by word.

``python -m apps.language_model`` trains an LSTM on the texts of Python's ``help()``; ``--help`` says what else there
is.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import needle as ndl
from needle import nn
from needle.data import batchify, get_batch

if __package__:
    from . import arguments, checkpoints, runs, training
    from .models import LanguageModel
    from .sequence_training import detached
    from .text_plots import draw_language_run, perplexity
    from .texts import Text, Vocabulary, WindowLoader, python_text, text_from
else:
    import arguments
    import checkpoints
    import runs
    import training
    from models import LanguageModel
    from sequence_training import detached
    from text_plots import draw_language_run, perplexity
    from texts import Text, Vocabulary, WindowLoader, python_text, text_from

PROG = "python -m apps.language_model"
APP = "language_model"

DEFAULTS = {
    "epochs": 5,
    "batch_size": 32,
    "optimizer": "adam",
    "lr": {"sgd": 2.0, "adam": 0.004, "adamw": 0.004},
    "weight_decay": 0.0,
    "seed": 0,
    "level": "chars",
    "model": "lstm",
    "embedding": 64,
    "hidden": 256,
    "layers": 1,
    "seq_len": 64,
    "words": 10_000,
    "clip": 1.0,
}

_TEST_COLUMNS = 32  # into how many stretches the held-out text is cut at most
_SHOWN = {"chars": 240, "words": 40}  # tokens of the sample after each epoch
_SAMPLE_SEED = 1
_NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "transformer": "Transformer"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code: 0, 2 for a mistake in the arguments or files, 130 after Ctrl-C."""
    return arguments.run_command(PROG, lambda: _command(vars(_parser().parse_args(argv))))


def _parser() -> Any:
    description = "Train a language model on a text, and have it write: by default on the texts of Python's help()."
    parser = arguments.training_parser(PROG, description, DEFAULTS)
    data = parser.add_argument_group("data")
    text = "a text file, whose last tenth is held out, or a folder with train.txt and test.txt"
    data.add_argument("--data", help=text, type=pathlib.Path, metavar="PATH")
    data.add_argument("--level", help="what is predicted (default: chars)", choices=("chars", "words"))
    text = "how many words the model knows, the most frequent ones (default: 10000)"
    data.add_argument("--words", help=text, type=arguments.at_least(1), metavar="N")
    network = parser.add_argument_group("network")
    network.add_argument("--model", help="(default: lstm)", choices=list(_NAMES))
    for name, what in (
        ("embedding", "size of a token's vector (default: 64)"),
        ("hidden", "size of the state, or of a transformer's hidden layers (default: 256)"),
        ("layers", "layers on top of each other (default: 1)"),
        ("seq-len", "tokens per window (default: 64)"),
    ):
        network.add_argument(f"--{name}", help=what, type=arguments.at_least(1), metavar="N")
    text = "largest norm of the gradients, to which they are scaled down; 0 for no limit (default: 1)"
    network.add_argument("--clip", help=text, type=arguments.rate, metavar="X")
    writing = parser.add_argument_group("writing")
    text = "only write so many tokens with the model of --resume"
    writing.add_argument("--sample", help=text, type=arguments.at_least(1), metavar="N")
    text = "0 always takes the likeliest token, 1 what the model believes, more is wilder (default: 0.8)"
    writing.add_argument("--temperature", help=text, type=arguments.rate, metavar="T")
    writing.add_argument("--prompt", help="what the text begins with (default: a new line)", metavar="TEXT")
    return parser


def _command(given: dict[str, Any]) -> int:
    runs.check_given(given)
    if "sample" in given:
        return _write_only(given)
    saved, settings = runs.settle(given, _parser(), DEFAULTS, APP)
    device = given.get("device", ndl.default_device())
    ndl.random.seed(settings["seed"])
    with arguments.as_command_error(OSError, ValueError):
        text = text_from(given["data"]) if "data" in given else python_text()
        vocabulary = Vocabulary.of(text, settings["level"], settings["words"])
        settings |= {"data": text.fingerprint(), "vocabulary": vocabulary.as_setting()}
        loader = WindowLoader(vocabulary.encode(text.train), settings["seq_len"], settings["batch_size"], device)
        held_out = _in_columns(vocabulary.encode(text.test), settings["seq_len"])
    run = runs.start(_new_model(settings, len(vocabulary), saved).to(device), settings, saved)
    schedule = runs.cosine_schedule(run, len(loader))
    loss_fn = nn.SoftmaxLoss()

    def step(X: ndl.Tensor, y: ndl.Tensor) -> tuple[ndl.Tensor, ndl.Tensor]:
        run.optimizer.reset_grad()
        logits, _ = run.model(X)
        loss = loss_fn(logits, y)
        loss.backward(create_graph=False)
        if settings["clip"]:
            run.optimizer.clip_grad_norm(settings["clip"])
        run.optimizer.step()
        schedule.step()
        return loss.detach(), logits.detach()

    _introduce(run, text, vocabulary, len(loader.dataset), held_out.size, device)
    finished = training.fit(
        run,
        loader,  # type: ignore[arg-type]
        step,
        test=lambda: evaluate(run.model, held_out, settings["seq_len"], device),
        epochs=settings["epochs"],
        save=_after_epoch(run, vocabulary, given.get("temperature", 0.8), runs.saver(run, given.get("save"), APP)),
    )
    if "plot" in given and run.history:
        with arguments.as_command_error(OSError):
            title = f"{_NAMES[settings['model']]} on {text.name}"
            draw_language_run(given["plot"], title=title, unit=_unit(settings), history=run.history)
        print(f"Drawn into {given['plot']}")

    def reached(last: dict[str, float]) -> str:
        loss = last["test_loss"]
        return (
            f"{loss:.4f} nats per {_unit(settings)} (perplexity {perplexity(loss):.2f}) on the held-out text after "
            f"{run.epochs_done}."
        )

    return runs.conclude(run, len(loader), finished, PROG, given, reached)


def _in_columns(numbers: np.ndarray, seq_len: int) -> np.ndarray:
    """The held-out tokens in columns, which are read side by side: not so many that they get shorter than a window."""
    if len(numbers) < 2:
        raise ValueError(f"the held-out text of {len(numbers)} tokens is too short: nothing can be predicted")
    return batchify(numbers, max(1, min(_TEST_COLUMNS, len(numbers) // (seq_len + 1))))


def _unit(settings: dict[str, Any]) -> str:
    return "character" if settings["level"] == "chars" else "word"


def _new_model(settings: dict[str, Any], tokens: int, saved: checkpoints.SavedRun | None) -> LanguageModel:
    """A model of these settings; raises if a saved one is another, before one of its alleged size is made."""
    if saved:
        kind, layer = settings["model"], settings["layers"] - 1
        expected = {"embedding.weight": (tokens, settings["embedding"])}
        if kind == "transformer":
            expected["sequence.positions.weight"] = (settings["seq_len"], settings["embedding"])
            expected[f"sequence.layers.{layer}.linear2.weight"] = (settings["hidden"], settings["embedding"])
        else:
            gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
            shape = (settings["hidden"], gates * settings["hidden"])
            expected[f"sequence.{kind}_cells.{layer}.W_hh"] = shape
        for name, shape in expected.items():
            found = saved.arrays.get(f"model.{name}")
            if found is None or found.shape != shape:
                text = "nothing" if found is None else f"{found.shape}"
                raise arguments.CommandError(
                    f"{saved.path}: the model is another one: {name} is {text}, for these data and settings {shape} is "
                    "needed (give the same --data as to the saved run)"
                )
    return LanguageModel(
        settings["embedding"],
        tokens,
        settings["hidden"],
        num_layers=settings["layers"],
        seq_model=settings["model"],
        seq_len=settings["seq_len"],
    )


# --------------------------------------------------------------------------------------------------------- measuring


@dataclass
class Score:
    """What `evaluate` measured: the mean loss in nats per token, and the fraction that was predicted wrongly."""

    loss: float
    error: float


def evaluate(model: nn.Module, batches: np.ndarray, seq_len: int, device: ndl.Device | None = None) -> Score:
    """Measure a language model on a text, its state going on from window to window.

    Parameters
    ----------
    model : Module
        Left in evaluation mode.
    batches : numpy.ndarray
        What `needle.data.batchify` gave.
    seq_len : int
        Rows at a time; a transformer, which has no state, sees no further back.
    device : Device, optional

    Returns
    -------
    Score
    """
    loss_fn, state = nn.SoftmaxLoss(), None
    total = wrong = count = 0.0
    model.eval()
    with ndl.no_grad():
        for i in range(0, len(batches) - 1, seq_len):
            X, y = get_batch(batches, i, seq_len, device=device)
            logits, state = model(X, state)
            size = X.shape[0] * X.shape[1]
            total += loss_fn(logits, y).item() * size
            wrong += float((logits.numpy().argmax(axis=1) != y.numpy()).sum())
            count += size
    return Score(total / count, wrong / count)


# ----------------------------------------------------------------------------------------------------------- writing


def write(
    model: nn.Module,
    prompt: Sequence[int],
    count: int,
    temperature: float,
    window: int,
    stateful: bool,
    device: ndl.Device | None = None,
) -> list[int]:
    """Have a language model go on with a text.

    Parameters
    ----------
    model : Module
        Left in evaluation mode.
    prompt : sequence of int
        Token numbers, at least one.
    count : int
        How many to add.
    temperature : float
        What logits are divided by before a token is drawn, by NumPy's global generator; 0 takes the largest.
    window : int
        How many of the last tokens a model without state is given.
    stateful : bool
        Whether the model's state tells it what came before.
    device : Device, optional

    Returns
    -------
    list of int
        The added numbers.
    """
    written, fresh, state = list(prompt), list(prompt), None
    model.eval()
    with ndl.no_grad():
        for _ in range(count):
            seen = fresh if stateful else written[-window:]
            column = ndl.Tensor(np.array(seen, dtype=np.int64)[:, None], device=device, requires_grad=False)
            logits, state = model(column, state if stateful else None)
            state = detached(state)
            fresh = [_draw(logits.numpy()[-1].astype(np.float64), temperature)]
            written += fresh
    return written[len(prompt) :]


def _draw(logits: np.ndarray, temperature: float) -> int:
    if temperature == 0:
        return int(logits.argmax())
    chances = np.exp((logits - logits.max()) / temperature)
    return int(np.searchsorted(np.cumsum(chances / chances.sum()), np.random.rand()).clip(0, len(logits) - 1))


def _write_with(model: nn.Module, settings: dict, vocabulary: Vocabulary, prompt: str, count: int, heat: float) -> str:
    numbers = vocabulary.encode(prompt).tolist()
    stateful = settings["model"] != "transformer"
    device = model.parameters()[0].device
    return vocabulary.decode(write(model, numbers, count, heat, settings["seq_len"], stateful, device))


def _beginning(vocabulary: Vocabulary) -> str:
    """What a text begins with if nobody says: a new line, or else the first token."""
    return "\n" if vocabulary.level == "words" or "\n" in vocabulary.tokens else vocabulary.tokens[0]


def _write_only(given: dict[str, Any]) -> int:
    """Write with a saved model, and do nothing else."""
    chosen = {name: value for name, value in given.items() if name != "seed"}  # another seed writes another text
    saved, settings = runs.settle(chosen, _parser(), DEFAULTS, APP)
    if saved is None:
        raise arguments.CommandError("--sample writes with a saved model: give it with --resume")
    with arguments.as_command_error(ValueError, TypeError, about=saved.path):
        vocabulary = Vocabulary.from_setting(settings["level"], str(saved.settings.get("vocabulary", "")))
        model = _new_model(settings, len(vocabulary), saved)
        model.load_state_dict({n.removeprefix("model."): a for n, a in saved.arrays.items() if n.startswith("model.")})
    prompt = given.get("prompt") or _beginning(vocabulary)
    with arguments.as_command_error(ValueError, about="--prompt"):
        vocabulary.encode(prompt)
    model.to(given.get("device", ndl.default_device()))
    ndl.random.seed(given.get("seed", settings["seed"]))
    text = _write_with(model, settings, vocabulary, prompt, given["sample"], given.get("temperature", 0.8))
    print(given.get("prompt", "") + text)
    return 0


def _after_epoch(run: training.Run, vocabulary: Vocabulary, heat: float, save: Any) -> Any:
    """What follows each epoch: its perplexity, a sample of what the model writes by now, and saving."""
    shown = run.epoch

    def after() -> None:
        nonlocal shown
        if run.epoch > shown:
            shown = run.epoch
            with training.seeded(_SAMPLE_SEED):  # what is drawn here must not change what training draws
                count = _SHOWN[vocabulary.level]
                sample = _write_with(run.model, run.settings, vocabulary, _beginning(vocabulary), count, heat)
            lines = "\n".join(f"    │ {line}" for line in sample.strip().splitlines())
            print(f"perplexity {perplexity(run.history[-1]['test_loss']):.2f}; it writes:\n{lines}", flush=True)
        if save:
            save()

    return after


# -------------------------------------------------------------------------------------------------- words and pictures


def _introduce(
    run: training.Run, text: Text, vocabulary: Vocabulary, learned: int, held_out: int, device: ndl.Device
) -> None:
    weights = sum(parameter.size for parameter in run.model.parameters())
    unit = "characters" if vocabulary.level == "chars" else "words"
    print(
        f"{_NAMES[run.settings['model']]} of {weights:,} parameters on {text.name}: {learned:,} {unit} to learn from, "
        f"{held_out:,} held out, {len(vocabulary):,} different; on {device}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
