"""Whether enough are alive to go on: the run waits for its workers at first, and by its policy later."""

from __future__ import annotations

from actorflow.coord.consulting import needed
from actorflow.coord.membership import Member, Membership, State
from actorflow.coord.policy import Policy
from actorflow.errors import QuorumLost, counted


class Quorum:
    """Counts the living against what the policy needs.

    Attributes:
        opened: Whether the run has begun to wait for its workers.
        holds: Whether nothing may go on just now.
        seats: How many workers the run was given.
    """

    def __init__(self, seats: int, gather_s: float) -> None:
        self.opened = False
        self.holds = True
        self.seats = seats
        self._gather_s = gather_s
        self._gathered = False
        self._since: float | None = None

    def open(self, now: float) -> None:
        """Begins to wait for the workers."""
        self.opened = True
        self._since = now

    def short(self, policy: Policy, members: Membership, now: float, *, more: bool) -> QuorumLost | None:
        """Decides, as `holds`, whether the run goes on; returns the error when it cannot any more.

        Args:
            policy: What it needs, and what it does with fewer.
            members: Who is alive.
            now: The time.
            more: Whether anything is left to compute; what is complete needs nobody.

        Raises:
            PolicyError: it names no number.
        """
        alive = len(members.alive)
        if not self._gathered:
            self._gathered = not members.awaited or self._waited(now) > self._gather_s
            if not self._gathered:
                return None
            self._since = None
        needs = 1 if policy.short == "lower" else needed(policy, self.seats)
        if alive >= needs or not more:
            self.holds, self._since = False, None
            return None
        self.holds = True
        self._since = now if self._since is None else self._since
        if policy.short != "fail" and self._waited(now) <= policy.wait_s:
            return None
        waited = "" if policy.short == "fail" else f" for {self._waited(now):.1f} s"
        missing = [_missing(member) for member in members.members if member.state is not State.ALIVE]
        living = f"{alive} of {self.seats} are alive{waited}"
        what = f"{policy} needs {counted(needs, 'worker')}, {living}: {', '.join(missing)}"
        return QuorumLost(what, hint=_HINT)

    def _waited(self, now: float) -> float:
        return 0.0 if self._since is None else now - self._since


_HINT = (
    "short='lower' goes on with fewer, 'wait' gives them wait_s to return; as a text: "
    "--policy sync,short=wait,wait_s=30"
)


def _missing(member: Member) -> str:
    why = f" ({member.why})" if member.state is State.DEAD and member.why else ""
    return f"{member.process} {member.state.value}{why}"
