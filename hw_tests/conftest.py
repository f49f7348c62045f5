"""Fixtures that all tests share: a fixed seed for each test, and the folder with real data."""

import os
import pathlib

import hypothesis
import numpy as np
import pytest

# A deadline would assert a time, which a busy machine breaks.
hypothesis.settings.register_profile("needle", deadline=None)
hypothesis.settings.load_profile("needle")


@pytest.fixture(autouse=True)
def seed_numpy():
    """Every test sees the same random numbers, whatever ran before it."""
    np.random.seed(0)


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


def pytest_collection_modifyitems(items: list) -> None:
    """Mark what compares with PyTorch, so that ``-m torch`` runs it alone."""
    for item in items:
        if "torch" in getattr(item, "fixturenames", ()):
            item.add_marker("torch")
