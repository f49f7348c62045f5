"""Saved runs: going on with one gives the very same result, and no accident leaves a broken file."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import shared
from hypothesis import example, given, settings
from hypothesis import strategies as st

import needle as ndl
from apps import checkpoints, mlp_resnet, runs, training
from needle import nn

for package in ("safetensors", "tqdm", "sklearn"):
    pytest.importorskip(package, reason=f"needs {package}, of the extra 'apps'")

ROOT = pathlib.Path(mlp_resnet.__file__).resolve().parents[1]
SMALL = ("--hidden-dim", "8", "--batch-size", "300")  # 5 steps an epoch


def run(*words):
    return mlp_resnet.main([*SMALL, *map(str, words)])


def interrupt_at_step(monkeypatch, number, presses=1):
    """Have Ctrl-C pressed during a training step, counted from the start of the program."""
    steps = 0
    train_step = training.train_step

    def pressed(*args):
        nonlocal steps
        steps += 1
        if steps == number:
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
        return train_step(*args)

    monkeypatch.setattr(training, "train_step", pressed)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Files of runs of 3 epochs that nobody interrupted, by optimizer."""
    folder = tmp_path_factory.mktemp("straight")
    files = {}
    for optimizer in ("sgd", "adam", "adamw"):
        files[optimizer] = folder / optimizer
        assert run("--epochs", 3, "--optimizer", optimizer, "--save", files[optimizer]) == 0
    return files


# ---------------------------------------------------------------------------------------------------- the same result


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("step", [1, 3, 5, 8, 15])
def test_an_interrupted_run_resumes_to_the_very_same_file(tmp_path, monkeypatch, straight, optimizer, step):
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at_step(patch, step)
        code = run("--epochs", 3, "--optimizer", optimizer, "--save", path)
    # After step 15 of 15 the run is complete, and Ctrl-C came too late to interrupt it.
    assert code == (130 if step < 15 else 0)
    np.random.rand(100)
    assert run("--epochs", 3, "--resume", path, "--save", path) == 0
    assert path.read_bytes() == straight[optimizer].read_bytes()


def test_a_run_that_is_interrupted_again_and_again_resumes_to_the_very_same_file(tmp_path, monkeypatch, straight):
    path = tmp_path / "run"
    words = ("--epochs", 3, "--save", path)
    codes = []
    while not codes or codes[-1]:
        with monkeypatch.context() as patch:
            interrupt_at_step(patch, 2)
            codes.append(run(*words, *(("--resume", path) if codes else ())))
    assert codes == [130] * 7 + [0]  # 15 steps, two at a time
    assert path.read_bytes() == straight["adam"].read_bytes()


def test_more_epochs_can_be_added_to_a_finished_run(tmp_path, straight):
    path = tmp_path / "run"
    assert run("--resume", straight["adam"], "--epochs", 4, "--save", path) == 0
    before, after = (json.loads(nn.read_metadata(p)["needle"]) for p in (straight["adam"], path))
    assert (after["epoch"], len(after["history"])) == (4, 4)
    assert after["history"][:3] == before["history"]


def test_a_file_that_says_nothing_of_a_gpus_random_numbers_is_resumed(tmp_path, straight):
    def forget(description, _):
        for state in description["random"].values():
            del state["seed"], state["draws"]

    path = rewrite(straight["adam"], tmp_path / "run", forget)
    assert run("--resume", path, "--epochs", 4) == 0


def test_settings_come_from_the_saved_run(tmp_path, straight):
    path = tmp_path / "run"
    assert mlp_resnet.main(["--resume", str(straight["sgd"]), "--save", str(path)]) == 0
    assert path.read_bytes() == straight["sgd"].read_bytes()


def test_another_learning_rate_applies_from_there_on(tmp_path, straight):
    path = tmp_path / "run"
    assert run("--resume", straight["adam"], "--epochs", 4, "--lr", 0.0, "--save", path) == 0
    before, after = (nn.load(p) for p in (straight["adam"], path))
    for name in before:
        if name.startswith("model.") and "running" not in name:
            np.testing.assert_array_equal(before[name].numpy(), after[name].numpy())


# -------------------------------------------------------------------------------------------------------------- Ctrl-C


