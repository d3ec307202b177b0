"""Argument types that say what they wanted."""

from __future__ import annotations

import argparse


def natural(text: str) -> int:
    """Returns an integer of at least 0."""
    return _integer(text, 0)


def positive(text: str) -> int:
    """Returns an integer of at least 1."""
    return _integer(text, 1)


def several(text: str) -> int:
    """Returns an integer of at least 2."""
    return _integer(text, 2)


def _integer(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        message = f"must be an integer of at least {least}, got {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)
