"""What is told of the libraries that compute."""

from __future__ import annotations

from actorflow.kernels.device.libraries import libraries, openblas_core


def test_the_core_is_the_one_that_the_blas_is_told_with() -> None:
    blas = libraries().blas.lower()

    assert openblas_core() == (blas.split()[2] if blas.startswith("openblas") else None)
