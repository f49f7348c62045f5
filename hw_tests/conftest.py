"""What all tests share: a fixed seed for each test, the folder with real data, and the device that they run on."""

import gc
import importlib.util
import os
import pathlib

import hypothesis
import numpy as np
import pytest

# Scripts, and what cannot be imported without cupy or PyTorch, hold no doctests.
collect_ignore = ["launch_table.py", "torch_reference.py", *(() if importlib.util.find_spec("cupy") else ("emulated",))]

pytest.register_assert_rewrite("shared")

# A deadline would assert a time, which a busy machine breaks.
hypothesis.settings.register_profile("needle", deadline=None)
hypothesis.settings.load_profile("needle")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cpu_only(reason): is about NumPy's own memory; skipped on other devices")
    config.addinivalue_line("markers", "gpu: needs a real GPU, and says so where there is none")
    name = config.getoption("--device", "cpu")
    if name != "cpu":
        from needle import backend

        try:
            if name == "emulated":
                import emulated

                # The second one: whatever relies on the current GPU, the first, is an error.
                backend.set_default_device(emulated.device(1))
            else:
                backend.set_default_device(backend.cuda())
        except ImportError as error:
            raise pytest.UsageError(f"--device {name}: {error}: pip install '.[cuda-test]'") from None
        except RuntimeError as error:
            raise pytest.UsageError(f"--device {name}: {error}") from None
        backend.default_device().array([0.0])  # what a device makes when it is first used, no test shall answer for


@pytest.fixture(autouse=True)
def same_start(request):
    """Every test sees the same random numbers, and the same current GPU, whatever ran before it."""
    np.random.seed(0)
    if request.config.getoption("--device", "cpu") != "cpu":
        from needle import backend

        backend.default_device().xp.cuda.Device(0).use()


@pytest.fixture
def collector_off():
    """Cyclic garbage stays where it is during the test, unless the test collects it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """The folder that NEEDLE_TEST_DATA names; without it a test fails in CI and is skipped elsewhere."""
    name = os.environ.get("NEEDLE_TEST_DATA", "")
    if name and os.path.isdir(name):
        return pathlib.Path(name).resolve()
    reason = (
        "needs real data: set NEEDLE_TEST_DATA to a folder that holds mnist/, fsdd/ and tinyshakespeare/ "
        f"(it is {name!r}{', which is no folder' if name else ''})"
    )
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def torch():
    """PyTorch on one thread, where it is installed."""
    module = pytest.importorskip("torch", reason="compares with PyTorch: pip install '.[torch]' makes it run")
    module.set_num_threads(1)
    return module


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    """Mark what compares with PyTorch, so that ``-m torch`` runs it alone; skip what the device makes pointless."""
    device = config.getoption("--device", "cpu")
    for item in items:
        if "torch" in getattr(item, "fixturenames", ()):
            item.add_marker("torch")
        only = item.get_closest_marker("cpu_only")
        if only is not None and device != "cpu":
            item.add_marker(pytest.mark.skip(reason=f"is about the CPU: {only.args[0]}"))
        if item.get_closest_marker("gpu") is not None and device != "cuda":
            item.add_marker(pytest.mark.skip(reason="needs a real GPU: run with --device cuda where there is one"))
