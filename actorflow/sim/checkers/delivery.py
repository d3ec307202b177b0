"""Whether every contribution was applied exactly once.

Clients send contributions and are told whether they were taken; whoever applies them records each time
that it did. A contribution has an identity, (worker, step, seq), that stays the same when it is sent
again. For each key (a shard, say) and each identity

    1 <= applied when any sending was acknowledged (OK)
    applied <= 1 always
    applied == 0 when every sending failed, or there was none

An application of unknown outcome, of one who died while applying, counts as 0 or 1, whichever is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.checkers.subject import nothing, overlooks
from actorflow.sim.checkers.timeline import call
from actorflow.sim.checkers.verdict import Verdict, listed
from actorflow.sim.history import Operation, Status, Value
from actorflow.sim.history.history import operations_of
from actorflow.sim.history.operation import shorten_value

Identity = tuple[Value, ...]


def sent_identity(operation: Operation) -> Identity:
    """Returns (client, step, seq) of a sending with the arguments step, seq, ..."""
    return (operation.client, *_first(operation, 2, "step, seq"))


def applied_identity(operation: Operation) -> Identity:
    """Returns (worker, step, seq) of an application with the arguments worker, step, seq, ..."""
    return _first(operation, 3, "worker, step, seq")


@dataclass(slots=True)
class _Account:
    sent: list[Operation] = field(default_factory=list)
    applied: list[Operation] = field(default_factory=list)


def exactly_once(
    history: Iterable[Operation],
    *,
    sent: str = "push",
    applied: str = "apply",
    sent_as: Callable[[Operation], Identity] = sent_identity,
    applied_as: Callable[[Operation], Identity] = applied_identity,
) -> Verdict:
    """Returns whether no contribution was applied twice, lost after it was acknowledged, or invented.

    Args:
        history: Sendings and applications; each key is judged alone.
        sent: The name of the sendings. One may be repeated with the same identity, also by a later
            incarnation of its client.
        applied: The name of the applications. One with the result False was recognised as a repeat
            and changed nothing.
        sent_as: The identity of a sending.
        applied_as: The identity of an application.

    Raises:
        HistoryError: One is recorded without its identity.
        ConfigError: What is given is no history.
    """
    operations = operations_of(history)
    accounts: dict[tuple[Value, Identity], _Account] = {}
    for operation in operations:
        if operation.op == sent:
            accounts.setdefault((operation.key, sent_as(operation)), _Account()).sent.append(operation)
        elif (
            operation.op == applied and operation.status is not Status.FAIL and operation.result is not False
        ):
            accounts.setdefault((operation.key, applied_as(operation)), _Account()).applied.append(operation)
    wrong = [
        f"{shorten_value(identity, 60)}{'' if key is None else f' on {shorten_value(key)}'} {finding}"
        for (key, identity), account in accounts.items()
        for finding in _findings(account)
    ]
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        what = f"{len(wrong)} of {pluralise(len(accounts), 'contribution')} {verb} not right"
        return Verdict("exactly_once", False, what, listed(wrong))
    if overlooks(operations, {sent, applied}):
        return nothing("exactly_once", operations, sent=sent, applied=applied)
    count = pluralise(sum(len(account.applied) for account in accounts.values()), "application")
    return Verdict("exactly_once", True, f"{count} of {pluralise(len(accounts), 'contribution')}")


def _findings(account: _Account) -> list[str]:
    certain = [operation for operation in account.applied if operation.status is Status.OK]
    acknowledged = [operation for operation in account.sent if operation.status is Status.OK]
    if len(certain) > 1:
        events = ", ".join(str(operation.invoked) for operation in certain)
        return [f"was applied {len(certain)} times, at events {events}"]
    if acknowledged and not account.applied:
        first = acknowledged[0]
        return [f"was acknowledged to client {first.client} at event {first.returned} and never applied"]
    sendings = [operation for operation in account.sent if operation.status is not Status.FAIL]
    if certain and not sendings:
        how = "was never sent" if not account.sent else "failed every time it was sent"
        return [f"{how}, and was applied at event {certain[0].invoked}"]
    if certain and all(operation.invoked > (certain[0].returned or 0) for operation in sendings):
        return [f"was applied at event {certain[0].invoked}, before it was sent"]
    return []


def _first(operation: Operation, count: int, names: str) -> Identity:
    if len(operation.args) < count:
        message = f"{call(operation)} by client {operation.client} needs the arguments {names}"
        raise HistoryError(message, hint="record them, or pass sent_as= and applied_as=")
    return operation.args[:count]
