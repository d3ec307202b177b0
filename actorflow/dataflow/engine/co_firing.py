"""The rule of co-firing: a node whose every token comes from nodes that fire at one moment fires with them.

A *head* enters the ring. Its *followers* are complete as soon as it has fired and those of them that come
before, whatever the schedule is; so they may fire with it, one after the other, and need neither slots nor
counts nor a turn of the ring each.

Pure: nodes are numbers here, in an order in which those that send come first, but for edges that lead back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoFiringNode:
    """A node, as this rule sees it.

    Attributes:
        awaits: The nodes from which it waits for tokens, without those whose tokens lie there from the start.
        leads: Whether others may fire with it: it sends within one tag, and as soon as it is taken.
        follows: Whether it may fire with others.
        units: What its firing costs.
    """

    awaits: frozenset[int]
    leads: bool
    follows: bool
    units: float = 0.0


def find_co_firing(
    members: Mapping[int, CoFiringNode], *, most: int, most_units: float
) -> Mapping[int, Sequence[int]]:
    """Returns for each head its followers, in an order in which they may fire; heads of nobody have none.

    Args:
        members: The nodes, in order.
        most: How many may fire together, that others have their turn in between.
        most_units: What they may cost together.

    INVARIANT: what a follower awaits is its head or a follower before it, each of which leads.
    """
    head: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    units: dict[int, float] = {}
    # In order, so that the head of all that a node awaits is known, but where an edge leads back.
    for i, member in members.items():
        # None stands for who leads nobody: like tokens of two heads it means that no one moment completes the
        # node.
        with_ = {head.get(j) for j in member.awaits}
        first = with_.pop() if len(with_) == 1 else None
        if (
            first is not None
            and member.follows
            # the head is one of them
            and len(found[first]) + 1 < most
            and units[first] + member.units <= most_units
        ):
            found[first].append(i)
            units[first] += member.units
        # Whatever cannot follow enters the ring by itself, and may be a head.
        else:
            first = i
            found[first] = []
            units[first] = member.units
        # Whoever sends later, or into another tag, passes no head on: what awaits it is not complete by then.
        if member.leads:
            head[i] = first
    return found
