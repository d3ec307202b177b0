"""The directory of a cluster: each process tells the chief where it is, and the chief tells all of it to all.

The rule is a join: of two entries of one name that of the later incarnation stays. So it does not matter in
which order entries come, how often, or over whom: who has heard of the same incarnations has the same table.

Who dials whom follows from names alone: the chief comes first, then `ps` by number, then workers by number,
and the later one dials the earlier one. So both ends of a way agree, and a process that comes back with
a new address is dialled anew by those behind it, while it dials those before it itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.cluster.process.completion_note import complete
from actorflow.cluster.process.messages import AddressTable, AnnounceAddress
from actorflow.cluster.process.roster import misplaced_error
from actorflow.errors import CoordinationError

log = logging.getLogger("actorflow.cluster")

_JOBS = ("chief", "ps", "worker")


def merge_table(table: AddressTable, heard: Iterable[AnnounceAddress]) -> AddressTable:
    """Returns a table with what was heard; the same one when that is nothing new."""
    found = {entry.name: entry for entry in table.entries}
    new = False
    for here in heard:
        known = found.get(here.name)
        if known is None or known.incarnation < here.incarnation:
            found[here.name] = here
            new = True
    return AddressTable(tuple(found[name] for name in sorted(found))) if new else table


def place(name: str) -> tuple[int, int]:
    """Returns the place of a process in the order in which they dial each other."""
    job = name.rstrip("0123456789")
    kind = _JOBS.index(job) if job in _JOBS else len(_JOBS)
    return kind, int(name[len(job) :] or 0)


def dials(name: str, other: str) -> bool:
    """Whether the first of two processes dials the second."""
    return place(other) < place(name)


class Directory(Actor):
    """Knows where all are; at the chief.

    **Receives** AnnounceAddress, asked.
    **Sends** AddressTable, as the answer, and to the discovery clients of all others when it has changed.
    **Fails** a process without a place in the cluster hears why: Misplaced; one that comes when the job is
        complete: JobOver.
    **Promise** a process that has asked hears of every later change while its session lasts; after that
        it asks again.

    Args:
        mine: Where the chief is.
        clients: Those to tell, by the name of their process.
        on_change: Called with the table whenever it has changed.
        over: Called with who asks; tells whether the job is complete.
    """

    def __init__(
        self,
        mine: AnnounceAddress,
        clients: Mapping[str, Ref],
        on_change: Callable[[AddressTable], None],
        over: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._over = over
        self._mine = mine
        self._table = AddressTable((mine,))
        self._clients = clients
        self._on_change = on_change

    def receive(self, message: Any) -> AddressTable:
        """Takes an entry and answers with all."""
        if not isinstance(message, AnnounceAddress):
            what = f"a directory takes where a process of its cluster is, got {message!r:.80}"
            raise CoordinationError(what)
        refusal = misplaced_error(message, self._mine.counts, self._clients)
        if refusal is not None:
            log.warning("%s is refused: %s", message.name, refusal.what)
            raise refusal
        if self._over(message.name):
            raise complete()
        table = merge_table(self._table, [message])
        if table is not self._table:
            self._table = table
            self._on_change(table)
            for entry in table.entries:
                if entry.name not in (message.name, self._mine.name):
                    self._clients[entry.name].signal(table)
        return table
