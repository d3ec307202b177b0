"""Judges of histories: each takes one and returns a `Verdict` that is True, False or unknown, and why."""

from actorflow.sim.checkers.consensus import agreement
from actorflow.sim.checkers.conservation import queue
from actorflow.sim.checkers.delivery import exactly_once
from actorflow.sim.checkers.linearizability import linearizable
from actorflow.sim.checkers.models import Call, KeyValue, Model, MultiRegister, Mutex, Refusal, Register
from actorflow.sim.checkers.program_order import sequential
from actorflow.sim.checkers.serial import serial_equivalence, synchronous_equivalence
from actorflow.sim.checkers.staleness import Seen, bounded_staleness
from actorflow.sim.checkers.verdict import Verdict

__all__ = [
    "Call",
    "KeyValue",
    "Model",
    "MultiRegister",
    "Mutex",
    "Refusal",
    "Register",
    "Seen",
    "Verdict",
    "agreement",
    "bounded_staleness",
    "exactly_once",
    "linearizable",
    "queue",
    "sequential",
    "serial_equivalence",
    "synchronous_equivalence",
]
