from __future__ import annotations

import asyncio
import os
import subprocess
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.supervision import Strategy
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, ActorError, HandlerError, InternalError
from actorflow.runtime.clock import SystemClock
from tests.actors.playing import LOOPS, Recorder, Scripted, pause, play, run_on
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]

PROGRAM = """
    import asyncio, gc, os, sys, threading
    gc.disable()
    import uvloop
    from actorflow.actors.actor import Actor
    from actorflow.actors.system import ActorSystem

    class Sleeper(Actor):
        async def receive(self, message):
            await asyncio.sleep(1000)

    class Counter(Actor):
        count = 0
        def receive(self, message):
            self.count += 1
            return self.count

    class Relay(Actor):
        def __init__(self, to): self.to = to
        def receive(self, message): self.tell(self.to, message)

    async def main():
        asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak
        files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        try:
            async with ActorSystem(deadline_s=1.0) as system:
                counter = system.spawn(Counter)
                sleeper = system.spawn(Sleeper, max_messages=1)
                relay = system.spawn(Relay, sleeper)
                for number in range(100):
                    await counter.tell(number)
                await counter.ask("how many")
                for _ in range(4):
                    await relay.tell("on")
                asks = [asyncio.ensure_future(sleeper.ask("never", 60)) for _ in range(3)]
                late = asyncio.ensure_future(sleeper.ask("cancelled"))
                await asyncio.sleep(0.01)
                late.cancel()
                END
        finally:
            await asyncio.gather(*asks, late, return_exceptions=True)
            assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()
            assert len(os.listdir("/proc/self/fd")) == files
            assert threading.active_count() == threads
            print(system.accounts)

    loop = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[sys.argv[1]]
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())
    except (ZeroDivisionError, KeyboardInterrupt, TimeoutError) as error:
        print(type(error).__name__)
    gc.collect()
"""


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("end", "prints"),
    [
        ("pass", []),
        ("1 / 0", ["ZeroDivisionError"]),
        ("raise KeyboardInterrupt", ["KeyboardInterrupt"]),
        ("async with asyncio.timeout(0.01): await asyncio.sleep(5)", ["TimeoutError"]),
        ("import signal; os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(5)", ["KeyboardInterrupt"]),
    ],
    ids=["normal", "error", "keyboard", "timeout", "ctrl-c"],
)
def test_leaving_leaves_no_task_thread_file_or_warning(loop: str, end: str, prints: list[str]) -> None:
    ran = run_program(PROGRAM.replace("END", end), loop)

    assert ran.stderr == ""
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == [
        "5 issued = 1 replied + 3 failed + 0 timed out + 1 cancelled (0 late)",
        *prints,
    ]


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with every warning an error."""
    return run_python(
        "-X",
        "dev",
        "-W",
        "error",
        "-c",
        textwrap.dedent(program),
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


INTERRUPTED = """
    import asyncio, gc, sys
    import uvloop
    from actorflow.actors.actor import Actor
    from actorflow.actors.system import ActorSystem

    class Interrupted(Actor):
        def receive(self, message):
            if message == "plain":
                raise KeyboardInterrupt
            return self.later(message)

        async def later(self, message):
            if message == "suspended":
                await asyncio.sleep(0.01)
            raise KeyboardInterrupt

    async def main():
        asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine, not of a leak
        try:
            async with ActorSystem() as system:
                await system.spawn(Interrupted).tell(sys.argv[2])
                await asyncio.sleep(60)
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    loop = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[sys.argv[1]]
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())
    except KeyboardInterrupt:
        print("interrupted")
    gc.collect()
