"""What a history is judged against: objects that do one operation at a time.

A model is a pure function from state and operation to state. To judge a program of your own, write one:
four methods, all of them without side effects, and a state that can be hashed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from actorflow.errors import HistoryError
from actorflow.sim.history import Operation, Status, Value
from actorflow.sim.history.operation import shorten_value

State = Hashable


@dataclass(frozen=True, slots=True)
class Call:
    """What a model sees of an operation: what was asked and answered, not by whom and not when.

    Where it matters who asked, as for a lock with an owner, let the client be an argument.

    Attributes:
        op: The name of the operation.
        args: What it was given.
        result: What it gave back; None while that is not known.
        known: True for an OK operation; False for one of unknown outcome (info).
        key: What it was asked of.
    """

    op: str
    args: tuple[Value, ...] = ()
    result: Value = None
    known: bool = True
    key: Value = None

    @classmethod
    def of(cls, operation: Operation) -> Call:
        """Returns what a model sees of `operation`."""
        known = operation.status is Status.OK
        return cls(operation.op, operation.args, operation.result, known, operation.key)


class Refusal:
    """The model cannot do this call in this state.

    A search is refused a million times and shows a few: the text is made when it is asked for.
    """

    __slots__ = ("_text", "_values")

    def __init__(self, text: str, *values: object) -> None:
        """Says why with all values: `Refusal("read returned {}, the value was {}", 3, 4)`."""
        self._text = text
        self._values = values

    @property
    def why(self) -> str:
        """The reason, with the values in it."""
        return self._text.format(*(shorten_value(value) for value in self._values))

    def __repr__(self) -> str:
        return f"Refusal({self.why!r})"


class Model(Protocol):
    """A sequential object.

    A call that is not known has no result: `step` then accepts any, and returns the state after its
    effect, or refuses it where it could have none. Failed operations are never asked about.

    A model may have an attribute `operations`, the names of all that it knows. Then `step` is asked for
    each other name in a history, whatever came of the operation, and says what is wrong with it.
    """

    def key(self, call: Call) -> Value:
        """Returns which independent part of the object the call is about; None when there is only one."""
        ...

    def initial(self, key: Value) -> State:
        """Returns the state before anything happened."""
        ...

    def step(self, state: State, call: Call) -> State | Refusal:
        """Returns the state after the call, or why it could not have had its result here."""
        ...

    def observes(self, call: Call) -> bool:
        """Returns True only if the call never changes any state; False is always right, but slower."""
        ...


@dataclass(frozen=True, slots=True)
class Register:
    """A variable for each key: `read`, `write v`, and `cas old new`, which gives True or False."""

    operations: ClassVar[tuple[str, ...]] = ("read", "write", "cas")

    initially: Value = None

    def key(self, call: Call) -> Value:
        """Each key is a register of its own."""
        return call.key

    def initial(self, key: Value) -> State:
        """What it holds before the first write."""
        return self.initially

    def observes(self, call: Call) -> bool:
        """A read does, and a cas that did not match."""
        return call.op == "read" or (call.op == "cas" and call.result is False)

    def step(self, state: State, call: Call) -> State | Refusal:
        """A register holds what was written last."""
        match call.op, call.args:
            case "read", ():
                if not call.known or _same(call.result, state):
                    return state
                return Refusal("read returned {}, the value was {}", call.result, state)
            case "write", (value,):
                return value
            case "cas", (old, new):
                fits = _same(old, state)
                if not call.known or call.result is fits:
                    return new if fits else state
                if not isinstance(call.result, bool):
                    raise _unknown("register", call, "the result of a cas is True or False")
                what = "matched" if call.result else "did not match"
                return Refusal(f"cas from {{}} {what}, the value was {{}}", old, state)
            case _:
                raise _unknown("register", call, "it has read, write v, and cas old new")


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A store of texts: `get`, `put v` and `append v`, each on its operation's key.

    Values are anything that can be added to `empty`: strings by default, tuples as well.
    """

    operations: ClassVar[tuple[str, ...]] = ("get", "put", "append")

    empty: str | bytes | tuple[Value, ...] = ""

    def key(self, call: Call) -> Value:
        """Each key is a value of its own."""
        return call.key

    def initial(self, key: Value) -> State:
        """Nothing was put there yet."""
        return self.empty

    def observes(self, call: Call) -> bool:
        """A get does."""
        return call.op == "get"

    def step(self, state: State, call: Call) -> State | Refusal:
        """A value is what was put last, and all that was appended since."""
        match call.op, call.args:
            case "get", ():
                if not call.known or _same(call.result, state):
                    return state
                return Refusal("get returned {}, the value was {}", call.result, state)
            case "put", (value,):
                return value
            case "append", (value,):
                try:
                    longer: State = state + value  # type: ignore[operator]  # the message below says it
                except TypeError as wrong:
                    what = f"cannot append {shorten_value(value)} to {shorten_value(state)}"
                    raise _unknown("key-value store", call, what) from wrong
                return longer
            case _:
                raise _unknown("key-value store", call, "it has get, put v, and append v")


