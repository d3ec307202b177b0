"""TensorArrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.resources import Resources, both

ZERO, ONE, TWO = np.arange(3, dtype="int32")
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32")


@both("arrays: what was written is read")
async def _(s: Resources) -> Any:
    array = s.array("float32", 3, ()).write(TWO, 5.0).write(ZERO, 7.0)
    return await s.run([array.read(TWO), array.read(ZERO)])


@both("arrays: stack puts the elements side by side")
async def _(s: Resources) -> Any:
    array = s.array("float32", 3, (2,))
    for k in (TWO, ZERO, ONE):
        array = array.write(k, X[k])
    return await s.run(array.stack())


@both("arrays: unstack writes the rows")
async def _(s: Resources) -> Any:
    array = s.array("float32", 3, (2,)).unstack(X)
    return await s.run([array.read(ONE), array.size()])


@both("arrays: gather takes some, again and again")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, (2,)).unstack(X).gather(np.array([2, 0], "int32")))


@both("arrays: scatter writes some")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, (2,)).scatter(np.array([1, 2, 0], "int32"), X).stack())


@both("arrays: concat joins elements of different length")
async def _(s: Resources) -> Any:
    array = s.array("float32", 2, None, same=False).write(ZERO, X).write(ONE, X[:1])
    return await s.run(array.concat())


@both("arrays: split cuts by lengths")
async def _(s: Resources) -> Any:
    array = s.array("float32", 2, None, same=False).split(X, np.array([1, 2], "int32"))
    return await s.run([array.read(ZERO), array.read(ONE)])


@both("arrays: split takes all that there is")
async def _(s: Resources) -> Any:
    array = s.array("float32", 2, None, same=False).split(s.given(X), np.array([1, 1], "int32"))
    return await s.run(array.read(ZERO))


@both("arrays: without a size it grows")
async def _(s: Resources) -> Any:
    array = s.array("float32", None, ()).write(ZERO, 1.0).write(ONE, 2.0).write(TWO, 3.0)
    return await s.run([array.size(), array.stack()])


@both("arrays: an index is written once")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, ()).write(ONE, 1.0).write(ONE, 2.0).read(ONE))


@both("arrays: an index beyond the size is not written")
async def _(s: Resources) -> Any:
    index = s.sum(s.given([1.0, 1.0, 1.0]))
    return await s.run(s.array("float32", 3, ()).write(s.integer(index), 1.0).read(ZERO))


@both("arrays: an index beyond the size is not read")
async def _(s: Resources) -> Any:
    index = s.sum(s.given([1.0, 1.0, 1.0]))
    return await s.run(s.array("float32", 3, ()).unstack(X[:, 0]).read(s.integer(index)))


@both("arrays: an element has the shape that was said")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, (2,)).write(ZERO, np.zeros(3, "float32")).read(ZERO))


@both(
    "arrays: an element has the dtype that was said",
    instead="refused when built",
    because="dtypes are known when the graph is built",
)
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, ()).write(ZERO, s.integer(s.given(1.0))).read(ZERO))


@both(
    "arrays: what was not written is not read",
    instead="invalid",
    because="zeros in the place of what is missing hide a mistake",
)
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, (2,)).write(ZERO, X[0]).read(ONE))


@both("arrays: what was not written is not read, where its shape is not known")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, None, same=False).write(ZERO, X[0]).read(ONE))


@both(
    "arrays: stack with an element missing",
    instead="invalid",
    because="zeros in the place of what is missing hide a mistake",
)
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", 3, (2,)).write(ZERO, X[0]).write(TWO, X[2]).stack())


@both(
    "arrays: an element is read twice",
    instead=[np.float32(7.0), np.float32(7.0)],
    because="an element lives as long as a version of the array that has it, so there is nothing to clear",
)
async def _(s: Resources) -> Any:
    array = s.array("float32", 2, ()).write(ZERO, 7.0)
    first = array.read(ZERO)
    with s.after(first):
        return await s.run([first, array.read(ZERO)])


@both(
    "arrays: two go on from one",
    instead=[np.float32(1.0), np.float32(2.0)],
    because="an array does not change: what writes gives another one",
)
async def _(s: Resources) -> Any:
    array = s.array("float32", 2, ()).write(ZERO, 7.0)
    one, other = array.write(ONE, 1.0), array.write(ONE, 2.0)
    return await s.run([one.read(ONE), other.read(ONE)])


@both("arrays: stack of none, whose shape is known")
async def _(s: Resources) -> Any:
    return await s.run(s.array("float32", None, (2,)).stack())


@both("arrays: a loop fills one")
async def _(s: Resources) -> Any:
    body = lambda i, a: (i + 1, a.write(i, i * i))
    return await s.run(s.loop(lambda i, a: i < 5, body, (0, s.array("int32", 5, ())))[1].stack())


@both("arrays: a loop reads one and fills another")
async def _(s: Resources) -> Any:
    rows = s.array("float32", 3, (2,)).unstack(X)

    def body(i: Any, total: Any, sums: Any) -> Any:
        total = total + rows.read(i)
        return i + 1, total, sums.write(i, total)

    first = (0, np.zeros(2, "float32"), s.array("float32", 3, (2,)))
    return await s.run(s.loop(lambda i, total, sums: i < 3, body, first)[2].stack())


@both("arrays: the gradient of what was written and read")
async def _(s: Resources) -> Any:
    x, y = s.given(2.0), s.given(3.0)
    array = s.array("float32", 2, ()).write(ZERO, x * x).write(ONE, x * y)
    return await s.run(s.gradients(array.read(ZERO) * array.read(ONE), [x, y]))


@both("arrays: the gradient of rows")
async def _(s: Resources) -> Any:
    x = s.given(X)
    array = s.array("float32", 3, (2,)).unstack(x)
    return await s.run(s.gradients(s.sum(array.stack() ** 2) + s.sum(array.read(ONE) * 10.0), x))


@both("arrays: the gradient of gather adds up")
async def _(s: Resources) -> Any:
    x = s.given(X)
    array = s.array("float32", 3, (2,)).unstack(x)
    taken = array.gather(np.array([0, 2], "int32"))
    return await s.run(s.gradients(s.sum(taken * taken) + s.sum(array.stack()), x))


@both("arrays: the gradient of scatter")
async def _(s: Resources) -> Any:
    x = s.given(X)
    array = s.array("float32", 3, (2,)).scatter(np.array([2, 0, 1], "int32"), x)
    return await s.run(s.gradients(s.sum(array.stack() * np.array([[1.0], [2.0], [3.0]], "float32")), x))


@both("arrays: the gradient of concat")
async def _(s: Resources) -> Any:
    x, y = s.given(X), s.given(X[:1])
    array = s.array("float32", 2, None, same=False).write(ZERO, x).write(ONE, y)
    return await s.run(s.gradients(s.sum(array.concat() ** 2), [x, y]))


@both("arrays: the gradient of split")
async def _(s: Resources) -> Any:
    x = s.given(X)
    array = s.array("float32", 2, None, same=False).split(x, np.array([1, 2], "int32"))
    return await s.run(s.gradients(s.sum(array.read(ZERO)) + s.sum(array.read(ONE) ** 2), x))


@both("arrays: the gradient of what a loop filled")
async def _(s: Resources) -> Any:
    x = s.given(1.5)

    def body(i: Any, y: Any, kept: Any) -> Any:
        return i + 1, y * x, kept.write(i, y * y)

    kept = s.loop(lambda i, y, kept: i < 4, body, (0, x, s.array("float32", 4, ())))[2]
    return await s.run([kept.stack(), s.gradients(s.sum(kept.stack()), x)[0]])


@both("arrays: the gradient of rows that a loop reads")
async def _(s: Resources) -> Any:
    x, w = s.given(X), s.given([0.5, -1.0])
    rows = s.array("float32", 3, (2,)).unstack(x)
    body = lambda i, y: (i + 1, y * w + rows.read(i) * y)
    y = s.loop(lambda i, y: i < 3, body, (0, np.ones(2, "float32")))[1]
    return await s.run(s.gradients(s.sum(y), [x, w]))
