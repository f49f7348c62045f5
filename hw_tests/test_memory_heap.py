"""`keep_heap`: freed memory is used again without a page fault, and only if that was asked for."""

import platform
import subprocess
import sys

import pytest

from needle import memory

SCRIPT = """
import resource, sys
import numpy as np
from needle import memory

if sys.argv[1] != "untouched":
    assert memory.keep_heap(sys.argv[1] == "on")

def step():
    arrays = [np.empty(1 << 20, dtype=np.uint8) for _ in range(16)]
    for array in arrays:
        array.fill(1)

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is about the limits of glibc, on Linux")


def page_faults(setting):
    done = subprocess.run([sys.executable, "-c", SCRIPT, setting], capture_output=True, text=True, check=True)
    return int(done.stdout)


@glibc
def test_a_heap_that_is_kept_is_used_again_without_page_faults():
    pages = 10 * 16 * 2**20 // 4096
    assert page_faults("on") < pages / 100
    assert page_faults("off") > pages / 2


@glibc
def test_it_says_that_it_was_set():
    assert memory.keep_heap(False)


def test_where_there_is_no_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.keep_heap() is False


@pytest.mark.parametrize("on", [1, None, "yes"])
def test_it_is_switched_by_a_bool(on):
    with pytest.raises(TypeError, match=r"keep_heap: True or False is needed, got"):
        memory.keep_heap(on)
