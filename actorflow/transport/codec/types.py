"""What a message may hold and how its header says so: kinds, dtypes, limits.

See `transport.codec.message_codec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, TypeAlias

import numpy as np

from actorflow.values.arrays import NAMES, DType, as_dtype

Buffer: TypeAlias = Any
"""What has the buffer protocol: bytes, bytearray, memoryview, an array of uint8."""

ALIGN = 16
"""Memory begins at a multiple of so many bytes in a frame."""

ZEROS = bytes(ALIGN)

APART = 4096
"""Bytes from which an array or a body is sent from where it lies; smaller ones are cheaper joined."""

ROW_LEVELS = 3
"""How many rows of tuples or dicts may be columns of each other, one in one: each makes an object for every
row, and the innermost column alone has bytes for it."""

MAX_INTEGER_BYTES = 1 << 10
"""Of an integer: any that travels can be shown, since Python writes 4300 digits and these are 2466."""

MAX_RANK = 64
MAX_ARRAY = 2**63 - 1
"""The product of the dims that are not 0, in bytes; numpy's own limit."""


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What one message may be, for whoever writes and whoever reads.

    Attributes:
        frame_bytes: All of it.
        depth: Of tuples, lists and dicts in each other.
    """

    frame_bytes: int = 1 << 32
    depth: int = 32


LIMITS = MessageLimits()


class Lossy(Enum):
    """What a message may lose on its way."""

    BFLOAT16 = "bfloat16"  # the lower halves of float32


class TypeCode(IntEnum):
    """What stands next in the header."""

    ATOM = 0  # value
    INTEGER = 1  # bytes of one that msgpack cannot hold: little end first, signed
    BYTES = 2  # length; body
    ARRAY = 3  # dtype, rank, dims; body
    SCALAR = 4  # dtype, its bytes
    BYTES_ARRAY = 5  # rank, dims, elements
    LIST = 6  # length, values
    TUPLE = 7  # length, values
    DICT = 8  # length, then key and value
    ATOM_ROWS = 9  # a list from here on: n, atoms
    BYTES_ROWS = 10  # n, lengths; body
    ARRAY_ROWS = 11  # n, dtype, rank, dims of one; body
    SCALAR_ROWS = 12  # n, dtype; body
    TUPLE_ROWS = 13  # n, width, columns
    DICT_ROWS = 14  # n, width, then key and column
    RECORD = 15  # name, number of fields, their values: see `transport.codec.registry`
    PLAIN_RECORD = 16  # the same where every field is an atom: name, number of fields, atoms
    ERROR = 17  # a list: see `transport.codec.failures`
    NARROW = 18  # an array of float32 as bfloat16: rank, dims; body: see `transport.codec.bfloat16`
    TURNED = 19  # an array whose axes lie in another order: dtype, rank, dims as they lie, axes; body


ATOMS = frozenset({type(None), bool, int, float, str, bytes})
DTYPES: tuple[DType, ...] = tuple(as_dtype(name) for name in NAMES)
NATIVE = len(DTYPES)
DTYPES += tuple(  # the other byte order
    dtype.newbyteorder() for dtype in DTYPES if dtype.itemsize > 1 and dtype.kind != "V"
)
CODES: dict[DType, int] = {dtype: code for code, dtype in enumerate(DTYPES)}
BOOL = CODES[np.dtype(bool)]
