"""The text of a policy in parts, and back: a name, numbers, and options. Pure.

backup : 3/4 ,short=wait ,wait_s=30
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.errors import ConfigError
from actorflow.values.checks import is_whole

_FORM = re.compile(r"(?P<name>[a-z]+)(?::(?P<args>[a-z0-9/]{1,40}))?(?P<options>(?:,[a-z_]+=[^,=]+)*)")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?")
_COUNT = re.compile(r"[0-9]{1,18}")
_KNOWN = "async, sync, backup:M/N, backup:auto/N, stale:BOUND"


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A text of the form of a policy.

    Attributes:
        text: All of it.
        name: What stands before the first `:`.
        args: What stands behind it, split by `/`; one that is empty when there is nothing.
        options: What follows, by name: `short` and `rate` as text, `wait_s` as a number, others as
            whole numbers.
    """

    text: str
    name: str
    args: tuple[str, ...]
    options: Mapping[str, Any]

    def unknown(self) -> ConfigError:
        """Returns what says that there is no such policy."""
        return _unknown(self.text)


def parse_text(text: Any) -> PolicyText:
    """Returns the parts of a text.

    Raises:
        ConfigError: it has not the form of a policy, or says something twice.
    """
    found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise _unknown(text)
    options: dict[str, Any] = {}
    for option in filter(None, found["options"].split(",")):
        key, _, value = option.partition("=")
        if key in options:
            message = f"a policy says its {key} once, got {text!r}"
            raise ConfigError(message)
        options[key] = _value(text, key, value)
    return PolicyText(text, found["name"], tuple((found["args"] or "").split("/")), options)


def _value(text: str, key: str, value: str) -> Any:
    if key in ("short", "rate"):
        return value  # the policy looks
    if key == "wait_s" and value == "inf":
        return math.inf
    if key in ("wait_s", "measure", "keep") and _COUNT.fullmatch(value):
        return int(value)
    if key == "wait_s" and _SECONDS.fullmatch(value) and math.isfinite(float(value)):
        return float(value)
    raise _unknown(text)


def with_options(text: str, values: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """Returns a text with those of its values that are not as usual, so that they read back as they are."""
    for key, value in values.items():
        if value != usual[key]:
            text += f",{key}={_format(value)}"
    return text


def _format(value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_whole(value):
        return str(int(value))
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _unknown(text: Any) -> ConfigError:
    what = f"a policy is one of {_KNOWN}, got {text!r:.60}"
    hint = (
        "add ',short=lower', 'wait' or 'fail', and ',wait_s=SECONDS'; to async and stale ',rate=shared'; "
        "to backup:auto ',measure=N', ',keep=N'"
    )
    return ConfigError(what, hint=hint)
