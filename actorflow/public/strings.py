"""Strings of bytes: cutting, joining, matching and hashing.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.ops.text.encoding import as_bytes, decode_utf8, to_number
from actorflow.ops.text.strings import bytes_join as join
from actorflow.ops.text.strings import bytes_length as length
from actorflow.ops.text.strings import bytes_lower as lower
from actorflow.ops.text.strings import bytes_slice as slice
from actorflow.ops.text.strings import bytes_split as split
from actorflow.ops.text.strings import bytes_strip as strip
from actorflow.ops.text.strings import bytes_upper as upper
from actorflow.ops.text.strings import hash_bucket, regex_match, regex_replace

__all__ = [
    "as_bytes", "decode_utf8", "hash_bucket", "join", "length", "lower", "regex_match", "regex_replace",
    "slice", "split", "strip", "to_number", "upper",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
