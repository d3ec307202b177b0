"""What clients asked for and were told, in one form for every world, and in files.

`Recorder` writes a history while a program runs, `History` holds it, `checkers` judge it. Histories of
other tools come in through `read_jepsen`, `read_kv` and `read_knossos`.
"""

from actorflow.sim.history.history import History
from actorflow.sim.history.operation import Client, Operation, Status, Value
from actorflow.sim.history.readers import read_jepsen, read_knossos, read_kv
from actorflow.sim.history.recorder import DEFINITE, Pending, Recorder

__all__ = [
    "DEFINITE",
    "Client",
    "History",
    "Operation",
    "Pending",
    "Recorder",
    "Status",
    "Value",
    "read_jepsen",
    "read_knossos",
    "read_kv",
]
