"""What a training update consists of, and which ones several workers cannot share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors.gradient_program import gradient_program, update_of
from actorflow.graph.node import Port


def update(build: Callable[[Any, Any], Any], batch: list[Any] | None = None) -> Any:
    """The update of a small program; `build` returns more scalars to fetch."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(2.0, name="w", dtype="float32")
        loss = af.square(w * x)
        metric = build(x, w)
        train = af.minimize(loss, af.optim.sgd(0.1))
    scalars = [loss] if metric is None else [loss, metric]
    return update_of(graph, scalars, train, batch)


def nothing(x: Any, w: Any) -> None:
    return None


def test_reads_trained_and_frozen_variables_are_told() -> None:
    def build(x: Any, w: Any) -> Any:
        b = af.Variable(1.0, name="b", trainable=False, dtype="float32")
        return w.read() + b

    found = update(build)

    assert [name for _, name in found.reads] == ["w", "w", "b"]
    assert (found.trained, found.frozen, found.waits) == (("w",), ("b",), ())


def test_a_program_asks_for_no_variable_and_makes_no_update() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        w = af.Variable([1.0, 2.0], name="w", dtype="float32")
        loss = af.mean(af.square(w * x))
        train = af.minimize(loss, af.optim.adam(0.1))

    made = gradient_program(graph, [loss], train, [x.port], ["/cpu:0"])

    assert made.program.variables == frozenset()
    assert all(node.resource is None for node in made.program.nodes)
    assert [name for name, _ in made.batch] == ["x"]
    assert [name for name, _ in made.values] == ["w"]
    assert made.places == {"w": (1,)}


def test_what_reads_and_the_update_wait_for_runs_all_the_same() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        checked = af.math.check_numerics(x)
        w = af.Variable(2.0, name="w", dtype="float32")
        with af.control_dependencies([checked, x]):
            read = w.read()
        doubled = af.math.check_numerics(x * 2.0)
        with af.control_dependencies([doubled]):
            train = af.minimize(af.square(read), af.optim.sgd(0.1))

    found = update_of(graph, [af_loss(graph)], train)

    assert set(found.waits) == {checked.port, doubled.port}


def af_loss(graph: af.Graph) -> Any:
    with graph:
        return af.constant(1.0)


def test_fixed_tables_are_the_same_everywhere() -> None:
    def build(x: Any, w: Any) -> Any:
        table = af.state.HashTable("int64", "float32", 0.0, initial=([1, 2], [0.5, 1.5]), mutable=False)
        return table.lookup(af.cast(x, "int64"))

    assert update(build).trained == ("w",)


def test_a_read_that_the_batch_feeds_is_not_pulled() -> None:
    with af.Graph() as graph:
        w = af.Variable(2.0, name="w", dtype="float32")
        read = w.read()
        loss = af.square(read)
        train = af.minimize(loss, af.optim.sgd(0.1))

    assert update_of(graph, [loss], train, [read.port]).reads == ()


def looked_up(build: Callable[[Any, Any, Any], Any], shape: Any = (9, 2)) -> dict[str, list[str]]:
    """By variable, what of an update takes rows of it; `build` makes a loss of tables t and u and of ids."""
    with af.Graph() as graph:
        ids = af.placeholder("int64", (None,), name="ids")
        t = af.Variable(np.ones((9, 2), "float32"), name="t", shape=shape)
        u = af.Variable(np.ones((9, 2), "float32"), name="u")
        loss = af.sum(build(t, u, ids))
        train = af.minimize(loss, af.optim.sgd(0.1), [t, u])
    found = update_of(graph, [loss], train)
    taken: dict[str, list[str]] = {}
    for lookup in found.lookups:
        taken.setdefault(lookup.variable, []).append(lookup.node.op)
    assert {name for _, name in found.whole}.isdisjoint(taken)
    assert {name for _, name in found.whole} | set(taken) == {"t", "u"}
    return taken


@pytest.mark.parametrize(
    "build",
    [
        lambda t, u, ids: af.gather(t, ids) + u[0],
        lambda t, u, ids: af.gather(t, ids, -2) + u[0],
        lambda t, u, ids: af.gather(t, ids) + af.gather(t, ids + 1) + u[0],
        lambda t, u, ids: af.nn.embedding_lookup(t, ids, padding_id=0, unique=True) + u[0],
        lambda t, u, ids: af.nn.embedding_bag(t, ids, ids) + u[0],
    ],
)
def test_what_gathers_of_numbers_of_the_batch_take_is_pulled_by_rows(build: Any) -> None:
    taken = looked_up(build)

    assert set(taken) == {"t"}
    assert set(taken["t"]) == {"gather"}


def test_two_tables_are_both_pulled_by_rows() -> None:
    assert looked_up(lambda t, u, ids: af.gather(t, ids) + af.gather(u, ids)).keys() == {"t", "u"}


def waits_for_rows(t: Any, u: Any, ids: Any) -> Any:
    with af.control_dependencies([af.gather(t, ids)]):
        return af.arrays.identity(u.read() * 1.0)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda t, u, ids: af.gather(t, ids) + af.sum(t) + u[0], (9, 2)),  # is needed whole besides
        (lambda t, u, ids: af.sum(af.gather(t, ids, 1)) + u[0], (9, 2)),  # columns
        (
            lambda t, u, ids: af.gather(t, af.cast(u[:, 0], "int64")) + u[0],
            (9, 2),
        ),  # numbers that a variable has
        (lambda t, u, ids: af.gather(t, ids) + u[0], (None, 2)),  # nobody knows how many rows there are
        (lambda t, u, ids: waits_for_rows(t, u, ids) + af.gather(t, ids)[:1], (9, 2)),  # others wait for it
    ],
)
def test_what_is_needed_in_any_other_way_is_pulled_whole(build: Any, shape: Any) -> None:
    assert looked_up(build, shape) == {}


