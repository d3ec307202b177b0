"""Settings of links reach other processes as a text, whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cluster.link_text import format_settings, parse_settings, silent_after
from actorflow.errors import ConfigError
from actorflow.transport.codec.types import Lossy
from actorflow.transport.rules.chunks import CHUNK_BYTES
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.delivery import SendWindow
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings

windows = st.builds(Window, st.integers(1, 9999), st.integers(1, 1 << 40))


@st.composite
def drawn(draw: Any) -> LinkSettings:
    silence_s = draw(st.floats(0.1, 1e4))
    beat_s = silence_s * draw(st.floats(0.1, 0.5))
    resend_s = beat_s * draw(st.floats(0.1, 1.0))
    return LinkSettings(
        window=draw(windows),
        control=draw(windows),
        flight=draw(st.builds(SendWindow, st.integers(1, 64), st.integers(CHUNK_BYTES, 1 << 30))),
        silence_s=silence_s,
        busy_s=silence_s * draw(st.floats(1.0, 10.0)),
        gone_s=draw(st.floats(0.01, 100.0)),
        heartbeat_s=beat_s,
        resend_s=resend_s,
        ack_s=resend_s / 2,
        lossy=draw(st.sampled_from([None, Lossy.BFLOAT16])),
    )


@given(given_=drawn())
def test_what_is_told_is_read_again(given_: LinkSettings) -> None:
    assert parse_settings(format_settings(given_)) == given_


def test_what_is_usual_is_not_told() -> None:
    assert format_settings(SETTINGS) == ""
    assert parse_settings("") == SETTINGS
    assert (
        format_settings(LinkSettings(silence_s=30.0, lossy=Lossy.BFLOAT16)) == "silence_s=30.0,lossy=bfloat16"
    )


@pytest.mark.parametrize("text", ["speed=9", "silence_s", "silence_s=soon", "window=3", "lossy=all"])
def test_what_settings_have_not_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"links are told as NAME=VALUE, with commas between, got '"):
        parse_settings(text)


@given(drawn(), st.floats(0.05, 1e4))
def test_silence_is_set_with_what_must_fit_to_it(given_: LinkSettings, silence_s: float) -> None:
    made = silent_after(silence_s, given_)
    assert made.silence_s == silence_s
    if silence_s >= given_.silence_s:
        assert (made.heartbeat_s, made.resend_s, made.ack_s) == (
            given_.heartbeat_s,
            given_.resend_s,
            given_.ack_s,
        )
