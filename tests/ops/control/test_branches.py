"""`cond`, `case` and `switch_case`: which branch is taken, what both must agree in, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import ActorflowError, GraphError, SpecError
from actorflow.graph.slices import IndexedSlices
from actorflow.values.spec import spec
from tests.support.sessions import run_step

# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [True, False])
def test_cond_takes_the_branch_of_its_predicate(taken: bool) -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        y = af.cond(p, lambda: {"a": 1.0, "b": (2, None)}, lambda: {"a": 3.0, "b": (4, None)})

    assert run_step(graph, y, {p: taken}) == ({"a": 1, "b": (2, None)} if taken else {"a": 3, "b": (4, None)})


@pytest.mark.parametrize(("index", "given"), [(0, 10), (1, 11), (2, 12), (3, 12), (-1, 12)])
def test_switch_case_takes_the_last_branch_for_a_number_that_none_has(index: int, given: int) -> None:
    with af.Graph() as graph:
        i = af.placeholder("int64", name="i")
        y = af.switch_case(i, [partial(af.constant, 10 + k) for k in range(3)])

    assert run_step(graph, y, {i: index}) == given


def test_a_switch_of_one_branch_takes_it() -> None:
    with af.Graph() as graph:
        i = af.placeholder("int32", name="i")
        y = af.switch_case(i, [lambda: 7.0])

    assert [run_step(graph, y, {i: k}) for k in (-3, 0, 5)] == [7, 7, 7]


@pytest.mark.parametrize(
    ("a", "b", "given"), [(True, True, 1), (False, True, 2), (True, False, 1), (False, False, 3)]
)
def test_case_takes_the_first_that_is_true(a: bool, b: bool, given: int) -> None:
    with af.Graph() as graph:
        p, q = af.placeholder("bool", name="p"), af.placeholder("bool", name="q")
        y = af.case([(p, lambda: 1), (q, lambda: 2)], lambda: 3)
        alone = af.case([], lambda: 4)

    assert run_step(graph, [y, alone], {p: a, q: b}) == [given, 4]


def test_what_the_branch_that_is_not_taken_computes_does_not_happen() -> None:
    with af.Graph() as graph:
        p, i = af.placeholder("bool", name="p"), af.placeholder("int32", name="i")
        table = af.constant([1.0, 2.0])
        y = af.cond(p, lambda: af.gather(table, i), lambda: -1.0)

    assert run_step(graph, y, {p: False, i: 99}) == -1
    with pytest.raises(af.errors.KernelError, match="out of bounds"):
        run_step(graph, y, {p: True, i: 99})


def test_sizes_in_which_the_branches_differ_are_unknown() -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        x = af.placeholder("float32", (2, 3), "x")
        y = af.cond(p, lambda: x, lambda: x[:, :1])
        z = af.cond(p, lambda: x, lambda: x[0])
        slopes = af.gradients([af.sum(y), af.sum(z)], x)

    assert (y.shape, z.shape) == ((2, None), None)
    found = [
        run_step(graph, [y, z, *slopes], {p: taken, x: np.ones((2, 3), "float32")}) for taken in (True, False)
    ]
    assert [[v.shape for v in values] for values in found] == [[(2, 3)] * 3, [(2, 1), (3,), (2, 3)]]
    assert found[1][2].tolist() == [[2, 1, 1], [1, 0, 0]]


def test_a_number_takes_the_dtype_of_the_tensor_in_another_branch() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float16", name="x")
        y = af.cond(x > 1, lambda: x, lambda: 0)

    assert y.dtype == np.float16
    assert run_step(graph, y, {x: 0.5}) == 0


def test_a_predicate_of_unknown_rank_is_looked_at_in_the_step() -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", None, "p")
        y = af.cond(p, lambda: 1, lambda: 2)

    assert run_step(graph, y, {p: True}) == 1
    with pytest.raises(ActorflowError, match="case"):
        run_step(graph, y, {p: [True, False]})


# -- gradients -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [True, False])
def test_gradients_go_through_the_branch_that_was_taken(taken: bool) -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        x, v = af.placeholder("float64", name="x"), af.Variable(3.0, dtype="float64", name="v")
        y = af.cond(p, lambda: x * x * v, lambda: af.sin(x))
        first = af.gradients(y, [x, v])
        (second,) = af.gradients(first[0], x)

    found = run_step(graph, [*first, second], {p: taken, x: 2.0})

    np.testing.assert_allclose(found, [12, 4, 6] if taken else [np.cos(2.0), 0, -np.sin(2.0)])


def test_no_gradient_flows_where_no_branch_leads() -> None:
    with af.Graph():
        p = af.placeholder("bool", name="p")
        x, z = af.placeholder("float32", name="x"), af.placeholder("float32", name="z")
        y = af.cond(p, lambda: x + af.stop_gradient(z), lambda: x * 2.0)

        assert af.gradients(y, z) == [None]
        assert af.gradients(y, [p]) == [None]


def test_rows_of_a_table_in_both_branches_have_sparse_gradients() -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        table = af.Variable(np.ones((5, 2)), name="table")
        y = af.cond(p, lambda: af.sum(af.gather(table, [1, 3])), lambda: af.sum(af.gather(table, [4])) * 2.0)
        (slope,) = af.gradients(y, table)
        assert isinstance(slope, IndexedSlices)
        dense = slope.to_dense()

    assert run_step(graph, dense, {p: True}).sum(1).tolist() == [0, 2, 0, 2, 0]
    assert run_step(graph, dense, {p: False}).sum(1).tolist() == [0, 0, 0, 0, 4]
    assert len(run_step(graph, slope.indices, {p: False})) == 1


NOT: Any = 2.0
"""What is no function."""


def test_a_branch_that_does_not_look_into_a_table_gives_no_rows_of_it() -> None:
    with af.Graph() as graph:
        p = af.placeholder("bool", name="p")
        table = af.Variable(np.ones((5, 2)), name="table")
        y = af.cond(p, lambda: af.sum(af.gather(table, [1, 3])), lambda: np.float64(0))
        (slope,) = af.gradients(y, table)
        assert isinstance(slope, IndexedSlices)
        dense = slope.to_dense()

    assert run_step(graph, dense, {p: True}).sum(1).tolist() == [0, 2, 0, 2, 0]
    assert run_step(graph, [slope.values, dense], {p: False})[0].shape == (0, 2)
    assert not run_step(graph, dense, {p: False}).any()


# -- refusals ------------------------------------------------------------------------------------------


def error_of(kind: type[ActorflowError], build: Any) -> ActorflowError:
    with af.Graph():
        x = af.placeholder("float32", (2,), "x")
        with pytest.raises(kind) as caught:
            build(x)
    assert "test_branches.py:" in str(caught.value.where)
    return caught.value


def test_branches_of_two_dtypes_are_told_with_both_specs_and_lines() -> None:
    error = error_of(SpecError, lambda x: af.cond(True, lambda: x * 1.0, lambda: af.cast(x, "float64")))

    lines = error.what.splitlines()
    assert lines[0] == "result 0 has one spec in all branches, got"
    assert lines[1].startswith("  (2,) float64 from branch 'false' of 'cond', defined at ")
    assert lines[2].startswith("  (2,) float32 from branch 'true' of 'cond', defined at ")
    assert all("test_branches.py:" in line for line in lines[1:])
    assert error.hint == "convert one with af.cast"


@pytest.mark.parametrize(
    ("kind", "build", "said"),
    [
        (SpecError, lambda x: af.cond(1, lambda: x, lambda: x), "cond takes a bool scalar, got () int32"),
        (SpecError, lambda x: af.cond(x > 1, lambda: x, lambda: x), "cond takes a bool scalar, got (2,) bool"),
        (GraphError, lambda x: af.cond(True, lambda: (x, x), lambda: x), "got (tensor, tensor) from branch 'true' of 'cond', and tensor"),
        (GraphError, lambda x: af.cond(True, lambda: x, NOT), "branch 'false' of 'cond' is built by a function, got float 2.0"),
        (SpecError, lambda x: af.switch_case(1.5, [lambda: x]), "switch_case takes an integer scalar, got () float32"),
        (GraphError, lambda x: af.switch_case(1, []), "a list of functions, one or more, got []"),
        (SpecError, lambda x: af.switch_case(1, NOT), "takes a list or tuple as branches, got 2.0"),
        (GraphError, lambda x: af.case([NOT], lambda: x), "a list of pairs (predicate, function)"),
        (SpecError, lambda x: af.case([(True, lambda: x), (x, lambda: x)], lambda: x), "got (2,) float32 as predicate 1"),
    ],
)  # fmt: skip
def test_what_is_no_branch_is_refused(kind: Any, build: Any, said: str) -> None:
    assert said in error_of(kind, build).what


def test_what_builds_no_branch_is_refused_and_says_what_to_do() -> None:
    async def later() -> None: ...

    with af.Graph() as graph:
        with pytest.raises(
            GraphError, match=r"branch 'true' of 'cond' .* called with no arguments, got .*takes \(x\)"
        ):
            af.cond(True, lambda x: x, lambda: 0.0)
        with pytest.raises(GraphError, match="branch 'false' of 'cond' .* got the async def") as caught:
            af.cond(True, lambda: 0.0, later)
        assert "af.py_actor" in str(caught.value.hint)
        with pytest.raises(GraphError, match="got None from branch 'true' of 'cond', and tensor") as caught:
            af.cond(True, lambda: None, lambda: 0.0)
        assert "without a return" in str(caught.value.hint)
    assert not graph.bodies


def test_keys_of_dicts_come_in_any_order_and_pairs_as_lists() -> None:
    with af.Graph() as graph:
        y = af.cond(False, lambda: {"a": 1, "b": 2}, lambda: {"b": 3, "a": 4})
        z = af.case([[False, lambda: 1], [True, lambda: 2]], lambda: 3)

    assert run_step(graph, [y["a"], y["b"], z]) == [4, 3, 2]


# -- effects -------------------------------------------------------------------------------------------


def test_an_effect_that_only_one_branch_captures_is_refused_with_its_line() -> None:
    with af.Graph():
        v = af.Variable(1.0, name="v")
        written = v.assign_add(1.0)
        with pytest.raises(GraphError, match="happens whichever is taken, got 'v/assign_add'") as caught:
            af.cond(True, lambda: written * 1.0, lambda: 0.0)

    assert written.node.defined_at in caught.value.what
    assert "which only branch 'true' of 'cond' uses" in caught.value.what
    assert "build it inside the branch" in str(caught.value.hint)


def test_an_effect_that_both_branches_or_others_use_is_allowed() -> None:
    with af.Graph() as graph:
        v, w = af.Variable(1.0, name="v"), af.Variable(1.0, name="w")
        both, other = v.assign_add(1.0), w.assign_add(2.0)
        y = af.cond(False, lambda: both * 10.0, lambda: both)
        doubled = other * 2.0
        z = af.cond(False, lambda: other * 10.0, lambda: 0.0)
        always = af.arrays.identity(v.assign_add(5.0))
        u = af.cond(False, lambda: always * 10.0, lambda: 0.0)

    assert run_step(graph, [y, doubled, z, u]) == [2, 6, 0, 0]


def test_an_effect_behind_what_only_one_branch_uses_is_refused_too() -> None:
    async def twice(x: Any) -> Any:
        return x * 2

    with af.Graph():
        queue = af.state.FIFOQueue(2, ["float32"], [()])
        taken = af.sqrt(queue.dequeue() * 2.0 + 1.0)
        with pytest.raises(GraphError, match="got 'queue/dequeue' .*which only branch 'true'"):
            af.cond(True, lambda: taken, lambda: 0.0)
        asked = af.py_actor(twice, [1.0], spec("float32")) + 1.0
        with pytest.raises(GraphError, match="happens whichever is taken, got 'twice"):
            af.cond(True, lambda: 0.0, lambda: asked)
        looped = af.while_loop(lambda x: x < 3.0, lambda x: x + queue.dequeue(), 0.0) * 2.0
        with pytest.raises(GraphError, match="happens whichever is taken, got 'while_loop'"):
            af.cond(True, lambda: 0.0, lambda: looped)


def test_an_effect_behind_what_others_use_is_allowed() -> None:
    with af.Graph() as graph:
        v = af.Variable(1.0, name="v")
        both, decides, other, always = (v.assign_add(1.0) for _ in range(4))
        doubled = both * 2.0
        tested = decides * 2.0
        shared = other * 2.0
        used = shared + 1.0
        apart = af.arrays.identity(always) * 2.0
        found = [
            af.cond(False, lambda: doubled * 2.0, lambda: both),
            af.cond(tested < 0.0, lambda: tested * 3.0, lambda: 0.0),
            af.cond(False, lambda: shared * 3.0, lambda: 0.0),
            used,
            af.cond(False, lambda: apart, lambda: 0.0),
        ]

    assert run_step(graph, found) == [2, 0, 0, 9, 0]


def test_a_dequeue_that_only_one_branch_uses_is_refused() -> None:
    with af.Graph():
        queue = af.state.FIFOQueue(2, ["float32"], [()])
        taken = queue.dequeue()
        with pytest.raises(GraphError, match="happens whichever is taken"):
            af.cond(True, lambda: 0.0, lambda: taken)
