"""What all layers share: a name that is free, variables under it, a scope for calls, and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.body import root_of
from actorflow.graph.builder import NO_RETURN, Tensor, as_tensor, name_scope
from actorflow.graph.graph import current
from actorflow.graph.inputs_graph import methods_in_own_graph
from actorflow.ops.state.handle import can_be_called
from actorflow.ops.state.initial_values import Initial
from actorflow.ops.state.variable import Variable
from actorflow.runtime.call_site import source_line
from actorflow.runtime.name_hints import check_keywords
from actorflow.values.arrays import DType, as_dtype, is_floating, name_of
from actorflow.values.checks import is_whole, number
from actorflow.values.conv_shapes import is_channels_first, to_channels_last
from actorflow.values.spec import Dim, Spec, merge, show


class Layer:
    """A named set of variables, and what to compute with them. Subclass it for a layer of your own.

    A subclass makes its variables in `__init__` with `variable`, and builds ops in `__call__` inside
    `with self.scope():`. A call that differs in training has a keyword argument `training`.

    Attributes:
        name: The full name, name scopes included; those of its variables begin with it.
        defined_at: The source line that made the layer.
        graph: The graph of its variables.
        variables: Its variables, those of layers inside it as well, in the order in which they were made.

    Args:
        kind: What it is called without a name: `kind`, or `kind_1` … when variables have that name.
        name: The name inside the current name scope.
    """

    def __init__(self, kind: str, name: str | None) -> None:
        # Scopes and resources of the graph that is built now.
        scope, taken = current().scope.name, current().resources
        given: Any = name
        # Until the name is found, errors call the layer by its kind.
        self.local = self.name = kind
        self.defined_at = source_line()
        if given is not None and (not isinstance(given, str) or not given):
            what = f"needs a name that is a text and not empty, got {_show(name)}"
            raise self.refusal(what)
        found, n = kind if name is None else name, 0
        # By the variables that are there: a layer without variables takes no name away.
        while name is None and any(r.startswith(f"{scope}{found}/") for r in taken):
            n += 1
            found = f"{kind}_{n}"
        self.local = found
        self.name = f"{scope}{found}"
        self.variables: list[Variable] = []
        self.graph = root_of(current())

    def __init_subclass__(cls, **settings: Any) -> None:
        """Has calls build into the layer's graph where none is open, and refuse unknown arguments by name."""
        super().__init_subclass__(**settings)
        for name in ("__init__", "__call__"):
            # Of this class alone: what is inherited has been wrapped there.
            if name in vars(cls):
                # ORDER: keywords first, innermost: `methods_in_own_graph` wraps what is checked.
                setattr(cls, name, check_keywords(cls.__name__)(vars(cls)[name]))
        methods_in_own_graph(cls)

    @property
    def trainable(self) -> list[Variable]:
        """Those of its variables that are trained where nobody says what is, in their order."""
        return [v for v in self.variables if v.definition.is_trained]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{v.name.removeprefix(self.name + '/')} {v.spec}" for v in self.variables)
        return f"<{type(self).__name__} {self.name}: {sizes or 'no variables'}>"

    def variable(self, name: str, initial: Initial, *, trainable: bool = True) -> Variable:
        """Makes the variable `<name of the layer>/<name>` and lists it; `initial` is as of `af.Variable`."""
        found = Variable(initial, name=f"{self.local}/{name}", trainable=trainable)
        self.variables.append(found)
        return found

    def add_variable(
        self, name: str, make: Any, shape: Sequence[int], dtype: DType, argument: str
    ) -> Variable:
        """Makes the variable `name` of that spec with the values that the initialiser `make` gives.

        Raises:
            SpecError: when the `argument` of the layer that it was is no initialiser.
        """
        own = "for values of your own: lambda shape, dtype: array"
        if not callable(make):
            what = f"takes {argument} as an initialiser, for instance af.init.he, got {_show(make)}"
            raise self.refusal(what, own)
        # By its signature: what it raises when it is called is its own.
        if not can_be_called(make, tuple(shape), dtype):
            what = f"takes {argument} as an initialiser, a function of shape and dtype, got {_show(make)}"
            raise self.refusal(what, own)
        # An initialiser builds nothing yet; `Variable` does.
        initial = make(tuple(shape), dtype)
        if initial is None:
            what = f"takes {argument} as an initialiser, got {_show(make)}, which gives None"
            raise self.refusal(what, NO_RETURN)
        # An initialiser's maker without its parameters: af.init.normal for af.init.normal().
        if callable(initial) and not hasattr(initial, "build") and not can_be_called(initial):
            what = f"takes {argument} as an initialiser, got {_show(make)}, which gives {_show(initial)}"
            raise self.refusal(what, "call it with its parameters first, for instance af.init.normal()")
        wanted = Spec(tuple(shape), dtype)
        found = self.variable(name, initial)
        # A function of the user's may give another shape or dtype.
        if found.spec != wanted:
            what = f"takes {argument} that give {name} {wanted}, got {found.spec}"
            raise self.refusal(what)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names the nodes built inside after the layer."""
        with name_scope(self.local):
            yield

    def check_input(self, x: Any, shape: Sequence[Dim], dtype: DType, hint: str) -> Tensor:
        """Returns `x` as a tensor whose last axes fit `shape`.

        Raises:
            SpecError: when they can't, or x has another dtype; names the layer and both specs.
        """
        tensor = as_tensor(x)
        # Unknown ranks are looked at in the step.
        if tensor.shape is None:
            fits = True
        else:
            try:
                # Of the last axes; those before them may be any.
                merge(tensor.shape[-len(shape) :], tuple(shape))
                fits = True
            except SpecError:
                fits = False
        if not fits or tensor.dtype != dtype:
            if fits:
                hint = _conversion(tensor.dtype)
            # The number that is missing at the end stands at the second axis.
            elif is_channels_first(tensor.shape, shape[-1]):
                hint = f"this looks like channels first; {to_channels_last(tensor.shape)}"
            what = f"takes x (…, {', '.join(map(str, shape))}) {dtype.name}, got {tensor.spec}"
            raise self.refusal(what, hint)
        return tensor

    def check_rank(self, x: Tensor) -> tuple[Dim, ...]:
        """Returns the shape of `x`; raises SpecError when its rank is not known."""
        if x.shape is None:
            what = f"needs an x of known rank, got {x.spec}"
            raise self.refusal(what, "say it with af.arrays.ensure_shape")
        return x.shape

    def refusal(self, what: str, hint: str | None = None) -> SpecError:
        """Returns the error that says `what` of this layer, at the user's line."""
        message = f"layer {self.name!r} ({type(self).__name__}, made at {self.defined_at}) {what}"
        return SpecError(message, where=Where(defined_at=source_line()), hint=hint)

    def check_positive(self, **sizes: Any) -> None:
        """Raises SpecError unless all sizes are positive integers."""
        for name, size in sizes.items():
            if not is_whole(size, 1, plain=True):
                what = f"needs a positive integer for {name}, got {_show(size)}"
                raise self.refusal(what)

    def check_flags(self, **flags: Any) -> None:
        """Raises SpecError unless all are True or False: what is written "no" would count as True."""
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                what = f"takes {name}=True or {name}=False, got {_show(flag)}"
                raise self.refusal(what)

    def check_part(self, hint: str, **parts: Any) -> None:
        """Raises SpecError unless all are numbers from 0 up to, and without, 1."""
        for name, part in parts.items():
            if not 0 <= number(part) < 1:
                what = f"needs a {name} in [0, 1), got {_show(part)}"
                raise self.refusal(what, hint)

    def check_not_negative(self, **numbers: Any) -> None:
        """Raises SpecError unless all are finite numbers, 0 or above."""
        for name, given in numbers.items():
            if not 0 <= number(given) < inf:
                what = f"needs a finite {name} of at least 0, got {_show(given)}"
                raise self.refusal(what)

    def check_integers(self, **integers: Any) -> None:
        """Raises SpecError unless all are integers, or None for a choice that is left open."""
        for name, given in integers.items():
            if given is not None and not is_whole(given, plain=True):
                what = f"needs an integer or None for {name}, got {_show(given)}"
                raise self.refusal(what)

    def floating(self, dtype: Any) -> DType:
        """Returns the dtype; raises SpecError unless it is floating."""
        if dtype is None:
            raise self.refusal("needs a floating dtype, got None")
        try:
            found = as_dtype(dtype)
        except TypeError as error:
            what = f"needs a floating dtype: {error}"
            raise self.refusal(what) from None
        if not is_floating(found):
            what = f"needs a floating dtype, got {name_of(found)}"
            raise self.refusal(what)
        return found


def _conversion(dtype: DType) -> str:
    """What to try when x has the right shape and another dtype."""
    if dtype.kind == "O":
        return "make numbers of bytes first, with af.strings.to_number or af.io.decode_raw"
    if is_floating(dtype):
        return f'convert x with af.cast, or make the layer with dtype="{dtype.name}"'
    return "convert x with af.cast"


def _show(value: Any) -> str:
    """A value as errors show it: arrays by their shape, functions by their name."""
    # Arrays would fill the message with numbers.
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{type(value).__name__} {show(value.shape)}"
    if callable(value):
        return f"{type(value).__name__} {getattr(value, '__qualname__', repr(value))}"
    # Errors are of one line, and what a value prints as may have several.
    return " ".join(f"{value!r:.60}".split())
