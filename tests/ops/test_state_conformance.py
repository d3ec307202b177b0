"""What holds for every op that an actor answers: a session returns what the spec rule declares.

An op joins by being registered with such an effect; it must then be listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import current
from actorflow.graph.node import Port
from actorflow.graph.opdef import Effect
from actorflow.ops.state.updates import apply_gradients

ANSWERED = {
    name
    for name, entry in opdef.table().items()
    if entry.effect in (Effect.READ, Effect.WRITE, Effect.WAIT, Effect.COMMIT, Effect.LOCK, Effect.UNLOCK)
}

Built = tuple[list[Tensor], list[Tensor]]
"""What to run first, and what to look at."""


def _variable() -> af.Variable:
    return af.Variable(np.ones((2, 3)), dtype="float32", name="v")


def _queue() -> tuple[af.state.FIFOQueue, Tensor]:
    queue = af.state.FIFOQueue(8, ["float32", "int16"], [(2,), ()], name="q")
    return queue, queue.enqueue_many((np.ones((4, 2), np.float32), np.arange(4, dtype=np.int16)))


def _write(verb: str) -> Callable[[], Built]:
    return lambda: ([], [getattr(_variable(), verb)(np.ones((2, 3), np.float32))])


def _apply() -> Built:
    v = _variable()
    key = current().add_object("sgd", af.optim.sgd(0.1))
    return [], [apply_gradients([as_tensor(np.ones((2, 3), np.float32))], [v], key)]


def _enqueue() -> Built:
    queue, _ = _queue()
    return [], [queue.enqueue((np.ones(2, np.float32), 1))]


def _enqueue_many() -> Built:
    return [], [_queue()[1]]


def _take(verb: str, *args: int) -> Callable[[], Built]:
    def build() -> Built:
        queue, fill = _queue()
        taken = getattr(queue, verb)(*args)
        return [fill], list(taken) if isinstance(taken, list | tuple) else [taken]

    return build


def _rows(verb: str) -> Callable[[], Built]:
    return lambda: ([], [getattr(_variable(), verb)([1, -1], np.ones((2, 3), np.float32))])


def _count() -> Built:
    return [], [af.Variable(0, dtype="int16", name="n").count_up_to(5)]


def _barrier() -> tuple[af.state.Barrier, list[Tensor]]:
    barrier = af.state.Barrier(["float32", "bytes"], [(2,), ()], name="b")
    keys = [b"a", b"b", b"c"]
    images = barrier.insert_many(0, keys, np.ones((3, 2), np.float32))
    return barrier, [images, barrier.insert_many(1, keys, [b"x", b"y", b"z"])]


def _of_barrier(use: Callable[[af.state.Barrier], Tensor | list[Tensor]]) -> Callable[[], Built]:
    def build() -> Built:
        barrier, fill = _barrier()
        found = use(barrier)
        return fill, found if isinstance(found, list) else [found]

    return build


def _taken(barrier: af.state.Barrier, *args: Any) -> list[Tensor]:
    taken = barrier.take_many(*args)
    return [taken.indices, taken.keys, *taken.components]


def _of_dense(verb: str, *args: Any) -> Callable[[], Built]:
    def build() -> Built:
        grads = af.state.ConditionalAccumulator("float16", (2,), name="a")
        found = getattr(grads, verb)(*args)
        return [grads.apply_grad(np.ones(2, np.float16))], [found]

    return build


def _of_rows(verb: str, *args: Any) -> Callable[[], Built]:
    def build() -> Built:
        grads = af.state.SparseConditionalAccumulator("float16", (5, 2), name="a")
        slices = af.IndexedSlices(np.ones((2, 2), np.float16), [3, 3], (5, 2))
        found = getattr(grads, verb)(*([slices] if verb == "apply_grad" else args))
        tensors = [found.values, found.indices] if isinstance(found, af.IndexedSlices) else [found]
        return [grads.apply_grad(slices)], tensors

    return build


def _of_table(use: Callable[[af.state.HashTable], Tensor | tuple[Tensor, ...]]) -> Callable[[], Built]:
    def build() -> Built:
        table = af.state.HashTable(
            "int16", "bytes", b"", (2,), initial=([1, 2], [[b"a", b"b"]] * 2), name="t"
        )
        found = use(table)
        return [], list(found) if isinstance(found, tuple) else [found]

    return build


def _of_stack(verb: str) -> Callable[[], Built]:
    def build() -> Built:
        stack = af.state.Stack("int16", (None,), name="s")
        found = stack.push([3, 4]) if verb == "push" else getattr(stack, verb)()
        return [stack.push([1, 2])], [found]

    return build


def _block(fetched: str) -> Built:
    with af.atomic(_variable(), name="block") as block:
        pass
    return [], [
        block.done if fetched == "end" else Tensor(current(), Port(current().node("block/lock/v").id))
    ]


CASES: dict[str, Callable[[], Built]] = {
    "read_variable": lambda: ([], [_variable().read()]),
    "variable_version": lambda: ([], [_variable().version()]),
    "is_initialised": lambda: ([], [_variable().is_initialised()]),
    "assign": _write("assign"),
    "assign_add": _write("assign_add"),
    "assign_sub": _write("assign_sub"),
    **{
        f"scatter_{how}_variable": _rows(f"scatter_{how}")
        for how in ["update", "add", "sub", "mul", "max", "min"]
    },
    "count_up_to": _count,
    "apply_gradients": _apply,
    "lock_variable": lambda: _block("lock"),
    "unlock_variables": lambda: _block("end"),
    "queue_enqueue": _enqueue,
    "queue_enqueue_many": _enqueue_many,
    "queue_dequeue": _take("dequeue"),
    "queue_dequeue_many": _take("dequeue_many", 3),
    "queue_dequeue_up_to": _take("dequeue_up_to", 3),
    "queue_size": _take("size"),
    "queue_close": _take("close"),
    **{
        f"{kind}_{verb}": case(verb, *args)
        for kind, case in (("accumulator", _of_dense), ("sparse_accumulator", _of_rows))
        for verb, args in (
            ("apply_grad", ([1.0, 2.0],)),
            ("take_grad", (1,)),
            ("set_global_step", (3,)),
            ("global_step", ()),
            ("num_accumulated", ()),
        )
    },
    "hash_table_insert": _of_table(lambda t: t.insert([[1], [3]], [[[b"c", b"d"]]] * 2)),
    "hash_table_remove": _of_table(lambda t: t.remove([1])),
    "hash_table_lookup": _of_table(lambda t: t.lookup([[1, 3]])),
    "hash_table_contains": _of_table(lambda t: t.contains([[1, 3]])),
    "hash_table_size": _of_table(lambda t: t.size()),
    "hash_table_export": _of_table(lambda t: t.export()),
    "counter_next": lambda: ([], [af.state.Counter(name="c").next()]),
    "counter_read": lambda: ([], [af.state.Counter(name="c").read()]),
    "counter_reset": lambda: ([], [af.state.Counter(name="c").reset()]),
    **{f"stack_{verb}": _of_stack(verb) for verb in ("push", "pop", "size", "close")},
    "barrier_insert_many": lambda: ([], [_barrier()[1][0]]),
    "barrier_take_many": _of_barrier(lambda b: _taken(b, 2)),
    "barrier_close": _of_barrier(lambda b: b.close()),
    "barrier_ready_size": _of_barrier(lambda b: b.ready_size()),
    "barrier_incomplete_size": _of_barrier(lambda b: b.incomplete_size()),
}


def test_every_op_that_an_actor_answers_is_listed() -> None:
    assert set(CASES) == ANSWERED


@pytest.mark.parametrize("op", sorted(ANSWERED))
def test_a_session_returns_what_the_spec_rule_declares(op: str) -> None:
    with af.Graph() as graph:
        before, tensors = CASES[op]()

    async def main() -> list[np.ndarray]:
        async with af.Session(graph) as session:
            for tensor in before:
                await session.run(tensor)
            found: list[np.ndarray] = await session.run(tensors)
            return found

    values = af.run(main())

    assert {tensor.node.op for tensor in tensors} == {op}
    for tensor, value in zip(tensors, values, strict=True):
        assert np.asarray(value).dtype == tensor.dtype
        assert tensor.spec.fits(np.shape(value), tensor.dtype)
