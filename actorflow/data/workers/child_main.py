"""The child program of a map in processes.

`python -m actorflow.data.workers.child_main FD`, started by `data.workers.child_process`.

1. It reads a hello (`ChildHello`): where modules are, and the name of the function.
2. It finds the function, and answers {} or why it cannot.
3. For each request, a chunk of elements, it answers the results up to the first failure, and a report
   of that or None.
4. It ends when the stream does: when the parent hangs up, or is no more.

It ignores Ctrl-C, which is the parent's. Nothing but values is sent, and no code.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import unwrap
from typing import Any, NoReturn

from actorflow.data.values.apply import Own, apply_to_each
from actorflow.data.workers import function_names
from actorflow.data.workers.frames import Inbox, Outbox
from actorflow.data.workers.function_names import MAIN, FunctionName, find
from actorflow.errors import CannotTravel, ConfigError, WireError, describe, shorten
from actorflow.runtime.disk import is_full, outlive
from actorflow.transport.codec.failures import WHAT
from actorflow.transport.codec.message_codec import decode, encode
from actorflow.transport.codec.types import Buffer

_TRACEBACK = 20_000
"""Characters that travel of a traceback."""

_BEHIND = 'what stands behind if __name__ == "__main__": does not run in the processes of a map'

LINGER_S = 0.5
"""How long a function may go on when the parent is no more."""


@dataclass(frozen=True, slots=True)
class ChildHello:
    """The parent's first words.

    Attributes:
        path: Its sys.path.
        argv: Its sys.argv, which a module may read when it is imported.
        python_path: Its environment variable PYTHONPATH, None where it has none.
        module, qualname, file, digest: The name of the function.
        seed: Of the chance that the function takes as its second argument; None when it takes none.
        as_bits: Whether that is 64 random bits and not a generator.
    """

    path: list[str]
    argv: list[str]
    python_path: str | None
    module: str
    qualname: str
    file: str | None
    digest: bytes | None
    seed: int | None
    as_bits: bool

    def data(self) -> dict[str, Any]:
        """Returns it as a value that travels."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def main(descriptor: int) -> None:
    """Serves the parent at the other end of a socket until it hangs up."""
    # Ctrl-C is the parent's, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A full disk or a closed terminal must not end a function that prints.
    for name in ("stdout", "stderr"):
        outlive(name)
    with socket.socket(fileno=descriptor) as sock:
        # What the function starts must not hold the stream open.
        sock.set_inheritable(False)
        # Whether the parent is there, even while the function does not return.
        threading.Thread(target=_watch, args=(descriptor,), daemon=True).start()
        stream = _FrameStream(sock)
        # 1. What to find, and where.
        if (first := stream.receive()) is None:
            return
        # 2. Found, or why not.
        hello = ChildHello(**decode(first))
        try:
            function = _find_function(hello)
        except BaseException as error:  # noqa: BLE001  the parent raises it
            stream.send(encode(_refusal(hello, error)))
            return
        del first
        stream.send(encode({}))
        own = Own()
        # 3. All of a request is read before it is answered: so the two sides never wait for each other to
        # read.
        while (request := stream.receive()) is not None:
            parts = _answer(function, hello, request, own)
            # Before the answer: what a function has printed is there when its result is.
            sys.stdout.flush()
            stream.send(parts)
            del request, parts  # before the next one needs memory


