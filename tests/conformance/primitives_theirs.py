"""Primitives as TensorFlow's raw ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RawOps:
    """Builds them in the current graph; see `Primitives`."""

    def __init__(self, side: Any) -> None:
        self.side, self.tf, self.raw = side, side.tf, side.raw

    def number(self, value: int) -> Any:
        return self.tf.constant(value, self.tf.int64)

    def truth(self, value: bool) -> Any:
        return self.tf.constant(value)

    def add(self, *wires: Any, frame: str = "", after: Sequence[Any] = ()) -> Any:
        with self.tf.control_dependencies(list(after)):
            return self.raw.AddN(inputs=list(wires))

    def less(self, a: Any, b: Any, frame: str = "") -> Any:
        return self.raw.Less(x=a, y=b)

    def switch(self, data: Any, pred: Any, frame: str = "") -> tuple[Any, Any]:
        made = self.raw.Switch(data=data, pred=pred)
        return made.output_false, made.output_true

    def merge(self, *wires: Any, frame: str = "") -> tuple[Any, Any]:
        made = self.raw.Merge(inputs=list(wires))
        return made.output, made.value_index

    def enter(self, x: Any, name: str, frame: str = "", *, constant: bool = False, parallel: int = 10) -> Any:
        return self.raw.Enter(data=x, frame_name=name, is_constant=constant, parallel_iterations=parallel)

    def exit(self, x: Any, frame: str) -> Any:
        return self.raw.Exit(data=x)

    def next_iteration(self, x: Any, frame: str) -> Any:
        return self.raw.NextIteration(data=x)

    def loop_cond(self, x: Any, frame: str) -> Any:
        return self.raw.LoopCond(input=x)

    def loop_merge(self, entered: Any, frame: str) -> Any:
        return self.raw.Merge(inputs=[entered, entered]).output

    def close(self, merged: Any, back: Any) -> None:
        merged.op._update_input(1, back)

    def run(self, *wires: Any) -> Any:
        found = self.side.run(list(wires))
        return found if isinstance(found, str) else [int(v) for v in found]
