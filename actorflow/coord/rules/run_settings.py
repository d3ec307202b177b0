"""The settings of a run of several workers, beside its policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from actorflow.coord.rules.messages import Batch
from actorflow.errors import ConfigError
from actorflow.values.checks import is_whole, number

Agreement = Literal["all", "per_shard"]
"""All shards apply the same contributions, or each the first that it has: cheaper, and weaker."""

_POSITIVE = ("heartbeat_s", "lease_s", "stuck_s", "gather_s", "fence_s")

_ENDS = ("steps", "epochs")
_COUNTS = {"steps": 1, "epochs": 1, "before": 0, "not_finite": 0, "missed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Limits and times of a run.

    Attributes:
        steps: Updates after which it ends; None for no end.
        epochs: Epochs of batches after which it ends; None for no end.
        start: The first batch.
        before: How many batches came before that, in runs that this one goes on from.
        not_finite: How many contributions these runs dropped, since they were not finite.
        exactly_once: Whether a batch whose contribution was not used is computed again.
        agreement: Whether all shards make an update of the same contributions.
        heartbeat_s: How often workers send heartbeats.
        missed: Heartbeats in a row that a worker may miss before it is given up.
        lease_s: How long a permit is out on which nobody works, as the heartbeats of its worker tell.
        gather_s: How long the run waits for all its workers before it begins.
        fence_s: How long shards may take to answer at the beginning; how long the run bears that no worker is
            left that reaches them all; and how long, at most, one that does not rests before it tries again.
        stuck_s: How long no update may be made before the run ends with a report of who waits for what.
    """

    steps: int | None = None
    epochs: int | None = None
    start: Batch = Batch(0, 0)  # noqa: RUF009  frozen
    before: int = 0
    not_finite: int = 0
    exactly_once: bool = False
    agreement: Agreement = "all"
    heartbeat_s: float = 1.0
    missed: int = 5
    lease_s: float = 10.0
    gather_s: float = 30.0
    fence_s: float = 10.0
    stuck_s: float = 120.0

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not number(getattr(self, name)) > 0:
                what = f"a run needs {name}, in seconds, above 0, got {getattr(self, name)!r:.60}"
                raise ConfigError(what)
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if name in _ENDS and value is None:
                continue
            if not is_whole(value, least):
                what = f"a run needs {name}, a whole number, of at least {least}, got {value!r:.60}"
                raise ConfigError(what, hint="None is no limit" if name in _ENDS else None)
        given: Any = self.start
        if not isinstance(given, Batch):
            what = f"a run starts at a Batch(epoch, index), got {given!r:.60}"
            raise ConfigError(what)
        given = self.exactly_once
        if not isinstance(given, bool):
            what = f"exactly_once is True or False, got {self.exactly_once!r:.60}"
            raise ConfigError(what)
        if self.lease_s < self.heartbeat_s:
            got = f"{self.lease_s} and {self.heartbeat_s}"
            what = f"beats renew permits, so a run needs lease_s of at least heartbeat_s, got {got}"
            raise ConfigError(what)
        if self.agreement not in get_args(Agreement):
            what = f"agreement is 'all' or 'per_shard', got {self.agreement!r:.60}"
            raise ConfigError(what)
