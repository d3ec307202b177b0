from __future__ import annotations

from hypothesis import given

from actorflow.sim.checkers.timeline import draw
from actorflow.sim.history import History, Recorder
from tests.sim.histories import StillClock, histories, kv_calls


def test_bars_touch_their_events_and_the_marked_one_is_underlined() -> None:
    recorder = Recorder(StillClock())
    write = recorder.invoke(0, "write", 1)
    recorder.invoke("b", "read").ok(1)
    recorder.invoke("b", "cas", 1, 2).fail()
    write.ok()
    recorder.invoke(0, "write", 3)
    history = recorder.history()

    assert draw(history, history[1]).split("\n") == [
        "client 0  [write 1-----------------------][write 3 -> ?>",
        "client b   [read -> 1][cas 1 2 -> failed]",
        "           ^^^^^^^^^^^",
    ]


def test_a_client_that_went_on_after_an_unknown_end_has_another_row() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "write", 1).info()
    recorder.invoke(0, "read").ok(None)

    assert draw(recorder.history()).split("\n") == [
        "client 0  [write 1 -> ?->",
        "           [read -> None]",
    ]


def test_what_is_too_long_ago_is_left_out_and_what_is_still_open_is_named() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("slow", "write", 0)
    for n in range(50):
        recorder.invoke("a", "write", n).ok()

    lines = draw(recorder.history()).split("\n")

    assert lines[0].startswith("client a  [write ")
    assert lines[0].endswith("[write 48][write 49]")
    assert lines[1:] == [
        "open since before: write 0 -> ? (client slow)",
        f"{50 - lines[0].count('[')} operations ended before and are left out",
    ]


def test_a_bar_that_began_before_the_picture_has_an_open_left_end() -> None:
    recorder = Recorder(StillClock())
    slow = recorder.invoke("slow", "write", 0)
    for n in range(50):
        recorder.invoke("a", "write", n).ok()
    slow.ok()

    slow_row = draw(recorder.history()).split("\n")[1]

    assert slow_row.startswith("client slow  <write 0---")
    assert slow_row.endswith("-]")


def test_long_values_are_cut_in_the_middle() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "put", "x" * 500).ok()

    assert draw(recorder.history()) == f"client 0  [put '{'x' * 7}...{'x' * 8}']"


@given(histories(kv_calls, most=20))
def test_no_picture_is_wider_than_a_hundred_columns(history: History) -> None:
    for marked in history:
        lines = draw(history, marked).split("\n")
        assert all(len(line) <= 100 for line in lines)
        assert sum("client" in line for line in lines) >= 1


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw(History()) == ""
