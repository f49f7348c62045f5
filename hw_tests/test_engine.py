"""The engine: graph, backward, modes, and what is kept alive."""

import copy
import gc
import inspect
import pickle
import threading
import weakref

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.autograd import find_topo_sort


def tensors_alive():
    return autograd.TENSOR_COUNTER


# ---------------------------------------------------------------------------------------------------------- the order


def test_topological_sort_is_post_order_with_inputs_left_to_right():
    a, b = ndl.Tensor([[2.0]]), ndl.Tensor([[5.0]])
    c = 3 * a * a + 4 * b * a - a
    values = [float(node) for node in find_topo_sort([c])]
    # a, 3a, 3a·a, b, 4b, 4b·a, their sum, −a, the result
    assert values == [2.0, 6.0, 12.0, 5.0, 20.0, 40.0, 52.0, -2.0, 50.0]


def test_subtraction_is_an_addition_of_a_negation():
    a, b = ndl.Tensor([1.0]), ndl.Tensor([2.0])
    assert [type(node.op).__name__ for node in find_topo_sort([a - b])] == [
        "NoneType",
        "NoneType",
        "Negate",
        "EWiseAdd",
    ]


def test_a_shared_subexpression_stands_once_in_the_order():
    x = ndl.Tensor([1.0])
    y = x * x
    order = find_topo_sort([y + y, y])
    assert len(order) == 3 and order[0] is x and order[1] is y


def test_inputs_of_a_node_are_the_very_tensors_it_was_made_from():
    x, y = ndl.Tensor([1.0]), ndl.Tensor([2.0])
    z = x * y
    w = z + x
    assert z.inputs[0] is x and z.inputs[1] is y and w.inputs[0] is z and x.inputs == ()


# ------------------------------------------------------------------------------------------------------ long chains


