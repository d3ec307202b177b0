"""The statistics of a session, and its dump: what it has done, and what it is waiting for."""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.actors import dump
from actorflow.runtime.input_waits import InputEntry


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What a session has done since it was opened.

    Over several processes, what a process counts itself is that of none of them: `partitions` and what
    follows are 0 then.

    Attributes:
        steps: Steps that ended well; initialising ones not counted.
        failed: Steps that ended otherwise.
        firings: Turns of all actors of the session's system: firings of nodes, and turns of
            variables, queues, optimizers and users' actors.
        messages: Tokens along the edges of the steps that ended well, as their plans count them;
            calls to variables, queues and optimizers come on top.
        transfers: Tensors and bare tokens that went from one process to another in the steps that ended
            well, as their plans count them; initialising ones not counted.
        live: Steps of which something may still happen somewhere.
        peak_live: The most that ran at once.
        waiting: Steps that wait for admission.
        plans: Plans in the cache.
        partitions: Programs that are installed: plans of programs that do the same share one.
        offloaded: Kernels that ran on a device's threads, or on a card.
        in_place: Writes to variables into the array that was there, updates of some rows included.
        copied: Writes that made a new array, since somebody held the value or its shape changed. Initial
            values and whole training updates are neither: they bring an array of their own.
        dropped: Updates that were not made, since a gradient was not finite, and `max_not_finite` said so.
    """

    steps: int
    failed: int
    firings: int
    messages: int
    transfers: int
    live: int
    peak_live: int
    waiting: int
    plans: int
    partitions: int = 0
    offloaded: int = 0
    in_place: int = 0
    copied: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A step that runs: fetches to come, age, and what it waits for, one sentence each."""

    id: int
    fetches_left: int
    age_s: float
    waits: tuple[str, ...]

    def __str__(self) -> str:
        waits = "; ".join(self.waits) or "nothing but its turn"
        return (
            f"step {self.id}: {self.fetches_left} fetches to come, for {self.age_s:.3g} s; waits for {waits}"
        )


@dataclass(frozen=True, slots=True)
class SessionDump:
    """A session at one moment.

    Attributes:
        inputs: The input for which somebody waits on its event loop: which element, of what, with its line.
    """

    steps: tuple[StepEntry, ...]
    max_steps: int
    waiting_for_admission: int
    system: dump.Dump
    inputs: tuple[InputEntry, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self.steps)}/{self.max_steps} steps, {self.waiting_for_admission} wait for admission"]
        lines += [f"  {step}" for step in self.steps]
        lines += [f"  {entry}" for entry in self.inputs]
        return "\n".join([*lines, str(self.system)])
