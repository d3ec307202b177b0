"""TensorFlow: its first session, on graphs that nothing simplifies and on loops; tf.data; Keras' LSTM."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.images import BATCH, BUFFER, SHIFT, SIZE, images
from benchmarks.loops import SIDE, Run, matrices
from benchmarks.words import RATE, THREADS, UNITS, VOCABULARY, batch

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

tf: Any = import_module("tensorflow")  # after the variable, which it reads when it loads
_rewriting: Any = import_module("tensorflow.core.protobuf.rewriter_config_pb2")
v1 = tf.compat.v1


class Steps:
    """Steps of one fetch and the placeholders that are fed. The caller blocks, so the loop waits with it."""

    def __init__(self, session: Any, fetch: Any, placeholders: Sequence[Any]) -> None:
        self._session = session
        self._fetch = fetch
        self._placeholders = placeholders

    async def run(self, *values: Any) -> Any:
        """Runs one step with a value a placeholder."""
        return self._session.run(self._fetch, dict(zip(self._placeholders, values, strict=True)))


@asynccontextmanager
async def open_chains(width: int, length: int) -> AsyncIterator[Steps]:
    """Opens a session on `width` chains of `length` additions x + one + one + …, both fed."""
    with tf.Graph().as_default() as graph:
        x, one = (v1.placeholder(tf.float32, [], name) for name in ("x", "one"))
        ends = []
        for _ in range(width):
            y = x
            for _ in range(length):
                y = tf.raw_ops.AddV2(x=y, y=one)
            ends.append(y)
    with v1.Session(graph=graph, config=_plain()) as session:
        yield Steps(session, ends, (x, one))


@asynccontextmanager
async def open_addition(constant: float) -> AsyncIterator[Steps]:
    """Opens a session on one addition of a fed value and a constant."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [], "x")
        y = tf.raw_ops.AddV2(x=x, y=tf.constant(constant))
    with v1.Session(graph=graph, config=_plain()) as session:
        yield Steps(session, y, (x,))


def _plain() -> Any:
    """The configuration that runs the graph as built: no folding, no merging of equal nodes, no rewriting."""
    config = v1.ConfigProto()
    options = config.graph_options
    options.rewrite_options.disable_meta_optimizer = True
    off = _rewriting.RewriterConfig.OFF
    for name in ("constant_folding", "function_optimization", "arithmetic_optimization"):
        setattr(options.rewrite_options, name, off)
    options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    options.optimizer_options.do_constant_folding = False
    options.optimizer_options.do_common_subexpression_elimination = False
    return config


@asynccontextmanager
async def open_variable(n: int) -> AsyncIterator[dict[str, Callable[[], Awaitable[Any]]]]:
    """Opens a session on a variable of `n` float32, and gives a step of each verb."""
    with tf.Graph().as_default() as graph:
        w = v1.get_variable("w", [n], tf.float32, v1.zeros_initializer(), use_resource=True)
        delta = v1.placeholder(tf.float32, [n], "delta")
        read = w.read_value()
        added, assigned = w.assign_add(delta, read_value=False), w.assign(delta, read_value=False)
        start = v1.global_variables_initializer()
    ones = np.ones(n, np.float32)
    held: list[Any] = []
    with v1.Session(graph=graph, config=_plain()) as session:
        session.run(start)

        async def run_read() -> Any:
            return session.run(read)

        async def run_update() -> Any:
            return session.run(added, {delta: ones})

        async def run_update_held() -> Any:
            held[:] = [session.run(read)]
            return session.run(added, {delta: ones})

        async def run_assign() -> Any:
            return session.run(assigned, {delta: ones})

        yield {
            "read": run_read, "update": run_update, "update_held": run_update_held, "assign": run_assign,
        }  # fmt: skip


