"""What sessions and runners say travels: what is read is what was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.dataflow.remote.step_messages import (
    AbortPart,
    CloseSession,
    DropPlan,
    PartAborted,
    PartDone,
    PartFailed,
    PartPrepared,
    PartSettled,
    PreparePart,
    SessionProcess,
    SettlePart,
    StartPart,
    Token,
)
from actorflow.errors import ActorflowError, NumericError, StepAborted, Where
from actorflow.transport.codec.message_codec import decode, encode

WHERE = Where(node="log", op="log", step=3, device="p1/cpu:0", defined_at="train.py:4")

MESSAGES = [
    PreparePart(
        "p0/spread1.1", 2, 7, (("y", 0),), (("x", 0),), (("y", "/job:ps/task:0/device:cpu:0"),), "p0",
        (SessionProcess("p0", ("/job:ps/task:0/device:cpu:0",), 3),), ("fold",), 12345, "w",
    ),
    PartPrepared("p0", 3),
    StartPart("p0/spread1.1", 4, 2, 3, (np.arange(3.0), np.float32(2))),
    Token("p0/spread1.1", 4, 0, np.ones((2, 2), "float32"), False, "p1", 3),
    Token("p0/spread1.1", 4, 1, None, True, "p1", 3),
    Token("p0/spread1.1", 4, 1, np.bool_(True), False, "p1", 3),
    PartDone(4, "p1", (np.int64(3),), True, (0, 2), False),
    PartFailed(4, "p1", NumericError("log has infinities", where=WHERE, hint="clip it")),
    AbortPart("p0/spread1.1", 4, StepAborted("step 4 was cancelled by its caller")),
    PartAborted(4, "p1", True, (1,), ("'x:0' from 'p2'",)),
    SettlePart("p0/spread1.1", 4, False, (1,)),
    PartSettled(4, "p1"),
    DropPlan("p0/spread1.1", 2),
    CloseSession("p0/spread1.1"),
]  # fmt: skip


def told(value: Any) -> Any:
    """Returns what two equal messages have in common: bits of arrays, texts of errors."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, ActorflowError):
        return type(value), str(value)
    if isinstance(value, tuple):
        return tuple(map(told, value))
    return value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    found = decode(b"".join(encode(message)))

    assert type(found) is type(message)
    for name in type(message).__slots__:
        assert told(getattr(found, name)) == told(getattr(message, name)), name
