"""cond, case and switch_case."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import actorflow as af
from tests.conformance.case import actorflow, tensorflow


@tensorflow("branches: cond takes one of two")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.float32, ())
    y = s.tf.cond(x < 0.0, lambda: -x, lambda: x * 2.0)
    return [s.run(y, {x: value}) for value in (-3.0, 5.0)]


@actorflow("branches: cond takes one of two")
async def _(s: Any) -> Any:
    x = af.placeholder("float32", ())
    y = af.cond(x < 0.0, lambda: -x, lambda: x * 2.0)
    return [await s.run(y, {x: value}) for value in (-3.0, 5.0)]


@tensorflow("branches: results in a structure")
def _(s: Any) -> Any:
    p = s.tf.placeholder(s.tf.bool, ())
    y = s.tf.cond(
        p,
        lambda: {"a": s.tf.constant(1), "b": s.tf.zeros(2)},
        lambda: {"a": s.tf.constant(2), "b": s.tf.ones(2)},
    )
    return [s.run(y, {p: pred}) for pred in (True, False)]


@actorflow("branches: results in a structure")
async def _(s: Any) -> Any:
    p = af.placeholder("bool", ())
    y = af.cond(p, lambda: {"a": 1, "b": af.zeros((2,))}, lambda: {"a": 2, "b": af.ones((2,))})
    return [await s.run(y, {p: pred}) for pred in (True, False)]


@tensorflow("branches: a branch in a branch")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.int32, ())
    y = s.tf.cond(x > 0, lambda: s.tf.cond(x > 10, lambda: x - 10, lambda: x + 1), lambda: -x)
    return [s.run(y, {x: value}) for value in (15, 5, -5)]


@actorflow("branches: a branch in a branch")
async def _(s: Any) -> Any:
    x = af.placeholder("int32", ())
    y = af.cond(x > 0, lambda: af.cond(x > 10, lambda: x - 10, lambda: x + 1), lambda: -x)
    return [await s.run(y, {x: value}) for value in (15, 5, -5)]


@tensorflow("branches: results of different sizes")
def _(s: Any) -> Any:
    p = s.tf.placeholder(s.tf.bool, ())
    y = s.tf.cond(p, lambda: s.tf.constant([1, 2, 3]), lambda: s.tf.constant([4]))
    return [s.run(y, {p: pred}) for pred in (True, False)]


@actorflow("branches: results of different sizes")
async def _(s: Any) -> Any:
    p = af.placeholder("bool", ())
    y = af.cond(p, lambda: af.constant([1, 2, 3]), lambda: af.constant([4]))
    return [await s.run(y, {p: pred}) for pred in (True, False)]


@tensorflow("branches: only the branch that is taken can fail")
def _(s: Any) -> Any:
    i = s.tf.placeholder(s.tf.int32, ())
    table = s.tf.constant([1, 2, 3])
    y = s.tf.cond(i < 3, lambda: s.tf.gather(table, i), lambda: s.tf.constant(0))
    z = s.tf.cond(i < 9, lambda: s.tf.gather(table, i), lambda: s.tf.constant(0))
    return [s.run(y, {i: 7}), s.run(z, {i: 7}), s.run(z, {i: 2})]


@actorflow("branches: only the branch that is taken can fail")
async def _(s: Any) -> Any:
    i = af.placeholder("int32", ())
    table = af.constant([1, 2, 3])
    y = af.cond(i < 3, lambda: af.gather(table, i), lambda: af.constant(0))
    z = af.cond(i < 9, lambda: af.gather(table, i), lambda: af.constant(0))
    return [await s.run(y, {i: 7}), await s.run(z, {i: 7}), await s.run(z, {i: 2})]


def their_refused(s: Any, what: str) -> Any:
    yes, no = (
        s.tf.constant(1),
        {"dtypes": s.tf.constant(2.0), "structures": (s.tf.constant(1), s.tf.constant(2))}[what],
    )
    return s.run(
        s.tf.cond(s.tf.constant(True), lambda: yes + 0, lambda: s.tf.nest.map_structure(s.tf.identity, no))
    )


async def our_refused(s: Any, what: str) -> Any:
    yes, no = (
        af.constant(1),
        {"dtypes": af.constant(2.0), "structures": (af.constant(1), af.constant(2))}[what],
    )
    return await s.run(af.cond(af.constant(True), lambda: yes + 0, lambda: no))


for what in ("dtypes", "structures"):
    tensorflow(f"branches: {what} are the same in both")(partial(their_refused, what=what))
    actorflow(f"branches: {what} are the same in both")(partial(our_refused, what=what))


@tensorflow("branches: the predicate is one truth")
def _(s: Any) -> Any:
    p = s.tf.constant([True, False])
    return s.run(s.tf.cond(p, lambda: s.tf.constant(1), lambda: s.tf.constant(2)))


@actorflow("branches: the predicate is one truth")
async def _(s: Any) -> Any:
    p = af.constant([True, False])
    return await s.run(af.cond(p, lambda: af.constant(1), lambda: af.constant(2)))


@tensorflow("branches: switch_case takes a branch by its number")
def _(s: Any) -> Any:
    i = s.tf.placeholder(s.tf.int32, ())
    y = s.tf.switch_case(i, [lambda: s.tf.constant(10), lambda: s.tf.constant(20), lambda: s.tf.constant(30)])
    return [s.run(y, {i: k}) for k in (0, 1, 2)]


@actorflow("branches: switch_case takes a branch by its number")
async def _(s: Any) -> Any:
    i = af.placeholder("int32", ())
    y = af.switch_case(i, [lambda: af.constant(10), lambda: af.constant(20), lambda: af.constant(30)])
    return [await s.run(y, {i: k}) for k in (0, 1, 2)]


@tensorflow("branches: switch_case takes the last one for other numbers")
def _(s: Any) -> Any:
    i = s.tf.placeholder(s.tf.int32, ())
    y = s.tf.switch_case(i, [lambda: s.tf.constant(10), lambda: s.tf.constant(20), lambda: s.tf.constant(30)])
    return [s.run(y, {i: k}) for k in (3, 100, -1)]


@actorflow("branches: switch_case takes the last one for other numbers")
async def _(s: Any) -> Any:
    i = af.placeholder("int32", ())
    y = af.switch_case(i, [lambda: af.constant(10), lambda: af.constant(20), lambda: af.constant(30)])
    return [await s.run(y, {i: k}) for k in (3, 100, -1)]


@tensorflow("branches: case takes the first that is true")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.int32, ())
    pairs = [(x > 10, lambda: s.tf.constant(1)), (x > 5, lambda: s.tf.constant(2))]
    y = s.tf.case(pairs, default=lambda: s.tf.constant(3))
    return [s.run(y, {x: value}) for value in (11, 6, 0)]


@actorflow("branches: case takes the first that is true")
async def _(s: Any) -> Any:
    x = af.placeholder("int32", ())
    y = af.case([(x > 10, lambda: af.constant(1)), (x > 5, lambda: af.constant(2))], lambda: af.constant(3))
    return [await s.run(y, {x: value}) for value in (11, 6, 0)]


@tensorflow("branches: cond has the gradient of the branch that was taken")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.float32, ())
    y = s.tf.cond(x < 0.0, lambda: x * x * x, lambda: x * 2.0)
    return [s.run(s.tf.gradients(y, x), {x: value}) for value in (-3.0, 5.0)]


@actorflow("branches: cond has the gradient of the branch that was taken")
async def _(s: Any) -> Any:
    x = af.placeholder("float32", ())
    y = af.cond(x < 0.0, lambda: x * x * x, lambda: x * 2.0)
    return [await s.run(af.gradients(y, x), {x: value}) for value in (-3.0, 5.0)]


@tensorflow("branches: no gradient reaches what only the other branch uses")
def _(s: Any) -> Any:
    p, x, y = (s.tf.placeholder(kind, ()) for kind in ("bool", "float32", "float32"))
    grads = s.tf.gradients(s.tf.cond(p, lambda: x * x, lambda: y * 5.0), [x, y])
    return [s.run(grads, {p: pred, x: 3.0, y: 4.0}) for pred in (True, False)]


@actorflow("branches: no gradient reaches what only the other branch uses")
async def _(s: Any) -> Any:
    p, x, y = (af.placeholder(kind, ()) for kind in ("bool", "float32", "float32"))
    grads = af.gradients(af.cond(p, lambda: x * x, lambda: y * 5.0), [x, y])
    return [await s.run(grads, {p: pred, x: 3.0, y: 4.0}) for pred in (True, False)]


@tensorflow("branches: the gradient of a gradient")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.float32, ())
    y = s.tf.cond(x < 0.0, lambda: x * x * x, lambda: s.tf.exp(x))
    (first,) = s.tf.gradients(y, x)
    return [s.run(s.tf.gradients(first, x), {x: value}) for value in (-3.0, 1.0)]


@actorflow("branches: the gradient of a gradient")
async def _(s: Any) -> Any:
    x = af.placeholder("float32", ())
    y = af.cond(x < 0.0, lambda: x * x * x, lambda: af.exp(x))
    (first,) = af.gradients(y, x)
    return [await s.run(af.gradients(first, x), {x: value}) for value in (-3.0, 1.0)]


@tensorflow("branches: switch_case has a gradient")
def _(s: Any) -> Any:
    i, x = s.tf.placeholder(s.tf.int32, ()), s.tf.placeholder(s.tf.float32, (2,))
    y = s.tf.switch_case(i, [lambda: x * 1.0, lambda: x * x, lambda: s.tf.sin(x)])
    return [s.run(s.tf.gradients(y, x), {i: k, x: [0.5, 2.0]}) for k in (0, 1, 2)]


@actorflow("branches: switch_case has a gradient")
async def _(s: Any) -> Any:
    i, x = af.placeholder("int32", ()), af.placeholder("float32", (2,))
    y = af.switch_case(i, [lambda: x * 1.0, lambda: x * x, lambda: af.sin(x)])
    return [await s.run(af.gradients(y, x), {i: k, x: [0.5, 2.0]}) for k in (0, 1, 2)]


@tensorflow("branches: rows of a table have a sparse gradient")
def _(s: Any) -> Any:
    p, table = s.tf.placeholder(s.tf.bool, ()), s.tf.placeholder(s.tf.float32, (4, 2))
    y = s.tf.cond(p, lambda: s.tf.gather(table, [1, 3, 1]) * 2.0, lambda: s.tf.gather(table, [0, 0, 2]))
    (grad,) = s.tf.gradients(y, table)
    feeds = [{p: pred, table: np.ones((4, 2))} for pred in (True, False)]
    return [s.run(s.tf.convert_to_tensor(grad), feed) for feed in feeds]


@actorflow("branches: rows of a table have a sparse gradient")
async def _(s: Any) -> Any:
    p, table = af.placeholder("bool", ()), af.placeholder("float32", (4, 2))
    y = af.cond(p, lambda: af.gather(table, [1, 3, 1]) * 2.0, lambda: af.gather(table, [0, 0, 2]))
    (grad,) = af.gradients(y, table)
    feeds = [{p: pred, table: np.ones((4, 2), "float32")} for pred in (True, False)]
    return [await s.run(s.dense(grad), feed) for feed in feeds]


@tensorflow("branches: only what is built inside happens in one branch alone")
def _(s: Any) -> Any:
    p, v = s.tf.placeholder(s.tf.bool, ()), s.tf.Variable(0, use_resource=True)
    s.initialise()
    y = s.tf.cond(p, lambda: v.assign_add(1), lambda: v.assign_add(10))
    return [[s.run(y, {p: pred}), s.run(v.read_value())] for pred in (True, False, True)]


@actorflow("branches: only what is built inside happens in one branch alone")
async def _(s: Any) -> Any:
    p, v = af.placeholder("bool", ()), af.Variable(0, dtype="int32")
    y = af.cond(p, lambda: v.assign_add(1), lambda: v.assign_add(10))
    return [[await s.run(y, {p: pred}), await s.run(v.read())] for pred in (True, False, True)]


@tensorflow("branches: a write that was built outside happens in any case")
def _(s: Any) -> Any:
    v = s.tf.Variable(0, use_resource=True)
    s.initialise()
    write = v.assign_add(1)
    s.run(s.tf.cond(s.tf.constant(False), lambda: s.tf.identity(write), lambda: s.tf.constant(5)))
    return s.run(v.read_value())


@actorflow(
    "branches: a write that was built outside happens in any case",
    instead="refused when built",
    because="the commonest surprise of cond: it looks as if the write belonged to the branch",
)
async def _(s: Any) -> Any:
    v = af.Variable(0, dtype="int32")
    write = v.assign_add(1)
    await s.run(af.cond(af.constant(False), lambda: af.arrays.identity(write), lambda: af.constant(5)))
    return await s.run(v.read())


@tensorflow("branches: a queue is asked in one branch alone")
def _(s: Any) -> Any:
    queue, p = s.tf.FIFOQueue(9, "int32", [()]), s.tf.placeholder(s.tf.bool, ())
    s.run(queue.enqueue_many(([1, 2, 3],)))
    y = s.tf.cond(p, queue.dequeue, lambda: s.tf.constant(-1))
    return [s.run(y, {p: pred}) for pred in (False, True, False, True)] + [int(s.run(queue.size()))]


@actorflow("branches: a queue is asked in one branch alone")
async def _(s: Any) -> Any:
    queue, p = af.state.FIFOQueue(9, "int32", ()), af.placeholder("bool", ())
    await s.run(queue.enqueue_many(([1, 2, 3],)))
    y = af.cond(p, queue.dequeue, lambda: af.constant(-1))
    return [await s.run(y, {p: pred}) for pred in (False, True, False, True)] + [
        int(await s.run(queue.size()))
    ]
