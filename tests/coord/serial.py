"""The reference: serial microbatch SGD, one process that makes the same updates in plain loops.

Gradients are those of each update, with their ranks; they are added from the left in rank order in their
own dtype, divided by how many there are, and applied once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from actorflow.optim import Transform
from actorflow.values.sparse import SparseRows

Values = dict[str, np.ndarray]
Contribution = tuple[int, Mapping[str, Any]]
"""A rank, and its gradients: arrays, or (indices, rows)."""


def serial(
    params: Mapping[str, np.ndarray], transform: Transform, updates: Sequence[Sequence[Contribution]]
) -> list[Values]:
    """Returns the parameters at each version, those before the first update first."""
    now: Values = {name: np.array(value) for name, value in params.items()}
    state = transform.init(now)
    versions = [now]
    for contributions in updates:
        grads = {name: folded([g[name] for _, g in sorted(contributions, key=_rank)]) for name in now}
        given = {
            name: SparseRows(g[0], g[1], now[name].shape) if isinstance(g, tuple) else g
            for name, g in grads.items()
        }
        if not transform.sparse:
            given = {name: _dense(g) for name, g in given.items()}
        deltas, after = transform.update(given, state, now)
        now = {name: _plus(now[name], deltas[name]) for name in now}
        state = _replaced(state, after)
        versions.append(now)
    return versions


def folded(grads: Sequence[Any]) -> Any:
    """The gradients of one variable, added one after the other and divided by their number.

    Halves are taken as float32, and what comes of them is rounded once.
    """
    if len(grads) == 1:
        return grads[0]
    dtype = _values(grads[0]).dtype
    if dtype.itemsize == 2:
        wide = folded([_as(g, np.dtype("float32")) for g in grads])
        return _as(wide, dtype)
    whole = [g for g in grads if not isinstance(g, tuple)]
    if not whole:
        return _folded_rows(grads)
    arrays = [_spread(g, whole[0]) if isinstance(g, tuple) else g for g in grads]
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return np.asarray(total / total.dtype.type(len(grads)))


def _values(grad: Any) -> np.ndarray:
    values: np.ndarray = grad[1] if isinstance(grad, tuple) else grad
    return values


def _as(grad: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(grad, tuple):
        return grad[0], grad[1].astype(dtype)
    return np.asarray(grad).astype(dtype)


def _folded_rows(grads: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    sums: dict[int, np.ndarray] = {}
    for at, rows in grads:
        for index, row in zip(at.tolist(), rows, strict=True):
            sums[index] = sums[index] + row if index in sums else row
    indices = sorted(sums)
    dtype = grads[0][1].dtype
    values = np.empty((len(indices), *grads[0][1].shape[1:]), dtype)
    for i, index in enumerate(indices):
        values[i] = sums[index] / dtype.type(len(grads))
    return np.array(indices, np.int64), values


def _spread(pair: tuple[np.ndarray, np.ndarray], like: np.ndarray) -> np.ndarray:
    at, rows = pair
    whole = np.zeros(like.shape, like.dtype)
    for index, row in zip(at.tolist(), rows, strict=True):
        whole[index] = row
    return whole


def _dense(grad: Any) -> np.ndarray:
    return _spread((grad.indices, grad.values), np.empty(grad.shape, grad.dtype)) if _sparse(grad) else grad


def _plus(value: np.ndarray, delta: Any) -> np.ndarray:
    if not _sparse(delta):
        return np.asarray(value + delta)
    after = np.array(value)
    for index, row in zip(delta.indices.tolist(), delta.values, strict=True):
        after[index] = after[index] + row
    return after


def _replaced(before: Any, after: Any) -> Any:
    """The state afterwards, of whole arrays: rows in it replace those that were there."""
    if isinstance(after, dict):
        return {key: _replaced(before[key], value) for key, value in after.items()}
    if isinstance(after, tuple):
        return tuple(_replaced(b, a) for b, a in zip(before, after, strict=True))
    if not _sparse(after):
        return after
    whole = np.array(before)
    for index, row in zip(after.indices.tolist(), after.values, strict=True):
        whole[index] = row
    return whole


def _sparse(value: Any) -> bool:
    return isinstance(value, SparseRows)


def _rank(contribution: Contribution) -> int:
    return contribution[0]
