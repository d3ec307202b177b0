"""A kernel that says it serves every library uses nothing that only numpy has, and computes the same."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as draw_from
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.values.spec import Spec
from tests.kernels import strict
from tests.ops.samples import SAMPLES, Case
from tests.ops.test_conformance import COMPUTED, FEW, converted, of_bytes, quiet

for path in sorted((Path(__file__).parents[2] / "ops").glob("samples_*.py")):
    import_module(f"tests.ops.{path.stem}")

COUNTER = {"counter": (1, 2, 3, 4)}
FOR_EVERY = sorted(op for op, lib in registry.table() if lib == registry.EVERY and op in SAMPLES)
NUMPY_TOO = [op for op in FOR_EVERY if (op, "numpy") in registry.table()]

# Kernels that array_api_strict cannot run, or some cases of which it cannot, and why.
_INDEX = "users index as in numpy: the standard has no stops beyond the end and no implied ellipsis"
_NOT_YET = "numpy and CuPy have the function, the standard does not"
NEVER: dict[str, str] = {"slice": _INDEX, "slice_grad": _INDEX, "slice_update": _INDEX}
NEVER |= dict.fromkeys(("cbrt", "exp2", "fmod"), _NOT_YET)
NEVER["complex"] = "the standard makes no complex number of two parts that may be infinite"
_NO_HALVES = ("the standard has no halves", lambda case: case.attrs["dtype"] in strict.NAMES)
_NO_ORDER = ("the standard has no order of complex numbers", lambda case: case.inputs[0].dtype.kind != "c")
SOME: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _NO_ORDER),
    "arange": _NO_HALVES,
    "eye": _NO_HALVES,
    "linspace": _NO_HALVES,
    "one_hot": _NO_HALVES,
    "random_normal": _NO_HALVES,
    "random_exponential": _NO_HALVES,
    "random_truncated_normal": _NO_HALVES,
    "random_uniform": _NO_HALVES,
    "squeeze": ("axis=None is not in the standard", lambda case: case.attrs["axis"] is not None),
    "expand_dims": ("one axis at a time in the standard", lambda case: isinstance(case.attrs["axis"], int)),
}


def test_every_op_has_a_kernel_for_a_card() -> None:
    """The other half, that they compute what numpy computes, is in tests/gpu."""
    computed = {n for n in COMPUTED if not of_bytes(n)}
    served = {op for op, library in registry.table() if library in (registry.EVERY, "cupy")}

    assert computed - served == set()


def agree(made: Any, told: Any, dtype: str) -> None:
    """Halves round at other places, wider floats may be summed in another order, the rest is equal."""
    made, told = (m if isinstance(m, tuple) else (m,) for m in (made, told))
    assert len(made) == len(told)
    rtol = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-12)
    for m, t in zip(made, told, strict=True):
        assert (m.shape, m.dtype) == (t.shape, t.dtype)
        wide = "complex128" if m.dtype.kind == "c" else "float64"
        np.testing.assert_allclose(m.astype(wide), t.astype(wide), rtol=rtol, atol=rtol)


def usable(op: str, case: Case) -> bool:
    """Whether the op's spec rule takes these inputs."""
    try:
        opdef.lookup(op).spec([Spec(a.shape, a.dtype) for a in case.inputs], case.attrs)
    except SpecError:
        return False
    return True


def extra(op: str) -> dict[str, Any]:
    return COUNTER if opdef.lookup(op).effect is Effect.RANDOM else {}


@pytest.mark.parametrize("op", NUMPY_TOO)
def test_the_kernel_for_every_library_computes_what_that_of_numpy_does(op: str) -> None:
    every, numpy = (registry.table()[op, library].function for library in (registry.EVERY, "numpy"))

    @FEW
    @draw_from(data=st.data())
    def law(data: st.DataObject) -> None:
        drawn = data.draw(SAMPLES[op].cases)
        for dtype in SAMPLES[op].dtypes:
            case = converted(drawn, dtype)
            if usable(op, case):
                with quiet():
                    made = every(*case.inputs, **case.attrs, **extra(op))
                    told = numpy(*case.inputs, **case.attrs, **extra(op))
                agree(made, told, dtype)

    law()


@pytest.mark.parametrize("op", [op for op in FOR_EVERY if op not in NEVER])
def test_it_uses_nothing_that_only_numpy_has(op: str) -> None:
    fits = SOME.get(op, ("", lambda case: True))[1]
    dtypes = [d for d in SAMPLES[op].dtypes if d in strict.NAMES]
    ran: set[str] = set()

    def goes(drawn: Case, dtype: str) -> bool:
        case = converted(drawn, dtype)
        return usable(op, case) and fits(case)

    @FEW
    @draw_from(drawn=SAMPLES[op].cases.filter(lambda drawn: any(goes(drawn, d) for d in dtypes)))
    def law(drawn: Case) -> None:
        for dtype in dtypes:
            if not goes(drawn, dtype):
                continue
            case = converted(drawn, dtype)
            with quiet(), strict.library() as xp:
                kernel = registry.table()[op, registry.EVERY].on(xp)
                made = kernel(*map(strict.taken, case.inputs), **case.attrs, **extra(op))
                made = tuple(map(strict.given, made if isinstance(made, tuple) else (made,)))
                told = registry.find(op).function(*case.inputs, **case.attrs, **extra(op))
            agree(made, told, dtype)
            ran.add(dtype)

    law()
    assert ran, f"no case of {op} ran"


def test_what_cannot_run_there_is_listed_with_a_reason() -> None:
    assert NEVER.keys() | SOME.keys() <= set(FOR_EVERY)
    assert all(NEVER.values()) and all(reason for reason, _ in SOME.values())


@pytest.mark.parametrize(
    "planted",
    [
        lambda x, *, xp=np: np.add(x, 1),  # leaves the library
        lambda x, *, xp=np: xp.add.reduce(x),  # a method that only a ufunc of numpy has
        lambda x, *, xp=np: xp.exp(x, out=x),
    ],
)
def test_a_planted_habit_of_numpy_is_caught(planted: Any) -> None:
    with strict.library() as xp, pytest.raises((AssertionError, AttributeError, TypeError)):
        strict.given(
            registry.Kernel("planted", registry.EVERY, planted, registry.elements).on(xp)(
                strict.taken(np.ones(3))
            )
        )
