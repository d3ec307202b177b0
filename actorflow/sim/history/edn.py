"""Reads EDN, the data notation of Clojure, in which Jepsen and its kin write histories.

nil, booleans, numbers, strings, characters, keywords, symbols, lists, vectors, maps, sets, comments,
`#_` and tagged values. Lists and vectors become tuples, maps dicts, sets frozensets, and a tagged
value is just its value.

SOURCE: github.com/edn-format/edn. Deviations: a decimal with M becomes a float; a map cannot be a key of a
map or a member of a set; a ratio is refused.
"""

from __future__ import annotations

import re
from typing import Any

from actorflow.errors import HistoryError

DEPTH = 100  # how deep values may be nested
DIGITS = 4_000  # how long an integer may be; Python's own limit is a little higher


class Keyword(str):
    """A name that stands for itself, such as `:read`; the colon is left out."""

    __slots__ = ()


class Symbol(str):
    """A name that stands for something else, such as `user/foo`."""

    __slots__ = ()


def parse(text: str, source: str = "<text>", start: int = 0) -> tuple[tuple[Any, int], ...]:
    """Returns the values in `text` from offset `start` on, each with the offset at which it starts.

    Raises:
        HistoryError: The text is no EDN; the message has the source, the line and the column.
    """
    reader = _Reader(text, source)
    reader.at = start
    values = []
    while (at := reader.skip()) < len(text):
        values.append((reader.value(0), at))
    return tuple(values)


def parse_items(text: str, source: str = "<text>") -> tuple[tuple[Any, int], ...]:
    """Returns the elements of the one list or vector that `text` is, each with its offset."""
    reader = _Reader(text, source)
    start = reader.skip()
    opening = text[start : start + 1]
    if opening not in ("(", "["):
        message = f"a list or vector was expected, got {opening or 'the end of the text'!r}"
        raise reader.wrong(message, start)
    items = reader.items(opening, 0)
    if (rest := reader.skip()) < len(text):
        message = f"nothing was expected after the {_CLOSING[opening]!r}, got {text[rest]!r}"
        raise reader.wrong(message, rest)
    return tuple(items)


def place(text: str, at: int, source: str) -> str:
    """Returns `file, line 3, column 7` for the character at offset `at`."""
    line = text.count("\n", 0, at) + 1
    return f"{source}, line {line}, column {at - text.rfind(chr(10), 0, at)}"


_BLANK = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTER = re.compile(r"\\(u[0-9a-fA-F]{4}|[a-z]{2,}|.)", re.DOTALL)
_WORD = re.compile(r"[^\s,;\"\\()\[\]{}^`~@]+")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_FLOAT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NAMES = {"nil": None, "true": True, "false": False}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "#{": "}"}


class _Reader:
    """Goes through the text once; `at` is the next character to look at."""

    __slots__ = ("at", "source", "text")

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = 0

    def wrong(self, what: str, at: int) -> HistoryError:
        return HistoryError(f"{place(self.text, at, self.source)}: {what}")

    def skip(self, depth: int = 0) -> int:
        """Moves to the next value, over blanks, comments and discarded values; returns where it is."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if not self.text.startswith("#_", self.at):
                return self.at
            self.at += 2
            self.value(depth + 1)

    def value(self, depth: int) -> Any:
        start = self.skip(depth)
        if depth > DEPTH:
            message = f"values are nested more than {DEPTH} deep"
            raise self.wrong(message, start)
        first = self.text[start : start + 1]
        if first == "":
            raise self.wrong("a value was expected, got the end of the text", start)
        if first == '"':
            return self.string()
        if first == "\\":
            return self.character()
        if first in "([{" or self.text.startswith("#{", start):
            return self.collection("#{" if first == "#" else first, depth)
        word = _WORD.match(self.text, start)
        if word is None:
            message = f"a value was expected, got {first!r}"
            raise self.wrong(message, start)
        self.at = word.end()
        return self.value(depth + 1) if first == "#" else self.atom(word[0], start)

    def items(self, opening: str, depth: int) -> list[tuple[Any, int]]:
        """Reads from `opening` to what closes it; returns what is between, with offsets."""
        start = self.at
        self.at += len(opening)
        closing = _CLOSING[opening]
        items: list[tuple[Any, int]] = []
        while (at := self.skip(depth)) < len(self.text) and self.text[at] != closing:
            items.append((self.value(depth + 1), at))
        if at == len(self.text):
            message = f"{opening!r} is not closed by {closing!r}"
            raise self.wrong(message, start)
        self.at += 1
        return items

    def collection(self, opening: str, depth: int) -> Any:
        start = self.at
        items = [value for value, _ in self.items(opening, depth)]
        if opening in "([":
            return tuple(items)
        if opening == "{" and len(items) % 2:
            message = f"a map needs a value for each key, got {len(items)} forms"
            raise self.wrong(message, start)
        names = items[::2] if opening == "{" else items
        try:
            distinct = frozenset(names)
        except TypeError as wrong:
            raise self.wrong("a map cannot be a key of a map or a member of a set", start) from wrong
        if len(distinct) < len(names):
            raise self.wrong("a key of a map, or a member of a set, stands there twice", start)
        return dict(zip(names, items[1::2], strict=True)) if opening == "{" else distinct

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self.wrong("the string is not closed", self.at)
        start, self.at = self.at + 1, found.end()
        if "\\" not in found[1]:
            return found[1]
        return _ESCAPE.sub(lambda escape: self.escaped(escape[1], start + escape.start()), found[1])

    def escaped(self, name: str, at: int) -> str:
        if len(name) == 5:
            return chr(int(name[1:], 16))
        if name not in _ESCAPED:
            message = f"no string has the escape \\{name}"
            raise self.wrong(message, at)
        return _ESCAPED[name]

    def character(self) -> str:
        start = self.at
        found = _CHARACTER.match(self.text, start)
        if found is None:
            raise self.wrong("a character was expected after \\", start)
        self.at = found.end()
        name = found[1]
        if len(name) == 1:
            return name
        if name.startswith("u"):
            return chr(int(name[1:], 16))
        if name not in _CHARACTERS:
            message = f"no character is named \\{name}"
            raise self.wrong(message, start)
        return _CHARACTERS[name]

    def atom(self, word: str, start: int) -> Any:
        if word in _NAMES:
            return _NAMES[word]
        if word[0] == ":":
            if word in {":", "::"}:
                raise self.wrong("a keyword needs a name", start)
            return Keyword(word[1:])
        if word[0].isdigit() or (word[0] in "+-" and word[1:2].isdigit()):
            if _INTEGER.fullmatch(word) and len(word) <= DIGITS:
                return int(word.rstrip("N"))
            if _FLOAT.fullmatch(word) and not _WHOLE.fullmatch(word):
                return float(word.rstrip("M"))
            message = f"{word!r} is no number"
            raise self.wrong(message, start)
        return Symbol(word)
