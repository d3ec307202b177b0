"""One layer after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

from actorflow.graph.builder import NO_RETURN, Tensor, as_tensor
from actorflow.nn.layer import Layer


class Sequential(Layer):
    """Calls layers and functions of one tensor one after the other; its variables are theirs.

    What it is called with as `training` it hands on to those that have an argument of that name.

    Args:
        layers: Layers, or functions like `af.nn.relu`.
        name: Of the name scope of its calls; its layers keep their own names.

    Shapes:   that of the first -> that of the last
    Raises:   SpecError when a layer needs to know whether it trains, and the call does not say so.

    >>> with af.Graph():
    ...     network = af.nn.Sequential([af.nn.Dense(4, 8), af.nn.relu, af.nn.Dense(8, 2)])
    ...     network(af.placeholder("float32", (None, 4), name="x"))
    <Tensor sequential/dense_1/add:0 (None, 2) float32>
    """

    def __init__(self, layers: Sequence[Callable[..., Tensor]], *, name: str | None = None) -> None:
        super().__init__("sequential", name)
        many: Any = layers
        if not isinstance(many, tuple | list):
            what = f"takes a list of layers and functions, got {layers!r:.60}"
            raise self.refusal(what)
        self.layers = list(layers)
        for layer in self.layers:
            given: Any = layer
            if not callable(given):
                what = f"takes layers and functions, got {layer!r:.60}"
                raise self.refusal(what)
        self._train = [_trains(layer) for layer in self.layers]
        listed = [v for layer in self.layers for v in getattr(layer, "variables", ())]
        self.variables = list({v.name: v for v in listed}.values())  # a layer that comes twice is listed once

    def __call__(self, x: Any, *, training: bool | None = None) -> Tensor:
        """Builds all of them; see the class."""
        if training is not None:
            self.check_flags(training=training)
        found = as_tensor(x)
        with self.scope():
            for layer, train in zip(self.layers, self._train, strict=True):
                # One that has a default may be left to it.
                if train is not None and training is None and train.default is Parameter.empty:
                    what = f"needs to know whether it trains, for {_name_of(layer)!r} inside it does"
                    raise self.refusal(what, "pass training=True or training=False")
                # Told only who asks for it: functions such as relu take no such argument.
                told = {} if train is None or training is None else {"training": training}
                found = layer(found, **told)
                given: Any = found
                if given is None:
                    what = f"takes layers and functions that return a tensor, got None of {_name_of(layer)!r}"
                    raise self.refusal(what, NO_RETURN)
        return found


def _name_of(layer: Callable[..., Tensor]) -> str:
    """The name of a layer or a function, in an error."""
    return str(getattr(layer, "name", None) or getattr(layer, "__name__", repr(layer)))


def _trains(layer: Callable[..., Tensor]) -> Parameter | None:
    """The argument of a layer that says whether it trains, None when it has none."""
    try:
        return signature(layer).parameters.get("training")
    except (TypeError, ValueError):  # of a function written in C nothing is known, and it has none
        return None
