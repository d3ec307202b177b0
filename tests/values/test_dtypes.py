"""Which dtypes mix: the table of the Python array API, and the laws that make the order not matter."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import array_api_strict
import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from actorflow.values.arrays import NAMES, as_dtype, name_of
from actorflow.values.dtypes import common, kind_of
from tests.kernels.strict import NAMES as STANDARD
from tests.kernels.strict import numpy_dtype

PAIRS = list(product(NAMES, repeat=2))
BY_OURSELVES = {  # half precision is not in the standard; neither holds the other
    frozenset(("float16", "bfloat16")): "float32",
}


def standard(a: str, b: str) -> str | None:
    """What array_api_strict says, None for a pair that the standard leaves undefined."""
    try:
        return numpy_dtype(array_api_strict.result_type(STANDARD[a], STANDARD[b])).name
    except TypeError:
        return None


def ours(*names: str) -> str | None:
    found = common(map(as_dtype, names))
    return None if found is None else name_of(found)


@pytest.mark.parametrize(("a", "b"), [pair for pair in PAIRS if set(pair) <= set(STANDARD)])
def test_two_dtypes_of_the_standard_mix_as_it_says(a: str, b: str) -> None:
    assert ours(a, b) == standard(a, b)


@pytest.mark.parametrize(("a", "b"), [pair for pair in PAIRS if not set(pair) <= set(STANDARD)])
def test_halves_mix_as_numpy_has_it_within_their_kind(a: str, b: str) -> None:
    kinds = {kind_of(as_dtype(a)), kind_of(as_dtype(b))}
    if frozenset((a, b)) in BY_OURSELVES:
        told: Any = BY_OURSELVES[frozenset((a, b))]
    elif kinds <= {"f", "c"} or a == b:
        told = np.result_type(as_dtype(a), as_dtype(b)).name
    else:
        told = None

    assert ours(a, b) == told


def test_the_order_does_not_matter_and_neither_does_what_is_mixed_first() -> None:
    """Of any three, in all orders: one dtype, or none in every order."""
    for names in product((*NAMES, "bytes"), repeat=3):
        assert len({ours(*order) for order in permutations(names)}) == 1
    for name in (*NAMES, "bytes"):
        assert ours(name, name) == name


def test_what_is_mixed_holds_every_value_of_both() -> None:
    for a, b in PAIRS:
        found = ours(a, b)
        if found is not None:
            assert af.can_cast(a, found) and af.can_cast(b, found)
            if {kind_of(as_dtype(n)) for n in (a, b)} <= {"i", "u"}:
                low, high = af.iinfo(found).min, af.iinfo(found).max
                assert all(low <= af.iinfo(n).min and af.iinfo(n).max <= high for n in (a, b))


def test_result_type_takes_dtypes_tensors_and_arrays() -> None:
    with af.Graph():
        x = af.placeholder("float32", (3,))

        assert af.result_type(x, np.zeros(2), "bfloat16") == "float64"
        assert af.result_type(np.float32, "complex64") == "complex64"


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        (
            ("int32", "float32"),
            "these dtypes do not mix: int32, float32",
            "integers and floating numbers are not",
        ),
        (("bool", "int8"), "these dtypes do not mix: bool, int8", "bool and integers are not mixed"),
        (("int8", "uint64"), "these dtypes do not mix: int8, uint64", "no integer dtype holds all values"),
        ((), "takes at least one dtype or tensor", None),
        (("str",), "no tensor has dtype 'str'", None),
    ],
)
def test_what_does_not_mix_is_refused_with_the_reason(
    given: tuple[str, ...], said: str, hint: str | None
) -> None:
    with pytest.raises(SpecError) as caught:
        af.result_type(*given)

    assert said in caught.value.what
    assert hint is None or hint in str(caught.value.hint)


def test_can_cast_is_what_promotion_keeps() -> None:
    assert (
        af.can_cast("int8", "int16") and af.can_cast("uint8", "int16") and af.can_cast("bfloat16", "float32")
    )
    assert not any(
        map(af.can_cast, ("int16", "int8", "int32", "bool"), ("int8", "uint32", "float64", "int8"))
    )


def test_limits_are_told_for_every_dtype_that_has_some() -> None:
    for name in NAMES:
        kind = kind_of(as_dtype(name))
        if kind in "iu":
            assert af.iinfo(name).max == np.iinfo(name).max
        elif kind in "fc":
            assert float(af.finfo(name).eps) > 0 and float(af.finfo(name).max) > 1e4
    with pytest.raises(SpecError, match="finfo takes floating or complex dtypes, got int8"):
        af.finfo("int8")
    with pytest.raises(SpecError, match="iinfo takes integer dtypes, got bool"):
        af.iinfo("bool")