def test_ctrl_c_says_what_was_reached_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run"
    interrupt_at_step(monkeypatch, 8)
    assert run("--epochs", 3, "--save", path) == 130
    out = capsys.readouterr().out
    assert "Interrupted after 1 epoch and 3 of 5 steps." in out
    assert "% of the held-out digits are read correctly after 1 epoch." in out
    assert f"Saved to {path}. Go on with: python -m apps.mlp_resnet --resume {path} --save {path}" in out


def test_the_command_to_go_on_works_as_it_is_pasted(tmp_path, monkeypatch, capsys):
    path, folder, straight = tmp_path / "my run", tmp_path / "it's mine", tmp_path / "straight"
    folder.mkdir()
    images = np.random.default_rng(0).integers(256, size=(100, 28, 28)).astype(np.uint8)
    shared.write_digits(folder, images, np.arange(100, dtype=np.uint8) % 10, "some-", "")
    words = ("--epochs", 2, "--batch-size", 40, "--lr", 0.01, "--device", "cpu", "--data", folder)
    assert run(*words, "--save", straight) == 0
    with monkeypatch.context() as patch:
        interrupt_at_step(patch, 3)
        assert run(*words, "--save", path) == 130
    assert mlp_resnet.main(shared.words_to_go_on(capsys.readouterr().out, "apps.mlp_resnet")) == 0
    assert path.read_bytes() == straight.read_bytes()


def test_the_command_to_go_on_repeats_what_the_file_does_not_hold():
    given = {"epochs": 2, "device": ndl.cuda(1), "download": True, "prompt": "- a", "resume": "old", "save": "new"}
    command = runs.command_to_go_on("python -m apps.x", given, {"epochs": 2, "data": "the fingerprint"})
    assert command == "python -m apps.x --resume new --save new --device cuda:1 --download '--prompt=- a'"


