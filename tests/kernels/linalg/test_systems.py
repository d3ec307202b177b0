from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from actorflow.errors import KernelError, SpecError
from actorflow.kernels.definition.registry import find, table
from actorflow.kernels.linalg import systems

rng = np.random.default_rng(3)


@pytest.fixture
def cupyx(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A stand-in for cupyx.scipy.linalg, and the flags that it was called with."""
    calls: list[Any] = []

    def solve_triangular(a: Any, b: Any, trans: int = 0, lower: bool = False) -> Any:
        calls.append((trans, lower))
        a = np.tril(a) if lower else np.triu(a)
        return np.linalg.solve(a.conj().T if trans == 2 else a, b)

    module = ModuleType("cupyx.scipy.linalg")
    monkeypatch.setattr(module, "solve_triangular", solve_triangular, raising=False)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", module)
    monkeypatch.setattr("actorflow.kernels.linalg.lapack.raising", lambda xp: nullcontext())
    return calls


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("shape", [(3, 2), (4, 2, 3, 2), (3, 0)])
def test_one_triangle_goes_to_cublas_whole(
    cupyx: list[Any], lower: bool, adjoint: bool, shape: tuple[int, ...]
) -> None:
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) + 4 * np.eye(3)
    b = rng.normal(size=shape) + 0j
    flags = {"lower": lower, "adjoint": adjoint}

    told = table()["triangular_solve", "cupy"].function(a, b, **flags)

    np.testing.assert_allclose(told, find("triangular_solve").function(a, b, **flags), rtol=1e-12)
    assert cupyx == ([(2 if adjoint else 0, lower)] if b.size else [])


def test_a_batch_of_triangles_is_solved_by_halves(cupyx: list[Any]) -> None:
    a, b = rng.normal(size=(5, 3, 3)) + 4 * np.eye(3), rng.normal(size=(3, 2))

    told = systems.triangular_solve_of_cupy(a, b, lower=True, adjoint=False)

    np.testing.assert_allclose(told, np.linalg.solve(np.tril(a), b), rtol=1e-12)
    assert cupyx == []


def test_a_zero_that_cublas_would_divide_by_is_found(cupyx: list[Any]) -> None:
    with pytest.raises(KernelError, match="triangular_solve needs diagonals without zeros"):
        systems.triangular_solve_of_cupy(np.diag([1.0, 0.0]), np.ones((2, 1)), lower=True, adjoint=False)


def test_one_matrix_for_a_batch_is_factored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    solve = np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: (seen.append((a.shape, b.shape)), solve(a, b))[1])

    find("solve").function(np.eye(3), np.zeros((7, 5, 3, 2)))

    assert seen == [((3, 3), (3, 70))]


@pytest.mark.parametrize("op", ["solve", "triangular_solve"])
@pytest.mark.parametrize("shapes", [((3, 3), (3,)), ((3, 2), (3, 1)), ((3, 3), (2, 1)), ((3,), (3, 1))])
def test_shapes_that_come_late_are_checked_in_the_step(op: str, shapes: Any) -> None:
    flags = {} if op == "solve" else {"lower": True, "adjoint": False}

    with pytest.raises(SpecError, match=f"{op} needs square matrices and as many rows in b, got"):
        find(op).function(*map(np.ones, shapes), **flags)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_many_small_triangles_are_solved_side_by_side(lower: bool, adjoint: bool, dtype: str) -> None:
    a = (rng.normal(size=(3, 150, 5, 5)) + 4 * np.eye(5)).astype(dtype)
    b = rng.normal(size=(150, 5, 2)).astype(dtype)
    if dtype == "complex128":
        a += 1j * rng.normal(size=a.shape)

    told = find("triangular_solve").function(a, b, lower=lower, adjoint=adjoint)

    triangles = np.tril(a) if lower else np.triu(a)
    triangles = triangles.conj().swapaxes(-1, -2) if adjoint else triangles
    rtol = 1e-12 if dtype == "complex128" else 1e-4
    np.testing.assert_allclose(
        told, np.linalg.solve(triangles, np.broadcast_to(b, (3, *b.shape))), rtol=rtol, atol=rtol
    )
    assert told.dtype == dtype


def test_the_first_of_many_triangles_with_a_zero_is_named() -> None:
    a = np.tile(np.eye(3), (100, 1, 1))
    a[70, 1, 1] = 0

    with pytest.raises(KernelError, match=r"diagonals without zeros, got .* the first at index \(70,\)"):
        find("triangular_solve").function(a, np.ones((100, 3, 1)), lower=True, adjoint=False)
