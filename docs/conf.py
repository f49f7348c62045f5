"""Sphinx settings: ``python -m sphinx docs docs/_build``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "needle"
author = "The needle developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
autosummary_generate = True
autosummary_imported_members = True
numpydoc_show_class_members = False
default_role = "any"
suppress_warnings = ["ref.any"]
html_theme = "alabaster"
html_theme_options = {"description": "automatic differentiation you can read in an afternoon"}
exclude_patterns = ["_build", "figures"]
