from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf, nan
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.coord.rules.policy import Arrived, Async, Backup, Out, Policy, Round, StaleSync, Sync, View
from actorflow.coord.rules.policy_checks import (
    alarm,
    check_policy,
    has_enough,
    ranks_to_start,
    ranks_to_take,
    successor,
    workers_needed,
)
from actorflow.errors import ConfigError, PolicyError


def view(
    alive: Collection[int] = (0, 1, 2), complete: Collection[int] = (), out: Collection[int] = (), **rest: Any
) -> View:
    """Contributions that arrived in the order of `complete`, one a second; permits out of the ranks `out`."""
    arrived = tuple(Arrived(r, number=10 + r, base=4, at=float(n)) for n, r in enumerate(complete))
    permits = {r: Out(10 + r, 4, 0.0) for r in out}
    given: dict[str, Any] = {"version": 4, "now": 9.0, "seats": 3, **rest}
    return View(alive=tuple(alive), complete=arrived, out=permits, **given)


# -- what makes an update ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "complete", "expected"),
    [
        (Async(), (), ()),
        (Async(), (2, 0), (2,)),
        (Sync(), (2, 0), ()),
        (Sync(), (2, 0, 1), (0, 1, 2)),
        (Backup(2, 3), (2,), ()),
        (Backup(2, 3), (2, 0), (0, 2)),
        (Backup(2, 3), (2, 0, 1), (0, 2)),
        (StaleSync(1), (1, 2), (1,)),
    ],
    ids=str,
)
def test_a_policy_takes_what_its_rule_says(
    policy: Policy, complete: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert ranks_to_take(policy, view(complete=complete)) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(Sync(), (0, 2)), (Backup(3, 3), (0, 2)), (Backup(3, 3, short="wait"), ()), (Backup("auto", 3), (0, 2))],
    ids=str,
)
def test_with_fewer_alive_the_update_is_lowered_unless_the_policy_waits(
    policy: Policy, expected: tuple[int, ...]
) -> None:
    assert ranks_to_take(policy, view(alive=(0, 2), complete=(2, 0))) == expected


def test_what_the_dead_have_completed_counts() -> None:
    lately = view(alive=(0, 2), complete=(1, 2, 0))

    assert ranks_to_take(Sync(), lately) == (0, 1, 2)
    assert ranks_to_take(Backup(2, 3), lately) == (1, 2)


def test_sync_with_nobody_alive_takes_nothing() -> None:
    assert ranks_to_take(Sync(), view(alive=(), complete=(1,))) == ()


# -- who may start ---------------------------------------------------------------------------------------


def test_whoever_has_nothing_under_way_may_start() -> None:
    busy = view(alive=(0, 1, 2, 3), complete=(1,), out=(2,), making=frozenset({3}))

    assert (
        ranks_to_start(Async(), busy)
        == ranks_to_start(Sync(), busy)
        == ranks_to_start(Backup(1, 3), busy)
        == (0,)
    )


@pytest.mark.parametrize(("bound", "expected"), [(0, (1,)), (1, (1, 2)), (2, (0, 1, 2))])
def test_nobody_starts_who_is_more_than_the_bound_ahead(bound: int, expected: tuple[int, ...]) -> None:
    assert ranks_to_start(StaleSync(bound), view(clock={0: 7, 1: 5, 2: 6, 3: 0})) == expected


# -- m that is chosen while training ---------------------------------------------------------------------


def test_backup_measures_all_then_chooses_then_measures_again() -> None:
    policy: Policy = Backup("auto", 3, measure=5, keep=2)
    quorums = []

    for version in range(1, 16):
        quorums.append(cast("Backup", policy).quorum)
        policy = successor(policy, Round(version, (1.0, 1.1, 9.0)), 3)

    assert quorums == [3] * 5 + [2] * 2 + [3] * 5 + [2] * 2 + [3]
    assert str(policy) == "backup:auto/3,measure=5,keep=2"


def test_backup_with_a_number_learns_nothing() -> None:
    policy = Backup(2, 3)

    assert policy.after(Round(1, (1.0,))) is policy


