"""`why_alive` names the holder, in every way that Python has of holding something."""

import collections
import functools
import gc
import importlib.util
import re
import sys
from typing import ClassVar

import numpy as np
import pytest

import needle as ndl
from needle.memory import live_tensors, why_alive

KEPT = []


@pytest.fixture(autouse=True)
def clean(collector_off):
    yield
    KEPT.clear()


class Box:
    """Any object with attributes."""


class Slotted:
    __slots__ = ("weight",)


class Registry:
    nodes: ClassVar[list] = []


def leaf():
    return ndl.Tensor([1.0, 2.0])


def text(chain):
    """The chain in words, without line numbers."""
    assert chain.kind == "named"
    return re.sub(r" \([^()]*test_memory_holders.py:\d+\)", "", str(chain))


def test_a_local_variable_of_another_function():
    def inner(get):
        return text(why_alive(get()))

    x = leaf()
    assert inner(lambda: x).startswith("x in test_a_local_variable_of_another_function() → Tensor")


def test_the_line_of_a_local_variable_is_where_its_function_is_now():
    kept = [leaf()]
    chain = why_alive(kept[0])
    assert re.search(r"kept\[0\] in test_the_line_.*\(.*test_memory_holders.py:\d+\) → Tensor", str(chain))


def test_the_askers_own_variable_if_there_is_nothing_else():
    x = leaf()
    assert text(why_alive(x)) == "x in test_the_askers_own_variable_if_there_is_nothing_else() → Tensor"


def test_the_askers_own_variable_is_not_named_if_there_is_something_else():
    x = leaf()
    KEPT.append(x)
    assert text(why_alive(x)) == "test_memory_holders.KEPT[0] → Tensor"


def test_a_global_variable_and_a_list():
    KEPT.extend([leaf(), leaf()])
    assert text(why_alive(KEPT[1])) == "test_memory_holders.KEPT[1] → Tensor"


def test_a_dictionary_by_its_key_and_a_tuple_in_it():
    KEPT.append({"batch": (1, leaf())})
    assert text(why_alive(KEPT[0]["batch"][1])) == "test_memory_holders.KEPT[0]['batch'][1] → Tensor"


def test_a_dictionary_whose_keys_are_tensors():
    KEPT.append({leaf(): leaf()})
    (key,) = KEPT[0]
    value = KEPT[0][key]
    assert text(why_alive(value)) == "test_memory_holders.KEPT[0][Tensor of shape (2,)] → Tensor"
    assert text(why_alive(key)) == "test_memory_holders.KEPT[0] (a key) → Tensor"


def test_a_set_and_a_deque():
    KEPT.append(collections.deque([{leaf()}]))
    assert text(why_alive(next(iter(KEPT[0][0])))) == "test_memory_holders.KEPT[0][0]{…} → Tensor"


def test_an_attribute_of_an_object():
    class Adam(Box):
        pass

    KEPT.append(Adam())
    KEPT[0].m = {3: leaf() * 2}
    assert text(why_alive(KEPT[0].m[3])) == "test_memory_holders.KEPT[0] → Adam.m[3] → Tensor(MulScalar)"


def test_a_slot_of_an_object():
    KEPT.append(Slotted())
    KEPT[0].weight = leaf()
    assert text(why_alive(KEPT[0].weight)) == "test_memory_holders.KEPT[0] → Slotted.weight → Tensor"


def test_an_attribute_of_a_class():
    Registry.nodes.append(leaf())
    try:
        found = text(why_alive(Registry.nodes[0]))
    finally:
        Registry.nodes.clear()
    assert found == "test_memory_holders.Registry → class Registry.nodes[0] → Tensor"


def test_a_closure():
    def make(x):
        def penalty():
            return x

        return penalty

    KEPT.append(make(leaf()))
    found = text(why_alive(KEPT[0]()))
    assert (
        found == "test_memory_holders.KEPT[0] → test_a_closure.<locals>.make.<locals>.penalty() closing over x → Tensor"
    )


def test_a_default_argument():
    def scale(x):
        return x

    scale.__defaults__ = (leaf(),)
    KEPT.append(scale)
    del scale
    found = text(why_alive(KEPT[0]()))
    assert found.startswith("test_memory_holders.KEPT[0] → test_a_default_argument.<locals>.scale() with a default")


def test_a_bound_method_and_a_partial_function():
    box = Box()
    box.weight = leaf()
    KEPT.append(functools.partial(box.__format__, leaf()))
    del box
    assert text(why_alive(KEPT[0].args[0])) == "test_memory_holders.KEPT[0] → partial.args[0] → Tensor"
    method = KEPT[0].func
    KEPT.clear()
    KEPT.append(method)
    weight = method.__self__.weight
    del method
    assert text(why_alive(weight)).endswith("Box.weight → Tensor")


def test_a_generator_that_waits():
    def batches():
        x = leaf()
        yield x
        yield x

    KEPT.append(batches())
    found = text(why_alive(next(KEPT[0])))
    assert found == "test_memory_holders.KEPT[0] → test_a_generator_that_waits.<locals>.batches() variable x → Tensor"


