"""The fixture of the memory checks."""

import pytest

from needle.memory import no_growth as check


@pytest.fixture
def no_growth():
    """A function that makes a step again and again and fails, with a report, if it leaves tensors or arrays behind."""

    def make_steps(step, steps=10, warmup=2, cycles=True):
        check(steps, warmup, cycles)(step)()

    return make_steps
