"""The CUDA kernels without a GPU: NVIDIA's compiler takes them, and run on the CPU they give NumPy's results.

They run behind a shim (`kernel_shim`) that draws at random which thread and which block goes on, and that watches every
access to memory: a race or an index past the end is an error even if the result is right. That the watch works is
tested here too, on kernels with a fault planted in them.
"""

import blur_oracle
import numpy as np
import pytest
from kernel_shim import KernelError, Program, find_compiler, nvrtc

from needle import kernels

FILES = sorted(set(kernels.FILES.values()))
VERSIONS = {"float32": "float", "float64": "double"}
SEEDS = range(3)

on_the_cpu = pytest.mark.skipif(find_compiler() is None, reason="runs kernels on the CPU by way of g++, not installed")
dtypes = pytest.mark.parametrize("dtype", list(VERSIONS))


@pytest.fixture(scope="module")
def programs():
    """One watched program per file, compiled when it is first asked for."""
    made = {}

    def program(file):
        if file not in made:
            made[file] = Program(kernels.source(file))
        return made[file]

    return program


@pytest.fixture
def run(programs):
    """Runs a kernel in several orders; the outputs must come out the same, bit for bit."""

    def run(name, grid, block, args, outputs, dtype, **more):
        first = None
        start = [array.copy() for array in outputs]
        for seed in SEEDS:
            for array, values in zip(outputs, start):
                array[...] = values
            programs(kernels.FILES[name]).launch(f"{name}_{VERSIONS[dtype]}", grid, block, args, seed=seed, **more)
            bits = [array.tobytes() for array in outputs]
            assert first in (None, bits), "the result depends on the order of threads and blocks"
            first = bits

    return run


def normal(*shape, dtype="float64"):
    return np.random.randn(*shape).astype(dtype)


def unwritten(*shape, dtype):
    """What a kernel has to fill: NaN, or the smallest integer."""
    return np.full(shape, np.nan, dtype=dtype)


def close(actual, expected, dtype, digits=13):
    tolerance = {"float32": 2e-6, "float64": 10.0**-digits}[dtype]
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------------ compiling


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("file", FILES)
def test_every_file_compiles_for_the_architecture_without_a_warning(file, architecture):
    if not nvrtc.available():
        pytest.skip("compiles with NVRTC: pip install 'needle[cuda-test]'")
    found = nvrtc.compile_kernels(kernels.source(file), architecture, kernels.OPTIONS)
    names = [name for name, where in kernels.FILES.items() if where == file]
    assert sorted(found) == sorted(f"{name}_{version}" for name in names for version in VERSIONS.values())


def test_a_warning_of_the_compiler_is_an_error():
    if not nvrtc.available():
        pytest.skip("compiles with NVRTC: pip install 'needle[cuda-test]'")
    with pytest.raises(ValueError, match="unused"):
        nvrtc.compile_kernels('extern "C" __global__ void f(int* a) { int unused; a[0] = 1; }', "sm_80")


def test_every_source_file_is_listed():
    folder = kernels._FOLDER
    assert sorted(path.stem for path in folder.glob("*.cu")) == sorted([*FILES, "common"])


# ------------------------------------------------------------------------------------------------- the watch itself


MIRROR = "const int t = threadIdx.x; arena[t] = b[t]; {} a[t] = arena[blockDim.x - 1 - t];"
BODIES = {
    "a barrier": MIRROR.format("__syncthreads();"),
    "a barrier left out": MIRROR.format(""),
    "only a warp waits": MIRROR.format("__syncwarp();"),
    "a sum without atomics": "a[0] += b[threadIdx.x];",
    "two writers of one element": "a[threadIdx.x / 2] = 1;",
    "one index past the end": "a[threadIdx.x + 1] = b[threadIdx.x];",
    "a read past the end": "a[threadIdx.x] = b[threadIdx.x * 2];",
    "a read before the start": "a[threadIdx.x] = b[Int(threadIdx.x) - 1];",
    "past the shared memory": "arena[threadIdx.x + 1] = 1;",
    "a barrier for some": "if (threadIdx.x < 32) __syncthreads(); a[threadIdx.x] = b[0];",
    "a shuffle for some": "if (threadIdx.x % 2) a[threadIdx.x] = __shfl_xor_sync(0xffffffffu, b[threadIdx.x], 2);",
    "a write of every block": "if (threadIdx.x == 0) a[0] = blockIdx.x;",
    "atomics": "atomicAdd(reinterpret_cast<int*>(a), 1);",
    "what is there": "a[threadIdx.x] = arena[threadIdx.x];",
}
NAMES = {what: f"kernel_{i}" for i, what in enumerate(BODIES)}


