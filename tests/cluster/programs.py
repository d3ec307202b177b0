"""Programs for clusters: batches that are all different, and dropout or rows of a table if asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import actorflow as af

OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "sgd": lambda: af.optim.sgd(0.1),
    "momentum": lambda: af.optim.momentum(0.01, 0.9),
    "adam": lambda: af.optim.adam(0.05),
    "adam with a schedule": lambda: af.optim.adam(af.optim.schedules.exponential(0.1, 0.5, 3)),
}
KEYS = 7
"""Rows of the table."""


@dataclass(frozen=True)
class Task:
    """What is trained: everything that a law draws of a program.

    Attributes:
        rows: How many rows each batch of an epoch has.
        sparse: Whether the first layer looks up rows of a table, whose gradients are rows.
        looks: How often it does: the second time from the end, the third time each row once.
        whole: Whether the loss has the whole table as well.
        keys: Rows of the table.
    """

    rows: tuple[int, ...] = (3, 1, 4, 2, 3, 3)
    seed: int = 0
    optimizer: str = "adam"
    sparse: bool = False
    dropout: float = 0.0
    epochs: int | None = None
    looks: int = 1
    whole: bool = False
    keys: int = KEYS

    def program(self, wrap: Callable[[Sequence[Any]], Any] = list) -> af.Program:
        """Returns it: three variables, `table`, `w` and `b`; `wrap` makes the source of an epoch."""
        rng = np.random.default_rng(self.seed)
        weights = rng.normal(size=(4, 2)).astype("float32")
        with af.Graph(seed=self.seed) as graph:
            x = af.placeholder("float32", (None, 4), name="x")
            y = af.placeholder("float32", (None, 2), name="y")
            keys = af.placeholder("int64", (None,), name="keys")
            table = af.Variable(af.init.he((self.keys, 4) if self.sparse else (4, 4)), name="table")
            w = af.Variable(af.init.he((4, 2)), name="w")
            b = af.Variable(af.init.zeros((2,)), name="b")
            hidden = sum(self._found(table, keys), x) if self.sparse else af.tanh(x @ table)
            hidden = af.nn.dropout(hidden, self.dropout, training=True) if self.dropout else hidden
            loss = af.mean((hidden @ w + b - y) ** 2)
            loss = loss + 0.01 * af.sum(table**2) if self.whole else loss
            train = af.minimize(loss, OPTIMIZERS[self.optimizer]())

        def batch(epoch: int, index: int) -> Mapping[str, Any]:
            drawn = np.random.default_rng([self.seed, epoch, index])
            inputs = drawn.normal(size=(self.rows[index], 4)).astype("float32")
            fed = {"x": inputs, "y": inputs @ weights}
            return {**fed, "keys": drawn.integers(0, self.keys, self.rows[index])} if self.sparse else fed

        def source(epoch: int) -> Any:
            return wrap([batch(epoch, index) for index in range(len(self.rows))])

        epochs = 1 if self.epochs is None else self.epochs
        return af.Program(graph=graph, loss=loss, train=train, batches=source, epochs=epochs)

    def _found(self, table: af.Variable, keys: Any) -> list[Any]:
        """What is looked up in the table."""
        found = [
            af.nn.embedding_lookup(table, keys),
            af.gather(table, keys - self.keys),
            af.nn.embedding_lookup(table, keys, unique=True, padding_id=1),
        ]
        return found[: self.looks]


def tasks(most_batches: int = 8) -> st.SearchStrategy[Task]:
    """Returns a strategy of tasks; the simplest is one batch of one row, under SGD."""
    return st.builds(
        Task,
        rows=st.lists(st.integers(1, 4), min_size=1, max_size=most_batches).map(tuple),
        seed=st.integers(0, 99),
        optimizer=st.sampled_from(["sgd", "momentum", "adam"]),
        sparse=st.booleans(),
        dropout=st.sampled_from([0.0, 0.4]),
        looks=st.integers(1, 3),
        whole=st.sampled_from([False, False, True]),
    )