def test_a_traceback_that_is_kept():
    def fail():
        x = leaf()
        tensors.append(x)
        raise ValueError("kept")

    tensors = []
    try:
        fail()
    except ValueError as error:
        KEPT.append(error)
    found = text(why_alive(tensors.pop()))
    assert found.startswith("test_memory_holders.KEPT[0] → ValueError")
    assert "fail() kept by a traceback variable x → Tensor" in found


def test_a_graph_is_summed_up():
    def build():
        x = leaf()
        y = x * x
        z = y * y
        for _ in range(39):
            z = z * 1.0
        KEPT.append(z.sum())
        return y

    assert text(why_alive(build())) == (
        "test_memory_holders.KEPT[0] → Tensor(Summation) → … graph of 42 nodes → Tensor(EWiseMul)"
    )


def test_a_tensor_that_was_used_directly_is_named_without_a_summary():
    def build():
        y = leaf() * 2
        KEPT.append(y * y)
        return y

    assert text(why_alive(build())) == "test_memory_holders.KEPT[0] → Tensor(EWiseMul) → Tensor(MulScalar)"


def test_a_graph_of_ten_thousand_nodes_is_one_link():
    def build():
        y = leaf() * 2
        z = y
        for _ in range(10_000):
            z = z * 1.0
        KEPT.append(z)
        return y

    found = text(why_alive(build()))
    assert found == "test_memory_holders.KEPT[0] → Tensor(MulScalar) → … graph of 10001 nodes → Tensor(MulScalar)"


def test_a_gradient_and_the_graph_behind_it():
    def build():
        w = leaf()
        (w * w).exp().sum().backward()
        KEPT.append(w)
        return next(node for node in ndl.autograd.find_topo_sort([w.grad]) if type(node.op) is ndl.ops.Exp)

    found = text(why_alive(build()))
    assert found.startswith("test_memory_holders.KEPT[0] → Tensor.grad → Tensor(")
    assert found.endswith("→ Tensor(Exp)")


def test_an_array_in_a_dictionary_of_arrays():
    box = Box()
    box.masks = {0: np.ones(3)}
    found = text(why_alive(box.masks[0]))
    assert found == "box in test_an_array_in_a_dictionary_of_arrays() → Box.masks[0] → array of float64 (3,)"


# --------------------------------------------------------------------------------------------------------------- cycles


def test_a_cycle_between_a_tensor_and_its_gradient():
    def build():
        x = leaf()
        y = (x * x).retain_grad()
        (y * y).sum().backward()
        return y

    chain = why_alive(build())
    assert chain.kind == "cycle"
    assert re.match(
        r"only a reference cycle: Tensor\(EWiseMul\)\.grad → Tensor\(.*\) → .*Tensor\(EWiseMul\)", str(chain)
    )


def test_a_cycle_of_lists_that_holds_a_tensor():
    def build():
        kept = [leaf()]
        kept.append(kept)
        return kept[0]

    assert str(why_alive(build())) == "only a reference cycle: list[1], which holds Tensor"


def test_a_cycle_is_told_even_if_the_asker_has_a_variable_too():
    def build():
        box = Box()
        box.self, box.weight = box, leaf()
        return box.weight

    x = build()
    assert str(why_alive(x)) == "only a reference cycle: Box.self → Box, which holds Tensor (beside x, which asks)"


def test_a_variable_beside_a_cycle_is_what_is_named():
    box = Box()
    box.self, box.weight = box, leaf()
    found = text(why_alive(box.weight))
    assert found == "box in test_a_variable_beside_a_cycle_is_what_is_named() → Box.weight → Tensor"


def test_what_running_code_works_with_has_no_name():
    (chain,) = map(why_alive, [leaf()])
    assert chain.kind == "temporary"
    assert str(chain).startswith("nothing that has a name: ")


# ------------------------------------------------------------------------------------------------- what it leaves alone


def test_asking_keeps_nothing_alive():
    x = leaf()
    before = live_tensors().count
    chain = why_alive(x)
    del x
    assert live_tensors().count == before - 1
    assert gc.collect() == 0
    assert "Tensor" in str(chain)


def test_asking_does_not_keep_later_values_of_variables_alive():
    x = leaf()
    why_alive(x)
    before = live_tensors().count
    x = None
    assert live_tensors().count == before - 1
    assert x is None


def test_tensors_of_a_census_are_not_held_by_its_list():
    KEPT.append(leaf())
    for tensor in live_tensors().tensors:
        if tensor is KEPT[0]:
            assert text(why_alive(tensor)) == "test_memory_holders.KEPT[0] → Tensor"


def test_asking_imports_no_module_that_waits_for_its_first_use(tmp_path, monkeypatch):
    file = tmp_path / "waiting.py"
    file.write_text("raise RuntimeError('it was imported')")
    spec = importlib.util.spec_from_file_location("waiting", file)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "waiting", module)
    spec.loader.exec_module(module)
    KEPT.append(leaf())
    assert text(why_alive(KEPT[0])) == "test_memory_holders.KEPT[0] → Tensor"
    with pytest.raises(RuntimeError, match="it was imported"):
        module.anything  # noqa: B018