@pytest.fixture(scope="module")
def planted():
    """Small kernels, most of them with a fault."""
    text = "using Int = long long; extern __shared__ double arena[];\n"
    for what, body in BODIES.items():
        text += f'extern "C" __global__ void {NAMES[what]}(double* a, const double* b) {{ {body} }}\n'
    return Program(text)


def launch(program, what, grid=1, seed=0):
    a, b = np.zeros(64), np.arange(64.0)
    program.launch(NAMES[what], (grid,), (64,), (a, b), shared_mem=8 * 64, seed=seed)
    return a


@on_the_cpu
def test_threads_that_meet_at_a_barrier_may_read_what_others_wrote(planted):
    np.testing.assert_array_equal(launch(planted, "a barrier"), np.arange(64.0)[::-1])


FAULTS = {
    "a barrier left out": "a race: byte .* of shared memory",
    "only a warp waits": "a race: byte .* of shared memory",
    "a sum without atomics": "a race: element 0 of argument 0",
    "two writers of one element": "a race: element .* of argument 0",
    "one index past the end": "a write past the end: element 64 of argument 0",
    "a read past the end": "a read past the end: element .* of argument 1",
    "a read before the start": "a read before the start of argument 1",
    "past the shared memory": "past the end: byte 512 of shared memory",
    "a barrier for some": "others wait at __syncthreads",
    "a shuffle for some": "a lane ended while others of its warp wait",
}


@on_the_cpu
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_in_every_order(planted, fault):
    for seed in SEEDS:
        with pytest.raises(KernelError, match=FAULTS[fault]):
            launch(planted, fault, seed=seed)


@on_the_cpu
def test_blocks_that_write_the_same_element_race(planted):
    launch(planted, "a write of every block", grid=1)
    with pytest.raises(KernelError, match="a race: element 0 of argument 0"):
        launch(planted, "a write of every block", grid=2)


@on_the_cpu
def test_atomic_additions_of_all_threads_do_not_race(planted):
    assert launch(planted, "atomics", grid=3).view("int32")[0] == 192


@on_the_cpu
def test_shared_memory_starts_out_with_garbage(planted):
    assert len(set(launch(planted, "what is there").view("int64").tolist())) > 60


@on_the_cpu
@pytest.mark.parametrize("args", [(np.zeros(4, "float32"), np.zeros(4)), (np.zeros(4), 4.0), (np.zeros(4),)])
def test_arguments_that_do_not_fit_are_an_error(planted, args):
    with pytest.raises(KernelError, match=r"argument . is a|has 2 parameters, got 1"):
        planted.launch(NAMES["atomics"], (1,), (1,), args)


# ---------------------------------------------------------------------------------------------------------- elementwise


@on_the_cpu
@dtypes
def test_bias_relu_is_the_positive_part_of_x_plus_bias(run, dtype):
    x, bias, y = normal(7, 13, dtype=dtype), normal(13, dtype=dtype), unwritten(7, 13, dtype=dtype)
    x[2, 3] = np.nan
    run("bias_relu", (2,), (32,), (x, bias, y, x.size, 13), [y], dtype)
    np.testing.assert_array_equal(y, np.maximum(x + bias, 0))


@on_the_cpu
@dtypes
def test_dropout_keeps_and_scales_what_lies_below_the_threshold(run, dtype):
    x, uniform = normal(101, dtype=dtype), np.random.rand(101).astype(dtype)
    y, scale = unwritten(101, dtype=dtype), unwritten(101, dtype=dtype)
    run("dropout", (2,), (32,), (x, uniform, y, scale, 101, 0.75), [y, scale], dtype)
    close(scale, np.where(uniform < 0.75, 1 / 0.75, 0), dtype)
    np.testing.assert_array_equal(y, x * scale)


@on_the_cpu
@dtypes
def test_a_blend_takes_its_share_of_the_second_array(run, dtype):
    a, b, y = normal(50, dtype=dtype), normal(50, dtype=dtype), unwritten(50, dtype=dtype)
    run("blend", (1,), (32,), (a, b, y, 50, 0.25), [y], dtype)
    close(y, 0.75 * a.astype("float64") + 0.25 * b, dtype)


@on_the_cpu
@dtypes
def test_sums_at_repeated_places_are_numpys(run, dtype):
    places, values, target = np.random.randint(5, size=40), normal(40, dtype=dtype), normal(7, dtype=dtype)
    expected = target.astype("float64")
    np.add.at(expected, places, values.astype("float64"))
    run("scatter_add", (2,), (16,), (np.argsort(places, kind="stable"), places, values, target, 40), [target], dtype)
    close(target, expected, dtype)


