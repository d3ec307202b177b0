"""Bytes to tensors and back, records of files, and graphs as plain data.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.graph.serial import from_data, to_data
from actorflow.ops.text.encoding import decode_base64, decode_raw, encode_base64, encode_raw
from actorflow.ops.text.records import parse_csv, parse_example

__all__ = [
    "decode_base64", "decode_raw", "encode_base64", "encode_raw", "from_data", "parse_csv", "parse_example",
    "to_data",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
