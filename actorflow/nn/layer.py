"""What all layers share: a name that is free, variables under it, a scope for calls, and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actorflow.arrays import DType, as_dtype, is_floating
from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, name_scope, source_line
from actorflow.graph.graph import current
from actorflow.ops.state import Initial, Variable
from actorflow.spec import Dim, merge


class Layer:
    """A named set of variables, and what to compute with them. Subclass it for a layer of your own.

    A subclass makes its variables in `__init__` with `variable`, and builds ops in `__call__` inside
    `with self.scope():`. A call that differs in training has a keyword argument `training`.

    Attributes:
        name: The full name, name scopes included; those of its variables begin with it.
        defined_at: The source line that made the layer.
        variables: Its variables, those of layers inside it as well, in the order in which they were made.

    Args:
        kind: What it is called without a name: `kind`, or `kind_1` … when variables have that name.
        name: The name inside the current name scope.
    """

    def __init__(self, kind: str, name: str | None) -> None:
        scope, taken = current().scope.name, current().resources
        found, n = kind if name is None else name, 0
        while name is None and any(r.startswith(f"{scope}{found}/") for r in taken):
            n += 1
            found = f"{kind}_{n}"
        self.local = found
        self.name = f"{scope}{found}"
        self.defined_at = source_line()
        self.variables: list[Variable] = []

    def __repr__(self) -> str:
        sizes = ", ".join(f"{v.name.removeprefix(self.name + '/')} {v.spec}" for v in self.variables)
        return f"<{type(self).__name__} {self.name}: {sizes or 'no variables'}>"

    def variable(self, name: str, initial: Initial, *, trainable: bool = True) -> Variable:
        """Makes the variable `<name of the layer>/<name>` and lists it; `initial` is as of `af.Variable`."""
        found = Variable(initial, name=f"{self.local}/{name}", trainable=trainable)
        self.variables.append(found)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names the nodes built inside after the layer."""
        with name_scope(self.local):
            yield

    def taken(self, x: Any, shape: Sequence[Dim], dtype: DType, hint: str) -> Tensor:
        """Returns `x` as a tensor whose last axes fit `shape`.

        Raises:
            SpecError: when they can't, or x has another dtype; names the layer and both specs.
        """
        tensor = as_tensor(x)
        if tensor.shape is None:
            fits = True
        else:
            try:
                merge(tensor.shape[-len(shape) :], tuple(shape))
                fits = True
            except SpecError:
                fits = False
        if not fits or tensor.dtype != dtype:
            if fits:
                hint = f'convert x with af.cast, or make the layer with dtype="{tensor.dtype.name}"'
            what = f"takes x (…, {', '.join(map(str, shape))}) {dtype.name}, got {tensor.spec}"
            raise self.refusal(what, hint)
        return tensor

    def ranked(self, x: Tensor) -> tuple[Dim, ...]:
        """Returns the shape of `x`; raises SpecError when its rank is not known."""
        if x.shape is None:
            what = f"needs an x of known rank, got {x.spec}"
            raise self.refusal(what, "say it with af.ensure_shape")
        return x.shape

    def refusal(self, what: str, hint: str | None = None) -> SpecError:
        """Returns the error that says `what` of this layer, at the user's line."""
        message = f"layer {self.name!r} ({type(self).__name__}, made at {self.defined_at}) {what}"
        return SpecError(message, where=Where(defined_at=source_line()), hint=hint)

    def check_positive(self, **sizes: Any) -> None:
        """Raises SpecError unless all sizes are positive integers."""
        for name, size in sizes.items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                what = f"needs a positive integer for {name}, got {size!r}"
                raise self.refusal(what)

    def floating(self, dtype: Any) -> DType:
        """Returns the dtype; raises SpecError unless it is floating."""
        try:
            found = as_dtype(dtype)
        except TypeError as error:
            what = f"needs a floating dtype: {error}"
            raise self.refusal(what) from None
        if not is_floating(found):
            what = f"needs a floating dtype, got {found.name}"
            raise self.refusal(what)
        return found
