from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actorflow.errors import KernelError
from actorflow.kernels.definition.registry import find
from actorflow.kernels.linalg.lapack import lapack, raising
from actorflow.values.arrays import as_dtype


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32_and_rounded_once(dtype: str) -> None:
    x = (np.arange(9).reshape(3, 3) / 8 + np.eye(3)).astype(as_dtype(dtype))

    u, s, _ = find("svd").function(x)

    wide = np.linalg.svd(x.astype(np.float32))
    assert (u.dtype, s.dtype) == (x.dtype, x.dtype)
    np.testing.assert_array_equal(s, wide.S.astype(x.dtype))


def test_counts_stay_integers_for_halves() -> None:
    x = np.eye(3, dtype=np.float16)

    assert find("matrix_rank").function(x, rtol=None, eps=2.0**-10).dtype == np.int64


def test_the_first_wrong_matrix_of_a_batch_is_named() -> None:
    x = np.broadcast_to(np.eye(2), (2, 3, 2, 2)).copy()
    x[1, 2] = 0

    with pytest.raises(KernelError, match=r"got \(2, 3, 2, 2\) float64: .*, the first at index \(1, 2\)"):
        find("cholesky").function(x, upper=False)


def test_what_linalg_refuses_keeps_its_cause() -> None:
    with pytest.raises(KernelError) as caught:
        find("inv").function(np.zeros((2, 2)))

    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)


def test_other_errors_pass() -> None:
    @lapack("planted", "nothing")
    def planted(x: Any, *, xp: Any = np) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        planted(np.ones(1))


def test_cupy_is_told_to_raise_as_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    @contextmanager
    def errstate(**kwargs: Any) -> Iterator[None]:
        told.append(kwargs)
        yield

    cupyx = ModuleType("cupyx")
    monkeypatch.setattr(cupyx, "errstate", errstate, raising=False)
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)

    with raising(SimpleNamespace(__name__="cupy")), raising(np):
        pass

    assert told == [{"linalg": "raise"}]
