"""The dtypes that the table of ops tells are those that the spec rules take, of the suite's own samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import OpDef
from actorflow.values.arrays import BYTES, NAMES, as_dtype, name_of
from actorflow.values.spec import Spec
from tests.ops.samples import SAMPLES
from tests.ops.test_conformance import COMPUTED, FEW, spec_of, taken
from tests.support.accepting import accepted
from tests.support.strategies import examples

EVERY = (*NAMES, name_of(BYTES))

HOW = "name some with @op(..., asked_with=({...},))"

# What an op takes depends on attributes or on another input; the table tells what it takes with one of them.
BY_ATTRIBUTE = {
    "cast": "complex numbers only to complex ones",
    "normalise_grad": "statistics of halves are float32",
    "put_along_axis": "only numbers are added up, and only those with an order have a largest",
    "scaled_dot_product_attention": "a mask is of bool, or of the dtype of q",
    "scaled_dot_product_attention_grad": "a mask is of bool, or of the dtype of q",
}


@pytest.mark.parametrize("op", [n for n in COMPUTED if n in SAMPLES])
def test_an_op_takes_the_dtypes_that_the_table_tells(op: str) -> None:
    """Each input in turn, with those that must be like it, in every dtype that there is."""
    told = accepted(opdef.lookup(op))
    assert told is not None, f"no attributes were found that the spec rule of {op} takes: {HOW}"

    varies = op in BY_ATTRIBUTE or len(opdef.lookup(op).asked_with) > 1
    ran: set[int] = set()

    @settings(FEW, max_examples=examples(6))
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        for _ in range(12):
            case = data.draw(SAMPLES[op].cases)
            if len(case.inputs) == len(told.inputs):
                break
        else:
            return  # inputs beyond those that it needs
        case = taken(op, case)
        specs = [spec_of(a) for a in case.inputs]
        ran.add(len(specs))
        for leader in dict.fromkeys(told.alike):
            for name in EVERY:
                changed = [
                    Spec(s.shape, as_dtype(name)) if alike == leader else s
                    for s, alike in zip(specs, told.alike, strict=True)
                ]
                expected = name in told.inputs[leader]
                assert answers(op, changed, case.attrs) or not expected or varies
                assert expected or not answers(op, changed, case.attrs), f"with {case.attrs}: {HOW}"

    law()
    assert ran or not told.inputs, (
        f"no case of {op} has the {len(told.inputs)} inputs that the table tells of"
    )


def answers(op: str, specs: Sequence[Spec], attrs: Any) -> bool:
    try:
        opdef.lookup(op).spec(specs, attrs)
    except SpecError:
        return False
    return True


def test_every_op_tells_its_dtypes() -> None:
    unknown = [name for name, definition in opdef.table().items() if accepted(definition) is None]

    assert not unknown, HOW


def defined(rule: Any, constructor: Any) -> OpDef:
    return OpDef("planted", constructor, rule, None, opdef.Effect.PURE)


def test_inputs_that_share_a_dtype_and_one_that_does_not_are_told_apart() -> None:
    def rule(inputs: Sequence[Spec], attrs: Any) -> Sequence[Spec]:
        a, b, at = inputs
        if a.dtype != b.dtype or at.dtype.name != "int32" or attrs["axis"] != 1:
            raise SpecError("no")
        return (a,)

    told = accepted(defined(rule, lambda a, b, at, axis=1: None))

    assert told is not None
    assert told.inputs == (EVERY, EVERY, ("int32",))
    assert told.alike == (0, 0, 2)


def test_a_rule_is_asked_with_the_attributes_that_its_op_names() -> None:
    """Those of one set may please it with other dtypes than those of another."""

    def rule(inputs: Sequence[Spec], attrs: Any) -> Sequence[Spec]:
        (x,) = inputs
        if (attrs["method"], x.dtype.kind) not in (("exact", "i"), ("smooth", "f")):
            raise SpecError("no")
        return (x,)

    planted = defined(rule, lambda x, method: None)
    told = accepted(replace(planted, asked_with=({"method": "exact"}, {"method": "smooth"})))

    assert accepted(planted) is None
    assert told is not None
    assert told.inputs == (("int8", "int16", "int32", "int64", "float16", "float32", "float64"),)


def test_a_rule_that_nothing_pleases_is_unknown_and_not_guessed() -> None:
    def rule(inputs: Sequence[Spec], attrs: Any) -> Sequence[Spec]:
        raise SpecError(f"never {attrs['axis']}")

    assert accepted(defined(rule, lambda x, axis: None)) is None
