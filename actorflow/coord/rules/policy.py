"""Policies: who may start, and which complete contributions make the next update.

A policy is a pure value. The coordinator shows it a `View` and does what it says; everything else (permits,
late contributions, the dead, the commit over all shards) is the same under every policy. To write one,
subclass `Policy` and define `takes`; what else differs from the defaults, too. One that learns from what it
sees returns its successor from `after`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from math import inf
from typing import ClassVar, Literal, get_args

from actorflow.coord.rules.backup_tuning import (
    FEWEST,
    Choice,
    choose,
    end_of,
    first_end_of,
    first_limit_s,
    has_changed,
    limit_s,
)
from actorflow.coord.rules.policy_text import parse_text, with_options
from actorflow.errors import ConfigError, pluralise
from actorflow.values.checks import is_number, is_whole

Short = Literal["lower", "wait", "fail"]
"""What happens with fewer alive than a policy needs: go on with fewer, wait for them, or give up."""


Rate = Literal["each", "shared"]
"""Whether each update is made at the whole rate of the optimizer, or they share it."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A contribution that every shard keeps: whose, which, from which version, and when that was known."""

    rank: int
    number: int
    base: int
    at: float


@dataclass(frozen=True, slots=True)
class Out:
    """A permit that is out: which, for which version, and since when."""

    number: int
    version: int
    since: float


@dataclass(frozen=True, slots=True)
class View:
    """What a policy decides from.

    Attributes:
        version: Updates committed.
        now: The time in seconds, of a clock with an arbitrary start.
        seats: How many workers the run was given.
        alive: Ranks of the living, ascending.
        clock: How many of its contributions were accepted, by rank; a joiner starts at the least of all.
        out: Permits out, by rank.
        complete: Complete contributions that no update has used, in order of arrival; at most one a rank.
            Their workers may have died since.
        making: Ranks whose contributions are in the update that is being made.
        resting: Ranks that have just missed, and do not start again before something has changed.
    """

    version: int
    now: float
    seats: int
    alive: tuple[int, ...]
    clock: Mapping[int, int] = field(default_factory=dict)
    out: Mapping[int, Out] = field(default_factory=dict)
    complete: tuple[Arrived, ...] = ()
    making: frozenset[int] = frozenset()
    resting: frozenset[int] = frozenset()

    @property
    def free(self) -> tuple[int, ...]:
        """The ranks that could start: alive, not resting, with nothing out, complete or in the making."""
        busy = {*self.out, *(a.rank for a in self.complete), *self.making, *self.resting}
        return tuple(rank for rank in self.alive if rank not in busy)

    @property
    def slowest(self) -> int:
        """The least clock of the living; 0 when nobody lives."""
        return min((self.clock.get(rank, 0) for rank in self.alive), default=0)


def full(seats: int) -> View:
    """Returns what a policy sees when all of so many workers are there, and nothing has happened yet."""
    return View(version=0, now=0.0, seats=seats, alive=tuple(range(seats)))


@dataclass(frozen=True, slots=True)
class Round:
    """How an update came about.

    Attributes:
        version: What it made.
        duration_s: For each contribution that was complete by then, seconds since its permit; ascending.
        alive: How many workers lived; 0 where nobody counted.
    """

    version: int
    duration_s: tuple[float, ...]
    alive: int = 0


