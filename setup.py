"""Packaging metadata; the tools' settings are in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="needle",
    version="0.1.0",
    description="A small automatic differentiation framework to learn from, teach with and train small models on",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=find_packages(include=["needle", "needle.*"]),
    package_data={"needle": ["py.typed"], "needle.kernels": ["*.cu"]},
    install_requires=["numpy>=1.26"],
    extras_require={
        "cuda12": ["cupy-cuda12x[ctk]>=13"],  # ctk: CUDA's libraries and headers, without which cupy computes nothing
        "cuda13": ["cupy-cuda13x[ctk]>=13.6"],
        "apps": ["matplotlib>=3.8", "pooch>=1.8", "safetensors>=0.4", "scikit-learn>=1.4", "tqdm>=4.66"],
        "test": ["hypothesis>=6.100", "mypy>=1.11", "pytest>=8", "pytest-xdist>=3.5", "ruff>=0.6"],
        "torch": ["torch==2.13.0"],
        "cuda-test": ["cupy-cuda13x>=14", "nvidia-cuda-nvrtc>=13"],  # what proves the GPU code without a GPU
        "peers": ["autograd>=1.7", "mygrad>=2.2"],
        "docs": ["myst-parser>=3", "numpydoc>=1.7", "sphinx>=7"],
    },
    classifiers=[
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
