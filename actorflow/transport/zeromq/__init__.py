"""Datagrams between processes and machines over ZeroMQ, which only this package imports.

`Endpoint` has the sockets of a process on its event loop; `Keyring` the keys; `Responder` answers from a
thread of its own, and `request` asks one.
"""

from __future__ import annotations

from actorflow.transport.rules.address import Address
from actorflow.transport.zeromq.authentication import check_loopback
from actorflow.transport.zeromq.counters import EndpointStats
from actorflow.transport.zeromq.endpoint import Endpoint
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.options import Options
from actorflow.transport.zeromq.responder import Responder, request

__all__ = [
    "Address",
    "Endpoint",
    "EndpointStats",
    "Keyring",
    "Options",
    "Responder",
    "check_loopback",
    "request",
]
