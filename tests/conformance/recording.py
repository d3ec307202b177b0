"""What TensorFlow came to, kept as text: one line a case, for eyes and for diffs.

An array is `{"float32": [[1, 2], [3, 4]]}`, with its shape where it has no elements; bytes are ASCII
text. A number of Python, or a failure such as "out of range", stands for itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).parent / "recorded.json"
TOLERANCE = 1e-5
"""By how much floats may differ, of the larger of 1 and the size of the one that is wanted."""


def encoded(value: Any) -> Any:
    """A value, or a structure of values, as JSON has it."""
    if isinstance(value, np.ndarray | np.generic | bytes):
        array = np.asarray(value, object if isinstance(value, bytes) else None)
        kind = array.dtype.name if array.dtype.kind in "biufc" else "bytes"
        made = {kind: _text(array.tolist()) if kind == "bytes" else _short(array.tolist(), array.dtype)}
        return made if array.size else made | {"shape": list(array.shape)}
    if isinstance(value, tuple | list):
        return [encoded(v) for v in value]
    assert value is None or isinstance(value, bool | int | float | str), f"no case comes to {value!r}"
    return value


def _text(value: Any) -> Any:
    return [_text(v) for v in value] if isinstance(value, list) else value.decode("ascii")


def _short(value: Any, dtype: Any) -> Any:
    """Floats with as many digits as their dtype tells apart; whole ones without a point."""
    if isinstance(value, list):
        return [_short(v, dtype) for v in value]
    if dtype.kind != "f":
        return value
    plain = float(str(dtype.type(value)))
    return int(plain) if plain.is_integer() else plain


def difference(wanted: Any, found: Any, at: str = "") -> str | None:
    """How what was found differs from what is wanted, both encoded; None when it does not."""
    place = at or "the whole"
    if isinstance(wanted, dict) and isinstance(found, dict):
        if list(wanted) != list(found):
            return f"{place} is of {' '.join(found)}, not {' '.join(wanted)}"
        return next(filter(None, (difference(wanted[k], found[k], at) for k in wanted)), None)
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return f"{place} has {len(found)} entries, not {len(wanted)}: {found}"
        pairs = enumerate(zip(wanted, found, strict=True))
        return next(filter(None, (difference(w, f, f"{at}[{k}]") for k, (w, f) in pairs)), None)
    if _number(wanted) and _number(found):
        same = abs(wanted - found) <= TOLERANCE * max(1.0, abs(wanted)) or wanted == found
        return None if same else f"{place} is {found}, not {wanted}"
    return None if (type(wanted), wanted) == (type(found), found) else f"{place} is {found}, not {wanted}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def written(version: str, outcomes: Mapping[str, Any]) -> str:
    """The text of encoded outcomes by case."""
    lines = [f"{json.dumps(name)}: {json.dumps(outcomes[name])}" for name in sorted(outcomes)]
    return f'{{"tensorflow": {json.dumps(version)}, "cases": {{\n' + ",\n".join(lines) + "\n}}\n"


def read() -> tuple[str, dict[str, Any]]:
    """The version of TensorFlow, and the encoded outcomes by case."""
    kept = json.loads(KEPT.read_text())
    return kept["tensorflow"], kept["cases"]
