"""TensorFlow's ParameterServerStrategy: a coordinator, a server and two workers, each a process, over gRPC.

A closure reads the variables from the server, computes a gradient and sends it there. It knows no
synchronous updates: of two workers, one counts as two closures, and nobody waits for anybody.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.peers.gloo_ import free_port
from benchmarks.peers.second import Second, say, second
from benchmarks.programs import BYTES, MLPS, RATE, ROWS, WIDTH

NOTE = "asynchronous: as many closures as workers count as one update, and no closure waits for another"
VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_FAIL_FAST": "use_caller", "GRPC_VERBOSITY": "NONE"}
JOBS = (("worker", 0), ("worker", 1), ("ps", 0))
WORKERS = 2


class Strategy:
    """The first process's end: the coordinator keeps the time."""

    def __init__(self, coordinator: Second) -> None:
        self._coordinator = coordinator

    async def step(self, what: str, n: int) -> float:
        """Returns the seconds of `n` updates of a program of `programs`."""
        return await self._coordinator.seconds(what, n)


@contextmanager
def open_strategy() -> Iterator[Strategy]:
    """Starts its processes."""
    cluster: dict[str, list[str]] = {}
    for job, _ in JOBS:
        cluster.setdefault(job, []).append(f"127.0.0.1:{free_port()}")
    told = json.dumps(cluster, separators=(",", ":"))
    with ExitStack() as stack:
        for job, index in JOBS:
            server = second("peers.tensorflow_ps_", job, str(index), told, variables=VARIABLES)
            stack.enter_context(server)
        yield Strategy(
            stack.enter_context(second("peers.tensorflow_ps_", "chief", "0", told, variables=VARIABLES))
        )


def main(job: str, index: str, told: str) -> None:
    """Is one of them."""
    tf: Any = import_module("tensorflow")
    cluster = tf.train.ClusterSpec(json.loads(told))
    if job != "chief":
        threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
        server = tf.distribute.Server(
            cluster, job_name=job, task_index=int(index), config=threads, protocol="grpc"
        )
        sys.stdin.read()
        del server
        os._exit(0)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    made: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        what, n = line.split()
        if what not in made:
            made.clear()
            with strategy.scope():
                made[what] = _closure(tf, what)
        start = perf_counter()
        for _ in range(WORKERS * int(n)):
            coordinator.schedule(made[what])
        coordinator.join()
        say(perf_counter() - start)
    os._exit(0)


def _closure(tf: Any, what: str) -> Any:
    if what in MLPS:
        return _mlp(tf, *MLPS[what])
    if what.startswith("sparse"):
        rows = BYTES[what.partition("_")[2]] // 4 // WIDTH
        table = tf.Variable(tf.zeros([rows, WIDTH]))
        drawn = np.random.default_rng(0).integers(0, rows, ROWS)

        @tf.function  # type: ignore[untyped-decorator]
        def sparse() -> Any:
            keys = tf.constant(drawn)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.embedding_lookup(table, keys))
            found = tape.gradient(loss, table)
            table.scatter_sub(tf.IndexedSlices(RATE * found.values, found.indices))
            return loss

        return sparse
    w = tf.Variable(tf.zeros([1 if what == "scalar" else BYTES[what.partition("_")[2]] // 4]))

    @tf.function  # type: ignore[untyped-decorator]
    def dense() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w)
        w.assign_sub(RATE * tape.gradient(loss, w))
        return loss

    return dense


def _mlp(tf: Any, batch: int, sizes: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(0)
    variables: list[Any] = []
    for a, b in pairwise(sizes):
        weights = (rng.standard_normal((a, b)) * (2 / a) ** 0.5).astype(np.float32)
        variables += [tf.Variable(weights), tf.Variable(tf.zeros([b]))]
    images = rng.standard_normal((batch, sizes[0])).astype(np.float32)
    labels = rng.integers(0, sizes[-1], batch).astype(np.int32)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        x, y = tf.constant(images), tf.constant(labels)
        with tf.GradientTape() as tape:
            h = x
            for i in range(0, len(variables), 2):
                h = tf.matmul(h, variables[i]) + variables[i + 1]
                h = tf.nn.relu(h) if i + 2 < len(variables) else h
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, h))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    return step


if __name__ == "__main__":
    main(*sys.argv[1:])
