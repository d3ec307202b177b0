import signal

import pytest

from actorflow.launch.exits import Exit, ending, meaning, worth_restart


@pytest.mark.parametrize(
    ("returncode", "said"),
    [
        (0, "ended with 0: done"),
        (69, "ended with 69: the coordinator is gone, or could not begin or go on"),
        (75, "ended with 75: others went on without it, and it has to begin again"),
        (141, "ended with 141: nobody reads what it prints any more"),
        (137, "ended with 137, as after SIGKILL"),
        (99, "ended with 99"),
        (255, "ended with 255"),
        (-9, "was killed by SIGKILL"),
        (-signal.SIGSEGV, "was killed by SIGSEGV"),
        (-int(signal.SIGRTMIN) - 3, f"was killed by signal {int(signal.SIGRTMIN) + 3}"),
    ],
)
def test_how_a_process_ended_in_words(returncode, said):
    assert meaning(returncode) == said


@pytest.mark.parametrize("code", Exit)
def test_every_code_has_a_meaning(code):
    assert meaning(code).startswith(f"ended with {int(code)}: ")


@pytest.mark.parametrize("returncode", [1, 70, 75, 137, 99, -9, -11, -6])
def test_a_failure_or_a_kill_is_worth_another_life(returncode):
    assert worth_restart(returncode)


@pytest.mark.parametrize("returncode", [0, 2, 69, 126, 127, 130, 141, 143, -2, -15, -1])
def test_what_is_done_asked_to_end_or_wrong_for_ever_is_not(returncode):
    assert not worth_restart(returncode)


def test_sighup_ends_a_process_in_peace_unless_it_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert ending() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        assert ending() == (signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
