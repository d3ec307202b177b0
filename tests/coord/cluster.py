"""Shards and workers that keep to the messages and compute nothing: the model of the commit's other side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Contribute,
    Discard,
    DropContributions,
    Dropped,
    Enough,
    Fence,
    PrepareUpdate,
    Refused,
    RunEnded,
    ShardStatus,
    Staged,
    Stored,
    Unstaged,
)
from actorflow.errors import CoordinationError


class ModelShard:
    """A shard without parameters: which contributions it keeps, and the sets that made its versions."""

    def __init__(self, shard: int, *, fresh: bool = True) -> None:
        self.shard = shard
        self.fresh = fresh
        self.term = 0
        self.version = 0
        self.open: dict[int, Contribute] = {}
        self.staged: PrepareUpdate | None = None
        self.history: list[PrepareUpdate] = []
        self.dropped: set[int] = set()
        self.end: RunEnded | None = None

    def keep(self, message: Contribute) -> Stored | Refused:
        if message.term < self.term:
            return Refused(message.number, "fenced")
        if self.fresh and message.base < self.version:
            return Refused(message.number, "late")
        if message.number in self.dropped:
            return Refused(message.number, "seen")
        self.open[message.rank] = message
        return Stored(message.number)

    def hear(self, message: Any) -> Any:
        """Returns what it says then, if anything."""
        match message:
            case Fence(term):
                self.term = max(self.term, term)
                return ShardStatus(
                    self.shard, self.version, self.staged, self.history[-1] if self.history else None
                )
            case DropContributions(numbers=numbers):
                self.dropped.update(numbers)
                self.open = {r: c for r, c in self.open.items() if c.number not in numbers}
            case RunEnded():
                self.end = message
            case PrepareUpdate() | Commit() | Discard():
                return self._update(message)
        return None

    def _update(self, message: PrepareUpdate | Commit | Discard) -> Any:
        if message.term < self.term or message.version != self.version:
            return None
        self.term = message.term
        match message:
            case PrepareUpdate(term, version, chosen, commits):
                if self.staged is not None and self.staged.chosen != chosen:
                    return Unstaged(
                        term, self.shard, version, CoordinationError("a second set for a version")
                    )
                lacking = [n for r, n in chosen if r not in self.open or self.open[r].number != n]
                if lacking:
                    return Unstaged(term, self.shard, version, CoordinationError(f"{lacking} are not here"))
                self.staged = message
                return self.apply(term, version) if commits else Staged(term, self.shard, version)
            case Commit(term, version):
                assert self.staged is not None, "told to commit what was not staged"
                return self.apply(term, version)
        self.staged = None
        return None

    def apply(self, term: int, version: int) -> Committed:
        assert self.staged is not None
        for rank, number in self.staged.chosen:
            if rank in self.open and self.open[rank].number == number:
                del self.open[rank]
        self.history.append(self.staged)
        self.version, self.staged = version + 1, None
        return Committed(term, self.shard, version)


class LoneShard(ModelShard):
    """One that closes updates by itself.

    Attributes:
        outbox: What it has to say to the coordinator beside its answers.
    """

    def __init__(self, shard: int, *, fresh: bool = True) -> None:
        super().__init__(shard, fresh=fresh)
        self.enough: Enough | None = None
        self.outbox: list[Any] = []
        self._seen: dict[int, int] = {}

    def keep(self, message: Contribute) -> Stored | Refused:
        if message.number <= self._seen.get(message.rank, 0):
            return Refused(message.number, "seen")
        self._seen[message.rank] = message.number
        self.open.pop(message.rank, None)
        answer = super().keep(message)
        self._close()
        return answer

    def hear(self, message: Any) -> Any:
        answer = super().hear(message)
        match message:
            case Enough():
                self.enough = message
                self._close()
            case DropContributions(term, numbers):
                self.outbox.append(Dropped(term, self.shard, numbers))
            case Fence() | RunEnded():
                self.enough = None
                self.open.clear()
        return answer

    def _close(self) -> None:
        enough = self.enough
        while enough is not None and self.version != enough.until and len(self.open) >= enough.count:
            its = sorted(list(self.open.values())[: enough.count], key=lambda c: c.rank)
            self.staged = PrepareUpdate(self.term, self.version, tuple((c.rank, c.number) for c in its))
            told = self.apply(self.term, self.version)
            bases = tuple(c.bases for c in its)
            self.outbox.append(replace(told, chosen=self.history[-1].chosen, bases=bases))
            if self.fresh:
                self.open = {r: c for r, c in self.open.items() if c.base >= self.version}
