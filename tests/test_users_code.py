"""What fails in the user's code is told with its line; our own errors say enough."""

from __future__ import annotations

import pytest

from actorflow.errors import InputError, ProgramError
from actorflow.users_code import users_code


def test_a_failure_is_placed_at_the_users_line() -> None:
    with (
        pytest.raises(
            ProgramError, match=r"batches must not fail\n  where: defined at \S*test_users_code\.py:\d+"
        ) as caught,
        users_code("batches"),
    ):
        raise KeyError("gone")

    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [InputError("element 3"), ProgramError("no scores"), KeyboardInterrupt()])
def test_our_errors_and_interrupts_pass_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, users_code("batches"):
        raise error

    assert caught.value is error
