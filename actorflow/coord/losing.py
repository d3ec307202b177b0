"""What a run ends with when a shard is lost, in words: it is gone, was late, or was never reached. Pure."""

from __future__ import annotations

from actorflow.errors import DeadlinePassed, ShardLost, said


def lost(shard: int, version: int | None, error: BaseException | None, fence_s: float) -> ShardLost:
    """Returns the error of a run without one of its shards.

    Args:
        shard: Its number.
        version: Where the run is; None before it has begun.
        error: How that was found out.
        fence_s: How long the shard had to say where it stands.
    """
    hint = None
    if version is not None:
        what = f"shard {shard} is gone at version {version}, and its parameters with it"
    elif isinstance(error, DeadlinePassed):
        what = f"shard {shard} did not say where it stands within {fence_s:g} s, so the run has not begun"
        hint = "a later run goes on once it answers again; raise fence_s if it may take so long"
    else:
        why = "" if error is None else f": {said(error).splitlines()[0]}"
        what = f"shard {shard} is not there, so the run has not begun{why}"
    wrong = ShardLost(what, hint=hint)
    wrong.__cause__ = error
    return wrong
