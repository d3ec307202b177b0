"""What torch answered, kept as text: a line a case, with its inputs, outputs, weights and gradients.

So that ours are compared with torch's where no torch is. A line is a JSON object; a tensor in it is
`{"float64": [2, 3], "of": [...]}`, its elements row by row. Floating answers have 13 digits.
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from actorflow.values.arrays import as_dtype

KEPT = Path(__file__).parent / "recorded" / "torch.jsonl"


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of torch's op, arrays in the place of tensors; `settled` as `Entry.settled` knows it.

    `still` tells which floating inputs, counted from 0, torch's op has no gradient for.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    settled: str = ""
    still: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What torch made of a call.

    The gradients are those of the sum of all differentiable outputs times their weights, for each
    floating input, in their order; None where an output or an input has none, and no gradients at
    all when torch's op has none.
    """

    op: str
    call: Call
    outputs: list[np.ndarray]
    weights: list[np.ndarray | None] = field(default_factory=list)
    gradients: list[np.ndarray | None] = field(default_factory=list)


def written(answers: Iterable[Answer]) -> str:
    """The text of answers."""
    return "".join(json.dumps(_of_answer(a), ensure_ascii=False) + "\n" for a in answers)


def read() -> Iterator[Answer]:
    """All answers that are kept."""
    for line in KEPT.read_text().splitlines():
        yield _answer(json.loads(line))


def _of_answer(answer: Answer) -> dict[str, Any]:
    made: dict[str, Any] = {"op": answer.op, "args": [encoded(a) for a in answer.call.args]}
    if answer.call.kwargs:
        made["kwargs"] = {k: encoded(v) for k, v in answer.call.kwargs.items()}
    if answer.call.settled:
        made["settled"] = answer.call.settled
    made["outputs"] = [encoded(o) for o in answer.outputs]
    if answer.gradients:
        made["weights"] = [encoded(w) for w in answer.weights]
        made["gradients"] = [encoded(g) for g in answer.gradients]
    return made


def _answer(line: dict[str, Any]) -> Answer:
    call = Call(
        tuple(decoded(a) for a in line["args"]),
        {k: decoded(v) for k, v in line.get("kwargs", {}).items()},
        line.get("settled", ""),
    )
    lists = [[decoded(v) for v in line.get(key, [])] for key in ("outputs", "weights", "gradients")]
    return Answer(line["op"], call, *lists)


def encoded(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        flat = array.reshape(-1)
        if array.dtype.kind == "c":
            flat = np.stack([flat.real, flat.imag], -1).reshape(-1)
        exact = array.dtype.kind in "biu"
        elements = flat.tolist() if exact else [float(f"{float(v):.13g}") for v in flat]
        return {array.dtype.name: list(array.shape), "of": [_short(e) for e in elements]}
    if isinstance(value, builtins.slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, tuple):
        return {"tuple": [encoded(v) for v in value]}
    return [encoded(v) for v in value] if isinstance(value, list) else value


def _short(element: Any) -> Any:
    """A whole float without its point."""
    return int(element) if isinstance(element, float) and element.is_integer() and element else element


def decoded(value: Any) -> Any:
    """The value of what `encoded` made."""
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "slice" in value:
        return builtins.slice(*value["slice"])
    if "ellipsis" in value:
        return Ellipsis
    if "tuple" in value:
        return tuple(decoded(v) for v in value["tuple"])
    (name, shape), (_, elements) = value.items()
    dtype = as_dtype(name)
    flat = np.asarray(elements, "float64" if dtype.kind not in "biu" else dtype)
    if dtype.kind == "c":
        flat = flat[0::2] + 1j * flat[1::2]
    return flat.astype(dtype).reshape(shape)
