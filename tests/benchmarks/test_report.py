from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks.harness import Contest, Peer, Row, Sample, Unit, absent
from benchmarks.report import as_json, as_table, natural_width, notes, quantity, times


async def never(n: int) -> float:
    raise AssertionError(n)


TELL = Contest("tell", Unit.MESSAGES, 1, never, [], aim=1e6, note="drained")
ASK = Contest("ask_idle_us", Unit.MICROSECONDS, 1, never, [], aim=1.5)
ROWS = [
    Row(TELL, Peer("queue", never, 1.5, "bounded"), Sample([2e6]), Sample([1e6])),
    Row(TELL, absent("xoscar", "actorflow[bench]", 5.0), Sample([2e6]), None),
    Row(ASK, Peer("queue", never, 0.5), Sample([1.8]), Sample([2.0])),
]


def test_the_json_object_has_one_row_a_peer() -> None:
    found = json.loads(json.dumps(as_json("dispatch", {"python": "CPython 3.11.7"}, ROWS)))

    assert found["benchmark"] == "dispatch"
    assert found["machine"] == {"python": "CPython 3.11.7"}
    assert found["rows"] == [
        {
            "metric": "tell",
            "unit": "messages/s",
            "ours": 2e6,
            "peer": "queue",
            "theirs": 1e6,
            "ratio": 2.0,
            "better": "high",
        },
        {
            "metric": "tell",
            "unit": "messages/s",
            "ours": 2e6,
            "peer": "xoscar (absent: install actorflow[bench])",
            "theirs": None,
            "ratio": None,
            "better": "high",
        },
        {
            "metric": "ask_idle_us",
            "unit": "us",
            "ours": 1.8,
            "peer": "queue",
            "theirs": 2.0,
            "ratio": 0.9,
            "better": "low",
        },
    ]


def test_the_table_says_for_each_row_the_aims_and_whether_they_were_met() -> None:
    text = io.StringIO()
    console = Console(file=text, width=40)
    table = as_table(ROWS)

    console.width = natural_width(table, console)
    console.print(table)

    _, tell, missing, ask = [line.split() for line in text.getvalue().splitlines()]
    assert " ".join(tell) == "tell 2.00 M/s ±0% ≥ 1.00 M/s met queue 1.00 M/s ±0% 2.00x ≥ 1.50x met"
    assert " ".join(missing) == "xoscar (absent: install actorflow[bench]) ≥ 5.00x"
    assert (
        " ".join(ask) == "ask_idle_us 1.80 µs ±0% ≤ 1.50 µs missed queue 2.00 µs ±0% 0.900x ≤ 0.500x missed"
    )


def test_each_note_is_said_once() -> None:
    assert notes([*ROWS, *ROWS]) == ["tell: drained", "queue: bounded"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.65, Unit.MICROSECONDS, "0.650 µs"),
        (123.4, Unit.MICROSECONDS, "123 µs"),
        (2.5, Unit.MILLISECONDS, "2.50 ms"),
        (1_234_567.0, Unit.FIRINGS, "1.23 M/s"),
        (45_600.0, Unit.OPS, "45.6 k/s"),
        (12.0, Unit.OPS, "12.0 /s"),
    ],
)
def test_values_have_three_digits(value: float, unit: Unit, text: str) -> None:
    assert quantity(value, unit) == text


def test_ratios_have_three_digits() -> None:
    assert [times(0.1234), times(4.0), times(1234.5)] == ["0.123x", "4.00x", "1234x"]