class _FrameStream:
    """The blocking end of a stream of frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._inbox = Inbox()
        self._outbox = Outbox()

    def receive(self) -> Buffer | None:
        """Returns the next frame, None when there is no more."""
        while True:
            try:
                n = self._sock.recv_into(self._inbox.room())
            # The parent has ended with unread answers: as good as hung up.
            except ConnectionResetError:
                return None
            if not n:
                return None
            if (frame := self._inbox.fill(n)) is not None:
                return frame

    def send(self, parts: list[Buffer]) -> None:
        """Writes a frame; a parent that is no more hears nothing, and the next `receive` says so."""
        self._outbox.add(parts)
        try:
            while self._outbox:
                self._outbox.drop_sent(self._sock.sendmsg(self._outbox.batch()))
        except (BrokenPipeError, ConnectionResetError):
            self._outbox.clear()


def _watch(descriptor: int) -> NoReturn:
    """Ends this process when the parent has gone and the function does not return."""
    # It goes on by itself in most cases: the stream ends, and with it `main`.
    poll = select.poll()
    poll.register(descriptor, 0)  # no event but that it was hung up
    poll.poll()
    threading.Event().wait(LINGER_S)
    os._exit(1)


def _find_function(hello: ChildHello) -> Callable[..., Any]:
    # As in the parent, before anything is imported: so a name means the same module.
    sys.path[:] = hello.path
    sys.argv[:] = hello.argv
    if hello.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = hello.python_path
    return find(FunctionName(hello.module, hello.qualname, hello.file, hello.digest))


def _refusal(hello: ChildHello, error: BaseException) -> dict[str, Any]:
    if isinstance(error, ConfigError):
        return {"what": error.what, "hint": error.hint, "traceback": None, "place": None}
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        place: tuple[str, int] | None = error.filename, error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_read(frame.filename)]
        # In the function's own file, if it is there: the user's line.
        own = [frame for frame in frames if frame.filename == hello.file] or frames[-1:]
        place = (own[-1].filename, own[-1].lineno) if own and own[-1].lineno is not None else None
    what = f"its module raised {shorten(describe(error), WHAT)} when it was imported"
    told = {"what": what, "hint": None, "traceback": _traceback(error), "place": place}
    return told | {"full": True} if is_full(error) else told


def _is_read(file: str) -> bool:
    """Tells whether a frame of a file runs what is imported: not the import, nor what asked for it."""
    return not file.startswith("<frozen ") and file not in (
        __file__,
        function_names.__file__,
        importlib.__file__,
    )


def _answer(function: Callable[..., Any], hello: ChildHello, request: Buffer, own: Own) -> list[Buffer]:
    try:
        epoch, ordinals, values = decode(request)
    except WireError as error:  # a record whose class nobody has imported here
        return encode(
            ([], _report(function, f"an element cannot be read by a process: {error.what}", error.hint))
        )
    results: list[Any] = []
    report = None
    try:
        chance = None
        if hello.seed is not None:
            from actorflow.data.values.rng import (
                draw_for,  # with numpy.random, which others need not wait for
            )

            chance = draw_for(hello.seed, epoch, ordinals, as_bits=hello.as_bits)
        apply_to_each(function, results, values, chance, own)
    except BaseException as error:  # noqa: BLE001  it travels to whoever waits for the element
        report = {
            "what": shorten(describe(error), WHAT),
            "hint": _BEHIND if isinstance(error, NameError) and hello.module == MAIN else None,
            "traceback": _traceback(error),
            "place": _place(function, error),
        }
    try:
        # Results may be too large, or nothing that travels.
        return encode((results, report))
    except CannotTravel:
        return _unsendable(function, results)


def _unsendable(function: Callable[..., Any], results: list[Any]) -> list[Buffer]:
    """The answer up to the first result that no message holds."""
    at, found = 0, CannotTravel("its results for one chunk are too large for one message")
    # One by one, now that it is known that not all can be sent.
    for i, result in enumerate(results):
        try:
            encode(result)
        except CannotTravel as error:
            at, found = i, error
            break
    report = _report(function, f"it returned what cannot be sent: {found.what}", found.hint)
    return encode((results[:at], report))


def _report(function: Callable[..., Any], what: str, hint: str | None) -> dict[str, Any]:
    """What the parent is told of a failure that the function did not raise."""
    return {"what": what, "hint": hint, "traceback": None, "place": _place(function, None)}


def _traceback(error: BaseException) -> str:
    """The traceback below this module."""
    below = error.__traceback__
    # The frames of this module are of no use to the user.
    while below is not None and below.tb_frame.f_code.co_filename == __file__:
        below = below.tb_next
    return shorten("".join(traceback.format_exception(type(error), error, below)), _TRACEBACK)


def _place(function: Callable[..., Any], error: BaseException | None) -> tuple[str, int] | None:
    """File and line of the failure in the file of the function; the function's own line when not in it."""
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return None
    frames = [] if error is None else traceback.extract_tb(error.__traceback__)
    # The innermost line in the function's own file.
    lines = [f.lineno for f in frames if f.filename == code.co_filename and f.lineno is not None]
    return code.co_filename, lines[-1] if lines else code.co_firstlineno


if __name__ == "__main__":
    main(int(sys.argv[1]))
