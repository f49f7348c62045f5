"""A GPU for tests on machines that have none: `emulated.cupy` stands in for cupy, `emulated.device()` is a device.

Arrays wrap NumPy ones, but are no subclass of ``numpy.ndarray`` and treat NumPy as cupy does: they refuse its arrays as
operands and refuse to become one implicitly. What differs between the two libraries without an error differs here too
(indices out of bounds wrap, an index that stands twice in an assignment leaves either value), what costs time on a GPU
is counted (`counting`), and no function or keyword is offered that the installed cupy does not have.
"""

from .counts import Counts, HiddenSync, counting
from .device import EmulatedDevice, device, use
from .module import cupy
