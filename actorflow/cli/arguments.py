"""Argument types that say what they wanted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from actorflow.cli.own_policy import OwnPolicy, own
from actorflow.cluster.link_text import parse_settings
from actorflow.coord.rules.policy import Policy
from actorflow.errors import ConfigError
from actorflow.transport.rules.link_settings import LOCAL, LinkSettings

if TYPE_CHECKING:
    from actorflow.cluster.delay import Delay

T = TypeVar("T")

MOST_PROCESSES = 4096
"""Of a kind in a simulation: 20 times what the paper has, and some minutes."""

_DIGITS = 18


def natural(text: str) -> int:
    """Returns an integer of at least 0."""
    return _integer(text, 0)


def positive(text: str) -> int:
    """Returns an integer of at least 1."""
    return _integer(text, 1)


def several(text: str) -> int:
    """Returns an integer of at least 2."""
    return _integer(text, 2)


def processes(text: str) -> int:
    """Returns how many processes a simulation has of a kind: 1 to MOST_PROCESSES."""
    return _integer(text, 1, MOST_PROCESSES)


def seconds(text: str) -> float:
    """Returns a number of seconds above 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        message = f"must be a number of seconds above 0, got {text[:60]!r}"
        raise argparse.ArgumentTypeError(message)
    return found


def often(text: str) -> float:
    """Returns how many seconds lie between two looks: 0.1 to 3600."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 3600:
        message = f"must be a number of seconds between 0.1 and 3600, got {text[:60]!r}"
        raise argparse.ArgumentTypeError(message)
    return found


def policy(text: str) -> Policy | OwnPolicy:
    """Returns the policy that a text names, or what names one's own."""
    return _read(lambda said: own(said) or Policy.parse(said), text)


def links(text: str) -> LinkSettings:
    """Returns what links may hold and how long they wait."""
    return _read(parse_settings, text)


def parse_delay(text: str) -> Delay:
    """Returns what holds workers up."""
    from actorflow.cluster.delay import delay  # with all of the simulator, which is slow to load

    return _read(delay, text)


def local_links(text: str) -> LinkSettings:
    """The same between processes of one machine, which notice sooner that one is gone."""
    return _read(lambda said: parse_settings(said, LOCAL), text)


def _read(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _integer(text: str, least: int, most: int | None = None) -> int:
    whole = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    if not whole or int(text) < least or (most is not None and int(text) > most):
        limits = f"of at least {least}" if most is None else f"between {least} and {most}"
        message = f"must be an integer {limits}, got {text[:60]!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)
