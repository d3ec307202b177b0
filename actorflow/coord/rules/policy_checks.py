"""Checks of what a policy says: it may be a user's, and be wrong. Whatever it does, PolicyError names it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from operator import index
from typing import Any, TypeVar, get_args

from actorflow.coord.rules.policy import Policy, Rate, Round, Short, View
from actorflow.errors import ActorflowError, ConfigError, PolicyError, describe
from actorflow.runtime.cancellation import FAILURES

_FAILURES = (*FAILURES, GeneratorExit)
"""How a policy fails: nobody else cancels or closes a plain function; all others end the program."""

T = TypeVar("T")


def check_policy(policy: Policy, seats: int) -> Policy:
    """Returns `policy`, which can govern a run of so many workers as far as its attributes tell.

    Raises:
        PolicyError: `check` or `needs` raised, or an attribute cannot mean anything.
        ActorflowError: what `check` says against so many workers.
    """
    name = type(policy).__name__
    try:
        policy.check(seats)
    except ActorflowError:
        raise
    except _FAILURES as error:
        what = f"{name}.check must find out whether it fits {seats} workers, it raised {describe(error)}"
        raise PolicyError(what) from error
    _attribute(policy, "fresh", "True or False", lambda fresh: isinstance(fresh, bool))
    known = get_args(Short)
    _attribute(policy, "short", f"one of {', '.join(known)}", lambda short: short in known)
    rates = get_args(Rate)
    _attribute(policy, "rate", f"one of {', '.join(rates)}", lambda rate: rate in rates)
    _attribute(policy, "wait_s", "a number of seconds, at least 0", lambda wait_s: wait_s >= 0)
    workers_needed(policy, seats)
    return policy


def workers_needed(policy: Policy, seats: int) -> int:
    """Returns how many workers of `seats` have to be alive by `policy`, at least one.

    Raises:
        PolicyError: it raised, or named no number.
    """
    return max(1, _ask(policy, "needs", seats, index, "a number of workers"))


def ranks_to_start(policy: Policy, view: View) -> tuple[int, ...]:
    """Returns the ranks that may start by `policy`, ascending.

    Raises:
        PolicyError: it raised, or named a rank twice, or one that is not free.
    """
    return _ranks(policy, "starts", view, lambda: view.free, "free")


def ranks_to_take(policy: Policy, view: View) -> tuple[int, ...]:
    """Returns the ranks whose contributions make the next update by `policy`, ascending; none to wait.

    Raises:
        PolicyError: it raised, or named a rank twice, or one that has nothing complete.
    """
    return _ranks(policy, "takes", view, lambda: tuple(a.rank for a in view.complete), "complete")


def has_enough(policy: Policy, view: View) -> int:
    """Returns how many contributions make an update on a shard that closes updates by itself.

    Raises:
        ConfigError: `policy` cannot leave that to shards.
        PolicyError: it raised, or named no number.
    """

    def read(count: Any) -> int | None:
        return None if count is None else index(count)

    count = _ask(policy, "per_shard", view, read, "a number of at least 1, or None")
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


def looks_back(policy: Policy) -> bool:
    """Whether `policy` may be another one after an update, so that who starts then is asked then."""
    return type(policy).after is not Policy.after


def alarm(policy: Policy, view: View) -> float | None:
    """Returns when `policy` wants to be asked again; None when only events matter, or that time is past.

    Raises:
        PolicyError: it raised, or named no time.
    """
    at = _ask(policy, "wakes", view, _time, "a time, or None")
    return None if at is None or at <= view.now else at


def successor(policy: Policy, done: Round, seats: int) -> Policy:
    """Returns the policy for the updates that follow.

    Raises:
        PolicyError: it raised, or gave no policy, or one that wants other things of workers and shards.
        ActorflowError: what that says against so many workers.
    """
    following: Policy = _ask(policy, "after", done, _policy, "a policy")
    if following is policy:
        return policy
    if following.fresh is not policy.fresh:
        what = (
            f"{type(policy).__name__}.after must give a policy with fresh={policy.fresh}, as its own, got "
            f"{following} with fresh={following.fresh}"
        )
        raise PolicyError(what, hint="workers and shards are told once, when a run begins: make two trainers")
    if following.rate != policy.rate:
        what = (
            f"{type(policy).__name__}.after must give a policy with rate={policy.rate!r}, as its own, got "
            f"{following} with rate={following.rate!r}"
        )
        raise PolicyError(what, hint="workers and shards are told once, when a run begins: make two trainers")
    return check_policy(following, seats)


def _attribute(policy: Policy, name: str, wanted: str, fits: Callable[[Any], bool]) -> None:
    """Raises PolicyError for an attribute that cannot mean anything."""
    owner = type(policy).__name__
    try:
        value = getattr(policy, name)
        good = fits(value)
    except _FAILURES as error:
        what = f"{owner}.{name} must be {wanted}, and reading it raised {describe(error)}"
        raise PolicyError(what) from error
    if not good:
        what = f"{owner}.{name} must be {wanted}, got {value!r:.60}"
        raise PolicyError(what)


def _ranks(
    policy: Policy, verb: str, view: View, those: Callable[[], tuple[int, ...]], word: str
) -> tuple[int, ...]:
    def read(found: Any) -> list[int]:
        return sorted(map(index, found))

    ranks = _ask(policy, verb, view, read, f"some of the ranks that are {word}")
    if not ranks:
        return ()
    possible = those()
    if not set(ranks) <= set(possible) or len(set(ranks)) != len(ranks):
        choice = f"some of the ranks that are {word}, {sorted(possible)}"
        what = f"{type(policy).__name__}.{verb} must give {choice}, got {ranks} at version {view.version}"
        raise PolicyError(what)
    return tuple(ranks)


def _time(found: Any) -> float | None:
    at = inf if found is None else float(found)
    if isnan(at):
        raise ValueError(found)
    return None if at == inf else at


def _policy(found: Any) -> Policy:
    if not isinstance(found, Policy):
        raise TypeError(found)
    return found


def _ask(policy: Policy, verb: str, about: Any, read: Callable[[Any], T], wanted: str) -> T:
    name = f"{type(policy).__name__}.{verb}"
    try:
        found = getattr(policy, verb)(about)
    except _FAILURES as error:
        what = f"{name} must decide, it raised {describe(error)}"
        raise PolicyError(what) from error
    try:
        return read(found)
    except _FAILURES as error:
        what = f"{name} must give {wanted}, got {found!r:.60}"
        raise PolicyError(what) from error
