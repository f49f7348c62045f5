"""The option ``--device``: pytest knows only options that are declared in the folder where it is started."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        default="cpu",
        choices=("cpu", "emulated", "cuda"),
        help="where tensors are made when a test names no device; 'emulated' stands in for a GPU (cupy, no driver)",
    )
