"""Kernels are functions from arrays to arrays; importing the package fills their registry.

A new file in one of these folders is found by itself.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _folder in ("array", "control", "linalg", "math", "nn", "text"):
    for _module in iter_modules(import_module(f"{__name__}.{_folder}").__path__):
        import_module(f"{__name__}.{_folder}.{_module.name}")
