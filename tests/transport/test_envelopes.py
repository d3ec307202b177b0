from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import CannotTravel, WireError
from actorflow.transport import codec, envelopes
from actorflow.transport.channel import Envelope, Lane, Say
from actorflow.transport.kinds import Limits


def frame_of(value: Any) -> bytes:
    return codec.join(codec.encode(value))


@pytest.mark.parametrize("say", Say)
@pytest.mark.parametrize("lane", Lane)
def test_an_envelope_comes_out_as_it_went_in(say: Say, lane: Lane) -> None:
    envelope = Envelope("shard/0", {"rows": [1, 2]}, say, lane, 2**63 - 1, 0.5)

    parts, size = envelopes.write(envelope)

    assert size == len(codec.join(parts))
    assert envelopes.read(codec.join(parts), lane) == envelope


def test_a_limit_may_be_a_whole_number() -> None:
    parts, _ = envelopes.write(Envelope("a", None, ask=1, limit_s=3))
    found = envelopes.read(codec.join(parts), Lane.DATA)

    assert (found.limit_s, type(found.limit_s)) == (3.0, float)


def test_what_cannot_travel_is_told_by_its_place_in_the_body() -> None:
    with pytest.raises(CannotTravel, match=r"^at \['w'\]: an array of dtype <U1 cannot travel"):
        envelopes.write(Envelope("a", {"w": np.array(["x"])}))
    with pytest.raises(CannotTravel, match="a message may have 100 bytes"):
        envelopes.write(Envelope("a", bytes(200)), Limits(frame_bytes=100))
    with pytest.raises(CannotTravel, match="values may be nested 2 deep"):
        envelopes.write(Envelope("a", [[[1]]]), Limits(depth=2))


@pytest.mark.parametrize(
    "value",
    [
        None,
        ["t", 0, 0, 0.0, None],
        ("t", 0, 0, 0.0),
        (b"t", 0, 0, 0.0, None),
        (2**8000, 0, 0, 0.0, None),
        ("t", 2**8000, 0, 0.0, None),
        ("t", 0, 2**8000, 0.0, None),
        ("t", 0, 0, 2**8000, None),
        ("t", len(Say), 0, 0.0, None),
        ("t", -1, 0, 0.0, None),
        ("t", True, 0, 0.0, None),
        ("t", 0, -1, 0.0, None),
        ("t", 0, 2**63, 0.0, None),
        ("t", 0, 0, 0, None),
        ("t", 0, 0, -1.0, None),
        ("t", 0, 0, float("nan"), None),
    ],
    ids=repr,
)
def test_a_message_that_is_no_envelope_is_refused(value: Any) -> None:
    with pytest.raises(WireError, match="an envelope|a question|a tuple of 5 must"):
        envelopes.read(frame_of(value), Lane.DATA)