# -- misuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Backup(4, 3), "needs 1 <= m <= n, got m=4, n=3"),
        (lambda: Backup(0, 3), "needs 1 <= m <= n, got m=0, n=3"),
        (lambda: Backup(cast("int", "most"), 3), "got m='most', n=3"),
        (lambda: Backup(1, 0), "needs n of at least 1, got 0"),
        (lambda: Backup("auto", 3, measure=4), "measure of at least 5 and keep of at least 1, got 4"),
        (lambda: StaleSync(-1), "needs a bound of at least 0, got -1"),
        (
            lambda: Sync(short=cast("Any", "maybe")),
            "Sync knows short='lower', 'wait' and 'fail', got 'maybe'",
        ),
        (lambda: Async(wait_s=-1.0), "Async needs wait_s of at least 0, got -1.0"),
        (lambda: Sync(wait_s=cast("Any", "a")), "Sync needs wait_s of at least 0, got 'a'"),
        (lambda: Sync(wait_s=True), "Sync needs wait_s of at least 0, got True"),
        (lambda: Sync(wait_s=float("nan")), "Sync needs wait_s of at least 0, got nan"),
        (lambda: Backup(True, 3), "needs 1 <= m <= n, got m=True, n=3"),
        (lambda: Backup(1, True), "needs n of at least 1, got True"),
        (lambda: Backup(cast("Any", 1.0), 3), "got m=1.0, n=3"),
        (lambda: Backup("auto", 3, measure=cast("Any", "5")), "got '5' and 400"),
        (lambda: Backup("auto", 3, keep=True), "got 20 and True"),
        (lambda: StaleSync(True), "needs a bound of at least 0, got True"),
        (lambda: StaleSync(cast("Any", None)), "needs a bound of at least 0, got None"),
        (lambda: Backup(2, 3).check(4), "backup:2/3 is for 3 workers, the run has 4"),
    ],
)
def test_a_policy_that_cannot_mean_anything_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        make()


@dataclass(frozen=True)
class Wrong(Policy):
    """Says what it was told to say."""

    says: Any

    def takes(self, view: View) -> Any:
        return self._said()

    def starts(self, view: View) -> Any:
        return self._said()

    def wakes(self, view: View) -> Any:
        return self._said()

    def after(self, done: Round) -> Any:
        return self._said()

    def _said(self) -> Any:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ([0], r"Wrong.takes must give some of the ranks that are complete, \[1, 2\], got \[0\] at version 4"),
        ([1, 1], r"got \[1, 1\]"),
        (None, "Wrong.takes must give some of the ranks that are complete, got None"),
        ([1.0], r"Wrong.takes must give some of the ranks that are complete, got \[1.0\]"),
        (ZeroDivisionError("oh"), "it raised ZeroDivisionError: oh"),
    ],
)
def test_a_policy_that_takes_what_cannot_be_is_named_with_what_it_said(says: Any, text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        ranks_to_take(Wrong(says), view(complete=(2, 1)))


def test_a_policy_that_starts_who_is_busy_is_named() -> None:
    with pytest.raises(PolicyError, match=r"Wrong.starts must give some .* free, \[0, 2\], got \[0, 1\]"):
        ranks_to_start(Wrong([0, 1]), view(out=(1,)))


def test_a_policy_that_has_no_successor_is_named() -> None:
    with pytest.raises(PolicyError, match="Wrong.after must give a policy, got 3"):
        successor(Wrong(3), Round(1, ()), 3)


def test_a_successor_wants_the_same_of_workers_and_shards_and_is_checked_as_well() -> None:
    with pytest.raises(PolicyError, match="fresh=True, as its own, got async with fresh=False"):
        successor(Wrong(Async()), Round(1, ()), 3)
    with pytest.raises(ConfigError, match="backup:2/4 is for 4 workers, the run has 3"):
        successor(Wrong(Backup(2, 4)), Round(1, ()), 3)
    assert successor(Wrong(Sync()), Round(1, ()), 3) == Sync()


@pytest.mark.parametrize(
    ("n", "seats", "hint"), [(4, 1, "backup:1/1"), (4, 3, "backup:3/3"), (4, 5, "backup:3/5")]
)
def test_a_policy_for_another_number_of_workers_says_how_to_have_that(n: int, seats: int, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Backup(3, n).check(seats)
    assert caught.value.hint == f"--workers {n} (workers={n} in Python), or the policy {hint}"


class Odd(Policy):
    """Has the attributes that it was given."""

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def takes(self, view: View) -> tuple[int, ...]:
        return ()


def raises(seats: int) -> int:
    raise KeyError(seats)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"short": "bogus"}, "Odd.short must be one of lower, wait, fail, got 'bogus'"),
        ({"short": []}, r"Odd.short must be one of lower, wait, fail, got \[\]"),
        ({"fresh": "no"}, "Odd.fresh must be True or False, got 'no'"),
        (
            {"wait_s": None},
            "Odd.wait_s must be a number of seconds, at least 0, and reading it raised TypeErr",
        ),
        ({"wait_s": nan}, "Odd.wait_s must be a number of seconds, at least 0, got nan"),
        ({"needs": raises}, "Odd.needs must decide, it raised KeyError: 3"),
        ({"needs": lambda seats: "3"}, "Odd.needs must give a number of workers, got '3'"),
        ({"check": raises}, "Odd.check must find out whether it fits 3 workers, it raised KeyError: 3"),
    ],
)
def test_a_policy_whose_attributes_cannot_mean_anything_is_refused(
    attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(PolicyError, match=text):
        check_policy(Odd(**attributes), 3)


def test_a_policy_that_can_govern_a_run_is_returned() -> None:
    policy = Odd(needs=lambda seats: np.int64(seats))
    assert check_policy(policy, 3) is policy
    assert workers_needed(policy, 3) == 3
    assert (str(policy), str(Wrong(3))) == ("Odd", "Wrong(says=3)")


def test_a_number_for_shards_is_a_whole_one() -> None:
    with pytest.raises(
        PolicyError, match=r"Odd.per_shard must give a number of at least 1, or None, got 2.5"
    ):
        has_enough(Odd(per_shard=lambda view: 2.5), view())


def test_a_policy_that_names_no_time_is_named() -> None:
    with pytest.raises(PolicyError, match="Wrong.wakes must give a time, or None, got nan"):
        alarm(Wrong(nan), view())


@pytest.mark.parametrize(
    ("says", "expected"), [(None, None), (12, 12.0), (9.0, None), (3.0, None), (inf, None)]
)
def test_a_policy_is_woken_in_the_future_only(says: Any, expected: float | None) -> None:
    assert alarm(Wrong(says), view()) == expected


# -- as text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("async", Async()),
        ("sync", Sync()),
        ("sync,short=wait", Sync(short="wait")),
        ("sync,short=fail", Sync(short="fail")),
        ("backup:3/4", Backup(3, 4)),
        ("backup:auto/4", Backup("auto", 4)),
        ("backup:3/4,short=wait,wait_s=2.5", Backup(3, 4, short="wait", wait_s=2.5)),
        ("stale:2", StaleSync(2)),
        ("stale:0,wait_s=1e+06", StaleSync(0, wait_s=1e6)),
        ("sync,wait_s=inf", Sync(wait_s=float("inf"))),
        ("sync,wait_s=0.3333333333333333", Sync(wait_s=1 / 3)),
        ("async,wait_s=1234567", Async(wait_s=1234567)),
        ("backup:auto/4,measure=5,keep=7,wait_s=0", Backup("auto", 4, measure=5, keep=7, wait_s=0)),
        ("backup:2/4,keep=7", Backup(2, 4, keep=7)),
        ("async,rate=shared", Async(rate="shared")),
        ("stale:2,rate=shared,short=wait", StaleSync(2, rate="shared", short="wait")),
    ],
)
def test_a_policy_reads_as_it_is_written(text: str, policy: Policy) -> None:
    assert Policy.parse(text) == policy
    assert str(policy) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bsp",
        "async:3",
        "sync:",
        "backup",
        "backup:3",
        "backup:3/4/5",
        "backup:x/4",
        "stale",
        "stale:-1",
        "sync,wait",
        "sync,keep=3",
        "stale:2,measure=5",
        "backup:auto/4,measure=x",
        "backup:auto/4,measure=5.0",
        "async,wait_s=1e999",
        "async,wait_s=nan",
        "async,wait_s=-1",
        "async,wait_s=٣",
        "backup:2/" + "9" * 5000,
        "sync,wait_s=soon",
        "SYNC",
        "sync,rate=shared",
        "backup:2/4,rate=shared",
    ],
)
def test_text_that_names_no_policy_is_answered_with_those_that_there_are(text: str) -> None:
    with pytest.raises(
        ConfigError, match="a policy is one of async, sync, backup:M/N, backup:auto/N, stale:BOUND"
    ):
        Policy.parse(text)


