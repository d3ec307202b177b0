"""The failures actorflow reports, and where in the graph they happened.

Every error answers three questions in this order: what happened, where, and what to try.
The answers are plain strings, so that an error raised on a worker crosses the wire
unchanged and reads the same at the session that asked for the step.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a running graph; unknown coordinates stay None."""

    node: str | None = None
    op: str | None = None
    port: str | None = None
    step: int | None = None
    frame: str | None = None
    device: str | None = None
    actor: str | None = None
    defined_at: str | None = None

    def within(self, wider: Where) -> Where:
        """Returns this place with what it leaves open taken from `wider`."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        return Where(**{name: getattr(wider, name) if at is None else at for name, at in mine.items()})

    def __str__(self) -> str:
        """Names only the coordinates that are known, widest last."""
        return ", ".join(
            f"{f.name.replace('_', ' ')} {value}"
            for f in fields(self)
            if (value := getattr(self, f.name)) is not None
        )


class ActorflowError(Exception):
    """Base of everything actorflow raises on purpose.

    Attributes:
        what: One sentence: the rule that was broken and the values that broke it.
        where: The place in the graph, as far as the raiser knows it.
        hint: The next thing to try, or None when there is no honest advice.
    """

    where: Where | None = None  # for a subclass whose own __init__ does not call this one
    hint: str | None = None

    def __init__(self, what: str, *, where: Where | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """One line for what, one for where, one for the hint."""
        lines = [self.what]
        if self.where is not None:
            lines.append(f"  where: {self.where}")
        if self.hint is not None:
            lines.append(f"  try:   {self.hint}")
        return "\n".join(lines)

    def at(self, where: Where) -> Self:
        """Returns the same error placed at `where`; coordinates that it already has stay.

        Inner code raises without a place; every caller that knows more adds it. The cause and the
        notes travel with it.
        """
        merged = where if self.where is None else self.where.within(where)
        if merged == self.where:
            return self
        placed = self.copy()
        placed.where = merged
        return placed

    def copy(self) -> Self:
        """Returns a copy for someone else to raise, with the cause and the notes."""
        same = type(self).__new__(type(self), *self.args)  # a subclass may want other arguments
        same.__dict__.update(self.__dict__)
        if hasattr(self, "__notes__"):
            same.__notes__ = list(self.__notes__)
        same.__cause__ = self.__cause__
        return same

    def __reduce__(self) -> tuple[object, ...]:
        """Keeps the keyword-only parts when an error is copied between processes."""
        return _rebuild, (type(self), self.what, self.where, self.hint)


def describe(error: BaseException, *, typed: bool = True) -> str:
    """Returns the type and the text of any exception; never raises, even where its `__str__` does.

    Args:
        error: The exception.
        typed: Whether the type is named even where there is a text.
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception as wrong:  # noqa: BLE001  a report must not break on what it reports
        return f"{kind} (its text cannot be shown: {type(wrong).__name__})"
    if not text:
        return kind
    return f"{kind}: {text}" if typed else text


def show_value(value: object, most: int = 60) -> str:
    """Returns how a value reads, of which an error shows so many characters; never raises.

    Python writes no integer of more than 4300 digits, and a class of the user may have any `__repr__`.
    """
    try:
        return repr(value)[:most]
    except Exception as wrong:  # noqa: BLE001  a report must not break on what it reports
        return f"{type(value).__name__} that cannot be shown ({type(wrong).__name__})"


def shorten(text: str, most: int) -> str:
    """Returns a text of at most `most` characters: of a longer one how it begins, its length and its end.

    Args:
        text: Any text.
        most: How many characters it may have; 60 or more.
    """
    if len(text) <= most:
        return text
    gap = f" ... ({len(text):,} characters in all) ... "
    left = max(0, most - len(gap))
    tail = left // 4
    return f"{text[: left - tail]}{gap}{text[len(text) - tail :]}"


def pluralise(count: int, noun: str) -> str:
    """Returns a number of things as a message says it: `1 task`, `3 tasks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _rebuild(kind: type[ActorflowError], what: str, where: Where | None, hint: str | None) -> ActorflowError:
    return kind(what, where=where, hint=hint)


class SpecError(ActorflowError):
    """Shapes or dtypes that do not fit together; found while the graph is built."""


class UnknownArgument(SpecError, TypeError):
    """A function was given an argument by a name that it does not take; a TypeError, as Python's is."""


class ConfigError(ActorflowError, ValueError):
    """A setting that cannot mean anything, such as a negative learning rate."""


class GraphError(ActorflowError):
    """A graph that cannot mean anything: unknown name, foreign tensor, cycle, missing rule."""


class NoValue(GraphError, TypeError):
    """Python or numpy asked a tensor for its value while the graph is built; a TypeError for them as well."""


class GradientError(GraphError):
    """A path that cannot be differentiated."""


class GradientMismatch(ActorflowError, AssertionError):
    """A gradient that is not what differences measure."""


class FeedError(ActorflowError):
    """A fed value that does not fit its placeholder, or a feed that is missing or unknown."""


class FetchError(ActorflowError):
    """A fetch that is not in the session's graph or cannot be computed."""


class GrowingGraph(UserWarning):
    """A graph grows with every step of a session: each is planned anew, and no node is let go of."""


class DenseRows(UserWarning):
    """Some rows of a table become all of them: each step then costs what the table costs."""


class NoBetter(UserWarning):
    """A run on a cluster ended no better than it began."""


class PlacementError(ActorflowError):
    """A device that does not exist, or a kernel that it does not have."""


class KernelError(ActorflowError):
    """A kernel raised; the original exception is the cause."""