@dataclass(frozen=True, slots=True)
class Mutex:
    """A lock for each key: `acquire` and `release`; either may give False for *ran and was refused*."""

    operations: ClassVar[tuple[str, ...]] = ("acquire", "release")

    held: bool = False

    def key(self, call: Call) -> Value:
        """Each key is a lock of its own."""
        return call.key

    def initial(self, key: Value) -> State:
        """Held or free."""
        return "held" if self.held else "free"

    def observes(self, call: Call) -> bool:
        """One that was refused does."""
        return call.result is False

    def step(self, state: State, call: Call) -> State | Refusal:
        """Only a free one is acquired, only a held one released."""
        if call.op not in {"acquire", "release"} or call.args:
            raise _unknown("mutex", call, "it has acquire and release, without arguments")
        needs, leaves = ("free", "held") if call.op == "acquire" else ("held", "free")
        if call.result is False:
            return state if state != needs else Refusal(f"{call.op} was refused, the mutex was {needs}")
        return leaves if state == needs else Refusal(f"{call.op} took effect, the mutex was {leaves}")


@dataclass(frozen=True, slots=True)
class MultiRegister:
    """Several variables and transactions on them: `txn` with `("read", name, None)` and `("write", name, v)`.

    The result of a txn is its arguments with what the reads found in place of None. A transaction
    sees its own writes. Variables that are not in `initially` start at None.
    """

    operations: ClassVar[tuple[str, ...]] = ("txn",)

    initially: Mapping[str, Value] = field(default_factory=dict)

    def key(self, call: Call) -> Value:
        """None: a transaction joins the variables that it touches."""
        return None

    def initial(self, key: Value) -> State:
        """The variables that are not None, by name."""
        return tuple(sorted((name, value) for name, value in self.initially.items() if value is not None))

    def observes(self, call: Call) -> bool:
        """One that only reads does."""
        parts = call.result if call.known else call.args
        return isinstance(parts, tuple) and all(
            isinstance(part, tuple) and part[:1] == ("read",) for part in parts
        )

    def step(self, state: State, call: Call) -> State | Refusal:
        """Reads and writes happen at once, in the order in which they stand."""
        known = call.known
        parts = call.result if known else call.args
        if call.op != "txn" or not isinstance(parts, tuple):
            raise _unknown("multi-register", call, "it has txn, which gives its reads and writes")
        values: dict[object, Value] = dict(state)  # type: ignore[call-overload]  # made by `initial` or below
        for part in parts:
            match part:
                case ("read", str(name), found):
                    if known and not _same(found, values.get(name)):
                        text = "the txn read {} from {}, the value was {}"
                        return Refusal(text, found, name, values.get(name))
                case ("write", str(name), value):
                    values[name] = value
                case _:
                    raise _unknown(
                        "multi-register", call, f"a txn reads or writes, got {shorten_value(part)}"
                    )
        return tuple(sorted(item for item in values.items() if item[1] is not None))


def _same(one: object, other: object) -> bool:
    return one is other or one == other  # a history has one NaN, and that is itself


def _unknown(model: str, call: Call, rule: str) -> HistoryError:
    asked = " ".join([call.op, *(shorten_value(arg) for arg in call.args)])
    message = f"the {model} cannot do {asked!r} -> {shorten_value(call.result)}: {rule}"
    return HistoryError(message, hint="pass the model= that the history was recorded against")
