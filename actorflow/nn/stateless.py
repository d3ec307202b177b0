"""Layers without variables: dropout and flatten."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, as_tensor
from actorflow.nn.layer import Layer
from actorflow.ops.array.arrange import flatten
from actorflow.ops.definition.spec_rules import Axis
from actorflow.ops.nn.softmax import dropout
from actorflow.values.checks import is_whole


class Dropout(Layer):
    """Sets a part of the elements to 0 in training, and scales the others; see `af.nn.dropout`.

    Args:
        rate: The part that is dropped.
        whole: Axes whose elements are dropped together, for instance (1, 2) for whole channels.
        seed: Of what is dropped.
        name: Of the layer.

    Shapes:   any, kept
    Raises:   SpecError unless 0 <= rate < 1.
    """

    def __init__(
        self, rate: float, *, whole: Axis = (), seed: int | None = None, name: str | None = None
    ) -> None:
        super().__init__("dropout", name)
        self.check_part("it is the part that is dropped", rate=rate)
        self.check_integers(seed=seed)
        if not _are_axes(whole):
            what = f"needs whole axes as an integer or a tuple of them, got {whole!r:.60}"
            raise self.refusal(what)
        self.rate, self.whole, self.seed = float(rate), whole, seed

    def __call__(self, x: Any, *, training: bool) -> Tensor:
        """Builds the dropout; gives `x` itself when it does not train."""
        self.check_flags(training=training)
        with self.scope():
            return dropout(x, self.rate, training=training, whole=self.whole, seed=self.seed)


def _are_axes(whole: Any) -> bool:
    each = whole if isinstance(whole, tuple | list) else (whole,)
    return all(is_whole(axis, plain=True) for axis in each)


class Flatten(Layer):
    """Joins all axes but the first: images become vectors.

    Shapes:   (n, a, b, c) -> (n, a * b * c); n stays where it is 0 too
    Raises:   SpecError for less than two axes.
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__("flatten", name)

    def __call__(self, x: Any) -> Tensor:
        """Builds the other shape."""
        x = as_tensor(x)
        if x.shape is not None and len(x.shape) < 2:
            what = f"takes x of at least two axes, got {x.spec}"
            raise self.refusal(what)
        with self.scope():
            # Flattened from the second axis on: the first stays though it may be 0, which -1 could not tell.
            return flatten(x, 1)
