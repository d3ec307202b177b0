"""`af.run`: a main coroutine, or its function, on an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import warnings
from typing import Any

import pytest

import actorflow as af


async def main() -> int:
    await asyncio.sleep(0)
    return 42


class Called:
    async def __call__(self) -> int:
        return await main()


@pytest.mark.parametrize(
    "given",
    [main, main(), functools.partial(main), lambda: main(), Called()],
    ids=["function", "coroutine", "partial", "lambda", "callable"],
)
def test_a_coroutine_and_what_makes_one_both_run(given: Any) -> None:
    assert af.run(given) == 42


def test_debug_is_handed_on() -> None:
    async def debugs() -> bool:
        return asyncio.get_running_loop().get_debug()

    assert af.run(debugs, debug=True)
    assert not af.run(debugs, debug=False)


@pytest.mark.parametrize(
    "given",
    [3, None, "main", lambda: 3, asyncio.sleep],
    ids=["number", "none", "text", "function", "of arguments"],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises((af.errors.ConfigError, TypeError)):
        af.run(given)


@pytest.mark.parametrize("given", [lambda: main(), lambda: main], ids=["coroutine", "function"])
def test_where_a_loop_runs_it_says_what_to_await_and_leaves_nothing_unawaited(given: Any) -> None:
    async def within() -> None:
        af.run(given())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(af.errors.ConfigError, match=r"await main\(\)"):
            asyncio.run(within())
