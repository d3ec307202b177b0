from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim.history.edn import Keyword, Symbol, parse, parse_items


def one(text: str) -> Any:
    ((value, _),) = parse(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-7", -7),
        ("12N", 12),
        ("+3", 3),
        ("2.5", 2.5),
        ("1e3", 1000.0),
        ("2.5M", 2.5),
        (":read", Keyword("read")),
        (":jepsen/op", Keyword("jepsen/op")),
        ("user/foo", Symbol("user/foo")),
        ("-", Symbol("-")),
        (r'"a\"b\n\u0041"', 'a"b\nA'),
        (r"\a", "a"),
        (r"\newline", "\n"),
        (r"\u0041", "A"),
        ("[1 (2 3), []]", (1, (2, 3), ())),
        ("{:a 1, :b {:c [2]}}", {"a": 1, "b": {"c": (2,)}}),
        ("#{1 2}", frozenset({1, 2})),
        ("; a comment\n 5 ; another", 5),
        ("[1 #_2 #_[3 4] 5]", (1, 5)),
        ('#inst "2020"', "2020"),
        ("#my/tag [1]", (1,)),
    ],
)
def test_each_kind_of_value_is_read(text: str, value: Any) -> None:
    assert one(text) == value
    assert type(one(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[1\n  2", "line 1, column 1: '[' is not closed by ']'"),
        ("\n )", "line 2, column 2: a value was expected, got ')'"),
        ("[1 }", "line 1, column 4: a value was expected, got '}'"),
        ('\n\n"abc', "line 3, column 1: the string is not closed"),
        ("{:a 1 :b}", "line 1, column 1: a map needs a value for each key, got 3 forms"),
        ("{:a 1 :a 2}", "stands there twice"),
        ("#{1 1}", "stands there twice"),
        ("{{} 1}", "a map cannot be a key of a map"),
        ("1/2", "line 1, column 1: '1/2' is no number"),
        ("12ab", "'12ab' is no number"),
        ("9" * 5000, "is no number"),
        (r'"\q"', r"line 1, column 2: no string has the escape \q"),
        (r"\blah", r"no character is named \blah"),
        (":", "a keyword needs a name"),
        ("#_", "a value was expected, got the end of the text"),
        ("[" * 200, "nested more than 100 deep"),
        ("#_" * 200, "nested more than 100 deep"),
    ],
)
def test_what_is_no_edn_is_named_with_line_and_column(text: str, what: str) -> None:
    with pytest.raises(HistoryError) as raised:
        parse(text, "f.edn")
    assert str(raised.value).startswith("f.edn, line ")
    assert what in str(raised.value)


def test_values_come_with_where_they_start() -> None:
    assert parse(" 1 [2]\n3") == ((1, 1), ((2,), 3), (3, 7))
    assert parse_items("; c\n(1 [2])") == ((1, 5), ((2,), 7))
    with pytest.raises(HistoryError, match="nothing was expected after the '\\)', got '3'"):
        parse_items("(1) 3")
    with pytest.raises(HistoryError, match="a list or vector was expected, got '{'"):
        parse_items("{}")


@given(st.text(alphabet='[](){}#_:;\\"\n ,a1-./^@'))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    refusals = []
    try:
        parse(text, "f.edn")
    except HistoryError as wrong:
        refusals.append(wrong.what)
    assert all(what.startswith("f.edn, line ") for what in refusals)
