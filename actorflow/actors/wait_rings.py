"""Finds and opens rings of waits: of actors, of code of the user, of steps and of initial values.

`actors.waits` is the rule. Here is whom it concerns: an actor, a run of a re-entrant one, and whatever else
says by `blocked` what it waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actorflow.actors import waits
from actorflow.errors import AskCycle, MailboxFull

if TYPE_CHECKING:
    from actorflow.actors.address import Address


def actor_of(node: Any) -> Address:
    """Returns the actor of a node of the wait-for graph: an actor, or one run of a re-entrant one."""
    # A run is a pair of its actor and a number.
    actor: Address = node[0] if type(node) is tuple else node
    return actor


def blockers(node: Any) -> waits.Blocked[Any]:
    """Returns what a node of the wait-for graph waits for."""
    actor = actor_of(node)
    # An actor as such waits for its outbox, its handler's asks, or for one of too many runs to end.
    if node is actor:
        blocked: waits.Blocked[Any] = actor.blocked()
        return blocked
    # One run waits for what it asks alone.
    return waits.Blocked(tuple(wait for wait in actor.awaits if wait.waiter == node and not wait.void))


def open_rings(edge: Any) -> None:
    """Opens every ring that a new wait closes.

    Raises:
        AskCycle: one is of waits for answers, steps and initial values alone.
        MailboxFull: one has a wait for room, and its actors make more messages than fit.
    """
    # One wait may close several rings.
    while (closed := waits.ring(edge, blockers)) is not None:
        decision = waits.judge_wait(closed, _overdraft)
        if isinstance(decision, waits.Refuse):
            raise _refusal(edge, closed, asks=decision.asks)
        relieved = decision.edge
        relieved.target.force(relieved)
        # It does not wait any more.
        if relieved is edge:
            return


def path_of(closed: Sequence[Any]) -> str:
    """Returns the names along a ring, from whoever closed it to itself."""
    labels = _labels([actor_of(step.waiter) for step in (*closed, closed[0])])
    # An actor and its run follow each other on a ring: named once.
    shown = [name for name, before in zip(labels, [None, *labels], strict=False) if name != before]
    return " -> ".join(shown if len(shown) > 1 else labels)


def _refusal(edge: Any, closed: Sequence[Any], *, asks: bool) -> AskCycle | MailboxFull:
    path = path_of(closed)
    if not asks:
        # Whoever tells closed it, or a wait for room that has been there before.
        target = edge.target if hasattr(edge, "target") else next(e.target for e in closed if not e.asks)
        what = (
            f"actors that tell each other in a ring may not make more messages than fit, got {path}; "
            f"'{target.name}' holds {len(target.data)}, limit {target.max_messages}"
        )
        return MailboxFull(what, hint="send less for each message handled, or raise max_messages")
    nodes = [actor_of(step.waiter) for step in closed]
    # Steps and initial values have no system: where one is among them the advice is another.
    if all(hasattr(node, "system") for node in nodes):
        what = f"actors may not wait for each other in a ring, got {path}"
        return AskCycle(what, hint="tell instead of ask, or set reentrant = True on one of them")
    what = f"steps, first values and actors may not wait for each other in a ring, got {path}"
    hint = "run no step in code, or in a handler, for which that step waits, or make an actor reentrant"
    return AskCycle(what, hint=hint)


def _labels(nodes: Sequence[Any]) -> list[str]:
    """Returns names that tell `nodes` apart: of actors with their system where names alone do not."""
    systems = list(dict.fromkeys(node.system for node in nodes if hasattr(node, "system")))
    if len(systems) <= 1:
        return [_label(node) for node in nodes]
    named = {system: system.name for system in systems}
    # Two systems of one name: numbered.
    if len(set(named.values())) < len(systems):
        named = {system: f"{system.name}#{n}" for n, system in enumerate(systems, 1)}
    return [f"{named[n.system]}/{n.name}" if hasattr(n, "system") else _label(n) for n in nodes]


def _label(node: Any) -> str:
    return str(getattr(node, "label", node.name))


def _overdraft(node: Any) -> int:
    return actor_of(node).overdraft
