"""Counting what is alive: tensors, arrays, who holds which array."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle.memory import held_by, live_tensors, no_growth
from needle.memory.census import all_arrays, bytes_of, live_nodes
from needle.memory.cost import depths


def test_every_live_tensor_is_counted_by_what_it_is():
    before = live_tensors()
    x = ndl.Tensor(np.ones((3, 4), dtype="float32"))
    y = (x * x).sum()
    after = live_tensors()
    assert after.count - before.count == 3
    assert after.with_graph - before.with_graph == 2
    assert after.by_op - before.by_op == {"Tensor": 1, "EWiseMul": 1, "Summation": 1}
    assert after.by_shape[(3, 4)] - before.by_shape[(3, 4)] == 2
    assert after.by_dtype["float32"] - before.by_dtype["float32"] == 3
    assert after.by_device[str(x.device)] - before.by_device[str(x.device)] == 3
    assert after.bytes - before.bytes == 2 * 48 + 4
    assert y.shape == ()


def test_a_tensor_that_is_gone_is_not_counted():
    x = ndl.Tensor([1.0])
    before = live_tensors().count
    del x
    assert live_tensors().count == before - 1


def test_memory_that_several_share_is_counted_once():
    before = live_tensors().bytes
    x = ndl.Tensor(np.ones((4, 5)))
    y = ndl.broadcast_to(x, (7, 4, 5))
    z, d = x.reshape((20,)), x.detach()
    assert live_tensors().bytes - before == 160
    assert y.shape == (7, 4, 5) and z.shape == (20,) and d.shape == (4, 5)


def test_a_leafs_array_that_only_a_graph_holds_is_counted():
    before = live_tensors().bytes
    w = ndl.Tensor(np.ones(1000))
    loss = (w * 2 * w).sum()
    w.data = ndl.Tensor(np.zeros(1000))
    # w's old array and its new one, w * 2 (which a gradient reads) and the sum; not the product, which none reads
    assert live_tensors().bytes - before == 3 * 8000 + 8
    assert loss.item() == 2000


def test_nodes_that_a_graph_holds_without_their_tensors_are_counted():
    before = live_tensors()
    x = ndl.Tensor(np.ones(10_000))
    y = (x + 1 + 1).sum()
    after = live_tensors()
    assert after.count - before.count == 2
    assert after.stubs - before.stubs == 2
    assert y.item() == 30_000


def test_a_census_holds_its_tensors_weakly():
    x = ndl.Tensor([1.0])
    census = live_tensors()
    known = len(census.tensors)
    del x
    assert len(census.tensors) == known - 1


def test_garbage_in_cycles_is_counted_until_it_is_collected(collector_off):
    before = live_tensors().count
    kept = [ndl.Tensor([1.0])]
    kept.append(kept)
    del kept
    assert live_tensors().count == before + 1
    gc.collect()
    assert live_tensors().count == before


def test_the_text_names_the_kinds():
    x = ndl.Tensor(np.ones((17, 3)))
    text = str(live_tensors())
    assert "live tensor" in text and "by op:" in text and "(17, 3)" in text
    assert x.shape == (17, 3)


def test_counting_calls_no_property_of_foreign_objects():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("asked")

    proxy = Proxy()
    live_tensors()
    assert type(proxy) is Proxy


def test_arrays_are_found_wherever_they_are():
    class Holder:
        pass

    before = bytes_of(all_arrays())
    holder = Holder()
    holder.plain, holder.listed = np.ones(10), [np.ones(20)]
    holder.by_name = {"only arrays": np.ones(30), "in a tuple": (np.ones(40),)}
    function = (lambda x: lambda: x)(np.ones(50))
    assert bytes_of(all_arrays()) - before == 8 * (10 + 20 + 30 + 40 + 50)
    assert function().size == 50


@pytest.mark.cpu_only("on a GPU an optimizer holds a table of addresses too")
def test_what_an_object_holds_is_named():
    w = ndl.nn.Parameter(np.ones((2, 3), dtype="float32"))
    optimizer = ndl.optim.Adam([w])
    w.grad = ndl.Tensor(np.ones((2, 3), dtype="float32"))
    optimizer.step()
    names = {holding.name: holding for holding in held_by(optimizer)}
    assert names["Adam.params[0]"].shape == (2, 3)
    assert names["Adam.params[0].grad"].bytes == 24
    assert {holding.dtype for holding in names.values()} == {"float32"}
    assert str(names["Adam.params[0]"]) == "Adam.params[0]: float32 (2, 3), 24 bytes"


@pytest.mark.cpu_only("on a GPU .numpy() is a copy")
def test_memory_that_an_object_holds_twice_is_listed_once():
    class Holder:
        pass

    holder = Holder()
    holder.a = ndl.Tensor(np.ones(4))
    holder.b, holder.c = holder.a.detach(), holder.a.numpy()
    holder.self = holder
    assert [h.name for h in held_by(holder)] == ["Holder.a"]


@pytest.mark.parametrize("made", [ndl.Tensor, ndl.TensorTuple, ndl.autograd.Stub])
def test_what_another_thread_is_just_making_is_looked_over(made):
    half = object.__new__(made)
    assert all(node is not half for node in [*live_nodes(), *depths(live_nodes())])
    live_tensors()
    no_growth(steps=1)(lambda: ndl.Tensor([1.0]))()
