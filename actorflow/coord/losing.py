"""What a run ends with when a shard is lost, in words: it is gone, was late, or was never reached. Pure."""

from __future__ import annotations

from actorflow.errors import DeadlinePassed, ShardLost, said


def lost(
    shard: int, at: str | None, version: int | None, error: BaseException | None, fence_s: float
) -> ShardLost:
    """Returns the error of a run without one of its shards.

    Args:
        shard: Its number.
        at: Its process; None where it has no name of its own.
        version: Where the run is; None before it has begun.
        error: How that was found out.
        fence_s: How long the shard had to say where it stands.
    """
    hint = None
    named = f"shard {shard}" if at is None else f"shard {shard}, of '{at}',"
    why = "" if error is None else f": {said(error).splitlines()[0]}"
    if version is not None:
        what = f"{named} is gone at version {version}, and its parameters with it{why}"
    elif isinstance(error, DeadlinePassed):
        what = f"{named} did not say where it stands within {fence_s:g} s, so the run has not begun"
        hint = "a later run goes on once it answers again; raise fence_s if it may take so long"
    else:
        what = f"{named} is not there, so the run has not begun{why}"
    wrong = ShardLost(what, hint=hint)
    wrong.__cause__ = error
    return wrong
