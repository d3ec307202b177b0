"""What a policy says, checked: it may be a user's, and be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from actorflow.coord.policy import Policy, Round, View
from actorflow.errors import ConfigError, PolicyError, said

T = TypeVar("T")


def started(policy: Policy, view: View) -> tuple[int, ...]:
    """Returns the ranks that may start by `policy`, ascending.

    Raises:
        PolicyError: it raised, or named a rank twice, or one that is not free.
    """
    return _ranks(policy, "starts", view, lambda: view.free, "free")


def taken(policy: Policy, view: View) -> tuple[int, ...]:
    """Returns the ranks whose contributions make the next update by `policy`, ascending; none to wait.

    Raises:
        PolicyError: it raised, or named a rank twice, or one that has nothing complete.
    """
    return _ranks(policy, "takes", view, lambda: tuple(a.rank for a in view.complete), "complete")


def enough(policy: Policy, view: View) -> int:
    """Returns how many contributions make an update on a shard that closes updates by itself.

    Raises:
        ConfigError: `policy` cannot leave that to shards.
        PolicyError: it raised, or named no number.
    """
    count = _asked(policy, "per_shard", view, lambda count: count if count is None else int(count))
    name = type(policy).__name__
    if count is None:
        what = f"under agreement='per_shard' shards close updates at so many contributions; {name} names none"
        raise ConfigError(what, hint=f"agreement='all', or define {name}.per_shard(view)")
    if count < 1:
        what = f"{name}.per_shard must give a number of at least 1, got {count} at version {view.version}"
        raise PolicyError(what)
    return count


def minds_time(policy: Policy) -> bool:
    """Whether `policy` may want to be asked again when nothing has happened."""
    return type(policy).wakes is not Policy.wakes


def alarm(policy: Policy, view: View) -> float | None:
    """Returns when `policy` wants to be asked again; None when only events matter, or that time is past.

    Raises:
        PolicyError: it raised, or named no time.
    """
    at = _asked(policy, "wakes", view, lambda at: at if at is None else float(at))
    return None if at is None or at <= view.now else at


def successor(policy: Policy, done: Round) -> Policy:
    """Returns the policy for the updates that follow.

    Raises:
        PolicyError: it raised, or gave no policy.
    """
    following = _asked(policy, "after", done, lambda following: following)
    if not isinstance(following, Policy):
        what = f"{type(policy).__name__}.after must give a policy, got {following!r}"
        raise PolicyError(what)
    return following


def _ranks(
    policy: Policy, verb: str, view: View, those: Callable[[], tuple[int, ...]], word: str
) -> tuple[int, ...]:
    ranks: list[int] = _asked(policy, verb, view, sorted)
    if not ranks:
        return ()
    possible = those()
    if not set(ranks) <= set(possible) or len(set(ranks)) != len(ranks):
        choice = f"some of the ranks that are {word}, {sorted(possible)}"
        what = f"{type(policy).__name__}.{verb} must give {choice}, got {ranks} at version {view.version}"
        raise PolicyError(what)
    return tuple(ranks)


def _asked(policy: Policy, verb: str, about: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(getattr(policy, verb)(about))
    except Exception as error:
        what = f"{type(policy).__name__}.{verb} must decide, it raised {said(error)}"
        raise PolicyError(what) from error
