"""A spec: what it takes for a shape and a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import SpecError
from actorflow.values.spec import ListSpec, Shape, Spec, sizes, spec, unify


@pytest.mark.parametrize("dtype", ["bytes", object, "float32", np.float32, np.dtype("int8"), "bfloat16"])
@pytest.mark.parametrize("shape", [None, (), (None, 3), [2, 3], (np.int64(2),)])
def test_a_spec_takes_what_means_a_dtype_and_a_shape(dtype: Any, shape: Any) -> None:
    made = Spec(shape, dtype)

    assert made == spec(dtype, shape)
    assert isinstance(made.dtype, np.dtype)
    assert made.shape is None or all(size is None or type(size) is int for size in made.shape)


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        ("bytes", (), "a spec is a shape and a dtype: no tensor has dtype ()"),
        ((), "float99", "a spec is a shape and a dtype: no tensor has dtype 'float99'"),
        ("bytes", "bytes", "a shape is a tuple of sizes, each an integer or None, got 'bytes'"),
        ((1.5,), "int8", "a shape is a tuple of sizes"),
        ([-1], "int8", "sizes cannot be negative"),
        (3, "int8", "a shape is a tuple of sizes"),
    ],
)
def test_a_spec_of_what_means_none_is_refused(shape: Any, dtype: Any, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Spec(shape, dtype)

    assert text in caught.value.what


def test_sizes_are_those_of_a_shape_that_is_known() -> None:
    assert sizes((2, 0)) == (2, 0)


@pytest.mark.parametrize(("shape", "told"), [(None, "(...)"), ((2, None), "(2, None)")])
def test_sizes_that_are_not_known_are_refused(shape: Shape, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        sizes(shape)

    assert caught.value.what == f"every size must be known, got {told}"


def test_a_spec_of_a_list_tells_its_size_and_its_elements() -> None:
    grows, nested = ListSpec(spec("int8", (None, 3))), ListSpec(ListSpec(spec("int8"), 2), 3)

    assert str(grows) == "list of (None, 3) int8"
    assert str(nested) == "list of 3 × list of 2 × () int8"
    assert (grows.shape, grows.size, grows.rank, grows.dtype) == ((None,), None, 1, np.int8)
    assert (nested.shape, nested.size) == ((3,), 3)
    assert not nested.is_static
    assert not ListSpec(spec("int8"), 3).fits((3,), np.dtype("int8"))
    assert ListSpec(spec("int8"), 3) != spec("int8", (3,))
    assert len({grows, ListSpec(spec("int8", (None, 3))), ListSpec(spec("int8"))}) == 2
    with pytest.raises(SpecError, match="sizes cannot be negative"):
        ListSpec(spec("int8"), -1)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (spec("int8", (None, 3)), spec("int8", (2, None)), spec("int8", (2, 3))),
        (spec("int8", (2,)), spec("int16", (2,)), None),
        (spec("int8", (2,)), spec("int8", (3,)), None),
        (ListSpec(spec("int8", (2,))), ListSpec(spec("int8", None), 4), ListSpec(spec("int8", (2,)), 4)),
        (ListSpec(spec("int8"), 3), ListSpec(spec("int8"), 4), None),
        (ListSpec(spec("int8")), ListSpec(spec("int16")), None),
        (ListSpec(spec("int8")), ListSpec(ListSpec(spec("int8"))), None),
        (ListSpec(spec("int8"), 3), spec("int8", (3,)), None),
    ],
)
def test_specs_agree_when_something_may_fit_both(a: Spec, b: Spec, wanted: Spec | None) -> None:
    for one, other in ((a, b), (b, a)):
        if wanted is None:
            with pytest.raises(SpecError, match="must agree, got"):
                unify(one, other)
        else:
            assert unify(one, other) == wanted
