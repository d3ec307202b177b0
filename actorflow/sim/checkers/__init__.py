"""Judges of histories: each takes one and returns a `Verdict` that is True, False or unknown, and why."""

from actorflow.sim.checkers.linearizability import linearizable
from actorflow.sim.checkers.models import Call, KeyValue, Model, MultiRegister, Mutex, Refusal, Register
from actorflow.sim.checkers.verdict import Verdict

__all__ = [
    "Call",
    "KeyValue",
    "Model",
    "MultiRegister",
    "Mutex",
    "Refusal",
    "Register",
    "Verdict",
    "linearizable",
]
