"""A pool of processes maps as the loop itself would, and says which element failed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.values.rng import generator
from actorflow.data.workers import process_pool as pool_module
from actorflow.data.workers.mapper import ElementFailed
from actorflow.data.workers.process_pool import ProcessMapper
from actorflow.errors import ConfigError, InputError
from tests.data import functions
from tests.data.pools import LOOPS, Open, children, descriptors, opened, run, told
from tests.support.strategies import examples
from tests.transport.values import Holder, same, values


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

    def _hear(self, child: Any, message: Any) -> None:
        child.chunks.reverse()
        super()._hear(child, message)


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


def test_children_have_the_arguments_of_their_parent(
    monkeypatch: pytest.MonkeyPatch, open_pool: Callable[..., Open]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--quick", "7"])

    assert open_pool(functions.arguments, 1).map([0]) == [[["train.py", "--quick", "7"]]]


NEEDED = {
    "actors": ["scheduling.contexts"],
    "data": ["values.apply", "workers.frames", "workers.function_names"],
    "runtime": ["disk"],
    "transport": [
        "codec.bfloat16", "codec.decoder", "codec.encoder", "codec.failures", "codec.field_checks",
        "codec.message_codec", "codec.registry", "codec.tensor_lists", "codec.types",
    ],
    "values": ["arrays", "tensor_list"],
}  # fmt: skip


def test_children_import_only_what_they_need(open_pool: Callable[..., Open]) -> None:
    ((modules,),) = open_pool(functions.modules, 1).map([0])

    ours = {name for name in modules if name.startswith("actorflow.")}
    needed = {"errors"} | {f"{room}.{name}" for room, names in NEEDED.items() for name in names}
    needed |= {name.rpartition(".")[0] for name in needed if "." in name} | set(NEEDED)
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
                assert isinstance(result, ElementFailed)
                assert result.ordinal == first + bad[0]
                assert result.done == chunk[: bad[0]]
                assert f"ValueError: {chunk[bad[0]]} is negative" in str(result.error)
            else:
                assert result == chunk
            first += len(chunk)

    law()


def failure(found: list[Any]) -> tuple[int, InputError]:
    (failed,) = found
    assert isinstance(failed, ElementFailed), failed
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
    assert str(error) == (f"ValueError: -5 is negative\n  where: defined at tests/data/functions.py:{line}")
    (note,) = error.__notes__
    assert note.startswith("in process ")
    assert "raise ValueError(message)\nValueError: -5 is negative" in note
    assert "child.py" not in note


@pytest.mark.parametrize(
    ("function", "values", "ordinal", "text"),
    [
        (functions.leaving, [1], 0, "SystemExit: 3"),
        (functions.decorated, [1, -1], 1, "KeyError: 'decorated'"),
        (functions.a_set, [1, 2, -1, -2], 2, "it returned what cannot be sent: a value of type set cannot travel"),
        (functions.same, [1, {2}], 1, "an element cannot be sent to a process: a value of type set cannot travel"),
        (len, [[1], 5], 1, "TypeError: object of type 'int' has no len()"),
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


def test_a_record_whose_class_a_child_has_not_imported_fails_its_chunk_alone(
    open_pool: Callable[..., Open],
) -> None:
    lost, kept = open_pool(functions.same, 1).map([Holder({})], [1])

    _, error = failure([lost])
    assert error.what.startswith(
        "an element cannot be read by a process: no record is registered as 'tests.holder'"
    )
    assert error.hint == "import the module that registers it on both sides"
    assert kept == [1]


def test_ctrl_c_is_not_for_children(open_pool: Callable[..., Open]) -> None:
    assert open_pool(functions.harmed, 1).map(["interrupt"]) == [["interrupt"]]


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
    (tmp_path / "begun.py").write_text("import broken\n")
    (tmp_path / "misspelt.py").write_text("import os\n\ndef f(:\n")
    (tmp_path / "leaving.py").write_text("import os\nos._exit(5)\n")
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n")

    broken = starting_fails("broken:f")
    assert broken.what == (
        "a process cannot use broken:f: its module raised ZeroDivisionError: division by zero when it was imported"
    )
    assert str(broken.where).endswith("broken.py:2")
    assert 'broken.py", line 2, in <module>' in broken.__notes__[0]
    assert str(starting_fails("misspelt:f").where).endswith("misspelt.py:3")
    assert str(starting_fails("begun:f").where).endswith("broken.py:2")
    assert (
        "cannot use broken_not:f: the module of broken_not:f is not on sys.path"
        in starting_fails("broken_not:f").what
    )
    assert "ended with exit status 5 before it had found leaving:f" in starting_fails("leaving:f").what
    late = starting_fails("endless:f", start_s=0.3)
    assert late.what == "processes must find endless:f within 0.3 s, 2 of them did not"


def test_the_pool_says_what_it_may_hold() -> None:
    assert ProcessMapper(functions.same, 3).width == 3 * pool_module.PER_CHILD
