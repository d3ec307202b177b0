"""Gradients through while_loop."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import actorflow as af
from tests.conformance.case import actorflow, tensorflow

W = np.array([[0.5, -0.25], [0.125, 0.75]], "float32")
ROWS = np.arange(8, dtype="float32").reshape(4, 2)


def their_power(s: Any, turns: int) -> Any:
    x, n = s.tf.placeholder(s.tf.float32, ()), s.tf.placeholder(s.tf.int32, ())
    y = s.tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), (0, x))[1]
    return s.run([y, s.tf.gradients(y, x)[0]], {x: 1.5, n: turns})


async def our_power(s: Any, turns: int) -> Any:
    x, n = af.placeholder("float32", ()), af.placeholder("int32", ())
    y = af.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), (0, x))[1]
    return await s.run([y, af.gradients(y, x)[0]], {x: 1.5, n: turns})


for turns in (0, 1, 12):
    tensorflow(f"gradients: of a loop of {turns} turns")(partial(their_power, turns=turns))
    actorflow(f"gradients: of a loop of {turns} turns")(partial(our_power, turns=turns))


@tensorflow("gradients: of what is the same in all turns add up")
def _(s: Any) -> Any:
    w, x = s.given(W), s.given([[1.0, 2.0]])
    y = s.tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, s.tf.tanh(s.tf.matmul(h, w))), (0, x))[1]
    return s.run(s.tf.gradients(s.tf.reduce_sum(y), [w, x]))


@actorflow("gradients: of what is the same in all turns add up")
async def _(s: Any) -> Any:
    w, x = s.given(W), s.given([[1.0, 2.0]])
    y = af.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, af.tanh(af.matmul(h, w))), (0, x))[1]
    return await s.run(af.gradients(af.sum(y), [w, x]))


@tensorflow("gradients: of a variable that is read in a body")
def _(s: Any) -> Any:
    v = s.tf.Variable(W, use_resource=True)
    s.initialise()
    x = s.tf.constant([[1.0, 2.0]])
    y = s.tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, s.tf.matmul(h, v) + 1.0), (0, x))[1]
    return s.run(s.tf.gradients(s.tf.reduce_sum(y), [v]))


@actorflow("gradients: of a variable that is read in a body")
async def _(s: Any) -> Any:
    v = af.Variable(W)
    x = af.constant([[1.0, 2.0]])
    y = af.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, af.matmul(h, v) + 1.0), (0, x))[1]
    return await s.run(af.gradients(af.sum(y), [v]))


@tensorflow("gradients: of a loop that its limit ends")
def _(s: Any) -> Any:
    x = s.given(1.5)
    body = lambda i, y: (i + 1, y * x)
    y = s.tf.while_loop(lambda i, y: i < 9, body, (s.tf.constant(0), x), maximum_iterations=2)[1]
    return s.run(s.tf.gradients(y, x))


@actorflow("gradients: of a loop that its limit ends")
async def _(s: Any) -> Any:
    x = s.given(1.5)
    y = af.while_loop(lambda i, y: i < 9, lambda i, y: (i + 1, y * x), (0, x), max_iterations=2)[1]
    return await s.run(af.gradients(y, x))


@tensorflow("gradients: when the value decides how many turns there are")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.float32, ())
    (y,) = [s.tf.while_loop(lambda y: y < 100.0, lambda y: (y * y + x,), (x,))]
    return [s.run(s.tf.gradients(y, x), {x: value}) for value in (2.0, 3.0, 200.0)]


@actorflow("gradients: when the value decides how many turns there are")
async def _(s: Any) -> Any:
    x = af.placeholder("float32", ())
    y = af.while_loop(lambda y: y < 100.0, lambda y: (y * y + x,), (x,))
    return [await s.run(af.gradients(y[0], x), {x: value}) for value in (2.0, 3.0, 200.0)]


@tensorflow("gradients: of one of several variables of a loop")
def _(s: Any) -> Any:
    a, b = s.given(2.0), s.given(3.0)
    _, x, y = s.tf.while_loop(lambda i, x, y: i < 4, lambda i, x, y: (i + 1, x * b, y + x), (0, a, b))
    return [s.run(s.tf.gradients(z, [a, b])) for z in (x, y)]


@actorflow("gradients: of one of several variables of a loop")
async def _(s: Any) -> Any:
    a, b = s.given(2.0), s.given(3.0)
    _, x, y = af.while_loop(lambda i, x, y: i < 4, lambda i, x, y: (i + 1, x * b, y + x), (0, a, b))
    return [await s.run(af.gradients(z, [a, b])) for z in (x, y)]


@tensorflow("gradients: of a variable that does not depend on x is zero, or none")
def _(s: Any) -> Any:
    x = s.given(2.0)
    y = s.tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2.0), (0, 1.0))[1]
    return s.tf.gradients(y, x)


@actorflow("gradients: of a variable that does not depend on x is zero, or none")
async def _(s: Any) -> Any:
    x = s.given(2.0)
    y = af.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2.0), (0, 1.0))[1]
    return list(af.gradients(y, x))


@tensorflow("gradients: a gradient stops where it is told to")
def _(s: Any) -> Any:
    x = s.given(1.5)
    body = lambda i, y: (i + 1, y * x + s.tf.stop_gradient(y))
    return s.run(s.tf.gradients(s.tf.while_loop(lambda i, y: i < 3, body, (0, x))[1], x))


@actorflow("gradients: a gradient stops where it is told to")
async def _(s: Any) -> Any:
    x = s.given(1.5)
    body = lambda i, y: (i + 1, y * x + af.stop_gradient(y))
    return await s.run(af.gradients(af.while_loop(lambda i, y: i < 3, body, (0, x))[1], x))


@tensorflow("gradients: a loop in a loop")
def _(s: Any) -> Any:
    x = s.given(1.1)

    def row(i: Any, y: Any) -> Any:
        return i + 1, s.tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x), (0, y))[1]

    y = s.tf.while_loop(lambda i, y: i < 4, row, (0, x))[1]
    return s.run([y, s.tf.gradients(y, x)[0]])


@actorflow("gradients: a loop in a loop")
async def _(s: Any) -> Any:
    x = s.given(1.1)

    def row(i: Any, y: Any) -> Any:
        return i + 1, af.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x), (0, y))[1]

    y = af.while_loop(lambda i, y: i < 4, row, (0, x))[1]
    return await s.run([y, af.gradients(y, x)[0]])


@tensorflow("gradients: a branch in a loop")
def _(s: Any) -> Any:
    x = s.tf.placeholder(s.tf.float32, ())

    def body(i: Any, y: Any) -> Any:
        return i + 1, s.tf.cond(y > 4.0, lambda: y / x, lambda: y * y * x)

    y = s.tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]
    return [s.run(s.tf.gradients(y, x), {x: value}) for value in (1.25, 0.9)]


@actorflow("gradients: a branch in a loop")
async def _(s: Any) -> Any:
    x = af.placeholder("float32", ())

    def body(i: Any, y: Any) -> Any:
        return i + 1, af.cond(y > 4.0, lambda: y / x, lambda: y * y * x)

    y = af.while_loop(lambda i, y: i < 5, body, (0, x))[1]
    return [await s.run(af.gradients(y, x), {x: value}) for value in (1.25, 0.9)]


@tensorflow("gradients: a loop in a branch")
def _(s: Any) -> Any:
    x, p = s.tf.placeholder(s.tf.float32, ()), s.tf.placeholder(s.tf.bool, ())
    power = lambda: s.tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    (grad,) = s.tf.gradients(s.tf.cond(p, power, lambda: x * 10.0), x)
    return [s.run(grad, {x: 2.0, p: pred}) for pred in (True, False)]


@actorflow("gradients: a loop in a branch")
async def _(s: Any) -> Any:
    x, p = af.placeholder("float32", ()), af.placeholder("bool", ())
    power = lambda: af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    (grad,) = af.gradients(af.cond(p, power, lambda: x * 10.0), x)
    return [await s.run(grad, {x: 2.0, p: pred}) for pred in (True, False)]


@tensorflow("gradients: a vector that grows")
def _(s: Any) -> Any:
    x = s.given([1.0, 2.0])
    shapes = [s.tf.TensorShape([]), s.tf.TensorShape([None])]
    body = lambda i, y: (i + 1, s.tf.concat([y, y * y], 0))
    y = s.tf.while_loop(lambda i, y: i < 2, body, [s.tf.constant(0), x], shape_invariants=shapes)[1]
    return s.run(s.tf.gradients(s.tf.reduce_sum(y), x))


@actorflow("gradients: a vector that grows")
async def _(s: Any) -> Any:
    x = s.given([1.0, 2.0])
    body = lambda i, y: (i + 1, af.concat([y, y * y], 0))
    y = af.while_loop(lambda i, y: i < 2, body, (0, x), shapes=[(), (None,)])[1]
    return await s.run(af.gradients(af.sum(y), x))


@tensorflow("gradients: rows of a table, a few every turn")
def _(s: Any) -> Any:
    table = s.given(ROWS)
    body = lambda i, t: (i + 1, t + s.tf.gather(table, [i, 3, i]) ** 2)
    y = s.tf.while_loop(lambda i, t: i < 3, body, (0, s.tf.zeros((3, 2))))[1]
    (grad,) = s.tf.gradients(s.tf.reduce_sum(y), table)
    return s.run(s.tf.convert_to_tensor(grad))


@actorflow("gradients: rows of a table, a few every turn")
async def _(s: Any) -> Any:
    table = s.given(ROWS)
    body = lambda i, t: (i + 1, t + af.gather(table, af.stack([i, af.constant(3), i])) ** 2)
    y = af.while_loop(lambda i, t: i < 3, body, (0, af.zeros((3, 2))))[1]
    (grad,) = af.gradients(af.sum(y), table)
    return await s.run(s.dense(grad))


@tensorflow("gradients: of a gradient")
def _(s: Any) -> Any:
    x = s.given(1.5)
    y = s.tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    (first,) = s.tf.gradients(y, x)
    return s.run(s.tf.gradients(first, x))


@actorflow(
    "gradients: of a gradient",
    instead=[np.float32(27.0)],
    because="the gradient of a loop is a loop as others; there it has no gradient",
)
async def _(s: Any) -> Any:
    x = s.given(1.5)
    y = af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    (first,) = af.gradients(y, x)
    return await s.run(af.gradients(first, x))


@tensorflow("gradients: used in a loop")
def _(s: Any) -> Any:
    def descend(i: Any, x: Any) -> Any:
        (grad,) = s.tf.gradients((x - 3.0) ** 2, x)
        return i + 1, x - 0.25 * grad

    return s.run(s.tf.while_loop(lambda i, x: i < 4, descend, (0, 1.0))[1])


@actorflow("gradients: used in a loop")
async def _(s: Any) -> Any:
    def descend(i: Any, x: Any) -> Any:
        grad: Any = af.gradients((x - 3.0) ** 2, x)[0]
        return i + 1, x - 0.25 * grad

    return await s.run(af.while_loop(lambda i, x: i < 4, descend, (0, 1.0))[1])


@tensorflow("gradients: of a constant that a body uses")
def _(s: Any) -> Any:
    x = s.tf.constant(1.5)
    y = s.tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    return s.run(s.tf.gradients(y, x))


@actorflow("gradients: of a constant that a body uses")
async def _(s: Any) -> Any:
    x = af.constant(1.5)
    y = af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]
    return await s.run(af.gradients(y, x))


@tensorflow("gradients: of a constant that a branch uses")
def _(s: Any) -> Any:
    x = s.tf.constant(1.5)
    y = s.tf.cond(s.tf.constant(True), lambda: x * x, lambda: x * 5.0)
    return s.run(s.tf.gradients(y, x))


@actorflow("gradients: of a constant that a branch uses")
async def _(s: Any) -> Any:
    x = af.constant(1.5)
    y = af.cond(af.constant(True), lambda: x * x, lambda: x * 5.0)
    return await s.run(af.gradients(y, x))