"""


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("handler", ["plain", "first step", "suspended"])
def test_an_interrupt_in_a_handler_ends_the_program_cleanly(loop: str, handler: str) -> None:
    ran = run_program(INTERRUPTED, loop, handler)

    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "interrupted\n")


@pytest.mark.parametrize("loop", LOOPS)
def test_leaving_stops_the_last_spawned_first_while_the_earlier_still_answer(loop: str) -> None:
    events: list[str] = []

    class Client(Actor):
        def __init__(self, store: Any) -> None:
            self.store = store

        def receive(self, message: Any) -> None:
            pass

        async def on_stop(self, reason: BaseException | None) -> None:
            events.append(f"client saved {await self.store.ask('state')}")

    class Store(Recorder):
        def on_stop(self, reason: BaseException | None) -> None:
            events.append("store stops")

    async def body(system: ActorSystem) -> None:
        store = system.spawn(Store, [])
        await system.spawn(Client, store).ask(None)

    play(body, loop=loop)

    assert events == ["client saved state", "store stops"]


def test_the_error_of_the_body_comes_first_in_the_group() -> None:
    async def body(system: ActorSystem) -> None:
        def script(_actor: Actor, message: Any) -> None:
            raise ValueError("boom")

        ref = system.spawn(Scripted, script, name="parser")
        await ref.tell(1)
        await pause(1)
        await ref.ask(2)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    assert [type(error) for error in caught.value.exceptions] == [ActorDied, HandlerError]
    assert caught.value.message == "2 unhandled errors in 'actors'"


def test_a_handler_that_asks_an_actor_stopped_on_leaving_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(system: ActorSystem) -> None:
        peers: list[Any] = []

        async def script(_actor: Actor, _message: Any) -> None:
            await peers[0].ask(1, 50)

        client = system.spawn(Scripted, script, name="client")
        peers.append(system.spawn(Scripted, lambda _actor, _message: pause(30), name="server"))
        await client.tell(1)
        await pause(1)

    play(body)

    assert [record.getMessage() for record in caplog.records] == [
        "'client' needed an actor while 'actors' was left"
    ]


def test_an_error_of_the_body_alone_passes_as_itself() -> None:
    async def body(system: ActorSystem) -> None:
        system.spawn(Recorder, [])
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        play(body)


def test_a_cancelled_body_stays_cancelled_and_a_cancelled_exit_waits_for_clean_up() -> None:
    events: list[str] = []

    class Slow(Recorder):
        async def on_stop(self, reason: BaseException | None) -> None:
            await pause(5)
            events.append("cleaned up")

    async def body(system: ActorSystem) -> None:
        await system.spawn(Slow, []).ask(1)
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(2, task.cancel)  # strikes in the exit

    with pytest.raises(asyncio.CancelledError):
        play(body)

    assert events == ["cleaned up"]


def test_a_timeout_around_a_system_is_a_timeout() -> None:
    async def main() -> str:
        try:
            async with asyncio.timeout(1), ActorSystem() as system:
                await system.spawn(Scripted, lambda _actor, _message: pause(100)).ask(1, 50)
        except TimeoutError:
            return "timed out"
        return "not"

    assert run_on("virtual", main) == "timed out"


def test_nothing_is_spawned_before_or_after() -> None:
    system = ActorSystem(name="closed")
    with pytest.raises(ActorError, match="'closed' starts actors only inside `async with`"):
        system.spawn(Recorder, [])

    async def nothing(_system: ActorSystem) -> None:
        pass

    left = play(nothing)
    with pytest.raises(ActorError):
        left.spawn(Recorder, [])

    async def again() -> None:
        with pytest.raises(ActorError, match="was entered before"):
            await left.__aenter__()

    asyncio.run(again())


def test_an_unbalanced_book_is_an_internal_error_on_leaving() -> None:
    async def body(system: ActorSystem) -> None:
        system.accounts.sent += 1

    with pytest.raises((InternalError, AssertionError)) as caught:
        play(body)

    assert isinstance(caught.value, InternalError) or isinstance(caught.value.__context__, InternalError)


def test_a_turn_that_breaks_outside_any_handler_stops_its_actor(caplog: pytest.LogCaptureFixture) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [], name="victim")
        await pause(0)
        system.actors["victim"].fail(system.dispatch.always, RuntimeError("broken"))
        reason = await ref.stopped()
        assert isinstance(reason, InternalError)
        assert reason.what == "a turn of 'victim' broke: RuntimeError: broken"

    play(body)

    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "'victim' stops"
    ]


def test_stats_count() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [])
        await ref.tell(1)
        await ref.ask(2)
        await system.stop(ref)
        await ref.tell(3)

    stats = play(body).stats()

    assert (stats.spawned, stats.actors, stats.issued, stats.replied, stats.open_asks) == (1, 0, 1, 1, 0)
    assert (stats.dead_letters, stats.unhandled_errors) == (1, 0)
    assert stats.turns >= 2


def test_a_dump_can_be_taken_while_an_actor_holds_the_loop() -> None:
    """Ray's diagnostics hang with the worker; a dump needs no turn of the loop."""
    texts: list[str] = []

    async def body(system: ActorSystem) -> None:
        def script(_actor: Actor, _message: Any) -> None:
            thread = threading.Thread(target=lambda: texts.append(str(system.dump())))
            thread.start()
            thread.join()

        ref = system.spawn(Scripted, script, name="busy")
        await ref.ask(1)

    play(body, loop="asyncio", clock=SystemClock())

    assert "busy: running" in texts[0]


def test_the_same_program_runs_the_same_twice() -> None:
    def story() -> list[Any]:
        seen: list[Any] = []

        async def body(system: ActorSystem) -> None:
            sink = system.spawn(Recorder, seen, max_messages=1)

            async def script(actor: Actor, message: Any) -> Any:
                await pause(system.entropy.uniform())
                actor.tell(sink, (actor.ref.name, message))

            refs = [system.spawn(Scripted, script, max_messages=2) for _ in range(4)]
            await asyncio.gather(*(ref.ask(number, 100) for number in range(8) for ref in refs))

        play(body)
        return seen

    assert story() == story()


def test_a_system_that_is_opened_cancels_no_task_and_raises_on_closing() -> None:
    async def main() -> None:
        class Fails(Actor):
            def receive(self, message: object) -> None:
                raise ValueError(message)

        system = await ActorSystem().open()
        ref = system.supervisor(Strategy(max_restarts=0)).spawn(Fails)
        await ref.tell("no")
        while system.stats().actors:  # noqa: ASYNC110  it goes on turn by turn
            await asyncio.sleep(0)

        with pytest.raises(ExceptionGroup):
            await system.close()
        await system.close()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_a_system_that_is_entered_without_async_says_what_to_write() -> None:
    with pytest.raises(ActorError, match="is entered by `async with`") as caught, ActorSystem():
        pass

    assert caught.value.hint == "async with af.ActorSystem() as system: ..."