def test_text_that_names_an_impossible_policy_says_why() -> None:
    with pytest.raises(ConfigError, match="needs 1 <= m <= n, got m=5, n=4"):
        Policy.parse("backup:5/4")
    with pytest.raises(ConfigError, match="'wait' and 'fail', got 'soon'"):
        Policy.parse("sync,short=soon")
    with pytest.raises(ConfigError, match="Async knows rate='each' and 'shared', got 'half'"):
        Policy.parse("async,rate=half")


@pytest.mark.parametrize("text", ["stale:2,short=wait,short=fail", "sync,wait_s=1,wait_s=1"])
def test_text_that_says_something_twice_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"a policy says its (short|wait_s) once, got '{text}'"):
        Policy.parse(text)


@pytest.mark.parametrize("given", [5, None, Sync, b"sync"])
def test_what_is_no_text_names_no_policy(given: Any) -> None:
    with pytest.raises(ConfigError, match="a policy is one of async, .*, got"):
        Policy.parse(given)


_SECONDS = st.floats(min_value=0.0, allow_nan=False) | st.integers(0, 10**18 - 1)


@given(
    kind=st.sampled_from(
        [Async, Sync, lambda **rest: StaleSync(3, **rest), lambda **rest: Backup(2, 3, **rest)]
    ),
    short=st.sampled_from(["lower", "wait", "fail"]),
    wait_s=_SECONDS,
)
def test_any_policy_reads_back_as_it_is(kind: Any, short: Any, wait_s: float) -> None:
    policy = kind(short=short, wait_s=wait_s)

    assert Policy.parse(str(policy)) == policy


@given(measure=st.integers(5, 10**9), keep=st.integers(1, 10**9))
def test_what_a_policy_learns_by_reads_back_as_it_is(measure: int, keep: int) -> None:
    policy = Backup("auto", 5, measure=measure, keep=keep)

    assert Policy.parse(str(policy)) == policy
