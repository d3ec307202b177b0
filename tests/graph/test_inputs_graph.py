"""What is built where no graph is open goes into the graph of its inputs; where it has none, that is said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError
from actorflow.graph.graph import OPEN_A_GRAPH, Graph, current_or_none
from actorflow.graph.inputs_graph import graph_of, in_graph_of_inputs
from tests.support.reference import evaluate


class Program:
    """A graph that somebody has built, and left."""

    def __init__(self) -> None:
        with Graph() as graph:
            self.x = af.placeholder("float32", (2, 3), "x")
            self.w = af.Variable(af.ones((3,)), name="w")
            self.dense = af.nn.Dense(3, 4)
            self.cell = af.nn.GRUCell(3, 3)
            self.model = af.nn.Sequential([self.dense, af.nn.relu])
            self.count = af.state.Counter(name="count")
            self.table = af.PartitionedVariable(af.ones((4, 3)), partitions=2, name="table")
            self.queue = af.state.FIFOQueue(3, ["float32"], [(3,)], name="queue")
        self.graph = graph


LATER: dict[str, Callable[[Program], Any]] = {
    "an operator": lambda p: p.x + 1,
    "an operator whose left side is an array": lambda p: np.ones(3, "float32") * p.x,
    "an index": lambda p: p.x[:, 0],
    "a verb": lambda p: af.mean(p.x),
    "a verb of a list": lambda p: af.concat([p.x, p.x], 0),
    "a verb whose tensor is named": lambda p: af.sum(x=p.x),
    "a verb of an array and a variable": lambda p: af.maximum(np.ones((2, 3), "float32"), p.w),
    "a verb of verbs": lambda p: af.nn.scaled_dot_product_attention(p.x, p.x, p.x),
    "a branch": lambda p: af.cond(af.sum(p.x) > 0, lambda: p.x, lambda: p.x * p.w),
    "a loop": lambda p: af.while_loop(lambda i: i < 3, lambda i: i + 1, [af.sum(p.x)]),
    "a map": lambda p: af.map_fn(lambda row: row * p.w, p.x),
    "a scan": lambda p: af.scan(lambda total, row: total + row, p.x, p.w),
    "a read": lambda p: p.w.read(),
    "an assign of a list": lambda p: p.w.assign([1, 2, 3]),
    "a write to rows": lambda p: p.w.scatter_add([0], 1.0),
    "an operator on a variable": lambda p: 2 * p.w,
    "a read of parts": lambda p: p.table.gather([0, 3]),
    "a number of a counter": lambda p: p.count.next(),
    "an element of a queue": lambda p: p.queue.dequeue(),
    "gradients": lambda p: af.gradients(af.sum(p.x * p.w), [p.w, p.x]),
    "gradients of what is there": lambda p: af.gradients(p.x, p.x),
    "a product with the Jacobian": lambda p: af.autodiff.jvp(p.x * p.w, p.x, p.x),
    "an update": lambda p: af.minimize(af.sum(p.x * p.w), af.optim.sgd(0.1)),
    "an update of given gradients": lambda p: af.apply_gradients(
        [np.ones(3, "float32")], [p.w], af.optim.sgd(0.1)
    ),
    "a layer": lambda p: p.dense(p.x),
    "a layer of an array": lambda p: p.dense(np.ones((2, 3), "float32")),
    "layers of an array": lambda p: p.model(np.ones((2, 3), "float32")),
    "the state of a cell": lambda p: p.cell.initial(2),
    "a step of a cell": lambda p: p.cell(p.x),
    "a recurrent layer": lambda p: af.nn.rnn(p.cell, p.x[None]),
    "recomputing": lambda p: af.autodiff.recompute(lambda a: a * p.w)(p.x),
    "a gradient of one's own": lambda p: af.autodiff.custom_gradient(lambda a: (a + 1, lambda g: g))(p.x),
    "a variable whose first value is a tensor": lambda p: af.Variable(af.zeros_like(p.w.read()), name="v"),
}


@pytest.mark.parametrize("build", LATER.values(), ids=LATER)
def test_what_is_built_later_goes_into_the_graph_of_its_inputs(build: Callable[[Program], Any]) -> None:
    program = Program()
    before = len(program.graph), len(program.graph.resources)

    build(program)

    assert (len(program.graph), len(program.graph.resources)) > before
    assert current_or_none() is None


def test_what_is_built_later_computes_what_it_would_have() -> None:
    program = Program()
    later = af.mean(program.x * 2) + 1

    assert evaluate(program.graph, later, {program.x: np.full((2, 3), 4)}) == 9


NOTHING_SAYS_WHERE: dict[str, Callable[[], Any]] = {
    "a constant": lambda: af.constant(1.0),
    "a placeholder": lambda: af.placeholder("float32"),
    "a variable": lambda: af.Variable(1.0),
    "random numbers": lambda: af.random.normal((2,)),
    "an array": lambda: af.exp(np.ones(3)),
    "a loop over numbers": lambda: af.while_loop(lambda i: i < 3, lambda i: i + 1, [0]),
    "a layer": lambda: af.nn.Dense(2, 3),
    "a queue": lambda: af.state.FIFOQueue(3, ["float32"]),
    "a scope": lambda: af.name_scope("layer").__enter__(),
}


@pytest.mark.parametrize("build", NOTHING_SAYS_WHERE.values(), ids=NOTHING_SAYS_WHERE)
def test_where_no_input_has_a_graph_the_hint_names_the_one_that_is_there(build: Callable[[], Any]) -> None:
    with pytest.raises(GraphError, match="none is open") as caught:
        build()

    assert caught.value.hint == OPEN_A_GRAPH
    assert OPEN_A_GRAPH.index("`with g:`") < OPEN_A_GRAPH.index("`with af.Graph() as g:`")


@pytest.mark.parametrize("build", NOTHING_SAYS_WHERE.values(), ids=NOTHING_SAYS_WHERE)
def test_what_the_hint_says_works(build: Callable[[], Any]) -> None:
    program = Program()

    with program.graph as g:
        build()

    assert g is program.graph


def test_tensors_of_two_graphs_do_not_meet_outside_either() -> None:
    with pytest.raises(GraphError, match="belongs to another graph"):
        Program().x + Program().x
    assert current_or_none() is None


def test_an_open_graph_is_the_one_that_is_meant() -> None:
    program = Program()

    with Graph() as other, pytest.raises(GraphError, match="belongs to another graph"):
        program.x + 1
    assert len(other) == 0


def test_a_refusal_leaves_no_graph_open() -> None:
    program = Program()

    for refused in (
        lambda: af.sum(program.x, axis="rows"),  # type: ignore[arg-type]
        lambda: af.reshape(program.x, (7,)),
        lambda: af.cond(program.x[0, 0] > 0, lambda: 1 / 0, lambda: 1),
    ):
        with pytest.raises((af.errors.ActorflowError, ZeroDivisionError)):
            refused()
        assert current_or_none() is None


def test_a_tensor_of_a_body_that_has_left_it_is_refused_as_inside_the_graph() -> None:
    program = Program()
    leaked: list[Any] = []

    def leak(row: Any) -> Any:
        leaked.append(row)
        return row

    af.map_fn(leak, program.x)

    with pytest.raises(GraphError) as outside:
        leaked[0] + 1
    with program.graph, pytest.raises(GraphError) as inside:
        leaked[0] + 1

    assert outside.value.what == inside.value.what


def test_an_error_of_what_is_built_later_is_at_the_users_line_and_names_the_call() -> None:
    program = Program()

    with pytest.raises(
        af.errors.ActorflowError, match=r"in softmax_cross_entropy|softmax_cross_entropy"
    ) as caught:
        af.nn.softmax_cross_entropy(program.x, program.x[0, 0])

    assert caught.value.where is not None
    assert "test_inputs_graph.py" in str(caught.value.where.defined_at)


def test_the_first_graph_of_nested_lists_counts_and_a_list_of_itself_ends() -> None:
    program = Program()
    itself: list[Any] = []
    itself.append(itself)

    assert graph_of([1, "text", [None, {"state": (program.w,)}]]) is program.graph
    assert graph_of([itself]) is None
    assert graph_of([np.ones(3), {}]) is None


def test_a_function_of_ones_own_can_take_the_graph_of_its_inputs() -> None:
    program = Program()

    @in_graph_of_inputs
    def plus(x: Any) -> Any:
        return x + af.constant(1.0)

    assert plus(program.x).graph is program.graph
    assert plus.__name__ == "plus"


def test_a_session_that_is_open_runs_what_is_built_later() -> None:
    program = Program()

    async def main() -> None:
        async with af.Session(program.graph) as session:
            assert (await session.run(program.w + 1)).tolist() == [2, 2, 2]
            assert (await session.run(af.sum(program.w * 2))) == 6

    af.run(main())


def in_a_thread(call: Callable[[], Any]) -> Any:
    """Returns what a call gave in a thread of its own, or its error."""
    ends: list[Any] = []

    def tried() -> None:
        try:
            ends.append(call())
        except Exception as error:  # noqa: BLE001  looked at by the caller
            ends.append(error)

    thread = threading.Thread(target=tried, name="other")
    thread.start()
    thread.join()
    return ends[0]


@pytest.mark.parametrize("what", LATER)
def test_another_thread_adds_nothing_while_a_block_builds_the_graph(what: str) -> None:
    program = Program()
    with program.graph:
        before = len(program.graph)
        end = in_a_thread(lambda: LATER[what](program))
        assert len(program.graph) == before

    assert isinstance(end, GraphError)
    assert "`with g:` is open in another" in str(end)
    assert not isinstance(in_a_thread(lambda: LATER[what](program)), Exception)  # the block has ended


def test_a_constant_and_an_operator_agree_in_another_thread() -> None:
    program = Program()
    with program.graph:
        ends = [in_a_thread(call) for call in (lambda: af.constant(1.0), lambda: program.x + 1)]

    assert [type(end) for end in ends] == [GraphError, GraphError]
