"""Ops on lists compute what plain ops do, and their gradients are what differences measure, twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import GradientError, ListError, SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.ops.control import tensor_list
from actorflow.ops.control import tensor_list_rows as rows
from actorflow.values.spec import ListSpec, Spec, spec
from tests.ops.test_conformance import check_gradient, weighted
from tests.support.accepting import accepted
from tests.support.reference import evaluate
from tests.support.strategies import examples

Verb = Callable[[af.Tensor], af.Tensor]

X = np.array([[0.5, -1.0], [1.5, 2.0], [-0.7, 0.3], [1.1, -0.4]])
FLOATS = spec("float64", (None,))
PAIR = spec("float64", (2,))
PAIRS = spec("float64", (None, 2))


def new(element: Spec = PAIR, size: int | None = None) -> af.Tensor:
    return tensor_list.list_new(element, size)


def written(x: af.Tensor, order: Sequence[int], size: int | None = None) -> af.Tensor:
    """Rows of x in a list, written in this order."""
    found = new(Spec(None, x.dtype), size)
    for i in order:
        found = tensor_list.list_write(found, i, x[i])
    return found


def nested(x: af.Tensor) -> af.Tensor:
    """A list of two lists of pairs."""
    inner = new()
    outer = new(ListSpec(PAIR), 2)
    first = tensor_list.list_push(tensor_list.list_push(inner, x[0]), x[1] * x[1])
    return tensor_list.list_write(
        tensor_list.list_write(outer, 0, first), 1, tensor_list.list_write(inner, 1, x[2])
    )


PROGRAMS: dict[str, tuple[Verb, Any]] = {
    "stack what was written": (lambda x: rows.list_stack(written(x, (2, 0, 3, 1), 4)), X),
    "push": (
        lambda x: rows.list_stack(tensor_list.list_push(tensor_list.list_push(new(), x[1]), x[1] * x[0])),
        np.stack([X[1], X[1] * X[0]]),
    ),
    "read one index often": (
        lambda x: tensor_list.list_read(made := written(x, (0, 1)), 1) * tensor_list.list_read(made, 1),
        X[1] ** 2,
    ),
    "several versions": (
        lambda x: tensor_list.list_read(first := written(x, (0, 1)), 0)
        + af.sum(rows.list_stack(tensor_list.list_write(first, 2, x[3])), 0)
        + tensor_list.list_read(tensor_list.list_write(first, 2, x[2] * x[2]), 2),
        X[0] + X[0] + X[1] + X[3] + X[2] ** 2,
    ),
    "zeros where nothing is": (
        lambda x: tensor_list.list_read_or_zeros(made := written(x, (0,)), 0, x[1])
        + tensor_list.list_read_or_zeros(made, 5, x[1]),
        X[0],
    ),
    "unstack": (lambda x: af.square(rows.list_stack(rows.list_unstack(x))), X**2),
    "unstack and use some": (lambda x: tensor_list.list_read(rows.list_unstack(x), 2) ** 3, X[2] ** 3),
    "unstack into": (
        lambda x: rows.list_stack(rows.list_unstack(x[1:3], tensor_list.list_write(new(), 2, x[0]))),
        X[[1, 2, 0]],
    ),
    "stack like": (lambda x: rows.list_stack_like(written(x, (3, 1)), x), X * [[0], [1], [0], [1]]),
    "gather": (
        lambda x: rows.list_gather(rows.list_unstack(x), [3, 0, 3, 3]) ** 2,
        X[[3, 0, 3, 3]] ** 2,
    ),
    "gather like": (
        lambda x: rows.list_gather_like(written(x, (1, 3)), [3, 0, 3, 1], x),
        X[[3, 0, 3, 1]] * [[1], [0], [1], [1]],
    ),
    "scatter": (lambda x: rows.list_stack(rows.list_scatter([2, 0, 3, 1], x)), X[[1, 3, 0, 2]]),
    "scatter into": (
        lambda x: rows.list_stack(rows.list_scatter([1, 2], x[:2], tensor_list.list_write(new(), 0, x[3]))),
        X[[3, 0, 1]],
    ),
    "scatter and add": (
        lambda x: rows.list_stack(rows.list_scatter([1, 0, 1, 1], x, add=True)),
        np.stack([X[1], X[0] + X[2] + X[3]]),
    ),
    "concat": (
        lambda x: rows.list_concat(
            tensor_list.list_write(tensor_list.list_write(new(PAIRS), 1, x[:3] * x[:3]), 0, x[3:])
        ),
        np.concatenate([X[3:], X[:3] ** 2]),
    ),
    "split": (
        lambda x: af.sum(tensor_list.list_read(made := rows.list_split(x, [1, 0, 3]), 2), 0)
        * tensor_list.list_read(made, 0)[0],
        np.sum(X[1:], 0) * X[0],
    ),
    "split into and concat": (
        lambda x: rows.list_concat(rows.list_split(x, [3, 1], tensor_list.list_write(new(PAIRS), 2, x[:1]))),
        np.concatenate([X, X[:1]]),
    ),
    "concat like": (
        lambda x: rows.list_concat_like(tensor_list.list_write(new(PAIRS), 1, x[1:] ** 2), [1, 3], x),
        np.concatenate([0 * X[:1], X[1:] ** 2]),
    ),
    "lengths": (
        lambda x: af.cast(rows.list_lengths(rows.list_split(x, [1, 3])), "float64") * af.sum(x),
        np.array([1, 3]) * np.sum(X),
    ),
    "add": (
        lambda x: rows.list_stack(tensor_list.list_add(written(x, (0, 1)), tensor_list.list_write(new(), 1, x[2] ** 2))),
        np.stack([X[0], X[1] + X[2] ** 2]),
    ),
    "lists in a list": (
        lambda x: rows.list_stack(tensor_list.list_read(made := nested(x), 0))
        * tensor_list.list_read(tensor_list.list_read(made, 1), 1),
        np.stack([X[0], X[1] ** 2]) * X[2],
    ),
    "add lists of lists": (
        lambda x: rows.list_stack(tensor_list.list_read(tensor_list.list_add(nested(x), nested(x * x)), 0)),
        np.stack([X[0] + X[0] ** 2, X[1] ** 2 + X[1] ** 4]),
    ),
    "a list of no lists": (
        lambda x: x[0] * af.cast(tensor_list.list_size(tensor_list.list_read_or_zeros(nested(x), 3, new())) + 2, x.dtype),
        2 * X[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 2), (None, 2), None], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_on_lists_gives_the_values_and_gradients_of_plain_ops(program: str, shape: Any) -> None:
    verb, wanted = PROGRAMS[program]
    with af.Graph() as graph:
        x = af.placeholder("float64", shape, name="x")
        y = verb(x)
        loss = weighted([y], [wanted.shape], 1.0)
    again = af.io.from_data(*af.io.to_data(graph))

    np.testing.assert_allclose(evaluate(graph, y, {x: X}), wanted, rtol=1e-12)
    (grad,) = check_gradient(graph, loss, [x], [X])
    assert grad is not None
    assert grad.spec.fits(X.shape, X.dtype)
    with graph:
        slope = weighted([grad], [X.shape], 0.7)
    check_gradient(graph, slope, [x], [X])
    assert [node.outputs for node in again.nodes] == [
        node.outputs for node in graph.nodes[: len(again.nodes)]
    ]


def test_every_op_on_lists_is_in_a_program_and_has_a_kernel_for_every_library() -> None:
    ops = {n for n, d in opdef.table().items() if d.takes_lists and d.effect is Effect.PURE}
    used = set[str]()
    for verb, _ in PROGRAMS.values():
        with af.Graph() as graph:
            verb(af.placeholder("float64", (4, 2)))
        used |= {node.op for node in graph.nodes}

    assert {n for n in ops if n.startswith("list_")} == ops & used
    assert {(n, registry.EVERY) for n in ops} <= registry.table().keys()


def test_the_table_of_ops_tells_the_dtypes_of_elements() -> None:
    told = {n: accepted(d) for n, d in opdef.table().items() if d.takes_lists}

    write, add, new = (told[f"list_{n}"] for n in ("write", "add", "new"))
    assert write is not None and add is not None and new is not None
    assert (len(write.inputs[0]), write.alike) == (16, (0, 1, 0))
    assert "int64" in write.inputs[1] and "float32" not in write.inputs[1]
    assert "bool" not in add.inputs[0] and "complex64" in add.inputs[0]
    assert (new.inputs, len(new.outputs)) == ((), 16)


# ----------------------------------------------------------------------- any program against plain ops


@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_any_program_on_an_array_has_the_gradients_of_one_on_tensors(data: st.DataObject) -> None:
    """Writes, sums and reads of versions, as drawn; a dict of tensors does the same without lists."""
    with af.Graph() as graph:
        x = af.placeholder("float64", (4, 2), name="x")
        versions: list[tuple[af.Tensor, dict[int, af.Tensor]]] = [(new(), {})]
        read: list[tuple[af.Tensor, af.Tensor]] = []
        for _ in range(data.draw(st.integers(1, 8))):
            flow, model = data.draw(st.sampled_from(versions[-3:]))
            i, row = data.draw(st.integers(0, 3)), x[data.draw(st.integers(0, 3))]
            value = row * row if data.draw(st.booleans()) else row
            match data.draw(st.sampled_from(["write", "add", "read", "both"])):
                case "write" if i not in model:
                    versions.append((tensor_list.list_write(flow, i, value), {**model, i: value}))
                case "add":
                    total = model[i] + value if i in model else value
                    versions.append(
                        (
                            tensor_list.list_add(flow, tensor_list.list_one(i, value, flow)),
                            {**model, i: total},
                        )
                    )
                case "both":
                    other, more = data.draw(st.sampled_from(versions))
                    both = {
                        k: model[k] + more[k] if k in model and k in more else (model | more)[k]
                        for k in model.keys() | more.keys()
                    }
                    versions.append((tensor_list.list_add(flow, other), both))
                case _ if i in model:
                    read.append((tensor_list.list_read(flow, i), model[i]))
        flow, model = versions[-1]
        read.extend((tensor_list.list_read(flow, i), value) for i, value in sorted(model.items()))
        if model and set(model) == set(range(max(model) + 1)):
            read.append((rows.list_stack(flow), af.stack([model[i] for i in sorted(model)])))
        if not read:
            return
        grads = []
        for side in zip(*read, strict=True):
            loss = af.sum(side[0]) * 0.0
            for k, y in enumerate(side):
                loss = loss + (k + 1.0) * af.sum(y * y)
            (grad,) = af.gradients(loss, x)
            assert grad is not None
            grads.append([loss, grad, *af.gradients(af.sum(grad * grad), x)])

    with_lists, plain = (evaluate(graph, g, {x: X}) for g in grads)
    for a, b in zip(with_lists, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------- what is refused


def some(element: Spec = PAIR, size: int | None = None) -> af.Tensor:
    return tensor_list.list_new(element, size)


def f(*shape: int | None) -> af.Tensor:
    return af.placeholder("float64", shape)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: some() + 1.0, "add takes no lists, got a list of (2,) float64"),
    (lambda: af.exp(some(size=3)), "exp takes no lists, got a list of 3 × (2,) float64"),
    (lambda: af.stack([some(), some()]), "stack takes no lists"),
    (lambda: af.concat([f(2), some()], 0), "concat takes no lists"),
    (lambda: af.arrays.identity(some()), "identity takes no lists"),
    (lambda: some()[0], "slice takes no lists"),
    (lambda: af.Variable(some(), name="v"), "a variable holds one tensor, got a list of (2,) float64 for 'v'"),
    (lambda: af.state.FIFOQueue(3, ["float64"], [(2,)]).enqueue(some()), "takes no lists"),
    (lambda: af.state.Stack("float64").push(some()), "stack_push takes no lists"),
    (lambda: tensor_list.list_write(f(2), 0, f(2)), "list_write takes a list of tensors, got (2,) float64"),
    (lambda: tensor_list.list_write(some(), 0, f(3)), "list_write takes elements that fit (2,) float64, got (3,) float64"),
    (lambda: tensor_list.list_write(some(), 0, af.cast(f(2), "float32")), "got (2,) float32"),
    (lambda: tensor_list.list_write(some(), 0, some()), "got list of (2,) float64"),
    (lambda: tensor_list.list_write(some(ListSpec(PAIR)), 0, f(2)), "that fit list of (2,) float64, got (2,) float64"),
    (lambda: tensor_list.list_write(some(), 0.5, f(2)), "list_write takes integers"),
    (lambda: tensor_list.list_write(some(), [0], f(2)), "list_write takes an index, got (1,) int32"),
    (lambda: tensor_list.list_push(some(size=3), f(2)), "list_push takes a list that grows, got a list of 3 × (2,) float64"),
    (lambda: tensor_list.list_read(f(2), 0), "list_read takes a list"),
    (lambda: tensor_list.list_read_or_zeros(some(), 0, f(3)), "takes elements that fit (2,) float64, got (3,) float64"),
    (lambda: tensor_list.list_read_or_zeros(some(), 0, af.cast(f(2), "int32")), "list_read_or_zeros gives float64"),
    (lambda: rows.list_stack(some(ListSpec(PAIR))), "list_stack takes a list of tensors, got a list of list of"),
    (lambda: rows.list_unstack(f()), "list_unstack takes a tensor of rows, got () float64"),
    (lambda: rows.list_unstack(f(3, 2), some(size=2)), "got (3, 2) float64 for a list of 2 × (2,) float64"),
    (lambda: rows.list_gather(some(), 1), "list_gather takes a vector of integers, got () "),
    (lambda: rows.list_scatter([0, 1], f(3, 2)), "shapes must agree, got (2,) and (3,)"),
    (lambda: rows.list_scatter([0], f(1, 3), some()), "that fit (2,) float64, got (3,) float64"),
    (lambda: rows.list_scatter([0], af.constant([True]), add=True), "list_scatter adds numbers, got (1,) bool"),
    (lambda: rows.list_concat(some(spec("float64", ()))), "list_concat takes a tensor of rows, got () float64"),
    (lambda: rows.list_split(f(3, 2), [3], some()), "that fit (2,) float64, got (None, 2) float64"),
    (lambda: tensor_list.list_add(some(), some(spec("float64", (3,)))), "shapes must agree, got (2,) and (3,)"),
    (lambda: tensor_list.list_add(some(size=2), some(size=3)), "shapes must agree, got (2,) and (3,)"),
    (lambda: tensor_list.list_new(PAIR, -1), "sizes cannot be negative"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_what_cannot_be_is_refused_when_it_is_built(build: Callable[[], Any], said: str) -> None:
    with af.Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in caught.value.what
    assert "test_tensor_list.py" in str(caught.value.where)


def test_no_op_takes_lists_that_has_not_said_so() -> None:
    def rule(inputs: Any, attrs: Any) -> Any:
        return [ListSpec(x) for x in inputs]

    table: Any = opdef.table()
    try:
        opdef.op("planted_for_lists", spec=rule, takes_bytes=True)(lambda x: None)
        with pytest.raises(SpecError, match=r"planted_for_lists takes no lists, got a list of \(2,\)"):
            opdef.lookup("planted_for_lists").spec([ListSpec(PAIR)], {})
        with pytest.raises(SpecError, match=r"planted_for_lists makes no lists, got a list of \(2,\)"):
            opdef.lookup("planted_for_lists").spec([PAIR], {})
    finally:
        del table["planted_for_lists"]


LATE: list[tuple[Callable[[af.Tensor], Any], str]] = [
    (lambda x: tensor_list.list_read(some(), 1), "what is read was written before, got index 1"),
    (lambda x: tensor_list.list_write(written(x, (0,)), 0, x[1]), "an index is written once, got 0 again"),
    (
        lambda x: tensor_list.list_write(some(size=1), af.cast(x[0, 0], "int32") + 3, x[1]),
        "lies in [0, 1), got 3",
    ),
    (lambda x: rows.list_stack(written(x, (0, 2))), "index 1 was never written"),
    (lambda x: rows.list_stack(some(PAIRS)), "when the shape of its elements is known"),
    (
        lambda x: rows.list_stack(rows.list_split(x, [1, 3])),
        "have one shape, got (1, 2), and (3, 2) at 1",
    ),
    (lambda x: rows.list_gather(written(x, (0,)), [0, 1]), "got index 1 of a list of 1 values"),
    (lambda x: rows.list_scatter([1, 1], x[:2]), "an index is written once, got 1 again"),
    (lambda x: rows.list_split(x, [1, 1]), "add up to the rows that there are, got [1, 1] for (4, 2)"),
    (lambda x: rows.list_split(x, [-1, 5]), "got [-1, 5] for (4, 2)"),
    (lambda x: rows.list_lengths(written(x, (1,))), "index 0 was never written"),
    (lambda x: rows.list_unstack(x, some(size=3)), "lies in [0, 3), got 3"),
]


@pytest.mark.parametrize(("build", "said"), LATE, ids=[said[:40] for _, said in LATE])
def test_what_only_the_step_knows_fails_there(build: Verb, said: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", None, name="x")
        y = build(x)

    with pytest.raises(ListError) as caught:
        evaluate(graph, y, {x: X})

    assert said in caught.value.what


def test_an_empty_list_is_stacked_where_its_elements_are_known() -> None:
    with af.Graph() as graph:
        found = [rows.list_stack(some()), rows.list_gather(some(), []), rows.list_concat(some(PAIRS))]

    made = evaluate(graph, found)

    assert [m.shape for m in made] == [(0, 2)] * 3
    assert {m.dtype.name for m in made} == {"float64"}


def test_lists_of_bytes_integers_and_halves_move_as_they_are() -> None:
    with af.Graph() as graph:
        found = [
            rows.list_stack(rows.list_scatter([1, 0], af.constant(values)))
            for values in ([b"a", b"bc"], [1, 2], [True, False], np.array([1, 2], "float16"))
        ]

    made = evaluate(graph, found)

    assert [m.tolist() for m in made] == [[b"bc", b"a"], [2, 1], [False, True], [2.0, 1.0]]
    assert [m.dtype.name for m in made] == ["object", "int32", "bool", "float16"]


def test_a_list_is_no_y_of_gradients_and_integers_in_one_carry_none() -> None:
    with af.Graph():
        x = af.placeholder("float64", (2,), name="x")
        flow = tensor_list.list_write(some(), 0, x)
        counts = tensor_list.list_write(some(spec("int32", (2,))), 0, af.cast(x, "int32"))
        y = af.cast(tensor_list.list_read(counts, 0), "float64")

        with pytest.raises(SpecError, match="ones_like takes no lists"):
            af.gradients(flow, x)
        assert af.gradients(y, x) == [None]
        (grad,) = af.gradients(tensor_list.list_read(flow, 0), flow)
        assert grad is not None
        assert grad.spec == ListSpec(PAIR)


def test_the_gradient_of_a_write_keeps_a_shape_and_not_the_value() -> None:
    """Of what has a static shape not even that: a loop that goes back needs nothing of the value."""
    for shape, late in (((2,), []), ((None,), ["shape"])):
        with af.Graph() as graph:
            x = af.placeholder("float64", shape, name="x")
            flow = tensor_list.list_write(some(FLOATS), 0, af.exp(x))
            before = len(graph.nodes)
            af.gradients(af.sum(tensor_list.list_read(flow, 0)), x)
        (zeros,) = [n for n in graph.nodes[before:] if n.op == "list_read_or_zeros"]

        assert [graph.nodes[p.node].op for p in zeros.inputs[2:]] == late


def test_gradients_of_lists_keep_their_place_in_errors() -> None:
    with af.Graph():
        x = af.placeholder("complex64", (2,), name="x")
        y = af.real(tensor_list.list_read(tensor_list.list_write(some(spec("complex64", (2,))), 0, x), 0))

        with pytest.raises(GradientError, match="gradients are of real numbers"):
            af.gradients(y, x)
