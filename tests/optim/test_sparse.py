"""Sparse gradients: each rule moves the rows that they touch as it would alone, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import optim
from actorflow.values.arrays import as_dtype
from actorflow.values.sparse import SparseRows
from tests.optim.test_laws import DTYPES, RULES, bits, frozen, leaves
from tests.support.strategies import examples

SPARSE = {name: rule for name, rule in RULES.items() if rule.sparse}
every_sparse_rule = pytest.mark.parametrize("transform", SPARSE.values(), ids=SPARSE.keys())
FEW = settings(deadline=None, max_examples=examples(25))


def kept(before: Any, after: Any) -> Any:
    """The state after an update: rows go where they belong."""
    if isinstance(after, SparseRows):
        whole = np.array(before)
        whole[after.indices] = after.values
        return whole
    if isinstance(after, dict):
        return {k: kept(before[k], v) for k, v in after.items()}
    if isinstance(after, tuple):
        return tuple(kept(b, a) for b, a in zip(before, after, strict=True))
    return after


@st.composite
def updates(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Params, and gradients of some updates: SparseRows for `table`, dense ones for `bias`."""
    dtype = as_dtype(draw(st.sampled_from(DTYPES)))
    n, width = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def numbers(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    grads = []
    for at in draw(st.lists(st.sets(st.integers(0, n - 1)), min_size=1, max_size=4)):
        rows = SparseRows(np.array(sorted(at), np.int64), numbers(len(at), width), (n, width))
        grads.append({"table": rows, "bias": numbers(2)})
    return {"table": numbers(n, width), "bias": numbers(2)}, grads


def test_the_rules_that_are_there_take_sparse_gradients() -> None:
    assert {r.name for r in SPARSE.values()} >= {"sgd", "momentum", "adam", "clip_by_global_norm", "chain"}
    assert not optim.chain(optim.sgd(1.0), optim.Transform(init=len, update=divmod)).sparse  # type: ignore[arg-type]


@every_sparse_rule
@FEW
@given(drawn=updates())
def test_an_update_by_rows_keeps_the_contract_and_changes_no_input(
    transform: optim.Transform, drawn: Any
) -> None:
    params, gradients = drawn
    state = transform.init(frozen(params))
    for grads in gradients:
        rows = grads["table"]
        frozen({"values": rows.values, "indices": rows.indices, "bias": grads["bias"], "state": state})
        before = bits(params, rows.values, rows.indices, grads["bias"], state)

        deltas, after = transform.update(grads, state, params)

        assert bits(params, rows.values, rows.indices, grads["bias"], state) == before
        assert isinstance(deltas["table"], SparseRows)
        assert deltas["table"].indices.tolist() == rows.indices.tolist()
        assert (deltas["table"].shape, deltas["table"].dtype) == (rows.shape, rows.dtype)
        assert isinstance(deltas["bias"], np.ndarray)
        new = kept(state, after)
        assert [(a.shape, a.dtype) for a in leaves(new)] == [(b.shape, b.dtype) for b in leaves(state)]
        state = new


@every_sparse_rule
@FEW
@given(drawn=updates())
def test_touched_rows_move_as_in_a_dense_update_and_the_others_stay(
    transform: optim.Transform, drawn: Any
) -> None:
    params, gradients = drawn
    state = transform.init(params)
    for grads in gradients:
        rows = grads["table"]
        whole = {**grads, "table": rows.to_dense()}

        deltas, after = transform.update(grads, state, params)
        dense_deltas, dense_after = transform.update(whole, state, params)

        if "clip" in transform.name + str(transform.config):  # a norm of zeros as well, added up otherwise
            near = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 1e-5}.get(rows.dtype.name, 1e-12)
            for got, want in zip(leaves(kept(whole, deltas)), leaves(dense_deltas), strict=True):
                np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=near, atol=near)
            continue
        assert bits(deltas["table"].values) == bits(dense_deltas["table"][rows.indices])
        assert bits(deltas["bias"]) == bits(dense_deltas["bias"])
        new = kept(state, after)
        others = np.setdiff1d(np.arange(rows.shape[0]), rows.indices)
        for got, dense_leaf, old in zip(leaves(new), leaves(dense_after), leaves(state), strict=True):
            if got.shape == rows.shape and got.ndim == 2:
                assert bits(got[rows.indices]) == bits(dense_leaf[rows.indices])
                assert bits(got[others]) == bits(old[others])
            else:
                assert bits(got) == bits(dense_leaf)
        state = new


def test_rules_that_look_at_whole_parameters_are_handed_dense_gradients() -> None:
    assert {r.name for r in RULES.values() if not r.sparse} == {"lamb", "lbfgs", "centralise", "accumulate"}