class NumericError(KernelError):
    """A tensor holds NaN or infinity where it must not."""


class DataError(KernelError):
    """An element of the data is not what an op was told to read; names its place and its text."""


class ListError(KernelError):
    """A list of tensors was read where nothing is, written twice at one index, or past its size."""


class InputError(ActorflowError):
    """An element that could not be read or made; names source and element."""


class DatasetError(ActorflowError):
    """A data set that cannot be had."""


class DatasetMissing(DatasetError):
    """No place that a data set could come from has it; the text names them all, and what can be done."""


class DatasetDamaged(DatasetError):
    """What lies under the name of a data set has another checksum."""


class StateError(ActorflowError):
    """A stateful resource cannot do what was asked."""


class UninitialisedError(StateError):
    """A variable was read before anything was assigned to it."""


class QueueClosed(StateError):
    """An enqueue on a closed queue, or one that was pending when the queue was closed."""


class OutOfRange(StateError):
    """A closed queue has too few elements left for a dequeue."""


class QueueStarved(StateError):
    """A step waits at a queue, barrier or accumulator, and for long nobody was there who could fill it.

    Or it waits for admission behind steps that wait at such, and none of them could ever go on.
    """


class StepAborted(ActorflowError):
    """A step ended for a reason outside it; the reason is the cause."""


class ProgramError(ActorflowError):
    """A program file, or a file named beside it, that cannot be found, read, understood or written."""


class DiskFull(ActorflowError):
    """A program's own code found no room to write: nothing is wrong with it, and later there may be some."""


class OnnxError(ActorflowError):
    """An ONNX model that cannot be read, or that asks for what is not there; the text lists all of it."""


class TransportError(ActorflowError):
    """What should pass between processes cannot."""


class CannotTravel(TransportError):
    """A value that no message may hold, such as an object of a class of the user."""


class WireError(TransportError):
    """Bytes that are no message: whoever sent them is at fault."""


class ChannelClosed(TransportError):
    """This end of a channel was closed, or its peer is lost: nothing can be sent."""


class NotConnected(TransportError, ConfigError):
    """Nobody has said who takes what comes through a channel, so nothing can be sent."""


class PeerLost(TransportError):
    """The process at the other end is gone: silent for too long, restarted, or it said goodbye."""


class PeerRefused(PeerLost):
    """The process at the other end runs another program, speaks another protocol, or has other keys."""


class LaunchError(ActorflowError):
    """A process that cannot be started or ended, or the folder of a run that cannot be made."""


class RunFolderError(LaunchError, ConfigError):
    """The folder of a run cannot be made where the environment has it, or others could enter it."""


class NobodyThere(PeerLost):
    """Nobody listens at an address."""


class NoAnswer(PeerLost):
    """A process did not answer a request in time."""


class RequestFailed(TransportError):
    """A process answered a request with an error."""


class CoordinationError(ActorflowError):
    """A training run over several processes cannot go on."""


class QuorumLost(CoordinationError):
    """Fewer workers are alive than the policy needs."""


class ShardLost(CoordinationError):
    """A process that holds parameters is gone."""


class CoordinatorLost(CoordinationError):
    """The process that decides about updates is gone."""


class JobOver(CoordinationError):
    """The job of a process is complete, which has come late or was away at its end: it ends in order."""


class NotReady(CoordinationError):
    """Processes of a cluster are missing when it is opened; names them, and says how they ended."""


class Misplaced(CoordinationError):
    """This process counts the processes of its cluster otherwise than the chief, or has no place in it."""


class PolicyError(CoordinationError):
    """A policy raised, or decided what cannot be, such as an update of what nobody has computed."""


class Stalled(CoordinationError):
    """No update was made for long; the text says who waits for what."""


class Fenced(CoordinationError):
    """Others have given this process up and go on without it; it has to join again."""


class SessionClosed(ActorflowError):
    """The session is not open."""


class ActorError(ActorflowError):
    """Something went wrong between actors."""


class ActorDied(ActorError):
    """The actor stopped before it could answer, or its system is being left and starts no more."""


class Incomplete(ActorError):
    """Of many actors that were told or asked the same some failed; the text names them."""


class HandlerError(ActorError):
    """A handler raised; the original exception is the cause."""


class MailboxFull(ActorError):
    """Actors that tell each other in a ring make more messages than their mailboxes can hold."""


class AskCycle(ActorError):
    """Actors wait for each other in a ring; no one could ever answer."""


class DeadlinePassed(ActorError):
    """An ask or a step did not end before its deadline."""


class WrongLoop(ActorError):
    """A call came from another thread or event loop than that of what was called; nothing has changed."""


class InternalError(ActorflowError):
    """An invariant of actorflow itself broke: please report it with the message."""


class SimulationError(ActorflowError):
    """A simulated run cannot go on, or proved nothing."""


class Escape(SimulationError):
    """A simulated program reached for the real world: a socket, a thread, a process."""


class Deadlock(SimulationError):
    """Nothing can run any more and no timer is set; the text shows who waits for whom."""


class Livelock(SimulationError):
    """A simulated run took more steps, or more virtual time, than it may."""


class FaultNeverFired(SimulationError):
    """A fault was requested and nothing was ever harmed by it, so the test proved nothing."""


class HistoryError(ActorflowError):
    """A history, or a file of one, that cannot be read."""


class Violation(SimulationError, AssertionError):
    """A checker refuted a history; the text shows the least of it that cannot be."""


class Undecided(SimulationError, AssertionError):
    """A checker had nothing to judge, or too small a budget for a verdict, so nothing is proved."""