class Policy(ABC):
    """Decides who may start and which complete contributions make the next update. Pure.

    Attributes:
        fresh: Whether what was computed from an older version is late and never used.
        rate: Where it is not fresh, "shared" divides what an update adds to the variables by how many were
            computed at once: those that came since its base, and itself.
        short: What happens with fewer alive than `needs`.
        wait_s: How long it may stay so, where it waits; and, always, how long nobody may be alive.
    """

    __slots__ = ()

    fresh: ClassVar[bool] = True
    rate: Rate = "each"
    short: Short = "lower"
    wait_s: float = 60.0

    @abstractmethod
    def takes(self, view: View) -> Collection[int]:
        """Returns the ranks whose complete contributions make the next update; none to wait for more."""

    def starts(self, view: View) -> Collection[int]:
        """Returns the ranks that may start now, of those in `view.free`; by default all of them.

        Where the policy is fresh, and always the same, it is asked as soon as an update is being made: about
        the version that will be there, with the clocks of then.
        """
        return view.free

    def needs(self, seats: int) -> int:
        """Returns how many have to be alive; by default one."""
        return 1

    def per_shard(self, view: View) -> int | None:
        """Returns how many contributions make an update under agreement="per_shard".

        There each shard closes an update when it has so many, and asks nobody. By default None: a policy
        chooses which contributions these are, and shards cannot.
        """
        return None

    def wakes(self, view: View) -> float | None:
        """Returns when to ask again even if nothing happens, as a time of `view.now`; None for never."""
        return None

    def after(self, done: Round) -> Policy:
        """Returns the policy for the updates that follow; by default this one. Its `fresh` is the same."""
        return self

    def check(self, seats: int) -> None:
        """Raises ConfigError when it cannot govern a run of so many workers; by default it can."""
        return

    def __str__(self) -> str:
        """As errors call it: by default the name of its class, and its fields if it is a dataclass."""
        plain = type(self).__repr__ is object.__repr__
        return type(self).__name__ if plain else repr(self)

    @staticmethod
    def parse(text: str) -> Policy:
        """Returns the policy that `text` names: what `str()` of it gives.

        `async`, `sync`, `backup:3/4` (the first 3 of 4), `backup:auto/4`, `stale:2` (at most 2 ahead), each
        also with `,short=wait` (or `lower`, `fail`) and `,wait_s=30`; `async` and `stale:2` with
        `,rate=shared`; `backup:auto/4` with `,measure=20` and
        `,keep=400`.

        Raises:
            ConfigError: it names none.
        """
        return _parsed(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shortage:
    short: Short = "lower"
    wait_s: float = 60.0

    def _at_most(self, wanted: int, view: View, *, always: bool = False) -> int:
        """What is wanted, or where fewer will do, as many as live or have something complete."""
        here = len({*view.alive, *(a.rank for a in view.complete)})
        return max(1, min(wanted, here)) if always or self.short == "lower" else wanted

    def _check(self) -> None:
        if self.short not in get_args(Short):
            what = f"{type(self).__name__} knows short='lower', 'wait' and 'fail', got {self.short!r}"
            raise ConfigError(what)
        if not is_number(self.wait_s, 0):
            what = f"{type(self).__name__} needs wait_s of at least 0, got {self.wait_s!r}"
            raise ConfigError(what)

    def _said(self, text: str) -> str:
        return with_options(text, {"short": self.short, "wait_s": self.wait_s}, _USUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alone(_Shortage):
    """Every contribution is an update of its own, from a base that may be old."""

    rate: Rate = "each"

    def _check(self) -> None:
        _Shortage._check(self)
        if self.rate not in get_args(Rate):
            what = f"{type(self).__name__} knows rate='each' and 'shared', got {self.rate!r}"
            raise ConfigError(what)

    def _said(self, text: str) -> str:
        return _Shortage._said(self, with_options(text, {"rate": self.rate}, {"rate": "each"}))


_USUAL = {"short": "lower", "wait_s": 60.0}
_LEARNING = {"measure": 20, "keep": 400}
"""What options of policies are that are not said."""


@dataclass(frozen=True, slots=True)
class Async(_Alone, Policy):
    """Every contribution is an update of its own, in order of arrival, however old its base.

    With n workers at the whole rate of the optimizer, n updates go as far as one of n times the rate would,
    all from about one base: what one worker learns at that rate, many may not. `rate="shared"` divides each
    by how many were computed at once: by 1 with one worker, by about n with n alike.

    Source: Zhang, Gupta, Lian, Liu, Staleness-aware Async-SGD for distributed deep learning (2016).
    Deviation: what is added is divided, not the gradient, so that rules that rescale gradients obey; and by
        staleness + 1, so that what is not stale is divided by 1.
    """

    fresh: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check()

    def takes(self, view: View) -> tuple[int, ...]:
        """The one that came first."""
        return tuple(a.rank for a in view.complete[:1])

    def per_shard(self, view: View) -> int:
        """One."""
        return 1

    def __str__(self) -> str:
        return self._said("async")


@dataclass(frozen=True, slots=True)
class Sync(_Shortage, Policy):
    """One contribution of everybody alive makes an update, all from the same version."""

    def __post_init__(self) -> None:
        self._check()

    def takes(self, view: View) -> tuple[int, ...]:
        """All, once everybody alive has one; that of somebody who died since counts as well."""
        here = {a.rank for a in view.complete}
        return tuple(sorted(here)) if view.alive and here.issuperset(view.alive) else ()

    def needs(self, seats: int) -> int:
        """Everybody."""
        return seats

    def per_shard(self, view: View) -> int:
        """As many as there are workers; where fewer will do, as live."""
        return self._at_most(view.seats, view)

    def __str__(self) -> str:
        return self._said("sync")


@dataclass(frozen=True, slots=True)
class Backup(_Shortage, Policy):
    """The first m of n contributions make an update, all from the same version; the others are late.

    With m="auto" the m is chosen that makes the most contributions a second in what was measured
    (`backup_tuning.choose`), and a round whose m-th does not come ends with fewer once that is worth more.
    It is measured in rounds that wait for all n: `measure` of them at first, each at most ten times as long
    as it took half of the workers; then again, no longer than is worth it, after every `keep` updates, when a
    worker has come or gone, and when rounds are 1.5 times as slow or as fast as they were chosen for.

    Source: Chen, Pan, Monga, Bengio, Józefowicz, Revisiting Distributed Synchronous SGD (2016), section 3.

    Attributes:
        choice: What was chosen last; None before. Of m="auto" alone, as are the next three.
        seen: Rounds since the last choice, the latest `measure` of them; while it is measured, all.
        left: Updates until the next measurement.
        alive: How many lived when it was last measured.
    """

    m: int | Literal["auto"]
    n: int
    _: KW_ONLY
    measure: int = 20
    keep: int = 400
    choice: Choice | None = None
    seen: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    left: int = 0
    alive: int = 0

    def __post_init__(self) -> None:
        self._check()
        m, n = self.m, self.n
        if not is_whole(n, 1):
            what = f"Backup needs n of at least 1, got {n!r}"
            raise ConfigError(what)
        if m != "auto" and not is_whole(m, 1, n):
            what = f"Backup(m, n) takes the first m of n and needs 1 <= m <= n, got m={m!r}, n={n}"
            raise ConfigError(what, hint="raise n, which counts all workers, or let m='auto' be chosen")
        if not (is_whole(self.measure, FEWEST) and is_whole(self.keep, 1)):
            least = f"measure of at least {FEWEST} and keep of at least 1"
            what = f"Backup needs {least}, got {self.measure!r} and {self.keep!r}"
            raise ConfigError(what)

    @property
    def quorum(self) -> int:
        """How many make an update now: m, the m that was chosen, or n while it is being measured."""
        if self.m != "auto":
            return self.m
        return self.n if self.choice is None or not self.left else self.choice.m

    @property
    def chosen(self) -> int | None:
        """The m that was chosen last; None before, or where it is given."""
        return None if self.choice is None else self.choice.m

    def ends(self, took: tuple[float, ...]) -> tuple[int, float]:
        """Returns with how many contributions a round ends, and when, if each is there after so long."""
        choice = self.choice
        if choice is None:
            return (
                first_end_of(took, self.quorum) if self.m == "auto" else (self.quorum, took[self.quorum - 1])
            )
        return end_of(took, choice, self.quorum)

    def wakes(self, view: View) -> float | None:
        """When those that are missing are worth the wait no more."""
        if self.m != "auto" or not view.complete or not view.out:
            return None
        began = min(out.since for out in view.out.values())
        count, choice = len(view.complete), self.choice
        if choice is None:
            limit = first_limit_s(count, view.complete[-1].at - began, self.quorum)
        else:
            limit = limit_s(count, view.complete[0].at - began, choice, self.quorum)
        return None if limit == inf else began + limit

    def takes(self, view: View) -> tuple[int, ...]:
        """The first that came, once they are enough, or once the others are worth the wait no more."""
        wanted = self.quorum
        ends = self.wakes(view)
        if ends is not None and view.now >= ends:
            wanted = min(wanted, len(view.complete))
        if self.short == "lower" or self.m == "auto":  # who is missing in a measurement is not waited for
            wanted = min(wanted, len({*view.alive, *(a.rank for a in view.complete)}))
        if not view.complete or len(view.complete) < wanted:
            return ()
        return tuple(sorted(a.rank for a in view.complete[:wanted]))

    def needs(self, seats: int) -> int:
        """As many as make an update; while that is measured, what was chosen before, or one."""
        return self.m if self.m != "auto" else self.chosen or 1

    def per_shard(self, view: View) -> int:
        """As many as make an update."""
        wanted = self.quorum
        return self._at_most(wanted, view, always=self.m == "auto")

    def after(self, done: Round) -> Backup:
        """Measures, chooses, or counts down to the next measurement."""
        if self.m != "auto":
            return self
        seen = (*self.seen[1 - self.measure :], done.duration_s)
        if self.choice is None or not self.left:
            if len(seen) < self.measure:
                return replace(self, seen=seen)
            return replace(self, choice=choose(seen, self.n), seen=(), left=self.keep, alive=done.alive)
        if done.alive != self.alive or (len(seen) == self.measure and has_changed(seen, self.choice)):
            return replace(self, seen=(), left=0)
        return replace(self, seen=() if self.left == 1 else seen, left=self.left - 1)

    def check(self, seats: int) -> None:
        """N workers it is."""
        if self.n != seats:
            what = f"{self} is for {pluralise(self.n, 'worker')}, the run has {seats}"
            m = self.m if isinstance(self.m, str) else min(self.m, seats)
            hint = f"--workers {self.n} (workers={self.n} in Python), or the policy backup:{m}/{seats}"
            raise ConfigError(what, hint=hint)

    def __str__(self) -> str:
        text = f"backup:{self.m}/{self.n}"
        return self._said(with_options(text, {key: getattr(self, key) for key in _LEARNING}, _LEARNING))


@dataclass(frozen=True, slots=True)
class StaleSync(_Alone, Policy):
    """As Async, but nobody starts who is more than `bound` contributions ahead of the slowest alive.

    INVARIANT: the clocks of the living differ by at most bound + 1.

    Source: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server (2013).
    Deviation: updates are committed one by one on all shards; what is read may be newer than the bound asks.
    """

    fresh: ClassVar[bool] = False
    bound: int

    def __post_init__(self) -> None:
        self._check()
        if not is_whole(self.bound, 0):
            what = f"StaleSync needs a bound of at least 0, got {self.bound!r}"
            raise ConfigError(what, hint="0 is lock-step; Async() has no bound")

    def takes(self, view: View) -> tuple[int, ...]:
        """The one that came first."""
        return tuple(a.rank for a in view.complete[:1])

    def per_shard(self, view: View) -> int:
        """One."""
        return 1

    def starts(self, view: View) -> tuple[int, ...]:
        """Who is not too far ahead."""
        slowest = view.slowest
        return tuple(rank for rank in view.free if view.clock.get(rank, 0) - slowest <= self.bound)

    def __str__(self) -> str:
        return self._said(f"stale:{self.bound}")


# -- policies as text ------------------------------------------------------------------------------


def _parsed(text: str) -> Policy:
    found = parse_text(text)
    options = dict(found.options)
    learns = {key: options.pop(key) for key in _LEARNING if key in options}
    if "rate" in options and found.name not in ("async", "stale"):
        raise found.unknown()
    match found.name, found.args:
        case "async", ("",) if not learns:
            return Async(**options)
        case "sync", ("",) if not learns:
            return Sync(**options)
        case "backup", (m, n) if n.isdecimal() and (m == "auto" or m.isdecimal()):
            return Backup("auto" if m == "auto" else int(m), int(n), **learns, **options)
        case "stale", (bound,) if bound.isdecimal() and not learns:
            return StaleSync(int(bound), **options)
    raise found.unknown()
