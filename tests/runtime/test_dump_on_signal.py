"""What a program runs and waits for is printed at SIGQUIT, and at a Ctrl-C of what has waited for long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import pytest

import actorflow as af
from actorflow import sim
from actorflow.runtime import dump_on_signal


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have left open is none of these tests' business."""
    monkeypatch.setattr(dump_on_signal, "_OPEN", WeakKeyDictionary())


def waiting() -> tuple[af.Graph, Any]:
    with af.Graph() as graph:
        element = af.state.FIFOQueue(1, ["float32"], [()], name="images").dequeue()
    return graph, element


async def until_it_waits(session: af.Session) -> None:
    while not any(step.waits for step in session.dump().steps):  # noqa: ASYNC110  turn by turn
        await asyncio.sleep(0)


# -- what is told --------------------------------------------------------------------------------------


def test_a_session_and_a_system_are_told_of_once_each_and_not_when_they_are_closed() -> None:
    graph, element = waiting()

    async def main() -> tuple[str, str]:
        async with af.ActorSystem(name="mine"), af.Session(graph, starvation_s=None) as session:
            step = asyncio.create_task(session.run(element))
            await until_it_waits(session)
            told = dump_on_signal.describe_all()
            step.cancel()
        return told, dump_on_signal.describe_all()

    told, after = af.run(main)
    assert after == ""
    assert told.count("mine: 0 actors") == 1
    assert told.count("waits for 'session1/queue/images' to answer images/dequeue") == 1
    assert told.count("session: 1 actor") == 1


def test_with_a_least_time_only_those_are_told_of_that_wait_for_so_long() -> None:
    graph, element = waiting()

    class Silent(af.Actor):
        async def receive(self, message: object) -> None:
            await asyncio.Event().wait()

    async def main() -> tuple[str, str]:
        idle, session = af.ActorSystem(name="idle"), af.Session(graph, starvation_s=None)
        async with af.ActorSystem(name="asks") as system, idle, session:
            tasks = [
                asyncio.create_task(session.run(element)),
                asyncio.create_task(system.spawn(Silent).ask("x")),
            ]
            await until_it_waits(session)
            at_once = dump_on_signal.describe_all(3600.0)
            await asyncio.sleep(0.01)
            later = dump_on_signal.describe_all(0.005)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return at_once, later

    at_once, later = af.run(main)
    assert at_once == ""
    assert "images/dequeue" in later
    assert "asks: 1 actor" in later
    assert "idle: " not in later


def test_what_cannot_be_read_says_so_beside_the_rest() -> None:
    class Broken:
        def __repr__(self) -> str:
            return "<Broken>"

        def dump(self) -> object:
            raise RuntimeError("dictionary changed size during iteration")

    broken, well = Broken(), SimpleNamespace
    well = type("Well", (), {"dump": lambda self: "all is well"})()
    for what in (broken, well):
        dump_on_signal.register(what)

    first, second = dump_on_signal.describe_all().splitlines()
    assert first.startswith("<Broken> could not be read: RuntimeError('dictionary changed")
    assert second == "all is well"


def test_what_nobody_holds_any_more_is_forgotten() -> None:
    dump_on_signal.register(type("Gone", (), {"dump": lambda self: "gone"})())

    assert dump_on_signal.describe_all() == ""


def test_systems_of_a_simulated_run_are_none_of_this_process() -> None:
    @sim.world("a", "b")
    async def law(world: sim.World) -> str:
        return dump_on_signal.describe_all()

    assert law() == ""


# -- the handlers --------------------------------------------------------------------------------------


@pytest.fixture
def _kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGQUIT, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_kept")
def test_the_handlers_are_put_back() -> None:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    before = signal.getsignal(signal.SIGINT)

    with dump_on_signal.install_handlers():
        assert signal.getsignal(signal.SIGQUIT) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("_kept")
def test_handlers_of_the_program_stay() -> None:
    def own(number: int, frame: object) -> None:
        pass

    signal.signal(signal.SIGQUIT, own)
    with dump_on_signal.install_handlers():
        assert signal.getsignal(signal.SIGQUIT) is own
        signal.signal(signal.SIGINT, own)

    assert signal.getsignal(signal.SIGINT) is own


def test_in_another_thread_nothing_is_installed() -> None:
    seen: list[Any] = []
    before = signal.getsignal(signal.SIGINT)

    def within() -> None:
        with dump_on_signal.install_handlers():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()

    assert seen == [before]


