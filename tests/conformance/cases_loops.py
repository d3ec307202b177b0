"""while_loop: what it computes, and what it refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import actorflow as af
from tests.conformance.case import actorflow, tensorflow


@tensorflow("loops: counts and adds up")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i, t: i < 10, lambda i, t: (i + 1, t + i), (0, 0)))


@actorflow("loops: counts and adds up")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i, t: i < 10, lambda i, t: (i + 1, t + i), (0, 0)))


@tensorflow("loops: no turn at all")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2.0), (0, np.float32(3))))


@actorflow("loops: no turn at all")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2.0), (0, np.float32(3))))


async def our_limited(s: Any, most: int) -> Any:
    return await s.run(
        af.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + x), (0, 1.0), max_iterations=most)
    )


def their_limited(s: Any, most: int) -> Any:
    first = (s.tf.constant(0), s.tf.constant(1.0))
    return s.run(
        s.tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + x), first, maximum_iterations=most)
    )


for most in (0, 3, 9):
    tensorflow(f"loops: at most {most} turns of 5")(partial(their_limited, most=most))
    actorflow(f"loops: at most {most} turns of 5")(partial(our_limited, most=most))


async def our_parallel(s: Any, parallel: int) -> Any:
    x = af.constant(np.arange(4, dtype="float32"))
    body = lambda i, y: (i + 1, y * 0.5 + x)
    return await s.run(af.while_loop(lambda i, y: i < 12, body, (0, x), parallel_iterations=parallel))


def their_parallel(s: Any, parallel: int) -> Any:
    x = s.tf.constant(np.arange(4, dtype="float32"))
    body = lambda i, y: (i + 1, y * 0.5 + x)
    return s.run(s.tf.while_loop(lambda i, y: i < 12, body, (0, x), parallel_iterations=parallel))


for parallel in (1, 32):
    tensorflow(f"loops: {parallel} turns may be under way")(partial(their_parallel, parallel=parallel))
    actorflow(f"loops: {parallel} turns may be under way")(partial(our_parallel, parallel=parallel))


@tensorflow("loops: variables in a structure")
def _(s: Any) -> Any:
    def body(i: Any, pair: Any) -> Any:
        return i + 1, {"a": pair["b"], "b": pair["a"] + pair["b"]}

    return s.run(s.tf.while_loop(lambda i, pair: i < 10, body, (0, {"a": 0, "b": 1}))[1])


@actorflow("loops: variables in a structure")
async def _(s: Any) -> Any:
    def body(i: Any, pair: Any) -> Any:
        return i + 1, {"a": pair["b"], "b": pair["a"] + pair["b"]}

    return await s.run(af.while_loop(lambda i, pair: i < 10, body, (0, {"a": 0, "b": 1}))[1])


@tensorflow("loops: how often depends on a tensor")
def _(s: Any) -> Any:
    n = s.tf.placeholder(s.tf.int32, ())
    steps = s.tf.while_loop(
        lambda n, k: n > 1,
        lambda n, k: (s.tf.where(s.tf.equal(n % 2, 0), n // 2, 3 * n + 1), k + 1),
        (n, 0),
    )[1]
    return [s.run(steps, {n: first}) for first in (1, 6, 27)]


@actorflow("loops: how often depends on a tensor")
async def _(s: Any) -> Any:
    n = af.placeholder("int32", ())
    steps = af.while_loop(
        lambda n, k: n > 1,
        lambda n, k: (af.where(af.equal(n % 2, 0), n // 2, 3 * n + 1), k + 1),
        (n, 0),
    )[1]
    return [await s.run(steps, {n: first}) for first in (1, 6, 27)]


@tensorflow("loops: a loop in a loop")
def _(s: Any) -> Any:
    def row(i: Any, total: Any) -> Any:
        return i + 1, s.tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), (0, total))[1]

    return s.run(s.tf.while_loop(lambda i, t: i < 6, row, (0, 0))[1])


@actorflow("loops: a loop in a loop")
async def _(s: Any) -> Any:
    def row(i: Any, total: Any) -> Any:
        return i + 1, af.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), (0, total))[1]

    return await s.run(af.while_loop(lambda i, t: i < 6, row, (0, 0))[1])


@tensorflow("loops: a branch in a loop")
def _(s: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, s.tf.cond(x > 10, lambda: x - 7, lambda: x * 2)

    return s.run(s.tf.while_loop(lambda i, x: i < 9, body, (0, 1)))


@actorflow("loops: a branch in a loop")
async def _(s: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, af.cond(x > 10, lambda: x - 7, lambda: x * 2)

    return await s.run(af.while_loop(lambda i, x: i < 9, body, (0, 1)))


@tensorflow("loops: a loop in a branch")
def _(s: Any) -> Any:
    p = s.tf.placeholder(s.tf.bool, ())
    power = lambda: s.tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 3), (0, 1))[1]
    y = s.tf.cond(p, power, lambda: s.tf.constant(-1))
    return [s.run(y, {p: pred}) for pred in (True, False)]


@actorflow("loops: a loop in a branch")
async def _(s: Any) -> Any:
    p = af.placeholder("bool", ())
    power = lambda: af.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 3), (0, 1))[1]
    y = af.cond(p, power, lambda: af.constant(-1))
    return [await s.run(y, {p: pred}) for pred in (True, False)]


@tensorflow("loops: a variable that nobody changes is passed on")
def _(s: Any) -> Any:
    return s.run(
        s.tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (0, np.ones((2, 2), "float32")))
    )


@actorflow("loops: a variable that nobody changes is passed on")
async def _(s: Any) -> Any:
    return await s.run(
        af.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (0, np.ones((2, 2), "float32")))
    )


@tensorflow("loops: two variables change places")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), (0, 1.0, 2.0)))


@actorflow("loops: two variables change places")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), (0, 1.0, 2.0)))


@tensorflow("loops: a vector grows, as its shape says")
def _(s: Any) -> Any:
    x = s.tf.constant([1.0])
    shapes = [s.tf.TensorShape([]), s.tf.TensorShape([None])]
    body = lambda i, x: (i + 1, s.tf.concat([x, x + 1.0], 0))
    return s.run(s.tf.while_loop(lambda i, x: i < 3, body, [s.tf.constant(0), x], shape_invariants=shapes)[1])


@actorflow("loops: a vector grows, as its shape says")
async def _(s: Any) -> Any:
    x = af.constant([1.0])
    body = lambda i, x: (i + 1, af.concat([x, x + 1.0], 0))
    return await s.run(af.while_loop(lambda i, x: i < 3, body, (0, x), shapes=[(), (None,)])[1])


@tensorflow("loops: a vector may not grow unless its shape says so")
def _(s: Any) -> Any:
    body = lambda i, x: (i + 1, s.tf.concat([x, x], 0))
    return s.run(s.tf.while_loop(lambda i, x: i < 3, body, (0, s.tf.constant([1.0])))[1])


@actorflow("loops: a vector may not grow unless its shape says so")
async def _(s: Any) -> Any:
    body = lambda i, x: (i + 1, af.concat([x, x], 0))
    return await s.run(af.while_loop(lambda i, x: i < 3, body, (0, af.constant([1.0])))[1])


@tensorflow("loops: a shape that the first value does not fit")
def _(s: Any) -> Any:
    first, shapes = [s.tf.constant([1.0])], [s.tf.TensorShape([2])]
    return s.run(s.tf.while_loop(lambda x: x[0] < 3.0, lambda x: x + 1.0, first, shape_invariants=shapes))


@actorflow("loops: a shape that the first value does not fit")
async def _(s: Any) -> Any:
    first = [af.constant([1.0])]
    return await s.run(af.while_loop(lambda x: x[0] < 3.0, lambda x: x + 1.0, first, shapes=[(2,)]))


@tensorflow("loops: a dtype does not change")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i: i < 3, lambda i: s.tf.cast(i, s.tf.float32), (0,)))


@actorflow(
    "loops: a dtype does not change",
    instead="refused when built",
    because="both dtypes are known when the loop is built, so the error names both lines",
)
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i: i < 3, lambda i: af.cast(i, "float32"), (0,)))


@tensorflow("loops: a body gives back as many variables")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i, x: i < 3, lambda i, x: i + 1, (0, 1.0)))


@actorflow("loops: a body gives back as many variables")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i, x: i < 3, lambda i, x: i + 1, (0, 1.0)))


@tensorflow("loops: the condition is a truth")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda i: i, lambda i: i - 1, (s.tf.constant(3),)))


@actorflow("loops: the condition is a truth")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda i: i, lambda i: i - 1, (3,)))


@tensorflow("loops: the condition is one truth")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, (s.tf.constant([1.0, 2.0]),)))


@actorflow("loops: the condition is one truth")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, (af.constant([1.0, 2.0]),)))


@tensorflow("loops: no variables")
def _(s: Any) -> Any:
    return s.run(s.tf.while_loop(lambda: False, lambda: (), ()))


@actorflow("loops: no variables")
async def _(s: Any) -> Any:
    return await s.run(af.while_loop(lambda: False, lambda: (), ()))


@tensorflow("loops: what a body made cannot be fetched")
def _(s: Any) -> Any:
    made: list[Any] = []

    def body(i: Any) -> Any:
        made.append(i + 1)
        return made[0]

    s.tf.while_loop(lambda i: i < 3, body, (0,))
    return s.run(made[0])


@actorflow("loops: what a body made cannot be fetched")
async def _(s: Any) -> Any:
    made: list[Any] = []

    def body(i: Any) -> Any:
        made.append(i + 1)
        return made[0]

    af.while_loop(lambda i: i < 3, body, (0,))
    return await s.run(made[0])


@tensorflow("loops: an index beyond a table fails in the step")
def _(s: Any) -> Any:
    table = s.tf.constant([1, 2, 3])
    return s.run(s.tf.while_loop(lambda i, t: i < 9, lambda i, t: (i + 1, t + s.tf.gather(table, i)), (0, 0)))


@actorflow("loops: an index beyond a table fails in the step")
async def _(s: Any) -> Any:
    table = af.constant([1, 2, 3])
    return await s.run(
        af.while_loop(lambda i, t: i < 9, lambda i, t: (i + 1, t + af.gather(table, i)), (0, 0))
    )


@tensorflow("loops: a variable is written every turn")
def _(s: Any) -> Any:
    v = s.tf.Variable(1, use_resource=True)
    s.initialise()

    def body(i: Any) -> Any:
        with s.tf.control_dependencies([v.assign_add(i)]):
            return i + 1

    end = s.tf.while_loop(lambda i: i < 5, body, (0,))
    return [s.run(end), s.run(v.read_value())]


@actorflow("loops: a variable is written every turn")
async def _(s: Any) -> Any:
    v = af.Variable(1, dtype="int32")

    def body(i: Any) -> Any:
        with af.control_dependencies([v.assign_add(i)]):
            return i + 1

    end = af.while_loop(lambda i: i < 5, body, 0)
    return [await s.run(end), await s.run(v.read())]


@tensorflow("loops: elements of a queue are added up")
def _(s: Any) -> Any:
    queue = s.tf.FIFOQueue(9, "int32", [()])
    s.run(queue.enqueue_many(([1, 2, 3, 4],)))
    total = s.tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + queue.dequeue()), (0, 0))[1]
    return [s.run(total), int(s.run(queue.size()))]


@actorflow("loops: elements of a queue are added up")
async def _(s: Any) -> Any:
    queue = af.state.FIFOQueue(9, "int32", ())
    await s.run(queue.enqueue_many(([1, 2, 3, 4],)))
    total = af.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + queue.dequeue()), (0, 0))[1]
    return [await s.run(total), int(await s.run(queue.size()))]


@tensorflow("loops: a queue ends the loop, and the step")
def _(s: Any) -> Any:
    queue = s.tf.FIFOQueue(9, "int32", [()])
    s.run(queue.enqueue_many(([1, 2],)))
    s.run(queue.close())
    return s.run(s.tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + queue.dequeue()), (0, 0))[1])


@actorflow("loops: a queue ends the loop, and the step")
async def _(s: Any) -> Any:
    queue = af.state.FIFOQueue(9, "int32", ())
    await s.run(queue.enqueue_many(([1, 2],)))
    await s.run(queue.close())
    return await s.run(
        af.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + queue.dequeue()), (0, 0))[1]
    )