@pytest.mark.parametrize("create_graph", [True, False])
def test_a_chain_of_100_000_ops_is_differentiated_and_freed_on_a_small_stack(create_graph):
    result = []

    def run():
        x = ndl.Tensor(np.ones(1))
        y = x
        for _ in range(100_000):
            y = y * 1.0
        y.backward(create_graph=create_graph)
        result.append(x.grad.numpy())
        del x, y

    # CPython frees nested objects with a bounded depth (50 levels, from 3.13 on 10,000 C frames): freeing a chain level
    # by level would need some 20 MB.
    old = threading.stack_size(2 * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert result == [np.ones(1)]


def test_a_lazy_chain_of_100_000_ops_is_realized():
    with ndl.lazy():
        y = ndl.Tensor(np.zeros(1))
        for _ in range(100_000):
            y = y + 1.0
    assert y.numpy() == [100_000.0]


# --------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("create_graph", [True, False])
def test_contributions_along_several_paths_are_summed(create_graph):
    x = ndl.Tensor(3.0)
    y = x * x  # 2x from here
    (y * x + y).backward(create_graph=create_graph)
    assert x.grad.item() == 3 * 9 + 2 * 3  # d(x³ + x²)


def test_a_second_backward_replaces_the_gradient():
    x = ndl.Tensor(3.0)
    y = x * x
    y.backward()
    y.backward()
    assert x.grad.item() == 6


def test_backward_of_a_leaf_gives_it_the_seed():
    x = ndl.Tensor([1.0, 2.0])
    x.backward(ndl.Tensor([3.0, 4.0]))
    assert x.grad.numpy().tolist() == [3.0, 4.0]


def test_gradients_of_gradients_exist_to_any_order():
    x = ndl.Tensor(2.0)
    y = x**5
    for expected in (5 * 16, 20 * 8, 60 * 4, 120 * 2, 120):
        y = ndl.grad(y, x)
        assert y.item() == expected


def test_with_create_graph_the_gradient_is_a_value_of_the_graph():
    x = ndl.Tensor(3.0)
    (x * x * x).backward()
    x.grad.backward()
    assert x.grad.item() == 18


def test_without_create_graph_the_gradient_is_a_constant():
    x = ndl.Tensor(3.0)
    (x * x).backward(create_graph=False)
    assert not x.grad.requires_grad and x.grad.is_leaf()


def test_without_create_graph_the_graph_is_taken_apart_and_says_so():
    x = ndl.Tensor(3.0)
    y = x * x
    y.backward(create_graph=False)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    with pytest.raises(RuntimeError, match="EWiseMul"):
        _ = y.inputs


def test_retain_graph_lets_a_graph_be_used_again():
    x = ndl.Tensor(3.0)
    y = x * x
    y.backward(create_graph=False, retain_graph=True)
    y.backward()
    assert x.grad.item() == 6


def test_both_ways_of_running_the_rules_give_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = (ndl.Tensor(rng.standard_normal((5, 5)).astype("float32")) for _ in range(2))

    def loss():
        h = ndl.tanh(a @ b + a) * ndl.exp(b) / (1 + b * b)
        return (ndl.logsumexp(h, axes=1) - h.sum(axes=1) * 0.1).sum() + (h[1:, [0, 0, 2]] ** 2).sum()

    loss().backward()
    graph = a.grad.numpy(), b.grad.numpy()
    loss().backward(create_graph=False)
    assert np.array_equal(graph[0], a.grad.numpy()) and np.array_equal(graph[1], b.grad.numpy())


def test_only_leaves_get_a_gradient_unless_asked():
    x = ndl.Tensor(3.0)
    h, k = x * x, x + 1
    k.retain_grad()
    (h * k).backward(create_graph=False)
    assert h.grad is None and k.grad.item() == 9


def test_a_gradient_has_the_dtype_of_its_tensor():
    x = ndl.Tensor(np.ones(3, "float32"))
    y = ndl.Tensor(np.ones(3, "float64"))
    for create_graph in (True, False):
        (x * y).sum().backward(create_graph=create_graph)
        assert x.grad.dtype == "float32" and y.grad.dtype == "float64"


@pytest.mark.cpu_only("writes through .numpy()")
def test_the_gradient_of_a_sum_can_be_written_to():
    x = ndl.Tensor(np.ones(3))
    x.sum().backward(create_graph=False)
    x.grad.numpy()[0] = 5
    assert x.grad.numpy().tolist() == [5, 1, 1]


@pytest.mark.parametrize("create_graph", [True, False])
def test_unused_items_of_a_tuple_get_zeros(create_graph):
    x = ndl.Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    first, _, third = ndl.split(x, axis=0)
    (first * 2 + third * first).sum().backward(create_graph=create_graph)
    assert x.grad.numpy().tolist() == [[7, 8], [0, 0], [1, 2]]


def test_a_constant_tuple_is_taken_apart():
    first, _ = ndl.split(ndl.Tensor([[1.0], [2.0]], requires_grad=False), axis=0)
    assert first.is_leaf() and first.item() == 1


@pytest.mark.cpu_only("NumPy gives scalars for 0-d results")
def test_ops_and_gradients_of_0_d_tensors_are_arrays():
    x = ndl.Tensor(np.float32(2.0))
    y = x * x + 1
    assert type(y.cached_data) is np.ndarray and y.dtype == "float32"
    y.backward(create_graph=False)
    assert type(x.grad.cached_data) is np.ndarray and x.grad.dtype == "float32"


def test_scalars_without_a_tensor_size_are_refused_as_out_grad():
    x = ndl.Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(3,\).*shape \(2,\)"):
        (x * 2).backward(ndl.Tensor([1.0, 2.0, 3.0]))


def test_backward_of_a_constant_says_why_not():
    with pytest.raises(ValueError, match="does not require grad"):
        ndl.Tensor([1.0], requires_grad=False).backward()


# ---------------------------------------------------------------------------------------------------------------- grad


def test_grad_with_respect_to_an_intermediate_tensor():
    x = ndl.Tensor(3.0)
    h = x * x
    assert ndl.grad(h * h, h).item() == 18 and x.grad is None


def test_grad_sums_over_outputs_and_takes_their_cotangents():
    x = ndl.Tensor([1.0, 2.0])
    g = ndl.grad([x * 2, x * x], x, [ndl.Tensor([1.0, 1.0]), ndl.Tensor([0.0, 10.0])])
    assert g.numpy().tolist() == [2, 2 + 40]


def test_a_constant_has_no_gradient_unless_an_unused_input_is_allowed():
    x = ndl.Tensor([1.0, 2.0])
    slope = ndl.grad((x * 3).sum(), x)  # 3, whatever x is
    with pytest.raises(ValueError, match=r"does not require grad.*allow_unused=True\) gives zeros"):
        ndl.grad(slope.sum(), x)
    assert ndl.grad(slope.sum(), x, allow_unused=True).numpy().tolist() == [0, 0]
    both = ndl.grad([slope.sum(), (x * x).sum()], x, allow_unused=True)
    assert both.numpy().tolist() == [2, 4]


def test_grad_of_an_unused_input_is_an_error_unless_allowed():
    x, y = ndl.Tensor(1.0), ndl.Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="input 1"):
        ndl.grad(x * 2, [x, y])
    gx, gy = ndl.grad(x * 2, [x, y], allow_unused=True)
    assert gx.item() == 2 and gy.numpy().tolist() == [0, 0]


