"""State: taking it, putting it back, saving it in a file and loading files that nobody can trust."""

import builtins
import errno
import os
import stat
import struct
import tempfile

import numpy as np
import pytest

import needle as ndl
from needle import init, nn


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))


def numbers(module):
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def assert_same(left, right):
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


# -- in memory


def test_the_state_holds_parameters_and_buffers_by_name():
    assert list(model().state_dict()) == [
        "modules.0.weight",
        "modules.0.bias",
        "modules.1.weight",
        "modules.1.bias",
        "modules.1.running_mean",
        "modules.1.running_var",
        "modules.2.weight",
    ]


def test_a_state_is_a_snapshot_that_later_training_does_not_change():
    module = model()
    state = module.state_dict()
    before = {name: tensor.numpy().copy() for name, tensor in state.items()}
    for tensor in module.parameters():
        tensor.realize_cached_data()[...] = 7
    module(init.rand(5, 3))
    assert_same({name: tensor.numpy() for name, tensor in state.items()}, before)
    assert not any(tensor.requires_grad for tensor in state.values())


def test_loading_a_state_makes_two_modules_equal_and_shares_nothing():
    np.random.seed(1)
    left, right = model(), model()
    left(init.rand(5, 3))
    parameters, state = right.parameters(), left.state_dict()
    result = right.load_state_dict(state)
    assert result.missing == result.unexpected == []
    assert_same(numbers(left), numbers(right))
    assert all(a is b for a, b in zip(right.parameters(), parameters))
    for tensor in state.values():
        tensor.realize_cached_data()[...] = 7
    assert_same(numbers(left), numbers(right))


def test_arrays_will_do_as_a_state():
    left, right = model(), model()
    right.load_state_dict(numbers(left))
    assert_same(numbers(left), numbers(right))


def test_a_graph_from_before_loading_keeps_the_values_that_it_saw():
    layer = nn.Linear(2, 1, bias=False, dtype="float64")
    x = ndl.Tensor([[1.0, 2.0]])
    y = layer(x)
    before = layer.weight.numpy().copy()
    layer.load_state_dict({"weight": np.full((2, 1), 9.0)})
    y.backward(create_graph=False)
    np.testing.assert_array_equal(x.grad.numpy(), before.T)


def test_shared_parameters_are_saved_once():
    layer = nn.Linear(2, 2)
    assert list(nn.Sequential(layer, layer).state_dict()) == ["modules.0.weight", "modules.0.bias"]


def test_everything_that_does_not_fit_is_named_in_one_error_and_nothing_is_changed():
    module = model()
    before = numbers(module)
    state = dict(before)
    del state["modules.0.bias"], state["modules.1.running_var"]
    state["modules.3.weight"] = np.zeros(2, "float32")
    state["modules.0.weight"] = np.zeros((4, 3), "float32")
    state["modules.1.bias"] = np.zeros(4, "float64")
    state["modules.2.weight"] = "text"
    with pytest.raises(ValueError) as error:
        module.load_state_dict(state)
    text = str(error.value)
    assert "Sequential.load_state_dict" in text
    assert "missing: modules.0.bias, modules.1.running_var" in text
    assert "unexpected: modules.3.weight" in text
    assert "modules.0.weight: shape (4, 3), the module has (3, 4)" in text
    assert "modules.1.bias: dtype float64, the module has float32" in text
    assert "modules.2.weight: a Tensor or an array is needed, got str" in text
    assert_same(numbers(module), before)


def test_without_strict_missing_and_unexpected_names_are_told_but_no_errors():
    module = model()
    state = numbers(model())
    bias = state.pop("modules.0.bias")
    state["other"] = bias
    own = module.modules[0].bias.numpy().copy()
    result = module.load_state_dict(state, strict=False)
    assert result == (["modules.0.bias"], ["other"])
    np.testing.assert_array_equal(module.modules[0].bias.numpy(), own)
    np.testing.assert_array_equal(module.modules[0].weight.numpy(), state["modules.0.weight"])
    with pytest.raises(ValueError, match="shape"):
        module.load_state_dict({"modules.0.bias": np.zeros(1, "float32")}, strict=False)


def test_a_state_that_is_no_mapping_is_named():
    with pytest.raises(TypeError, match="state_dict"):
        model().load_state_dict("model.safetensors")


def test_two_tensors_of_one_name_are_an_error():
    module = nn.Module()
    module.keyed = {0: init.zeros(1), "0": init.zeros(2)}
    with pytest.raises(ValueError, match=r"named 'keyed\.0'"):
        module.state_dict()


# -- in files

needs_safetensors = pytest.mark.skipif(
    not pytest.importorskip("importlib.util").find_spec("safetensors"),
    reason="safetensors is what files are written with: pip install 'needle[apps]'",
)


@needs_safetensors
def test_a_file_gives_back_every_bit(tmp_path):
    left, right = model(), model()
    left(init.rand(5, 3))
    nn.save(left, tmp_path / "model.safetensors")
    right.load_state_dict(nn.load(tmp_path / "model.safetensors"))
    assert_same(numbers(left), numbers(right))


