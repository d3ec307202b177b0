"""Python's operators on whatever stands for a tensor: each builds the op of its name."""

from __future__ import annotations

from typing import Any

from actorflow.errors import GraphError
from actorflow.graph.concretisation import Valueless, refuse_ufunc
from actorflow.graph.tensor_methods import Methods
from actorflow.graph.tensor_methods import call as _call

_OPERATORS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "pow",
    "floor_divide": "floor_divide", "remainder": "remainder", "matmul": "matmul", "less": "less",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip
"""Universal function of numpy -> the op that it is as an operator of Python."""


class Operators(Methods, Valueless):
    """What tensors and variables share: arithmetic, bits, ordering, `@` and indexing.

    The constructors are found by name in the table, so that the graph need not know the ops.

    `==` and `!=` build nothing.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        """Operators whose left side is an array; numpy has no other way to say so than its functions."""
        name = ufunc.__name__
        if method == "__call__" and settings.keys() <= {"out"}:  # `array += tensor` gives the array as out
            if name in _OPERATORS:
                return _call(_OPERATORS[name], *inputs)
            if name == "divmod":
                return _divmod(*inputs)
            # `array == tensor`: as if the tensor stood on the left.
            if name in ("equal", "not_equal"):
                other = next((v for v in inputs if v is not self), self)
                return self == other if name == "equal" else self != other
        return refuse_ufunc(self, name)

    # fmt: off
    def __add__(self, other: Any) -> Any: return _call("add", self, other)
    def __radd__(self, other: Any) -> Any: return _call("add", other, self)
    def __sub__(self, other: Any) -> Any: return _call("subtract", self, other)
    def __rsub__(self, other: Any) -> Any: return _call("subtract", other, self)
    def __mul__(self, other: Any) -> Any: return _call("multiply", self, other)
    def __rmul__(self, other: Any) -> Any: return _call("multiply", other, self)
    def __truediv__(self, other: Any) -> Any: return _call("divide", self, other)
    def __rtruediv__(self, other: Any) -> Any: return _call("divide", other, self)
    def __floordiv__(self, other: Any) -> Any: return _call("floor_divide", self, other)
    def __rfloordiv__(self, other: Any) -> Any: return _call("floor_divide", other, self)
    def __mod__(self, other: Any) -> Any: return _call("remainder", self, other)
    def __rmod__(self, other: Any) -> Any: return _call("remainder", other, self)
    def __pow__(self, other: Any) -> Any: return _call("pow", self, other)
    def __rpow__(self, other: Any) -> Any: return _call("pow", other, self)
    def __matmul__(self, other: Any) -> Any: return _call("matmul", self, other)
    def __rmatmul__(self, other: Any) -> Any: return _call("matmul", other, self)
    def __neg__(self) -> Any: return _call("negative", self)
    def __abs__(self) -> Any: return _call("abs", self)
    def __pos__(self) -> Any: return _call("positive", self)
    def __divmod__(self, other: Any) -> Any: return _divmod(self, other)
    def __rdivmod__(self, other: Any) -> Any: return _divmod(other, self)
    def __and__(self, other: Any) -> Any: return _call("bitwise_and", self, other)
    def __rand__(self, other: Any) -> Any: return _call("bitwise_and", other, self)
    def __or__(self, other: Any) -> Any: return _call("bitwise_or", self, other)
    def __ror__(self, other: Any) -> Any: return _call("bitwise_or", other, self)
    def __xor__(self, other: Any) -> Any: return _call("bitwise_xor", self, other)
    def __rxor__(self, other: Any) -> Any: return _call("bitwise_xor", other, self)
    def __invert__(self) -> Any: return _call("bitwise_invert", self)
    def __lshift__(self, other: Any) -> Any: return _call("bitwise_left_shift", self, other)
    def __rlshift__(self, other: Any) -> Any: return _call("bitwise_left_shift", other, self)
    def __rshift__(self, other: Any) -> Any: return _call("bitwise_right_shift", self, other)
    def __rrshift__(self, other: Any) -> Any: return _call("bitwise_right_shift", other, self)
    def __lt__(self, other: Any) -> Any: return _call("less", self, other)
    def __le__(self, other: Any) -> Any: return _call("less_equal", self, other)
    def __gt__(self, other: Any) -> Any: return _call("greater", self, other)
    def __ge__(self, other: Any) -> Any: return _call("greater_equal", self, other)
    def __getitem__(self, index: Any) -> Any: return _call("slice", self, index)
    # fmt: on

    def __round__(self, digits: Any = None) -> Any:
        if digits is not None:
            message = f"round() of a tensor gives whole numbers, got {digits!r:.60} digits"
            raise GraphError(message, hint="scale it: round(tensor * 100) / 100")
        return _call("round", self)

    def is_same(self, other: object) -> bool:
        """Tells whether `other` stands for the same tensor; `==` without an error."""
        return self is other

    def __eq__(self, other: object) -> bool:
        # Keys of dictionaries and members of sets are compared so, and need a Python bool. To answer False
        # for a comparison of values would be wrong without a word: all but the same tensor is refused.
        if self.is_same(other):
            return True
        if other is None:  # what `gradients` gives where nothing flows
            return False
        message = f"== of tensors compares no values, got {self!r} == {other!r:.60}"
        raise GraphError(message, hint="use af.equal(a, b), or `is` to compare the Python objects")

    def __ne__(self, other: object) -> bool:
        if self.is_same(other):
            return False
        if other is None:
            return True
        message = f"!= of tensors compares no values, got {self!r} != {other!r:.60}"
        hint = "use af.not_equal(a, b), or `is not` to compare the Python objects"
        raise GraphError(message, hint=hint)

    def __hash__(self) -> int:
        # Defining `__eq__` took the inherited hash away.
        return object.__hash__(self)


class OneArray(Operators):
    """What stands for one array, unlike `IndexedSlices`: tensors and variables."""

    __slots__ = ()


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    return _call("floor_divide", a, b), _call("remainder", a, b)
