"""Methods of tensors: those that mean one thing in numpy, PyTorch and TensorFlow.

Where these differ (`transpose(0, 1)`, `repeat`, `std`, `size`) there is none, and the error names the
function of `af` that says which is meant.
"""

from __future__ import annotations

from typing import Any

from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.runtime.name_hints import FETCH, METHODS, missing_method


class Methods:
    """Methods that stand for functions of `af` of their name."""

    __slots__ = ()

    # fmt: off
    def sum(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.sum`."""
        return call("sum", self, axis, keepdims, **other)

    def mean(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.mean`."""
        return call("mean", self, axis, keepdims, **other)

    def prod(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.prod`."""
        return call("prod", self, axis, keepdims, **other)

    def max(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.max`: the values alone."""
        return call("max", self, axis, keepdims, **other)

    def min(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.min`: the values alone."""
        return call("min", self, axis, keepdims, **other)

    def all(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.all`."""
        return call("all", self, axis, keepdims, **other)

    def any(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.any`."""
        return call("any", self, axis, keepdims, **other)

    def argmax(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.argmax`."""
        return call("argmax", self, axis, keepdims, **other)

    def argmin(self, axis: Any = None, keepdims: Any = False, **other: Any) -> Any:
        """`af.argmin`."""
        return call("argmin", self, axis, keepdims, **other)
    # fmt: on

    def reshape(self, *shape: Any, **other: Any) -> Any:
        """`af.reshape`; the sizes one by one, or as one list, tuple or tensor."""
        if not shape:
            return call("reshape", self, **other)
        several = len(shape) > 1 or isinstance(shape[0], int)
        return call("reshape", self, shape if several else shape[0], **other)

    def flatten(self, **other: Any) -> Any:
        """`af.arrays.flatten` into one axis."""
        return call("flatten", self, **other)

    def squeeze(self, axis: Any = None, **other: Any) -> Any:
        """`af.squeeze`."""
        return call("squeeze", self, axis, **other)

    def clip(self, min: Any = None, max: Any = None, **other: Any) -> Any:
        """`af.clip`."""
        return call("clip", self, min, max, **other)

    def astype(self, dtype: Any, **other: Any) -> Any:
        """`af.cast`."""
        return call("cast", self, dtype, **other)

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        shape: Any = self.shape
        if shape is None or len(shape) != 2:
            of = "tensors of unknown rank" if shape is None else f"{len(shape)} axes"
            message = f"T transposes matrices, got {self!r}, of {of}"
            hint = "use tensor.mT for matrices in the last two axes, or af.transpose(tensor, axes)"
            raise SpecError(message, hint=hint)
        return self.mT

    @property
    def mT(self) -> Any:
        """The transposes of the matrices in the last two axes: `af.matrix_transpose`."""
        return call("matrix_transpose", self)

    @property
    def ndim(self) -> int | None:
        """The number of axes; None when it is not known."""
        shape: Any = self.shape
        return None if shape is None else len(shape)

    def __getattr__(self, name: str) -> Any:
        raise missing_method(self, name, _INSTEAD, "use af.{0}(tensor)")


_VALUES = ("item", "numpy", "tolist", "eval", "data", "value", "tobytes")
_INSTEAD = {**METHODS, **dict.fromkeys(_VALUES, FETCH)}


def call(op: str, *args: Any, **named: Any) -> Any:
    """Builds an op by its name, so that the graph need not know the ops."""
    return opdef.lookup(op).constructor(*args, **named)
