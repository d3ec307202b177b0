"""msgpack-numpy: arrays as maps in msgpack; what is packed is one piece of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

NOTE = "packing copies the array, and so does unpacking"

msgpack: Any = import_module("msgpack")
numpy_of: Any = import_module("msgpack_numpy")  # types of it would be wanted where it is not installed


def encode(value: Any) -> Sequence[Any]:
    """Returns one piece."""
    return (msgpack.packb(value, default=numpy_of.encode),)


def decode(pieces: Sequence[Any]) -> Any:
    """Returns the value of it."""
    return msgpack.unpackb(pieces[0], object_hook=numpy_of.decode)
