"""TensorFlow's side: a graph and a session of version 1, with the control flow of version 1."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import tensorflow as tf

from tests.conformance.case import Case
from tests.conformance.primitives import Primitives
from tests.conformance.recording import encoded
from tests.conformance.resources import Resources

v1, errors = tf.compat.v1, tf.errors
VERSION: str = tf.__version__
SETTLED_S = 0.15
"""After so long a step that was begun waits, or is done."""

FAILURES = {
    errors.OutOfRangeError: "out of range",
    errors.CancelledError: "cancelled",
    errors.AbortedError: "cancelled",
    errors.DeadlineExceededError: "deadline",
    errors.InvalidArgumentError: "invalid",
    errors.FailedPreconditionError: "invalid",
}


def prepare() -> None:
    """Makes TensorFlow what it was: graphs, and loops of Switch and Merge."""
    v1.disable_v2_behavior()
    v1.logging.set_verbosity(v1.logging.FATAL)


def outcome(case: Case) -> Any:
    """What TensorFlow comes to, encoded."""
    assert case.theirs is not None
    with v1.Graph().as_default(), v1.Session() as session:
        try:
            return encoded(case.theirs(Theirs(session)))
        except (ValueError, TypeError, errors.InvalidArgumentError):
            return "refused when built"


class Theirs:
    """What a case uses: `tf` is `tf.compat.v1`, `raw` is `tf.raw_ops`."""

    tf = v1
    raw = tf.raw_ops

    def __init__(self, session: Any) -> None:
        self.session = session
        self._given: dict[Any, Any] = {}

    def given(self, value: Any) -> Any:
        """A value of floats that comes from outside in every step."""
        array = np.asarray(value, "float32")
        made = v1.placeholder(v1.float32, array.shape)
        self._given[made] = array
        return made

    def initialise(self) -> None:
        """Gives all variables their first values."""
        self.session.run(v1.global_variables_initializer())

    def run(self, fetches: Any, feeds: Any = None, *, within: float | None = None) -> Any:
        """What a step gives, or how it fails; `within` so many seconds."""
        options = v1.RunOptions(timeout_in_ms=round((within or 20) * 1000))
        try:
            return plain(self.session.run(fetches, self._given | (feeds or {}), options=options))
        except tuple(FAILURES) as error:
            return next(name for kind, name in FAILURES.items() if isinstance(error, kind))
        except (ValueError, TypeError):  # a fetch or feed that cannot be
            return "invalid"

    def begin(self, fetches: Any, feeds: Any = None) -> Pending:
        """Starts a step, which then waits for something."""
        return Pending(self, fetches, feeds)

    def primitives(self) -> Primitives:
        """Switch, Merge and their like, built one by one."""
        from tests.conformance.primitives_theirs import RawOps

        return RawOps(self)

    def resources(self) -> Resources:
        """Queues, accumulators, barriers and arrays."""
        from tests.conformance.resources_theirs import TheirResources

        return TheirResources(self)


class Pending:
    """A step on its way, on a thread of its own."""

    def __init__(self, side: Theirs, fetches: Any, feeds: Any) -> None:
        self._result: Any = None

        def work() -> None:
            self._result = side.run(fetches, feeds)

        self._thread = threading.Thread(target=work)
        self._thread.start()
        self._thread.join(SETTLED_S)

    def result(self) -> Any:
        """What the step comes to."""
        self._thread.join()
        return self._result


def plain(value: Any) -> Any:
    """Arrays, and lists of them: of sparse gradients their values and indices."""
    if hasattr(value, "dense_shape"):
        return [value.values, value.indices]
    if isinstance(value, dict):
        return [plain(value[key]) for key in sorted(value)]
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value
