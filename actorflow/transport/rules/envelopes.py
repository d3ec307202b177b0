"""An envelope as a frame of the codec, and back. Its lane is told by what carries the frame."""

from __future__ import annotations

from actorflow.errors import CannotTravel, WireError, show_value
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.types import LIMITS, Buffer, Lossy, MessageLimits
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane

_MAX_ASK = 2**63
_SAYS = tuple(EnvelopeKind)
_new = tuple.__new__  # of a named tuple, in half the time of calling its class


def write(
    envelope: Envelope, limits: MessageLimits = LIMITS, lossy: Lossy | None = None
) -> tuple[list[Buffer], int]:
    """Returns the frame of an envelope as buffers, and its bytes; memory is borrowed, as by the codec.

    Args:
        envelope: It.
        limits: What one message may be.
        lossy: What it may lose on its way; see `message_codec.encode`.

    Raises:
        CannotTravel: the body is nothing that travels, or too large.
    """
    head = (envelope.target, int(envelope.say), envelope.ask, float(envelope.limit_s))
    try:
        parts = message_codec.encode_row(head, envelope.body, limits, lossy=lossy)
    except CannotTravel:
        message_codec.encode(envelope.body, limits)  # names the place in the body, which the user knows
        raise
    return parts, message_codec.size(parts)


def read(frame: Buffer, lane: Lane, limits: MessageLimits = LIMITS) -> Envelope:
    """Returns the envelope of a frame; its arrays are views of the frame.

    Raises:
        WireError: it is none.
    """
    (target, say, ask, limit_s), body = message_codec.decode_row(frame, 4, limits)
    if type(target) is not str or type(say) is not int or not 0 <= say < len(_SAYS):
        got = f"{show_value(target)}, {show_value(say, 20)}"
        message = f"an envelope has a target and says one of {len(_SAYS)} things, got {got}"
        raise WireError(message)
    if type(ask) is not int or not 0 <= ask < _MAX_ASK or type(limit_s) is not float or not limit_s >= 0:
        message = (
            f"a question has a number and a limit of 0 or more, got {show_value(ask, 30)}, "
            f"{show_value(limit_s, 30)}"
        )
        raise WireError(message)
    return _new(Envelope, (target, body, _SAYS[say], lane, ask, limit_s))
