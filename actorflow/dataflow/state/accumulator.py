"""The actors of conditional accumulators, dense and sparse, and the messages that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.accumulator_rule import AccumulatedGradients, AccumulatorRule
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import ResourceActor, WriteOnce
from actorflow.errors import InternalError, SpecError
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.gradient_sum import DenseGradientSum, SparseGradientSum
from actorflow.values.spec import Spec, show, sizes


@dataclass(frozen=True, slots=True)
class ApplyGradient:
    """Node → accumulator: a gradient of `local_step`; answered with whether it was accepted.

    The gradient is an array, or values and indices.
    """

    grad: tuple[Array, ...]
    local_step: Array


@dataclass(frozen=True, slots=True)
class TakeGradient:
    """Node → accumulator: the sum or mean of all gradients, once there are `wanted`."""

    wanted: int


@dataclass(frozen=True, slots=True)
class SetAccumulatorStep:
    """Node → accumulator: gradients before `step` are too old; answered with the step."""

    step: Array


@dataclass(frozen=True, slots=True)
class CountGradients:
    """Node → accumulator: how many gradients were accepted since the last take."""


@dataclass(frozen=True, slots=True)
class ReadAccumulatorStep:
    """Node → accumulator: its step."""


class AccumulatorActor(ResourceActor):
    """Owns the gradients of one accumulator, and everyone who waits for them.

    Receives: ApplyGradient, TakeGradient, SetAccumulatorStep, CountGradients, ReadAccumulatorStep.
    Promise: each accepted gradient is in one result (`dataflow.state.accumulator_rule`); a retried one is not
        added again. Gradients are added up in the order in which they come, in place.
    Invariant: the first gradient that is accepted settles the sizes which the spec leaves open.
    """

    what = "accumulator"

    def __init__(self, name: str, spec: Spec, reduction: str) -> None:
        super().__init__(name)
        self.spec = spec
        self.mean = reduction == "mean"
        self.rule_state = AccumulatorRule(name, self.fresh)

    def fresh(self) -> Any:
        """Returns a sum of nothing."""
        return DenseGradientSum(self.spec.dtype)

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the rule answers."""
        rule = self.rule_state
        match body:
            case ApplyGradient(grad, local_step):
                settled = self.check(*grad)
                answers = rule.apply(who, self._number(local_step), *grad)
                if answers[0].value:
                    self.spec = settled
                return answers
            case TakeGradient(wanted):
                return rule.take(who, wanted)
            case SetAccumulatorStep(step):
                return rule.set_step(who, self._number(step))
            case CountGradients():
                return [Replied(who, rule.sum.count)]
            case ReadAccumulatorStep():
                return [Replied(who, rule.step)]
        message = f"an accumulator takes no {type(body).__name__}"
        raise InternalError(message)

    def cancelled(self, who: Any) -> Sequence[Replied]:
        """Lets the next go on."""
        return self.rule_state.cancel(who)

    def take_back(self, taken: Any) -> Sequence[Replied]:
        """Puts the gradients back."""
        return self.rule_state.give_back(taken)

    def waiting(self) -> Iterable[Any]:
        """Those who take."""
        return [who for who, _ in self.rule_state.takes]

    def describe_contents(self) -> str:
        """How many gradients there are."""
        count = self.rule_state.sum.count
        return f"gradients ({count})" if count else ""

    def outputs_of(self, value: Any) -> Any:
        """The result of a take."""
        return self.result(value.sum) if type(value) is AccumulatedGradients else super().outputs_of(value)

    def result(self, taken: Any) -> Any:
        """What a node is given of a sum."""
        return taken.result(mean=self.mean)

    def _number(self, step: Array) -> int:
        if step.shape != ():
            message = f"the step of accumulator {self.name!r} is a scalar, got {show(step.shape)}"
            raise SpecError(message)
        return int(arrays.number(step))

    def check(self, grad: Array) -> Spec:
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
        return SparseGradientSum(self.spec.dtype, sizes(self.spec.shape))

    def result(self, taken: Any) -> Any:
        """The values and indices of the rows that occurred."""
        return taken.result(mean=self.mean, per_index=self.per_index)

    def check(self, *grad: Array) -> Spec:
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
    for verb, message in (("num_accumulated", CountGradients()), ("global_step", ReadAccumulatorStep()))
}
MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    f"{kind}_take_grad": lambda args, attrs: TakeGradient(attrs["num_required"])
    for kind in ("accumulator", "sparse_accumulator")
}


def _apply(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    *grad, local_step = args
    return WriteOnce(ApplyGradient(tuple(grad), local_step), source, sequence)


def _set_step(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(SetAccumulatorStep(args[0]), source, sequence)


WRITTEN: Mapping[str, Callable[..., Any]] = {
    f"{kind}_{verb}": made
    for kind in ("accumulator", "sparse_accumulator")
    for verb, made in (("apply_grad", _apply), ("set_global_step", _set_step))
}