def test_what_lookups_wait_for_runs_all_the_same() -> None:
    with af.Graph() as graph:
        ids = af.placeholder("int64", (None,), name="ids")
        t = af.Variable(np.ones((9, 2), "float32"), name="t")
        checked = af.math.check_numerics(af.cast(ids, "float32"))
        read = t.read()
        with af.control_dependencies([checked]):
            rows = af.gather(read, ids)
        loss = af.sum(rows)
        train = af.minimize(loss, af.optim.sgd(0.1))

    found = update_of(graph, [loss], train)

    assert (len(found.lookups), found.whole, found.waits) == (1, (), (checked.port,))


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda x, w: w.assign(x), "in which assign 'w/assign' writes state beside its update"),
        (lambda x, w: af.state.Counter(name="c").next(), "in which counter_next 'c/next' writes state"),
        (
            lambda x, w: af.state.Counter(name="c").read(),
            "counter_read 'c/read' reads state that each worker",
        ),
        (lambda x, w: w.version(), "variable_version 'w/version' reads state that each worker"),
        (
            lambda x, w: af.state.FIFOQueue(3, ["float32"], [()], name="q").dequeue(),
            "queue_dequeue 'q/dequeue' waits for what others put in",
        ),
        (
            lambda x, w: af.minimize(af.square(w - x), af.optim.sgd(0.1), name="other"),
            "'other/apply_gradients' makes a second update",
        ),
    ],
)
def test_a_step_that_touches_other_state_is_refused_at_its_line(build: Any, why: str) -> None:
    with pytest.raises(errors.CoordinationError) as caught:
        update(build)

    assert why in str(caught.value)
    assert caught.value.where is not None
    assert "test_gradient_program.py" in str(caught.value.where.defined_at)
    assert caught.value.hint is not None


def test_an_atomic_block_is_refused() -> None:
    def build(x: Any, w: Any) -> Any:
        b = af.Variable(1.0, name="b", trainable=False, dtype="float32")
        with af.atomic(b):
            return b.read()

    with pytest.raises(errors.CoordinationError, match="locks variables for an atomic block"):
        update(build)


def test_what_comes_after_the_update_is_refused() -> None:
    with af.Graph() as graph:
        w = af.Variable(2.0, name="w", dtype="float32")
        loss = af.square(w)
        train = af.minimize(loss, af.optim.sgd(0.1))
        after, needs = w.read(), af.cast(train, "float32")
        with af.control_dependencies([train]):
            waits = af.constant(1.0) + loss

    with pytest.raises(errors.CoordinationError, match="'w/read_1' reads 'w' after the update"):
        update_of(graph, [loss, after], train)
    for late in (needs, waits):
        with pytest.raises(errors.CoordinationError, match="needs the update 'train/apply_gradients'"):
            update_of(graph, [loss, late], train)


def test_what_minimize_did_not_return_is_no_update() -> None:
    with af.Graph() as graph:
        w = af.Variable(2.0, name="w", dtype="float32")
        loss = af.square(w)
        train = af.minimize(loss, af.optim.sgd(0.1))

    with pytest.raises(errors.CoordinationError, match="the update that minimize returned, got square"):
        update_of(graph, [loss], loss)
    with pytest.raises(errors.CoordinationError, match=r"an update of the program's graph, got \["):
        update_of(graph, [loss], [train])
    with pytest.raises(errors.CoordinationError, match="an update of the program's graph, got <Tensor"):
        update_of(af.Graph(), [loss], train)


def test_a_placeholder_that_nobody_feeds_is_named_when_the_program_is_made() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(2.0, name="w", dtype="float32")
        loss = af.square(w * x)
        train = af.minimize(loss, af.optim.sgd(0.1))

    with pytest.raises(errors.FeedError, match="placeholder 'x' must be fed"):
        gradient_program(graph, [loss], train, [], ["/cpu:0"])
    assert gradient_program(graph, [loss], train, [Port(x.node.id)], ["/cpu:0"]).scalars == 1


def test_state_inside_of_bodies_is_refused_as_it_is_outside() -> None:
    queue: list[Any] = []

    def written(x: Any, w: Any) -> Any:
        v = af.Variable(1.0, name="v", dtype="float32")
        return af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + v.assign_add(1.0)), (0, 0.0))[1]

    def waiting(x: Any, w: Any) -> Any:
        queue.append(af.state.FIFOQueue(2, ["float32"], [()], name="q"))
        return af.cond(x > 0.0, lambda: af.autodiff.recompute(lambda: queue[-1].dequeue())(), lambda: x)

    def read(x: Any, w: Any) -> Any:
        return af.cond(x > 0.0, lambda: w.read() * 2.0, lambda: x)

    for build, said in (
        (written, "assign_add 'while_loop/body/v/assign_add' writes state beside its update"),
        (waiting, "waits for what others put in"),
        (read, "reads a variable inside of a loop or branch"),
    ):
        with pytest.raises(errors.CoordinationError, match=said) as caught:
            update(build)
        assert "test_gradient_program.py:" in str(caught.value.where)


def test_a_variable_that_bodies_use_as_a_tensor_is_read_outside_of_them() -> None:
    found = update(lambda x, w: af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * w), (0, x))[1])

    assert [name for _, name in found.reads] == ["w"]
