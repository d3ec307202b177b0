"""map_fn, scan and fold: loops over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import actorflow as package
from tests.conformance.case import actorflow, tensorflow

af: Any = package
X = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.25]], "float32")


@tensorflow("mapping: map_fn does the same to each row")
def _(s: Any) -> Any:
    return s.run(s.tf.map_fn(lambda row: s.tf.reduce_sum(row * row), s.tf.constant(X)))


@actorflow("mapping: map_fn does the same to each row")
async def _(s: Any) -> Any:
    return await s.run(af.map_fn(lambda row: af.sum(row * row), af.constant(X)))


@tensorflow("mapping: map_fn of several, with results of other dtypes")
def _(s: Any) -> Any:
    xs = (s.tf.constant(X), s.tf.constant([1, 2, 3]))
    fn = lambda pair: (pair[0][0] > 0.75, pair[1] * 10)
    return s.run(s.tf.map_fn(fn, xs, dtype=(s.tf.bool, s.tf.int32)))


@actorflow("mapping: map_fn of several, with results of other dtypes")
async def _(s: Any) -> Any:
    xs = (af.constant(X), af.constant([1, 2, 3]))
    return await s.run(af.map_fn(lambda pair: (pair[0][0] > 0.75, pair[1] * 10), xs))


@tensorflow("mapping: map_fn has a gradient")
def _(s: Any) -> Any:
    x, w = s.given(X), s.given([2.0, 3.0])
    y = s.tf.map_fn(lambda row: s.tf.reduce_sum(s.tf.sin(row) * w), x)
    return s.run(s.tf.gradients(y, [x, w]))


@actorflow("mapping: map_fn has a gradient")
async def _(s: Any) -> Any:
    x, w = s.given(X), s.given([2.0, 3.0])
    y = af.map_fn(lambda row: af.sum(af.sin(row) * w), x)
    return await s.run(af.gradients(y, [x, w]))


@tensorflow("mapping: scan keeps every state")
def _(s: Any) -> Any:
    return s.run(s.tf.scan(lambda total, x: total * 0.5 + x, s.tf.constant(X), s.tf.zeros(2)))


@actorflow("mapping: scan keeps every state")
async def _(s: Any) -> Any:
    return await s.run(af.scan(lambda total, x: total * 0.5 + x, af.constant(X), af.zeros((2,))))


@tensorflow("mapping: scan from the last row")
def _(s: Any) -> Any:
    return s.run(s.tf.scan(lambda total, x: total * 0.5 + x, s.tf.constant(X), s.tf.zeros(2), reverse=True))


@actorflow("mapping: scan from the last row")
async def _(s: Any) -> Any:
    return await s.run(
        af.scan(lambda total, x: total * 0.5 + x, af.constant(X), af.zeros((2,)), reverse=True)
    )


@tensorflow("mapping: scan has a gradient")
def _(s: Any) -> Any:
    x, first = s.given(X), s.given([1.0, 1.0])
    y = s.tf.scan(lambda total, row: total * row + 1.0, x, first)
    return s.run(s.tf.gradients(s.tf.reduce_sum(y), [x, first]))


@actorflow("mapping: scan has a gradient")
async def _(s: Any) -> Any:
    x, first = s.given(X), s.given([1.0, 1.0])
    y = af.scan(lambda total, row: total * row + 1.0, x, first)
    return await s.run(af.gradients(af.sum(y), [x, first]))


@tensorflow("mapping: fold from the first row")
def _(s: Any) -> Any:
    return s.run(s.tf.foldl(lambda n, digit: n * 10 + digit, s.tf.constant([1, 9, 8, 4]), s.tf.constant(0)))


@actorflow("mapping: fold from the first row")
async def _(s: Any) -> Any:
    return await s.run(af.fold(lambda n, digit: n * 10 + digit, af.constant([1, 9, 8, 4]), 0))


@tensorflow("mapping: fold from the last row")
def _(s: Any) -> Any:
    return s.run(s.tf.foldr(lambda n, digit: n * 10 + digit, s.tf.constant([1, 9, 8, 4]), s.tf.constant(0)))


@actorflow("mapping: fold from the last row")
async def _(s: Any) -> Any:
    return await s.run(af.fold(lambda n, digit: n * 10 + digit, af.constant([1, 9, 8, 4]), 0, reverse=True))


@tensorflow("mapping: fold of no rows")
def _(s: Any) -> Any:
    return s.run(s.tf.foldl(lambda n, x: n + x, s.tf.zeros((0,)), s.tf.constant(7.0)))


@actorflow("mapping: fold of no rows")
async def _(s: Any) -> Any:
    return await s.run(af.fold(lambda n, x: n + x, af.zeros((0,)), 7.0))


@tensorflow("mapping: fold has a gradient")
def _(s: Any) -> Any:
    x = s.given([1.0, 2.0, 4.0])
    return s.run(s.tf.gradients(s.tf.foldl(lambda y, row: s.tf.tanh(y) * row, x, s.tf.constant(0.5)), x))


@actorflow("mapping: fold has a gradient")
async def _(s: Any) -> Any:
    x = s.given([1.0, 2.0, 4.0])
    return await s.run(af.gradients(af.fold(lambda y, row: af.tanh(y) * row, x, 0.5), x))
