"""Which libraries compute here, and as what: two processes that differ in it may differ in the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info


@dataclass(frozen=True, slots=True)
class Libraries:
    """What decides the bits of kernels on processors.

    Attributes:
        numpy: Its version.
        simd: The instructions of this processor that numpy uses, ascending by its own order.
        blas: Name, version and kernels of the BLAS that numpy uses: `openblas 0.3.31 SkylakeX`.
        blas_threads: Over how many threads a product is spread now, by which the order of sums may change.
    """

    numpy: str
    simd: str
    blas: str
    blas_threads: int


def libraries() -> Libraries:
    """Returns those of this process, as they are now; takes about a millisecond."""
    loaded = _blas()
    told = (f"{lib['internal_api']} {lib['version']} {lib.get('architecture') or '?'}" for lib in loaded)
    threads = max((int(lib["num_threads"]) for lib in loaded), default=1)
    return Libraries(np.__version__, " ".join(_simd()), ", ".join(sorted(told)), threads)


@cache
def openblas_core() -> str | None:
    """Returns for which processor the OpenBLAS of numpy has kernels, in small letters; None without one."""
    cores = [lib.get("architecture") for lib in _blas() if lib["internal_api"] == "openblas"]
    return str(cores[0]).lower() if cores else None


def _blas() -> list[dict[str, Any]]:
    """What is known of the BLAS that numpy uses; as a rule that is one."""
    loaded = [found for found in threadpool_info() if found["user_api"] == "blas"]
    return [lib for lib in loaded if _is_of_numpy(lib["filepath"])] or loaded  # scipy brings its own


def _is_of_numpy(path: str) -> bool:
    """Whether a library lies where the wheels of numpy have theirs."""
    return any(part in ("numpy", "numpy.libs") for part in Path(path).parts)


def _simd() -> list[str]:
    # Private to numpy, and named otherwise before 2.0: without it the processor is not told apart.
    core: Any = getattr(np, "_core", None)
    features = getattr(getattr(core, "_multiarray_umath", None), "__cpu_features__", {})
    return [name for name, there in features.items() if there]
