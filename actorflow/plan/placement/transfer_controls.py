"""What transfers wait for, besides their value: nodes that go before, mostly of the device to which it goes.

Within a process a copy waits. Between processes the sender does, and hears from such a node by a bare token:
values are pushed, so one that were held back where it arrives would take its memory there already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from actorflow.plan.program import Edge, Program

TransferControls = Mapping[tuple[Edge, str], tuple[int, ...]]
"""(output, device that takes it) -> indices of nodes that go before the transfer."""

NO_CONTROLS: TransferControls = MappingProxyType({})

HeldTransfers = Mapping[tuple[Edge, str], tuple[int, ...]]
"""(output, process that takes it) -> likewise."""


def copy_controls(
    program: Program, of: Sequence[str], process_of: Callable[[str], str], controls: TransferControls
) -> TransferControls:
    """Returns the controls of transfers within a process; those between processes: `transfer_controls`."""
    # A feed starts on every process: it is not transferred.
    fed = frozenset(program.feeds)
    return {
        (edge, device): after
        for (edge, device), after in controls.items()
        if edge.node not in fed and of[edge.node] == process_of(device)
    }


def transfer_controls(
    program: Program, of: Sequence[str], process_of: Callable[[str], str], controls: TransferControls
) -> HeldTransfers:
    """Returns which transfers between processes wait, and for which nodes.

    Args:
        program: The whole.
        of: The process of each node.
        process_of: The process of a device.
        controls: What the placer wants.
    """
    if not controls:
        return {}
    takers: dict[tuple[Edge, str], set[str]] = {}
    for i, node in enumerate(program.nodes):
        for source in node.inputs:
            if isinstance(source, Edge):
                takers.setdefault((source, of[i]), set()).add(node.device)
    fed = frozenset(program.feeds)
    found: dict[tuple[Edge, str], tuple[int, ...]] = {}
    for (edge, device), after in controls.items():
        to = process_of(device)
        crosses = edge.node not in fed and of[edge.node] != to
        # A value goes to a process once. So it waits only where its control speaks for all who take it there:
        # others might be needed before. A fetch may take it as well: nothing follows a fetch.
        if crosses and takers.get((edge, to), set()) <= {device, ""}:
            found[edge, to] = after
    return found
