"""Tells whether two processes run the same program: a short hash of a graph."""

from __future__ import annotations

import json
from hashlib import blake2b

from actorflow.graph.graph import Graph
from actorflow.graph.serial import to_data
from actorflow.values.arrays import name_of


def fingerprint(graph: Graph) -> str:
    """Returns 32 hex digits that two graphs share if they compute the same in the same way.

    Nodes, resources, constants bit for bit, the seed, and objects such as optimizers count; of those what
    `values.fingerprint` tells. Where in which file something was made does not: paths differ elsewhere.
    """
    data, constants = to_data(graph)
    of_bodies = [node for body in data["bodies"] for node in body["nodes"]]
    # Not where something was made: paths differ elsewhere.
    for made in (*data["nodes"], *data["resources"], *data["bodies"], *of_bodies):
        del made["defined_at"]
    # What objects look like, since only their keys are in the data.
    data["objects"] = graph.likenesses
    told = blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16)
    for constant in constants:
        told.update(f"{name_of(constant.dtype)} {constant.shape}".encode())
        # Bytes are objects: of these the bits are addresses.
        elements = constant.ravel().tolist() if constant.dtype.hasobject else None
        told.update(constant.tobytes() if elements is None else repr(elements).encode())
    return told.hexdigest()