# -- real signals --------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
import actorflow as af
from actorflow.runtime import dump_on_signal

dump_on_signal.LONG_S = 0.001
with af.Graph() as graph:
    element = af.state.FIFOQueue(1, ["float32"], [()], name="images").dequeue()

async def main():
    async with af.Session(graph, starvation_s=None) as session:
        step = asyncio.create_task(session.run(element))
        while not any(step.waits for step in session.dump().steps):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        print("waits", flush=True)
        await step

def script():
    import threading
    with af.Session(graph, starvation_s=None) as session:
        def tell():
            while not session.dump().steps or session.dump().steps[0].age_s < 0.01:
                pass
            print("waits", flush=True)
        threading.Thread(target=tell).start()
        session.run(element)

try:
    af.run(main) if sys.argv[1] == "coroutine" else script()
except KeyboardInterrupt:
    print("stopped")
"""


def _as_a_shell_starts_it() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["coroutine", "script"])
def test_signals_print_what_is_waited_for(kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        preexec_fn=_as_a_shell_starts_it,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "waits\n"
        child.send_signal(signal.SIGQUIT)
        assert child.stderr.readline() == "SIGQUIT: open sessions and actor systems:\n"
        child.send_signal(signal.SIGINT)
        told, printed = child.stderr.read(), child.stdout.read()

    assert child.returncode == 0
    assert printed == "stopped\n"
    quit_, interrupt = told.split("Ctrl-C while this waits:\n")
    for dump in (quit_, interrupt):
        assert "waits for 'session1/queue/images' to answer images/dequeue" in dump


HOLDS = """
import asyncio, sys, time
import actorflow as af

def block():
    print("holds", flush=True); time.sleep(1000)

class Plain(af.Actor):
    def receive(self, message):
        block()

class Resumed(af.Actor):
    async def receive(self, message):
        await asyncio.sleep(0.01)
        block()

class Starts(af.Actor):
    def on_start(self):
        block()
    def receive(self, message):
        pass

class Stops(af.Actor):
    def receive(self, message):
        pass
    def on_stop(self, reason):
        block()

async def main():
    async with af.ActorSystem() as system:
        if kind == "body":
            block()
        await system.spawn(globals()[kind], name="me").tell("x")
        if kind == "Stops":
            print("runs", flush=True)
        await asyncio.sleep(1000)

kind = sys.argv[1]
try:
    af.run(main)
except KeyboardInterrupt:
    import signal
    print("stopped", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def _holds(kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDS, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        preexec_fn=_as_a_shell_starts_it,
    )


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["Plain", "Resumed", "Starts", "body"])
def test_what_holds_the_loop_is_named_and_ended_at_the_first_press(kind: str) -> None:
    with _holds(kind) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "holds\n"
        child.send_signal(signal.SIGQUIT)
        quit_ = [child.stderr.readline()]
        while not quit_[-1].startswith("  by "):
            quit_.append(child.stderr.readline())
            assert quit_[-1]
        child.send_signal(signal.SIGINT)
        printed, told = child.stdout.read(), child.stderr.read()

    held = "block at <string>:6" if kind == "body" else "'me', in block at <string>:6"
    assert quit_[-1] == f"  by {held}\n"
    assert f"Ctrl-C while the event loop is held:\n  by {held}; it is interrupted in 1 s\n" in told
    assert printed == "stopped True\n"
    assert child.returncode == 0
    assert "Traceback" not in told
    assert "unhandled" not in told


@pytest.mark.processes
def test_a_second_press_ends_what_holds_the_loop_at_once_and_asyncio_says_nothing() -> None:
    with _holds("Plain") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "holds\n"
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)
        printed, told = child.communicate()

    assert printed == "stopped True\n"
    assert "Traceback" not in told
    assert "unhandled" not in told


@pytest.mark.processes
def test_what_holds_the_loop_while_the_program_leaves_is_named_and_left_to_another_press() -> None:
    with _holds("Stops") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "runs\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "holds\n"
        assert child.stderr.readline() == "Leaving after Ctrl-C, the event loop is held:\n"
        assert child.stderr.readline() == "  by 'me', in block at <string>:6; Ctrl-C interrupts it\n"
        child.send_signal(signal.SIGINT)
        printed, told = child.communicate()

    assert printed == "stopped True\n"
    assert told == ""
