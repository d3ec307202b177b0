"""Ours, computed for one sample: a graph of its own, node by node, and its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import actorflow as af
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.graph import Graph
from tests.oracle.table import Entry
from tests.support.reference import Values, needed, run


class Computation:
    """A graph that grows with what is asked; every node is computed once."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.values: Values = {}

    def feed(self, array: np.ndarray) -> Tensor:
        """A placeholder with a value."""
        with self.graph:
            tensor = af.placeholder(array.dtype, array.shape)
        self.values[tensor.port] = array
        return tensor

    def built(
        self, entry: Entry, args: Sequence[Any], kwargs: dict[str, Any], settled: str = ""
    ) -> list[Tensor]:
        """The outputs of ours, as tensors, settled in the way of that name if the entry knows it."""
        with self.graph:
            made = entry.build(*args, **kwargs)
            outputs = made if isinstance(made, list | tuple) else [made]
            settle = entry.settled.get(settled)
            return [af.arrays.identity(t) for t in (outputs if settle is None else settle(*outputs))]

    def compute(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """The values of tensors."""
        with silent():
            for node_id in needed(self.graph, [t.port for t in tensors], self.values):
                run(self.graph, self.graph.nodes[node_id], self.values)
        return [np.asarray(self.values[t.port]) for t in tensors]

    def slopes(
        self, ys: Sequence[Tensor], xs: Sequence[Tensor], weights: Sequence[np.ndarray]
    ) -> list[Tensor | None]:
        """The gradient, for each x, of the sum of all elements of ys times their weights; all dense."""
        with self.graph:
            found = gradients(list(ys), list(xs), grad_ys=[af.constant(w) for w in weights])
            return [None if g is None else as_tensor(g) for g in found]


@contextmanager
def silent() -> Iterator[None]:
    """Kernels return NaN and infinities in silence; warnings of numpy are the runtime's to turn off."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def difference(entry: Entry, what: str, told: np.ndarray, made: np.ndarray) -> str | None:
    """How what ours made differs from what torch told: shape, dtype or values; None when it does not.

    The rule: equal shapes and dtypes; integers, bools, NaN and infinities equal; floating numbers
    within `atol` + `rtol`·|told|, with the larger of 1 and the largest finite |told| times `atol`, for
    sums round by the size of what they add.
    """
    if told.shape != made.shape:
        return f"{what}: torch has shape {told.shape}, ours {made.shape}"
    if told.dtype != made.dtype:
        return f"{what}: torch has dtype {told.dtype}, ours {made.dtype}"
    finite = np.abs(told[np.isfinite(told)]) if told.dtype.kind in "fc" else np.zeros(0)
    atol = entry.atol * max(1.0, float(finite.max(initial=0.0)))
    exact = told.dtype.kind not in "fc"
    close = told == made if exact else np.isclose(made, told, entry.rtol, atol, equal_nan=True)
    if np.all(close):
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return (
        f"{what}: {np.count_nonzero(~close)} of {told.size} elements differ, the first at {where}: "
        f"torch {told[where]!r}, ours {made[where]!r}"
    )