@asynccontextmanager
async def open_queue(capacity: int) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Opens a session on a FIFOQueue of scalars, and gives one enqueue and one dequeue, a step each."""
    with tf.Graph().as_default() as graph:
        queue = v1.FIFOQueue(capacity, [tf.float32], [[]])
        x = v1.placeholder(tf.float32, [], "x")
        put, take = queue.enqueue([x]), queue.dequeue()
    value = np.ones((), np.float32)
    with v1.Session(graph=graph, config=_plain()) as session:

        async def run() -> Any:
            session.run(put, {x: value})
            return session.run(take)

        yield run


@asynccontextmanager
async def open_loops(*, functional: bool) -> AsyncIterator[dict[str, Run]]:
    """Opens a session on one loop of each body, on one thread.

    Args:
        functional: Whether loops are nodes that hold functions (control flow v2), which the session turns
            into Switch, Merge and NextIteration; else they are built of these.
    """
    switch = v1.enable_control_flow_v2 if functional else v1.disable_control_flow_v2
    before = v1.control_flow_v2_enabled()
    switch()
    with tf.Graph().as_default() as graph:
        n = v1.placeholder(tf.int32, [], "n")
        x, w = (v1.placeholder(tf.float32, [SIDE, SIDE], name) for name in ("x", "w"))
        scalar = v1.while_loop(
            lambda i, _: i < n, lambda i, s: (i + 1, s * 0.5 + 1.0), (tf.constant(0), tf.constant(1.0))
        )[1]
        matrix = v1.while_loop(
            lambda i, _: i < n, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w) + x)), (tf.constant(0), x)
        )[1]
    (v1.enable_control_flow_v2 if before else v1.disable_control_flow_v2)()
    values = dict(zip((x, w), matrices(), strict=True))
    one = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with v1.Session(graph=graph, config=one) as session:

        async def run_scalar(turns: int) -> Any:
            return session.run(scalar, {n: turns})

        async def run_matrix(turns: int) -> Any:
            return session.run(matrix, {n: turns, **values})

        yield {"scalar": run_scalar, "512x512": run_matrix}


@contextmanager
def open_input(workers: int) -> Iterator[Iterator[Any]]:
    """Gives the batches of tf.data, the map written in ops of TensorFlow, as it wants them."""

    def augment(image: Any, label: Any) -> Any:
        x = tf.cast(image, tf.float32) / 255.0
        x = tf.cond(tf.random.uniform([]) < 0.5, lambda: x[:, ::-1], lambda: x)
        x = tf.pad(x, [[SHIFT, SHIFT], [SHIFT, SHIFT]])
        at = tf.random.uniform([2], 0, 2 * SHIFT + 1, tf.int32)
        return x[at[0] : at[0] + SIZE, at[1] : at[1] + SIZE], label

    options = tf.data.Options()
    options.threading.private_threadpool_size = max(workers, 1)
    batches = tf.data.Dataset.from_tensor_slices(images()).map(augment, num_parallel_calls=workers or None)
    batches = batches.shuffle(BUFFER).repeat().batch(BATCH).prefetch(2).with_options(options)
    yield batches.as_numpy_iterator()


@contextmanager
def open_lm(layers: int) -> Iterator[Callable[[], Awaitable[float]]]:
    """Gives an update of a language model by plain SGD, one tf.function; rows come before steps."""
    with suppress(RuntimeError):  # of a TensorFlow that has computed already; it has a thread a processor
        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    keras = tf.keras
    model = keras.Sequential(
        [
            keras.layers.Embedding(VOCABULARY, UNITS),
            *(keras.layers.LSTM(UNITS, return_sequences=True) for _ in range(layers)),
            keras.layers.Dense(VOCABULARY),
        ]
    )
    optimizer = keras.optimizers.SGD(RATE)
    words, following = (tf.constant(a.T.copy()) for a in batch())
    model(words)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        with tf.GradientTape() as tape:
            logits = model(words, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    async def update() -> float:
        return float(step())

    yield update
