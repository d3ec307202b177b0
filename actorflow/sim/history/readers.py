"""Reads histories that others recorded and judged: Jepsen's logs, Porcupine's and Knossos's files.

Each reads a file in the way that gives the published verdicts. Three things differ between tools:

* What a compare-and-set that ends in `:fail` means. In the etcd logs it ran and did not match, so it
  is an OK operation with the result False, and says something about the state. In Knossos's files
  `:fail` means that it did not happen, whatever the operation.
* What `:info` means: always unknown, so the operation stays open for ever.
* Who writes: processes are numbers; a nemesis, whose process is a keyword, harms the system and is no
  client.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from actorflow.errors import HistoryError
from actorflow.sim.history.edn import Keyword, Symbol, parse, parse_items, place
from actorflow.sim.history.history import History, text_of
from actorflow.sim.history.lines import decode
from actorflow.sim.history.operation import Client, Value, shorten_value
from actorflow.sim.history.recorder import Pending, Recorder

Path = str | os.PathLike[str]


def read_jepsen(path: Path) -> History:
    """Reads a Jepsen log of one register: `INFO jepsen.util - 3 :invoke :cas [1 2]` a line.

    Operations are `read`, `write v` and `cas old new`; the register is nil (None) at first. A read
    `:fail :timed-out` did not happen, a write or cas `:info :timed-out` stays open, and a cas
    `:fail [old new]` ran and did not match. Lines of other loggers, and of the nemesis, are left out.

    Raises:
        HistoryError: The file cannot be read, a line cannot be understood, or there is no operation
            in it; says which and where.
    """
    return _read(path, "read_jepsen")


def read_kv(path: Path) -> History:
    """Reads a Porcupine key-value file: one map a line with :process, :type, :f, :key and :value.

    Operations are `get`, `put v` and `append v` on a key; a get that found nothing gives "".

    Raises:
        HistoryError: The file cannot be read, is no such history, or has no operation; says where.
    """
    return _read(path, "read_kv")


def read_knossos(path: Path) -> History:
    """Reads a Knossos history: a vector or list of maps with :process, :type, :f and :value.

    Operations are `read`, `write v`, `cas old new`, `acquire`, `release`, and `txn` with one argument a
    read or write, as `("read", "x", None)` and `("write", "x", 1)`; the result of a txn is the same with
    the values that its reads found. `:fail` did not happen and `:info` is unknown.

    Raises:
        HistoryError: The file cannot be read, is no such history, or has no operation; says where.
    """
    return _read(path, "read_knossos")


@dataclass(frozen=True, slots=True)
class _HistoryFile:
    """The text of a file and its name."""

    text: str
    name: str

    def place(self, at: int) -> str:
        return place(self.text, at, self.name)

    def wrong(self, at: int, what: str) -> HistoryError:
        return HistoryError(f"{self.place(at)}: {what}")


@dataclass(frozen=True, slots=True)
class _Event:
    """One line of a foreign history: an invocation or an end, and the offset where it stands."""

    at: int
    client: Client
    kind: str
    op: str
    args: tuple[Value, ...] = ()
    result: Value = None
    key: Value = None
    reason: str | None = None
    time_s: float = 0.0


class _FileClock:
    """The time that the file gives for the event being read."""

    __slots__ = ("time_s",)

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        return self.time_s


@dataclass(frozen=True, slots=True)
class _Form:
    """One kind of file: how its events are found, and what they look like."""

    events: Callable[[_HistoryFile], Iterable[_Event]]
    looks: str


def _read(path: Path, reader: str) -> History:
    """Returns the history in a file; where there is none, the error names the reader that finds one."""
    source = _HistoryFile(text_of(path), os.fspath(path))
    form = _FORMS[reader]
    try:
        history = _pair_events(form.events(source), source)
        if not history:
            raise _empty(source.name, reader)
    except HistoryError as wrong:
        wrong.hint = wrong.hint or _fitting(source, reader)
        raise
    return history


def _empty(name: str, reader: str) -> HistoryError:
    return HistoryError(f"{name}: no operation in it; {reader} looks for {_FORMS[reader].looks}")


def _fitting(source: _HistoryFile, reader: str) -> str | None:
    """Returns which other reader finds an operation in the file; None when none does."""
    for name, form in _FORMS.items():
        if name == reader:
            continue
        try:
            if next(iter(form.events(source)), None) is not None:
                return f"{name} reads this file"
        except HistoryError:  # it does not fit, as `reader` does not
            continue
    first = next((line for line in source.text.split("\n") if line.strip()), "")
    try:
        decode(first)
    except HistoryError:
        return None
    return "History.read reads this file"


def _pair_events(events: Iterable[_Event], source: _HistoryFile) -> History:
    """Returns the operations that the events are the two ends of."""
    clock = _FileClock()
    recorder = Recorder(clock)
    waiting: dict[Client, tuple[str, Pending]] = {}
    for event in events:
        clock.time_s = event.time_s
        if event.kind == "invoke":
            try:
                pending = recorder.invoke(event.client, event.op, *event.args, key=event.key)
            except HistoryError as wrong:
                raise source.wrong(event.at, wrong.what) from wrong
            waiting[event.client] = event.op, pending
            continue
        op, ended = waiting.pop(event.client, (None, None))
        if ended is None or op != event.op:
            invoked = "nothing" if op is None else repr(op)
            what = f"process {event.client} ends {event.op!r}, but {invoked} is open"
            raise source.wrong(event.at, what)
        if event.kind == "ok":
            ended.ok(event.result)
        elif event.kind == "fail":
            ended.fail(event.reason)
        else:
            ended.info(event.reason)
    return recorder.history()


_JEPSEN = re.compile(r"INFO\s+jepsen\.util\s+-\s+(\S+)\s+:(invoke|ok|fail|info)\s+:(\S+)\s+(?=\S)")
_REGISTER = frozenset({"read", "write", "cas"})
_KINDS = frozenset({"invoke", "ok", "fail", "info"})


def _jepsen_events(source: _HistoryFile) -> Iterable[_Event]:
    start = 0
    for line in source.text.split("\n"):
        found = _JEPSEN.match(line)
        at, start = start, start + len(line) + 1
        if found is None and (not line.startswith("INFO") or "jepsen.util" not in line or ":nemesis" in line):
            continue
        if found is not None and found[1] == ":nemesis":
            continue
        if found is None or not found[1].isdecimal() or found[3] not in _REGISTER:
            what = (
                "expected `INFO jepsen.util - process :type :read|:write|:cas value`, got "
                f"{shorten_value(line, 90)}"
            )
            raise source.wrong(at, what)
        kind, op = found[2], found[3]
        values = parse(source.text[: at + len(line)], source.name, at + found.end())
        value = values[0][0] if values else None
        unknown = isinstance(value, Keyword)  # :timed-out
        args = () if kind != "invoke" else _arguments(op, value, at, source)
        result: Value = None
        if op == "cas":
            result = kind == "ok"
            kind = "ok" if kind == "fail" and not unknown else kind
        elif op == "read" and not unknown:
            result = _plain(value, at, source)
        yield _Event(at, int(found[1]), kind, op, args, result, reason=str(value) if unknown else None)


def _kv_events(source: _HistoryFile) -> Iterable[_Event]:
    for form, at in parse(source.text, source.name):
        said = _map(form, ("process", "type", "f", "key", "value"), at, source)
        op, value = str(said["f"]), _plain(said["value"], at, source)
        if op not in {"get", "put", "append"}:
            what = f"expected get, put or append, got {op!r}"
            raise source.wrong(at, what)
        read = op == "get"
        result = ("" if value is None else value) if read else None
        args = () if read else (value,)
        key = _plain(said["key"], at, source)
        yield _Event(at, said["process"], str(said["type"]), op, args, result, key)


def _knossos_events(source: _HistoryFile) -> Iterable[_Event]:
    for form, at in parse_items(source.text, source.name):
        said = _map(form, ("process", "type", "f"), at, source)
        if isinstance(said["process"], Keyword):
            continue
        kind, op, value = str(said["type"]), str(said["f"]), said.get("value")
        args = () if kind != "invoke" else _arguments(op, value, at, source)
        result: Value = None
        if kind == "ok":
            result = True if op == "cas" else _plain(value, at, source) if op in {"read", "txn"} else None
        time = said.get("time", 0)
        error = said.get("error")
        yield _Event(
            at,
            said["process"],
            kind,
            op,
            args,
            result,
            reason=None if error is None else str(error),
            time_s=time * 1e-9 if isinstance(time, int) else 0.0,
        )


def _arguments(op: str, value: Any, at: int, source: _HistoryFile) -> tuple[Value, ...]:
    """Returns what an operation is given; only a cas and a txn have a vector of it."""
    if op == "read" or value is None:
        return ()
    plain = _plain(value, at, source)
    if op not in {"cas", "txn"}:
        return (plain,)
    if not isinstance(plain, tuple) or (op == "cas" and len(plain) != 2):
        wanted = "the old and the new value" if op == "cas" else "reads and writes"
        what = f"{op} needs a vector of {wanted}, got {shorten_value(value)}"
        raise source.wrong(at, what)
    return plain


def _map(form: Any, needed: tuple[str, ...], at: int, source: _HistoryFile) -> dict[str, Any]:
    """Returns an event as a map with `needed` in it and a type that is known."""
    names = " ".join(f":{name}" for name in needed)
    if not isinstance(form, dict) or any(name not in form for name in needed):
        what = f"an event is a map with {names}, got {shorten_value(form, 90)}"
        raise source.wrong(at, what)
    if form["type"] not in _KINDS:
        what = f":type is :invoke, :ok, :fail or :info, got {shorten_value(form['type'])}"
        raise source.wrong(at, what)
    if type(form["process"]) not in (int, Keyword):
        what = f":process is a number, or a keyword for the nemesis, got {shorten_value(form['process'])}"
        raise source.wrong(at, what)
    return form


def _plain(value: Any, at: int, source: _HistoryFile) -> Value:
    """Returns an EDN value as a history keeps it; names become strings."""
    if isinstance(value, (Keyword, Symbol)):
        return str(value)
    if isinstance(value, tuple):
        return tuple(_plain(item, at, source) for item in value)
    if isinstance(value, (dict, frozenset)):
        what = f"a history keeps no maps and sets as values, got {shorten_value(value)}"
        raise source.wrong(at, what)
    return value  # type: ignore[no-any-return]  # EDN has nothing else


_FORMS = {
    "read_jepsen": _Form(_jepsen_events, "lines `INFO jepsen.util - process :type :read|:write|:cas value`"),
    "read_kv": _Form(_kv_events, "maps {:process :type :f :key :value}, :f one of :get, :put and :append"),
    "read_knossos": _Form(_knossos_events, "one vector of maps {:process :type :f :value}"),
}
