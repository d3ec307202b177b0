"""Lists of hosts as Slurm writes them: `gpu[01-03,7],login,rack[1-2]n[08-10]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import prod

from actorflow.errors import ConfigError, show_value

MOST = 1 << 16
"""Hosts that a list may name; the largest machines have fewer."""

_ITEM = re.compile(r"(?:[^\s,\[\]]|\[[0-9,-]+\])+")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def hosts(text: str) -> list[str]:
    """Returns the hosts of a list, in its order.

    A number keeps the zeros in front of the first of its range. Several brackets in a name are counted like
    digits, the last one fastest.

    Raises:
        ConfigError: for a list that cannot be read, is empty, or names more than `MOST` hosts.

    >>> from actorflow.launch.nodelist import hosts
    >>> hosts("rack[1-2]n[08-09],login")
    ['rack1n08', 'rack1n09', 'rack2n08', 'rack2n09', 'login']
    """
    found: list[str] = []
    at = 0
    while at <= len(text):
        item = _ITEM.match(text, at)
        if item is None or (item.end() < len(text) and text[item.end()] != ","):
            raise _unreadable(text)
        pieces = [list(_numbers(i, text)) if i else [name] for i, name in _PIECE.findall(item[0])]
        if len(found) + prod(map(len, pieces)) > MOST:
            raise _too_many(text)
        found += ["".join(chosen) for chosen in product(*pieces)]
        at = item.end() + 1
    return found


def _numbers(inside: str, text: str) -> Iterator[str]:
    count = 0
    for part in inside.split(","):
        read = _RANGE.fullmatch(part)
        if read is None:
            raise _unreadable(text)
        first, last = read[1], read[2] or read[1]
        if max(len(first), len(last)) > 9 or int(last) < int(first):
            raise _unreadable(text)
        count += int(last) - int(first) + 1
        if count > MOST:
            raise _too_many(text)
        yield from (f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1))


def _unreadable(text: str) -> ConfigError:
    return ConfigError(f"a list of hosts must look like node[01-03,7],login, got {show_value(text)}")


def _too_many(text: str) -> ConfigError:
    return ConfigError(f"a list of hosts may name {MOST}, got more in {show_value(text)}")
