"""Says where a measurement was made: the processor, Python, NumPy with its BLAS, and the peers' versions."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import numpy as np

from apps.bench.workload import PEERS, installed


def processor() -> str:
    """Give the processor's model name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine() or "unknown processor"
    return f"{name}, {os.cpu_count()} logical cores"


def blas() -> str:
    """Give the name and version of the BLAS library that NumPy was built with."""
    found = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown BLAS')} {found.get('version', '')}".strip()


def version(peer: str) -> str:
    """Give an installed peer's version, or ``"here"`` if it is not an installed distribution."""
    try:
        return metadata.version(peer)
    except metadata.PackageNotFoundError:
        return "here"


def description() -> str:
    """Give two or three lines that say the machine and the versions."""
    peers = ", ".join(f"{p} {version(p)}" for p in PEERS if p not in ("needle", "numpy") and installed(p))
    return (
        f"Machine: {processor()}; {platform.system()} {platform.machine()}; one core and one BLAS thread used\n"
        f"Versions: Python {platform.python_version()}, NumPy {np.__version__} ({blas()})"
        + (f", {peers}" if peers else "")
    )
