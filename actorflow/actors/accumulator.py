"""The actors of conditional accumulators, dense and sparse, and the messages that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow import arrays
from actorflow.actors.accumulation import Accumulation, Taken
from actorflow.actors.answers import Answer
from actorflow.actors.holding import HoldingActor, Written
from actorflow.actors.register import Source
from actorflow.arrays import Array
from actorflow.errors import InternalError, SpecError
from actorflow.spec import Spec, show, sizes
from actorflow.sums import DenseSum, RowSum


@dataclass(frozen=True, slots=True)
class Apply:
    """Node → accumulator: a gradient of `local_step`; answered with whether it was accepted.

    The gradient is an array, or values and indices.
    """

    grad: tuple[Array, ...]
    local_step: Array


@dataclass(frozen=True, slots=True)
class Take:
    """Node → accumulator: the sum or mean of all gradients, once there are `wanted`."""

    wanted: int


@dataclass(frozen=True, slots=True)
class SetStep:
    """Node → accumulator: gradients before `step` are too old; answered with the step."""

    step: Array


@dataclass(frozen=True, slots=True)
class Count:
    """Node → accumulator: how many gradients were accepted since the last take."""


@dataclass(frozen=True, slots=True)
class Step:
    """Node → accumulator: its step."""


class AccumulatorActor(HoldingActor):
    """Owns the gradients of one accumulator, and everyone who waits for them.

    Receives: Apply, Take, SetStep, Count, Step.
    Promise: each accepted gradient is in one result (`actors.accumulation`); a retried one is not added
        again. Gradients are added up in the order in which they come, in place.
    Invariant: the first gradient that is accepted settles the sizes which the spec leaves open.
    """

    what = "accumulator"

    def __init__(self, name: str, spec: Spec, reduction: str) -> None:
        super().__init__(name)
        self.spec = spec
        self.mean = reduction == "mean"
        self.rule = Accumulation(name, self.fresh)

    def fresh(self) -> Any:
        """Returns a sum of nothing."""
        return DenseSum(self.spec.dtype)

    def obey(self, body: Any, who: Any) -> Sequence[Answer]:
        """What the accumulation answers."""
        rule = self.rule
        match body:
            case Apply(grad, local_step):
                settled = self.checked(*grad)
                answers = rule.apply(who, self._number(local_step), *grad)
                if answers[0].value:
                    self.spec = settled
                return answers
            case Take(wanted):
                return rule.take(who, wanted)
            case SetStep(step):
                return rule.set_step(who, self._number(step))
            case Count():
                return [Answer(who, rule.sum.count)]
            case Step():
                return [Answer(who, rule.step)]
        message = f"an accumulator takes no {type(body).__name__}"
        raise InternalError(message)

    def cancelled(self, who: Any) -> Sequence[Answer]:
        """Lets the next go on."""
        return self.rule.cancel(who)

    def given_back(self, taken: Any) -> Sequence[Answer]:
        """Puts the gradients back."""
        return self.rule.give_back(taken)

    def waiting(self) -> Iterable[Any]:
        """Those who take."""
        return [who for who, _ in self.rule.takes]

    def left(self) -> str:
        """How many gradients there are."""
        count = self.rule.sum.count
        return f"gradients ({count})" if count else ""

    def shown(self, value: Any) -> Any:
        """The result of a take."""
        return self.result(value.sum) if type(value) is Taken else super().shown(value)

    def result(self, taken: Any) -> Any:
        """What a node is given of a sum."""
        return taken.result(mean=self.mean)

    def _number(self, step: Array) -> int:
        if step.shape != ():
            message = f"the step of accumulator {self.name!r} is a scalar, got {show(step.shape)}"
            raise SpecError(message)
        return int(arrays.number(step))

    def checked(self, grad: Array) -> Spec:
        """Returns what all later gradients fit; raises SpecError when this one does not fit."""
        if not self.spec.fits(grad.shape, grad.dtype):
            got = f"{show(grad.shape)} {arrays.name_of(grad.dtype)}"
            message = f"a gradient for accumulator {self.name!r} must be {self.spec}, got {got}"
            raise SpecError(message)
        return Spec(grad.shape, grad.dtype)


class SparseAccumulatorActor(AccumulatorActor):
    """Owns gradients of some rows each; they are added up row by row, and taken as (values, indices).

    Receives, promises and fails as AccumulatorActor.
    """

    def __init__(self, name: str, spec: Spec, reduction: str, *, per_index: bool) -> None:
        self.per_index = per_index
        super().__init__(name, spec, reduction)

    def fresh(self) -> Any:
        """Returns a sum of no rows."""
        return RowSum(self.spec.dtype, sizes(self.spec.shape))

    def result(self, taken: Any) -> Any:
        """The values and indices of the rows that occurred."""
        return taken.result(mean=self.mean, per_index=self.per_index)

    def checked(self, *grad: Array) -> Spec:
        """Returns the spec; raises SpecError unless there is a row for each index."""
        values, indices = grad
        wanted = Spec((None, *sizes(self.spec.shape)[1:]), self.spec.dtype)
        if not wanted.fits(values.shape, values.dtype) or indices.shape != values.shape[:1]:
            message = (
                f"a gradient for accumulator {self.name!r} has values {wanted} and an index for each, got "
                f"{show(values.shape)} {arrays.name_of(values.dtype)} and indices {show(indices.shape)}"
            )
            raise SpecError(message)
        return self.spec


FIXED: Mapping[str, Any] = {
    f"{kind}_{verb}": message
    for kind in ("accumulator", "sparse_accumulator")
    for verb, message in (("num_accumulated", Count()), ("global_step", Step()))
}
MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    f"{kind}_take_grad": lambda args, attrs: Take(attrs["num_required"])
    for kind in ("accumulator", "sparse_accumulator")
}


def _apply(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    *grad, local_step = args
    return Written(Apply(tuple(grad), local_step), source, sequence)


def _set_step(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    return Written(SetStep(args[0]), source, sequence)


WRITTEN: Mapping[str, Callable[..., Any]] = {
    f"{kind}_{verb}": made
    for kind in ("accumulator", "sparse_accumulator")
    for verb, made in (("apply_grad", _apply), ("set_global_step", _set_step))
}
