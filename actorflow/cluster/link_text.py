"""Settings of links as a text, by which they reach the processes that are started with them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from actorflow.errors import ConfigError
from actorflow.transport.codec.types import Lossy
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.delivery import SendWindow
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings

_PAIRS: dict[str, Any] = {"window": Window, "control": Window, "flight": SendWindow}


def format_settings(settings: LinkSettings) -> str:
    """Returns what differs from the usual settings, as `parse_settings` reads it.

    `silence_s=1.0,gone_s=0.3`.
    """
    differ = [f.name for f in fields(LinkSettings) if getattr(settings, f.name) != getattr(SETTINGS, f.name)]
    return ",".join(f"{name}={_format(getattr(settings, name))}" for name in differ)


def parse_settings(text: str, given: LinkSettings = SETTINGS) -> LinkSettings:
    """Returns settings with what a text says of them.

    Raises:
        ConfigError: it says nothing that settings may be.
    """
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            found[name] = _read(name, value)
        except (ValueError, KeyError):
            names = ", ".join(f.name for f in fields(LinkSettings))
            message = f"links are told as NAME=VALUE, with commas between, got {part!r:.60}"
            raise ConfigError(message, hint=f"silence_s=30,gone_s=5; there are {names}") from None
    return replace(given, **found)


def silent_after(silence_s: float, given: LinkSettings = SETTINGS) -> LinkSettings:
    """Returns settings by which a peer is lost after so long; no other wait is too long for that."""
    part = silence_s / given.silence_s
    beat_s = min(given.heartbeat_s, given.heartbeat_s * part)
    resend_s = min(given.resend_s, given.resend_s * part)
    busy_s = max(given.busy_s, silence_s)
    return replace(
        given,
        silence_s=silence_s,
        busy_s=busy_s,
        heartbeat_s=beat_s,
        resend_s=resend_s,
        ack_s=min(given.ack_s, given.ack_s * part),
    )


def _format(value: Any) -> str:
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return value.value if isinstance(value, Lossy) else str(value)


def _read(name: str, value: str) -> Any:
    if name in _PAIRS:
        first, second = map(int, value.split(":"))
        return _PAIRS[name](first, second)
    if name == "lossy":
        return None if value == "None" else Lossy(value)
    if name not in {f.name for f in fields(LinkSettings)}:
        raise KeyError(name)
    return float(value)