def test_a_second_ctrl_c_stops_at_once_and_leaves_the_last_save(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run"
    interrupt_at_step(monkeypatch, 8, presses=2)
    assert run("--epochs", 3, "--save", path) == 130
    assert capsys.readouterr().err == "python -m apps.mlp_resnet: interrupted\n"
    assert checkpoints.load(path, "mlp_resnet").arrays
    assert json.loads(nn.read_metadata(path)["needle"])["epoch"] == 1


def test_ctrl_c_does_again_what_it_did_before_when_training_is_over(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    interrupt_at_step(monkeypatch, 2)
    run("--epochs", 1)
    assert signal.getsignal(signal.SIGINT) is before


def test_training_works_in_another_thread_than_the_main_one():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(run("--epochs", 1)))
    thread.start()
    thread.join()
    assert codes == [0]


def test_sigint_from_outside_ends_the_program_with_130_and_a_file_to_go_on_with(tmp_path):
    path = tmp_path / "run"
    command = [sys.executable, "-m", "apps.mlp_resnet", "--epochs", "100000", "--save", str(path), *SMALL]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.split()[:1] == ["3"]:
                process.send_signal(signal.SIGINT)
        err = process.stderr.read()
    assert (process.returncode, err) == (130, "")
    assert json.loads(nn.read_metadata(path)["needle"])["epoch"] >= 3


# -------------------------------------------------------------------------------------------------- accidents in saving


def test_a_save_that_fails_is_one_line_and_leaves_the_file_of_before(tmp_path, monkeypatch, capsys, straight):
    path = tmp_path / "run"
    path.write_bytes(straight["adam"].read_bytes())

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run("--resume", path, "--epochs", 4, "--save", path) == 2
    assert capsys.readouterr().err == f"python -m apps.mlp_resnet: error: {path}: No space left on device\n"
    assert path.read_bytes() == straight["adam"].read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_kill_in_the_middle_of_a_save_leaves_the_file_of_before(tmp_path, moment):
    """The third save is cut off: before all of the file is surely on the disk, and before it gets its name."""
    path = tmp_path / "run"
    code = f"""
import os, signal, sys
from apps import mlp_resnet
real, calls = os.{moment}, 0
def killed(*args):
    global calls
    calls += 1
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)
os.{moment} = killed
mlp_resnet.main({[*SMALL, "--save", str(path)]!r})
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    assert process.returncode == -signal.SIGKILL
    assert json.loads(nn.read_metadata(path)["needle"])["epoch"] == 2
    assert run("--resume", path, "--epochs", 3) == 0


# ------------------------------------------------------------------------------------------------ files that are wrong


error_of = partial(shared.error_of, mlp_resnet)


def rewrite(source, target, change):
    """Copy a saved run with its description changed by `change`, and its arrays, if it gives others."""
    description = json.loads(nn.read_metadata(source)["needle"])
    arrays = nn.load(source)
    change(description, arrays)
    nn.save(arrays, target, metadata={"needle": json.dumps(description)})
    return target


def test_settings_that_contradict_the_saved_run_are_an_error(capsys, straight):
    for flag, value in (("--hidden-dim", 16), ("--optimizer", "sgd"), ("--seed", 1), ("--blocks", 1)):
        err = error_of(capsys, "--resume", straight["adam"], flag, value)
        assert f"{flag} {value}: the run to resume has" in err


def test_other_data_of_the_same_shape_are_an_error(capsys, tmp_path, straight):
    path = rewrite(straight["adam"], tmp_path / "run", lambda d, _: d["settings"].update(data="others"))
    assert "trained on other data" in error_of(capsys, "--resume", path)


def test_data_of_another_shape_are_an_error(capsys, tmp_path, straight):
    shared.write_digits(tmp_path, np.zeros((20, 28, 28), np.uint8), np.zeros(20, np.uint8), "t10k-")
    err = error_of(capsys, "--resume", straight["adam"], "--data", tmp_path)
    assert "first layer has shape (64, 8), for these data and settings (784, 8) is needed" in err


def test_a_model_of_another_shape_than_its_settings_say_is_an_error(capsys, tmp_path, straight):
    path = rewrite(straight["adam"], tmp_path / "run", lambda d, _: d["settings"].update(hidden_dim=10**9))
    assert "first layer has shape (64, 8)" in error_of(capsys, "--resume", path)
    path = rewrite(straight["adam"], tmp_path / "run", lambda d, _: d["settings"].update(blocks=2))
    assert "unexpected" in error_of(capsys, "--resume", path)


def test_a_safetensors_file_of_something_else_is_an_error(capsys, tmp_path):
    nn.save(nn.Linear(2, 2), tmp_path / "model")
    assert "this is no saved training run" in error_of(capsys, "--resume", tmp_path / "model")


def test_another_programs_run_is_an_error(capsys, tmp_path, straight):
    path = rewrite(straight["adam"], tmp_path / "run", lambda d, _: d.update(app="cifar10"))
    assert "expected apps.mlp_resnet, not 'cifar10'" in error_of(capsys, "--resume", path)


def test_a_file_that_is_cut_off_anywhere_is_an_error(capsys, tmp_path, straight):
    whole, path = straight["sgd"].read_bytes(), tmp_path / "run"
    for length in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "no intact safetensors file" in error_of(capsys, "--resume", path)


@pytest.mark.parametrize("name", ["model.modules.0.bias", "optimizer.g_sum.0", "random.now"])
def test_an_array_that_is_missing_or_of_another_kind_is_an_error(capsys, tmp_path, straight, name):
    path = rewrite(straight["adam"], tmp_path / "run", lambda _, arrays: arrays.pop(name))
    error_of(capsys, "--resume", path)
    path = rewrite(straight["adam"], tmp_path / "run", lambda _, arrays: arrays.update({name: np.zeros((3, 3))}))
    error_of(capsys, "--resume", path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def replace_somewhere(tree, choices, value):
    """Put `value` into a dict or list somewhere in `tree`: a choice for each level, the last of them is replaced."""
    place = tree
    for level, choice in enumerate(choices, 1):
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[choice % len(keys)]
        if level == len(choices) or not isinstance(place[key], (dict, list)) or not place[key]:
            place[key] = value
            return
        place = place[key]


@settings(max_examples=150)
@given(choices=st.lists(st.integers(0, 100), min_size=1, max_size=4), value=json_values)
@example(choices=[8], value=10**17)  # a step after the end of the epoch
def test_whatever_stands_in_a_field_the_run_is_refused_in_one_line_or_sound(straight, choices, value):
    path = straight["adam"].parent / "changed"
    rewrite(straight["adam"], path, lambda description, _: replace_somewhere(description, choices, value))
    assert mlp_resnet.main(["--resume", str(path), "--epochs", "1"]) in (0, 2)


def test_a_description_that_is_no_json_is_an_error(capsys, tmp_path, straight):
    arrays = nn.load(straight["adam"])
    for text in ("", "{", "[" * 100_000, "null"):
        nn.save(arrays, tmp_path / "run", metadata={"needle": text})
        assert "saved training run" in error_of(capsys, "--resume", tmp_path / "run").replace(
            "not a sound training run", "no saved training run"
        )