# -------------------------------------------------------------------------------------------------------- cross entropy


@on_the_cpu
@dtypes
@pytest.mark.parametrize("classes, threads", [(10, 32), (1, 32), (300, 64)])
def test_cross_entropy_and_its_gradient_are_numpys(run, dtype, classes, threads):
    rows = 5
    logits = (normal(rows, classes) * 30).astype(dtype)
    labels = np.random.randint(classes, size=rows)
    losses, log_sums = unwritten(rows, dtype=dtype), unwritten(rows, dtype=dtype)
    shared = threads * logits.itemsize
    args = (logits, labels, losses, log_sums, classes)
    run("cross_entropy", (rows,), (1, threads), args, [losses, log_sums], dtype, shared_mem=shared)
    wide = logits.astype("float64")
    expected = np.logaddexp.reduce(wide, axis=1)
    close(log_sums, expected, dtype)
    close(losses, expected - wide[np.arange(rows), labels], dtype)

    out_grad, gradient = np.array([3.0], dtype=dtype), unwritten(rows, classes, dtype=dtype)
    args = (logits, labels, log_sums, out_grad, gradient, rows, classes)
    run("cross_entropy_gradient", (rows,), (1, threads), args, [gradient], dtype)
    softmax = np.exp(wide - expected[:, None])
    softmax[np.arange(rows), labels] -= 1
    close(gradient, softmax * 3 / rows, dtype)


@on_the_cpu
@dtypes
def test_a_label_out_of_range_gives_nan_and_reads_nothing(run, dtype):
    logits, labels = normal(3, 4, dtype=dtype), np.array([4, -1, 10**15])
    losses, log_sums = unwritten(3, dtype=dtype), unwritten(3, dtype=dtype)
    args = (logits, labels, losses, log_sums, 4)
    run("cross_entropy", (3,), (1, 32), args, [losses, log_sums], dtype, shared_mem=256)
    assert np.isnan(losses).all()
    assert np.isfinite(log_sums).all()


# -------------------------------------------------------------------------------------------------------- normalisation

#: shape, axis of the groups, and the block that suits it: (N, C), (N, C, space), rows of (N, D)
LAYOUTS = [((9, 5), "batch", (32, 8)), ((4, 3, 6), "batch", (1, 32)), ((6, 21), "layer", (1, 32))]


def normalization_layout(shape, kind):
    """The arguments groups, count, inner, outer, stride and by_group of the kernels."""
    if kind == "layer":
        return shape[0], shape[1], shape[1], 0, shape[1], 0
    inner = int(np.prod(shape[2:]))
    return shape[1], shape[0] * inner, inner, shape[1] * inner, inner, 1


