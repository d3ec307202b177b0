"""What a run of several workers may be told, beside its policy."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

from actorflow.coord.messages import Batch
from actorflow.errors import ConfigError

Agreement = Literal["all", "per_shard"]
"""All shards apply the same contributions, or each the first that it has: cheaper, and weaker."""

_POSITIVE = ("beat_s", "lease_s", "stuck_s", "gather_s", "fence_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Limits and times of a run.

    Attributes:
        steps: Updates after which it ends; None for no end.
        epochs: Epochs of batches after which it ends; None for no end.
        start: The first batch.
        before: How many batches came before that, in runs that this one goes on from.
        exactly_once: Whether a batch whose contribution was not used is computed again.
        agreement: Whether all shards make an update of the same contributions.
        beat_s: How often workers beat.
        missed: Beats in a row that a worker may miss before it is given up.
        lease_s: How long a permit is out on which nobody works, as the beats of its worker tell.
        gather_s: How long the run waits for all its workers before it begins.
        fence_s: How long shards may take to answer at the beginning; how long the run bears that no worker is
            left that reaches them all; and how long, at most, one that does not rests before it tries again.
        stuck_s: How long no update may be made before the run ends with a report of who waits for what.
    """

    steps: int | None = None
    epochs: int | None = None
    start: Batch = Batch(0, 0)  # noqa: RUF009  frozen
    before: int = 0
    exactly_once: bool = False
    agreement: Agreement = "all"
    beat_s: float = 1.0
    missed: int = 5
    lease_s: float = 10.0
    gather_s: float = 30.0
    fence_s: float = 10.0
    stuck_s: float = 120.0

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                what = f"a run needs {name} above 0, got {getattr(self, name)!r}"
                raise ConfigError(what)
        for name in ("steps", "epochs"):
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if value is not None and not (whole and value >= 1):
                what = f"a run needs {name} of at least 1, a whole number, got {value!r:.60}"
                raise ConfigError(what, hint="None is no limit")
        if self.missed < 1:
            what = f"a run needs missed of at least 1, got {self.missed!r}"
            raise ConfigError(what)
        if self.lease_s < self.beat_s:
            got = f"{self.lease_s} and {self.beat_s}"
            what = f"beats renew permits, so a run needs lease_s of at least beat_s, got {got}"
            raise ConfigError(what)
        if self.agreement not in get_args(Agreement):
            what = f"agreement is 'all' or 'per_shard', got {self.agreement!r}"
            raise ConfigError(what)
