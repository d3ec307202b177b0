"""The program that users hand over to be trained: a graph, what to fetch, and where batches come from."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actorflow.errors import ProgramError, SpecError, show_value
from actorflow.graph.body import elsewhere
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.training.batches import Source
from actorflow.values.checks import is_whole
from actorflow.values.spec import show

Scores = Mapping[str, float]
"""What an evaluation found, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What `actorflow train FILE` trains: the value of the file's `build(seed)`.

    Attributes:
        graph: The graph, built with `Graph(seed=seed)`.
        loss: A scalar tensor, fetched at every step and shown.
        train: What to fetch for its effect: the update from `minimize`.
        batches: Epoch (0, 1, …) → the feeds of its steps, in order: a pipeline of `af.data` whose
            elements are dicts by the name of a placeholder, which is opened and left; or any iterable
            of mappings. Where they have a length, the time left is known from the first step on.
        epochs: How often to go through the batches, unless the caller says otherwise.
        metrics: More scalar tensors to fetch at every step and show, by name.
        evaluate: Called with the session after every epoch; returns scores by name, on data held out
            for choosing between programs. Time spent there is not training time.
        test: Called with the session once, after the last epoch, so that the test set is read once;
            returns scores by name. A run that fails or is stopped does not test.
        actors: Called with the `af.types.Process` in every process of a cluster, each time one begins, before
            it is of the cluster: spawns there what `cluster.ref("worker0/NAME")` finds. A plain function.
    """

    graph: Graph
    loss: Tensor
    train: Any
    batches: Callable[[int], Source]
    epochs: int
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    evaluate: Callable[[Any], Awaitable[Scores]] | None = None
    test: Callable[[Any], Awaitable[Scores]] | None = None
    actors: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        _check_program(self)
        scalars: dict[str, Any] = {"loss": self.loss, **self.metrics}
        for name, tensor in scalars.items():
            if not isinstance(tensor, Tensor):
                message = f"{name} must be a tensor of the program's graph, got {tensor!r}"
                raise ProgramError(message)
            if tensor.graph is not self.graph:
                why, hint = elsewhere(tensor.graph, self.graph)
                message = f"{name} must be a tensor of the program's graph, {tensor!r} {why}"
                raise ProgramError(message, where=tensor.node.where, hint=hint)
            if tensor.shape != ():
                message = f"{name} must be a scalar, got shape {show(tensor.shape)}"
                raise SpecError(message, where=tensor.node.where, hint="take its mean")


def _check_program(program: Any) -> None:
    """Raises ProgramError for what a program file easily gets wrong, before a step has run."""
    if not is_whole(program.epochs, 1, plain=True):
        message = f"a program trains for at least one epoch, got {program.epochs!r}"
        raise ProgramError(message)
    if program.train is None:
        message = "train must be what to fetch for an update, got None"
        raise ProgramError(message, hint="pass what minimize(...) returned")
    for name in ("batches", "evaluate", "test"):
        function = getattr(program, name)
        if not callable(function) and (function is not None or name == "batches"):
            message = f"{name} must be a function, got {function!r:.60}"
            raise ProgramError(message)
    if program.actors is not None:
        _check_actors(program.actors)


def _check_actors(actors: Any) -> None:
    """Raises ProgramError for what could not be called in every process."""
    hint = "def actors(process): process.spawn(Echo, name='echo')"
    if not callable(actors) or isinstance(actors, type):
        message = f"actors must be a function, got {show_value(actors)}"
        raise ProgramError(message, hint=hint)
    if inspect.iscoroutinefunction(actors):
        message = "actors must be a plain function, got an async one"
        raise ProgramError(message, hint=f"{hint}; what has to wait belongs into on_start of an actor")
    signature = inspect.signature(actors)
    try:
        signature.bind(None)
    except TypeError as error:
        message = f"actors must take one argument, the process, got actors{signature}: {error}"
        raise ProgramError(message, hint=hint) from None
