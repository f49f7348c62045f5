"""What several test files use: commands run in place, files as MNIST has them, graphs and lines of code looked at."""

import gzip
import importlib.util
import inspect
import shlex
import struct
import tracemalloc

import numpy as np
import pytest

from needle.autograd import TensorOp, find_topo_sort

# --------------------------------------------------------------------------------------------------------------- demos


def needs(*packages):
    """The mark of tests that are skipped where one of the packages is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}, of the extra 'apps'")


def run(app, capsys, *words):
    """Run a demo's command; gives its exit code, what it printed, and its errors."""
    capsys.readouterr()
    code = app.main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def error_of(app, capsys, *words):
    """The one line that a demo's command ends with if there is a mistake in it."""
    code, out, err = run(app, capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"python -m {app.__name__}: error: ") and err.count("\n") == 1
    return err


def words_to_go_on(out, module):
    """The arguments in the line by which an interrupted demo says how to go on, as a shell reads them."""
    python, m, name, *words = shlex.split(out.partition("Go on with: ")[2].splitlines()[0])
    assert (python, m, name) == ("python", "-m", module)
    return words


# --------------------------------------------------------------------------------------------------------------- files

IDX_CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def idx_header(code, *sizes):
    return bytes([0, 0, code, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)


def idx_bytes(array):
    """The tests' own writer, after the published description of the format."""
    return idx_header(IDX_CODES[array.dtype.name], *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx(path, array):
    """Write an IDX file, compressed if its name says so."""
    path.write_bytes(gzip.compress(idx_bytes(array)) if path.suffix == ".gz" else idx_bytes(array))
    return path


def write_digits(folder, images, labels, name="", suffix=""):
    """Write a pair of files as MNIST has them; gives their paths."""
    arrays = {"images-idx3-ubyte": images, "labels-idx1-ubyte": labels}
    return [write_idx(folder / f"{name}{kind}{suffix}", array) for kind, array in arrays.items()]


# ----------------------------------------------------------------------------------------------------------------- ops


class Planted(TensorOp):
    """2a, computed by whatever `double` does."""

    reads = ()

    def __init__(self, double):
        self.double = double

    def compute(self, a):
        return self.double(a)

    def gradient(self, out_grad, node):
        return out_grad * 2


# -------------------------------------------------------------------------------------------------------- measurements


def softmax(Z):
    e = np.exp(Z - Z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def peak_memory(action):
    """The most bytes that Python and NumPy held at once while `action` ran, beyond what they held before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ops_in(tensor):
    """The kinds of the ops that a tensor was computed by, inputs first."""
    return [type(node.op) for node in find_topo_sort([tensor]) if node.op is not None]


def line_of(function, text):
    """The number of the line of `function` that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found