# -------------------------------------------------------------------------------------------------- ops of one's own


class Cube(ndl.TensorOp):
    def compute(self, a):
        return a**3

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        assert isinstance(out_grad, ndl.Tensor) and isinstance(a, ndl.Tensor)
        return out_grad * 3 * ndl.power_scalar(a, 2)


class CubeOnArrays(Cube):
    reads = ("inputs",)

    def gradient(self, out_grad, node):
        (a,) = node.inputs
        return out_grad * 3 * ndl.power_scalar(a, 2)


@pytest.mark.parametrize("op", [Cube, CubeOnArrays])
@pytest.mark.parametrize("create_graph", [True, False])
def test_a_user_defined_op_is_differentiated(op, create_graph):
    x = ndl.Tensor([1.0, 2.0])
    op()(x).sum().backward(create_graph=create_graph)
    assert x.grad.numpy().tolist() == [3.0, 12.0]


def test_a_gradient_of_the_wrong_shape_names_its_op():
    class Wrong(ndl.TensorOp):
        reads = ()

        def compute(self, a):
            return a

        def gradient(self, out_grad, node):
            return ndl.summation(out_grad)

    for create_graph in (True, False):
        with pytest.raises(ValueError, match=r"Wrong.gradient gave shape \(\) for an input of shape \(2,\)"):
            Wrong()(ndl.Tensor([1.0, 2.0])).backward(create_graph=create_graph)


def test_too_few_gradients_name_their_op():
    class OneOfTwo(ndl.TensorOp):
        def compute(self, a, b):
            return a + b

        def gradient(self, out_grad, node):
            return out_grad

    x = ndl.Tensor([1.0])
    with pytest.raises(ValueError, match=r"OneOfTwo\.gradient gave 1 gradients for 2 inputs"):
        OneOfTwo()(x, x).backward()


@pytest.mark.cpu_only("NumPy's arrays beside tensors")
def test_what_a_rule_of_ones_own_forgets_is_said():
    class Forgetful(ndl.TensorOp):
        def compute(self, a):
            return a * 2

        def gradient(self, out_grad, node):
            out_grad * 2

    class Numeric(Forgetful):
        def gradient(self, out_grad, node):
            return 2.0

    class Nothing(Forgetful):
        def compute(self, a):
            return None

    x = ndl.Tensor([1.0])
    for create_graph in (True, False):
        with pytest.raises(ValueError, match=r"Forgetful\.gradient gave None"):
            Forgetful()(x).backward(create_graph=create_graph)
        with pytest.raises(TypeError, match=r"Numeric\.gradient gave float"):
            Numeric()(x).backward(create_graph=create_graph)
    with pytest.raises(TypeError, match="compute must return an array"):
        Nothing()(x)


