"""What importing costs beyond ``import numpy``; each import in a fresh interpreter.

Installed packages have their bytecode beside them. A checkout may not, so needle's is kept in a
temporary folder: the first import, which is not counted, compiles it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile

from apps.bench.workload import Prepared, Workload

LIMIT = 0.15
SCRIPT = "import time, numpy; start = time.process_time(); import {}; print(time.process_time() - start)"

IMPORTS = Workload(
    "import", "CPU time of the import beyond `import numpy`, in a fresh interpreter", unit="import", on_gpu=False
)


def importing(module: str) -> Prepared:
    """Prepare a fresh import of that module."""
    command = [sys.executable, "-c", SCRIPT.format(module)]
    environment = dict(os.environ)
    if module == "needle":
        folder = tempfile.TemporaryDirectory()
        atexit.register(folder.cleanup)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = folder.name

    def measure() -> float:
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        if run.returncode:
            raise RuntimeError(f"import {module} failed:\n{run.stderr}")
        return float(run.stdout)

    return Prepared(step=lambda: None, measure=measure)


for peer in ("needle", "torch", "autograd", "mygrad"):
    module = {"autograd": "autograd.numpy"}.get(peer, peer)
    IMPORTS.contender(peer)(lambda module=module: importing(module))

IMPORTS.compare("import", "needle", aim_seconds=LIMIT)

WORKLOADS = [IMPORTS]
