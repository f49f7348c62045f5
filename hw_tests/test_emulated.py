"""The emulated GPU itself: it refuses what cupy refuses, counts, and finds the faults that it is there to find."""

import ast
import pathlib

import numpy as np
import pytest
from shared import Planted

import needle as ndl
from needle import backend

emulated = pytest.importorskip(
    "emulated", reason="stands in for cupy, and asks it what it offers: pip install cupy-cuda13x"
)
xp = emulated.cupy


# -------------------------------------------------------------------------------------------------------- the stand-in


def test_a_numpy_array_is_refused_as_an_operand():
    a, b = xp.ones(3), np.ones(3)
    for operation in (lambda: a + b, lambda: b + a, lambda: xp.add(a, b), lambda: xp.where(a > 0, a, b), lambda: a @ b):
        with pytest.raises(TypeError, match="Unsupported type"):
            operation()


def test_numpys_functions_are_refused_on_an_array_of_the_gpu():
    a = xp.ones(3)
    for operation in (lambda: np.exp(a), lambda: np.sum(a), lambda: np.asarray(a), lambda: np.concatenate([a, a])):
        with pytest.raises(TypeError):
            operation()


def test_reductions_give_arrays_without_axes():
    total = xp.ones(3).sum()
    assert isinstance(total, xp.ndarray)
    assert total.shape == ()


def test_indices_out_of_bounds_wrap_as_cupys_do():
    a = xp.arange(5)
    assert a[xp.array([7, -6])].get().tolist() == [2, 4]
    assert xp.take(a, xp.array([7])).get().tolist() == [2]


def test_an_assignment_that_names_a_place_twice_keeps_either_value():
    kept = set()
    for _ in range(50):
        a = xp.zeros(1)
        a[xp.array([0, 0])] = xp.array([1.0, 2.0])
        kept.add(float(a.get()[0]))
    assert kept == {1.0, 2.0}


def test_what_cupy_does_not_have_the_stand_in_does_not_have():
    with pytest.raises(AttributeError, match="has no nanquantile_of"):
        xp.nanquantile_of  # noqa: B018
    with pytest.raises(TypeError, match="initial"):
        xp.ones(3).max(initial=0)
    with pytest.raises(TypeError, match="where"):
        xp.add(xp.ones(3), 1, where=True)
    with pytest.raises(AttributeError):
        xp.ones(3).tostring()


def names_of_the_array_module(tree):
    """Dotted names that a file takes from an array module: ``xp.linalg.norm``, ``array_module(a).exp``."""
    for node in ast.walk(tree):
        path = []
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        name = getattr(node, "id", getattr(getattr(node, "func", None), "id", None))
        if path and name in ("xp", "array_module"):
            yield ".".join(path)


def test_cupy_has_every_function_that_needle_takes_from_an_array_module():
    names = set()
    for path in pathlib.Path(ndl.__file__).parent.rglob("*.py"):
        names.update(names_of_the_array_module(ast.parse(path.read_text(encoding="utf-8"))))
    assert {"exp", "maximum", "linalg.norm"} <= names
    for name in names:
        if not name.startswith("cuda.cublas"):  # which `emulated.cublas` asks for
            emulated.signatures.find(name)


def test_launches_bytes_uploads_and_syncs_are_counted():
    with emulated.counting() as counts:
        a = xp.array(np.ones(4, "float32"))
        b = a + 1
        b.sum().item()
        bool(b[0] > 0)
        a[a > 0]
        a[a > 0] = 2
        xp.copyto(a, 3.0, where=a > 0)
    assert (counts.uploads, counts.downloads) == (1, 4)
    assert counts.names["launch add"] == counts.names["launch copyto"] == 1
    assert counts.syncs == 4  # item, bool, and how much a mask picks, to read it and to write there


def test_a_view_is_no_launch_and_shares_memory():
    a = xp.zeros((2, 3))
    with emulated.counting() as counts:
        view = a.T.reshape(3, 2)[1:]
    view[...] = 1
    assert counts.launches == 0
    assert a.sum().item() == 4


# -------------------------------------------------------------------------------------------- what makes a check fail


def planted_step(double):
    """A training step with an op in it, watched as the real one is."""
    w = ndl.Tensor(np.random.randn(3), device=emulated.device())
    with emulated.counting(forbid_syncs=True, forbid_uploads=True):
        Planted(double)(w).sum().backward(create_graph=False)


def test_a_step_without_a_fault_passes_the_watch():
    planted_step(lambda a: a * 2)


@pytest.mark.parametrize(
    "double",
    [
        lambda a: a * 2 if a[0] > -9 else a,
        lambda a: a * float(a.size * a[0] / a[0] / 1.5),
        lambda a: (a * 2)[a == a],
        lambda a: backend.array_module(a).array(a.get() * 2),
    ],
)
def test_a_hidden_sync_is_found(double):
    with pytest.raises(emulated.HiddenSync, match="the host waits"):
        planted_step(double)


def test_a_numpy_constant_in_an_op_is_found():
    with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy.ndarray'>"):
        planted_step(lambda a: a * np.full(3, 2.0))


def test_a_constant_that_is_copied_to_the_gpu_in_each_step_is_found():
    with pytest.raises(emulated.HiddenSync, match="copied from the host"):
        planted_step(lambda a: a * backend.array_module(a).asarray(np.full(3, 2.0)))