@pytest.mark.parametrize("wrong", [None, [], [None], np.ones(2)])
def test_grad_takes_tensors(wrong):
    y = ndl.Tensor([1.0]) * 2
    with pytest.raises(TypeError, match="grad: inputs are"):
        ndl.grad(y, wrong)
    with pytest.raises(TypeError, match="grad: outputs are"):
        ndl.grad(wrong, y)


@pytest.mark.cpu_only("arrays of the host are no operands of functions on a GPU")
def test_functions_of_arrays_only_compute():
    assert type(ndl.exp(np.zeros(2))) is np.ndarray
    assert isinstance(ndl.matmul(np.ones((2, 2)), ndl.Tensor(np.ones((2, 2)))), ndl.Tensor)


# ------------------------------------------------------------------------------------------------- what stays alive


def test_a_leaf_is_not_kept_by_the_graph_and_its_gradient_is_no_cycle(collector_off):
    x = ndl.Tensor(np.ones(3))
    y = (x * x).sum()
    y.backward()
    leaf = weakref.ref(x)
    del x
    assert leaf() is None
    assert y.inputs[0].inputs[0].numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("create_graph", [True, False])
def test_nothing_grows_and_nothing_is_garbage_with_the_collector_off(collector_off, create_graph):
    rng = np.random.default_rng(0)
    w = ndl.Tensor(rng.standard_normal((4, 3)))

    def step():
        x = ndl.Tensor(rng.standard_normal((5, 4)))
        loss = (ndl.relu(x @ w) ** 2).sum()
        w.grad = None
        loss.backward(create_graph=create_graph)

    step()
    before = tensors_alive()
    for _ in range(50):
        step()
    assert tensors_alive() == before
    assert gc.collect() == 0


def test_backward_frees_what_nobody_holds_as_it_goes(collector_off):
    x = ndl.Tensor(np.ones(3))
    h = x * 2
    hidden = weakref.ref(h)
    y = (h * h).sum()
    del h
    assert hidden() is not None
    y.backward(create_graph=False)
    assert hidden() is None and y.item() == 12


def test_rebinding_data_does_not_spoil_a_later_backward():
    x = ndl.Tensor(3.0)
    y = x * x
    x.data = ndl.Tensor(100.0)
    y.backward()
    assert x.grad.item() == 6 and y.inputs[0].item() == 3


def test_uses_of_a_leaf_before_and_after_rebinding_both_count():
    x = ndl.Tensor(3.0)
    y = x * x
    x.data = ndl.Tensor(5.0)
    for create_graph in (True, False):
        (y + x * x).backward(create_graph=create_graph, retain_graph=True)
        assert x.grad.item() == 6 + 10
    assert ndl.grad(y + x * x, x).item() == 16


def test_second_derivatives_survive_a_rebinding():
    x = ndl.Tensor(2.0)
    y = x * x * x
    x.data = ndl.Tensor(7.0)
    assert ndl.grad(ndl.grad(y, x), x).item() == 12


def test_data_must_keep_shape_and_dtype():
    x = ndl.Tensor([1.0, 2.0])
    for wrong in (ndl.Tensor([1.0]), ndl.Tensor([1, 2])):
        with pytest.raises(ValueError, match="data: a float64 tensor of shape"):
            x.data = wrong
    with pytest.raises(TypeError, match="ndarray"):
        x.data = np.ones(2)
    assert x.numpy().tolist() == [1, 2]


def test_detach_and_data_share_storage():
    x = ndl.Tensor([1.0, 2.0])
    assert x.detach().cached_data is x.cached_data and x.data.cached_data is x.cached_data
    x.realize_cached_data()[0] = 9
    assert x.numpy()[0] == 9