@on_the_cpu
@dtypes
@pytest.mark.parametrize("shape, kind, block", LAYOUTS)
def test_normalisation_and_its_gradients_are_numpys(run, dtype, shape, kind, block):
    x, g = (normal(*shape) + 3).astype(dtype), normal(*shape, dtype=dtype)
    axes = (1,) if kind == "layer" else (0, *range(2, len(shape)))
    parameter = (1, -1) if kind == "layer" else (1, -1, *[1] * (len(shape) - 2))
    size, eps = shape[1], 1e-3
    weight, bias = normal(size, dtype=dtype), normal(size, dtype=dtype)
    layout = normalization_layout(shape, kind)
    groups = layout[0]
    grid, shared = (-(-groups // block[0]),), block[0] * block[1] * x.itemsize
    y, statistics = unwritten(*shape, dtype=dtype), [unwritten(groups, dtype=dtype) for _ in range(3)]
    args = (x, weight, bias, y, *statistics, *layout, eps)
    run("normalize", grid, block, args, [y, *statistics], dtype, shared_mem=shared)

    x64, g64 = x.astype("float64"), g.astype("float64")
    w64, b64 = (a.astype("float64").reshape(parameter) for a in (weight, bias))
    mean, variance = x64.mean(axis=axes, keepdims=True), x64.var(axis=axes, keepdims=True)
    r = 1 / np.sqrt(variance + eps)
    normed = (x64 - mean) * r
    for actual, expected in zip(statistics, (mean, variance, r)):
        close(actual, expected.ravel(), dtype)
    close(y, normed * w64 + b64, dtype)

    means, _, factors = statistics
    to_x, to_weight, to_bias = (
        unwritten(*shape, dtype=dtype),
        unwritten(size, dtype=dtype),
        unwritten(size, dtype=dtype),
    )
    args = (x, weight, g, means, factors, to_x, to_weight, to_bias, *layout)
    run("normalize_gradient", grid, block, args, [to_x, to_weight, to_bias], dtype, shared_mem=shared)
    if kind == "layer":
        args = (x, g, means, factors, to_weight, to_bias, *shape)
        run("row_parameters_gradient", (1,), (32, 8), args, [to_weight, to_bias], dtype, shared_mem=256 * x.itemsize)
    k = g64 * w64
    expected = r * (k - k.mean(axis=axes, keepdims=True) - normed * (k * normed).mean(axis=axes, keepdims=True))
    shared_axes = (0,) if kind == "layer" else axes
    close(to_x, expected, dtype)
    close(to_weight, (g64 * normed).sum(axis=shared_axes), dtype)
    close(to_bias, g64.sum(axis=shared_axes), dtype)


@on_the_cpu
@dtypes
@pytest.mark.parametrize("shares", [1, 2, 4])
def test_the_rows_of_a_layers_parameters_are_shared_out(run, dtype, shares):
    x, g = normal(6, 35, dtype=dtype), normal(6, 35, dtype=dtype)
    means, factors = normal(6, dtype=dtype), normal(6, dtype=dtype)
    to_weight, to_bias = unwritten(shares, 35, dtype=dtype), unwritten(shares, 35, dtype=dtype)
    args = (x, g, means, factors, to_weight, to_bias, 6, 35)
    outputs = [to_weight, to_bias]
    run("row_parameters_gradient", (2, shares), (32, 8), args, outputs, dtype, shared_mem=256 * x.itemsize)
    wide = g.astype("float64")
    close(to_bias.sum(axis=0), wide.sum(axis=0), dtype)
    close(to_weight.sum(axis=0), (wide * (x - means[:, None]) * factors[:, None]).sum(axis=0), dtype)


# ----------------------------------------------------------------------------------------------------------- optimizers


def table_of(*rows):
    """The addresses of p, gradient, new p and two states (or none), and their length, for each block."""
    return np.array([[0 if a is None else a.ctypes.data for a in row] + [row[0].size] for row in rows], dtype=np.int64)


@on_the_cpu
@dtypes
def test_one_launch_of_adam_steps_all_parameters(run, dtype):
    beta1, beta2, rate, eps, penalty, keep = 0.9, 0.99, 0.1, 1e-3, 0.2, 0.95
    rows = [[normal(n, dtype=dtype) for _ in range(4)] + [normal(n, dtype=dtype) ** 2] for n in (5, 70, 1)]
    before = [[a.astype("float64") for a in row] for row in rows]
    outputs = [a for row in rows for a in row[2:]]
    memory = [a for row in rows for a in row]
    run("adam", (3,), (32,), (table_of(*rows), beta1, beta2, rate, eps, penalty, keep), outputs, dtype, memory=memory)
    for row, (p, g, _, m, v) in zip(rows, before):
        g = g + penalty * p
        m, v = beta1 * m + g, beta2 * v + g * g
        for actual, expected in zip(row[2:], (keep * p - rate * m / (np.sqrt(v) + eps), m, v)):
            close(actual, expected, dtype)


@on_the_cpu
@dtypes
@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("nesterov", [0, 1])
def test_one_launch_of_sgd_steps_all_parameters(run, dtype, momentum, nesterov):
    beta, rate, penalty = 0.9, 0.1, 0.2
    rows = [[normal(n, dtype=dtype) for _ in range(4)] + [None] for n in (5, 70)]
    if not momentum:
        rows = [[*row[:3], None, None] for row in rows]
    before = [[a.astype("float64") if a is not None else 0.0 for a in row] for row in rows]
    memory = [a for row in rows for a in row if a is not None]
    outputs = [a for row in rows for a in row[2:] if a is not None]
    run("sgd", (2,), (32,), (table_of(*rows), beta, rate, penalty, nesterov), outputs, dtype, memory=memory)
    for row, (p, g, _, u, _) in zip(rows, before):
        g = g + penalty * p
        u = beta * u + g
        direction = (g + beta * u if nesterov else u) if momentum else g
        close(row[2], p - rate * direction, dtype)
        if momentum:
            close(row[3], u, dtype)


# ----------------------------------------------------------------------------------------------------------------- blur

EDGES = {"drop": 0, "return": 1, "renorm": 2}


def blur_shared(columns, size):
    return columns * ((size + 1) * 16 + 8 * (32 + 64 + 1))


def spread(run, x, radius, edge, columns, dtype):
    """The kernel on [outer, K, inner]."""
    outer, size, inner = x.shape
    y = unwritten(*x.shape, dtype=dtype)
    grid = (-(-outer * inner // columns),)
    args = (x, radius, y, *x.shape, EDGES[edge])
    run("blur_spread", grid, (32 * columns,), args, [y], dtype, shared_mem=blur_shared(columns, size))
    return y


def gather(run, g, radius, edge, seed, columns, dtype):
    outer, size, inner = g.shape
    value, slope = unwritten(*g.shape, dtype=dtype), unwritten(*g.shape, dtype=dtype)
    grid = (-(-outer * inner // columns),)
    args = (g, radius, value, slope, *g.shape, EDGES[edge], seed)
    run("blur_gather", grid, (32 * columns,), args, [value, slope], dtype, shared_mem=blur_shared(columns, size))
    return value, slope


def radii(*shape, dtype):
    """Below 1, whole, half and broken ones, and some that pass every grid."""
    some = np.array([-1, 0, 0.5, 1, 1.5, 2, 2.75, 3, 7.3, 40, 1e6, 3e38])
    return np.random.choice(some, size=shape).astype(dtype)


@on_the_cpu
@dtypes
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("shape, columns", [((2, 21, 3), 4), ((3, 40, 1), 2), ((1, 1, 2), 1)])
def test_the_blur_and_its_adjoint_are_the_dense_definition(run, dtype, edge, shape, columns):
    x, radius = normal(*shape, dtype=dtype), radii(*shape, dtype=dtype)
    y = spread(run, x, radius, edge, columns, dtype)
    g = normal(*shape, dtype=dtype)
    for o in range(shape[0]):
        m, x64, g64 = (a[o].astype("float64") for a in (radius, x, g))
        close(y[o], blur_oracle.blur(x64, m, edge), dtype)
    for seed, radius_grad in enumerate(("exact", "seed")):
        if seed and edge == "renorm":
            continue
        value, slope = gather(run, g, radius, edge, seed, columns, dtype)
        for o in range(shape[0]):
            m, x64, g64 = (a[o].astype("float64") for a in (radius, np.ones(shape), g))
            to_x, to_radius = blur_oracle.gradients(x64, m, g64, edge, radius_grad)
            close(value[o], to_x, dtype, digits=12)
            close(slope[o], to_radius, dtype, digits=12)


@on_the_cpu
@dtypes
def test_radii_below_one_give_the_values_themselves(run, dtype):
    x = normal(1, 9, 2, dtype=dtype)
    radius = np.random.uniform(-3, 1, size=x.shape).astype(dtype)
    np.testing.assert_array_equal(spread(run, x, radius, "drop", 2, dtype), x)


@on_the_cpu
@dtypes
@pytest.mark.parametrize("spoil", [np.nan, np.inf])
def test_what_is_not_finite_spoils_its_own_column_only(run, dtype, spoil):
    x, radius = normal(1, 9, 4, dtype=dtype), radii(1, 9, 4, dtype=dtype)
    clean = spread(run, x, radius, "drop", 4, dtype)
    x[0, 3, 1] = spoil
    y = spread(run, x, radius, "drop", 4, dtype)
    assert np.isnan(y[0, :, 1]).all()
    np.testing.assert_array_equal(np.delete(y, 1, axis=2), np.delete(clean, 1, axis=2))


@on_the_cpu
@dtypes
def test_a_radius_that_is_nan_makes_its_column_nan_and_indexes_nothing(run, dtype):
    x, radius = normal(1, 9, 3, dtype=dtype), radii(1, 9, 3, dtype=dtype)
    radius[0, 4, 2] = np.nan
    y = spread(run, x, radius, "drop", 4, dtype)
    value, slope = gather(run, x, radius, "drop", 0, 4, dtype)
    assert np.isnan(y[0, :, 2]).all()
    assert np.isfinite(y[0, :, :2]).all()
    assert np.isnan(value[0, 4, 2])
    assert np.isnan(slope[0, 4, 2])
    assert np.isfinite(np.delete(value, 2, axis=2)).all()


@on_the_cpu
def test_quiet_positions_stay_exact_in_float32_beside_loud_ones(run):
    size = 257
    x, radius = np.full((1, size, 1), 1e-6, dtype="float32"), np.full((1, size, 1), 2.5, dtype="float32")
    x[0, 20] = 1e4
    y = spread(run, x, radius, "drop", 1, "float32")
    expected = blur_oracle.blur(x[0].astype("float64"), radius[0].astype("float64"))
    np.testing.assert_allclose(y[0], expected, rtol=2e-7)
