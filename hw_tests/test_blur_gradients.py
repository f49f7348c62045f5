"""The adaptive blur's gradients: of second and third order, against finite differences, PyTorch, and node by node."""

import blur_oracle as oracle
import numpy as np
import pytest

import needle as ndl
from needle.autograd import find_topo_sort
from needle.gradcheck import gradcheck, gradgradcheck
from needle.nn.blur import AdaptiveBlur
from needle.ops.blur import EDGES, AdaptiveBlurAdjoint, AdaptiveBlurTangent, BlurCurvature, adaptive_blur

SIZE = 7
# Steps of finite differences are 1e-6; every radius is further than that from an integer.
RADIUS = np.array([[0.4, 1.3], [1.01, 2.5], [4.7, 0.9], [2.2, 6.99], [9.6, 1.5], [3.3, 40.2], [0.99, 7.1]])


def second_order(x, radius, g, to_dx, to_dm, **how):
    """Gradients of ⟨to_dx, dx⟩ + ⟨to_dm, dm⟩ with respect to x, radius and g."""
    leaves = [ndl.Tensor(a) for a in (x, radius, g)]
    dx, dm = ndl.grad(adaptive_blur(*leaves[:2], **how), leaves[:2], leaves[2])
    total = (dx * ndl.Tensor(to_dx)).sum() + (dm * ndl.Tensor(to_dm)).sum()
    return [grad.numpy() for grad in ndl.grad(total, leaves)]


def slopes(fn, arrays, step=1e-6):
    """Central differences of `fn` with respect to every element of every array."""
    results = []
    for k, array in enumerate(arrays):
        slope = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            above, below = ([a.copy() for a in arrays] for _ in range(2))
            above[k][i] += step
            below[k][i] -= step
            slope[i] = (fn(*above) - fn(*below)) / (2 * step)
        results.append(slope)
    return results


@pytest.mark.parametrize("edge", EDGES)
def test_the_second_order_is_what_differences_of_the_dense_gradients_say(edge):
    x, g, to_dx, to_dm = np.random.randn(4, *RADIUS.shape)

    def first_order(*arrays):
        dx, dm = oracle.gradients(*arrays, edge)
        return (to_dx * dx).sum() + (to_dm * dm).sum()

    measured = slopes(first_order, [x, RADIUS, g])
    for ours, reference in zip(second_order(x, RADIUS, g, to_dx, to_dm, edge=edge), measured):
        np.testing.assert_allclose(ours, reference, rtol=2e-8, atol=2e-8)


@pytest.mark.parametrize("radius_grad", ["exact", "seed"])
@pytest.mark.parametrize("edge", EDGES)
def test_the_second_order_is_made_of_the_same_matrices_as_the_first(edge, radius_grad):
    """dx = Wᵀg and dm = x ⊙ Dᵀg, so with ∂W = D and ∂D = −ρD their gradients are known; also where m is an integer."""
    radius = np.where(np.random.rand(*RADIUS.shape) < 0.5, np.ceil(RADIUS), RADIUS)
    x, g, to_dx, to_dm = np.random.randn(4, *RADIUS.shape)
    w, d, rho = oracle.matrices(radius, edge, radius_grad)
    pulled = np.einsum("tip,it->pt", d, g)
    to_x = to_dm * pulled
    to_radius = pulled * (to_dx - rho * to_dm * x)
    to_g = np.einsum("tip,pt->it", w, to_dx) + np.einsum("tip,pt->it", d, x * to_dm)
    ours = second_order(x, radius, g, to_dx, to_dm, edge=edge, radius_grad=radius_grad)
    for result, expected in zip(ours, (to_x, to_radius, to_g)):
        np.testing.assert_allclose(result, expected, rtol=0, atol=2e-13)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("axis", [0, -1])
def test_the_gradient_checker_agrees_at_first_second_and_third_order(edge, axis):
    x, radius = np.random.randn(*RADIUS.shape), RADIUS if axis == 0 else RADIUS.reshape(2, SIZE)
    x = x.reshape(radius.shape)

    def blur(x, radius):
        return adaptive_blur(x, radius, axis, edge)

    def gradients(x, radius):
        y = blur(x, radius)
        return ndl.grad((y * y).sum(), [x, radius])

    assert gradcheck(blur, (x, radius))
    assert gradgradcheck(blur, (x, radius))
    assert gradgradcheck(gradients, (x, radius))


@pytest.mark.parametrize("edge", EDGES)
def test_each_of_the_ops_that_gradients_are_made_of_has_the_gradient_it_says(edge):
    u, v = np.random.randn(2, *RADIUS.shape)
    adjoint, tangent, curvature = (kind(0, edge) for kind in (AdaptiveBlurAdjoint, AdaptiveBlurTangent, BlurCurvature))
    assert gradcheck(lambda g, m: tuple(adjoint(g, m)), (u, RADIUS))
    assert gradcheck(tangent, (u, v, RADIUS))
    assert gradcheck(curvature, (RADIUS,))


def torch_blur(torch, x, radius):
    """The dense formulation in PyTorch, for [K, T] with "drop": its derivatives are PyTorch's own."""
    size = x.shape[0]
    distance = (torch.arange(size)[:, None] - torch.arange(size)[None, :]).abs()[:, :, None]
    f = radius.floor()
    mass = f * (2 * radius - f - 1) + radius
    weights = torch.where(distance <= f, radius - distance, 0) / mass
    weights = torch.where(radius < 1, (distance == 0).to(x.dtype), weights)
    return (weights * x).sum(dim=1)


