"""An envelope as a frame of the codec, and back. Its lane is told by what carries the frame."""

from __future__ import annotations

from actorflow.errors import CannotTravel, WireError, shown
from actorflow.transport import codec
from actorflow.transport.channel import Envelope, Lane, Say
from actorflow.transport.kinds import LIMITS, Buffer, Limits, Lossy

_MAX_ASK = 2**63
_SAYS = tuple(Say)
_new = tuple.__new__  # of a named tuple, in half the time of calling its class


def write(
    envelope: Envelope, limits: Limits = LIMITS, lossy: Lossy | None = None
) -> tuple[list[Buffer], int]:
    """Returns the frame of an envelope as buffers, and its bytes; memory is borrowed, as by the codec.

    Args:
        envelope: It.
        limits: What one message may be.
        lossy: What it may lose on its way; see `codec.encode`.

    Raises:
        CannotTravel: the body is nothing that travels, or too large.
    """
    head = (envelope.target, int(envelope.say), envelope.ask, float(envelope.limit_s))
    try:
        parts = codec.encode_row(head, envelope.body, limits, lossy=lossy)
    except CannotTravel:
        codec.encode(envelope.body, limits)  # names the place in the body, which the user knows
        raise
    return parts, codec.size(parts)


def read(frame: Buffer, lane: Lane, limits: Limits = LIMITS) -> Envelope:
    """Returns the envelope of a frame; its arrays are views of the frame.

    Raises:
        WireError: it is none.
    """
    (target, say, ask, limit_s), body = codec.decode_row(frame, 4, limits)
    if type(target) is not str or type(say) is not int or not 0 <= say < len(_SAYS):
        got = f"{shown(target)}, {shown(say, 20)}"
        message = f"an envelope has a target and says one of {len(_SAYS)} things, got {got}"
        raise WireError(message)
    if type(ask) is not int or not 0 <= ask < _MAX_ASK or type(limit_s) is not float or not limit_s >= 0:
        message = (
            f"a question has a number and a limit of 0 or more, got {shown(ask, 30)}, {shown(limit_s, 30)}"
        )
        raise WireError(message)
    return _new(Envelope, (target, body, _SAYS[say], lane, ask, limit_s))
