"""How a call, or a branch without others, becomes nodes of the region around it."""

from __future__ import annotations

from actorflow.graph.node import NodeId, Port
from actorflow.plan.control.lowered import Lowered, of_arguments
from actorflow.plan.control.region import Region


def add_call(lowered: Lowered) -> None:
    """Adds the nodes of the only body in place of the node."""
    region, node, body = lowered.region, lowered.node, lowered.bodies[0]
    # A branch without others is given its number before the captures, which its body does not take.
    given = lowered.inputs[len(lowered.inputs) - len(body.arguments) :]
    inner = Region(
        lowered.flat,
        body,
        region.frame,
        value=of_arguments(body, lambda k: given[k]),
        # Live as the region around: it needs no pivot of its own.
        pivot=None if region.pivot is None else region.pivot_node,
        loose=region.loose,
        # As a whole it waits for what the node waits for.
        entry=(*region.entry, *lowered.controls),
        around=region,
    )
    inner.tokens = {name: token.node for name, token in lowered.tokens.items()}
    saved = {
        lowered.kept + k: Port(NodeId(entry[-3]), entry[-2])
        for k, entry in enumerate(lowered.saved)
        if lowered.is_kept(k)
    }
    ports = {**dict(enumerate(body.results)), **saved}
    lowered.fill(inner, body, ports.values())
    tokens = {
        name: region.pass_on(token, lowered.name_node(f"order/{name}/after"), node, inner.last(name)).node
        for name, token in lowered.tokens.items()
    }
    after = [*lowered.controls, *(token for name, token in tokens.items() if name in lowered.effects)]
    outputs = {
        # Passed on once its effects have happened; a token of its own, since outputs may be the very inputs.
        k: region.pass_on(inner.value(port), lowered.name_node(f"output_{k}"), node, after)
        for k, port in ports.items()
    }
    lowered.give(outputs, tokens)