def test_gradients_of_both_orders_are_those_of_torch_on_the_dense_formulation(torch):
    arrays = x, radius, g, to_dx, to_dm = [np.random.randn(*RADIUS.shape), RADIUS, *np.random.randn(3, *RADIUS.shape)]
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays[:3]]
    y = torch_blur(torch, *leaves[:2])
    dx, dm = torch.autograd.grad(y, leaves[:2], leaves[2], create_graph=True)
    total = (dx * torch.tensor(to_dx)).sum() + (dm * torch.tensor(to_dm)).sum()
    second = torch.autograd.grad(total, leaves)

    ours = [ndl.Tensor(a) for a in (x, radius)]
    result = adaptive_blur(*ours)
    result.backward(ndl.Tensor(g))
    for mine, theirs in zip([result, *(leaf.grad for leaf in ours)], (y, dx, dm)):
        np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=0, atol=1e-13)
    for mine, theirs in zip(second_order(x, radius, g, to_dx, to_dm), second):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("edge", EDGES)
def test_with_and_without_a_graph_gradients_are_the_same_to_the_last_bit(edge):
    x, g = np.random.randn(2, *RADIUS.shape)
    for create_graph in (True, False):
        leaves = [ndl.Tensor(x), ndl.Tensor(RADIUS)]
        adaptive_blur(*leaves, edge=edge).backward(ndl.Tensor(g), create_graph=create_graph)
        if create_graph:
            recorded = [leaf.grad.numpy() for leaf in leaves]
    for one, other in zip(recorded, leaves):
        np.testing.assert_array_equal(one, other.grad.numpy())


def ops_between(results, leaves):
    """Names of the ops that compute `results` from `leaves`."""
    return sorted(str(node.op) for node in find_topo_sort(results) if not node.is_leaf())


@pytest.mark.parametrize(
    "needs, ops",
    [
        ((True, True), ["AdaptiveBlurAdjoint", "EWiseMul", "_TupleGetItem", "_TupleGetItem"]),
        ((True, False), ["AdaptiveBlurAdjoint", "_TupleGetItem"]),
        ((False, True), ["AdaptiveBlurAdjoint", "EWiseMul", "_TupleGetItem"]),
    ],
)
def test_one_pass_serves_both_gradients_and_nothing_unneeded_is_computed(needs, ops):
    x = ndl.Tensor(np.random.randn(*RADIUS.shape), requires_grad=needs[0])
    radius = ndl.Tensor(RADIUS, requires_grad=needs[1])
    seed = ndl.Tensor(np.random.randn(*RADIUS.shape))
    gradients = ndl.grad(adaptive_blur(x, radius), [leaf for leaf in (x, radius) if leaf.requires_grad], seed)
    assert ops_between(gradients, (x, radius, seed)) == ops


def test_at_an_integer_the_derivative_is_that_from_the_right():
    x, g = np.random.randn(2, 9, 1)
    radius = np.full((9, 1), 3.0)

    def to_radius(m):
        leaf = ndl.Tensor(m)
        return ndl.grad(adaptive_blur(ndl.Tensor(x), leaf), leaf, ndl.Tensor(g)).numpy()

    np.testing.assert_allclose(to_radius(radius), to_radius(radius + 1e-9), rtol=0, atol=1e-7)
    assert np.abs(to_radius(radius) - to_radius(radius - 1e-9)).max() > 0.01


# ------------------------------------------------------------------------------------------------------------ layer


def test_the_layer_learns_a_radius_from_1_on():
    """Noise is seen through a blur of radius 3: descent finds that radius."""
    x = ndl.Tensor(np.random.randn(21, 10), requires_grad=False)
    target = adaptive_blur(x, 3.0).detach()
    layer = AdaptiveBlur((1, 1), dtype="float64")
    optimizer = ndl.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(300):
        difference = layer(x) - target
        (difference * difference).sum().backward(create_graph=False)
        optimizer.step()
    assert layer.radius.item() == pytest.approx(3, abs=0.05)


def test_the_layer_has_one_parameter_and_says_what_it_does():
    layer = AdaptiveBlur((5, 1), radius=2.5, axis=-2, edge="return")
    assert [(name, p.shape, str(p.dtype)) for name, p in layer.named_parameters()] == [("radius", (5, 1), "float32")]
    assert "axis=-2, edge='return'" in repr(layer)
    x = np.random.randn(3, 5, 2).astype("float32")
    expected = adaptive_blur(x, np.full((5, 1), 2.5, "float32"), 1, "return")
    np.testing.assert_array_equal(layer(ndl.Tensor(x)).numpy(), expected)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"radius": "wide"}, TypeError, "radius is the number that all radii start from, got 'wide'"),
        ({"radius": float("nan")}, ValueError, "radius is NaN"),
        ({"edge": "wrap"}, ValueError, "edge is one of 'drop', 'return', 'renorm', got 'wrap'"),
        ({"shape": (-1,)}, ValueError, "non-negative"),
    ],
)
def test_a_layer_that_could_not_work_is_not_made(arguments, error, text):
    with pytest.raises(error, match=text):
        AdaptiveBlur(**({"shape": 3} | arguments))


def test_the_layer_wants_a_tensor():
    with pytest.raises(TypeError, match="AdaptiveBlur: a Tensor is needed as input, got list"):
        AdaptiveBlur(3)([1.0, 2.0, 3.0])