@needs_safetensors
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_any_dtype_and_shape_can_be_saved(tmp_path, dtype, shape):
    array = np.asarray(np.random.rand(*shape) * 100).astype(dtype)
    array = np.asfortranarray(array) if array.ndim > 1 else array
    nn.save({"a": ndl.Tensor.make_const(array), "b": array}, tmp_path / "file")
    loaded = nn.load(tmp_path / "file")
    for name in ("a", "b"):
        assert loaded[name].dtype == dtype and loaded[name].shape == shape and not loaded[name].requires_grad
        np.testing.assert_array_equal(loaded[name].numpy(), array)


@needs_safetensors
def test_metadata_travel_with_the_file(tmp_path):
    nn.save({"a": init.ones(1)}, tmp_path / "file", metadata={"epoch": "3"})
    assert nn.read_metadata(tmp_path / "file") == {"epoch": "3"}
    nn.save({"a": init.ones(1)}, tmp_path / "file")
    assert nn.read_metadata(tmp_path / "file") == {}


@needs_safetensors
@pytest.mark.parametrize("state", [{}, nn.ReLU()], ids=["mapping", "module"])
@pytest.mark.parametrize("metadata", [None, {}, {"epoch": "3"}])
def test_a_file_without_tensors_is_read_again(tmp_path, state, metadata):
    nn.save(state, tmp_path / "file", metadata=metadata)
    assert nn.load(tmp_path / "file") == {}
    assert nn.read_metadata(tmp_path / "file") == (metadata or {})


@needs_safetensors
def test_a_folder_that_is_not_writable_is_named_by_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def refuse(dir, prefix):
        raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/{prefix}x7")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)  # as for a user who is not root
    with pytest.raises(PermissionError) as caught:
        nn.save({"a": init.ones(1)}, tmp_path / "file")
    assert caught.value.filename == str(tmp_path / "file")


@needs_safetensors
def test_other_programs_read_the_file(tmp_path):
    from safetensors.numpy import load_file

    nn.save({"a": init.ones(2, 3)}, tmp_path / "file.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "file.safetensors")["a"], np.ones((2, 3), "float32"))


@needs_safetensors
def test_a_save_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    file = tmp_path / "file"
    nn.save({"a": init.ones(2)}, file)
    before = file.read_bytes()

    def fail(*args):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full") as caught:
        nn.save({"a": init.zeros(2)}, file)
    assert caught.value.filename == str(file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]


@needs_safetensors
@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_saved_file_has_the_permissions_of_a_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    nn.save({"a": init.ones(2)}, tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@needs_safetensors
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        b"\x80\x04K\x01.",
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 58) + b'{"a":{"dtype":"F32","shape":[99999],"data_offsets":[0,4]}}' + bytes(4),
        struct.pack("<Q", 58) + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,999999]}}'[:58] + bytes(4),
    ],
    ids=["empty", "short", "pickle", "huge header", "no object", "too large a shape", "broken header"],
)
def test_a_file_that_is_damaged_or_something_else_is_named(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    for function in (nn.load, nn.read_metadata):
        with pytest.raises(ValueError, match="file is no intact safetensors file"):
            function(tmp_path / "file")


@needs_safetensors
def test_a_truncated_file_is_named(tmp_path):
    nn.save({"a": init.ones(100)}, tmp_path / "file")
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-1])
    with pytest.raises(ValueError, match="no intact safetensors file"):
        nn.load(tmp_path / "file")


@needs_safetensors
def test_numbers_that_numpy_does_not_have_are_named(tmp_path):
    header = b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(ValueError, match=r"'a' in .*file cannot be read with NumPy"):
        nn.load(tmp_path / "file")


@needs_safetensors
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda folder: nn.load(folder / "none"), FileNotFoundError, "there is no file"),
        (lambda folder: nn.load(folder), FileNotFoundError, "there is no file"),
        (lambda folder: nn.save({"a": init.ones(1)}, folder / "none" / "file"), FileNotFoundError, "does not exist"),
        (lambda folder: nn.save({}, folder), IsADirectoryError, "^save: .* is a folder, the name of a file is needed"),
        (lambda folder: nn.save({"a": "text"}, folder / "file"), TypeError, "'a' is no tensor"),
        (lambda folder: nn.save({1: init.ones(1)}, folder / "file"), TypeError, "a name is a str, got int"),
        (lambda folder: nn.save({}, folder / "file", metadata={"a": 1}), TypeError, "metadata is a str, got int"),
        (
            lambda folder: nn.save({}, folder / "file", metadata=3),
            TypeError,
            "^save: metadata is a mapping of names, got",
        ),
        (
            lambda folder: nn.save(None, folder / "file"),
            TypeError,
            "^save: the state is a Module or a mapping of names",
        ),
        (lambda folder: nn.save({}, None), TypeError, "^save: the file is a path, a str or an os.PathLike, got None"),
        (lambda folder: nn.load(None), TypeError, "^load: the file is a path"),
        (lambda folder: nn.read_metadata(3), TypeError, "^read_metadata: the file is a path"),
        (lambda folder: nn.read_metadata(folder / "none"), FileNotFoundError, "^read_metadata: there is no file"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path)
    assert os.listdir(tmp_path) == []


def test_without_safetensors_the_error_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "safetensors":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for call in (lambda: nn.save({}, tmp_path / "file"), lambda: nn.load(tmp_path / "file")):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call()
