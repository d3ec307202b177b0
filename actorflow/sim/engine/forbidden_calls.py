"""What a simulated program may not reach: threads, processes, sockets and blocking waits.

Whatever the interpreter audits is refused by one audit hook, installed once a process; it also sees
functions that were bound before the run. It lets everything through outside a run and on other
threads: 0.2 us an audited operation. What is not audited is replaced for the length of a run. Files
stay open to the program: imports, coverage and fixtures need them.

What gets past both: a bare lock or `queue.SimpleQueue` that is waited for (nobody will release it, so
it hangs); a socket, pipe or thread that was there before the run; a C extension's own threads and
sockets.
"""

from __future__ import annotations

import _thread
import os
import select
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from threading import get_ident
from types import ModuleType
from typing import Any, NoReturn

from actorflow.errors import Escape
from actorflow.runtime.call_site import is_users, line_at, users_frame
from actorflow.sim.engine.patch import MethodPatch, Patch, running

_THREAD = "await asyncio.to_thread(f) or loop.run_in_executor(None, f): in a simulated run both call f inline"
_PROCESS = "do it before the run, or let actors stand for the other process"
_SOCKET = "send a message to an actor: the simulated network carries it"
_WAIT = "await an asyncio event, a timer or a message: the simulated loop watches no descriptor"
_BLOCKED = "await an asyncio event or queue: a simulated run has one thread, so nobody would end this wait"
_SIGNAL = "use a timer of the loop: it follows virtual time"

# Audited event -> what it does, which of its arguments to show, what to do instead.
_AUDITED: dict[str, tuple[str, int | None, str]] = {
    "socket.__new__": ("open a socket", None, _SOCKET),
    "socket.bind": ("bind a socket", 1, _SOCKET),
    "socket.connect": ("connect a socket", 1, _SOCKET),
    "socket.sendto": ("send on a socket", 1, _SOCKET),
    "socket.sendmsg": ("send on a socket", 1, _SOCKET),
    "socket.getaddrinfo": ("look up a host", 0, _SOCKET),
    "socket.gethostbyname": ("look up a host", 0, _SOCKET),
    "socket.gethostbyaddr": ("look up a host", 0, _SOCKET),
    "socket.getnameinfo": ("look up a host", 0, _SOCKET),
    "subprocess.Popen": ("start a process", 0, _PROCESS),
    "os.system": ("start a process", 0, _PROCESS),
    "os.posix_spawn": ("start a process", 0, _PROCESS),
    "os.spawn": ("start a process", 1, _PROCESS),
    "os.startfile": ("start a process", 0, _PROCESS),
    "_winapi.CreateProcess": ("start a process", 1, _PROCESS),
    "os.exec": ("become another process", 0, _PROCESS),
    "os.fork": ("fork", None, _PROCESS),
    "os.forkpty": ("fork", None, _PROCESS),
    "os.kill": ("send a signal", 1, _SIGNAL),
    "os.killpg": ("send a signal", 1, _SIGNAL),
    "signal.pthread_kill": ("send a signal", 1, _SIGNAL),
    "time.sleep": ("block", 0, "await asyncio.sleep(seconds)"),  # since 3.13; before, if bound before the run
    "_thread.start_new_thread": ("start a thread", 0, _THREAD),
    "_thread.start_joinable_thread": ("start a thread", 0, _THREAD),
}
_STDLIB = os.path.dirname(os.__file__) + os.sep
_STARTERS = ("start_new_thread", "start_new", "start_joinable_thread")
_KEPT = 8
_installed = False


def install() -> None:
    """Installs the audit hook, unless it is there; it stays for the life of the process."""
    global _installed
    if not _installed:
        # It stays for the life of the process: an audit hook cannot be taken out.
        sys.addaudithook(_watch)
        _installed = True


def refuse(doing: str, shown: str, hint: str) -> NoReturn:
    """Raises the refusal, naming the line of the program, and keeps the first few of the run."""
    refusal = Escape(
        f"a simulated program may not {doing}: {shown}, called at {_line_of_program()}", hint=hint
    )
    # Kept: a program may catch the refusal, as it would a failed connection.
    if len(running.refused) < _KEPT:
        running.refused.append(refusal)
    raise refusal