def test_the_counter_counts_live_tensors():
    before = tensors_alive()
    kept = [ndl.Tensor(1.0) for _ in range(5)]
    assert tensors_alive() == before + len(kept)


# ------------------------------------------------------------------------------------------------------------- modes


def test_without_a_tensor_that_requires_grad_no_graph_is_kept():
    x = ndl.Tensor([1.0], requires_grad=False)
    y = x * 2
    assert y.is_leaf() and not y.requires_grad and y.inputs == ()


def test_no_grad_records_nothing_and_restores():
    x = ndl.Tensor([1.0])
    with ndl.no_grad():
        assert (x * 2).is_leaf()
        with ndl.enable_grad():
            assert not (x * 2).is_leaf()
        assert (x * 2).is_leaf()
    assert not (x * 2).is_leaf()


def test_no_grad_restores_after_an_error_and_decorates():
    @ndl.no_grad()
    def fail(x):
        assert (x * 2).is_leaf()
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail(ndl.Tensor([1.0]))
    assert autograd.is_grad_enabled()


@pytest.mark.parametrize("switch", [ndl.no_grad, ndl.enable_grad, ndl.lazy])
def test_a_switch_decorates_no_function_that_runs_after_it_has_ended(switch):
    def steps(x):
        yield x * 2

    async def step(x):
        return x * 2

    for function in (steps, step):
        with pytest.raises(
            TypeError, match=rf"^{switch.__name__}: {function.__name__} .* put 'with {switch.__name__}\(\):'"
        ):
            switch()(function)


def test_no_grad_is_for_the_thread_that_asked():
    seen = []
    with ndl.no_grad():
        thread = threading.Thread(target=lambda: seen.append((ndl.Tensor([1.0]) * 2).is_leaf()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_lazy_mode_builds_and_computes_when_looked_at():
    with ndl.lazy():
        x = ndl.Tensor([1.0, 2.0])
        y = (x * x).sum()
        assert y.cached_data is None
    assert y.item() == 5
    y.backward()
    assert x.grad.numpy().tolist() == [2, 4]


@pytest.mark.parametrize("create_graph", [True, False])
def test_backward_works_inside_lazy_mode(create_graph):
    with ndl.lazy():
        x = ndl.Tensor([1.0, 2.0])
        first, second = ndl.split(ndl.stack([x * x, x], 0), 0)
        (first * second).sum().backward(create_graph=create_graph)
        assert x.grad.numpy().tolist() == [3, 12]


def test_the_lazy_flag_of_the_module_works_as_in_the_course():
    autograd.LAZY_MODE = True
    try:
        y = ndl.Tensor([1.0]) + 1
        assert y.cached_data is None
    finally:
        autograd.LAZY_MODE = False
    assert y.realize_cached_data().tolist() == [2.0]


# ------------------------------------------------------------------------------------------------------ the Tensor


def test_a_tensor_takes_the_dtype_that_numpy_gives():
    assert ndl.Tensor([1.0]).dtype == "float64" and ndl.Tensor([1]).dtype == "int64"
    assert ndl.Tensor(np.ones(2, "float32")).dtype == "float32" and ndl.Tensor([1], dtype="float32").dtype == "float32"


def test_a_tensor_copies_the_array_that_it_is_given():
    array = np.ones(2)
    x = ndl.Tensor(array)
    array[0] = 5
    assert x.numpy()[0] == 1


def test_a_comparison_is_true_or_false_and_refuses_to_guess():
    assert ndl.Tensor(3.0) > 2 and not ndl.Tensor(1.0) > 2
    assert max([ndl.Tensor(2.0), ndl.Tensor(5.0), ndl.Tensor(1.0)]).item() == 5
    with pytest.raises(ValueError, match="ambiguous"):
        bool(ndl.Tensor([1.0, 2.0]) > 1)


def test_a_number_is_formatted_and_counted_as_one():
    assert f"{ndl.Tensor(3.14159):.2f}" == "3.14" and float(ndl.Tensor([2.0])) == 2


@pytest.mark.parametrize("left", ["uint8", "int64", "float32"])
@pytest.mark.parametrize("right", ["uint8", "uint64", "int8", "float64", "bool"])
def test_a_difference_with_unsigned_or_boolean_operands_does_not_wrap(left, right):
    a, b = np.array([0, 1], left), np.array([1, 1], right)
    expected = [float(x) - float(y) for x, y in zip(a, b)]
    assert (ndl.Tensor(a) - ndl.Tensor(b)).numpy().tolist() == expected
    assert (ndl.Tensor(a) - b).numpy().tolist() == expected and (a - ndl.Tensor(b)).numpy().tolist() == expected
    assert (ndl.Tensor(a) - 1).numpy().tolist() == [-1, 0] and (1 - ndl.Tensor(b)).numpy().tolist() == [0, 0]


def test_leaves_do_not_share_the_array_of_their_gradients():
    a, b, seed = ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0, 4.0]), ndl.Tensor([1.0, 1.0])
    (a + b).backward(seed, create_graph=False)
    a.grad.numpy()[:] = 0
    assert b.grad.numpy().tolist() == [1, 1] and seed.numpy().tolist() == [1, 1]


