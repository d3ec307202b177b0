"""What fails in the user's code is told with its line; our own errors say enough."""

from __future__ import annotations

import asyncio

import pytest

from actorflow.errors import InputError, ProgramError
from actorflow.runtime.user_code import blame_user_code


def test_a_failure_is_placed_at_the_users_line() -> None:
    with (
        pytest.raises(
            ProgramError, match=r"batches must not fail\n  where: defined at \S*test_user_code\.py:\d+"
        ) as caught,
        blame_user_code("batches"),
    ):
        raise KeyError("gone")

    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [InputError("element 3"), ProgramError("no scores"), KeyboardInterrupt()])
def test_our_errors_and_interrupts_pass_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, blame_user_code("batches"):
        raise error

    assert caught.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_a_program_is_a_failure_where_another_program_is_served(error: BaseException) -> None:
    with (
        pytest.raises(ProgramError, match="batches must not fail") as caught,
        blame_user_code("batches", ends=False),
    ):
        raise error

    assert caught.value.__cause__ is error


def test_a_cancellation_is_a_failure_unless_somebody_cancels() -> None:
    async def awaiting(own: bool) -> None:
        with blame_user_code("evaluate"):
            if own:
                raise asyncio.CancelledError
            await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(ProgramError, match="evaluate must not fail"):
            await asyncio.create_task(awaiting(True))
        waits = asyncio.create_task(awaiting(False))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(main())


def test_who_is_closed_from_outside_has_not_failed() -> None:
    async def awaiting() -> None:
        with blame_user_code("evaluate"):
            await asyncio.sleep(10)

    async def begun() -> None:
        waits.send(None)

    async def main() -> None:
        await asyncio.create_task(begun())
        waits.close()  # raises whatever comes of it but GeneratorExit

    waits = awaiting()
    asyncio.run(main())
