"""TensorFlow's first session, on graphs of additions that nothing simplifies."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

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