def test_tensors_are_dict_keys_and_true():
    x, y = ndl.Tensor([0.0]), ndl.Tensor([0.0])
    assert {x: 1, y: 2}[x] == 1 and bool(x)


@pytest.mark.parametrize("data", ["text", ["a"], [None], {}, [1j], [[1.0], [1.0, 2.0]], object()])
def test_what_is_no_array_of_numbers_is_refused(data):
    with pytest.raises((TypeError, ValueError), match="Tensor: "):
        ndl.Tensor(data)


@pytest.mark.parametrize("data", [[1j], [None], ["1"], np.array([None])], ids=repr)
def test_a_dtype_makes_no_numbers_of_what_is_none(data):
    with pytest.raises(TypeError, match=r"^Tensor: real numbers are needed, got"):
        ndl.Tensor(data, dtype="float32")


@pytest.mark.parametrize("dtype", ["complex64", "object", "no such", 5], ids=repr)
def test_a_dtype_is_one_of_numbers(dtype):
    for data in ([1.0], ndl.Tensor([1.0])):
        with pytest.raises(TypeError, match=r"^Tensor: a dtype of real numbers, such as 'float32', is needed, got"):
            ndl.Tensor(data, dtype=dtype)


@pytest.mark.parametrize(
    "keyword, hint",
    [("require_grad", ": did you mean requires_grad?"), ("Device", ": did you mean device?"), ("name", "")],
)
def test_an_unknown_keyword_is_an_error_that_names_the_known_ones(keyword, hint):
    for kind in (ndl.Tensor, ndl.nn.Parameter):
        with pytest.raises(TypeError) as error:
            kind([1.0], **{keyword: True})
        text = f"{kind.__name__}: the keywords are device, dtype, requires_grad, got {keyword!r}{hint}"
        assert str(error.value) == text


@pytest.mark.parametrize("nodes", [None, 3, "a", ndl.Tensor([1.0, 2.0]), [None]], ids=repr)
def test_a_topological_sort_is_of_a_list_of_tensors(nodes):
    with pytest.raises(TypeError, match=r"^find_topo_sort: a list of tensors is needed"):
        find_topo_sort(nodes)


def test_boolean_tensors_do_not_require_grad():
    assert not ndl.Tensor([True]).requires_grad


def test_item_needs_one_element():
    with pytest.raises(ValueError, match=r"\(2,\)"):
        ndl.Tensor([1.0, 2.0]).item()


def test_iteration_goes_over_the_first_axis_and_not_over_a_number():
    assert [row.numpy().tolist() for row in ndl.Tensor([[1.0], [2.0]])] == [[1.0], [2.0]]
    with pytest.raises(TypeError, match="0-d"):
        iter(ndl.Tensor(1.0))