def patches() -> list[Patch]:
    """Makes the patches for what is not audited; called once a process."""
    found: list[Patch] = [
        MethodPatch(threading.Thread, "start", _start_thread),
        # Events, queues, semaphores, barriers and futures of threads all wait on one.
        MethodPatch(threading.Condition, "wait", _wait),
    ]
    found += _refuse_all(_thread, _STARTERS, "start a thread", _THREAD)
    found += _refuse_all(signal, ("setitimer", "alarm", "pause", "sigwait"), "use signals", _SIGNAL)
    found += _refuse_all(
        select, ("select", "poll", "epoll", "kqueue", "devpoll"), "wait for descriptors", _WAIT
    )
    if "select" in vars(selectors.DefaultSelector):
        found.append(MethodPatch(selectors.DefaultSelector, "select", _select))
    pairs = sys.modules.get("_socket")  # else the two ends would exist before their wrappers are refused
    if pairs is not None:
        found += _refuse_all(pairs, ("socketpair",), "open a socket", _SOCKET)
    spawner = sys.modules.get("_posixsubprocess")  # how multiprocessing spawns, unaudited
    if spawner is not None:
        found += _refuse_all(spawner, ("fork_exec",), "start a process", _PROCESS)
    return found


def late_patches(waiting: set[str]) -> Iterator[Patch]:
    """Yields the patches of modules that have been loaded since, and takes those out of `waiting`."""
    # In a fixed order: a set's own differs from process to process.
    for name in sorted(waiting):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, LATE[name][0]):
            waiting.discard(name)
            yield from LATE[name][1](module)


def _watch(
    event: str,
    args: tuple[Any, ...],
    # Bound here, since the hook is called until the very end of the process, when globals are gone.
    running: Any = running,
    audited: dict[str, tuple[str, int | None, str]] = _AUDITED,
    get_ident: Callable[[], int] = get_ident,
) -> None:
    if running.thread and event == "import" and args[0] == "zmq" and get_ident() == running.thread:
        refuse("import zmq", "for the first time, where its sockets cannot be refused", _SOCKET)
    # The audited thread alone: others see the real world.
    if running.thread and event in audited and get_ident() == running.thread:
        doing, index, hint = audited[event]
        refuse(doing, event if index is None else f"{event}({args[index]!r})", hint)


def _refuse_all(module: ModuleType, names: tuple[str, ...], doing: str, hint: str) -> list[Patch]:
    """Patches that refuse those functions of `module` that this platform has."""

    def refusal(name: str) -> Callable[..., NoReturn]:
        def refused(*args: object, **kwargs: object) -> NoReturn:
            refuse(doing, name, hint)

        return refused

    return [
        Patch(module, name, refusal(f"{module.__name__}.{name}")) for name in names if hasattr(module, name)
    ]


def _start_thread(_real: object, thread: threading.Thread) -> NoReturn:
    target = getattr(thread, "_target", None)  # gone from a subclass that has no use for it
    what = type(thread).__name__ if target is None else getattr(target, "__qualname__", repr(target))
    refuse("start a thread", f"{thread.name!r}, which runs {what}", _THREAD)


def _wait(real: Callable[..., bool], condition: object, timeout: float | None = None) -> bool:
    """Events, queues, semaphores, barriers and futures of threads wait on a Condition."""
    if timeout is not None and timeout <= 0:  # a look, no wait
        return real(condition, timeout)
    refuse("wait for another thread", f"threading.Condition.wait({timeout})", _BLOCKED)


def _start_process(_real: object, process: Any) -> NoReturn:
    target = getattr(process, "_target", None)
    what = type(process).__name__ if target is None else getattr(target, "__qualname__", repr(target))
    refuse("start a process", f"{process.name!r}, which runs {what}", _PROCESS)


def _select(real: Callable[..., Any], selector: object, timeout: float | None = None) -> NoReturn:
    refuse("wait for descriptors", f"{type(selector).__name__}.select({timeout})", _WAIT)


def _make_zmq(_real: object, made: Any, *args: object, **kwargs: object) -> NoReturn:
    made._shadow = True  # else its finaliser would close what was never opened
    refuse("use ZeroMQ", f"zmq.{type(made).__name__}", _SOCKET)


# Module -> the attribute that shows it is loaded, and its patches.
LATE: dict[str, tuple[str, Callable[[Any], list[Patch]]]] = {
    "multiprocessing.process": (
        "BaseProcess",
        lambda module: [MethodPatch(module.BaseProcess, "start", _start_process)],
    ),
    "zmq": (
        "Context",
        lambda zmq: [MethodPatch(kind, "__init__", _make_zmq) for kind in (zmq.Context, zmq.Socket)],
    ),
}


def _line_of_program() -> str:
    """Where the program stands: its innermost line outside actorflow and what is installed."""
    frame = users_frame(sys._getframe(1))
    if not is_users(frame):
        return "an unknown line"
    return line_at(frame.f_code.co_filename, frame.f_lineno)
