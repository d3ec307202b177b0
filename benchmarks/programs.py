"""What `sync_step` trains: steps that compute almost nothing, and two small perceptrons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import actorflow as af

ROWS = 32
"""Of a table, that a worker touches in a step."""

WIDTH = 256
"""Of a table, in float32: 1 KiB a row."""

BYTES = {"10mb": 10 << 20, "100mb": 100 << 20, "1gb": 1 << 30}
MLPS = {"mlp": (128, (784, 512, 512, 10)), "tiny_mlp": (32, (64, 32, 10))}
RATE = 0.01
_BATCHES = 1 << 12

Build = Callable[[int], af.Program]


def scalar(seed: int) -> af.Program:
    """One number."""
    return _dense(seed, 1)


def dense_10mb(seed: int) -> af.Program:
    """One variable of that size, whose gradient is as large."""
    return _dense(seed, BYTES["10mb"] // 4)


def dense_100mb(seed: int) -> af.Program:
    """Likewise."""
    return _dense(seed, BYTES["100mb"] // 4)


def sparse_10mb(seed: int) -> af.Program:
    """A table of that size, of which a step looks up `ROWS` rows."""
    return _sparse(seed, BYTES["10mb"])


def sparse_1gb(seed: int) -> af.Program:
    """Likewise."""
    return _sparse(seed, BYTES["1gb"])


def mlp(seed: int) -> af.Program:
    """784-512-512-10, 128 images a worker."""
    return _mlp(seed, *MLPS["mlp"])


def tiny_mlp(seed: int) -> af.Program:
    """64-32-10, 32 images a worker."""
    return _mlp(seed, *MLPS["tiny_mlp"])


def _dense(seed: int, n: int) -> af.Program:
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(af.init.zeros((n,)), name="w")
        loss = af.sum(w) * x
    return _program(graph, loss, [{"x": np.float32(1)}])


def _sparse(seed: int, size: int) -> af.Program:
    rows = size // 4 // WIDTH
    drawn = np.random.default_rng(seed).integers(0, rows, (64, ROWS))
    with af.Graph(seed=seed) as graph:
        keys = af.placeholder("int64", (ROWS,), name="keys")
        table = af.Variable(af.init.zeros((rows, WIDTH)), name="table")
        loss = af.sum(af.nn.embedding_lookup(table, keys))
    return _program(graph, loss, [{"keys": some} for some in drawn])


def _mlp(seed: int, batch: int, sizes: Sequence[int]) -> af.Program:
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((batch, sizes[0]), dtype=np.float32)
    labels = rng.integers(0, sizes[-1], batch)
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (batch, sizes[0]), name="x")
        y = af.placeholder("int64", (batch,), name="y")
        h: Any = x
        for i, (m, n) in enumerate(pairwise(sizes)):
            w = af.Variable(af.init.he((m, n)), name=f"w{i}")
            b = af.Variable(af.init.zeros((n,)), name=f"b{i}")
            h = h @ w + b
            h = af.nn.relu(h) if i + 2 < len(sizes) else h
        loss = af.mean(af.nn.softmax_cross_entropy(h, y))
    return _program(graph, loss, [{"x": images, "y": labels}])


def _program(graph: Any, loss: Any, batches: Sequence[Mapping[str, Any]]) -> af.Program:
    """One that never comes to its end by itself."""
    with graph:
        train = af.minimize(loss, af.optim.sgd(RATE))
    epoch = list(batches) * (_BATCHES // len(batches))
    return af.Program(graph=graph, loss=loss, train=train, batches=lambda _: epoch, epochs=1_000_000)
