"""A pool of processes maps as the loop itself would, and every future of it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data import pool as pool_module
from actorflow.data.chance import generator
from actorflow.data.mapping import Failed
from actorflow.data.pool import ProcessMapper
from actorflow.errors import ConfigError, InputError, StateError
from actorflow.loop import loop_factory
from tests.data import functions
from tests.strategies import examples
from tests.transport.values import same, values

LOOPS = {"asyncio": asyncio.new_event_loop, "the loop of actorflow": loop_factory()}


def run(main: Coroutine[Any, Any, Any], factory: Callable[[], Any] | None = None) -> Any:
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


@asynccontextmanager
async def opened(function: Any, processes: int = 1, **options: Any) -> AsyncIterator[ProcessMapper]:
    pool = ProcessMapper(function, processes, **options)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


async def told(chunk: asyncio.Future[list[Any]]) -> Any:
    """The results of a chunk, or its failure."""
    await asyncio.wait([chunk])
    return chunk.exception() or chunk.result()


class Open:
    """A pool kept over the examples of a law."""

    def __init__(self, runner: asyncio.Runner, pool: ProcessMapper) -> None:
        self.runner = runner
        self.pool = pool

    def map(self, *chunks: list[Any], epoch: int = 0) -> list[Any]:
        """The results of all chunks, under way together; a failure stands for those of its chunk."""

        async def main() -> Any:
            first = 0
            futures = []
            for chunk in chunks:
                futures.append(self.pool.map(chunk, list(range(first, first + len(chunk))), epoch))
                first += len(chunk)
            return await asyncio.gather(*futures, return_exceptions=True)

        return self.runner.run(main())


@pytest.fixture(params=LOOPS)
def open_pool(request: pytest.FixtureRequest) -> Iterator[Callable[..., Open]]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        pools: list[ProcessMapper] = []

        def make(function: Any, processes: int = 2, **options: Any) -> Open:
            pools.append(ProcessMapper(function, processes, **options))
            runner.run(pools[-1].start())
            return Open(runner, pools[-1])

        yield make
        for pool in pools:
            runner.run(pool.close())


def children() -> set[int]:
    """The processes that this one has started, zombies too."""
    tasks = Path("/proc/self/task")
    return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --------------------------------------------------------------------------------- results


@pytest.mark.slow
def test_a_pool_maps_as_the_function_does(open_pool: Callable[..., Open]) -> None:
    opened = open_pool(functions.wrapped)

    @settings(max_examples=examples(60))
    @given(st.lists(st.lists(values, min_size=1, max_size=5), min_size=1, max_size=6))
    def law(chunks: list[list[Any]]) -> None:
        assert same(opened.map(*chunks), [[functions.wrapped(v) for v in chunk] for chunk in chunks])

    law()


class Swapped(ProcessMapper):
    """Planted: answers are given to the wrong chunks."""

    def _heard(self, child: Any, message: Any) -> None:
        child.chunks.reverse()
        super()._heard(child, message)


def test_the_law_sees_answers_that_are_swapped() -> None:
    async def main() -> list[Any]:
        pool = Swapped(functions.slow_then, 1)
        await pool.start()
        found = await asyncio.gather(*(pool.map([k], [k], 0) for k in range(4)))
        await pool.close()
        return found

    assert run(main()) != [[0], [1], [2], [3]]


def test_each_chunk_has_its_own_results_however_long_others_take(open_pool: Callable[..., Open]) -> None:
    chunks = [[k, k + 1] for k in range(0, 60, 2)]  # far more than may be under way

    assert open_pool(functions.slow_then).map(*chunks) == chunks


@pytest.mark.slow
def test_chance_depends_neither_on_processes_nor_on_chunks() -> None:
    xs = [np.zeros(3) + k for k in range(12)]
    expected = [functions.noisy(x, generator(5, 2, k)) for k, x in enumerate(xs)]

    async def main(processes: int, length: int) -> list[Any]:
        async with opened(functions.noisy, processes, seed=5) as pool:
            ordinals = list(range(12))
            parts = [pool.map(xs[k : k + length], ordinals[k : k + length], 2) for k in range(0, 12, length)]
            return [x for part in parts for x in await part]

    for processes, length in [(1, 12), (2, 1), (3, 5)]:
        assert same(run(main(processes, length)), expected)


def test_a_chunk_may_be_empty_or_larger_than_any_socket(open_pool: Callable[..., Open]) -> None:
    """Both sides write at once: the parent never waits, and a child reads all before it answers."""
    opened = open_pool(functions.same)
    chunks = [[np.full(3_000_000, k, np.uint8)] * 3 for k in range(8)]

    assert opened.map([]) == [[]]
    assert same(opened.map(*chunks), chunks)


def test_a_function_may_write_into_its_element_and_leaves_ours_alone(open_pool: Callable[..., Open]) -> None:
    xs = [np.zeros(3), np.ones(3)]

    (read,) = open_pool(functions.in_place).map(xs)

    assert same(read, [np.ones(3), np.ones(3) + 1])
    assert same(xs, [np.zeros(3), np.ones(3)])
    read[0][:] = 7  # what comes back may be written too


def test_children_have_the_environment_of_their_parent_and_one_thread(
    monkeypatch: pytest.MonkeyPatch, open_pool: Callable[..., Open]
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.syspath_prepend("/somewhere/else")

    (((threads, python_path, path, _),),) = open_pool(functions.environment, 1).map([0])
    ((pools,),) = open_pool(functions.blas_threads, 1).map([0])

    assert (threads, python_path) == ("1", "/somewhere")
    assert "/somewhere/else" in path
    assert set(pools) <= {1}


def test_children_import_only_what_they_need(open_pool: Callable[..., Open]) -> None:
    ((modules,),) = open_pool(functions.modules, 1).map([0])

    ours = {name for name in modules if name.startswith("actorflow.")}
    needed = {"arrays", "errors", "data", "data.chance", "data.names", "data.frames"}
    needed |= {"transport", *(f"transport.{name}" for name in ("codec", "kinds", "reading", "writing"))}
    assert ours == {f"actorflow.{name}" for name in needed}
    assert not {"asyncio", "subprocess", "multiprocessing", "pickle", "ctypes.util"} & set(modules) - {
        "pickle"
    }


# -------------------------------------------------------------------------------- failures


@pytest.mark.slow
def test_the_first_element_that_fails_is_named(open_pool: Callable[..., Open]) -> None:
    opened = open_pool(functions.positive)

    @settings(max_examples=examples(40))
    @given(st.lists(st.lists(st.integers(-2, 9), min_size=1, max_size=6), min_size=1, max_size=6))
    def law(chunks: list[list[int]]) -> None:
        found = opened.map(*chunks)

        first = 0
        for chunk, result in zip(chunks, found, strict=True):
            bad = [k for k, value in enumerate(chunk) if value < 0]
            if bad:
                assert isinstance(result, Failed)
                assert result.ordinal == first + bad[0]
                assert result.done == chunk[: bad[0]]
                assert f"raised ValueError: {chunk[bad[0]]} is negative" in str(result.error)
            else:
                assert result == chunk
            first += len(chunk)

    law()


def failure(found: list[Any]) -> tuple[int, InputError]:
    (failed,) = found
    assert isinstance(failed, Failed), failed
    assert isinstance(failed.error, InputError)
    return failed.ordinal, failed.error


def test_a_failure_is_placed_at_the_line_of_the_user_with_its_traceback(
    open_pool: Callable[..., Open],
) -> None:
    ordinal, error = failure(open_pool(functions.positive, 1).map([4, -5]))

    line = next(
        k
        for k, text in enumerate(Path(functions.__file__).read_text().splitlines(), 1)
        if "ValueError" in text
    )
    assert ordinal == 1
    assert str(error) == (
        "tests.data.functions:positive raised ValueError: -5 is negative\n"
        f"  where: defined at tests/data/functions.py:{line}"
    )
    (note,) = error.__notes__
    assert note.startswith("in process ")
    assert "raise ValueError(message)\nValueError: -5 is negative" in note
    assert "child.py" not in note


@pytest.mark.parametrize(
    ("function", "values", "ordinal", "text"),
    [
        (functions.leaving, [1], 0, "leaving raised SystemExit: 3"),
        (functions.decorated, [1, -1], 1, "decorated raised KeyError: 'decorated'"),
        (functions.a_set, [1, 2, -1, -2], 2, "a_set returned what cannot be sent: a value of type set cannot travel"),
        (functions.same, [1, {2}], 1, "an element cannot be sent to a process: a value of type set cannot travel"),
        (len, [[1], 5], 1, "builtins:len raised TypeError: object of type 'int' has no len()"),
    ],
)  # fmt: skip
def test_every_way_to_fail_says_which_element(
    function: Any, values: list[Any], ordinal: int, text: str
) -> None:
    async def main() -> Any:
        async with opened(function) as pool:
            found = await told(pool.map(values, list(range(len(values))), 0))
            if function is not functions.leaving:
                assert len(await pool.map(values[:1], [0], 0)) == 1  # it goes on
            return found

    at, error = failure([run(main())])

    assert at == ordinal
    assert text in error.what


# ------------------------------------------------------------------------------ processes die


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(
    ("harm", "text"),
    [
        ("exit", "ended with exit status 3 while it had elements 2 to 4"),
        ("kill", "was ended by SIGKILL while it had elements 2 to 4"),
        ("segfault", "was ended by SIGSEGV while it had elements 2 to 4"),
        ("noise", "was ended, for it sent no message: a frame begins with b'AFm1', got b'nois'"),
        ("fork", "ended with exit status 4 while it had elements 2 to 4"),
    ],
)
def test_a_process_that_dies_fails_what_it_had_and_the_others_go_on(
    harm: str, text: str, factory: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with opened(functions.harmed, 2) as pool:
            dying = pool.map(["a", harm, "b"], [2, 3, 4], 0)
            well = pool.map(["c"], [5], 0)
            behind = pool.map(["d"], [6], 0)
            with pytest.raises(Failed) as caught:
                await dying
            assert caught.value.ordinal == 2
            assert text in str(caught.value.error)
            assert ("was the memory used up?" in str(caught.value.error)) is (harm == "kill")
            assert await well == ["c"]
            with pytest.raises(Failed, match="element 6 for"):
                await behind
            assert await pool.map(["e"], [7], 0) == ["e"]
            with pytest.raises(Failed):
                await pool.map([harm], [8], 0)
            with pytest.raises(Failed, match="no process is left for tests.data.functions:harmed: the last"):
                await pool.map(["f"], [9], 0)

    run(main(), factory)
    if harm == "fork":  # what the processes left behind, which held their sockets
        for pid in capfd.readouterr().err.split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
def test_processes_killed_at_any_moment_lose_no_waiter_and_no_result_is_wrong(factory: Any) -> None:
    """The moments are answers heard; between them are those of the machine."""

    @settings(max_examples=examples(12))
    @given(st.lists(st.integers(0, 12), min_size=1, max_size=2), st.sampled_from([1, 300_000]))
    def law(moments: list[int], size: int) -> None:
        async def main() -> None:
            async with opened(functions.same, 2) as pool:
                pids = [child.process.pid for child in pool._children]
                heard = 0

                async def one(k: int) -> Any:
                    nonlocal heard
                    found = await told(pool.map([np.full(size, k, np.uint8)], [k], 0))
                    if isinstance(found, Failed):
                        assert found.ordinal == k
                        assert "SIGKILL" in str(found.error)
                    else:
                        assert same(found, [np.full(size, k, np.uint8)])
                    heard += 1
                    while pids and moments and heard >= moments[-1]:
                        moments.pop()
                        os.kill(pids.pop(), signal.SIGKILL)

                await asyncio.gather(*map(one, range(16)))

        run(main(), factory)

    law()


def test_ctrl_c_is_not_for_children(open_pool: Callable[..., Open]) -> None:
    assert open_pool(functions.harmed, 1).map(["interrupt"]) == [["interrupt"]]


# ---------------------------------------------------------------------------- beginning and end


def test_the_answer_for_a_waiter_that_left_is_dropped(open_pool: Callable[..., Open]) -> None:
    opened = open_pool(functions.slow_then, 1)

    async def main() -> Any:
        futures = [opened.pool.map([k], [k], 0) for k in range(6)]
        futures[0].cancel()  # under way
        futures[4].cancel()  # waits here
        return await asyncio.gather(*futures, return_exceptions=True)

    found = opened.runner.run(main())

    assert [found[k] for k in (1, 2, 3, 5)] == [[1], [2], [3], [5]]
    assert [type(found[k]) for k in (0, 4)] == [asyncio.CancelledError] * 2


@pytest.mark.slow
def test_fifty_pools_leave_no_process_and_no_descriptor() -> None:
    async def main() -> None:
        others, seen = children(), set()
        for k in range(50):
            async with opened(len) as pool:
                if k % 2:
                    assert await pool.map([b"123"], [0], 0) == [3]
            seen.add(descriptors())
            assert children() <= others
        assert len(seen) == 1, seen

    run(main())


MOMENTS: dict[str, Callable[[ProcessMapper], Coroutine[Any, Any, Any]]] = {}


def moment(act: Callable[[ProcessMapper], Coroutine[Any, Any, Any]]) -> None:
    MOMENTS[act.__name__.replace("_", " ")] = act


@moment
async def not_started(_pool: ProcessMapper) -> None: ...


@moment
async def idle(pool: ProcessMapper) -> None:
    before, others = descriptors(), children()
    await pool.start()
    assert len(children() - others) == 2  # what is counted is seen
    assert descriptors() > before


@moment
async def starting(pool: ProcessMapper) -> None:
    task = asyncio.create_task(pool.start())
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(ConfigError):
        await task


@moment
async def start_cancelled(pool: ProcessMapper) -> None:
    task = asyncio.create_task(pool.start())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ended(pool: ProcessMapper, *chunks: list[Any]) -> None:
    """Closes with these chunks under way."""
    futures = [pool.map(chunk, list(range(len(chunk))), 0) for chunk in chunks]
    await asyncio.sleep(0.005)
    await pool.close()
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert all(isinstance(f, StateError) and "was closed" in str(f) for f in found[-1:]), found


@moment
async def busy(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[["sleep"]] * 7)


@moment
async def half_sent(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[["sleep", np.zeros(10_000_000, np.uint8)]] * 7)


@moment
async def half_answered(pool: ProcessMapper) -> None:
    await pool.start()
    await ended(pool, *[[np.zeros(10_000_000, np.uint8)]] * 40)


@moment
async def cancelled_while_it_closes(pool: ProcessMapper) -> None:
    await pool.start()
    chunk = pool.map(["sleep"], [0], 0)
    task = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(chunk.exception(), StateError)


@moment
async def closed_by_two(pool: ProcessMapper) -> None:
    await pool.start()
    await asyncio.gather(pool.close(), pool.close())


@moment
async def all_dead(pool: ProcessMapper) -> None:
    await pool.start()
    for child in pool._children:
        os.kill(child.process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("name", MOMENTS)
def test_closing_leaves_nothing_behind_when(name: str, factory: Any) -> None:
    async def main() -> None:
        await asyncio.sleep(0)  # the loop has what it needs
        before, others = descriptors(), children()
        pool = ProcessMapper(functions.harmed, 2)
        await MOMENTS[name](pool)
        await pool.close()
        await pool.close()
        assert children() <= others
        assert descriptors() == before
        with pytest.raises(StateError, match="starts once"):
            await pool.start()
        with pytest.raises(StateError, match="is not open"):
            await pool.map(["a"], [0], 0)
        gc.collect()  # whatever warns, warns here
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main(), factory)


@pytest.mark.parametrize("without", ["pidfd_open"])
def test_children_are_reaped_where_the_system_does_not_tell_of_their_end(
    without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, without)

    async def main() -> None:
        others = children()
        async with opened(functions.harmed, 2) as pool:
            with pytest.raises(Failed, match="exit status 3"):
                await pool.map(["exit"], [0], 0)
            assert await pool.map(["a"], [0], 0) == ["a"]
        assert children() <= others

    run(main())


# ------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize("processes", [0, -1, 1.5, True])
def test_a_pool_has_at_least_one_process(processes: Any) -> None:
    with pytest.raises(ConfigError, match="processes must be an integer of at least 1"):
        ProcessMapper(functions.same, processes)


def starting_fails(name: str, **options: Any) -> ConfigError:
    async def main() -> ConfigError:
        before, others = descriptors(), children()
        with pytest.raises(ConfigError) as caught:
            await ProcessMapper(name, 2, **options).start()
        assert (descriptors(), children() - others) == (before, set())
        return caught.value

    error: ConfigError = run(main())
    return error


def test_a_process_that_cannot_use_the_function_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "leaving.py").write_text("import os\nos._exit(5)\n")
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n")

    broken = starting_fails("broken:f")
    assert broken.what == "a process cannot use broken:f: ZeroDivisionError: division by zero"
    assert 'broken.py", line 2, in <module>' in broken.__notes__[0]
    assert (
        "cannot use broken_not:f: the module of broken_not:f is not on sys.path"
        in starting_fails("broken_not:f").what
    )
    assert "ended with exit status 5 before it had found leaving:f" in starting_fails("leaving:f").what
    late = starting_fails("endless:f", start_s=0.3)
    assert late.what == "processes must find endless:f within 0.3 s, 2 of them did not"


def test_the_pool_says_what_it_may_hold() -> None:
    assert ProcessMapper(functions.same, 3).width == 3 * pool_module.PER_CHILD
