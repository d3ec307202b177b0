"""What every op does with inputs of a wrong dtype or shape: it refuses them while the graph is built,
naming them and the user's lines, or it takes them, and then its kernel computes what the rule said."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import ActorflowError, SpecError
from actorflow.graph.builder import build
from actorflow.values.arrays import NAMES, as_dtype
from tests.ops.samples import SAMPLES, Case
from tests.ops.test_conformance import COMPUTED, quiet, spec_of
from tests.support.reference import evaluate
from tests.support.strategies import examples

FEW = settings(max_examples=examples(25), deadline=None)


def misshapen(draw: st.DrawFn, array: np.ndarray) -> Any:
    """The array with an axis too many, one too few, or one that is longer or shorter."""
    kinds = ["more axes"] + (["fewer axes", "longer", "shorter"] if array.ndim else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "more axes":
        return array[None]
    axis = draw(st.integers(0, array.ndim - 1))
    if kind == "longer":
        return np.concatenate([array, array.take([0] if array.shape[axis] else [], axis)], axis)
    if kind == "shorter" or not array.shape[axis]:
        return array.take(range(max(array.shape[axis] - 1, 0)), axis)
    return array.take([0], axis).reshape(np.delete(array.shape, axis))


def of_dtype(array: np.ndarray, name: str) -> np.ndarray:
    """The same numbers in another dtype; ones in place of texts, and a text in place of numbers."""
    if name == "bytes":
        return np.full(array.shape, b"1", object)
    if array.dtype == object:
        return np.ones(array.shape, as_dtype(name))
    with quiet():
        return array.astype(as_dtype(name))


@st.composite
def misused(draw: st.DrawFn, op: str) -> tuple[list[Any], Case]:
    """A case of `op`, and its inputs with one or two changes of dtype or shape."""
    case = draw(SAMPLES[op].cases)
    arrays: list[Any] = list(case.inputs)
    for _ in range(draw(st.integers(1, 2) if arrays else st.just(0))):
        i = draw(st.integers(0, len(arrays) - 1))
        if draw(st.booleans()):
            arrays[i] = of_dtype(np.asarray(arrays[i]), draw(st.sampled_from([*NAMES, "bytes"])))
        else:
            arrays[i] = misshapen(draw, np.asarray(arrays[i]))
    return arrays, case


@pytest.mark.parametrize("op", [op for op in COMPUTED if op in SAMPLES])
def test_misuse_is_refused_at_build_or_has_a_meaning(op: str) -> None:
    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        arrays, case = data.draw(misused(op))
        with af.Graph() as graph:
            graph.objects.update(case.objects)
            xs = [af.placeholder(a.dtype, a.shape, name=f"input_{i}") for i, a in enumerate(arrays)]
            try:
                made = build(op, xs, case.attrs)
            except SpecError as error:
                check_report(op, xs, error)
                return
        with quiet():
            try:
                values = evaluate(graph, made, dict(zip(xs, arrays, strict=True)))
            except ActorflowError:  # about values: a matrix that is singular
                return
            except (IndexError, ValueError):  # as well: an index outside, a mask of another number
                assert any(a.dtype.kind in "biu" for a in case.inputs)
                return
        for value, tensor in zip(values, made, strict=True):
            assert tensor.spec.fits(value.shape, value.dtype), f"{tensor.spec} said, {spec_of(value)} made"

    law()


def check_report(op: str, xs: list[af.Tensor], error: SpecError) -> None:
    assert error.where is not None
    assert error.where.op == op
    assert re.fullmatch(r"tests/ops/test_misuse\.py:\d+", str(error.where.defined_at))
    for i, x in enumerate(xs):
        assert f"input {i}: input_{i}:0 {x.spec}, defined at tests/ops/test_misuse.py:" in str(error)