def test_leaves_are_copied_and_pickled_but_results_are_not():
    x = ndl.Tensor([1.0, 2.0])
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        twin.realize_cached_data()[0] = 7
        assert x.numpy()[0] == 1 and twin.requires_grad and twin.shape == (2,)
    with pytest.raises(TypeError, match="detach"):
        copy.deepcopy(x * 2)


@pytest.mark.cpu_only("NumPy reads host memory")
def test_numpy_takes_a_tensor_as_an_array():
    x = ndl.Tensor([1.0, 2.0])
    assert np.asarray(x).tolist() == [1, 2] and np.asarray(x, dtype="float32").dtype == "float32"


def test_an_unknown_name_of_the_module_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = autograd.nonsense


# --------------------------------------------------------------------------- arrays that no gradient rule reads

BIG = (64, 64)  # over a page of memory: smaller arrays are not worth letting go of


def test_an_intermediate_array_that_no_rule_reads_goes_with_its_tensor(collector_off):
    x = ndl.Tensor(np.ones(BIG))
    h = x + 1.0
    array = weakref.ref(h.cached_data)
    y = h * 3.0  # neither the sum nor the product with a number reads h
    del h
    assert array() is None
    y.backward(create_graph=False)
    assert np.array_equal(x.grad.numpy(), np.full(BIG, 3.0))


def test_an_intermediate_array_that_a_rule_reads_stays(collector_off):
    x = ndl.Tensor(np.full(BIG, 2.0))
    h = x + 1.0
    array = weakref.ref(h.cached_data)
    y = h + 0.0
    z = h * h  # a later reader is in time
    del h
    assert array() is not None
    (y + z).backward(create_graph=False)
    assert np.array_equal(x.grad.numpy(), np.full(BIG, 7.0))
    assert array() is None


def test_what_was_let_go_of_is_computed_again_when_somebody_looks():
    x = ndl.Tensor(np.ones(BIG))
    y = (x + 1.0) * 3.0 - 2.0
    values = [node.numpy()[0, 0] for node in find_topo_sort([y])]
    assert values == [1, 2, 6, 4]
    assert y.inputs[0].inputs[0].shape == BIG and y.inputs[0].inputs[0].dtype == "float64"


@pytest.mark.parametrize("create_graph", [True, False])
def test_gradients_go_through_values_that_were_let_go_of(create_graph):
    x = ndl.Tensor(np.full(BIG, 2.0))
    h = x * 3.0
    y = h + 1.0
    out = ndl.summation(ndl.reshape(ndl.transpose(y), (-1,))) + (h * h).sum()
    del h, y
    out.backward(create_graph=create_graph)
    assert np.array_equal(x.grad.numpy(), np.full(BIG, 3 + 2 * 6 * 3))
    if create_graph:
        assert np.array_equal(ndl.grad(x.grad.sum(), x).numpy(), np.full(BIG, 18.0))


def test_intermediate_tensors_of_any_size_can_retain_and_be_asked_for_gradients():
    x = ndl.Tensor(np.ones(BIG))
    h = x + 1.0
    h.retain_grad()
    y = (h + 1.0).sum()
    assert np.array_equal(ndl.grad(y, h).numpy(), np.ones(BIG))
    y.backward(create_graph=False)
    assert np.array_equal(h.grad.numpy(), np.ones(BIG))


@pytest.mark.parametrize("package", [ndl.ops, ndl.nn, ndl.init, ndl.optim, ndl.data], ids=lambda p: p.__name__)
def test_a_star_import_gives_public_names_and_no_modules(package):
    public = {name: getattr(package, name) for name in package.__all__}
    assert public and not any(inspect.ismodule(value) or name.startswith("_") for name, value in public.items())
    assert all(value.__module__.startswith("needle.") for value in public.values())


@pytest.mark.parametrize("name", ["common", "checks", "arithmetic", "shape", "piecewise", "sums", "operators"])
def test_the_modules_of_the_ops_are_not_names_of_needle(name):
    assert not hasattr(ndl, name)
