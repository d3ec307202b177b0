from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import ConfigError, HistoryError
from actorflow.sim.history import History, Operation, Recorder, Status
from tests.sim.histories import StillClock, histories
from tests.support.strategies import examples

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
anything = st.tuples(st.text(max_size=5), st.lists(values, max_size=3).map(tuple), values)


@given(drawn=histories(anything, keys=(None, "x", 3, ("a", 1))))
@settings(max_examples=examples(100))
def test_a_history_that_is_written_is_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, drawn: History
) -> None:
    path = tmp_path_factory.getbasetemp() / "history.jsonl"

    drawn.write(path)
    read = History.read(path)

    assert read == drawn
    assert [repr(operation) for operation in read] == [repr(operation) for operation in drawn]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", (1, b"hi", float("inf")), key="x").ok()
    recorder.invoke("b", "read").info("timed out")
    path = tmp_path / "h.jsonl"
    recorder.history().write(path)
    return path


def test_each_line_is_plain_json(path: Path) -> None:
    first, second = (json.loads(line) for line in path.read_text().splitlines())

    assert first == {
        "client": "a", "op": "write", "args": [[1, {"bytes": "6869"}, {"float": "inf"}]], "result": None,
        "status": "ok", "invoked": 0, "returned": 1, "invoked_s": 0.0, "returned_s": 0.0, "incarnation": 0,
        "key": "x", "reason": None,
    }  # fmt: skip
    assert (second["status"], second["returned"], second["reason"]) == ("info", None, "timed out")


def test_blank_lines_and_left_out_fields_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('\n{"client": 1, "op": "read", "result": 3}\n\n')

    assert list(History.read(path)) == [Operation(1, "read", (), 3)]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON, Expecting property name"),
        ("[1]", "an operation is a JSON object"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("9" * 5_000, "cannot be read as JSON"),
        ('{"op": "read"}', "without client"),
        ('{"client": 1, "op": "read", "colour": 3}', "with colour"),
        ('{"client": true, "op": "read"}', "client must be int or str, got True"),
        ('{"client": 1, "op": "read", "returned": "x"}', "returned must be int or null, got 'x'"),
        ('{"client": 1, "op": "read", "status": "done"}', "status must be ok, fail or info, got 'done'"),
        ('{"client": 1, "op": "read", "status": "info"}', "cannot return at 1 with status 'info'"),
        ('{"client": 1, "op": "read", "invoked": 5, "returned": 5}', "cannot return at event 5"),
        ('{"client": 1, "op": "read", "result": {"bytes": "xy"}}', "bytes must be in hexadecimal"),
        ('{"client": 1, "op": "read", "result": {"a": 1}}', "an object in a value is"),
        ('{"client": 1, "op": "read", "result": NaN}', "NaN is not JSON"),
    ],
)
def test_a_malformed_line_is_named_with_its_file_and_number(path: Path, line: str, what: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")

    with pytest.raises(HistoryError) as raised:
        History.read(path)
    assert str(raised.value).startswith(f"{path}, line 3: ")
    assert what in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot read the history .*nothing: No such file"):
        History.read(tmp_path / "nothing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(HistoryError, match=r"UTF-8 text, got b'\\xff' at byte 0"):
        History.read(tmp_path / "binary")


def test_two_events_of_one_number_are_refused() -> None:
    with pytest.raises(HistoryError, match=r"event 1 belongs to two operations: read -> None, and write 2"):
        History([Operation(0, "read"), Operation(1, "write", (2,), invoked=1, returned=2)])


def test_a_history_is_ordered_by_invocation_and_cannot_be_changed() -> None:
    late, early = Operation(0, "read", invoked=4, returned=5), Operation(1, "read", invoked=0, returned=1)
    history = History([late, early])

    assert list(history) == [early, late]
    assert history.clients() == (1, 0)
    assert repr(history) == "<History of 2 operations (2 ok, 0 fail, 0 info) by 2 clients>"
    with pytest.raises(TypeError):
        history[0] = late  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        history[0].op = "write"  # type: ignore[misc]


def test_a_prefix_knows_nothing_of_what_ends_later() -> None:
    recorder = Recorder(StillClock())
    slow = recorder.invoke("a", "read", key="x")
    recorder.invoke("b", "read", key="y").ok(1)
    slow.ok(2)
    history = recorder.history()

    assert history.until(3) == history
    assert [(o.client, o.status, o.result) for o in history.until(2)] == [
        ("a", Status.INFO, None),
        ("b", Status.OK, 1),
    ]
    assert len(history.until(0)) == 1


def test_parts_keep_their_event_numbers() -> None:
    recorder = Recorder(StillClock())
    for n in range(4):
        recorder.invoke(n % 2, "write", n, key="xy"[n % 2]).ok()
    history = recorder.history()

    assert {key: [o.invoked for o in part] for key, part in history.by_key().items()} == {
        "x": [0, 4],
        "y": [2, 6],
    }
    assert [o.invoked for o in history.where(lambda o: o.args[0] == 2)] == [4]


def test_a_history_is_made_of_operations() -> None:
    for wrong, shown in (([1], "1 in it"), ("read", "'read'"), (3, "3")):
        with pytest.raises(ConfigError, match=rf"(?s)made of operations, got {shown}.*recorder\.history\(\)"):
            History(wrong)  # type: ignore[arg-type]
    one = History([Operation(0, "read")])
    assert repr(one) == "<History of 1 operation (1 ok, 0 fail, 0 info) by 1 client>"
